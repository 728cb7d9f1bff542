"""The command `pilothouse`. Imports little: each command brings what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

DEFAULT_FILE = Path("pilothouse.toml")

app = typer.Typer(
    name="pilothouse",
    help="A chat gateway for AI agents that loses nothing.",
    epilog="No account at hand? `pilothouse try` needs none.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", envvar="PILOTHOUSE_CONFIG", metavar="FILE", help="The configuration file."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def main() -> NoReturn:
    """Run the command line and end with its exit code (see docs/cli.md)."""
    os.umask(0o077)
    app()
    raise AssertionError("unreachable")


# ----------------------------------------------------------------------------------------------------------- commands


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"pilothouse {version('pilothouse')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A chat gateway for AI agents that loses nothing."""


@app.command("try")
def try_(
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="Where the trial keeps its files.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines instead of a screen; the default without a terminal.")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="A page in a browser instead: Telegram, Slack and Discord, and faults to try.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the page; 0 takes a free one.")] = 0,
    patience: Annotated[
        float | None,
        typer.Option("--patience", metavar="SECONDS", min=1, help="What Slack and Discord of the page wait, not 3."),
    ] = None,
) -> None:
    """Talk to the bot in this terminal, without any account.

    It needs no key, and nothing leaves this machine.
    """
    from gateway.trial import run_trial

    with _failures(as_json=False):
        if web:
            from gateway.trial.web import run_room

            raise typer.Exit(run_room(state=state, port=port, patience=patience))
        raise typer.Exit(run_trial(state=state, plain=plain))


@app.command()
def run(
    config: ConfigOption = DEFAULT_FILE,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Run the gateway until it is told to stop."""
    from gateway.service import run_service

    with _failures(as_json=False):
        raise typer.Exit(run_service(config, os.environ, until_stdin_closes=until_stdin_closes))


class InitPlatform(StrEnum):
    """What `init` can set up."""

    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"


@app.command()
def init(
    platform: Annotated[
        InitPlatform, typer.Argument(help="`telegram`, `discord`; `slack` prints the manifest of the app to create.")
    ] = InitPlatform.TELEGRAM,
    config: ConfigOption = DEFAULT_FILE,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    api_base: Annotated[
        str | None,
        typer.Option(
            "--api-base", metavar="URL", help="Another server than the platform's own: a Bot API server, an emulator."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Slack: what the app is called.")] = "Pilothouse",
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Slack: the public address of HTTP events, in place of sockets.")
    ] = "",
) -> None:
    """Ask a few questions and write the configuration file."""
    from gateway.setup import DISCORD, TELEGRAM, Console, print_manifest, run_setup

    with _failures(as_json=False):
        if platform is InitPlatform.SLACK:
            raise typer.Exit(print_manifest(name, url))
        chat = DISCORD if platform is InitPlatform.DISCORD else TELEGRAM
        raise typer.Exit(run_setup(config, os.environ, Console(), chat=chat, api_base=api_base, force=force))


@app.command()
def doctor(
    config: ConfigOption = DEFAULT_FILE,
    as_json: JsonOption = False,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no platform.")] = False,
) -> None:
    """Look at everything that has to fit, and name what is missing. Changes nothing."""
    from gateway.examination import examine_all

    with _failures(as_json):
        findings, code = examine_all(config, os.environ, offline=offline)
        if as_json:
            _print_json([one.as_json() for one in findings])
        else:
            _print_findings(findings)
        raise typer.Exit(code)


@app.command()
def sessions(
    config: ConfigOption = DEFAULT_FILE,
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
) -> None:
    """List the sessions, also of a gateway that runs."""
    from gateway import inspection

    with _failures(as_json):
        found = inspection.sessions(config, os.environ, limit)
        _print_json(found) if as_json else _print_table(found, inspection.SESSION_COLUMNS, "There are no sessions yet.")


@app.command()
def approvals(config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """List the approvals that wait for a person. They are decided in the chat."""
    from gateway import inspection

    with _failures(as_json):
        found = inspection.approvals(config, os.environ)
        _print_json(found) if as_json else _print_table(
            found, inspection.APPROVAL_COLUMNS, "Nothing waits for a person."
        )


@app.command()
def migrate(config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """Bring the database to this version's schema. `run` does it too; it cannot be undone, so make a backup first."""
    from gateway import inspection

    with _failures(as_json):
        done = inspection.migrate(config, os.environ)
        _print_json(done) if as_json else _print_lines(f"{name}: version {number}" for name, number in done.items())


@app.command()
def export(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, see `pilothouse sessions`.")],
    config: ConfigOption = DEFAULT_FILE,
) -> None:
    """Print a session as JSON lines.

    Its labels, its conversation, its events. Secrets are replaced.
    """
    from gateway import inspection

    with _failures(as_json=True):
        _print_lines(inspection.export(config, os.environ, session))


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The copy; must not exist yet.")],
    config: ConfigOption = DEFAULT_FILE,
    as_json: JsonOption = False,
) -> None:
    """Copy the database to a file, also while the gateway runs."""
    from gateway import inspection

    with _failures(as_json):
        size = inspection.backup(config, os.environ, target)
        _print_json({"file": str(target), "bytes": size}) if as_json else _print_lines([f"{target}: {size} bytes"])


# ---------------------------------------------------------------------------------------------------------- schedules

cron = typer.Typer(no_args_is_help=True, help="Look at schedules and change them, also while the gateway runs.")
app.add_typer(cron, name="cron")

