"""Everything that a user installs with us is under a licence that asks for no more than a notice."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.architecture.sources import ROOT

ALLOWED = {
    "MIT",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Apache-2.0",
    "ISC",
    "PSF-2.0",
    "MPL-2.0",
    "0BSD",
    "Unlicense",
    "CNRI-Python",
}

# What metadata without an SPDX expression says, in the words found.
SPELLINGS = {
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "BSD License": "BSD",
    "BSD 2-Clause License": "BSD-2-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}

# Metadata says nothing; the text of the named file was read and is compared with these words.
READ_FROM_FILE: dict[str, tuple[str, str, str]] = {}


def locked_here() -> list[str]:
    """Names of requirements.lock whose markers apply to this interpreter."""
    lines = re.findall(r"^[A-Za-z0-9][^\\\n]*==[^\\\n]*", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    requirements = [Requirement(line) for line in lines]
    return [found.name for found in requirements if found.marker is None or found.marker.evaluate()]


def licence_of(distribution: metadata.Distribution) -> str:
    """The SPDX expression of a distribution, from the best of the places where it may stand."""
    about: dict[str, Any] = distribution.metadata.json
    if "license_expression" in about:
        return str(about["license_expression"])
    if about["name"] in READ_FROM_FILE:
        return licence_from_file(distribution)
    words: str = about.get("license", "")
    if first_line := words.strip().partition("\n")[0].strip():
        return SPELLINGS.get(first_line, first_line)
    classifiers: list[str] = about.get("classifier", [])
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License")]
    return " OR ".join(SPELLINGS.get(name, name) for name in names)


def licence_from_file(distribution: metadata.Distribution) -> str:
    """The licence noted by us, if the distribution still ships the text that the note is about."""
    spdx, file_name, words = READ_FROM_FILE[distribution.metadata["Name"]]
    texts = [file.read_text() for file in distribution.files or [] if file.name == file_name]
    return spdx if any(words in text for text in texts) else f"{file_name} changed"


def is_allowed(expression: str) -> bool:
    """Whether an SPDX expression can be met: each part joined by AND, one of those joined by OR."""
    if not expression or "(" in expression:
        return False
    return all(any(name.strip() in ALLOWED for name in part.split(" OR ")) for part in expression.split(" AND "))


def test_locked_requirements_have_an_allowed_licence() -> None:
    """No requirement of users asks for more than a notice, and none leaves its licence unsaid."""
    names = locked_here()
    assert len(names) > 40
    found = {name: licence_of(metadata.distribution(name)) for name in names}
    assert {name: licence for name, licence in found.items() if not is_allowed(licence)} == {}


@pytest.mark.parametrize("expression", ["MIT", "Apache-2.0 AND MIT", "GPL-3.0-only OR MIT", "MPL-2.0"])
def test_allowed_expressions(expression: str) -> None:
    """A choice is met by one allowed licence, a sum only by all of them."""
    assert is_allowed(expression)


@pytest.mark.parametrize("expression", ["", "UNKNOWN", "LGPL-3.0-only", "MIT AND GPL-2.0-only", "Proprietary"])
def test_refused_expressions(expression: str) -> None:
    """Unsaid, unknown and reciprocal licences are refused, also as a part of a sum."""
    assert not is_allowed(expression)
