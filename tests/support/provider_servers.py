"""Loopback servers with the scripts of `model_server` that speak Anthropic's and Google's wire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

from tests.support.model_server import ModelServer, Reply, pieces, words_of


class AnthropicServer(ModelServer):
    """Anthropic's messages (https://docs.anthropic.com/en/api/messages-streaming)."""

    path = ""
    first_words = 3

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """The messages, with or without the beta's query."""
        router.add_post("/v1/messages", self._chat)

    def last_message(self, body: dict[str, Any]) -> tuple[str, str]:
        """A result of a tool is a block in a user's message here."""
        content = body["messages"][-1]["content"]
        if not isinstance(content, str) and any(block["type"] == "tool_result" for block in content):
            return "tool", " ".join(words_of(block.get("content")) for block in content)
        return "user", words_of(content)

    def error(self, reply: Reply) -> Any:
        """`{"type": "error", "error": {"type", "message"}}`."""
        assert reply.error is not None
        return {"type": "error", "error": {"type": reply.error["code"] or "api_error", **_message(reply.error)}}

    def events(self, body: dict[str, Any], reply: Reply) -> list[bytes]:
        """Named events: one message of blocks, each with a start, deltas and a stop."""
        usage = {"input_tokens": 11, "output_tokens": 1, **dict(reply.usage or {})}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        events = [{"type": "message_start", "message": message}, {"type": "ping"}]
        for index, (start, deltas) in enumerate(_blocks(reply)):
            events.append({"type": "content_block_start", "index": index, "content_block": start})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        if reply.stream_error is not None:
            events.append({"type": "error", "error": dict(reply.stream_error)})
        elif reply.finish is not None:
            reason = reply.finish or ("tool_use" if reply.calls else "end_turn")
            delta = {"stop_reason": reason, "stop_sequence": None}
            events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
            events.append({"type": "message_stop"})
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if reply.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thinking, reply.piece)]
        signature = {"type": "signature_delta", "signature": "c2lnbmVk"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
    if reply.text:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in pieces(reply.text, reply.piece)],
        )
    for call in reply.calls:
        start = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
        cut = pieces(_arguments(call), reply.piece)
        yield start, [{"type": "input_json_delta", "partial_json": piece} for piece in cut]


class GoogleServer(ModelServer):
    """Google's Gemini API (https://ai.google.dev/api/generate-content)."""

    path = ""
    first_words = 0

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """The method stands behind the model's name."""
        router.add_post("/v1beta/models/{call}", self._chat)

    def last_message(self, body: dict[str, Any]) -> tuple[str, str]:
        """A result of a tool is a part in a user's content here."""
        parts = body["contents"][-1]["parts"]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if responses:
            return "tool", " ".join(json.dumps(response["response"]) for response in responses)
        return "user", words_of(parts)

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        """By the method's name."""
        return request.match_info["call"].endswith(":streamGenerateContent")

    def error(self, reply: Reply) -> Any:
        """`{"error": {"code", "message", "status", "details"}}`."""
        assert reply.error is not None
        error = {"code": reply.status, **_message(reply.error), "status": reply.error["code"] or "UNKNOWN"}
        return {"error": error | ({"details": reply.error["details"]} if "details" in reply.error else {})}

    def events(self, body: dict[str, Any], reply: Reply) -> list[bytes]:
        """Chunks of the whole response; a call comes in one piece."""
        parts: list[dict[str, Any]] = [
            {"text": piece, "thought": True} for piece in pieces(reply.thinking, reply.piece)
        ]
        parts += [{"text": piece} for piece in pieces(reply.text, reply.piece)]
        for call in reply.calls:
            named = {"name": call["name"], "args": json.loads(_arguments(call))}
            parts.append({"functionCall": named, "thoughtSignature": "c2lnbmVk"})
        chunks: list[dict[str, Any]] = [_candidate({"content": {"role": "model", "parts": [part]}}) for part in parts]
        if reply.stream_error is not None:
            chunks.append({"error": dict(reply.stream_error)})
        elif reply.finish is not None:
            chunks.append(_candidate({"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}))
            if reply.finish:
                chunks[-1]["candidates"][0]["finishReason"] = reply.finish
        if reply.usage is not None:
            counts = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18, **dict(reply.usage)}
            chunks[-1]["usageMetadata"] = counts
        return [f"data: {json.dumps(chunk)}\r\n\r\n".encode() for chunk in chunks]


def _candidate(fields: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"index": 0, **fields}], "modelVersion": "gemini"}


def _arguments(call: Mapping[str, Any]) -> str:
    return call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"])


def _message(error: Mapping[str, Any]) -> dict[str, Any]:
    return {"message": error["message"]}
