"""What a tool is, and how to make one from a function."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import msgspec

from runtime.errors import ToolError
from runtime.protocol.approvals import Action
from runtime.protocol.context import JsonValue, ToolCall

if TYPE_CHECKING:  # pydantic costs most of what an import of the runtime may cost; only typed functions need it
    from pydantic import BaseModel

JsonSchema: TypeAlias = Mapping[str, JsonValue]
Approval: TypeAlias = Literal["never", "policy", "always"]
Replay: TypeAlias = Literal["unsafe", "safe", "by_key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folder that a session's tools may touch."""

    id: str
    label: str
    path: Path
    network: Literal["none", "host"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running call may know. `cancel` is set when a person stops the turn."""

    session_id: str
    turn_id: str
    call_id: str
    workspace: Workspace | None = None
    idempotency_key: str = ""
    origin: str | None = None
    principal: str | None = None
    cancel: asyncio.Event = field(default_factory=asyncio.Event, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The result of a call: `text` for the model."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: JsonSchema


class Tool(ABC):
    """One thing that an agent can do.

    `approval`: `policy` follows the session's policy, `never` runs freely, `always` asks whatever the policy allows.
    `replay`: what may happen to a call whose result a crash swallowed: `unsafe` is never run again, `safe` may be,
    `by_key` may be, under the same idempotency key. `timeout_seconds` does not count time spent waiting for a person.
    """

    name: ClassVar[str] | str
    description: ClassVar[str] | str = ""
    parameters: JsonSchema | type[BaseModel]
    approval: Approval = "policy"
    replay: Replay = "unsafe"
    high_risk: bool = False
    parallel: bool = False
    cancel_on_input: bool = False
    timeout_seconds: float | None = None
    question: ClassVar[bool] = False
    """Whether a person's decision on a call is its answer: it is asked by itself."""

    @abstractmethod
    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput | str:
        """Do it, once. ToolError tells the model what was wrong; any other error is reported as a failure."""

    def edit(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments as a person's decision changed them, checked; ToolError says what is wrong with them."""
        return self.validate(call)

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """One redacted line of at most 80 characters, for shared places. Never the raw arguments."""
        return ""

    def action(self, arguments: Mapping[str, Any], context: ToolContext) -> Action:
        """Everything that defines what would run: what the digest and the approval card are made of."""
        workspace = context.workspace
        return Action(
            tool=self.name,
            schema_hash=schema_hash(self),
            arguments=dict(arguments),
            workspace_id=workspace.id if workspace else None,
            network=workspace.network if workspace else "none",
            timeout_seconds=self.timeout_seconds,
            session_id=context.session_id,
            turn_id=context.turn_id,
            requester=context.principal,
        )

    def schema(self) -> JsonSchema:
        """The JSON schema of the arguments."""
        if isinstance(self.parameters, type):
            return cast(JsonSchema, self.parameters.model_json_schema())
        return self.parameters

    def spec(self) -> ToolSpec:
        """What a model is told."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.schema())

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments, checked and with defaults filled in; ToolError says what is wrong with them."""
        if not isinstance(self.parameters, type):
            return _validate_by_schema(self.parameters, call)
        from pydantic import ValidationError

        try:
            return cast(
                "Mapping[str, JsonValue]", self.parameters.model_validate(dict(call.arguments)).model_dump(mode="json")
            )
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "arguments"
            raise ToolError(f"{call.name}: {where}: {first['msg']}") from None


def schema_hash(tool: Tool) -> str:
    """Short hash of name, description and schema: a tool that changed is another tool."""
    material = msgspec.json.encode(
        [tool.name, tool.description, msgspec.to_builtins(tool.schema())], order="deterministic"
    )
    return hashlib.sha256(material).hexdigest()[:16]


def _validate_by_schema(schema: JsonSchema, call: ToolCall) -> Mapping[str, JsonValue]:
    required = cast("list[str]", schema.get("required") or [])
    missing = [name for name in required if name not in call.arguments]
    if missing:
        raise ToolError(f"{call.name}: missing argument {missing[0]!r}")
    properties = schema.get("properties")
    if isinstance(properties, dict) and schema.get("additionalProperties") is False:
        unknown = [name for name in call.arguments if name not in properties]
        if unknown:
            raise ToolError(f"{call.name}: unknown argument {unknown[0]!r}")
    return dict(call.arguments)


class FunctionTool(Tool):
    """A tool made from a typed async function; see `tool`."""

    def __init__(self, function: Callable[..., Awaitable[ToolOutput | str]], **options: Any) -> None:
        self._function = function
        self._wants_context = "context" in inspect.signature(function).parameters
        self.name = options.pop("name", None) or function.__name__
        self.description = inspect.getdoc(function) or ""
        self.parameters = _model_of(function)
        for key, value in options.items():
            setattr(self, key, value)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput | str:
        """Call the function with the arguments, and with the context if it asks for it."""
        extra = {"context": context} if self._wants_context else {}
        return await self._function(**arguments, **extra)


def _model_of(function: Callable[..., Any]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {}
    hints = inspect.get_annotations(function, eval_str=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "context":
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (hints.get(name, Any), default)
    return create_model(f"{function.__name__}_arguments", __config__=ConfigDict(extra="forbid"), **fields)


def tool(
    *,
    name: str | None = None,
    approval: Approval = "policy",
    replay: Replay = "unsafe",
    high_risk: bool = False,
    parallel: bool = False,
    cancel_on_input: bool = False,
    timeout_seconds: float | None = None,
) -> Callable[[Callable[..., Awaitable[ToolOutput | str]]], FunctionTool]:
    """Make a tool from a typed async function: its docstring is the description, its parameters the schema."""

    def make(function: Callable[..., Awaitable[ToolOutput | str]]) -> FunctionTool:
        return FunctionTool(
            function,
            name=name,
            approval=approval,
            replay=replay,
            high_risk=high_risk,
            parallel=parallel,
            cancel_on_input=cancel_on_input,
            timeout_seconds=timeout_seconds,
        )

    return make
