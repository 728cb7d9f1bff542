-- Sessions and all that hangs on them. Texts that only the program reads are JSON; times are UTC milliseconds.
--
-- A save should touch few pages, for each is written to the log. The four tables that only grow (context_items,
-- event_journal, execution_journal, tool_calls) have a rowid, so that what all sessions of a commit add lies on the last
-- page, and index it by the session's number, which is short. Their session_id is for people who look at them. The small
-- tables are keyed by session_id and have no rowid, so that one session's rows lie on one page.

-- The head: one row per session, rewritten by each save. A row with an empty save_id was claimed and never saved.
-- Labels (session_context) never change. `state` holds the fields that have no column of their own.
CREATE TABLE sessions (
    number           INTEGER PRIMARY KEY,
    session_id       TEXT NOT NULL UNIQUE CHECK (session_id <> ''),
    sequence         INTEGER NOT NULL,
    save_id          TEXT NOT NULL,
    version          INTEGER NOT NULL,
    context_epoch    INTEGER NOT NULL,
    context_length   INTEGER NOT NULL,
    event_sequence   INTEGER NOT NULL,
    owner_id         TEXT,
    generation       INTEGER NOT NULL DEFAULT 0,
    active_turn_id   TEXT,
    retiring         INTEGER NOT NULL DEFAULT 0 CHECK (retiring IN (0, 1)),
    model_route      TEXT,
    title            TEXT,
    workspace_label  TEXT,
    origin_label     TEXT,
    created_at_ms    INTEGER NOT NULL,
    updated_at_ms    INTEGER NOT NULL,
    state            TEXT NOT NULL,
    session_context  TEXT NOT NULL,
    metadata         TEXT NOT NULL
) STRICT;

-- What the model sees. Append-only: compaction starts the next epoch at ordinal 0.
CREATE TABLE context_items (
    session     INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    session_id  TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    ordinal     INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    schema      INTEGER NOT NULL,
    payload     TEXT NOT NULL,
    UNIQUE (session, epoch, ordinal)
) STRICT;

