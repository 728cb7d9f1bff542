"""Addresses in text links: which are links, which name a user, which are dropped."""

from __future__ import annotations

import re
from typing import Final

from adapters.emulators.telegram.entities import Entity

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_HOST = re.compile(
    r"(?:[^\s/?#@]*@)?(?:[\w-]+\.)+[\w-]{2,}\.?(?::\d{1,5})?|\[[0-9a-fA-F:]+\](?::\d{1,5})?|localhost(?::\d{1,5})?",
    re.UNICODE,
)
_USER = re.compile(r"tg:(?://)?user\?id=(\d+)")
ALLOWED: Final = frozenset({"http", "https", "ftp", "tg", "ton", "tonsite", "mailto", "tel"})


def link_entity(address: str, offset: int, length: int) -> Entity | None:
    """The entity for a link; None where the platform silently keeps the plain text."""
    if found := _USER.fullmatch(address.strip()):
        return Entity(type="text_mention", offset=offset, length=length, argument=found[1])
    checked = checked_link(address)
    return None if checked is None else Entity(type="text_link", offset=offset, length=length, argument=checked)


def checked_link(address: str) -> str | None:
    """The address as the platform stores it; None if it is not one. A bare domain becomes http://domain/."""
    address = address.strip()
    if not address or re.search(r"\s", address):
        return None
    if (scheme := _SCHEME.fullmatch(address)) and scheme[1].lower() in ALLOWED - {"http", "https", "ftp"}:
        return address if scheme[2].strip("/") else None
    protocol, rest = _split(address)
    if protocol not in ALLOWED:
        return None
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not _HOST.fullmatch(host):
        return None
    tail = rest[len(host) :]
    return f"{protocol}://{host.lower()}{tail if tail.startswith('/') else f'/{tail}'}"


def _split(address: str) -> tuple[str, str]:
    protocol, separator, rest = address.partition("://")
    return (protocol.lower(), rest) if separator else ("http", address)
