"""From a place on a platform to its session, and what a session is begun with.

A place is a tuple, never a joined text. Which session it has is a row; labels and recipe of a session are fixed when it
begins, and the recipe is checked against the configuration each time the session is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adapters.contract import Inbound, Place
from gateway.config import Binding
from gateway.config.model import WorkspaceSection
from gateway.ledger import places as rows
from gateway.ledger.database import Database
from gateway.ledger.places import PlaceRow, PlaceSession
from runtime.clock import Clock
from runtime.errors import ConfigurationError
from runtime.protocol.context import JsonValue
from runtime.protocol.session import SessionContext
from runtime.store.writer import Statement

RECIPE_KEY = "gateway.chat"
"""Key of the recipe in a session's metadata."""

RECIPE_VERSION = 1
NAME_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a session is opened with. `binding` is what the configuration says of its place now."""

    session_id: str
    place: Place
    context: SessionContext
    metadata: Mapping[str, JsonValue]
    binding: Binding
    label_changed_to: str | None

    @property
    def recipe(self) -> Mapping[str, JsonValue]:
        """What it was made from."""
        kept = self.metadata.get(RECIPE_KEY)
        return kept if isinstance(kept, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A session that is about to begin: put the statements into the transaction that routes its first message."""

    session_id: str
    place: Place
    context: SessionContext
    statements: Sequence[Statement]


def conversation(place: Place) -> Place:
    """The place without a person: what a thread is to everybody in it."""
    return replace(place, person=None)


def place_for(inbound: Inbound, scope: str) -> Place:
    """The place whose session takes the inbound: the one key function for every path."""
    person = inbound.sender.id if scope == "per_person" else None
    return replace(inbound.place, person=person)


def is_for_us(inbound: Inbound, listen: str, *, bound: bool) -> bool:
    """Whether something said in a group is meant for us: said to us, or everything is, or its thread has a session.

    Without threads a whole group would be listened to after the first mention, so there `bound` does not count.
    """
    if inbound.chat_kind == "private" or inbound.addressed or listen == "all":
        return True
    return bound and inbound.place.thread is not None


def display_name(name: str) -> str:
    """A name for people and for the model: one line, printable, at most 64 characters."""
    printable = "".join(character if character.isprintable() else " " for character in name)
    return " ".join(printable.split())[:NAME_LENGTH]


def author_of(inbound: Inbound, scope: str) -> str:
    """How a person's words are signed: with name and id where several people share a session."""
    name = display_name(inbound.sender.name) or inbound.sender.id
    shared = scope == "shared" and inbound.chat_kind != "private"
    return f"{name} ({inbound.sender.id})" if shared else name


def recipe_of(place: Place, binding: Binding, workspace: WorkspaceSection) -> dict[str, JsonValue]:
    """What a session of this place is made from, as it is kept in the session's metadata."""
    return {
        "version": RECIPE_VERSION,
        "place": {
            "platform": place.platform,
            "account": place.account,
            "chat": place.chat,
            "thread": place.thread,
            "person": place.person,
        },
        "workspace": str(workspace.path),
        "agent": binding.agent.name,
        "model": binding.models[0],
        "policy": "/".join(part or "*" for part in binding.place),
    }


def workspace_of(recipe: Mapping[str, JsonValue], workspaces: Sequence[WorkspaceSection]) -> WorkspaceSection:
    """The configured workspace that a recipe names by its path. ConfigurationError, with the remedy, if it is gone."""
    if recipe.get("version") != RECIPE_VERSION:
        raise ConfigurationError(
            f"this conversation was begun by another version of the program (recipe {recipe.get('version')!r}); "
            "send /new to begin a new one"
        )
    path = Path(str(recipe.get("workspace")))
    for workspace in workspaces:
        if workspace.path == path:
            return workspace
    raise ConfigurationError(
        f"the workspace folder {path} of this conversation is not configured any more; "
        "add it to [[workspaces]] again, or send /new to begin a new conversation"
    )


def verify(
    context: SessionContext, metadata: Mapping[str, JsonValue], workspaces: Sequence[WorkspaceSection]
) -> WorkspaceSection:
    """The workspace that a stored session may be opened in. ConfigurationError: it may not be opened, and why."""
    recipe = metadata.get(RECIPE_KEY)
    if not isinstance(recipe, dict):
        raise ConfigurationError("this session was not begun by a chat; it has no recipe to open it with")
    workspace = workspace_of(recipe, workspaces)
    if workspace.id != context.workspace_id:
        raise ConfigurationError(
            f"the workspace of this conversation was {context.workspace_id!r}, and its folder now belongs to "
            f"{workspace.id!r}; give it its id back, or send /new to begin a new conversation"
        )
    return workspace


