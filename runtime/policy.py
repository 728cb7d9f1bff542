"""Who has to be asked before a tool runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

Rule: TypeAlias = Literal["ask", "allow", "deny"]


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """`default` for every tool that `tools` does not name. A tool that always asks is never allowed by a policy."""

    default: Rule = "ask"
    tools: Mapping[str, Rule] = field(default_factory=dict[str, Rule])

    ASK: ClassVar[ApprovalPolicy]
    ALLOW: ClassVar[ApprovalPolicy]
    DENY: ClassVar[ApprovalPolicy]

    def rule(self, tool: str) -> Rule:
        """The rule for the tool of that name."""
        return self.tools.get(tool, self.default)


ApprovalPolicy.ASK = ApprovalPolicy("ask")
ApprovalPolicy.ALLOW = ApprovalPolicy("allow")
ApprovalPolicy.DENY = ApprovalPolicy("deny")
