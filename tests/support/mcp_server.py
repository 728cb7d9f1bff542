"""A small MCP server on standard input and output, with no library at all, that a test can change.

python mcp_server.py '{"tools": [{"name", "description", "inputSchema"}], "answer": "text" | "flood": true}'
"""

import json
import sys

script = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        about = {"name": "scripted", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    elif asked["method"] == "tools/list":
        result = {"tools": script["tools"]}
    elif script.get("flood"):
        while True:
            sys.stdout.write("x" * 1_000_000)
    else:
        text = script.get("answer", json.dumps(asked["params"]["arguments"]))
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
