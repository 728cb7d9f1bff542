"""A short name for what a view shows."""

from __future__ import annotations

import hashlib

from adapters.contract import View, encode_view


def digest_of(view: View) -> str:
    """SHA-256 of the encoded view: equal digests mean that the message would look the same."""
    return digest_of_bytes(encode_view(view))


def digest_of_bytes(encoded: bytes) -> str:
    """The digest of a view that is encoded already."""
    return hashlib.sha256(encoded).hexdigest()
