-- What is to happen when, and one row for each time at which it was due.

CREATE TABLE schedules (
    -- Ids make session ids, so none is ever used again; removed schedules stay.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    creation_key TEXT NOT NULL UNIQUE CHECK (creation_key <> ''),
    name TEXT NOT NULL CHECK (name <> ''),
    plan TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'disabled', 'done', 'removed')),
    reason TEXT NOT NULL DEFAULT '',
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT,
    created_by TEXT NOT NULL CHECK (created_by <> ''),
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    -- Every due time up to here has its row.
    accounted_until_ms INTEGER NOT NULL,
    next_due_ms INTEGER,
    runs INTEGER NOT NULL DEFAULT 0,
    -- In a row, and when people were told of them.
    failures INTEGER NOT NULL DEFAULT 0,
    alerted_at_ms INTEGER
) STRICT;

CREATE INDEX schedules_due ON schedules (next_due_ms) WHERE state = 'active' AND next_due_ms IS NOT NULL;

CREATE TABLE schedule_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id INTEGER NOT NULL REFERENCES schedules (id),
    due_at_ms INTEGER NOT NULL,
    by_hand INTEGER NOT NULL DEFAULT 0 CHECK (by_hand IN (0, 1)),
    -- waiting: claimed; running: its session and submission are fixed, so that doing it again hits the same turn.
    state TEXT NOT NULL
        CHECK (state IN ('waiting', 'running', 'succeeded', 'failed', 'skipped', 'missed', 'cancelled')),
    reason TEXT NOT NULL DEFAULT '',
    number INTEGER,
    not_before_ms INTEGER NOT NULL,
    -- Which process carries it out, and until when it is believed to live.
    owner TEXT,
    lease_until_ms INTEGER NOT NULL DEFAULT 0,
    session_id TEXT UNIQUE,
    started_at_ms INTEGER,
    ended_at_ms INTEGER,
    -- One row for every due time from its own to this one, long ago.
    covers_until_ms INTEGER,
    -- What became of its result in the chat, apart from the run.
    shown TEXT NOT NULL DEFAULT 'none'
        CHECK (shown IN ('none', 'planned', 'delivered', 'silent', 'failed', 'unknown')),
    shown_reason TEXT NOT NULL DEFAULT '',
    result_digest TEXT,
    workspace_label TEXT NOT NULL DEFAULT '',
    origin_label TEXT NOT NULL DEFAULT '',
    UNIQUE (schedule_id, due_at_ms),
    CHECK ((state IN ('waiting', 'running')) = (ended_at_ms IS NULL)),
    CHECK (state <> 'running' OR (owner IS NOT NULL AND session_id IS NOT NULL AND started_at_ms IS NOT NULL))
) STRICT;

CREATE INDEX schedule_runs_open ON schedule_runs (state, not_before_ms, id) WHERE state IN ('waiting', 'running');
CREATE INDEX schedule_runs_on_their_way ON schedule_runs (id) WHERE shown = 'planned';

-- What runs have posted: a reply to it goes on with that run's conversation.
CREATE INDEX deliveries_of_runs ON deliveries (session_id, surface)
    WHERE session_id >= 'cron:' AND session_id < 'cron;';
