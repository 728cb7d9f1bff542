"""Everything that `doctor` looks at, put together: configuration, files, database, sandbox, clock and the platforms."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import aiohttp

from adapters.contract import Adapter, Diagnosis, Environment
from adapters.errors import AdapterError, BadCredentials
from adapters.registry import factory_of
from gateway.config import Config
from gateway.doctor import claimed_owners, examine, examine_database, read_configuration, verdict
from gateway.exits import ExitCode
from gateway.finding import Finding, Level, error, note, warning
from gateway.inspection import known_versions
from gateway.schedules.tool import NAME as SCHEDULE_TASK
from gateway.state_folder import owner_of
from gateway.toolbox import every_tool
from runtime.clock import Clock, SystemClock

SKEW_WARNING_SECONDS = 30.0
SKEW_ERROR_SECONDS = 240.0
"""Slack refuses, and we refuse, what is signed more than 300 s away from the own clock."""

PLATFORM_SECONDS = 20.0


@runtime_checkable
class Diagnosing(Protocol):
    """An adapter that can look at its account without taking messages in."""

    async def diagnose(self) -> Sequence[Diagnosis]:
        """Ask the platform; nothing is changed there. BadCredentials, NotConnected."""
        ...


def examine_all(
    file: Path, environ: Mapping[str, str], *, offline: bool = False
) -> tuple[tuple[Finding, ...], ExitCode]:
    """Every finding, the gravest first, and the exit code."""
    config, findings = read_configuration(file, environ)
    if config is not None:
        findings += asyncio.run(_examine(config, offline=offline))
    order = list(Level)
    return tuple(sorted(findings, key=lambda one: order.index(one.level))), verdict(findings)


async def _examine(config: Config, *, offline: bool) -> tuple[Finding, ...]:
    tools = [*(tool.name for tool in every_tool(SystemClock())), SCHEDULE_TASK]
    findings = [*examine(config, tools, await claimed_owners(config)), *await sandbox()]
    findings += await examine_database(config, known_versions())
    if not offline:
        for platform, settings in config.platforms().items():
            findings += await examine_platform(platform, settings, SystemClock())
    if owner_of(config.gateway.state_dir):
        # It is our own gateway that polls. A stranger beside it is in its log: the platform tells it of the conflict.
        findings = [one for one in findings if not one.id.endswith(".second_poller")]
    return tuple(findings)


async def sandbox() -> tuple[Finding, ...]:
    """Whether programs can be shut in: one is run that tries to get out."""
    from runtime.tools.sandbox import Sandbox

    found = await Sandbox().probe()
    if found.available:
        return ()
    message = f"Tools that run programs are not offered: {found.reason}."
    return (warning("sandbox.missing", message, found.remedy),)


async def examine_platform(platform: str, settings: Mapping[str, Any], clock: Clock) -> tuple[Finding, ...]:
    """What the platform says of our account, and how far our clock is from its."""
    try:
        async with asyncio.timeout(PLATFORM_SECONDS):
            return (*await _account(platform, settings, clock), *await _skew(platform, settings, clock))
    except TimeoutError:
        return (error(f"{platform}.unreachable", f"{platform} does not answer.", "check the network and api_base"),)


async def _account(platform: str, settings: Mapping[str, Any], clock: Clock) -> tuple[Finding, ...]:
    try:
        async with _made(platform, settings, clock) as adapter:
            if not isinstance(adapter, Diagnosing):
                return (note(f"{platform}.unexamined", f"The adapter of {platform} cannot examine its account."),)
            return tuple(_finding(one) for one in await adapter.diagnose())
    except (LookupError, ValueError) as failure:
        return (error(f"{platform}.settings", f"{platform}: {failure}"),)
    except BadCredentials as failure:
        told, _, asked = str(failure).partition(": ask ")
        remedy = f"ask {asked}" if asked else "get a new one"
        return (error(f"{platform}.credentials", f"{platform} refuses the token: {told}", remedy),)
    except AdapterError as failure:
        return (error(f"{platform}.unreachable", f"{platform}: {failure}", "check the network and api_base"),)


@asynccontextmanager
async def _made(platform: str, settings: Mapping[str, Any], clock: Clock) -> AsyncGenerator[Adapter]:
    environment = Environment(now_ms=clock.now_ms, sleep=clock.sleep, random_bytes=secrets.token_bytes)
    adapter = await asyncio.to_thread(lambda: factory_of(platform)(settings, environment))
    try:
        yield adapter
    finally:
        await adapter.stop()


def _finding(one: Diagnosis) -> Finding:
    return Finding(id=one.id, level=Level(one.level), message=one.message, remedy=one.remedy)


async def _skew(platform: str, settings: Mapping[str, Any], clock: Clock) -> tuple[Finding, ...]:
    """Compare our clock with the Date header of whatever answers at the platform's address."""
    base = settings.get("api_base")
    if not isinstance(base, str):
        return ()
    try:
        async with (
            aiohttp.ClientSession(trust_env=True) as session,
            session.get(base, allow_redirects=False) as response,
        ):
            theirs = response.headers.get("Date")
    except aiohttp.ClientError:
        return ()
    return skew(platform, clock.now_ms() / 1000, theirs)


def skew(platform: str, ours: float, date: str | None) -> tuple[Finding, ...]:
    """What the difference between our clock, in seconds since the epoch, and an HTTP date means."""
    try:
        theirs = parsedate_to_datetime(date or "")
    except ValueError:
        return ()
    away = ours - theirs.replace(tzinfo=theirs.tzinfo or UTC).timestamp()
    if abs(away) < SKEW_WARNING_SECONDS:
        return ()
    level = Level.ERROR if abs(away) >= SKEW_ERROR_SECONDS else Level.WARNING
    direction = "ahead of" if away > 0 else "behind"
    message = f"The clock of this machine is {abs(away):.0f} s {direction} that of {platform}."
    return (Finding(id="clock.skew", level=level, message=message, remedy="switch time synchronisation on"),)


__all__ = ["Diagnosing", "examine_all", "examine_platform", "sandbox", "skew"]
