"""Who speaks, from what Slack says and the sender cannot forge."""

from __future__ import annotations

from adapters.contract import Sender, SenderKind
from adapters.payload import Payload, a_text, an_object
from adapters.slack.identity import Me

SLACKBOT = "USLACKBOT"


def sender_of(event: Payload, team: str, me: Me) -> Sender:
    """The sender of an event: a person only if nothing else can be meant.

    `team` is the workspace of the event. A person of another one is a stranger: he comes through a shared channel.
    """
    user = a_text(event.get("user"))
    profile = an_object(event.get("user_profile"))
    if event.get("bot_id") or event.get("bot_profile") or event.get("subtype") == "bot_message":
        name = a_text(an_object(event.get("bot_profile")).get("name")) or a_text(event.get("username"))
        return Sender(kind=SenderKind.BOT, id=user or a_text(event.get("bot_id")), name=name, tenant=team or None)
    home = a_text(event.get("user_team")) or a_text(event.get("source_team")) or a_text(event.get("team")) or team
    name = a_text(profile.get("display_name")) or a_text(profile.get("real_name")) or a_text(event.get("username"))
    return person(user, home, name, me)


def presser_of(user: Payload, team: str, me: Me) -> Sender:
    """The sender behind the `user` of a press or a form."""
    name = a_text(user.get("name")) or a_text(user.get("username"))
    return person(a_text(user.get("id")), a_text(user.get("team_id")) or team, name, me)


def person(user: str, team: str, name: str, me: Me) -> Sender:
    """A person of that workspace. In an organisation people of all its workspaces are ours."""
    if not user or user == SLACKBOT:
        return Sender(kind=SenderKind.SYSTEM, id=user, name=name, tenant=team or None)
    if user == me.user:
        return Sender(kind=SenderKind.BOT, id=user, name=name or me.name, tenant=team or None)
    at_home = team == me.team or (me.enterprise != "" and (me.org_wide or team == me.enterprise))
    kind = SenderKind.PERSON if at_home else SenderKind.STRANGER
    return Sender(kind=kind, id=user, name=name or user, tenant=team or None)
