"""What can go wrong when somebody drives an emulator from the control side.

EmulatorError
├── AddressRefused      asked to listen on, or deliver to, something that is not this machine
├── NotKnown            a user, chat, message, button or verb that the emulator does not have
├── NotPossible         the person could not do that on the real platform either
└── ViolationsFound     the program under test broke the platform's rules

Errors that the platform itself would send to a client are not in this tree: they are answers.
"""

from __future__ import annotations


class EmulatorError(Exception):
    """Root of the tree above."""


class AddressRefused(EmulatorError, ValueError):
    """Emulators talk to this machine only."""


class NotKnown(EmulatorError, LookupError):
    """The message names what was looked for, where, and what is there instead."""


class NotPossible(EmulatorError, ValueError):
    """The message names the rule of the platform that forbids it."""


class ViolationsFound(EmulatorError, AssertionError):
    """The message lists every recorded violation."""
