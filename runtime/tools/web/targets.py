"""Which URLs may be asked for, before anything is looked up. Read by the same parser that later connects."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from ipaddress import ip_address

from yarl import URL

from runtime.errors import ToolError
from runtime.tools.paths import printable

MAX_URL_CHARACTERS = 2000
WEB_PORTS = frozenset({80, 443})

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# The last label begins with a letter: anything else some resolver would take for a number, and so for an address.
_NAME = re.compile(rf"(?:{_LABEL}\.)*[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.?", re.ASCII)
_MAX_NAME = 253


def checked_target(text: str, *, ports: Collection[int], permitted: Callable[[str], bool]) -> URL:
    """The URL, if it may be asked for; ToolError says what is wrong with it. Nothing is looked up.

    An address in place of a name must be `permitted`; a name is judged by its addresses when it is connected to.
    """
    if len(text) > MAX_URL_CHARACTERS:
        raise ToolError(f"The URL is longer than {MAX_URL_CHARACTERS} characters.")
    if any(not character.isprintable() or character in " \\" for character in text):
        raise ToolError("The URL holds a blank, a backslash or an invisible character.")
    shown = printable(text)
    try:
        url = URL(text)
        host, port = url.raw_host or "", url.port
    except ValueError as error:
        raise ToolError(f"{shown} is no URL: {error}.") from None
    if url.scheme not in ("http", "https") or not host:
        raise ToolError(f"{shown} is no http or https URL with a host.")
    if url.raw_user is not None or url.raw_password is not None or "@" in url.raw_authority:
        raise ToolError("A URL with a user name or password before the host is refused.")
    if port not in ports:
        raise ToolError(f"Port {port} is refused; {' and '.join(map(str, sorted(WEB_PORTS)))} are possible.")
    _check_host(host, permitted)
    return url.with_fragment(None)


def _check_host(host: str, permitted: Callable[[str], bool]) -> None:
    if is_address(host):
        if not permitted(host):
            raise ToolError(f"{printable(host)} is no address of the public internet, and is refused.")
    elif len(host) > _MAX_NAME or not _NAME.fullmatch(host):
        raise ToolError(f"{printable(host)} is no host name.")


def is_address(host: str) -> bool:
    """Whether a host is an address, written in the one canonical way."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
