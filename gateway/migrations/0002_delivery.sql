-- What is to be shown, and what is shown: every outgoing part is a row before it is sent.

CREATE TABLE surfaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('card', 'approval', 'answer', 'notice', 'form', 'thread')),
    -- planned: nothing went out yet; open: it may be on the platform, its controls count; closed: they count no more.
    state TEXT NOT NULL CHECK (state IN ('planned', 'open', 'closed')),
    session_id TEXT,
    turn_id TEXT,
    request_id TEXT,
    -- Of a card: where its turn begins in the journal, so that a restart can read the turn again.
    first_sequence INTEGER,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT,
    person TEXT,
    message_id TEXT,
    -- 1 while a message of ours may be there whose id we do not know: a press may then bring it.
    adoptable INTEGER NOT NULL DEFAULT 0 CHECK (adoptable IN (0, 1)),
    choices TEXT NOT NULL DEFAULT '',
    shown TEXT,
    -- The view that the message has to get, until it has it; later ones replace earlier ones.
    desired BLOB,
    desired_digest TEXT,
    desired_priority INTEGER NOT NULL DEFAULT 1,
    -- The same for a message whose id nobody knows: it becomes `desired` if a press brings the id.
    once_found BLOB,
    expires_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX surfaces_by_request ON surfaces (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX surfaces_by_turn ON surfaces (session_id, kind, turn_id) WHERE session_id IS NOT NULL;
CREATE INDEX surfaces_to_edit ON surfaces (platform, account, chat) WHERE desired IS NOT NULL;
CREATE INDEX surfaces_live_cards ON surfaces (session_id) WHERE kind = 'card' AND state <> 'closed';
CREATE INDEX surfaces_open_approvals ON surfaces (request_id) WHERE kind = 'approval' AND state <> 'closed';

CREATE TABLE deliveries (
    -- Rows of one chat and thread go out in the order of their ids, so an id is never used again.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    surface TEXT NOT NULL,
    part INTEGER NOT NULL,
    session_id TEXT,
    turn_id TEXT,
    request_id TEXT,
    surface_id INTEGER REFERENCES surfaces (id),
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT,
    person TEXT,
    priority INTEGER NOT NULL CHECK (priority IN (0, 1, 2)),
    view BLOB NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('planned', 'sending', 'sent', 'unknown', 'failed')),
    -- Sends that may have reached the platform.
    attempt INTEGER NOT NULL DEFAULT 0,
    -- 0: as planned; 1: the parent chat instead of a thread that is gone.
    fallback INTEGER NOT NULL DEFAULT 0 CHECK (fallback IN (0, 1)),
    not_before_ms INTEGER NOT NULL DEFAULT 0,
    refs BLOB,
    reason TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    UNIQUE (source, surface, part)
) STRICT;

CREATE INDEX deliveries_due ON deliveries (platform, account, chat, id) WHERE state IN ('planned', 'sending');
CREATE INDEX deliveries_unknown ON deliveries (platform, account, chat) WHERE state = 'unknown';
CREATE INDEX deliveries_by_surface ON deliveries (surface_id) WHERE surface_id IS NOT NULL;
CREATE INDEX deliveries_by_request ON deliveries (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX deliveries_by_age ON deliveries (updated_at_ms) WHERE state IN ('sent', 'unknown', 'failed');

-- Chats that take nothing from us any more; the owner was told once.
CREATE TABLE dead_chats (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    chat TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (platform, account, chat)
) STRICT, WITHOUT ROWID;
