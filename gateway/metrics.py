"""What is counted, for Prometheus. Labels come from the configuration and from closed lists, never from a chat."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from runtime.protocol import events
from runtime.protocol.session import SessionContext

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

TURN_SECONDS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)

PLACE = ("workspace", "origin")


class Metrics:
    """The numbers of one gateway. Counting never fails and never waits.

    `tools` are the names that exist: what a model calls otherwise is counted as `other`.
    """

    def __init__(self, tools: Collection[str] = ()) -> None:
        self._known_tools = frozenset(tools)
        self.registry = CollectorRegistry()
        self._inbound = self._counter("inbound", "What arrived, by what became of it.", ("platform", "kind", "outcome"))
        self._deliveries = self._counter("deliveries", "Parts that were sent, or not.", ("platform", "outcome"))
        self._turns = self._counter("turns", "Turns that ended.", (*PLACE, "outcome"))
        self._steps = self._counter("model_steps", "Model calls.", (*PLACE, "outcome"))
        self._tokens = self._counter("tokens", "Tokens read and written.", (*PLACE, "direction"))
        self._tools = self._counter("tool_calls", "Tool calls that ended.", (*PLACE, "tool", "outcome"))
        self._approvals = self._counter("approvals", "Approvals that were closed.", (*PLACE, "decision"))
        self._duration = Histogram(
            "pilothouse_turn_seconds", "Duration of turns.", PLACE, buckets=TURN_SECONDS, registry=self.registry
        )
        self._ready = self._gauge("adapter_ready", "1 while inbound works.", ("platform",))
        self._contact = self._gauge("adapter_contact_age_seconds", "Since the last completed poll.", ("platform",))
        self._oldest_inbound = self._gauge("oldest_inbound_age_seconds", "Of what is not processed; 0 for nothing.")
        self._oldest_delivery = self._gauge("oldest_delivery_age_seconds", "Of what is not sent; 0 for nothing.")
        self._store = self._gauge("store_latency_seconds", "Of the last probe of the store.")

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"pilothouse_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"pilothouse_{name}", text, labels, registry=self.registry)

    def arrived(self, platform: str, kind: str, outcome: str) -> None:
        """Something came in; `outcome` is `stored`, `duplicate`, `refused`, …"""
        self._inbound.labels(platform, kind, outcome).inc()

    def delivered(self, platform: str, outcome: Literal["sent", "unknown", "failed", "edited", "limited"]) -> None:
        """A part went out, or did not."""
        self._deliveries.labels(platform, outcome).inc()

    def observe(self, context: SessionContext, message: events.EventMsg) -> None:
        """Count a stored event of a session; most kinds count for nothing."""
        place = (context.workspace_label or "", context.origin_label or "")
        match message:
            case events.TurnComplete():
                self._turn(place, "completed", message.duration_ms)
            case events.TurnAborted():
                self._turn(place, message.outcome, message.duration_ms)
            case events.ModelStepCompleted():
                self._steps.labels(*place, message.outcome).inc()
                self._tokens.labels(*place, "input").inc(message.usage.input_tokens)
                self._tokens.labels(*place, "output").inc(message.usage.output_tokens)
            case events.ToolCallEnd():
                outcome = "failed" if message.is_error else message.outcome
                name = message.name if message.name in self._known_tools else "other"
                self._tools.labels(*place, name, outcome).inc()
            case events.ApprovalResolved():
                self._approvals.labels(*place, message.decision.value).inc()
            case _:
                pass

    def observe_all(self, context: SessionContext, stored: Sequence[events.Event]) -> None:
        """Count every stored event of one commit."""
        for event in stored:
            self.observe(context, event.msg)

    def _turn(self, place: tuple[str, str], outcome: str, duration_ms: int) -> None:
        self._turns.labels(*place, outcome).inc()
        self._duration.labels(*place).observe(duration_ms / 1000)

    def adapter(self, platform: str, *, ready: bool, contact_age_seconds: float | None) -> None:
        """How a platform's inbound is now."""
        self._ready.labels(platform).set(ready)
        if contact_age_seconds is not None:
            self._contact.labels(platform).set(contact_age_seconds)

    def waiting(self, *, inbound_age_seconds: float, delivery_age_seconds: float) -> None:
        """How old the oldest of what waits is now."""
        self._oldest_inbound.set(inbound_age_seconds)
        self._oldest_delivery.set(delivery_age_seconds)

    def store(self, latency_seconds: float) -> None:
        """How long the store took to answer."""
        self._store.set(latency_seconds)

    def render(self) -> bytes:
        """Everything in Prometheus' text form."""
        return generate_latest(self.registry)
