"""The first owner, by a code that only whoever started the gateway can read.

While no owner is configured, a code of 64 bits is shown in the terminal. Whoever sends it in a private chat becomes the
owner. Nothing else is answered meanwhile, so that nobody learns from outside that there is anything to guess.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from enum import Enum, auto

from adapters.contract import Inbound, InboundKind, SenderKind
from runtime.clock import Clock

VALID_MS = 15 * 60 * 1000
TRIES = 5
_BYTES = 8
_LENGTH = 13
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


class Attempt(Enum):
    """What an inbound is to a claim."""

    NONE = auto()
    """It does not look like a code, or no code counts any more."""
    WRONG = auto()
    RIGHT = auto()


class Claim:
    """One code: 15 minutes, 5 wrong codes in all, private chats only."""

    def __init__(self, random_bytes: Callable[[int], bytes], clock: Clock) -> None:
        self._code = base64.b32encode(random_bytes(_BYTES)).decode("ascii").rstrip("=")
        self._clock = clock
        self._ends_at_ms = clock.now_ms() + VALID_MS
        self._tries = TRIES

    @property
    def code(self) -> str:
        """As it is shown: groups of letters and digits that people can read out and type."""
        return "-".join((self._code[:4], self._code[4:8], self._code[8:]))

    @property
    def ends_at_ms(self) -> int:
        """When it stops counting."""
        return self._ends_at_ms

    @property
    def open(self) -> bool:
        """Whether the code still counts."""
        return self._tries > 0 and self._clock.now_ms() < self._ends_at_ms

    @property
    def tries_left(self) -> int:
        """Wrong codes until it stops counting; 0 once it does."""
        return self._tries if self.open else 0

    def attempt(self, inbound: Inbound) -> Attempt:
        """Compare what was said with the code, in constant time. A wrong code costs a try; anything else costs none."""
        given = _code_in(inbound)
        if given is None or not self.open:
            return Attempt.NONE
        if hmac.compare_digest(given.encode(), self._code.encode()):
            return Attempt.RIGHT
        self._tries -= 1
        return Attempt.WRONG

    def close(self) -> None:
        """The code counts no more."""
        self._tries = 0


def _code_in(inbound: Inbound) -> str | None:
    """What looks like a code, said by a person in a private chat; also behind /start, which Telegram's links send."""
    if inbound.chat_kind != "private" or inbound.sender.kind is not SenderKind.PERSON or inbound.forwarded:
        return None
    match inbound.kind:
        case InboundKind.MESSAGE:
            said = inbound.text.strip().removeprefix("/start ")
        case InboundKind.COMMAND if inbound.command == "start":
            said = inbound.arguments
        case _:
            return None
    given = "".join(said.upper().replace("-", " ").split())
    return given if len(given) == _LENGTH and _ALPHABET.issuperset(given) else None
