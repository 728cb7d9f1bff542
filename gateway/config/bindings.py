"""Which workspace, agent, model and rules hold in a place: pure look-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.config.model import (
    AgentSection,
    ApprovalsSection,
    BindingSection,
    Config,
    LimitsSection,
    Policy,
    WorkspaceSection,
)

DEFAULT_AGENT = AgentSection(name="default")
"""The agent of a configuration that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What holds in a place, with every default filled in.

    `models` are the names of the model and of its fallbacks, in the order in which they are tried.
    `approval_timeout_seconds` is None where an approval stays open for ever; a limit of 0 is no limit.
    """

    workspace: WorkspaceSection
    agent: AgentSection
    models: tuple[str, ...]
    approval_default: Policy
    approval_tools: Mapping[str, Policy]
    approval_timeout_seconds: int | None
    four_eyes: bool
    scope: Literal["shared", "per_person"]
    listen: Literal["mention", "all"]
    network: Literal["none", "host"]
    usd_per_session: float
    usd_per_day: float
    place: tuple[str | None, str | None, str | None] = (None, None, None)

    @property
    def key(self) -> str:
        """The place as one text, under which its spending is counted."""
        return "/".join(part or "*" for part in self.place)


def binding_for(config: Config, *, platform: str, chat: str, thread: str | None) -> Binding:
    """The binding of a place: the most exact entry of [[bindings]], or the defaults.

    LookupError while the configuration has no workspace or no model; `obstacles` says so before anything starts.
    """
    entry = max(
        (one for one in config.bindings if _covers(one, (platform, chat, thread))),
        key=lambda one: sum(part is not None for part in one.place),
        default=BindingSection(),
    )
    return _filled(entry, config)


def _covers(entry: BindingSection, place: tuple[str, str, str | None]) -> bool:
    return all(wanted is None or wanted == actual for wanted, actual in zip(entry.place, place, strict=True))


def _filled(entry: BindingSection, config: Config) -> Binding:
    workspace = config.workspace(entry.workspace) if entry.workspace else next(iter(config.workspaces), None)
    model = entry.model or next((one.name for one in config.models), None)
    if workspace is None or model is None:
        raise LookupError("the configuration has no workspace or no model")
    agent = config.agent(entry.agent) if entry.agent else next(iter(config.agents), None)
    approvals = _approvals(entry, config.approvals)
    limits = _limits(entry, config.limits)
    return Binding(
        workspace=workspace,
        agent=agent or DEFAULT_AGENT,
        models=tuple(dict.fromkeys((model, *entry.fallback))),
        approval_default=approvals.default,
        approval_tools=approvals.tools,
        approval_timeout_seconds=approvals.timeout_seconds or None,
        four_eyes=approvals.four_eyes,
        scope=entry.scope,
        listen=entry.listen,
        network=entry.network,
        usd_per_session=limits.usd_per_session,
        usd_per_day=limits.usd_per_day,
        place=entry.place,
    )


def _approvals(entry: BindingSection, general: ApprovalsSection) -> ApprovalsSection:
    own = entry.approvals.model_dump(exclude_none=True)
    return general.model_copy(update=own | {"tools": {**general.tools, **entry.approvals.tools}})


def _limits(entry: BindingSection, general: LimitsSection) -> LimitsSection:
    return general.model_copy(update=entry.limits.model_dump(exclude_none=True))
