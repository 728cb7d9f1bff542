"""How a type of the protocol looks as JSON: compiled once per type from its annotations.

A member of a union of dataclasses carries its snake-case class name under `kind`; everything else is written as it is.
Reading ignores fields that it does not know and fills absent ones from their defaults, so that rows of other versions
load.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec

TAG = "kind"


@dataclass(frozen=True, slots=True)
class Shape:
    """`read` makes the value from parsed JSON; `write` is None where msgspec writes the value as it is."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None

    def written(self, value: Any) -> Any:
        """The value as msgspec can write it."""
        return value if self.write is None else self.write(value)


def snake(name: str) -> str:
    """`TextPart` as `text_part`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def field_types(cls: type) -> dict[str, Any]:
    """The resolved annotation of every field. JsonValue is recursive and means any JSON: it is not looked into."""
    hints = get_type_hints(cls, localns={"JsonValue": Any})
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def is_native(tp: Any) -> bool:
    """msgspec reads the type by itself."""
    try:
        msgspec.json.Decoder(tp)
    except (TypeError, NameError):
        return False
    return True


@cache
def shape(tp: Any) -> Shape:
    """The shape of an annotation. TypeError for one that has none."""
    if tp is Any:
        return Shape(read=lambda value: value)
    if is_native(tp):
        return Shape(read=lambda value: msgspec.convert(value, tp))
    origin = get_origin(tp)
    if dataclasses.is_dataclass(tp):
        return _of_dataclass(tp)
    if origin is Union or origin is types.UnionType:
        return _of_union(get_args(tp))
    if origin is tuple and get_args(tp)[1:] == (...,):
        return _of_tuple(shape(get_args(tp)[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_mapping(shape(get_args(tp)[1]))
    raise TypeError(f"{tp!r} has no JSON shape")


def _of_dataclass(cls: Any) -> Shape:
    shapes = {name: shape(tp) for name, tp in field_types(cls).items()}
    plain = all(inner.write is None for inner in shapes.values())

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise msgspec.ValidationError(f"expected an object for {cls.__name__}, got {type(value).__name__}")
        stored = cast("dict[str, Any]", value)
        try:
            return cls(**{name: shapes[name].read(stored[name]) for name in shapes if name in stored})
        except TypeError as error:
            raise msgspec.ValidationError(f"{cls.__name__}: {error}") from error

    def write(value: Any) -> Any:
        return {name: inner.written(getattr(value, name)) for name, inner in shapes.items()}

    return Shape(read=read, write=None if plain else write)


def _of_union(members: tuple[Any, ...]) -> Shape:
    classes = [member for member in members if member is not types.NoneType]
    if len(classes) == 1:
        return _optional(shape(classes[0]))
    return _optional(_tagged({snake(cls.__name__): cls for cls in classes}))


def _optional(inner: Shape) -> Shape:
    write = inner.write
    return Shape(
        read=lambda value: None if value is None else inner.read(value),
        write=None if write is None else lambda value: None if value is None else write(value),
    )


def _tagged(classes: Mapping[str, type]) -> Shape:
    shapes = {tag: _of_dataclass(cls) for tag, cls in classes.items()}
    tags = {cls: tag for tag, cls in classes.items()}
    names = {tag: tuple(field_types(cls)) for tag, cls in classes.items()}

    def read(value: Any) -> Any:
        inner = shapes.get(cast("dict[str, Any]", value).get(TAG, "")) if isinstance(value, dict) else None
        if inner is None:
            raise msgspec.ValidationError(f"expected one of {', '.join(shapes)} under {TAG!r}")
        return inner.read(value)

    def write(value: Any) -> Any:
        tag = tags[value.__class__]
        inner = shapes[tag].write
        fields = inner(value) if inner else {name: getattr(value, name) for name in names[tag]}
        return {TAG: tag, **fields}

    return Shape(read=read, write=write)


def _of_tuple(inner: Shape) -> Shape:
    write = inner.write
    return Shape(
        read=lambda value: tuple(inner.read(item) for item in value),
        write=None if write is None else lambda value: [write(item) for item in value],
    )


def _of_mapping(inner: Shape) -> Shape:
    write = inner.write
    return Shape(
        read=lambda value: {key: inner.read(item) for key, item in value.items()},
        write=None if write is None else lambda value: {key: write(item) for key, item in value.items()},
    )
