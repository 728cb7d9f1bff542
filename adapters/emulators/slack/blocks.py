"""Block Kit: which blocks and elements exist, their members and limits, and where they may stand.

Numbers are those of Slack's Block Kit reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from adapters.emulators.slack.rich_shapes import CELL, RICH_TEXT
from adapters.emulators.slack.shapes import (
    Checker,
    Report,
    Shape,
    anything,
    at_least_one,
    boolean,
    integer,
    listed,
    one_of,
    string,
    tagged,
)
from adapters.emulators.wire_json import JsonObject, is_array, is_object

MESSAGE_BLOCKS: Final = 50
VIEW_BLOCKS: Final = 100
MARKDOWN_TOTAL: Final = 12_000

_ID: Final = string(255)
_URL: Final = string(3000)
_TYPE: Final = anything


def text(maximum: int, *kinds: str) -> Checker:
    """A text object: `plain_text` or `mrkdwn`."""
    shapes = {
        "plain_text": Shape(required={"type": _TYPE, "text": string(maximum)}, optional={"emoji": boolean}),
        "mrkdwn": Shape(required={"type": _TYPE, "text": string(maximum)}, optional={"verbatim": boolean}),
    }
    return tagged(shapes, kinds or tuple(shapes))


def _plain(maximum: int) -> Checker:
    return text(maximum, "plain_text")


_CONFIRM: Final = Shape(
    required={"title": _plain(100), "text": text(300), "confirm": _plain(30), "deny": _plain(30)},
    optional={"style": one_of("primary", "danger")},
)
_OPTION: Final = Shape(
    required={"text": text(75), "value": string(150)},
    optional={"description": text(75), "url": _URL},
)
_GROUP: Final = Shape(required={"label": _plain(75), "options": listed(_OPTION, 100)})
_IMAGE: Final = Shape(
    required={"type": _TYPE, "alt_text": string(2000)},
    optional={"image_url": _URL, "slack_file": anything},
    rule=at_least_one("image_url", "slack_file"),
)
_FEEDBACK: Final = Shape(
    required={"text": _plain(75), "value": string(2000)}, optional={"accessibility_label": string(75)}
)
_COLUMN_SHAPE: Final = Shape(optional={"align": one_of("left", "center", "right"), "is_wrapped": boolean})
_SOURCE: Final = Shape(required={"type": one_of("url"), "url": _URL, "text": string(3000)})


def _element(required: Mapping[str, Checker] = MappingProxyType({}), /, **optional: Checker) -> Shape:
    return Shape(
        required={"type": _TYPE, **required},
        optional={"action_id": _ID, "confirm": _CONFIRM, "focus_on_load": boolean, **optional},
    )


def _menu(initial: str, many: bool, **more: Checker) -> Shape:
    limit: dict[str, Checker] = {"max_selected_items": integer(1, 1000)} if many else {"response_url_enabled": boolean}
    members: dict[str, Checker] = {"placeholder": _plain(150), initial: anything, **limit, **more}
    return _element(**members)


_CHOICES: Final = {"options": listed(_OPTION, 100), "option_groups": listed(_GROUP, 100)}

ELEMENTS: Final = {
    "button": _element(
        {"text": _plain(75)},
        value=string(2000, 0),
        url=_URL,
        style=one_of("primary", "danger"),
        accessibility_label=string(75),
        agent_prompt=string(4000),
    ),
    "image": _IMAGE,
    "overflow": _element({"options": listed(_OPTION, 5)}),
    "checkboxes": _element({"options": listed(_OPTION, 10)}, initial_options=listed(_OPTION, 10)),
    "radio_buttons": _element({"options": listed(_OPTION, 10)}, initial_option=_OPTION),
    "datepicker": _element(initial_date=string(10), placeholder=_plain(150)),
    "datetimepicker": _element(initial_date_time=integer(0, 9_999_999_999)),
    "timepicker": _element(initial_time=string(5), placeholder=_plain(150), timezone=string(100)),
    "static_select": _menu("initial_option", False, **_CHOICES),
    "external_select": _menu("initial_option", False, min_query_length=integer(0, 3000)),
    "users_select": _menu("initial_user", False),
    "conversations_select": _menu(
        "initial_conversation", False, default_to_current_conversation=boolean, filter=anything
    ),
    "channels_select": _menu("initial_channel", False),
    "multi_static_select": _menu("initial_options", True, **_CHOICES),
    "multi_external_select": _menu("initial_options", True, min_query_length=integer(0, 3000)),
    "multi_users_select": _menu("initial_users", True),
    "multi_conversations_select": _menu(
        "initial_conversations", True, default_to_current_conversation=boolean, filter=anything
    ),
    "multi_channels_select": _menu("initial_channels", True),
    "plain_text_input": _element(
        placeholder=_plain(150),
        initial_value=string(3000, 0),
        multiline=boolean,
        min_length=integer(0, 3000),
        max_length=integer(1, 3000),
        dispatch_action_config=anything,
    ),
    "email_text_input": _element(
        placeholder=_plain(150), initial_value=string(3000, 0), dispatch_action_config=anything
    ),
    "url_text_input": _element(placeholder=_plain(150), initial_value=string(3000, 0), dispatch_action_config=anything),
    "number_input": _element(
        {"is_decimal_allowed": boolean},
        placeholder=_plain(150),
        initial_value=string(100, 0),
        min_value=string(100),
        max_value=string(100),
        dispatch_action_config=anything,
    ),
    "rich_text_input": _element(placeholder=_plain(150), initial_value=anything, dispatch_action_config=anything),
    "file_input": _element(filetypes=listed(string(20), 100), max_files=integer(1, 10)),
    "feedback_buttons": _element({"positive_button": _FEEDBACK, "negative_button": _FEEDBACK}),
    "icon_button": _element(
        {"icon": string(75), "text": _plain(75)},
        value=string(2000, 0),
        accessibility_label=string(75),
        visible_to_user_ids=listed(string(20), 100),
    ),
    "workflow_button": _element(
        {"text": _plain(75), "workflow": anything},
        style=one_of("primary", "danger"),
        accessibility_label=string(75),
    ),
}
"""Interactive elements; members as in the element reference."""

_MENUS: Final = tuple(name for name in ELEMENTS if name.endswith("_select"))
_IN_ACTIONS: Final = (
    "button",
    "checkboxes",
    "datepicker",
    "datetimepicker",
    "overflow",
    "radio_buttons",
    "timepicker",
    "workflow_button",
    "rich_text_input",
    *_MENUS,
)
_IN_INPUT: Final = (
    "checkboxes",
    "datepicker",
    "datetimepicker",
    "email_text_input",
    "file_input",
    "number_input",
    "plain_text_input",
    "radio_buttons",
    "rich_text_input",
    "timepicker",
    "url_text_input",
    *_MENUS,
)
_IN_SECTION: Final = (*_IN_ACTIONS, "image")


def _block(
    required: Mapping[str, Checker] = MappingProxyType({}), rule: Checker | None = None, /, **optional: Checker
) -> Shape:
    return Shape(required={"type": _TYPE, **required}, optional={"block_id": _ID, **optional}, rule=rule)


def _context_element(value: Any, path: str, report: Report) -> None:
    if is_object(value) and value.get("type") == "image":
        _IMAGE(value, path, report)
    else:
        text(3000)(value, path, report)


_TASK: Final = _block(
    {
        "task_id": string(255),
        "title": string(3000),
        "status": one_of("pending", "in_progress", "complete", "error"),
    },
    details=RICH_TEXT,
    output=RICH_TEXT,
    sources=listed(_SOURCE, 100, 0),
)
_CARD: Final = _block(
    {},
    at_least_one("hero_image", "title", "actions", "body"),
    hero_image=_IMAGE,
    icon=_IMAGE,
    title=text(150),
    subtitle=text(150),
    body=text(200),
    actions=listed(tagged(ELEMENTS, ("button",)), 25),
)


def _column(value: Any, path: str, report: Report) -> None:
    # null leaves a column as it is.
    if value is not None:
        _COLUMN_SHAPE(value, path, report)


def _any_block(value: Any, path: str, report: Report) -> None:
    tagged(BLOCKS)(value, path, report)


BLOCKS: Final[dict[str, Shape]] = {
    "section": _block(
        {},
        at_least_one("text", "fields"),
        text=text(3000),
        fields=listed(text(2000), 10),
        accessory=tagged(ELEMENTS, _IN_SECTION),
        expand=boolean,
    ),
    "divider": _block(),
    "image": _block(
        {"alt_text": string(2000)},
        at_least_one("image_url", "slack_file"),
        image_url=_URL,
        slack_file=anything,
        title=_plain(2000),
    ),
    "actions": _block({"elements": listed(tagged(ELEMENTS, _IN_ACTIONS), 25)}),
    "context": _block({"elements": listed(_context_element, 10)}),
    "context_actions": _block({"elements": listed(tagged(ELEMENTS, ("feedback_buttons", "icon_button")), 5)}),
    "header": _block({"text": _plain(150)}),
    "input": _block(
        {"label": _plain(2000), "element": tagged(ELEMENTS, _IN_INPUT)},
        hint=_plain(2000),
        optional=boolean,
        dispatch_action=boolean,
    ),
    "markdown": _block({"text": string(MARKDOWN_TOTAL)}),
    "rich_text": RICH_TEXT,
    "table": _block({"rows": listed(listed(CELL, 20), 100)}, column_settings=listed(_column, 20, 0)),
    "file": _block({"external_id": string(255), "source": one_of("remote")}),
    "video": _block(
        {"alt_text": string(2000), "title": _plain(200), "thumbnail_url": _URL, "video_url": _URL},
        author_name=string(50),
        description=_plain(200),
        provider_icon_url=_URL,
        provider_name=string(200),
        title_url=_URL,
    ),
    "plan": _block({"title": string(3000)}, tasks=listed(_TASK, 100, 0)),
    "task_card": _TASK,
    "alert": _block({"text": text(3000)}, level=one_of("default", "info", "warning", "error", "success")),
    "card": _CARD,
    "carousel": _block({"elements": listed(_CARD, 10)}),
    "container": _block(
        {"child_blocks": listed(_any_block, 10)},
        at_least_one("title", "rich_text_title"),
        title=_plain(150),
        rich_text_title=RICH_TEXT,
        subtitle=text(150),
        width=one_of("narrow", "standard", "wide", "full"),
        icon=_IMAGE,
        is_collapsible=boolean,
        default_collapsed=boolean,
        has_header_divider=boolean,
    ),
}
"""Blocks by their type."""

MESSAGE_ONLY: Final = frozenset({"context_actions", "file", "markdown", "plan", "table", "task_card"})
"""Documented for messages only; the other blocks stand in views as well."""
IN_VIEWS: Final = BLOCKS.keys() - MESSAGE_ONLY
IN_MESSAGES: Final = BLOCKS.keys()


def problems_of(blocks: Any, *, in_view: bool = False, path: str = "/blocks") -> list[str]:
    """Why Slack would refuse these blocks; empty if it would not."""
    report = Report()
    allowed = IN_VIEWS if in_view else IN_MESSAGES
    maximum = VIEW_BLOCKS if in_view else MESSAGE_BLOCKS
    listed(tagged(BLOCKS, allowed), maximum, 0)(blocks, path, report)
    if not is_array(blocks):
        return report.messages
    found = [one for one in blocks if is_object(one)]
    _check_unique((one.get("block_id") for one in found), "block_id", path, report)
    for block in found:
        _check_unique((one.get("action_id") for one in elements_of(block)), "action_id", path, report)
    if sum(one.get("type") == "table" for one in found) > 1:
        report.add("only one table is allowed in a message", path)
    total = sum(len(str(one.get("text", ""))) for one in found if one.get("type") == "markdown")
    if total > MARKDOWN_TOTAL:
        report.add(f"markdown blocks may have {MARKDOWN_TOTAL} characters together, these have {total}", path)
    return report.messages


def _check_unique(ids: Iterable[Any], what: str, path: str, report: Report) -> None:
    seen: set[str] = set()
    for one in ids:
        if isinstance(one, str) and one in seen:
            report.add(f"`{what}` {one!r} already exists", path)
        elif isinstance(one, str):
            seen.add(one)


def elements_of(block: JsonObject) -> Iterator[JsonObject]:
    """Interactive elements in a block, those of children too."""
    for name in ("elements", "actions", "child_blocks"):
        members = block.get(name)
        for one in members if is_array(members) else []:
            if is_object(one):
                yield one
                yield from elements_of(one)
    for name in ("accessory", "element"):
        one = block.get(name)
        if is_object(one):
            yield one


def length_of(value: Any) -> int:
    """Characters of all texts in blocks together."""
    if is_object(value):
        return sum(length_of(item) for name, item in value.items() if name not in ("type", "block_id", "action_id"))
    if is_array(value):
        return sum(length_of(item) for item in value)
    return len(value) if isinstance(value, str) else 0


def numbered(blocks: list[JsonObject], new_id: Any) -> list[JsonObject]:
    """A copy in which every block has its `block_id` and every interactive element its `action_id`."""
    return [_numbered(block, new_id) for block in blocks]


def _numbered(block: JsonObject, new_id: Any) -> JsonObject:
    copy = dict(block)
    copy.setdefault("block_id", new_id())
    for name in ("elements", "actions", "child_blocks"):
        if is_array(copy.get(name)) and copy["type"] != "rich_text":
            copy[name] = [_numbered_element(one, new_id) if is_object(one) else one for one in copy[name]]
    for name in ("accessory", "element"):
        if is_object(copy.get(name)):
            copy[name] = _numbered_element(copy[name], new_id)
    return copy


def _numbered_element(element: JsonObject, new_id: Any) -> JsonObject:
    if element.get("type") in BLOCKS.keys() - ELEMENTS.keys():
        return _numbered(element, new_id)
    if element.get("type") in ELEMENTS.keys() - {"image"}:
        return {**element, "action_id": element.get("action_id") or new_id()}
    return element
