"""The hands of the people: everything that somebody with a Discord client can do to a bot.

Each deed returns what the platform made of it, as an object of the API. Deeds that the real client would not allow
raise NotPossible; things that are not there raise NotKnown. Ids may be numbers or text. `chat` is a channel, a
thread or a direct message by its id, or left out for the direct message of `user` with `bot`; `bot` may be left out
while there is one bot only. A thread is a channel of its own: `thread` goes before `chat`, which may be left out then.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from adapters.emulators.discord.bots import Bot
from adapters.emulators.discord.call import Upload
from adapters.emulators.discord.commanding import build_command
from adapters.emulators.discord.components import nodes_of
from adapters.emulators.discord.forms import fill_in
from adapters.emulators.discord.methods.account import open_direct
from adapters.emulators.discord.methods.channels import remove_channel
from adapters.emulators.discord.permissions import Permission, named
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.posting import changed, compose, fill, post, remove
from adapters.emulators.discord.reactions import add_reaction, drop_reaction
from adapters.emulators.discord.rendering import guild_object, member_object, owners, user_object
from adapters.emulators.discord.threads import announce, open_thread, set_archived, updated
from adapters.emulators.discord.world import (
    THREADS,
    WRITABLE,
    AnswerType,
    Channel,
    ChannelType,
    Interaction,
    InteractionType,
    Member,
    Message,
    MessageFlag,
    MessageType,
    Overwrite,
)
from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.wire_json import JsonObject

Id = int | str
BotChoice = int | str | None
MAX_PERSON_TEXT = 2000
BUTTON = 2
LINK_STYLE = 5


class People:
    """What people do. Every method is also a verb of the control API."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    # -- writing

    async def say(
        self,
        user: Id,
        text: str,
        *,
        chat: Id | None = None,
        thread: Id | None = None,
        reply_to: Id | None = None,
        ping: bool = True,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Write a message. `<@id>` mentions; `ping` says whether a reply mentions whom it answers."""
        if not text.strip() or len(text) > MAX_PERSON_TEXT:
            raise NotPossible(f"a person writes 1 to {MAX_PERSON_TEXT} characters")
        place = self._writable(user, chat if thread is None else thread, bot)
        return self._shown(self._write(place, str(user), {"content": text}, reply_to=reply_to, ping=ping))

    async def edit(self, user: Id, message: Id, text: str) -> JsonObject:
        """Change an own message."""
        edited = self._own(user, message)
        fill(self._platform, self._place_of(edited), edited, {"content": text}, {})
        return self._shown(changed(self._platform, edited))

    async def delete(self, user: Id, message: Id) -> None:
        """Remove an own message, or as one who manages messages another's."""
        gone = self._message(user, message)
        place = self._place_of(gone)
        if gone.author != str(user):
            self._require(place, user, Permission.MANAGE_MESSAGES)
        remove(self._platform, gone)

    async def upload(
        self,
        user: Id,
        content: bytes = b"",
        *,
        content_base64: str = "",
        file_name: str = "file.txt",
        mime_type: str | None = None,
        text: str = "",
        chat: Id | None = None,
        thread: Id | None = None,
        reply_to: Id | None = None,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Send a file, with words if given. Over HTTP the content comes as `content_base64`."""
        place = self._writable(user, chat if thread is None else thread, bot)
        self._require(place, user, Permission.ATTACH_FILES)
        data = base64.b64decode(content_base64) if content_base64 else content
        if len(data) > self._platform.knobs.file_limit:
            raise NotPossible(f"a file has at most {self._platform.knobs.file_limit} bytes")
        uploads = {"0": Upload(filename=file_name, content_type=mime_type, content=data)}
        body: JsonObject = {"content": text, "attachments": [{"id": "0", "filename": file_name}]}
        return self._shown(self._write(place, str(user), body, uploads, reply_to=reply_to))

    async def react(self, user: Id, message: Id, emoji: Sequence[str] = ()) -> None:
        """Set the own reactions on a message; none takes them away. Custom emoji are written `name:id`."""
        target = self._message(user, message)
        self._require(self._place_of(target), user, Permission.ADD_REACTIONS)
        wanted = [quote(one, safe=":") for one in emoji]
        for gone in [one for one, users in target.reactions.items() if str(user) in users and one not in wanted]:
            drop_reaction(self._platform, target, gone, str(user))
        for new in wanted:
            add_reaction(self._platform, target, new, str(user))

    async def type(self, user: Id, *, chat: Id | None = None, thread: Id | None = None, bot: BotChoice = None) -> None:
        """Begin to type."""
        place = self._writable(user, chat if thread is None else thread, bot)
        body: JsonObject = {
            "channel_id": place.id,
            "user_id": str(user),
            "timestamp": int(self._platform.clock.now()),
        }
        if place.guild is not None:
            member = self._platform.world.guilds[place.guild].members[str(user)]
            body |= {"guild_id": place.guild, "member": member_object(member, self._platform.world.user(str(user)))}
        self._platform.tell("TYPING_START", place, body)

    # -- pressing, commanding, filling in

    async def press(
        self,
        user: Id,
        message: Id,
        *,
        button: str | None = None,
        data: str | None = None,
        values: Sequence[str] = (),
    ) -> JsonObject:
        """Press a button, by its label or its custom id (`data`), or choose `values` in a select menu.

        Returns the interaction's `id`, with which `answer` tells what came of it.
        """
        pressed = self._message(user, message)
        node = _component(pressed, button, data)
        given: JsonObject = {"custom_id": node["custom_id"], "component_type": node["type"], "id": node["id"]}
        if node["type"] != BUTTON:
            given["values"] = _chosen(node, values)
        if pressed.application is None and self._platform.bot_of(pressed.author) is None:
            raise NotPossible(f"message {pressed.id} belongs to no application")
        bot = self._platform.bot(pressed.application or pressed.author)
        return self._interact(bot, user, self._place_of(pressed), InteractionType.COMPONENT, given, message=pressed)

    async def command(
        self,
        user: Id,
        name: str,
        args: str = "",
        *,
        options: Mapping[str, Any] | None = None,
        target: Id | None = None,
        chat: Id | None = None,
        thread: Id | None = None,
        bot: BotChoice = None,
    ) -> JsonObject:
        """Use a command. `args` fills the first option; `target` is the message or user of a context menu.

        The name may have its groups before it, as in `config set`. Returns the interaction's `id`.
        """
        where = chat if thread is None else thread
        chosen = self._bot_for(user, where, target, bot)
        place = self._command_place(user, where, target, chosen)
        self._require(place, user, Permission.USE_APPLICATION_COMMANDS)
        permissions = self._platform.render.permissions(place, str(user))
        data = build_command(self._platform, chosen, place, permissions, name, args, options, target)
        return self._interact(chosen, user, place, InteractionType.COMMAND, data)

    async def autocomplete(
        self, user: Id, name: str, option: str, text: str, *, chat: Id | None = None, bot: BotChoice = None
    ) -> JsonObject:
        """Begin to fill in an option of a command that offers choices while one writes."""
        chosen = self._bot_for(user, chat, None, bot)
        place = self._command_place(user, chat, None, chosen)
        permissions = self._platform.render.permissions(place, str(user))
        data = build_command(self._platform, chosen, place, permissions, name, "", {option: text}, None, focused=option)
        return self._interact(chosen, user, place, InteractionType.AUTOCOMPLETE, data)

    async def submit(
        self, user: Id, interaction: Id, values: Mapping[str, str | Sequence[str] | bool] | None = None
    ) -> JsonObject:
        """Send a form that was opened by a press or a command; `values` by the custom ids of its fields."""
        opener = self._interaction(interaction)
        if opener.user != str(user):
            raise NotPossible(f"the form is open for user {opener.user}, not for {user}")
        if opener.answer is None or opener.answer["type"] != AnswerType.FORM:
            raise NotPossible(f"interaction {interaction} opened no form")
        form: JsonObject = opener.answer["data"]
        data: JsonObject = {"custom_id": form["custom_id"], "components": fill_in(form, values or {})}
        place = self._platform.world.channels[opener.channel]
        return self._interact(
            self._platform.bot(opener.bot),
            user,
            place,
            InteractionType.FORM,
            data,
            message=opener.message,
            parent=opener,
        )

    async def answer(self, interaction: Id) -> JsonObject:
        """What came of a press, command or form: `state` is waiting, answered or failed; `type`, `data`, `message`."""
        found = self._interaction(interaction)
        state = "answered" if found.answer is not None else "failed" if found.failed else "waiting"
        body: JsonObject = {"id": found.id, "state": state}
        if found.answer is not None:
            body |= {"type": found.answer["type"], "data": found.answer.get("data")}
        if found.original is not None and found.original.id in self._place_of(found.original).messages:
            body["message"] = self._shown(found.original)
        return body

    # -- threads

    async def create_thread(
        self,
        user: Id,
        name: str,
        *,
        chat: Id | None = None,
        message: Id | None = None,
        text: str = "",
        private: bool = False,
        tags: Sequence[Id] = (),
    ) -> JsonObject:
        """Open a thread on a message, in a channel, or with `text` a post in a forum."""
        if message is not None:
            return self._thread_on(user, name, self._message(user, message))
        if chat is None:
            raise NotPossible("a thread opens on a message or in a channel")
        parent = self._place(user, chat, None)
        if parent.type is ChannelType.FORUM:
            return self._forum_post(user, name, parent, text, tags)
        kind = ChannelType.PRIVATE_THREAD if private else ChannelType.PUBLIC_THREAD
        self._require(parent, user, Permission.CREATE_PUBLIC_THREADS)
        thread = open_thread(self._platform, parent, name, str(user), type=kind)
        announce(self._platform, thread)
        if text:
            self._write(thread, str(user), {"content": text})
        return self._platform.render.channel(thread)

    async def rename_thread(self, user: Id, thread: Id, name: str) -> JsonObject:
        """Give a thread another name."""
        place = self._managed_thread(user, thread)
        place.name = name
        updated(self._platform, place)
        return self._platform.render.channel(place)

    async def archive_thread(self, user: Id, thread: Id, *, locked: bool = False) -> JsonObject:
        """Close a thread; locked, only moderators wake it."""
        place = self._managed_thread(user, thread)
        if place.thread is not None:
            place.thread.locked = locked
        set_archived(self._platform, place, True)
        updated(self._platform, place)
        return self._platform.render.channel(place)

    async def delete_thread(self, user: Id, thread: Id) -> None:
        """Remove a thread or a channel with everything in it."""
        place = self._place(user, thread, None)
        needed = Permission.MANAGE_CHANNELS if place.thread is None else Permission.MANAGE_THREADS
        self._require(place, user, needed)
        remove_channel(self._platform, place)

    # -- coming and going

    async def join(self, user: Id, guild: Id) -> JsonObject:
        """Join a guild. For a bot: somebody adds it."""
        server, who = self._platform.world.guild(str(guild)), self._platform.world.user(str(user))
        member = server.members.setdefault(who.id, Member(user=who.id, joined_at=self._platform.clock.now()))
        body = member_object(member, who)
        if (bot := self._platform.bot_of(who.id)) is not None:
            self._platform.tell_bot(bot, "GUILD_CREATE", self._platform.render.guild_create(server, bot.id))
        self._platform.tell_guild("GUILD_MEMBER_ADD", server.id, body | {"guild_id": server.id})
        return body

    async def leave(self, user: Id, guild: Id) -> None:
        """Leave a guild. For a bot: somebody removes it."""
        server, who = self._platform.world.guild(str(guild)), self._platform.world.user(str(user))
        if server.members.pop(who.id, None) is None:
            raise NotKnown(f"user {user} is not in guild {guild}")
        if (bot := self._platform.bot_of(who.id)) is not None:
            self._platform.tell_bot(bot, "GUILD_DELETE", {"id": server.id})
        self._platform.tell_guild("GUILD_MEMBER_REMOVE", server.id, {"guild_id": server.id, "user": user_object(who)})

    async def block(self, user: Id, *, bot: BotChoice = None) -> None:
        """Refuse direct messages of a bot."""
        self._platform.world.blocked.add((self._platform.bot(bot).id, self._platform.world.user(str(user)).id))

    async def unblock(self, user: Id, *, bot: BotChoice = None) -> None:
        """Take direct messages of a bot again."""
        self._platform.world.blocked.discard((self._platform.bot(bot).id, str(user)))

    async def permit(self, chat: Id, who: Id, *, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> JsonObject:
        """An administrator says what a role or a member may do in a channel, by the names of permissions."""
        place = self._platform.world.channel(str(chat))
        if place.guild is None or place.thread is not None:
            raise NotPossible(f"channel {chat} has no permissions of its own")
        is_member = str(who) not in self._platform.world.guilds[place.guild].roles
        place.overwrites[str(who)] = Overwrite(
            id=str(who), is_member=is_member, allow=named(list(allow)), deny=named(list(deny))
        )
        body = self._platform.render.channel(place)
        self._platform.tell_guild("CHANNEL_UPDATE", place.guild, body)
        return body

    # -- looking things up

    def _place(self, user: Id, chat: Id | None, bot: BotChoice) -> Channel:
        world = self._platform.world
        person = world.user(str(user))
        if chat is None:
            return open_direct(self._platform, self._platform.bot(bot).id, person.id)
        place = world.channel(str(chat))
        self._require(place, user, Permission.VIEW_CHANNEL)
        return place

    def _writable(self, user: Id, chat: Id | None, bot: BotChoice) -> Channel:
        place = self._place(user, chat, bot)
        if place.type not in WRITABLE:
            raise NotPossible(f"channel {place.id} is a {place.type.name.lower()}: nobody writes there")
        needed = Permission.SEND_MESSAGES_IN_THREADS if place.type in THREADS else Permission.SEND_MESSAGES
        self._require(place, user, needed)
        if place.thread is not None and place.thread.archived and place.thread.locked:
            self._require(place, user, Permission.MANAGE_THREADS)
        return place

    def _require(self, place: Channel, user: Id, needs: Permission) -> None:
        missing = needs & ~self._platform.render.permissions(place, str(user))
        if missing:
            raise NotPossible(f"user {user} may not {Permission(missing)!r} in channel {place.id}")

    def _place_of(self, message: Message) -> Channel:
        return self._platform.world.channel(message.channel)

    def _message(self, user: Id, message: Id) -> Message:
        found = self._platform.world.message(str(message))
        self._require(self._place_of(found), user, Permission.VIEW_CHANNEL)
        if found.visible_to not in (None, str(user)):
            raise NotKnown(f"message {message} is shown to user {found.visible_to} only")
        return found

    def _own(self, user: Id, message: Id) -> Message:
        found = self._message(user, message)
        if found.author != str(user):
            raise NotPossible(f"message {message} is by user {found.author}, not by {user}")
        return found

    def _managed_thread(self, user: Id, thread: Id) -> Channel:
        place = self._place(user, thread, None)
        if place.thread is None:
            raise NotPossible(f"channel {thread} is no thread")
        if place.thread.owner != str(user):
            self._require(place, user, Permission.MANAGE_THREADS)
        return place

    def _interaction(self, interaction: Id) -> Interaction:
        for one in self._platform.world.interactions.values():
            if one.id == str(interaction):
                return one
        raise NotKnown(f"no interaction {interaction}")

    def _shown(self, message: Message) -> JsonObject:
        return self._platform.render.message(message, self._platform.address(), fresh=True)

    # -- doing

    def _write(
        self,
        place: Channel,
        author: str,
        body: JsonObject,
        uploads: Mapping[str, Upload] | None = None,
        *,
        reply_to: Id | None = None,
        ping: bool = True,
    ) -> Message:
        kind, reference = MessageType.DEFAULT, None
        if reply_to is not None:
            answered = self._platform.world.message(str(reply_to), place.id)
            kind, reference = MessageType.REPLY, _reference(place, answered.id)
        parse = {"parse": ["users", "roles"], "replied_user": ping}
        given = {"allowed_mentions": parse, **body}
        return post(
            self._platform,
            compose(self._platform, place, author, given, uploads, type=kind, reference=reference),
        )

    def _thread_on(self, user: Id, name: str, message: Message) -> JsonObject:
        parent = self._place_of(message)
        self._require(parent, user, Permission.CREATE_PUBLIC_THREADS)
        if message.id in self._platform.world.channels:
            raise NotPossible(f"message {message.id} has a thread already")
        thread = open_thread(self._platform, parent, name, str(user), id=message.id)
        message.flags |= MessageFlag.HAS_THREAD
        announce(self._platform, thread)
        changed(self._platform, message, edited=False)
        return self._platform.render.channel(thread)

    def _forum_post(self, user: Id, name: str, forum: Channel, text: str, tags: Sequence[Id]) -> JsonObject:
        self._require(forum, user, Permission.SEND_MESSAGES)
        if not text:
            raise NotPossible("a post needs a first message: pass text")
        number = self._platform.ids.next()
        thread = open_thread(self._platform, forum, name, str(user), id=number, tags=[str(tag) for tag in tags])
        announce(self._platform, thread)
        post(self._platform, compose(self._platform, thread, str(user), {"content": text}, id=number))
        return self._platform.render.channel(thread)

    def _bot_for(self, user: Id, chat: Id | None, target: Id | None, bot: BotChoice) -> Bot:
        if bot is None and chat is not None:
            place = self._platform.world.channel(str(chat))
            bot = place.bot
        return self._platform.bot(bot)

    def _command_place(self, user: Id, chat: Id | None, target: Id | None, bot: Bot) -> Channel:
        if chat is None and target is not None and str(target) not in self._platform.world.users:
            return self._place_of(self._message(user, target))
        return self._place(user, chat, bot.id)

    def _interact(
        self,
        bot: Bot,
        user: Id,
        place: Channel,
        type: InteractionType,
        data: JsonObject,
        *,
        message: Message | None = None,
        parent: Interaction | None = None,
    ) -> JsonObject:
        """Make an interaction, tell its application, and see to it that it fails when nobody answers in time."""
        interaction = Interaction(
            id=self._platform.ids.next(),
            token=self._platform.secret(),
            type=type,
            bot=bot.id,
            user=str(user),
            channel=place.id,
            guild=place.guild,
            at=self._platform.clock.now(),
            data=data,
            message=message,
            parent=parent,
        )
        self._platform.world.interactions[interaction.token] = interaction
        if bot.endpoint is None:
            body = self._interaction_object(interaction, place, bot)
            self._platform.tell_bot(bot, "INTERACTION_CREATE", body)
        self._platform.spawn(self._fail_in_time(interaction))
        return {"id": interaction.id, "type": int(type)}

    async def _fail_in_time(self, interaction: Interaction) -> None:
        await self._platform.clock.sleep(self._platform.knobs.interaction_deadline)
        if interaction.answer is None:
            interaction.failed = True
            shown: JsonObject = {"interaction": interaction.id, "user_id": interaction.user}
            self._platform.show("interaction_failed", interaction.channel, shown)

    def _interaction_object(self, interaction: Interaction, place: Channel, bot: Bot) -> JsonObject:
        render, world = self._platform.render, self._platform.world
        person = world.users[interaction.user]
        allowed = str(render.permissions(place, person.id))
        body: JsonObject = {
            "id": interaction.id,
            "application_id": bot.id,
            "type": int(interaction.type),
            "token": interaction.token,
            "version": 1,
            "data": interaction.data,
            "channel_id": place.id,
            "channel": render.channel(place) | {"permissions": allowed},
            "app_permissions": str(render.permissions(place, bot.id)),
            "locale": "en-US",
            "entitlements": [],
            "entitlement_sku_ids": [],
            "authorizing_integration_owners": owners(interaction),
            "context": 0 if place.guild is not None else 1,
            "attachment_size_limit": self._platform.knobs.file_limit,
        }
        if interaction.message is not None:
            body["message"] = render.message(interaction.message, self._platform.cdn(bot), bot.id)
        if place.guild is None:
            return body | {"user": user_object(person)}
        guild = world.guilds[place.guild]
        own = guild_object(guild)
        member = member_object(guild.members[person.id], person) | {"permissions": allowed}
        return body | {
            "guild_id": guild.id,
            "guild": {"id": guild.id, "locale": own["preferred_locale"], "features": own["features"]},
            "guild_locale": own["preferred_locale"],
            "member": member,
        }


def _reference(place: Channel, message: str) -> JsonObject:
    body: JsonObject = {"type": 0, "channel_id": place.id, "message_id": message}
    return body | ({"guild_id": place.guild} if place.guild is not None else {})


def _component(message: Message, button: str | None, data: str | None) -> JsonObject:
    """The component that a person means: by label, by custom id, or the only one."""
    usable = [node for node in nodes_of(message.components) if node.get("custom_id")]
    fitting = [
        node
        for node in usable
        if (button is None or node.get("label") == button) and (data is None or node["custom_id"] == data)
    ]
    if len(fitting) != 1:
        there = [node.get("label") or node["custom_id"] for node in usable]
        raise NotKnown(f"which component of message {message.id}? there are {', '.join(there) or 'none'}")
    if fitting[0].get("disabled"):
        raise NotPossible(f"the component {button or data} of message {message.id} is disabled")
    return fitting[0]


def _chosen(node: JsonObject, values: Sequence[str]) -> list[str]:
    """What a person chose in a select menu."""
    offered = [option["value"] for option in node.get("options", [])]
    if offered and set(values) - set(offered):
        raise NotPossible(f"the menu offers {offered}, not {list(values)}")
    low, high = node.get("min_values", 1), node.get("max_values", 1)
    if not low <= len(values) <= high:
        raise NotPossible(f"the menu wants {low} to {high} values")
    return list(values)
