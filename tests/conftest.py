"""What holds for every test: nothing leaves this machine, and examples are found the same way each time."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]  # the guard below has a test that runs a test

# Both profiles drop the deadline: on a shared machine it measures the neighbours.
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("workstation", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "workstation")


class OutsideAddressRefused(Exception):
    """A test tried to reach something that is not this machine.

    Not an OSError: code under test that retries after a lost connection must not take this for one.
    """


refused_addresses: list[str] = []


def is_this_machine(host: object) -> bool:
    """Whether a host, as the socket functions take it, can only mean the loopback interface."""
    if isinstance(host, bytes | bytearray):
        host = bytes(host).decode("ascii", "replace")
    if host is None or host == "localhost":
        return True
    if not isinstance(host, str):
        return False
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def outside_host(event: str, args: tuple[Any, ...]) -> object:
    """The host of a socket call that would leave this machine, or None if the call may pass."""
    match event:
        case "socket.getaddrinfo" | "socket.gethostbyname":
            return None if is_this_machine(args[0]) else args[0]
        case "socket.connect" | "socket.bind" | "socket.sendto" | "socket.sendmsg":
            connection, address = args
            if connection.family == socket.AF_UNIX or address is None:
                return None
            host: object = address[0] if connection.family in (socket.AF_INET, socket.AF_INET6) else address
            return None if is_this_machine(host) else host
        case _:
            return None


def refuse_outside(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: stop a socket call that would leave this machine before it happens."""
    if event.startswith("socket.") and (host := outside_host(event, args)) is not None:
        refused_addresses.append(f"{event} {host!r}")
        raise OutsideAddressRefused(
            f"{event} to {host!r}: tests may only use loopback addresses and unix sockets. "
            "Start an emulator and hand its address to the code under test."
        )


# An audit hook sees what C code does too, in every thread, and cannot be patched away by a test.
sys.addaudithook(refuse_outside)


def refused_before_lookup(method: str) -> None:
    """Make a socket method audit its address first: C code looks a host name up before it audits."""
    unguarded = getattr(socket.socket, method)

    def guarded(connection: socket.socket, *args: Any) -> Any:
        sys.audit(f"socket.{method.removesuffix('_ex')}", connection, args[-1])
        return unguarded(connection, *args)

    setattr(socket.socket, method, guarded)


for method in ("connect", "connect_ex", "sendto", "bind"):
    refused_before_lookup(method)


@pytest.fixture(autouse=True)
def outside_addresses_refused() -> Iterator[list[str]]:
    """Fail a test that tried to leave this machine, even if the code under test swallowed the refusal."""
    refused_addresses.clear()
    yield refused_addresses
    if refused_addresses:
        pytest.fail(f"tried to leave this machine: {', '.join(refused_addresses)}")
