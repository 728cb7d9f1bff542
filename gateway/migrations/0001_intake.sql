-- What came in, where it belongs, who may decide, and what was done. Times are UTC milliseconds; a missing part of a
-- place is '' here, so that the UNIQUE index sees it.

-- One row per thing that was let in. `stored`: durable, and the platform was told; `routed`: its session and submission
-- id are fixed, so that doing it again hits the same turn; `done`: its outcome is known.
-- Ids are arrival order and make submission ids, so none is ever used again.
CREATE TABLE inbound (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    platform        TEXT NOT NULL CHECK (platform <> ''),
    account         TEXT NOT NULL CHECK (account <> ''),
    chat            TEXT NOT NULL,
    thread          TEXT NOT NULL,
    kind            TEXT NOT NULL,
    principal       TEXT NOT NULL CHECK (principal <> ''),
    message_id      TEXT,
    received_at_ms  INTEGER NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('stored', 'routed', 'done')),
    session_id      TEXT,
    submission_id   TEXT,
    route           TEXT,
    -- The first part of the album or paste that this row is a part of.
    leader          INTEGER,
    outcome         TEXT,
    done_at_ms      INTEGER,
    payload         TEXT NOT NULL,
    CHECK (state <> 'routed' OR submission_id IS NOT NULL),
    CHECK ((state = 'done') = (outcome IS NOT NULL AND done_at_ms IS NOT NULL))
) STRICT;

CREATE INDEX inbound_open ON inbound (id) WHERE state <> 'done';
CREATE INDEX inbound_by_message ON inbound (chat, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX inbound_parts ON inbound (leader) WHERE leader IS NOT NULL;

-- Every name under which the platform may send it again.
CREATE TABLE inbound_keys (
    platform    TEXT NOT NULL,
    account     TEXT NOT NULL,
    event_key   TEXT NOT NULL CHECK (event_key <> ''),
    inbound_id  INTEGER NOT NULL,
    PRIMARY KEY (platform, account, event_key)
) STRICT, WITHOUT ROWID;

-- Which session a place has now.
CREATE TABLE places (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    platform     TEXT NOT NULL CHECK (platform <> ''),
    account      TEXT NOT NULL CHECK (account <> ''),
    chat         TEXT NOT NULL CHECK (chat <> ''),
    thread       TEXT NOT NULL,
    person       TEXT NOT NULL,
    session_id   TEXT NOT NULL UNIQUE CHECK (session_id <> ''),
    generation   INTEGER NOT NULL CHECK (generation > 0),
    bound_at_ms  INTEGER NOT NULL,
    UNIQUE (platform, account, chat, thread, person)
) STRICT;

-- Every session that a place has or had, with its labels and recipe as they were when it began.
CREATE TABLE place_sessions (
    session_id     TEXT NOT NULL PRIMARY KEY CHECK (session_id <> ''),
    place_id       INTEGER NOT NULL REFERENCES places (id),
    generation     INTEGER NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('active', 'retiring', 'retired')),
    context        TEXT NOT NULL,
    recipe         TEXT NOT NULL,
    created_at_ms  INTEGER NOT NULL,
    retired_by     TEXT,
    retirement     TEXT,
    UNIQUE (place_id, generation)
) STRICT, WITHOUT ROWID;

CREATE INDEX place_sessions_retiring ON place_sessions (session_id) WHERE state = 'retiring';

-- Display names, as last seen. For people to read only: nothing compares them.
CREATE TABLE people (
    principal   TEXT NOT NULL PRIMARY KEY,
    name        TEXT NOT NULL,
    seen_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who claimed the gateway by code while no owner was configured. At most one row.
CREATE TABLE claimed_owners (
    principal      TEXT NOT NULL PRIMARY KEY,
    name           TEXT NOT NULL,
    claimed_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Append-only. `hash` covers the row and the hash before it; it is added once, soon after the row was committed with
-- what it tells of, so that rows of different transactions need not wait for each other.
CREATE TABLE audit (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms            INTEGER NOT NULL,
    kind             TEXT NOT NULL CHECK (kind <> ''),
    principal        TEXT,
    platform         TEXT,
    account          TEXT,
    chat             TEXT,
    thread           TEXT,
    session_id       TEXT,
    turn_id          TEXT,
    request_id       TEXT,
    workspace_label  TEXT,
    origin_label     TEXT,
    detail           TEXT NOT NULL,
    prev             TEXT,
    hash             TEXT,
    CHECK ((prev IS NULL) = (hash IS NULL))
) STRICT;

CREATE INDEX audit_open ON audit (id) WHERE hash IS NULL;
CREATE INDEX audit_by_request ON audit (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX audit_refusals ON audit (principal, at_ms) WHERE kind = 'refused';

CREATE TRIGGER audit_rows_stay
BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows are never removed');
END;

CREATE TRIGGER audit_rows_do_not_change
BEFORE UPDATE ON audit
WHEN OLD.hash IS NOT NULL OR NEW.id <> OLD.id OR NEW.at_ms <> OLD.at_ms OR NEW.kind <> OLD.kind
    OR NEW.principal IS NOT OLD.principal OR NEW.platform IS NOT OLD.platform OR NEW.account IS NOT OLD.account
    OR NEW.chat IS NOT OLD.chat OR NEW.thread IS NOT OLD.thread OR NEW.session_id IS NOT OLD.session_id
    OR NEW.turn_id IS NOT OLD.turn_id OR NEW.request_id IS NOT OLD.request_id
    OR NEW.workspace_label IS NOT OLD.workspace_label OR NEW.origin_label IS NOT OLD.origin_label
    OR NEW.detail <> OLD.detail
BEGIN
    SELECT RAISE(ABORT, 'audit rows do not change');
END;
