"""The composition root: names the concrete classes, puts them together, and owns the tasks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Protocol, TypeAlias, TypedDict, runtime_checkable

from adapters.contract import Adapter, Environment, Inbound, Notice, Place
from adapters.registry import factory_of
from gateway.access import Access, Policy
from gateway.agents import Agents
from gateway.blobs import Blobs
from gateway.budget import Priority
from gateway.catching_up import CatchUp
from gateway.claim import Claim
from gateway.commands import menu
from gateway.config import Config, binding_for
from gateway.config.model import ModelSection
from gateway.connections import Connections
from gateway.delivery import Delivery
from gateway.delivery.border import Neighbours
from gateway.delivery.directory import LedgerDirectory
from gateway.handling import Desk
from gateway.health import HealthSite, PlatformVitals, Vitals
from gateway.intake import Intake, chat_moved, settle_claims
from gateway.ledger import audit, deliveries, inbound
from gateway.ledger import places as place_rows
from gateway.metrics import Metrics
from gateway.pace import Pace
from gateway.places import Places
from gateway.posting import Posting, content_of
from gateway.receiving import FileLimits, Receiving, sweep
from gateway.router import Router
from gateway.schedules.alarm import ClockAlarm, SchedulerAlarm
from gateway.schedules.means import Means, Settings
from gateway.schedules.recipe import RunRecipe
from gateway.schedules.runner import Runner
from gateway.schedules.tool import ScheduleTask
from gateway.schedules.unattended import NobodyThere
from gateway.spending import Purse, today
from gateway.state_folder import database_in
from gateway.systemd import ServiceManager
from gateway.toolbox import offered_tools
from runtime.clock import Clock, SystemClock
from runtime.errors import ConfigurationError
from runtime.faults import NO_FAULTS, Faults
from runtime.host import Runtime
from runtime.models.base import Model
from runtime.models.prices import Prices
from runtime.protocol import ops
from runtime.protocol.context import JsonValue
from runtime.protocol.events import Event
from runtime.protocol.session import SessionContext
from runtime.store.sqlite import SqliteStore

log = logging.getLogger("pilothouse")

DAY_MS = 24 * 3600 * 1000
KEPT_MS = 30 * DAY_MS
"""How long inbound keys, deliveries and receipts are remembered: far beyond every platform's redelivery."""

HOUSEKEEPING_SECONDS = 3600.0

Announce = Callable[[str], None]
"""Shows a line to whoever started the gateway: the claim code, and that it is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """How a changed configuration is taken over: `load` reads it, or says what is wrong with it."""

    told: asyncio.Event
    load: Callable[[], Config]


@runtime_checkable
class Connecting(Protocol):
    """A model that loads a library and holds connections."""

    async def warm_up(self) -> None:
        """Load what the first call will need."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class Stopping(Exception):
    """We take nothing in any more: the platform keeps it and sends it again to whoever comes next."""


async def run(
    config: Config,
    *,
    stop: asyncio.Event | None = None,
    faults: Faults = NO_FAULTS,
    clock: Clock | None = None,
    announce: Announce | None = None,
    reload: Reload | None = None,
    service_manager: ServiceManager | None = None,
) -> int:
    """Run the gateway until `stop` is set; 0 on an orderly end.

    What was under way is finished within `gateway.drain_seconds`, or left on disk for the next start. BadCredentials:
    every platform refused us. SchemaTooNew, ConfigurationError, CheckpointError: the database cannot be used.
    """
    stop = stop or asyncio.Event()
    clock = clock or SystemClock()
    store = await SqliteStore.open(
        database_in(config.gateway.state_dir),
        clock=clock,
        faults=faults,
        components={"gateway": files("gateway") / "migrations"},
    )
    try:
        gateway = await Gateway.make(config, store, clock, faults, announce or _to_terminal, reload)
        await gateway.run(stop, service_manager or ServiceManager({}))
    finally:
        await store.aclose()
    return 0


