"""The listener under every emulator: this machine only, one owner of everything that runs."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from adapters.emulators.errors import AddressRefused

MAX_BODY = 64 << 20
SHUTDOWN_SECONDS = 0.25


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own; names other than `localhost` are not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_loopback(host: str) -> None:
    """Raise AddressRefused unless `host` is a loopback address or `localhost`."""
    if not is_loopback(host):
        raise AddressRefused(f"{host!r} is not a loopback address: emulators serve and call this machine only")


class EmulatorServer:
    """An HTTP server on loopback that owns its background tasks and knows its open requests."""

    def __init__(self) -> None:
        self.app = web.Application(client_max_size=MAX_BODY, middlewares=[self._remember_failure])
        self._runner: web.AppRunner | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []
        self._open: dict[int, tuple[web.Request, str]] = {}
        self._address: tuple[str, int] | None = None
        self.cut = asyncio.Event()
        """Set, and replaced, when somebody disconnects the clients: ends requests that only hold a connection open."""

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen. Port 0 takes a free one; `url` tells which. Raises AddressRefused, or OSError for a taken port."""
        require_loopback(host)
        if self._runner is not None:
            raise RuntimeError("the emulator is already running")
        runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self._address = (host, runner.addresses[0][1])

    async def stop(self) -> None:
        """End every task, connection and listener. Raises an ExceptionGroup if something of its own had failed."""
        runner, self._runner = self._runner, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.disconnect()
        if runner is not None:
            await runner.cleanup()
        failures, self._failures = self._failures, []
        if failures:
            raise BaseExceptionGroup("the emulator itself failed", failures)

    @property
    def url(self) -> str:
        """Base address without a trailing slash."""
        if self._address is None:
            raise RuntimeError("the emulator was not started: it has no address yet")
        host, port = self._address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def port(self) -> int:
        if self._address is None:
            raise RuntimeError("the emulator was not started: it has no port yet")
        return self._address[1]

    @web.middleware
    async def _remember_failure(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except Exception as failure:
            # The client sees a 500 that looks like the platform's; whoever stops the emulator learns the truth.
            # A client that died in the middle of its request is no failure of the emulator.
            if is_connected(request):
                self._failures.append(failure)
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` until it ends, is cancelled, or the server stops; its failure is raised by `stop`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)

    @contextmanager
    def tracked(self, request: web.Request, account: str) -> Generator[None]:
        """While inside, `disconnect` can cut this request's connection."""
        # Requests compare as mappings and have no hash.
        self._open[id(request)] = (request, account)
        try:
            yield
        finally:
            del self._open[id(request)]

    def disconnect(self, chosen: Callable[[str], bool] = lambda _: True) -> int:
        """Cut the connections of open requests whose account is chosen, without an answer; returns how many."""
        cut = 0
        released, self.cut = self.cut, asyncio.Event()
        released.set()
        for request, account in list(self._open.values()):
            if chosen(account):
                cut += abort(request)
        return cut


def abort(request: web.Request) -> bool:
    """Cut the connection of a request; False if it was gone already."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return False
    transport.abort()
    return True


def is_connected(request: web.Request) -> bool:
    """Whether somebody is still there to read the answer."""
    return request.transport is not None and not request.transport.is_closing()
