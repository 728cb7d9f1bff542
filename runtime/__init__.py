"""Durable agent sessions: they survive `kill -9` at any instant, and know no chat platform."""

from runtime import errors
from runtime.clock import Clock, SystemClock
from runtime.config import AgentConfig, SessionLimits, SpendLimits
from runtime.host import Limits, Runtime, SessionStatus
from runtime.middleware import Middleware
from runtime.models.base import Model, ModelReply, ModelRequest, ModelRouter
from runtime.policy import ApprovalPolicy
from runtime.protocol import events, ops
from runtime.session.agent import Agent, create_agent
from runtime.store.base import CheckpointStore
from runtime.tools.base import Tool, ToolContext, ToolOutput, Workspace, tool

__all__ = [
    "Agent",
    "AgentConfig",
    "ApprovalPolicy",
    "CheckpointStore",
    "Clock",
    "Limits",
    "Middleware",
    "Model",
    "ModelReply",
    "ModelRequest",
    "ModelRouter",
    "Runtime",
    "SessionLimits",
    "SessionStatus",
    "SpendLimits",
    "SystemClock",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Workspace",
    "create_agent",
    "errors",
    "events",
    "ops",
    "tool",
]
