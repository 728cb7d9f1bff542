"""How we connect to a provider: no proxy for a server on this machine, no redirect, bounded waiting."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import httpx2

CONNECT_SECONDS = 15.0


def http_client(base_url: str, timeout_seconds: float) -> httpx2.AsyncClient:
    """A client for one server. `timeout_seconds` bounds a silence, not a whole answer."""
    # A proxy from the environment is for the outside world, and would be told of every word said to a local server.
    return httpx2.AsyncClient(
        timeout=patience(timeout_seconds), trust_env=not is_local(base_url), follow_redirects=False
    )


def patience(timeout_seconds: float) -> httpx2.Timeout:
    """How long a connection and a silence may take."""
    return httpx2.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds))


def is_local(base_url: str) -> bool:
    """Whether the server runs on this machine."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
