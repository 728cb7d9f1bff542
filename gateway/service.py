"""`pilothouse run`: from the configuration file to a gateway that runs, and to its orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gateway import logs
from gateway.config import Config, load
from gateway.state_folder import Owner, claimed, prepare
from gateway.systemd import ServiceManager
from runtime.faults import NO_FAULTS, Faults


def run_service(
    file: Path, environ: Mapping[str, str], *, until_stdin_closes: bool = False, faults: Faults = NO_FAULTS
) -> int:
    """Run until SIGTERM, SIGINT or the application's own end; returns the exit code.

    SIGHUP reads the file again: rights, bindings, workspaces, agents and limits are taken over, all or nothing.
    The first signal takes nothing more in, finishes what it can within `gateway.drain_seconds` and leaves the rest on
    disk; a second one ends at once, which loses nothing either.
    """
    config = load(file, environ, to_run=True)
    logs.configure(level=config.gateway.log_level, form=config.gateway.log_format)
    log = logs.get_logger("gateway.service")
    for sentence in config.warnings:
        log.warning("configuration", note=sentence)
    folder = config.gateway.state_dir
    prepare(folder)
    with claimed(folder, Owner.of_this_process(config.file)):
        log.info("starting", config=str(config.file), state_dir=str(folder), pid=os.getpid())
        manager = ServiceManager(environ)
        supervised = _supervised(
            config, manager, faults, lambda: load(file, environ, to_run=True), until_stdin_closes=until_stdin_closes
        )
        code = asyncio.run(supervised)
        log.info("stopped", exit_code=code)
        return code


async def _supervised(
    config: Config,
    manager: ServiceManager,
    faults: Faults,
    again: Callable[[], Config],
    *,
    until_stdin_closes: bool,
) -> int:
    from gateway.app import Reload, run

    stop, told = asyncio.Event(), asyncio.Event()
    _stop_on_signals(stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, told.set)
    if until_stdin_closes:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _watch_stdin, stop)
    reload = Reload(told=told, load=again)
    return await run(config, stop=stop, service_manager=manager, faults=faults, reload=reload)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def received(number: int) -> None:
        if stop.is_set():
            # Everything acknowledged is on disk: there is nothing that a patient end would save.
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)


def _watch_stdin(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()
