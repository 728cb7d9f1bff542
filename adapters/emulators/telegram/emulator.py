"""The emulated Telegram as one object: start it, point a bot at `url`, act as the people, read the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.emulators.clock import Clock, FlowingClock
from adapters.emulators.control import PREFIX, ControlFace, Verb
from adapters.emulators.errors import NotPossible
from adapters.emulators.faults import Fault, FaultKind, FaultQueue
from adapters.emulators.journal import Exchange, Journal
from adapters.emulators.server import EmulatorServer
from adapters.emulators.telegram.bots import Bot
from adapters.emulators.telegram.knobs import Knobs
from adapters.emulators.telegram.people import BotChoice, People
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.polling import CLOSING, OTHER_POLLER
from adapters.emulators.telegram.rendering import entity_objects, user_object
from adapters.emulators.telegram.schema import bot_api
from adapters.emulators.telegram.wire import Wire
from adapters.emulators.telegram.world import Chat, ChatType, Member, MemberStatus, User, without_none
from adapters.emulators.watched import Watched
from adapters.emulators.wire_json import JsonObject, is_object

SENDS = frozenset(
    {
        "sendMessage",
        "sendDocument",
        "sendPhoto",
        "sendVoice",
        "sendAudio",
        "sendVideo",
        "sendMediaGroup",
        "sendMessageDraft",
        "editMessageText",
        "editMessageCaption",
        "editMessageReplyMarkup",
    }
)
"""Methods that put something before people's eyes."""