def _to_terminal(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


Content: TypeAlias = Callable[[str], bytes | None]


def models_of(config: Config, clock: Clock, content: Content) -> Mapping[str, Model]:
    """Every model of the configuration; a provider's library is imported only where one of its models is named.

    `content` gives the bytes of a file that a person sent.
    """
    return {section.name: _model(section, clock, content) for section in config.models}


def _model(section: ModelSection, clock: Clock, content: Content) -> Model:
    match section.provider:
        case "demo":
            from runtime.models.demo import DemoModel

            return DemoModel(clock=clock)
        case "openai" | "anthropic" | "google":
            return _provider_model(section, section.api_key.reveal() if section.api_key else "", content)


def _provider_model(section: ModelSection, key: str, content: Content) -> Model:
    from runtime.models import provider

    options: _Options = {
        "context_window": section.context_window,
        "timeout_seconds": section.timeout_seconds,
        "settings": None if section.max_output_tokens is None else {"max_tokens": section.max_output_tokens},
        "prices": _prices(section),
        "content": content if section.shows_files else None,
        "marker_secret": secrets.token_bytes(16),
    }
    match section.provider:
        case "anthropic":
            base_url = section.base_url or provider.ANTHROPIC_URL
            return provider.anthropic(key, section.model, base_url=base_url, **options)
        case "google":
            base_url = section.base_url or provider.GOOGLE_URL
            return provider.google(key, section.model, base_url=base_url, **options)
        case _:
            return provider.openai_compatible(section.base_url or provider.OPENAI_URL, key, section.model, **options)


class _Options(TypedDict):
    context_window: int
    timeout_seconds: float
    settings: Mapping[str, JsonValue] | None
    prices: Prices | None
    content: Content | None
    marker_secret: bytes


def _prices(section: ModelSection) -> Prices | None:
    """The prices that the configuration gives; None where it gives none, and the library's list counts."""
    if not section.input_price and not section.output_price:
        return None
    return Prices(input=section.input_price, output=section.output_price, cached_input=section.cached_input_price)


def _maker(name: str, settings: Mapping[str, object], environment: Environment) -> Callable[[], Adapter]:
    def make() -> Adapter:
        try:
            return factory_of(name)(settings, environment)
        except (LookupError, ValueError) as error:
            raise ConfigurationError(str(error)) from error

    return make


@dataclass(slots=True, eq=False, kw_only=True)
class Gateway:
    """Everything that runs, put together."""

    config: Config
    store: SqliteStore
    clock: Clock
    faults: Faults
    announce: Announce
    access: Access
    runtime: Runtime
    delivery: Delivery
    schedules: Runner
    router: Router
    connections: Connections
    metrics: Metrics
    models: Mapping[str, Model]
    claim: Claim | None
    reload: Reload | None
    stopping: bool = False
    _delivering: bool = False
    _catch_ups: dict[str, CatchUp] = field(default_factory=dict[str, CatchUp])

    @classmethod
    async def make(
        cls,
        config: Config,
        store: SqliteStore,
        clock: Clock,
        faults: Faults,
        announce: Announce,
        reload: Reload | None = None,
    ) -> Gateway:
        """Put it together; nothing runs yet."""
        gateway: Gateway  # what is called later finds it there
        database = store.database
        access, claim = await _access(config, store, clock)
        places = Places(
            database,
            lambda place: binding_for(gateway.config, platform=place.platform, chat=place.chat, thread=place.thread),
            lambda: gateway.config.workspaces,
            new_id=lambda: secrets.token_hex(16),
            clock=clock,
        )
        blobs = Blobs(config.gateway.state_dir)
        environment = Environment(
            now_ms=clock.now_ms,
            sleep=clock.sleep,
            random_bytes=secrets.token_bytes,
            commands=menu(),
            content=lambda sha256: content_of(blobs, sha256),
        )
        connections = Connections(
            {name: _maker(name, settings, environment) for name, settings in config.platforms().items()},
            lambda one: gateway.take(one),
            lambda adapter: gateway.connected(adapter),
            clock,
        )
        posting = Posting(blobs, database, places, connections, lambda place: gateway.delivery.wake(place), clock)
        models, tools = models_of(config, clock, blobs.read), [*await offered_tools(config, clock, posting, store)]
        tools.append(
            ScheduleTask(
                places,
                database,
                clock=clock,
                zone=lambda: gateway.config.gateway.timezone,
                made=lambda: gateway.schedules.wake(),
            )
        )
        purse = Purse(database, clock)

        def unattended(run: RunRecipe) -> NobodyThere:
            return NobodyThere(run, runtime.peek, gateway.schedules.abort)

        agents = Agents(
            lambda: gateway.config,
            places,
            models,
            tools,
            access,
            store,
            unattended=unattended,
            purse=purse,
            live_turns=config.limits.live_turns,
            clock=clock,
            faults=faults,
            new_id=lambda: secrets.token_hex(16),
        )
        runtime = Runtime(agents.config_for, store, clock=clock)
        delivery = Delivery(
            journal=store,
            peek=runtime.peek,
            directory=LedgerDirectory(database, lambda platform: access.policy.deciders(platform)),
            platforms=connections,
            neighbours=Neighbours(
                undeliverable=lambda session, request, reason: gateway.undeliverable(session, request, reason),
                tell_owner=lambda text: gateway.tell_owner(text),
                moved=lambda place, chat: chat_moved(place, chat, clock.now_ms()),
                opened=lambda stood_for, thread: (place_rows.thread_opened(stood_for, thread),),
            ),
            clock=clock,
            random_bytes=secrets.token_bytes,
            faults=faults,
        )
        desk = Desk(
            access=access,
            database=database,
            places=places,
            sessions=runtime,
            grants=store,
            platforms=connections,
            clock=clock,
            random_bytes=secrets.token_bytes,
            routes=lambda: tuple(models),
            strict_commands=lambda: gateway.config.commands.strict,
            zone=lambda: gateway.config.gateway.timezone,
            agents=lambda: [agent.name for agent in gateway.config.agents],
            schedules_changed=lambda: gateway.schedules.wake(),
            message_bytes=lambda: gateway.config.limits.message_bytes,
            receiving=Receiving(blobs, database, connections, clock, lambda: gateway.file_limits()),
            pace=Pace(lambda: gateway.config.limits.messages_per_minute),
            spent=lambda inbound: today(purse, agents.budgets(places.binding(inbound.place))),
            stopping=lambda session, turn: gateway.delivery.stopping(session, turn),
            stopping_loop=lambda session, loop, now: gateway.delivery.stopping_loop(session, loop, now),
            offline_age_ms=lambda: gateway.config.gateway.offline_age_seconds * 1000,
            faults=faults,
        )
        gateway = cls(
            config=config,
            store=store,
            clock=clock,
            faults=faults,
            announce=announce,
            access=access,
            runtime=runtime,
            delivery=delivery,
            schedules=Runner(
                Means(
                    database=database,
                    sessions=runtime,
                    journal=store,
                    places=places,
                    access=access,
                    wake=delivery.wake,
                    tell_owner=lambda text: gateway.tell_owner(text),
                    clock=clock,
                    alarm=SchedulerAlarm() if isinstance(clock, SystemClock) else ClockAlarm(clock),
                    owner=secrets.token_hex(16),
                    opens_threads=connections.opens_threads,
                    settings=lambda: schedule_settings(gateway.config, stopping=gateway.stopping),
                    faults=faults,
                )
            ),
            router=Router(desk, delivery),
            connections=connections,
            metrics=Metrics([tool.name for tool in tools]),
            models=models,
            claim=claim,
            reload=reload,
        )
        gateway._intake = Intake(
            access,
            database,
            delivery,
            clock=clock,
            news=gateway.router.wake,
            turn_away=gateway.router.turn_away,
            claim=claim,
            faults=faults,
        )
        return gateway

    _intake: Callable[[Inbound], Awaitable[None]] = None  # type: ignore[assignment]  # set by make

    # ------------------------------------------------------------------------------------------------ run

    async def run(self, stop: asyncio.Event, service_manager: ServiceManager) -> None:
        """Run until `stop`; then finish, or leave on disk, and end."""
        self.runtime.on_commit(self.delivery.committed)  # also what a session stores while it is being opened
        self.runtime.on_stored(self._stored)
        self.runtime.on_live(self.delivery.showed)
        async with self._health() as address:
            try:
                async with asyncio.TaskGroup() as group:
                    serving = [
                        group.create_task(self.router.run(), name="router"),
                        group.create_task(audit.Sealer(self.store.database, self.clock).run(), name="sealer"),
                        group.create_task(self._keep_house(), name="housekeeping"),
                        group.create_task(service_manager.keep_alive(self.clock), name="watchdog"),
                        group.create_task(self._begin(address, service_manager), name="begin"),
                        group.create_task(self._reload_when_told(), name="reload"),
                    ]
                    await stop.wait()
                    service_manager.stopping()
                    await self._wind_down()
                    for task in serving:
                        task.cancel()
            except* Exception as failures:  # noqa: BLE001 - the one cause is raised again once everything is closed
                await self._abandon()
                raise _first(failures) from None

    async def _begin(self, address: str, service_manager: ServiceManager) -> None:
        """Recover sessions while the client libraries load; then deliver, and connect. Delivers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.runtime.start(), name="recover sessions")
            await self.connections.make()
            await self.delivery.recover()
            group.create_task(self.delivery.run(), name="delivery")
            self._delivering = True
            group.create_task(self.schedules.run(), name="schedules")
            await self._connect(address, service_manager)

    async def _connect(self, address: str, service_manager: ServiceManager) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.connections.run(), name="connect")
            for name, model in self.models.items():
                if isinstance(model, Connecting):
                    group.create_task(_warm_up(name, model), name=f"warm up {name}")
        if self.claim is not None:
            self.announce(_claim_text(self.claim))
        ready = f"pilothouse is ready: {', '.join(self.connections.platforms)}{address}"
        self.announce(ready)
        service_manager.ready(ready)

    async def _wind_down(self) -> None:
        """Take nothing in; let turns end and the outbox run dry within the limit; leave the rest on disk."""
        self.stopping = True
        for catch_up in self._catch_ups.values():
            catch_up.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.gateway.drain_seconds):
                await self.runtime.at_rest()
                await self._delivered()
        await self.runtime.aclose()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(5.0, self.config.gateway.drain_seconds)):
                await self._delivered()
        await self.connections.stop()
        await self.delivery.settle()
        await self._close_models()

    async def _delivered(self) -> None:
        if self._delivering:
            await self.delivery.at_rest()

    async def _reload_when_told(self) -> None:
        """Take over a changed configuration, all or nothing; what runs goes on under the one that it began with."""
        if self.reload is None:
            return
        while True:
            await self.reload.told.wait()
            self.reload.told.clear()
            try:
                changed = self.reload.load()
            except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, the old one goes on
                log.error("the changed configuration is not taken over: %s", error)
                continue
            if fixed := fixed_parts(self.config, changed):
                log.warning("a change of %s counts from the next start on", ", ".join(fixed))
            self.access.replace(await settle_claims(self.store.database, policy_of(changed), self.clock))
            self.config = changed
            log.info("the changed configuration counts from now on")

    def file_limits(self) -> FileLimits:
        """How much people may send, as configured now."""
        limits = self.config.limits
        return FileLimits(file_bytes=limits.file_bytes, bytes_per_day=limits.file_bytes_per_day)

    async def _abandon(self) -> None:
        await self.connections.stop()
        await self.runtime.aclose()
        await self._close_models()

    async def _close_models(self) -> None:
        for model in self.models.values():
            if isinstance(model, Connecting):
                await model.aclose()

    async def connected(self, adapter: Adapter) -> None:
        """An adapter takes messages in: what waited for it goes out, and what was missed is caught up with."""
        self.delivery.connected(adapter.platform, adapter.account)
        missed = await self._catch_up(adapter.platform).run(adapter)
        if missed:
            log.info("%d messages that were missed on %s are taken in", missed, adapter.platform)

    def _catch_up(self, platform: str) -> CatchUp:
        if platform not in self._catch_ups:
            self._catch_ups[platform] = CatchUp(self.store.database, self._let_in, self.clock)
        return self._catch_ups[platform]

    def _stored(self, session_id: str, context: SessionContext, stored: Sequence[Event]) -> None:
        self.metrics.observe_all(context, stored)
        self.schedules.stored(session_id, stored)
        if stored[-1].sequence is not None:
            self.delivery.committed(session_id, stored[-1].sequence, stored)

    async def take(self, one: Inbound) -> None:
        """The intake that adapters are given. What was missed in a thread is taken in before what is said there now."""
        adapter = self.connections.adapters.get(one.place.platform)
        if adapter is not None and adapter.capabilities.history_backfill:
            await self._catch_up(one.place.platform).turn_of(one)
        await self._let_in(one)

    async def _let_in(self, one: Inbound) -> None:
        if self.stopping:
            raise Stopping("the gateway is stopping; send it again later")
        await self._intake(one)

    # ------------------------------------------------------------------------------------------------ neighbours

    async def undeliverable(self, session_id: str, request_id: str, reason: str) -> None:
        """Close a request that could not be shown to anybody."""
        op = ops.Undeliverable(request_id=request_id, reason=reason)
        await self.runtime.submit(session_id, op, f"undeliverable:{request_id}")

    async def tell_owner(self, text: str) -> None:
        """Tell the owners something in a chat of their own; where they have none yet, the log has to do."""
        log.warning("for the owner: %s", text)
        for owner in sorted(self.access.policy.owners):
            place = await self._private_place(owner)
            if place is None:
                continue
            unit = deliveries.plan(
                source=f"owner:{secrets.token_hex(8)}",
                surface="notice",
                place=place,
                views=[Notice(text=text, level="warning", notify=True)],
                priority=Priority.CONTROL,
                now_ms=self.clock.now_ms(),
            )
            await self.store.database.write(unit)
            self.delivery.wake(place)

    async def _private_place(self, principal: str) -> Place | None:
        """The chat that bears the person's own id, as on Telegram, or else the one where he last wrote to us alone."""
        platform, _, person = principal.partition(":")
        account = self.connections.account_of(platform)
        if account is None:
            return None
        rows = await place_rows.threads(self.store.database, platform, account)
        own = next((row.place for row in rows if row.place.chat == person and row.place.thread is None), None)
        return own or await inbound.private_place(self.store.database, platform, account, principal)

    # ------------------------------------------------------------------------------------------------ upkeep

    @contextlib.asynccontextmanager
    async def _health(self):  # type: ignore[no-untyped-def]
        address = self.config.gateway.http_address
        if address is None:
            yield ""
            return
        site = HealthSite(self._vitals, self.metrics)
        async with site.serving(*address) as port:
            yield f", health at {address[0]}:{port}"

    async def _vitals(self) -> Vitals:
        began = time.perf_counter()
        oldest = await inbound.oldest_unfinished_ms(self.store.database)
        latency = time.perf_counter() - began
        return Vitals(
            now_ms=self.clock.now_ms(),
            platforms=tuple(self._platform(name) for name in self.connections.platforms),
            oldest_inbound_ms=oldest,
            oldest_delivery_ms=await self.delivery.oldest_unsent_ms(),
            store_latency_seconds=latency,
            stopping=self.stopping,
        )

    def _platform(self, name: str) -> PlatformVitals:
        adapter = self.connections.adapters.get(name)
        if adapter is None:
            return PlatformVitals(platform=name, state="connecting", last_contact_ms=None)
        health = adapter.health
        return PlatformVitals(
            platform=name, state=health.state, last_contact_ms=health.last_contact_ms, detail=health.detail
        )

    async def _keep_house(self) -> None:
        while True:
            await self.clock.sleep(HOUSEKEEPING_SECONDS)
            before = self.clock.now_ms() - KEPT_MS
            try:
                await inbound.prune(self.store.database, before)
                await self.delivery.forget(before)
                await self.store.prune(self.clock.now_ms())
                await sweep(Blobs(self.config.gateway.state_dir), self.store.database, self.clock)
            except Exception:
                log.exception("housekeeping failed; it is tried again in an hour")


async def _warm_up(name: str, model: Connecting) -> None:
    """Load a provider's library before the first message needs it; that it fails is told when it is needed."""
    try:
        await model.warm_up()
    except Exception:
        log.exception("the model %s could not be made ready", name)


def policy_of(config: Config) -> Policy:
    """Rights as configured."""
    section = config.access
    return Policy(
        users=frozenset(section.users),
        approvers=frozenset(section.approvers),
        owners=frozenset(section.owners),
        dangerously_open=section.dangerously_open,
    )


def schedule_settings(config: Config, *, stopping: bool) -> Settings:
    """How schedules are carried out. While we stop, nothing new begins."""
    section = config.schedules
    return Settings(
        runs_at_once=0 if stopping else section.runs_at_once,
        spread_seconds=section.spread_seconds,
        history=section.history,
    )


def fixed_parts(running: Config, changed: Config) -> tuple[str, ...]:
    """Sections that differ and count only from a start on: what is connected and opened stays as it is."""
    sections = ("gateway", "telegram", "slack", "discord", "terminal", "adapters", "models", "mcp")
    return tuple(name for name in sections if getattr(running, name) != getattr(changed, name))


async def _access(config: Config, store: SqliteStore, clock: Clock) -> tuple[Access, Claim | None]:
    """Rights as configured. The first owner, claimed by code, counts until the configuration names one."""
    policy = await settle_claims(store.database, policy_of(config), clock)
    claim = None if policy.owners else Claim(secrets.token_bytes, clock)
    return Access(policy), claim


def _claim_text(claim: Claim) -> str:
    return (
        "\n  Nobody owns this gateway yet. Send this code to the bot in a private chat, within 15 minutes:\n\n"
        f"      {claim.code}\n\n  Who sends it becomes the owner; everybody else is refused.\n"
    )


def _first(failures: BaseExceptionGroup[Exception]) -> Exception:
    """The failure itself: people are told one cause, not a tree."""
    one: BaseException = failures
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    assert isinstance(one, Exception)
    return one
