"""Native streams: what was said so far is brought to Slack, in as many streams as that takes.

Whatever happens to a stream, each piece of the text is shown once. What Slack closed goes on in a new one; where it is
not known whether a piece arrived, the message is made to show what it should, as whole messages can be, and nothing is
appended to it any more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from adapters.contract import MessageRef, Place, Stream
from adapters.errors import AdapterError, OutcomeUnknown, Refused
from adapters.payload import Payload, a_text, an_object, objects
from adapters.slack import outbound, segments
from adapters.slack.history import key_in
from adapters.slack.identity import Me
from adapters.slack.markup import SlackMarkup, render
from adapters.slack.outbound import Request
from adapters.slack.refusals import STREAM_OVER, code_of
from adapters.slack.segments import Segment, plan_of, rows_of, step
from adapters.slack.texts import buttons

REMEMBERED = 500
PAGE = 200


@dataclass(slots=True, kw_only=True)
class _Chain:
    """The streams of one text. `stopped`: a person stopped it, and Slack takes nothing more."""

    place: Place
    key: str
    segments: list[Segment] = field(default_factory=list[Segment])
    stopped: bool = False

    @property
    def last(self) -> Segment:
        return self.segments[-1]

    @property
    def taken(self) -> int:
        return sum(one.taken for one in self.segments)


class Streams:
    """The streams of one app. `recipient` tells for whom one is live in a place: user and workspace."""

    def __init__(
        self,
        me: Me,
        call: Callable[[Request], Awaitable[Payload]],
        recipient: Callable[[Place], Awaitable[tuple[str, str] | None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._me = me
        self._call = call
        self._recipient = recipient
        self._now_ms = now_ms
        self._chains: OrderedDict[str, _Chain] = OrderedDict()

    async def begin(self, place: Place, view: Stream, key: str, attempt: int) -> MessageRef:
        """Show a text that begins. A second attempt takes up what the first one may have started."""
        if place.thread is None:
            raise Refused("Slack streams into threads only")
        if attempt > 1 and (found := await self._started(place)):
            ref = self._ref(place, found)
            await self.go_on(ref, view)
            return ref
        chain = _Chain(place=place, key=key)
        await self._open(chain, view, 0)
        ref = self._ref(place, chain.last.ts)
        self._remember(ref.id, chain)
        await self._advance(chain, view)
        return ref

    async def go_on(self, ref: MessageRef, view: Stream) -> None:
        """Bring the rest of a text to where it was begun, by this process or an earlier one."""
        chain = self._chains.get(ref.id)
        if chain is None:
            await self._show_anew(ref, view)
        elif not chain.stopped:
            await self._advance(chain, view)
        if view.closed:
            self._chains.pop(ref.id, None)

    async def end(self, ref: MessageRef) -> None:
        """End the stream that a message is, because it is to show something else."""
        self._chains.pop(ref.id, None)
        await self._stop_left(ref, [ref.id], "processing")

    def mark_stopped(self, streams: tuple[str, ...]) -> None:
        """A person stopped these; nothing can be written to them any more."""
        for chain in self._chains.values():
            if any(one.ts in streams for one in chain.segments):
                chain.stopped = True

    def _remember(self, ts: str, chain: _Chain) -> None:
        self._chains[ts] = chain
        while len(self._chains) > REMEMBERED:
            self._chains.popitem(last=False)

    def _ref(self, place: Place, ts: str) -> MessageRef:
        return MessageRef(platform=place.platform, account=place.account, chat=place.chat, id=ts, thread=place.thread)

    # --------------------------------------------------------------------------------------------------- within a chain

    async def _advance(self, chain: _Chain, view: Stream) -> None:
        text = segments.settled(view.markdown, closed=view.closed)
        while True:
            segment = chain.last
            if segment.is_open and segment.is_old(self._now_ms()) and not view.closed:
                await self._close(chain, segment, "processing")
            rest = text[chain.taken :]
            if not segment.is_open:
                if not rest and (view.closed or not self._has_news(segment, view)):
                    return
                await self._open(chain, view, chain.taken)
                continue
            await self._append(chain, segment, view, rest)
            if chain.taken >= len(text) or chain.stopped:
                break
            await self._close(chain, chain.last, "processing")
        if view.closed and chain.last.is_open and not chain.stopped:
            await self._close(chain, chain.last, None, view)

    def _has_news(self, segment: Segment, view: Stream) -> bool:
        """Whether a row changed since the stream was closed."""
        return bool(step(Segment(ts="", opened_at_ms=0, left=segment.over, title=segment.title), view, "").chunks)

    async def _open(self, chain: _Chain, view: Stream, taken: int) -> None:
        """Begin a stream with the first of what it will show."""
        before = chain.last if chain.segments else None
        fresh = Segment(ts="", opened_at_ms=self._now_ms(), left=before.over if before else frozenset())
        rest = segments.settled(view.markdown, closed=view.closed)[taken:]
        reopened = segments.reopening(before.text) if before else ""
        first = step(fresh, view, rest, reopened=reopened)
        fields = {**outbound.where(chain.place), "task_display_mode": "plan", "chunks": list(first.chunks)}
        if (recipient := await self._recipient(chain.place)) is not None:
            fields |= {"recipient_user_id": recipient[0], "recipient_team_id": recipient[1]}
        made = await self._call(Request(method="chat.startStream", fields=fields))
        fresh.ts = a_text(made.get("ts"))
        first.applied_to(fresh)
        chain.segments.append(fresh)

    async def _append(self, chain: _Chain, segment: Segment, view: Stream, rest: str) -> None:
        next_step = step(segment, view, rest)
        if not next_step.chunks:
            return
        fields = {"channel": chain.place.chat, "ts": segment.ts, "chunks": list(next_step.chunks)}
        try:
            await self._call(Request(method="chat.appendStream", fields=fields))
        except OutcomeUnknown:
            # It may be there or not: the whole message is made to show it, and nothing follows in it.
            next_step.applied_to(segment)
            await self._finish_as_message(chain, segment)
        except AdapterError as error:
            if code_of(error) not in STREAM_OVER:
                raise
            segment.is_open = False
            chain.stopped = code_of(error) == "stopped_by_user"
        else:
            next_step.applied_to(segment)

    async def _close(self, chain: _Chain, segment: Segment, state: str | None, view: Stream | None = None) -> None:
        """End a stream; what is open in its text is closed. One that Slack has ended already needs nothing."""
        fields = self._stop(chain.place, segment.ts, outbound.metadata(f"{chain.key}#{len(chain.segments)}"))
        if ending := segments.closing(segment.text):
            fields["chunks"] = [{"type": "markdown_text", "text": ending}]
        if state is not None:
            fields["session_status"] = state
        if view is not None and (blocks := buttons(view.controls)):
            fields["blocks"] = blocks
        try:
            await self._call(Request(method="chat.stopStream", fields=fields))
        except AdapterError as error:
            if not _is_over(error):
                raise
            if not isinstance(error, OutcomeUnknown) and code_of(error) == "msg_too_long":
                await self._finish_as_message(chain, segment)
        segment.is_open = False

    async def _finish_as_message(self, chain: _Chain, segment: Segment) -> None:
        """End a stream that cannot be trusted any more, and make its message show its text."""
        stop = self._stop(chain.place, segment.ts, outbound.metadata(f"{chain.key}#{len(chain.segments)}"))
        stop["session_status"] = "processing"
        try:
            await self._call(Request(method="chat.stopStream", fields=stop))
        except AdapterError as error:
            if not _is_over(error):
                raise
        segment.is_open = False
        ref = self._ref(chain.place, segment.ts)
        head = plan_of(segment.title, segment.rows)
        await self._show(ref, [segment.ts], segment.text, chain.key, head)

    def _stop(self, place: Place, ts: str, metadata: Payload) -> Payload:
        return {"channel": place.chat, "ts": ts, "metadata": metadata}

    # ------------------------------------------------------------------------------------------------- after a restart

    async def _started(self, place: Place) -> str | None:
        """The stream in a thread that we may have begun: our only message without a key, after the last person's."""
        found = None
        for message in await self._replies(place, "0"):
            if not self._is_ours(message):
                found = None
            elif self._may_be_stream(message):
                found = a_text(message.get("ts"))
        return found

    def _may_be_stream(self, message: Payload) -> bool:
        """Whether it has no key. Streams get theirs when they end, and shared files never have one."""
        return not key_in(message) and not message.get("files")

    async def _show_anew(self, ref: MessageRef, view: Stream) -> None:
        """Make the messages of a text that an earlier process began show all of it; none is appended to any more."""
        place = Place(platform=ref.platform, account=ref.account, chat=ref.chat, thread=ref.thread or ref.id)
        later, key = await self._continued(place, ref)
        await self._stop_left(ref, [ref.id, *later], "active" if view.closed else "processing")
        text = segments.settled(view.markdown, closed=view.closed)
        head = plan_of(view.title, rows_of(view))
        shown = await self._show(ref, [ref.id, *later], text, key, head, buttons(view.controls))
        if not view.closed:
            chain = _Chain(place=place, key=key)
            over = frozenset(range(len(view.rows)))
            for ts in shown:
                chain.segments.append(Segment(ts=ts, opened_at_ms=0, is_open=False, left=over))
            chain.last.taken = len(text)
            chain.last.text = text
            self._remember(ref.id, chain)

    async def _stop_left(self, ref: MessageRef, streams: list[str], state: str) -> None:
        """End streams that may be open, and may have ended long ago."""
        for ts in streams:
            stop = {"channel": ref.chat, "ts": ts, "session_status": state}
            try:
                await self._call(Request(method="chat.stopStream", fields=stop))
            except AdapterError as error:
                if not _is_over(error):
                    raise

    async def _continued(self, place: Place, ref: MessageRef) -> tuple[list[str], str]:
        """Streams in which a text went on, and the key of its delivery, as far as they tell."""
        later: list[str] = []
        key = ""
        for message in await self._replies(place, ref.id):
            if not self._is_ours(message):
                continue
            ts, told = a_text(message.get("ts")), key_in(message)
            if ts == ref.id:
                key = told.rpartition("#")[0] or told
            elif self._may_be_stream(message) or (key and told.startswith(f"{key}#")):
                later.append(ts)
        return later, key

    async def _replies(self, place: Place, oldest: str) -> list[Payload]:
        found: list[Payload] = []
        cursor = ""
        while True:
            fields = {"channel": place.chat, "ts": place.thread, "oldest": oldest, "inclusive": True, "limit": PAGE}
            fields |= {"include_all_metadata": True, **({"cursor": cursor} if cursor else {})}
            page = await self._call(Request(method="conversations.replies", fields=fields))
            found += [one for one in objects(page.get("messages")) if a_text(one.get("ts")) >= oldest]
            cursor = a_text(an_object(page.get("response_metadata")).get("next_cursor"))
            if not cursor:
                return found

    def _is_ours(self, message: Payload) -> bool:
        return message.get("bot_id") == self._me.bot or message.get("user") == self._me.user

    async def _show(
        self,
        ref: MessageRef,
        messages: list[str],
        text: str,
        key: str,
        head: Sequence[Payload] = (),
        last: Sequence[Payload] = (),
    ) -> list[str]:
        """Show a text in messages that there are, in new ones if it needs more; what it does not need goes.

        `head` goes before the text, `last` behind it.
        """
        parts = [[render(part)] for part in SlackMarkup().split(text)]
        if head or not parts:
            parts[:1] = [[*(head or [render("…")]), *(parts[0] if parts else [])]]
        parts[-1] += last
        place = self._place(ref)
        shown = messages[: len(parts)]
        for ts, part in zip(messages, parts, strict=False):
            await self._call(outbound.replace_text(self._ref(place, ts), part))
        for number, part in enumerate(parts[len(messages) :], start=len(messages)):
            made = await self._call(outbound.message(place, part, f"{key}#part{number}"))
            shown.append(a_text(made.get("ts")))
        for ts in messages[len(parts) :]:
            await self._call(Request(method="chat.delete", fields={"channel": ref.chat, "ts": ts}))
        return shown

    def _place(self, ref: MessageRef) -> Place:
        return Place(platform=ref.platform, account=ref.account, chat=ref.chat, thread=ref.thread or ref.id)


def _is_over(error: AdapterError) -> bool:
    """Whether a stream is closed, or will be: Slack closes each by itself after some minutes."""
    return code_of(error) in (*STREAM_OVER, "msg_too_long", "no_text") or isinstance(error, OutcomeUnknown)
