"""The page on security names a test for every requirement, and what it names is there."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = dict(re.findall(r"^\| (S-\d\d) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE))
LAST = 56
# Hardening without a test yet.
WITHOUT = {"S-35", "S-53"}


def test_every_requirement_has_a_row() -> None:
    """No id is forgotten; the few without a row are known by name."""
    wanted = {f"S-{number:02}" for number in range(1, LAST + 1)}
    assert wanted - ROWS.keys() <= WITHOUT
    assert ROWS.keys() <= wanted


def test_every_named_test_is_there() -> None:
    """Each file of the table exists and has tests."""
    named = {path for cell in ROWS.values() for path in re.findall(r"`([^`]+)`", cell)}
    assert len(named) > 50
    missing = [path for path in named if not (ROOT / path).is_file() or "def test_" not in (ROOT / path).read_text()]
    assert missing == []
