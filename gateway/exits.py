"""What the command's exit code says, for scripts and service managers."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Every code that `pilothouse` ends with on purpose."""

    OK = 0
    FAILED = 1
    """Something unexpected went wrong; the log says what."""
    CONFIGURATION = 2
    """The command line or the configuration file cannot work; nothing was started."""
    CREDENTIALS = 3
    """A token or key is missing, unreadable or refused by its platform."""
    DATABASE = 4
    """The database cannot be read, or a newer pilothouse has written it."""
    WORKSPACE = 5
    """The folder of a workspace is missing or cannot be used."""
    BUSY = 6
    """Another instance owns the state folder, or another program owns the token."""
    FINDINGS = 7
    """`doctor` found at least one error; everything it looked at is in its report."""