-- Accepted messages that have not entered yet, in the order of `position` (with gaps).
CREATE TABLE pending_messages (
    session_id      TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    position        INTEGER NOT NULL,
    message_id      TEXT NOT NULL,
    boundary        TEXT NOT NULL,
    accepted_at_ms  INTEGER NOT NULL,
    payload         TEXT NOT NULL,
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

-- The journal. Sequences of a session are consecutive, from 1.
CREATE TABLE event_journal (
    session         INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    session_id      TEXT NOT NULL,
    sequence        INTEGER NOT NULL,
    submission_id   TEXT,
    recorded_at_ms  INTEGER NOT NULL,
    event_kind      TEXT NOT NULL,
    payload         TEXT NOT NULL,
    UNIQUE (session, sequence)
) STRICT;

-- One row per turn that ended; `sequence` is that of the checkpoint that ended it.
CREATE TABLE execution_journal (
    session        INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    session_id     TEXT NOT NULL,
    sequence       INTEGER NOT NULL,
    turn_id        TEXT NOT NULL CHECK (turn_id <> ''),
    submission_id  TEXT NOT NULL,
    outcome        TEXT NOT NULL CHECK (outcome IN ('completed', 'aborted', 'failed')),
    started_at_ms  INTEGER NOT NULL,
    ended_at_ms    INTEGER NOT NULL,
    payload        TEXT NOT NULL,
    UNIQUE (session, sequence),
    UNIQUE (session, turn_id)
) STRICT;

-- Requests for approval, kept after they close. While `open`, the row is the session's pending approval. `asked` holds
-- the Actions as they were asked for, `payload` the request with the Actions that may run; they differ after an edit.
CREATE TABLE approvals (
    session_id       TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    request_id       TEXT NOT NULL CHECK (request_id <> ''),
    open             INTEGER NOT NULL CHECK (open IN (0, 1)),
    turn_id          TEXT NOT NULL,
    submission_id    TEXT NOT NULL,
    requested_at_ms  INTEGER NOT NULL,
    expires_at_ms    INTEGER,
    decision         TEXT,
    decided_by       TEXT,
    decided_at_ms    INTEGER,
    asked            TEXT NOT NULL,
    payload          TEXT NOT NULL,
    PRIMARY KEY (session_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX one_open_approval ON approvals (session_id) WHERE open = 1;

CREATE TRIGGER an_approval_is_decided_once
BEFORE UPDATE OF decision ON approvals
WHEN OLD.decision IS NOT NULL AND NEW.decision IS NOT OLD.decision
BEGIN
    SELECT RAISE(ABORT, 'the approval was decided before');
END;

CREATE TRIGGER a_closed_approval_stays_closed
BEFORE UPDATE OF open ON approvals
WHEN OLD.open = 0 AND NEW.open = 1
BEGIN
    SELECT RAISE(ABORT, 'the approval was closed before');
END;

-- Calls of a batch, kept after they close. While `open`, the rows are the session's pending tools. `open` stands early
-- in the key so that the few open calls of a session lie together, however many were closed before.
CREATE TABLE tool_calls (
    session          INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    session_id       TEXT NOT NULL,
    open             INTEGER NOT NULL CHECK (open IN (0, 1)),
    sequence         INTEGER NOT NULL,
    ordinal          INTEGER NOT NULL,
    call_id          TEXT NOT NULL CHECK (call_id <> ''),
    turn_id          TEXT NOT NULL,
    name             TEXT NOT NULL,
    state            TEXT NOT NULL CHECK (state IN ('pending', 'started', 'done')),
    outcome          TEXT,
    idempotency_key  TEXT NOT NULL,
    payload          TEXT NOT NULL,
    UNIQUE (session, open, sequence, ordinal)
) STRICT;

-- What became of submitted ops, by submission id. They outlive their session.
CREATE TABLE receipts (
    submission_id   TEXT NOT NULL PRIMARY KEY CHECK (submission_id <> ''),
    session_id      TEXT NOT NULL,
    recorded_at_ms  INTEGER NOT NULL,
    payload         TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- "Allow for this session."
CREATE TABLE grants (
    session_id     TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    grant_id       TEXT NOT NULL,
    digest         TEXT NOT NULL,
    tool           TEXT NOT NULL,
    expires_at_ms  INTEGER NOT NULL,
    revoked_at_ms  INTEGER,
    payload        TEXT NOT NULL,
    PRIMARY KEY (session_id, grant_id)
) STRICT, WITHOUT ROWID;

-- The bounded loop of a session. `status` is NULL where the state names none of the known ones.
CREATE TABLE loops (
    session_id      TEXT NOT NULL PRIMARY KEY REFERENCES sessions (session_id) ON DELETE CASCADE,
    status          TEXT CHECK (status IN ('running', 'finalizing', 'completed', 'stopped', 'budget_exhausted',
                                           'cancelled', 'failed', 'recovery_unsupported')),
    runtime_status  TEXT NOT NULL CHECK (runtime_status IN ('running', 'suspended', 'completed', 'failed')),
    loop_state      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per process that writes sessions.
CREATE TABLE owners (
    owner_id       TEXT NOT NULL PRIMARY KEY,
    host           TEXT NOT NULL,
    boot_id        TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    process_start  INTEGER NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far a durable reader of a journal has come.
CREATE TABLE cursors (
    session_id  TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    consumer    TEXT NOT NULL,
    sequence    INTEGER NOT NULL,
    PRIMARY KEY (session_id, consumer)
) STRICT, WITHOUT ROWID;

CREATE TABLE middleware_state (
    scope          TEXT NOT NULL,
    key            TEXT NOT NULL,
    value          TEXT NOT NULL,
    updated_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
