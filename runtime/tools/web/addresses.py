"""Which addresses belong to the public internet. Pure; the lists are IANA's special-purpose registries.

`ipaddress.is_global` alone is not enough: it takes multicast, relays and addresses that carry another one for public,
and what it knows depends on the version of Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_PUBLIC_V6 = IPv6Network("2000::/3")

_NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # a public number by which Azure's hosts reach the platform beneath them
        ),
    )
)
_NOT_PUBLIC_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))

_MAPPED, _COMPATIBLE = IPv6Network("::ffff:0:0/96"), IPv6Network("::/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64
_SIX_TO_FOUR, _TEREDO = IPv6Network("2002::/16"), IPv6Network("2001::/32")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def is_public(address: str) -> bool:
    """Whether this is an address of the public internet, also of every address that is carried inside it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_v4(parsed)
    carried = tuple(_carried(parsed))
    if any(not _is_public_v4(each) for each in carried):
        return False
    if any(parsed in network for network in (_MAPPED, _TRANSLATED, _SIX_TO_FOUR, _TEREDO)):
        return bool(carried)
    return _is_public_v6(parsed)


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not any(address in network for network in _NOT_PUBLIC_V4)


def _is_public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _PUBLIC_V6:
        return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC_V6)


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that some router or system would take out of this one."""
    number = int(address)
    if any(address in network for network in (_MAPPED, _COMPATIBLE, _TRANSLATED)):
        yield IPv4Address(number & 0xFFFF_FFFF)
    if address in _SIX_TO_FOUR:
        yield IPv4Address(number >> 80 & 0xFFFF_FFFF)
    if address in _TEREDO:
        yield IPv4Address(number >> 64 & 0xFFFF_FFFF)
        yield IPv4Address(~number & 0xFFFF_FFFF)
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFF_FFFF)
