"""Tools of MCP servers: strangers with a contract. The library is imported when a configured server is first asked."""
