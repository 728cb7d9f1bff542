"""A small language for the shapes of Block Kit: checkers that report what is wrong, with a JSON pointer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.emulators.wire_json import is_array, is_integer, is_object


@dataclass(slots=True)
class Report:
    """What was found wrong, as Slack words it: `<what> [json-pointer:<where>]`."""

    messages: list[str] = field(default_factory=list[str])

    def add(self, what: str, path: str) -> None:
        """Note one problem."""
        self.messages.append(f"{what} [json-pointer:{path}]")


Checker = Callable[[Any, str, Report], None]


def anything(value: Any, path: str, report: Report) -> None:
    """No rule."""


def boolean(value: Any, path: str, report: Report) -> None:
    """true or false."""
    if not isinstance(value, bool):
        report.add("must be a valid boolean", path)


def number(value: Any, path: str, report: Report) -> None:
    """A number, with or without a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        report.add("must be a valid number", path)


def integer(low: int, high: int) -> Checker:
    """A whole number within a range."""

    def check(value: Any, path: str, report: Report) -> None:
        if not is_integer(value) or not low <= value <= high:
            report.add(f"must be an integer from {low} to {high}", path)

    return check


def string(maximum: int, minimum: int = 1) -> Checker:
    """Text with a length."""

    def check(value: Any, path: str, report: Report) -> None:
        if not isinstance(value, str):
            report.add("must be a valid string", path)
        elif len(value) < minimum:
            report.add(f"must be more than {minimum - 1} characters", path)
        elif len(value) > maximum:
            report.add(f"must be less than {maximum + 1} characters", path)

    return check


def one_of(*values: str) -> Checker:
    """One of some words."""

    def check(value: Any, path: str, report: Report) -> None:
        if value not in values:
            report.add(f"must be a valid enum value: {', '.join(values)}", path)

    return check


def listed(item: Checker, high: int, low: int = 1) -> Checker:
    """An array of a kind, with a length."""

    def check(value: Any, path: str, report: Report) -> None:
        if not is_array(value):
            report.add("must be an array", path)
            return
        if len(value) < low:
            report.add(f"no fewer than {low} items allowed", path)
        if len(value) > high:
            report.add(f"no more than {high} items allowed", path)
        for index, one in enumerate(value):
            item(one, f"{path}/{index}", report)

    return check


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Members of an object; `rule` looks at the whole once its members are known to be allowed."""

    required: Mapping[str, Checker] = field(default_factory=dict[str, Checker])
    optional: Mapping[str, Checker] = field(default_factory=dict[str, Checker])
    rule: Checker | None = None

    def __call__(self, value: Any, path: str, report: Report) -> None:
        if not is_object(value):
            report.add("must provide an object", path)
            return
        for name in self.required.keys() - value.keys():
            report.add(f"missing required field: {name}", path)
        for name, item in value.items():
            checker = self.required.get(name) or self.optional.get(name)
            if checker is None:
                report.add(f"invalid additional property: {name}", path)
            else:
                checker(item, f"{path}/{name}", report)
        if self.rule is not None:
            self.rule(value, path, report)


def tagged(shapes: Mapping[str, Shape], allowed: Collection[str] | None = None) -> Checker:
    """An object that says by `type` which shape it has."""

    def check(value: Any, path: str, report: Report) -> None:
        kind = value.get("type") if is_object(value) else None
        if not isinstance(kind, str) or kind not in shapes or (allowed is not None and kind not in allowed):
            report.add(f"unsupported type: {kind}", f"{path}/type")
        else:
            shapes[kind](value, path, report)

    return check


def at_least_one(*names: str) -> Checker:
    """A rule for Shape: one of these members must be there."""

    def check(value: Any, path: str, report: Report) -> None:
        if not any(value.get(name) is not None for name in names):
            report.add(f"missing required field: one of {', '.join(names)}", path)

    return check
