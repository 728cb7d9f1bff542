"""The statements of the store, by name."""

# -- the head of a session

READ_HEAD = """
    SELECT sequence, save_id, context_epoch, context_length, event_sequence, session_context
    FROM sessions WHERE session_id = ?
"""

INSERT_HEAD = """
    INSERT INTO sessions (
        session_id, sequence, save_id, version, context_epoch, context_length, event_sequence, active_turn_id, retiring,
        model_route, title, state, updated_at_ms, metadata, session_context, workspace_label, origin_label,
        created_at_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""

# The save id says that nobody saved since the head was read, so all that was read still holds; the other conditions are
# there for those who write by hand. COALESCE keeps what is not given: metadata that did not change need not be encoded
# again, and labels never change.
UPDATE_HEAD = """
    UPDATE sessions SET
        sequence = ?1, save_id = ?2, version = ?3, context_epoch = ?4, context_length = ?5,
        event_sequence = ?6, active_turn_id = ?7, retiring = ?8, model_route = ?9, title = ?10,
        state = ?11, updated_at_ms = ?12, metadata = COALESCE(?13, metadata),
        session_context = COALESCE(?14, session_context), workspace_label = COALESCE(?15, workspace_label),
        origin_label = COALESCE(?16, origin_label)
    WHERE session_id = ?17 AND save_id = ?18 AND sequence < ?1 AND context_epoch = ?19 AND context_length = ?20
        AND (?21 IS NULL OR (owner_id = ?21 AND generation = ?22))
"""

READ_SESSION = """
    SELECT sequence, save_id, context_epoch, context_length, event_sequence, version, retiring, model_route,
        state, session_context, metadata
    FROM sessions WHERE session_id = ? AND save_id <> ''
"""

LIST_SESSIONS = """
    SELECT session_id, title, workspace_label, origin_label, active_turn_id IS NOT NULL,
        (SELECT count(*) FROM pending_messages AS p WHERE p.session_id = s.session_id), updated_at_ms
    FROM sessions AS s WHERE session_id > ? AND save_id <> '' ORDER BY session_id LIMIT ?
"""

DELETE_SESSION = "DELETE FROM sessions WHERE session_id = ?"

# -- context

INSERT_ITEM = """
    INSERT INTO context_items (session, session_id, epoch, ordinal, kind, schema, payload)
    VALUES ((SELECT number FROM sessions WHERE session_id = ?1), ?1, ?2, ?3, ?4, ?5, ?6)
"""

READ_ITEMS = """
    SELECT kind, schema, payload FROM context_items
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND epoch = ? AND ordinal < ? ORDER BY ordinal
"""

# -- waiting messages

INSERT_PENDING = """
    INSERT INTO pending_messages (session_id, position, message_id, boundary, accepted_at_ms, payload)
    VALUES (?, ?, ?, ?, ?, ?)
