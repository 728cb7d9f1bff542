"""auth.*, users.*, bots.*, team.*: who is who."""

from __future__ import annotations

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.errors import ApiError
from adapters.emulators.slack.rendering import bot_profile, user_object
from adapters.emulators.slack.world import without_none
from adapters.emulators.wire_json import JsonObject


def api_test(call: Call) -> JsonObject:
    """Give the arguments back, or the error that was asked for."""
    if call.has("error"):
        raise ApiError(call.text("error"), args=call.params)
    return {"args": call.params}


def auth_test(call: Call) -> JsonObject:
    """Who the token belongs to."""
    app = call.platform.app
    return without_none(
        url=f"{call.platform.url}/",
        team=app.team_name,
        user=app.name.lower(),
        team_id=app.team,
        user_id=app.bot_user,
        bot_id=app.bot_id,
        enterprise_id=app.enterprise,
        is_enterprise_install=False,
    )


def user_info(call: Call) -> JsonObject:
    """One person."""
    found = call.platform.world.users.get(call.text("user"))
    if found is None:
        raise ApiError("user_not_found")
    body = user_object(found)
    if not call.flag("include_locale"):
        del body["locale"]
    return {"user": body}


def user_list(call: Call) -> JsonObject:
    """Everybody."""
    members = [user_object(user) for user in call.platform.world.users.values()]
    return {"members": members, "cache_ts": int(call.platform.clock.now()), "response_metadata": {"next_cursor": ""}}


def bot_info(call: Call) -> JsonObject:
    """The app's own bot."""
    if call.text("bot") not in ("", call.platform.app.bot_id):
        raise ApiError("bot_not_found")
    return {"bot": bot_profile(call.platform.app) | {"user_id": call.platform.app.bot_user}}


def team_info(call: Call) -> JsonObject:
    """The workspace."""
    app = call.platform.app
    if call.text("team") not in ("", app.team):
        raise ApiError("team_not_found")
    return {"team": without_none(id=app.team, name=app.team_name, domain=app.team_domain, enterprise_id=app.enterprise)}


HANDLERS: dict[str, Handler] = {
    "api.test": api_test,
    "auth.test": auth_test,
    "users.info": user_info,
    "users.list": user_list,
    "bots.info": bot_info,
    "team.info": team_info,
}
