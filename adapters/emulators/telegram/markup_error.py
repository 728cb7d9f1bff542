"""The one error of the markup parsers."""

from __future__ import annotations


class MarkupError(ValueError):
    """Markup that the platform does not accept; the message is the part after `can't parse entities: `."""
