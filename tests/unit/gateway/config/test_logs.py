"""Logs: correlated, readable by machines or people, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from gateway import logs
from gateway.secrets import Secret

VALUE = "canary-4711-value"


@pytest.fixture(autouse=True)
def logging_is_put_back() -> Iterator[None]:
    """Leave the process' logging as it was."""
    hooks = (sys.excepthook, sys.unraisablehook, threading.excepthook)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    sys.excepthook, sys.unraisablehook, threading.excepthook = hooks


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    """The JSON lines so far."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def stream() -> io.StringIO:
    """Where a JSON log of level debug goes."""
    stream = io.StringIO()
    logs.configure(level="debug", form="json", stream=stream)
    return stream


def test_ids_follow_the_task(stream: io.StringIO) -> None:
    """Ids of a block stand in every line of it, also in lines of libraries, and not after it."""
    with logs.correlated(session_id="s1", turn_id=None, inbound_id=7):
        logs.get_logger("gateway.intake").info("stored", kind="message")
        logging.getLogger("somebody").warning("hm %d", 1)
    logs.get_logger("gateway.intake").info("idle")
    first, second, third = entries(stream)
    assert all(line.pop("timestamp").endswith("Z") for line in (first, second, third))
    ids = {"session_id": "s1", "inbound_id": 7}
    assert first == {"event": "stored", "level": "info", "logger": "gateway.intake", "kind": "message"} | ids
    assert second == {"event": "hm 1", "level": "warning", "logger": "somebody"} | ids
    assert third == {"event": "idle", "level": "info", "logger": "gateway.intake"}


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_part_of_a_record_carries_a_secret(form: Any) -> None:
    """Message, arguments, fields, exception, its cause and the stack: all are redacted, in both forms."""
    secret = Secret(VALUE)
    stream = io.StringIO()
    logs.configure(level="debug", form=form, stream=stream)
    plain, own = logging.getLogger("lib"), logs.get_logger("own")
    plain.warning("a %s", secret.reveal(), stack_info=True)
    plain.warning(f"b {secret.reveal()}")
    own.info(secret.reveal(), field=secret.reveal(), nested={"k": [secret.reveal()]}, closed=secret)
    try:
        try:
            raise KeyError(secret.reveal())
        except KeyError as error:
            raise RuntimeError(f"bot{secret.reveal()}/x") from error
    except RuntimeError:
        own.exception("failed")
        plain.exception("failed too")
    assert VALUE not in stream.getvalue()
    assert stream.getvalue().count("***") >= 10
    assert stream.getvalue().count("RuntimeError: bot***") == 2


def test_broken_log_call_does_not_show_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that cannot be formatted is reported as lost; its arguments are printed nowhere."""
    stream = io.StringIO()
    logs.configure(form="json", stream=stream)
    logging.getLogger("lib").warning("%d", Secret(VALUE).reveal())
    captured = capsys.readouterr()
    assert stream.getvalue() == "a log line of lib was lost: TypeError\n"
    assert captured.err == ""


def test_what_nobody_caught_is_logged_and_closed(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    """Uncaught exceptions of the main and other threads, ignored ones and warnings come redacted, and only here."""
    value = Secret(VALUE).reveal()
    try:
        raise ValueError(value)
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)

    def fail() -> None:
        raise ValueError(value)

    thread = threading.Thread(target=fail)
    # pytest replaces the hook for each test; ours is put in its place for this one.
    logs.configure(level="debug", form="json", stream=stream)
    thread.start()
    thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(value, stacklevel=1)
    assert [line["event"].split("\n")[0].split(": ")[0] for line in entries(stream)][:2] == ["uncaught exception"] * 2
    assert VALUE not in stream.getvalue() + capsys.readouterr().err
    assert len(entries(stream)) == 3


def test_talkative_libraries_are_quiet(stream: io.StringIO) -> None:
    """Below WARNING client libraries print addresses with tokens and whole bodies: they are not let through."""
    for name in (
        "aiogram.event",
        "slack_bolt.App",
        "httpx",
        "aiohttp.access",
        "discord.gateway",
        "openai._base_client",
    ):
        logging.getLogger(name).info("body")
        logging.getLogger(name).warning("trouble")
    assert [line["event"] for line in entries(stream)] == ["trouble"] * 6


def test_other_handlers_are_taken_away() -> None:
    """A handler that a library put on the root before would write secrets: there is only ours afterwards."""
    elsewhere = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(elsewhere))
    logs.configure(form="json", stream=io.StringIO())
    logging.getLogger("lib").warning(Secret(VALUE).reveal())
    assert elsewhere.getvalue() == ""


def test_level_counts_for_everybody() -> None:
    """What is below the level is not written, whoever logs it."""
    stream = io.StringIO()
    logs.configure(level="error", form="json", stream=stream)
    logs.get_logger("own").warning("quiet")
    logging.getLogger("aiogram").warning("quiet")
    logs.get_logger("own").error("loud")
    assert [line["event"] for line in entries(stream)] == ["loud"]


def test_console_obeys_no_control_character() -> None:
    """A name that holds escape sequences or line breaks cannot move the cursor or fake a line."""
    stream = io.StringIO()
    logs.configure(form="console", stream=stream)
    logs.get_logger("own").info("message\x1b[2K\rfake", name="eve\n2026 [info] all is well")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "message\\x1b[2K\\rfake" in stream.getvalue()