class Places:
    """Finds and begins sessions. It reads and plans; writing is the caller's transaction."""

    def __init__(
        self,
        database: Database,
        binding_for: Callable[[Place], Binding],
        workspaces: Callable[[], Sequence[WorkspaceSection]],
        *,
        new_id: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._database = database
        self._binding_for = binding_for
        self._workspaces = workspaces
        self._new_id = new_id
        self._clock = clock

    def binding(self, place: Place) -> Binding:
        """What the configuration says of the place now. ConfigurationError if it has no workspace or model."""
        try:
            return self._binding_for(place)
        except LookupError as error:
            raise ConfigurationError(str(error)) from error

    @property
    def workspaces(self) -> Sequence[WorkspaceSection]:
        """Every configured workspace."""
        return self._workspaces()

    async def find(self, inbound: Inbound) -> PlaceRow | None:
        """The session that takes the inbound, or None if its place has none yet.

        An answer to what a run of a schedule has posted goes to that run; in a thread without a conversation, so does
        everything that is said there, to the newest.
        """
        if inbound.reply_to is not None:
            posted = await rows.of_posted(self._database, inbound.reply_to)
            if posted is not None:
                return posted
        place = place_for(inbound, self.binding(inbound.place).scope)
        found = await rows.find(self._database, place)
        if found is None and place.thread is not None:
            return await rows.newest_run_in(self._database, place)
        return found

    async def is_bound(self, inbound: Inbound) -> bool:
        """Whether anybody has a session in the thread."""
        place = conversation(inbound.place)
        if await rows.in_thread(self._database, place):
            return True
        return place.thread is not None and await rows.newest_run_in(self._database, place) is not None

    async def sessions_here(self, place: Place) -> tuple[PlaceSession, ...]:
        """Sessions of everybody in this thread, and those that are still being ended; never those of another thread."""
        found = await rows.in_thread(self._database, conversation(place))
        return await rows.sessions_of(self._database, found) if found else ()

    async def session(self, session_id: str) -> PlaceSession | None:
        """The session and where its answers go; None if no chat began it."""
        return await rows.session(self._database, session_id)

    def begin(self, inbound: Inbound, principal: str, workspace: WorkspaceSection | None = None) -> Begun:
        """The first session of the place."""
        binding = self.binding(inbound.place)
        place = place_for(inbound, binding.scope)
        session_id, context, recipe = self._fresh(inbound, principal, place, binding, workspace or binding.workspace)
        statements = rows.bind(place, session_id, context, recipe, self._clock.now_ms())
        return Begun(session_id=session_id, place=place, context=context, statements=statements)

    def begin_next(
        self, row: PlaceRow, inbound: Inbound, principal: str, workspace: WorkspaceSection | None, retirement: str
    ) -> Begun:
        """The next session of the place; the one that it has is retiring from the same commit on."""
        binding = self.binding(inbound.place)
        chosen = workspace or binding.workspace
        session_id, context, recipe = self._fresh(inbound, principal, row.place, binding, chosen)
        statements = rows.rebind(
            row,
            session_id,
            context,
            recipe,
            retired_by=principal,
            retirement=retirement,
            now_ms=self._clock.now_ms(),
        )
        return Begun(session_id=session_id, place=row.place, context=context, statements=statements)

    def _fresh(
        self, inbound: Inbound, principal: str, place: Place, binding: Binding, workspace: WorkspaceSection
    ) -> tuple[str, SessionContext, dict[str, JsonValue]]:
        context = SessionContext(
            tenant_id=inbound.sender.tenant,
            user_id=principal,
            user_name=display_name(inbound.sender.name) or None,
            workspace_id=workspace.id,
            workspace_label=workspace.title,
            origin_label=place.platform,
        )
        return self._new_id(), context, recipe_of(place, binding, workspace)

    async def opening(self, session_id: str) -> Opening | None:
        """What to open a session with; None if no chat began it.

        ConfigurationError: the configuration does not fit it any more, so it must not be opened.
        """
        found = await rows.session(self._database, session_id)
        if found is None:
            return None
        metadata: dict[str, JsonValue] = {RECIPE_KEY: dict(found.recipe)}
        workspace = verify(found.context, metadata, self._workspaces())
        binding = replace(self.binding(conversation(found.place)), workspace=workspace)
        changed = workspace.title if workspace.title != found.context.workspace_label else None
        return Opening(
            session_id=session_id,
            place=found.place,
            context=found.context,
            metadata=metadata,
            binding=binding,
            label_changed_to=changed,
        )

    async def retiring(self) -> tuple[PlaceSession, ...]:
        """Sessions that have still to be ended."""
        return await rows.retiring(self._database)
