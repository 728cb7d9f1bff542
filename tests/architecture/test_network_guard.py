"""The guard of tests/conftest.py stops whatever would leave this machine, and only that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Reserved for documentation (RFC 5737, RFC 3849): nobody answers there even if the guard were broken.
OUTSIDE = ("192.0.2.1", 9)
OUTSIDE_V6 = ("2001:db8::1", 9)


def attempt_connect() -> None:
    with socket.socket() as connection:
        connection.connect(OUTSIDE)


def attempt_connect_by_name() -> None:
    with socket.socket() as connection:
        connection.connect(("example.invalid", 9))


def attempt_sendto_by_name() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as connection:
        connection.sendto(b"x", 0, ("example.invalid", 9))


def attempt_connect_ex() -> None:
    with socket.socket() as connection:
        connection.connect_ex(OUTSIDE)


def attempt_connect_v6() -> None:
    with socket.socket(socket.AF_INET6) as connection:
        connection.connect(OUTSIDE_V6)


def attempt_create_connection() -> None:
    socket.create_connection(OUTSIDE, timeout=0.01)


def attempt_sendto() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as connection:
        connection.sendto(b"x", OUTSIDE)


def attempt_sendmsg() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as connection:
        connection.sendmsg([b"x"], [], 0, OUTSIDE)


def attempt_getaddrinfo() -> None:
    socket.getaddrinfo("example.invalid", 443)


def attempt_gethostbyname() -> None:
    socket.gethostbyname("example.invalid")


def attempt_listen_everywhere() -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))


ATTEMPTS = [
    attempt_connect,
    attempt_connect_by_name,
    attempt_sendto_by_name,
    attempt_connect_ex,
    attempt_connect_v6,
    attempt_create_connection,
    attempt_sendto,
    attempt_sendmsg,
    attempt_getaddrinfo,
    attempt_gethostbyname,
    attempt_listen_everywhere,
]


def expect_refusal(attempt: Callable[[], Any], refused: list[str]) -> None:
    with pytest.raises(Exception, match="tests may only use loopback") as caught:
        attempt()
    assert not isinstance(caught.value, OSError)
    assert refused
    refused.clear()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.__name__.removeprefix("attempt_"))
def test_outside_address_is_refused(attempt: Callable[[], None], outside_addresses_refused: list[str]) -> None:
    """Every way of the standard library to reach, ask for or listen to another machine is refused."""
    expect_refusal(attempt, outside_addresses_refused)


def test_event_loop_is_refused_too(outside_addresses_refused: list[str]) -> None:
    """Connections made by the event loop, which bypass the blocking calls, are refused as well."""

    async def connect() -> None:
        await asyncio.open_connection(*OUTSIDE)

    expect_refusal(lambda: asyncio.run(connect()), outside_addresses_refused)


def test_swallowed_refusal_fails_the_test(pytester: pytest.Pytester) -> None:
    """A test fails for an attempt to leave the machine even where the code under test hid the error."""
    pytester.makeconftest(Path(__file__).parents[1].joinpath("conftest.py").read_text())
    pytester.makepyfile(
        """
        import socket
        def test_hides_it():
            try:
                socket.getaddrinfo("example.invalid", 443)
            except Exception:
                pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*tried to leave this machine: socket.getaddrinfo 'example.invalid'*"])


def test_loopback_passes() -> None:
    """Loopback in each of its spellings is open to the tests."""
    for host in ("127.0.0.1", "127.8.9.10", "localhost"):
        with socket.socket() as listener, socket.socket() as connection:
            listener.bind((host, 0))
            listener.listen()
            connection.connect(listener.getsockname())
    assert socket.getaddrinfo("localhost", 443)
    assert socket.getaddrinfo(None, 443)


def test_unix_sockets_pass(tmp_path: Path) -> None:
    """Unix sockets, with a name or without one, are open to the tests."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as connection:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        connection.connect(str(tmp_path / "s"))
    left, right = socket.socketpair()
    with left, right:
        left.sendmsg([b"x"])
        assert right.recv(1) == b"x"
