"""Whether a payload is meant for our app in our workspace; pure.

A good signature proves that Slack sent it, and not for whom: Bolt hands on what names another team or app.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.payload import Payload, a_text, an_object, objects
from adapters.slack.identity import Me


def is_for_us(body: Mapping[str, Any], me: Me) -> bool:
    """The app and the installation are ours. In a shared channel an event's own team may be another one: what counts
    is for whose installation Slack sent it."""
    payload = an_object(dict(body))
    if a_text(payload.get("api_app_id")) != me.app or not me.app:
        return False
    installations = objects(payload.get("authorizations"))
    if installations:
        return any(_is_ours(one.get("team_id"), one.get("enterprise_id"), me) for one in installations)
    return _is_ours(_team(payload), _enterprise(payload), me)


def _is_ours(team: object, enterprise: object, me: Me) -> bool:
    return me.is_ours(a_text(team), a_text(enterprise))


def _team(payload: Payload) -> str:
    team = a_text(payload.get("context_team_id")) or a_text(payload.get("team_id"))
    return team or a_text(an_object(payload.get("team")).get("id"))


def _enterprise(payload: Payload) -> str:
    known = a_text(payload.get("context_enterprise_id")) or a_text(payload.get("enterprise_id"))
    return known or a_text(an_object(payload.get("enterprise")).get("id"))
