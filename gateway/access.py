"""Who may do what: one policy object, and one choke point for everything that arrives.

`authorize` is the only maker of `Authorized`, and nothing behind the door takes anything else. It looks at the policy
and at the platform's own word on the sender, at no name, no text and nothing that has to be waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from adapters.contract import Inbound, InboundKind, Place, Sender, SenderKind


class Right(StrEnum):
    """What a person may do. None implies another; the lists of the configuration give several at once."""

    TALK = "talk"
    STEER = "steer"
    STOP = "stop"
    COMMAND = "command"
    APPROVE = "approve"
    ADMIN = "admin"


NO_RIGHTS: frozenset[Right] = frozenset()
USER_RIGHTS = frozenset({Right.TALK, Right.STEER, Right.STOP, Right.COMMAND})
APPROVER_RIGHTS = USER_RIGHTS | {Right.APPROVE}
OWNER_RIGHTS = APPROVER_RIGHTS | {Right.ADMIN}

PLATFORM = "platform"
"""Principal of what the platform itself reports about one of our places; it has no right."""

MANY_PEOPLE = frozenset({"telegram:1087968824", "telegram:777000", "telegram:136817688"})
"""Telegram accounts that stand for many people (anonymous administrators, linked channels, channel identities): they
are nobody, even where a list names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rights at one moment. Never changed: a reload makes the next version, and everybody asks the newest.

    Entries are principals, `platform:id` by the platform's immutable ids. With `dangerously_open` every person counts
    as listed in `users`; nobody becomes an approver or owner by it.
    """

    version: int = 1
    users: frozenset[str] = frozenset()
    approvers: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    dangerously_open: bool = False

    def rights(self, principal: str, *, guest: bool = False) -> frozenset[Right]:
        """Every right of `principal`. A `guest` of another organisation has only what a list gives by full id."""
        if principal in MANY_PEOPLE:
            return NO_RIGHTS
        if principal in self.owners:
            return OWNER_RIGHTS
        if principal in self.approvers:
            return APPROVER_RIGHTS
        if principal in self.users or (self.dangerously_open and not guest):
            return USER_RIGHTS
        return NO_RIGHTS

    def can(self, principal: str, right: Right) -> bool:
        """Whether `principal` has `right`, now."""
        return right in self.rights(principal)

    def deciders(self, platform: str) -> tuple[str, ...]:
        """Everybody on `platform` who may decide approvals, sorted."""
        return tuple(sorted(who for who in self.approvers | self.owners if who.startswith(f"{platform}:")))


class Access:
    """Holds the newest policy. Reading it never waits."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def policy(self) -> Policy:
        """The policy that holds now."""
        return self._policy

    def replace(self, policy: Policy) -> Policy:
        """Let `policy` hold from now on, under the next version number; returns it."""
        self._policy = replace(policy, version=self._policy.version + 1)
        return self._policy


class Rule(StrEnum):
    """What the door does with a kind of inbound that needs no right of a person."""

    PLATFORM_ONLY = "platform_only"
    NEVER = "never"


DOOR: Mapping[InboundKind, Right | Rule] = {
    InboundKind.MESSAGE: Right.TALK,
    InboundKind.COMMAND: Right.COMMAND,
    InboundKind.PRESS: Right.TALK,
    InboundKind.FORM: Right.TALK,
    InboundKind.REACTION: Right.TALK,
    InboundKind.EDIT: Right.TALK,
    InboundKind.DELETE: Right.TALK,
    InboundKind.STOP: Right.STOP,
    InboundKind.MEMBERSHIP: Right.ADMIN,
    # The platform's own word that a chat has a new id. It comes from whoever turned the group into a supergroup, who
    # need not be one of ours; all that it can do is to rename places that we know.
    InboundKind.CHAT_MIGRATED: Rule.PLATFORM_ONLY,
    InboundKind.OTHER: Rule.NEVER,
}
"""The right that lets each kind in. What lies behind a press, form or command asks for more (see there)."""

SPEAKERS: Mapping[SenderKind, bool] = {
    SenderKind.PERSON: True,
    SenderKind.STRANGER: True,  # only by full id, see Policy.rights
    SenderKind.BOT: False,
    SenderKind.ANONYMOUS: False,
    SenderKind.CHANNEL: False,
    SenderKind.SYSTEM: False,
}
"""Who can have rights at all."""


class Reason(StrEnum):
    """Why something was not let in."""

    UNKNOWN_KIND = "unknown_kind"
    NOT_A_PERSON = "not_a_person"
    NOT_LISTED = "not_listed"
    MISSING_RIGHT = "missing_right"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorized:
    """An inbound that was let in, and with which rights. Only `authorize` makes one."""

    inbound: Inbound
    principal: str
    rights: frozenset[Right]
    policy_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An inbound that was not let in; it has no effect."""

    reason: Reason
    principal: str


Verdict = Authorized | Refusal


def authorize(policy: Policy, inbound: Inbound) -> Verdict:
    """Let `inbound` in, or not: from the policy alone, without waiting for anything."""
    principal = principal_of(inbound.place.platform, inbound.sender)
    rule = DOOR.get(inbound.kind, Rule.NEVER)
    if rule is Rule.NEVER:
        return Refusal(reason=Reason.UNKNOWN_KIND, principal=principal)
    if not _well_formed(inbound):
        return Refusal(reason=Reason.MALFORMED, principal=principal)
    if rule is Rule.PLATFORM_ONLY:
        return Authorized(inbound=inbound, principal=PLATFORM, rights=NO_RIGHTS, policy_version=policy.version)
    if not SPEAKERS[inbound.sender.kind]:
        return Refusal(reason=Reason.NOT_A_PERSON, principal=principal)
    rights = policy.rights(principal, guest=inbound.sender.kind is SenderKind.STRANGER)
    if rule not in rights:
        return Refusal(reason=Reason.MISSING_RIGHT if rights else Reason.NOT_LISTED, principal=principal)
    return Authorized(inbound=inbound, principal=principal, rights=rights, policy_version=policy.version)


def principal_of(platform: str, sender: Sender) -> str:
    """`telegram:42`, `slack:T1:U2`, `discord:3`, `terminal:local`: by immutable ids only."""
    match platform:
        case "telegram" | "discord" | "terminal":
            return f"{platform}:{sender.id}"
        case "slack":
            return f"slack:{sender.tenant or ''}:{sender.id}"
        case _:
            return f"{platform}:{sender.tenant}:{sender.id}" if sender.tenant else f"{platform}:{sender.id}"


def _well_formed(inbound: Inbound) -> bool:
    """Place, sender and key are whole; a missing part would make two things one."""
    if not inbound.keys or not all(inbound.keys):
        return False
    if inbound.sender.id == "" or (inbound.place.platform == "slack" and not inbound.sender.tenant):
        return inbound.kind is InboundKind.CHAT_MIGRATED and is_whole(inbound.place)
    # Slack's submitted forms do not say where they were opened: their token does.
    return is_whole(inbound.place, without_chat=inbound.kind is InboundKind.FORM)


def is_whole(place: Place, *, without_chat: bool = False) -> bool:
    """No part of the place is missing: platform, account and chat are there, and thread and person None or named."""
    return (
        all((place.platform, place.account))
        and (without_chat or place.chat != "")
        and place.thread != ""
        and place.person != ""
    )