"""

UPDATE_PENDING = "UPDATE pending_messages SET boundary = ?, payload = ? WHERE session_id = ? AND position = ?"

DELETE_PENDING = "DELETE FROM pending_messages WHERE session_id = ? AND position = ?"

DELETE_ALL_PENDING = "DELETE FROM pending_messages WHERE session_id = ?"

READ_PENDING = "SELECT position, payload FROM pending_messages WHERE session_id = ? ORDER BY position"

# -- pending tools

INSERT_TOOL = """
    INSERT INTO tool_calls
        (session, session_id, open, sequence, ordinal, call_id, turn_id, name, state, idempotency_key, payload)
    VALUES ((SELECT number FROM sessions WHERE session_id = ?1), ?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
"""

UPDATE_TOOL = """
    UPDATE tool_calls SET state = ?, idempotency_key = ?, payload = ?
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND open = 1 AND call_id = ?
"""

CLOSE_TOOL = """
    UPDATE tool_calls SET open = 0
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND open = 1 AND call_id = ?
"""

SET_TOOL_OUTCOME = """
    UPDATE tool_calls SET outcome = ?
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND open = 1 AND call_id = ?
"""

CLOSE_OTHER_TOOLS = """
    UPDATE tool_calls SET open = 0
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND open = 1
        AND call_id NOT IN (SELECT value FROM json_each(?))
"""

DELETE_OPEN_TOOLS = """
    DELETE FROM tool_calls
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND open = 1
"""

READ_TOOLS = """
    SELECT state, payload FROM tool_calls
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND open = 1
    ORDER BY sequence, ordinal
"""

# -- the pending approval

INSERT_APPROVAL = """
    INSERT INTO approvals (session_id, request_id, open, turn_id, submission_id, requested_at_ms, expires_at_ms,
        decision, decided_by, decided_at_ms, asked, payload)
    VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

UPSERT_APPROVAL = (
    INSERT_APPROVAL
    + """
    ON CONFLICT (session_id, request_id) DO UPDATE SET open = 1, expires_at_ms = excluded.expires_at_ms,
        decision = excluded.decision, decided_by = excluded.decided_by, decided_at_ms = excluded.decided_at_ms,
        payload = excluded.payload
"""
)

UPDATE_APPROVAL = """
    UPDATE approvals SET expires_at_ms = ?, payload = ? WHERE session_id = ? AND request_id = ? AND open = 1
"""

# The guard: of two decisions one finds the row undecided.
DECIDE_APPROVAL = """
    UPDATE approvals SET decision = ?, decided_by = ?, decided_at_ms = ?
    WHERE session_id = ? AND request_id = ? AND open = 1 AND decision IS NULL
"""

# A request that is closed undecided takes its decision from the event that says so.
CLOSE_APPROVAL = """
    UPDATE approvals SET open = 0, decision = COALESCE(decision, ?),
        decided_by = CASE WHEN decision IS NULL THEN ? ELSE decided_by END,
        decided_at_ms = CASE WHEN decision IS NULL THEN ? ELSE decided_at_ms END
    WHERE session_id = ? AND request_id = ? AND open = 1
"""

CLOSE_OTHER_APPROVALS = "UPDATE approvals SET open = 0 WHERE session_id = ? AND open = 1 AND request_id <> ?"

READ_APPROVAL = """
    SELECT expires_at_ms, decision, decided_by, decided_at_ms, payload FROM approvals WHERE session_id = ? AND open = 1
"""

READ_ONE_APPROVAL = """
    SELECT expires_at_ms, decision, decided_by, decided_at_ms, payload FROM approvals
    WHERE session_id = ? AND request_id = ?
"""

# -- the loop

UPSERT_LOOP = """
    INSERT INTO loops (session_id, status, runtime_status, loop_state) VALUES (?, ?, ?, ?)
    ON CONFLICT (session_id) DO UPDATE SET
        status = excluded.status, runtime_status = excluded.runtime_status, loop_state = excluded.loop_state
"""

DELETE_LOOP = "DELETE FROM loops WHERE session_id = ?"

READ_LOOP = "SELECT runtime_status, loop_state FROM loops WHERE session_id = ?"

# -- journals

INSERT_EVENT = """
    INSERT INTO event_journal (session, session_id, sequence, submission_id, recorded_at_ms, event_kind, payload)
    VALUES ((SELECT number FROM sessions WHERE session_id = ?1), ?1, ?2, ?3, ?4, ?5, ?6)
"""

READ_EVENT_SEQUENCE = "SELECT event_sequence FROM sessions WHERE session_id = ?"

READ_EVENTS_BEFORE = """
    SELECT sequence, submission_id, recorded_at_ms, event_kind, payload FROM event_journal
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND sequence < ?
    ORDER BY sequence DESC LIMIT ?
"""

READ_EVENTS_AFTER = """
    SELECT sequence, submission_id, recorded_at_ms, event_kind, payload FROM event_journal
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND sequence > ? AND sequence < ?
    ORDER BY sequence LIMIT ?
"""

HAS_EVENTS_BEFORE = """
    SELECT EXISTS (SELECT 1 FROM event_journal
        WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND sequence < ?)
"""

INSERT_EXECUTION = """
    INSERT INTO execution_journal
        (session, session_id, sequence, turn_id, submission_id, outcome, started_at_ms, ended_at_ms, payload)
    VALUES ((SELECT number FROM sessions WHERE session_id = ?1), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT DO NOTHING
"""

READ_EXECUTIONS = """
    SELECT sequence, payload FROM execution_journal
    WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND sequence < ?
    ORDER BY sequence DESC LIMIT ?
"""

# -- receipts, grants, state of middleware

INSERT_RECEIPT = """
    INSERT INTO receipts (submission_id, session_id, recorded_at_ms, payload) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""

READ_RECEIPT = "SELECT payload FROM receipts WHERE submission_id = ?"

UPSERT_GRANT = """
    INSERT INTO grants (session_id, grant_id, digest, tool, expires_at_ms, revoked_at_ms, payload)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (session_id, grant_id) DO UPDATE SET digest = excluded.digest, tool = excluded.tool,
        expires_at_ms = excluded.expires_at_ms, revoked_at_ms = excluded.revoked_at_ms, payload = excluded.payload
"""

READ_GRANTS = "SELECT payload FROM grants WHERE session_id = ? AND revoked_at_ms IS NULL ORDER BY grant_id"

UPSERT_STATE = """
    INSERT INTO middleware_state (scope, key, value, updated_at_ms) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value, updated_at_ms = excluded.updated_at_ms
"""

READ_STATE = "SELECT value FROM middleware_state WHERE scope = ? AND key = ?"

# -- cursors and what waits

UPSERT_CURSOR = """
    INSERT INTO cursors (session_id, consumer, sequence) VALUES (?, ?, ?)
    ON CONFLICT (session_id, consumer) DO UPDATE SET sequence = max(sequence, excluded.sequence)
"""

READ_CURSOR = "SELECT sequence FROM cursors WHERE session_id = ? AND consumer = ?"

DELETE_CONSUMER = "DELETE FROM cursors WHERE consumer = ?"

SESSIONS_BEYOND_CURSOR = """
    SELECT s.session_id FROM sessions AS s
    LEFT JOIN cursors AS c ON c.session_id = s.session_id AND c.consumer = ?
    WHERE s.event_sequence > COALESCE(c.sequence, 0) ORDER BY s.session_id
"""

SESSIONS_WITH_WORK = """
    SELECT session_id FROM sessions WHERE save_id <> '' AND (active_turn_id IS NOT NULL OR retiring = 1)
    UNION SELECT session_id FROM pending_messages
    UNION SELECT session_id FROM approvals WHERE open = 1
    UNION SELECT session_id FROM loops WHERE status IS NOT NULL AND NOT coalesce(json_extract(loop_state, '$.ended'), 0)
    ORDER BY session_id
"""

# -- owners

REGISTER_OWNER = """
    INSERT INTO owners (owner_id, host, boot_id, pid, process_start, started_at_ms, expires_at_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (owner_id) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
"""

DELETE_OWNER = "DELETE FROM owners WHERE owner_id = ?"

READ_OWNER_OF_SESSION = """
    SELECT s.generation, s.owner_id, o.host, o.boot_id, o.pid, o.process_start, o.expires_at_ms
    FROM sessions AS s LEFT JOIN owners AS o ON o.owner_id = s.owner_id WHERE s.session_id = ?
"""

CREATE_CLAIMED = """
    INSERT INTO sessions (session_id, sequence, save_id, version, context_epoch, context_length, event_sequence,
        created_at_ms, updated_at_ms, state, session_context, metadata)
    VALUES (?1, -1, '', 1, 0, 0, 0, ?2, ?2, '{}', '{}', '{}')
    ON CONFLICT DO NOTHING
"""

TAKE_SESSION = """
    UPDATE sessions SET owner_id = ?, generation = generation + 1
    WHERE session_id = ? AND generation = ? AND owner_id IS ?
    RETURNING generation
"""

RELEASE_SESSION = "UPDATE sessions SET owner_id = NULL WHERE session_id = ? AND owner_id = ? AND generation = ?"

READ_OWNERS = "SELECT owner_id, host, boot_id, pid, process_start, expires_at_ms FROM owners"

# -- what time removes

PRUNE_RECEIPTS = "DELETE FROM receipts WHERE recorded_at_ms < ?"

PRUNE_GRANTS = "DELETE FROM grants WHERE COALESCE(revoked_at_ms, expires_at_ms) < ?"

PRUNE_CLAIMS = """
    DELETE FROM sessions WHERE save_id = '' AND created_at_ms < ?
        AND (owner_id IS NULL OR owner_id NOT IN (SELECT owner_id FROM owners))
"""

COUNT_CONSUMERS = "SELECT count(DISTINCT consumer) FROM cursors"

READ_JOURNAL_STATES = """
    SELECT s.session_id, s.event_sequence,
        (SELECT min(e.sequence) FROM event_journal AS e WHERE e.session = s.number),
        (SELECT e.sequence FROM event_journal AS e WHERE e.session = s.number AND e.recorded_at_ms >= ?
            ORDER BY e.sequence LIMIT 1),
        s.active_turn_id IS NOT NULL,
        CASE WHEN s.active_turn_id IS NOT NULL THEN (
            SELECT e.sequence FROM event_journal AS e
            WHERE e.session = s.number AND e.event_kind = 'turn_started'
                AND json_extract(e.payload, '$.turn_id') = s.active_turn_id
            ORDER BY e.sequence DESC LIMIT 1) END,
        (SELECT count(*) FROM cursors AS c WHERE c.session_id = s.session_id),
        (SELECT min(c.sequence) FROM cursors AS c WHERE c.session_id = s.session_id)
    FROM sessions AS s WHERE s.session_id > ? ORDER BY s.session_id LIMIT ?
"""

PRUNE_EVENTS = """
    DELETE FROM event_journal WHERE session = (SELECT number FROM sessions WHERE session_id = ?) AND sequence <= ?
"""