class TelegramEmulator(People, Watched):
    """A Bot API server on loopback, and the people on the other side of it.

    Deeds of people are inherited from `People`. State lives in memory and outlives the bot's restarts. With a
    `ManualClock` nothing times out until `advance` is called. `journal_limit` bounds the record.
    """

    def __init__(
        self, *, clock: Clock | None = None, knobs: Knobs | None = None, journal_limit: int | None = None
    ) -> None:
        self.clock: Clock = clock if clock is not None else FlowingClock()
        self.journal = Journal(now=self.clock.now, limit=journal_limit)
        self.faults = FaultQueue()
        self._server = EmulatorServer()
        platform = Platform(
            clock=self.clock,
            journal=self.journal,
            faults=self.faults,
            knobs=knobs if knobs is not None else Knobs(),
            spawn=self._server.spawn,
        )
        super().__init__(platform)
        Wire(platform, self._server).mount()
        ControlFace(journal=self.journal, verbs=self._verbs()).mount(self._server.app)

    # -- life

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> TelegramEmulator:
        """Listen on a loopback address; returns itself. Port 0 takes a free one."""
        await self._server.start(host=host, port=port)
        return self

    async def stop(self) -> None:
        """End open polls, webhooks and the listener."""
        for bot in self._platform.bots.values():
            if bot.poll is not None:
                bot.poll.abort(CLOSING)
        await self._server.stop()

    @property
    def url(self) -> str:
        """Base address of the Bot API: what a client takes as its server."""
        return self._server.url

    @property
    def control_url(self) -> str:
        """Base address of the control API."""
        return f"{self._server.url}{PREFIX}"

    # -- who is there

    def add_bot(
        self,
        token: str,
        *,
        username: str = "emulated_bot",
        first_name: str = "Emulated Bot",
        reads_all: bool = False,
        topics: bool = False,
        users_create_topics: bool = True,
    ) -> JsonObject:
        """Register a bot; its id is the number before the colon. `reads_all` switches privacy mode off."""
        number, _, secret = token.partition(":")
        if not number.isdecimal() or number.startswith("0") or not secret:
            raise NotPossible("a token reads <bot id>:<secret>")
        user = User(id=int(number), first_name=first_name, username=username, is_bot=True)
        self._platform.add_bot(token, user, reads_all=reads_all, topics=topics, users_create_topics=users_create_topics)
        return user_object(user)

    def add_user(
        self,
        user: int,
        first_name: str,
        *,
        username: str | None = None,
        last_name: str | None = None,
        language_code: str | None = "en",
        is_bot: bool = False,
        is_premium: bool = False,
        started: bool = False,
    ) -> JsonObject:
        """Make a person, or a foreign bot. `started` opens the private chats with all bots of the emulator."""
        person = User(
            id=user,
            first_name=first_name,
            last_name=last_name,
            username=username,
            language_code=language_code,
            is_bot=is_bot,
            is_premium=is_premium,
        )
        self._platform.world.users[user] = person
        if started:
            for bot in self._platform.bots.values():
                self._platform.world.open_private(bot.id, user).opened = True
        return user_object(person)

    def add_chat(
        self,
        chat: int,
        *,
        type: str = "supergroup",
        title: str = "Group",
        username: str | None = None,
        is_forum: bool = False,
        members: Sequence[int] = (),
        creator: int | None = None,
        bots: Sequence[int] | None = None,
        bot_rights: Sequence[str] = (),
        reactions: Sequence[str] | None = None,
    ) -> JsonObject:
        """Make a group, supergroup or channel. All bots are in it unless `bots` names some.

        With `bot_rights` the bots are administrators with these rights.
        """
        kind = ChatType(type)
        if kind is ChatType.PRIVATE or chat >= 0:
            raise NotPossible("private chats open by themselves; groups and channels have negative ids")
        made = Chat(id=chat, type=kind, title=title, username=username, is_forum=is_forum)
        made.reactions = tuple(reactions) if reactions is not None else None
        for user in members:
            made.members[self._platform.world.user(user).id] = Member(status=MemberStatus.MEMBER)
        if creator is not None:
            made.members[self._platform.world.user(creator).id] = Member(status=MemberStatus.CREATOR)
        status = MemberStatus.ADMINISTRATOR if bot_rights else MemberStatus.MEMBER
        for bot in [bot.id for bot in self._platform.bots.values()] if bots is None else bots:
            made.members[bot] = Member(status=status, rights=frozenset(bot_rights))
        self._platform.world.groups[chat] = made
        return self._platform.chat_object(made)

    # -- what is there

    def messages(self, chat: int, thread: int | None = None, *, bot: BotChoice = None) -> list[JsonObject]:
        """What people see in a chat now, oldest first; of one thread, or with 0 of no thread."""
        place = self._find(chat, bot)
        wanted = None if thread == 0 else thread
        return [
            self._platform.message_object(message, place)
            for message in place.messages.values()
            if thread is None or message.thread == wanted
        ]

    def drafts(self, user: int, *, bot: BotChoice = None) -> list[JsonObject]:
        """Drafts that a person sees being written now."""
        now = self.clock.now()
        return [
            without_none(
                draft_id=draft.id,
                message_thread_id=draft.thread,
                text=draft.text,
                entities=entity_objects(draft.entities, self._platform.world),
                can_stop=draft.can_stop,
            )
            for draft in self._find(user, bot).drafts.values()
            if draft.expires_at > now
        ]

    def topics(self, chat: int, *, bot: BotChoice = None) -> list[JsonObject]:
        """Topics of a chat."""
        place = self._find(chat, bot)
        return [
            without_none(
                message_thread_id=topic.id, name=topic.name, closed=topic.closed, icon_custom_emoji_id=topic.icon_emoji
            )
            for topic in place.topics.values()
        ]

    def pending_updates(self, *, bot: BotChoice = None) -> list[JsonObject]:
        """Updates that the bot has not confirmed."""
        return [update.to_wire() for update in self._platform.bot(bot).queue.pending]

    @property
    def sends(self) -> list[Exchange]:
        """Every call that put something before people's eyes: flags are in `params`, e.g. `link_preview_options`."""
        return self.journal.exchanges(*SENDS)

    def lacking(self, parameter: str, value: Mapping[str, Any]) -> list[Exchange]:
        """Calls whose method takes `parameter` but that did not give it with at least these members.

        `lacking("link_preview_options", {"is_disabled": True})` is empty if no preview was left open.
        """
        takers = {method.name for method in bot_api().methods.values() if parameter in method.fields}
        return [call for call in self.journal.exchanges(*takers) if not _contains(call.params.get(parameter), value)]

    # -- what goes wrong

    def fault(
        self,
        target: str,
        kind: FaultKind,
        *,
        event: bool = False,
        times: int = 1,
        skip: int = 0,
        applied: bool = False,
        status: int = 502,
        retry_after: int = 1,
        seconds: float = 0.0,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        bot: BotChoice = None,
    ) -> None:
        """Arm a fault for a method, a download (`file`), `*`, or with `event` for a kind of update; see `Fault`."""
        self.faults.add(
            Fault(
                target=target,
                kind=kind,
                event=event,
                times=times,
                skip=skip,
                applied=applied,
                status=status,
                retry_after=retry_after,
                seconds=seconds,
                description=description,
                parameters=parameters or {},
                where=where or {},
                account=None if bot is None else self._platform.bot(bot).account,
            )
        )

    def disconnect(self, *, bot: BotChoice = None) -> int:
        """Cut the open connections of a bot, or of all; returns how many requests were cut."""
        if bot is None:
            return self._server.disconnect()
        account = self._platform.bot(bot).account
        return self._server.disconnect(lambda one: one == account)

    def conflict(self, *, bot: BotChoice = None) -> bool:
        """Another instance polls: the waiting poll ends with 409. False if nobody was waiting."""
        poll = self._platform.bot(bot).poll
        if poll is not None:
            poll.abort(OTHER_POLLER)
        return poll is not None

    def polls(self, *, bot: BotChoice = None) -> bool:
        """Whether a getUpdates of the bot is waiting."""
        return self._platform.bot(bot).poll is not None

    def redeliver(self, count: int, *, bot: BotChoice = None) -> int:
        """Deliver the newest confirmed updates once more; returns how many."""
        chosen = self._platform.bot(bot)
        again = chosen.queue.redeliver(count)
        self._platform.trace(chosen, "queued", again)
        chosen.wake()
        return len(again)

    # -- as a whole

    def snapshot(self) -> JsonObject:
        """The whole state as JSON, without tokens."""
        world = self._platform.world
        return {
            "now": self.clock.now(),
            "bots": [self._bot_state(bot) for bot in self._platform.bots.values()],
            "users": [user_object(user) for user in world.users.values()],
            "chats": [self._chat_state(chat) for chat in [*world.groups.values(), *world.private.values()]],
            "faults": [f"{fault.kind} on {fault.target}" for fault in self.faults.pending],
            "violations": [entry.to_json() for entry in self.violations],
        }

    def reset(self) -> None:
        """Forget all traffic: messages, topics, files, drafts, updates, faults and the journal.

        Bots, people, chats, memberships, webhooks and the numbering of updates stay.
        """
        self._platform.world.forget_traffic()
        self._platform.file_links.clear()
        self.faults.clear()
        for bot in self._platform.bots.values():
            bot.queue.clear()
            bot.queue.confirmed.clear()
            bot.callbacks.clear()
            bot.held.clear()
            bot.previous_offset = None
        self.journal.clear()

    def _find(self, chat: int, bot: BotChoice) -> Chat:
        groups = self._platform.world.groups
        return groups[chat] if chat in groups else self._platform.world.chat(chat, self._platform.bot(bot).id)

    def _bot_state(self, bot: Bot) -> JsonObject:
        return {
            "user": user_object(bot.user),
            "pending": [update.to_wire() for update in bot.queue.pending],
            "webhook": bot.webhook.url if bot.webhook is not None else "",
            "allowed_updates": sorted(bot.allowed) if bot.allowed is not None else None,
            "commands": [
                {"scope": scope, "language_code": language, "commands": commands}
                for (scope, language), commands in bot.commands.items()
            ],
        }

    def _chat_state(self, chat: Chat) -> JsonObject:
        messages = [self._platform.message_object(message, chat) for message in chat.messages.values()]
        members = {str(user): member.status.value for user, member in chat.members.items()}
        return {
            "chat": self._platform.chat_object(chat),
            "bot": chat.bot,
            "members": members,
            "topics": [{"id": topic.id, "name": topic.name, "closed": topic.closed} for topic in chat.topics.values()],
            "messages": messages,
        }

    def _verbs(self) -> Mapping[str, Verb]:
        return {name: getattr(self, name) for name in VERBS}


def _contains(given: Any, wanted: Mapping[str, Any]) -> bool:
    return is_object(given) and all(given.get(name) == item for name, item in wanted.items())


VERBS = (
    "add_bot",
    "add_user",
    "add_chat",
    "say",
    "command",
    "edit",
    "delete",
    "forward",
    "anonymous_admin",
    "as_channel",
    "channel_post",
    "automatic_forward",
    "upload",
    "press",
    "answer",
    "react",
    "stop_generation",
    "inject",
    "start_bot",
    "block",
    "unblock",
    "join",
    "leave",
    "promote",
    "add_bot_to_group",
    "remove_bot_from_group",
    "migrate",
    "create_topic",
    "rename_topic",
    "close_topic",
    "delete_topic",
    "messages",
    "drafts",
    "topics",
    "pending_updates",
    "fault",
    "advance",
    "disconnect",
    "conflict",
    "polls",
    "redeliver",
    "snapshot",
    "reset",
)
"""What the control API can do; the verbs of other platforms' emulators have the same names where they can."""