NumberArgument = Annotated[int, typer.Argument(metavar="NUMBER", help="The schedule's, see `pilothouse cron list`.")]


@cron.command("list")
def cron_list(config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """List the schedules."""
    from gateway import cron as schedules

    with _failures(as_json):
        found = schedules.schedules(config, os.environ)
        _print_json(found) if as_json else _print_table(found, schedules.SCHEDULE_COLUMNS, "There are no schedules.")


@cron.command("show")
def cron_show(number: NumberArgument, config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """Show everything about one, with its next three runs."""
    from gateway import cron as schedules

    with _failures(as_json):
        _print_fields(schedules.show(config, os.environ, number), as_json)


@cron.command("history")
def cron_history(
    number: NumberArgument,
    config: ConfigOption = DEFAULT_FILE,
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
) -> None:
    """List what became of its due times, the newest first."""
    from gateway import cron as schedules

    with _failures(as_json):
        found = schedules.history(config, os.environ, number, limit)
        _print_json(found) if as_json else _print_table(found, schedules.RUN_COLUMNS, "It has not been due yet.")


@cron.command("add")
def cron_add(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="As behind /cron add: time, options, prompt.")],
    config: ConfigOption = DEFAULT_FILE,
    as_json: JsonOption = False,
    by: Annotated[str | None, typer.Option("--as", metavar="PRINCIPAL", help="With whose rights it runs.")] = None,
) -> None:
    """Make one, like: pilothouse cron add "0 9 * * 1-5" in telegram:-100123 Write a summary."""
    from gateway import cron as schedules

    with _failures(as_json):
        _print_fields(schedules.add(config, os.environ, " ".join(words), by), as_json)


@cron.command("edit")
def cron_edit(
    number: NumberArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What is to be changed, like overlap=allow.")],
    config: ConfigOption = DEFAULT_FILE,
    as_json: JsonOption = False,
) -> None:
    """Change what is named: time, options, prompt."""
    _cron_change("edit", number, config, as_json, " ".join(words))


@cron.command("pause")
def cron_pause(number: NumberArgument, config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """Let it be due no more, until it is resumed."""
    _cron_change("pause", number, config, as_json)


@cron.command("resume")
def cron_resume(number: NumberArgument, config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """Let it be due again, from now on."""
    _cron_change("resume", number, config, as_json)


@cron.command("run")
def cron_run(number: NumberArgument, config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """Run it once, now, by the gateway that runs or at its next start; returns at once with the run's id."""
    _cron_change("run", number, config, as_json)


@cron.command("remove")
def cron_remove(number: NumberArgument, config: ConfigOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """Remove it; a run that goes on is not stopped."""
    _cron_change("remove", number, config, as_json)


def _cron_change(act: str, number: int, config: Path, as_json: bool, text: str = "") -> None:
    from gateway import cron as schedules

    with _failures(as_json):
        _print_fields(schedules.change(config, os.environ, act, number, text), as_json)


# ------------------------------------------------------------------------------------------------------------ output


@contextmanager
def _failures(as_json: bool) -> Generator[None]:
    """Every failure becomes sentences on standard error (or JSON on standard output) and an exit code."""
    from gateway.failures import explain

    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as failure:
        explained = explain(failure)
        if explained is None:
            raise
        if as_json:
            _print_json({"error": {"exit_code": int(explained.code), "messages": explained.sentences}})
        else:
            _print_error(explained.sentences)
        raise typer.Exit(int(explained.code)) from None


def _print_error(sentences: list[str]) -> None:
    from gateway.secrets import redact

    for sentence in sentences:
        typer.echo(redact(sentence), err=True)


def _print_json(value: Any) -> None:
    import json

    from gateway.secrets import redact, redact_all

    typer.echo(redact(json.dumps(redact_all(value), ensure_ascii=False, indent=2)))


def _print_fields(fields: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print_json(fields)
    else:
        _print_lines(f"{name}: {_cell(value)}" for name, value in fields.items())


def _print_lines(lines: Any) -> None:
    from gateway.secrets import redact

    for line in lines:
        typer.echo(redact(line))


def _print_table(rows: list[dict[str, Any]], columns: dict[str, str], nothing: str) -> None:
    """Columns as wide as they need to be, without a frame: for people and for `cut`."""
    if not rows:
        typer.echo(nothing, err=True)
        return
    cells = [list(columns.values()), *([_cell(row[key]) for key in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    _print_lines(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cell(value: Any) -> str:
    text = "-" if value is None else ("yes" if value is True else "no" if value is False else str(value))
    # Labels come from people: nothing in them may move the cursor.
    return "".join(one if one.isprintable() else "·" for one in text)


def _print_findings(findings: Any) -> None:
    from rich.console import Console
    from rich.text import Text

    from gateway.secrets import redact

    console = Console(highlight=False, soft_wrap=True)
    styles = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for one in findings:
        line = Text(f"{one.level.value:<8}", style=styles[one.level.value])
        line.append(f"{one.id:<20}", style="dim")
        line.append(redact(f" {one.message}"))
        console.print(line)
        if one.remedy:
            console.print(Text(redact(f"{'':29}→ {one.remedy}"), style="dim"))
    errors = sum(one.level.value == "error" for one in findings)
    others = len(findings) - errors
    summary = f"{errors} error{'s' * (errors != 1)}, {others} other finding{'s' * (others != 1)}"
    console.print(Text(summary, style="bold"))


if __name__ == "__main__":
    sys.exit(main())
