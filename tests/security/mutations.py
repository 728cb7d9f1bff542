"""Disables each guard in turn and shows that a test turns red: `python -m tests.security.mutations [NAME…]`.

It works on a copy of the checkout. It is no test of the suite, since each guard costs a run of its tests. The exit code
is the number of guards that nobody missed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("adapters", "gateway", "runtime", "tests", "docs")


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard: the words of a module that make it, words that disable it, and the tests that have to notice."""

    name: str
    module: str
    words: str
    instead: str
    tests: str


GUARDS = (
    Guard("grant of a dangerous tool", "runtime/session/gate.py", "if grant is None or tool.high_risk:",
          "if grant is None:", "tests/unit/runtime/test_gate.py"),
    Guard("digest before a run", "runtime/session/gate.py", "if action.digest() != ticket.digest:", "if False:",
          "tests/unit/runtime/test_gate.py"),
    Guard("files before a run", "runtime/session/gate.py",
          "if digest not in (ticket.action.files[path], left.get(path)):",
          "if False:", "tests/unit/runtime/test_gate.py"),
    Guard("life of a grant", "runtime/session/gate.py", "grant.expires_at_ms > now_ms", "True",
          "tests/unit/runtime/test_gate.py"),
    Guard("denial of a policy", "runtime/session/gate.py", 'if rule == "deny":', "if False:",
          "tests/unit/runtime/test_gate.py"),
    Guard("bots of Discord", "adapters/discord/senders.py", 'user.get("bot") is True', "False",
          "tests/security/test_s04_senders_of_platforms.py"),
    Guard("webhooks of Discord", "adapters/discord/senders.py", 'message.get("webhook_id") is not None', "False",
          "tests/security/test_s04_senders_of_platforms.py"),
    Guard("bots of Slack", "adapters/slack/senders.py", 'if event.get("bot_id") or', "if",
          "tests/security/test_s04_senders_of_platforms.py"),
    Guard("teams of Slack", "adapters/slack/senders.py", "if at_home else", "if True else",
          "tests/security/test_s04_senders_of_platforms.py"),
    Guard("previews of Slack's captions", "adapters/slack/words.py", 'text.replace("://", ":\\u2060//")', "text",
          "tests/security/test_s36_no_link_previews.py"),
    Guard("previews of Discord", "adapters/discord/outbound.py", "SUPPRESS_EMBEDS, SILENT, COMPONENTS_V2 = 1 << 2",
          "SUPPRESS_EMBEDS, SILENT, COMPONENTS_V2 = 0", "tests/security/test_s36_no_link_previews.py"),
    Guard("mentions of Discord", "adapters/discord/outbound.py", '{"parse": [], "users"',
          '{"parse": ["everyone"], "users"', "tests/security/test_s37_no_mass_mention.py"),
    Guard("signature of Slack", "adapters/slack/http_events.py", "if not is_genuine(", "if False and not is_genuine(",
          "tests/security/test_s09_slack_requests.py"),
    Guard("tenant of Slack", "adapters/slack/door.py", "if not is_for_us(body, self._me):", "if False:",
          "tests/security/test_s09_slack_requests.py"),
    Guard("pace of a person", "gateway/pace.py", "if len(person.taken) < self._per_minute():", "if True:",
          "tests/security/test_s52_floods.py"),
)  # fmt: skip


def is_missed(guard: Guard, copy: Path) -> bool:
    """Whether a test turns red without the guard; the copy is as before afterwards. ValueError: the words are gone."""
    module = copy / guard.module
    before = module.read_text()
    if guard.words not in before:
        raise ValueError(f"{guard.module} has no {guard.words!r} any more: bring {guard.name!r} up to date")
    module.write_text(before.replace(guard.words, guard.instead))
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", guard.tests]
        return subprocess.run(command, cwd=copy, capture_output=True).returncode == 1
    finally:
        module.write_text(before)


def main(wanted: list[str]) -> int:
    """Try the named guards, or all; tells each and returns how many were not missed."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "config.example.toml"):
            shutil.copy(ROOT / file, folder)
        for guard in (one for one in GUARDS if not wanted or one.name in wanted):
            missed = is_missed(guard, Path(folder))
            unnoticed += not missed
            print(f"{'missed' if missed else 'NOT MISSED':<11} {guard.name}", flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
