"""The hands of the people: everything that somebody with a Telegram app can do to a bot.

Each deed returns what the platform made of it, as an object of the Bot API. Deeds that the real app would not allow
raise NotPossible; things that are not there raise NotKnown. `chat` is a group's id, or left out for the private chat
of `user` with `bot`; `bot` may be left out while there is one bot only.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.telegram.bots import Bot, Callback
from adapters.emulators.telegram.entities import Entity, find_automatic, in_order
from adapters.emulators.telegram.methods.media import media_object
from adapters.emulators.telegram.methods.topics import change_topic, note, open_topic, remove_topic
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.rendering import (
    entity_objects,
    inaccessible_object,
    member_object,
    topic_object,
    user_object,
)
from adapters.emulators.telegram.schema import bot_api
from adapters.emulators.telegram.text import accept_text, read_text
from adapters.emulators.telegram.world import (
    ADMINS,
    CHANNEL_BOT,
    GROUP_ANONYMOUS_BOT,
    ICON_COLORS,
    PRESENT,
    SERVICE_NOTIFICATIONS,
    SUPERGROUP_BASE,
    Chat,
    ChatType,
    Member,
    MemberStatus,
    Message,
    Topic,
    User,
    without_none,
)
from adapters.emulators.wire_json import JsonObject

SPECIAL_USERS = {
    GROUP_ANONYMOUS_BOT: User(id=GROUP_ANONYMOUS_BOT, first_name="Group", username="GroupAnonymousBot", is_bot=True),
    CHANNEL_BOT: User(id=CHANNEL_BOT, first_name="Channel", username="Channel_Bot", is_bot=True),
    SERVICE_NOTIFICATIONS: User(id=SERVICE_NOTIFICATIONS, first_name="Telegram"),
}
"""Senders that are not people; the ids are the real ones."""

BotChoice = int | str | None


class People:
    """What people do. Every method is also a verb of the control API."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    # -- writing

    async def say(
        self,
        user: int,
        text: str,
        *,
        chat: int | None = None,
        thread: int | None = None,
        reply_to: int | None = None,
        quote: str | None = None,
        entities: list[dict[str, Any]] | None = None,
        via_bot: int | None = None,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Write a message. A person who writes to a bot for the first time has started it."""
        place = self._chat(user, chat, bot)
        content = self._text_content(text, entities)
        message = self._write(place, user, content, thread=thread, reply_to=reply_to, quote=quote, via_bot=via_bot)
        return self._platform.message_object(message, place)

    async def command(self, user: int, name: str, args: str = "", **where: Any) -> JsonObject:
        """Send a command; the slash may be left out."""
        text = f"/{name.removeprefix('/')} {args}".strip()
        return await self.say(user, text, **where)

    async def edit(
        self, user: int, message: int, text: str, *, chat: int | None = None, bot: BotChoice = None
    ) -> JsonObject:
        """Change an own message."""
        place = self._chat(user, chat, bot)
        edited = self._own(place, user, message)
        content = self._text_content(text, None)
        if "text" in edited.content:
            edited.content = content
        else:
            kept = {name: item for name, item in edited.content.items() if not name.startswith("caption")}
            edited.content = kept | _as_caption(content)
        edited.edit_date = self._platform.date()
        self._platform.show_message("edit", edited, place)
        self._platform.publish_message("edited_message", edited, place)
        return self._platform.message_object(edited, place)

    async def delete(self, user: int, message: int, *, chat: int | None = None, bot: BotChoice = None) -> None:
        """Remove a message. Bots are not told: Telegram has no such update for them."""
        place = self._chat(user, chat, bot)
        gone = self._platform.world.message(place, message)
        del place.messages[gone.id]
        self._platform.show("delete", place, {"message_id": gone.id, "thread": gone.thread})

    async def forward(
        self,
        user: int,
        text: str,
        *,
        from_user: int | None = None,
        from_name: str | None = None,
        from_chat: int | None = None,
        chat: int | None = None,
        thread: int | None = None,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Forward a text of a person (`from_user`), of one who hides (`from_name`) or of a channel (`from_chat`)."""
        place = self._chat(user, chat, bot)
        origin = self._origin(from_user, from_name, from_chat)
        message = self._write(place, user, self._text_content(text, None), thread=thread, origin=origin)
        return self._platform.message_object(message, place)

    async def anonymous_admin(self, chat: int, text: str, *, thread: int | None = None, title: str = "") -> JsonObject:
        """Write in the name of a group, as its anonymous administrators do."""
        place = self._group(chat)
        message = self._write(
            place,
            self._special(GROUP_ANONYMOUS_BOT),
            self._text_content(text, None),
            thread=thread,
            sender_chat=chat,
            signature=title or None,
        )
        return self._platform.message_object(message, place)

    async def as_channel(self, chat: int, channel: int, text: str, *, thread: int | None = None) -> JsonObject:
        """Write into a group in the name of a channel."""
        place = self._group(chat)
        self._group(channel)
        content = self._text_content(text, None)
        message = self._write(place, self._special(CHANNEL_BOT), content, thread=thread, sender_chat=channel)
        return self._platform.message_object(message, place)

    async def channel_post(self, channel: int, text: str, *, signature: str | None = None) -> JsonObject:
        """Post in a channel."""
        place = self._group(channel)
        if place.type is not ChatType.CHANNEL:
            raise NotPossible(f"chat {channel} is a {place.type}, not a channel")
        content = self._text_content(text, None)
        message = self._write(place, None, content, sender_chat=channel, signature=signature)
        return self._platform.message_object(message, place)

    async def automatic_forward(self, chat: int, channel: int, text: str) -> JsonObject:
        """A channel's post appears in its discussion group."""
        place = self._group(chat)
        origin = self._origin(None, None, channel)
        message = self._write(
            place,
            self._special(SERVICE_NOTIFICATIONS),
            self._text_content(text, None),
            sender_chat=channel,
            origin=origin,
            automatic=True,
        )
        return self._platform.message_object(message, place)

    # -- files

    async def upload(
        self,
        user: int,
        content: bytes = b"",
        *,
        content_base64: str = "",
        kind: str = "document",
        file_name: str | None = None,
        mime_type: str | None = None,
        caption: str = "",
        chat: int | None = None,
        thread: int | None = None,
        reply_to: int | None = None,
        album: str | None = None,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Send a document, photo, voice, audio, video or sticker. Over HTTP the content comes as `content_base64`."""
        place = self._chat(user, chat, bot)
        data = base64.b64decode(content_base64) if content_base64 else content
        file = self._platform.world.store(kind, file_name, mime_type, data)
        fields = _as_caption(self._text_content(caption, None)) if caption else {}
        message = self._write(
            place, user, media_object(kind, file) | fields, thread=thread, reply_to=reply_to, album=album
        )
        return self._platform.message_object(message, place)

    async def album(
        self,
        user: int,
        items: Sequence[tuple[str, bytes]],
        *,
        caption: str = "",
        chat: int | None = None,
        thread: int | None = None,
        bot: BotChoice = None,
    ) -> list[JsonObject]:
        """Send several files at once: pairs of kind and content. They arrive as separate updates of one group."""
        number = str(self._platform.album_ids.take())
        where: dict[str, Any] = {"chat": chat, "thread": thread, "bot": bot, "album": number}
        return [
            await self.upload(
                user,
                content,
                kind=kind,
                file_name=f"{kind}{index}" if kind == "document" else None,
                caption=caption if index == 0 else "",
                **where,
            )
            for index, (kind, content) in enumerate(items)
        ]

    # -- buttons and reactions

    async def press(
        self,
        user: int,
        message: int,
        *,
        button: str | None = None,
        data: str | None = None,
        forged: bool = False,
        chat: int | None = None,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Press a button, chosen by its text or its data; returns the callback query.

        `forged` sends any data to any message, member or not, as a modified app can.
        """
        place = self._chat(user, chat, bot)
        target = self._platform.world.message(place, message) if not forged else place.messages.get(message)
        if not forged:
            self._check_member(place, user)
            data = _callback_data(target, button, data)
        owner = self._owner(place, target, bot)
        return self._press(owner, place, target, message, user, data or "")

    async def answer(self, callback: str, *, bot: BotChoice = None) -> JsonObject | None:
        """What the presser was shown; None while the button still spins."""
        found = self._platform.bot(bot).callbacks.get(callback)
        if found is None:
            raise NotKnown(f"no callback query {callback}")
        return found.answer

    async def react(
        self,
        user: int,
        message: int,
        emoji: list[str] | str,
        *,
        chat: int | None = None,
        bot: BotChoice = None,
    ) -> None:
        """Set the person's reactions on a message; an empty list takes them away.

        Bots are told in private chats, and in groups that they administer, if they ask for `message_reaction`.
        """
        place = self._chat(user, chat, bot)
        target = self._platform.world.message(place, message)
        chosen = [emoji] if isinstance(emoji, str) else emoji
        new = [{"type": "emoji", "emoji": one} for one in chosen]
        old, target.reactions[user] = target.reactions.get(user, []), new
        self._platform.show("reaction", place, {"message_id": message, "user_id": user, "reaction": new})
        body = {
            "chat": self._platform.chat_object(place),
            "message_id": message,
            "user": user_object(self._platform.world.user(user)),
            "date": self._platform.date(),
            "old_reaction": old,
            "new_reaction": new,
        }
        for told in self._administering(place):
            self._platform.publish(told, "message_reaction", body, lane=place.id)

    async def stop_generation(
        self, user: int, draft: int, *, forged: bool = False, bot: BotChoice = None
    ) -> JsonObject:
        """Press the app's own Stop under a draft; the draft is not shown again."""
        place = self._chat(user, None, bot)
        shown = place.drafts.get(draft)
        live = shown is not None and shown.expires_at > self._platform.clock.now()
        if not forged and not (shown is not None and live and shown.can_stop):
            raise NotPossible(f"draft {draft} shows no Stop: it is {'not stoppable' if live else 'not there'}")
        place.drafts.pop(draft, None)
        place.stopped_drafts.add(draft)
        owner = self._platform.bot(place.bot)
        body = without_none(
            chat=self._platform.chat_object(place),
            # The server sends the number as text.
            draft_id=str(draft),
            message_thread_id=shown.thread if shown is not None else None,
        )
        self._platform.publish(owner, "stopped_message_generation", body, lane=place.id)
        return body

    async def inject(self, kind: str, body: dict[str, Any], *, bot: BotChoice = None) -> None:
        """Give a bot an update of any kind, as raw JSON: for kinds that no deed here makes, and for hostile ones.

        Raises NotPossible, naming the places, if the platform would not send such an object.
        """
        schema = bot_api()
        problems = schema.check(("Update",), {"update_id": 1, kind: body}, "update")
        if problems:
            found = "; ".join(f"{problem.rule} at {problem.where}" for problem in problems)
            raise NotPossible(f"that is no update of the Bot API: {found}")
        self._platform.publish(self._platform.bot(bot), kind, body, lane=0)

    # -- coming and going

    async def start_bot(self, user: int, *, args: str = "", bot: BotChoice = None) -> JsonObject:
        """Press Start in the private chat."""
        return await self.command(user, "start", args, bot=bot)

    async def block(self, user: int, *, bot: BotChoice = None) -> None:
        """Stop the bot: it cannot write to this person any more."""
        self._set_blocked(user, bot, blocked=True)

    async def unblock(self, user: int, *, bot: BotChoice = None) -> None:
        """Let the bot write again."""
        self._set_blocked(user, bot, blocked=False)

    async def join(self, user: int, chat: int, *, by: int | None = None) -> None:
        """Join a group, or be added `by` somebody."""
        place = self._group(chat)
        self._change_member(place, user, Member(status=MemberStatus.MEMBER), by or user)
        person = self._platform.world.user(user)
        self._note(place, by or user, {"new_chat_members": [user_object(person)]})

    async def leave(self, user: int, chat: int, *, by: int | None = None) -> None:
        """Leave a group, or be removed `by` somebody."""
        place = self._group(chat)
        gone = Member(status=MemberStatus.LEFT if by is None else MemberStatus.KICKED)
        self._note(place, by or user, {"left_chat_member": user_object(self._platform.world.user(user))})
        self._change_member(place, user, gone, by or user)

    async def promote(self, user: int, chat: int, rights: list[str], *, by: int | None = None) -> None:
        """Make somebody, or a bot, an administrator with these rights; without any, a plain member again."""
        place = self._group(chat)
        status = MemberStatus.ADMINISTRATOR if rights else MemberStatus.MEMBER
        self._change_member(place, user, Member(status=status, rights=frozenset(rights)), by or user)

    async def add_bot_to_group(self, chat: int, *, by: int, bot: BotChoice = None) -> None:
        """Add a bot to a group."""
        await self.join(self._platform.bot(bot).id, chat, by=by)

    async def remove_bot_from_group(self, chat: int, *, by: int, bot: BotChoice = None) -> None:
        """Remove a bot from a group."""
        await self.leave(self._platform.bot(bot).id, chat, by=by)

    async def migrate(self, chat: int) -> int:
        """Turn a group into a supergroup; returns its new id. The old id refuses messages from then on."""
        old = self._group(chat)
        if old.type is not ChatType.GROUP or old.migrated_to is not None:
            raise NotPossible(f"chat {chat} is not a basic group that could be upgraded")
        new = Chat(
            id=SUPERGROUP_BASE + chat,
            type=ChatType.SUPERGROUP,
            title=old.title,
            members=dict(old.members),
        )
        self._platform.world.groups[new.id] = new
        owner = next((user for user, member in old.members.items() if member.status is MemberStatus.CREATOR), None)
        owner = owner if owner is not None else next(iter(old.members), None)
        self._note(old, owner, {"migrate_to_chat_id": new.id})
        old.migrated_to = new.id
        self._note(new, owner, {"migrate_from_chat_id": old.id})
        return new.id

    # -- topics

    async def create_topic(
        self,
        user: int,
        name: str,
        *,
        chat: int | None = None,
        implicit: bool = False,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Open a topic; returns it. `implicit` is what writing outside of topics does in a private chat."""
        place = self._chat(user, chat, bot)
        self._check_topics(place)
        topic = open_topic(self._platform, place, user, name, color=ICON_COLORS[0], emoji=None, implicit=implicit)
        self._publish_note(place, place.messages[topic.id])
        return topic_object(topic)

    async def rename_topic(
        self, user: int, topic: int, name: str, *, chat: int | None = None, bot: BotChoice = None
    ) -> None:
        """Rename a topic."""
        place = self._chat(user, chat, bot)
        found = self._topic(place, topic)
        message = change_topic(self._platform, place, found, user, name=name, emoji=found.icon_emoji)
        self._publish_note(place, message)

    async def close_topic(self, user: int, topic: int, *, chat: int | None = None, bot: BotChoice = None) -> None:
        """Close a topic."""
        place = self._chat(user, chat, bot)
        found = self._topic(place, topic)
        found.closed = True
        self._publish_note(place, note(self._platform, place, found, user, {"forum_topic_closed": {}}))

    async def delete_topic(self, user: int, topic: int, *, chat: int | None = None, bot: BotChoice = None) -> None:
        """Delete a topic with all its messages. Bots are not told."""
        place = self._chat(user, chat, bot)
        remove_topic(self._platform, place, self._topic(place, topic))

    # -- inside

    def _chat(self, user: int, chat: int | None, bot: BotChoice) -> Chat:
        self._platform.world.user(user)
        if chat is not None and chat != user:
            return self._group(chat)
        return self._platform.world.open_private(self._platform.bot(bot).id, user, opened=False)

    def _group(self, chat: int) -> Chat:
        found = self._platform.world.groups.get(chat)
        if found is None:
            raise NotKnown(f"no group {chat}; there are {sorted(self._platform.world.groups) or 'none'}")
        return found

    def _special(self, user: int) -> int:
        self._platform.world.users.setdefault(user, SPECIAL_USERS[user])
        return user

    def _text_content(self, text: str, entities: list[dict[str, Any]] | None) -> JsonObject:
        accepted = accept_text(read_text(text, "", entities))
        found: list[Entity] = list(accepted.entities) or in_order(find_automatic(accepted.text))
        return without_none(text=accepted.text, entities=entity_objects(found, self._platform.world))

    def _write(
        self,
        place: Chat,
        user: int | None,
        content: JsonObject,
        *,
        thread: int | None = None,
        reply_to: int | None = None,
        quote: str | None = None,
        via_bot: int | None = None,
        sender_chat: int | None = None,
        signature: str | None = None,
        origin: JsonObject | None = None,
        album: str | None = None,
        automatic: bool = False,
    ) -> Message:
        if user is not None and sender_chat is None:
            self._check_member(place, user)
        replied = self._platform.world.message(place, reply_to) if reply_to is not None else None
        thread, in_topic = self._thread(place, thread, replied)
        message = Message(
            id=place.counter.take(),
            date=self._platform.date(),
            content=content,
            sender=user,
            sender_chat=sender_chat,
            thread=thread,
            in_topic=in_topic,
            reply_to=reply_to,
            quote=None if quote is None else {"text": quote, "position": 0, "is_manual": True},
            via_bot=via_bot,
            signature=signature,
            album=album,
            forward_origin=origin,
            automatic_forward=automatic,
        )
        self._platform.post(place, message)
        place.opened = True
        self._platform.publish_message("message", message, place)
        return message

    def _thread(self, place: Chat, thread: int | None, replied: Message | None) -> tuple[int | None, bool]:
        if thread is not None:
            topic = self._topic(place, thread)
            if topic.closed:
                raise NotPossible(f"topic {thread} is closed")
            return thread, True
        if replied is None:
            return None, False
        if replied.in_topic:
            return replied.thread, True
        # In a supergroup without topics a chain of replies has a thread id too, but is no topic.
        chained = place.type is ChatType.SUPERGROUP and not place.is_forum
        return (replied.thread or replied.id, False) if chained else (None, False)

    def _topic(self, place: Chat, topic: int) -> Topic:
        found = place.topics.get(topic)
        if found is None:
            raise NotKnown(f"no topic {topic} in chat {place.id}; there are {sorted(place.topics) or 'none'}")
        return found

    def _check_topics(self, place: Chat) -> None:
        if place.type is ChatType.PRIVATE:
            owner = self._platform.bot(place.bot)
            if not (owner.topics and owner.users_create_topics):
                raise NotPossible("this bot has no topics in private chats: add_bot(topics=True)")
        elif not place.is_forum:
            raise NotPossible(f"chat {place.id} is not a forum: add_chat(is_forum=True)")

    def _check_member(self, place: Chat, user: int) -> None:
        if place.type is ChatType.PRIVATE:
            if place.blocked:
                raise NotPossible(f"user {user} has blocked the bot: unblock first")
        elif place.status_of(user) not in PRESENT:
            raise NotPossible(f"user {user} is not a member of chat {place.id}: join first")

    def _own(self, place: Chat, user: int, message: int) -> Message:
        found = self._platform.world.message(place, message)
        if found.sender != user:
            raise NotPossible(f"message {message} was not written by user {user}")
        return found

    def _origin(self, user: int | None, name: str | None, chat: int | None) -> JsonObject:
        date = self._platform.date() - 60
        if user is not None:
            return {"type": "user", "date": date, "sender_user": user_object(self._platform.world.user(user))}
        if chat is not None:
            source = self._platform.chat_object(self._group(chat))
            return {"type": "channel", "date": date, "chat": source, "message_id": 1}
        return {"type": "hidden_user", "date": date, "sender_user_name": name or "Somebody"}

    def _owner(self, place: Chat, target: Message | None, bot: BotChoice) -> Bot:
        """The bot that gets the press: the author of the message."""
        if place.bot is not None:
            return self._platform.bot(place.bot)
        bots = {one.id for one in self._platform.bots.values()}
        author = target.sender if target is not None else None
        return self._platform.bot(author if author in bots else bot)

    def _press(self, owner: Bot, place: Chat, target: Message | None, message: int, user: int, data: str) -> JsonObject:
        number = str(self._platform.callback_ids.take())
        pressed_at = self._platform.clock.now()
        owner.callbacks[number] = Callback(
            id=number, user=user, chat=place.id, message=message, data=data, pressed_at=pressed_at
        )
        carried = (
            self._platform.message_object(target, place)
            if target is not None
            else inaccessible_object(place, message, self._platform.world)
        )
        body: JsonObject = {
            "id": number,
            "from": user_object(self._platform.world.user(user)),
            "message": carried,
            "chat_instance": str(abs(place.id) * 7919),
            "data": data,
        }
        self._platform.publish(owner, "callback_query", body, lane=user)
        return body

    def _administering(self, place: Chat) -> list[Bot]:
        """Bots that are told about reactions and members of a chat."""
        bots = self._platform.bots.values()
        if place.type is ChatType.PRIVATE:
            return [one for one in bots if one.id == place.bot]
        return [one for one in bots if place.status_of(one.id) in ADMINS]

    def _set_blocked(self, user: int, bot: BotChoice, *, blocked: bool) -> None:
        place = self._chat(user, None, bot)
        place.blocked = blocked
        owner = self._platform.bot(place.bot)
        states = [MemberStatus.MEMBER, MemberStatus.KICKED]
        old, new = states if blocked else reversed(states)
        self._tell_membership(owner, "my_chat_member", place, owner.user, user, Member(status=old), Member(status=new))

    def _change_member(self, place: Chat, user: int, member: Member, by: int) -> None:
        old = place.members.get(user)
        place.members[user] = member
        person = self._platform.world.user(user)
        self._platform.show("member", place, {"user_id": user, "status": member.status.value})
        bots = {bot.id: bot for bot in self._platform.bots.values()}
        if user in bots:
            self._tell_membership(bots[user], "my_chat_member", place, person, by, old, member)
        for told in self._administering(place):
            if told.id != user:
                self._tell_membership(told, "chat_member", place, person, by, old, member)

    def _tell_membership(
        self, told: Bot, kind: str, place: Chat, person: User, by: int, old: Member | None, new: Member
    ) -> None:
        body = {
            "chat": self._platform.chat_object(place),
            "from": user_object(self._platform.world.user(by)),
            "date": self._platform.date(),
            "old_chat_member": member_object(person, old, place),
            "new_chat_member": member_object(person, new, place),
        }
        self._platform.publish(told, kind, body, lane=place.id)

    def _note(self, place: Chat, sender: int | None, content: JsonObject) -> None:
        """A service message that bots read."""
        message = Message(id=place.counter.take(), date=self._platform.date(), content=content, sender=sender)
        self._platform.post(place, message)
        self._publish_note(place, message)

    def _publish_note(self, place: Chat, message: Message) -> None:
        self._platform.publish_message("message", message, place)


def _as_caption(content: JsonObject) -> JsonObject:
    return without_none(caption=content.get("text"), caption_entities=content.get("entities"))


def _callback_data(message: Message | None, button: str | None, data: str | None) -> str:
    """The data of the chosen button. Raises NotKnown, or NotPossible for a button that is switched off."""
    keyboard = message.keyboard if message is not None else None
    buttons: list[JsonObject] = [one for row in (keyboard or {"inline_keyboard": []})["inline_keyboard"] for one in row]
    for one in buttons:
        if one["text"] == button or (data is not None and one.get("callback_data") == data):
            if "disabled" in one or "callback_data" not in one:
                raise NotPossible(f"button {one['text']!r} sends nothing when pressed")
            return str(one["callback_data"])
    shown = [(one["text"], one.get("callback_data")) for one in buttons]
    raise NotKnown(f"no button {button or data!r} under message {message.id if message else '?'}; there are {shown}")
