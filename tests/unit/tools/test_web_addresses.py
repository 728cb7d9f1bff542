"""Which addresses are public: whatever carries one that is not is not public either."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.web.addresses import is_public

V4 = st.integers(0, 2**32 - 1).map(IPv4Address)

CARRIERS = {
    "mapped": lambda inner: 0xFFFF << 32 | inner,
    "NAT64": lambda inner: 0x64FF9B << 96 | inner,
    "6to4": lambda inner: 0x2002 << 112 | inner << 80 | 1,
    "Teredo server": lambda inner: 0x2001 << 112 | inner << 64 | (~int(IPv4Address("8.8.8.8")) & 0xFFFF_FFFF),
    "Teredo client": lambda inner: 0x2001 << 112 | int(IPv4Address("8.8.8.8")) << 64 | (~inner & 0xFFFF_FFFF),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@given(address=V4)
def test_a_carrier_is_as_public_as_what_it_carries(carrier: str, address: IPv4Address) -> None:
    """Mapped and tunnelled addresses are judged by the address inside."""
    outer = IPv6Address(CARRIERS[carrier](int(address)))
    assert is_public(str(outer)) == is_public(str(address))


@given(address=V4)
def test_isatap_hides_nothing(address: IPv4Address) -> None:
    """An interface identifier that carries an inner address makes a public prefix no better."""
    outer = IPv6Address(int(IPv6Address("2606:2800::")) | 0x5EFE << 32 | int(address))
    assert is_public(str(outer)) == is_public(str(address))


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_only_global_unicast_is_public(address: IPv6Address) -> None:
    """Outside of 2000::/3 only translated and mapped addresses can be public."""
    if is_public(str(address)) and int(address) >> 125 != 1:
        assert int(address) >> 32 in (0xFFFF, 0x64FF9B << 64)


@given(V4)
def test_python_never_knows_better(address: IPv4Address) -> None:
    """What Python calls not global, multicast or reserved is not public here."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert not is_public(str(address))


@pytest.mark.parametrize(
    "text", ["", "localhost", "1.2.3", "1.2.3.4.5", "08.8.8.8", "8.8.8.8/8", "::1%lo", "2606::1%eth0", "x"]
)
def test_what_is_no_address_is_not_public(text: str) -> None:
    """Only one spelling of an address is known, and none with a zone."""
    assert not is_public(text)
