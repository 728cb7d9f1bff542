BEGIN TRANSACTION;
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
INSERT INTO "approvals" VALUES('s','request-1',1,'turn-1','message-1',1700000000000,2000000,'approved','telegram:8',1500000,'{"call-2":{"tool":"write_file","schema_hash":"5c","arguments":{"path":"b.txt","text":"\u0000 "},"argv":["ls","-l"],"cwd":"/srv/project","environment":{"LANG":"C"},"stdin_hash":"0f","files":{"b.txt":"77"},"network":"host","sandbox":"bubblewrap","timeout_seconds":2.5,"workspace_id":"ws-1","session_id":"s","turn_id":"turn-1","requester":"telegram:7","version":1},"call-3":{"tool":"shell","schema_hash":"5c","arguments":{"argv":["ls","-l"]},"argv":["ls","-l"],"cwd":"/srv/project","environment":{"LANG":"C"},"stdin_hash":"0f","files":{"b.txt":"77"},"network":"host","sandbox":"bubblewrap","timeout_seconds":2.5,"workspace_id":"ws-1","session_id":"s","turn_id":"turn-1","requester":"telegram:7","version":1}}','{"request_id":"request-1","turn_id":"turn-1","submission_id":"message-1","calls":[{"call_id":"call-1","name":"read_file","arguments":{"path":"a/ü.txt","limit":3,"deep":{"x":[1,null]}}},{"call_id":"call-2","name":"write_file","arguments":{"path":"b.txt","text":"\u0000 "}},{"call_id":"call-3","name":"shell","arguments":{"argv":["ls","-l"]}}],"gated":["call-2","call-3"],"actions":{"call-2":{"tool":"write_file","schema_hash":"5c","arguments":{"path":"b.txt","text":"\u0000 "},"argv":["ls","-l"],"cwd":"/srv/project","environment":{"LANG":"C"},"stdin_hash":"0f","files":{"b.txt":"77"},"network":"host","sandbox":"bubblewrap","timeout_seconds":2.5,"workspace_id":"ws-1","session_id":"s","turn_id":"turn-1","requester":"telegram:7","version":1},"call-3":{"tool":"shell","schema_hash":"5c","arguments":{"argv":["ls","-l"]},"argv":["ls","-l"],"cwd":"/srv/project","environment":{"LANG":"C"},"stdin_hash":"0f","files":{"b.txt":"77"},"network":"host","sandbox":"bubblewrap","timeout_seconds":2.5,"workspace_id":"ws-1","session_id":"s","turn_id":"turn-1","requester":"telegram:7","version":1}},"digests":{"call-2":"554a0ccd566a05796fbe0b1a056626e6a2b1fc8ce84796f8247cea5785f04001","call-3":"d86463cd35f9915be28e5d7102e52f8e52136ca4def04e5bca327a95892f043e"},"reason":"writes outside","expires_at_ms":2000000,"decision":null,"decided_by":null,"decided_at_ms":null,"high_risk":true}');
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
INSERT INTO "context_items" VALUES(1,'s',2,0,'system_message',1,'{"text":"Summary of what came before."}');
INSERT INTO "context_items" VALUES(1,'s',2,1,'user_message',1,'{"id":"message-0","author":"ada","text":"hello 👋","attachments":[{"id":"file-1","name":"Plan ü.pdf","media_type":"application/pdf","size":1234,"sha256":"abababababababababababababababababababababababababababababababab"}],"principal":"telegram:7","quoted":[{"source":"thread","author":"ada","text":"as I said:\n> no"}]}');
INSERT INTO "context_items" VALUES(1,'s',2,2,'assistant_message',1,'{"parts":[{"kind":"thinking_part","text":"hm"},{"kind":"text_part","text":"I look."},{"kind":"tool_call","call_id":"call-1","name":"read_file","arguments":{"path":"a/ü.txt","limit":3,"deep":{"x":[1,null]}}}],"native":{"id":"msg_1","signature":["x",1]}}');
INSERT INTO "context_items" VALUES(1,'s',2,3,'tool_result',1,'{"call_id":"call-1","name":"read_file","output":"text","is_error":true,"outcome":"failed"}');
INSERT INTO "context_items" VALUES(2,'idle',0,0,'system_message',1,'{"text":"Summary of what came before."}');
INSERT INTO "context_items" VALUES(2,'idle',0,1,'user_message',1,'{"id":"message-0","author":"ada","text":"hello 👋","attachments":[{"id":"file-1","name":"Plan ü.pdf","media_type":"application/pdf","size":1234,"sha256":"abababababababababababababababababababababababababababababababab"}],"principal":"telegram:7","quoted":[{"source":"thread","author":"ada","text":"as I said:\n> no"}]}');
INSERT INTO "context_items" VALUES(2,'idle',0,2,'assistant_message',1,'{"parts":[{"kind":"thinking_part","text":"hm"},{"kind":"text_part","text":"I look."},{"kind":"tool_call","call_id":"call-1","name":"read_file","arguments":{"path":"a/ü.txt","limit":3,"deep":{"x":[1,null]}}}],"native":{"id":"msg_1","signature":["x",1]}}');
INSERT INTO "context_items" VALUES(2,'idle',0,3,'tool_result',1,'{"call_id":"call-1","name":"read_file","output":"text","is_error":true,"outcome":"failed"}');
CREATE TABLE cursors (
    session_id  TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    consumer    TEXT NOT NULL,
    sequence    INTEGER NOT NULL,
    PRIMARY KEY (session_id, consumer)
) STRICT, WITHOUT ROWID;
INSERT INTO "cursors" VALUES('s','delivery',3);
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
INSERT INTO "event_journal" VALUES(1,'s',1,'message-1',1700000000000,'session_configured','{"session_id":"s","context":{"tenant_id":"team-1","user_id":"user-1","user_name":"Ada","workspace_id":"ws-1","workspace_label":"project","origin_label":"cron"},"model":{"route":"large","name":"m","context_window":1000}}');
INSERT INTO "event_journal" VALUES(1,'s',2,'message-1',1700000000000,'message_queued','{"message_id":"message-2","disposition":"steer","position":1,"text":"x","author":"ada","principal":"telegram:7"}');
INSERT INTO "event_journal" VALUES(1,'s',3,'message-1',1700000000000,'message_edited','{"message_id":"message-2","text":"y"}');
INSERT INTO "event_journal" VALUES(1,'s',4,'message-1',1700000000000,'message_removed','{"message_id":"message-2","by":"telegram:7"}');
INSERT INTO "event_journal" VALUES(1,'s',5,'message-1',1700000000000,'message','{"message_id":"message-2","author":"ada","delivery":"queue","text":"y","attachments":[{"id":"file-1","name":"Plan ü.pdf","media_type":"application/pdf","size":1234,"sha256":"abababababababababababababababababababababababababababababababab"}],"principal":"telegram:7","turn_id":"turn-1"}');
INSERT INTO "event_journal" VALUES(1,'s',6,'message-1',1700000000000,'turn_started','{"turn_id":"turn-1","message_id":"message-1"}');
INSERT INTO "event_journal" VALUES(1,'s',7,'message-1',1700000000000,'turn_complete','{"turn_id":"turn-1","last_assistant_message":"done","usage":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125},"model_calls":2,"tool_calls":1,"duration_ms":5}');
INSERT INTO "event_journal" VALUES(1,'s',8,'message-1',1700000000000,'turn_aborted','{"turn_id":"turn-1","reason":"stopped","outcome":"failed","by":"telegram:7","model_calls":2,"tool_calls":1,"duration_ms":5}');
INSERT INTO "event_journal" VALUES(1,'s',9,'message-1',1700000000000,'model_step_started','{"turn_id":"turn-1","model_step_id":"step-1","step_index":1}');
INSERT INTO "event_journal" VALUES(1,'s',10,'message-1',1700000000000,'model_step_completed','{"turn_id":"turn-1","model_step_id":"step-1","step_index":1,"outcome":"retrying","usage":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125}}');
INSERT INTO "event_journal" VALUES(1,'s',11,'message-1',1700000000000,'assistant_message','{"turn_id":"turn-1","model_step_id":"step-1","text":"hm","overtaken":true}');
INSERT INTO "event_journal" VALUES(1,'s',12,'message-1',1700000000000,'tool_call_begin','{"turn_id":"turn-1","call_id":"call-1","name":"read_file","summary":"a"}');
INSERT INTO "event_journal" VALUES(1,'s',13,'message-1',1700000000000,'tool_call_end','{"turn_id":"turn-1","call_id":"call-1","name":"read_file","output":"text","is_error":true,"outcome":"failed"}');
INSERT INTO "event_journal" VALUES(1,'s',14,'message-1',1700000000000,'approval_requested','{"request_id":"request-1","turn_id":"turn-1","calls":[{"call_id":"call-2","name":"write_file","arguments":{"path":"b.txt","text":"\u0000 "}},{"call_id":"call-3","name":"shell","arguments":{"argv":["ls","-l"]}}],"reason":"writes outside","expires_at_ms":2000000,"summaries":["b.txt","ls -l"],"high_risk":true,"requester":"telegram:7"}');
INSERT INTO "event_journal" VALUES(1,'s',15,'message-1',1700000000000,'approval_resolved','{"request_id":"request-1","turn_id":"turn-1","decision":"edited","decided_by":"telegram:8","reason":"ok"}');
INSERT INTO "event_journal" VALUES(1,'s',16,'message-1',1700000000000,'model_changed','{"route":"small","name":"n","context_window":100}');
INSERT INTO "event_journal" VALUES(1,'s',17,'message-1',1700000000000,'submission_rejected','{"reason":"stale turn"}');
INSERT INTO "event_journal" VALUES(1,'s',18,'message-1',1700000000000,'warning','{"message":"nothing to stop"}');
INSERT INTO "event_journal" VALUES(1,'s',19,'message-1',1700000000000,'error','{"kind":"rate_limit","message":"wait","retryable":true,"retry_after":1.5,"reference":"E-1","turn_id":"turn-1"}');
INSERT INTO "event_journal" VALUES(1,'s',20,'message-1',1700000000000,'token_count','{"last":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125},"total":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125},"context_window":1000}');
INSERT INTO "event_journal" VALUES(1,'s',21,'message-1',1700000000000,'context_compacted','{"epoch":3,"items_before":10,"items_after":2}');
INSERT INTO "event_journal" VALUES(1,'s',22,'message-1',1700000000000,'grant_revoked','{"grant_id":"grant-1"}');
INSERT INTO "event_journal" VALUES(1,'s',23,'message-1',1700000000000,'session_retired','{"reason":"retired"}');
INSERT INTO "event_journal" VALUES(1,'s',24,'message-1',1700000000000,'loop_started','{"loop_id":"loop-1","generation":1,"max_iterations":5,"max_rounds":20}');
INSERT INTO "event_journal" VALUES(1,'s',25,'message-1',1700000000000,'loop_iteration_started','{"index":1}');
INSERT INTO "event_journal" VALUES(1,'s',26,'message-1',1700000000000,'loop_iteration_completed','{"index":1}');
INSERT INTO "event_journal" VALUES(1,'s',27,'message-1',1700000000000,'loop_ended','{"loop_id":"loop-1","status":"failed","iterations_completed":1,"rounds_started":2,"error":"x","reason":null}');
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
INSERT INTO "execution_journal" VALUES(2,'idle',0,'turn-0','message-0','failed',10,20,'{"turn_id":"turn-0","submission_id":"message-0","started_at_ms":10,"ended_at_ms":20,"outcome":"failed","model_calls":2,"tool_calls":3,"failed_tool_calls":1,"usage":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125}}');
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
INSERT INTO "grants" VALUES('s','grant-1','d1','shell',9000000,NULL,'{"id":"grant-1","session_id":"s","digest":"d1","tool":"shell","summary":"ls -l","granted_by":"telegram:8","granted_at_ms":1000000,"expires_at_ms":9000000,"revoked_at_ms":null}');
CREATE TABLE loops (
    session_id      TEXT NOT NULL PRIMARY KEY REFERENCES sessions (session_id) ON DELETE CASCADE,
    status          TEXT CHECK (status IN ('running', 'finalizing', 'completed', 'stopped', 'budget_exhausted',
                                           'cancelled', 'failed', 'recovery_unsupported')),
    runtime_status  TEXT NOT NULL CHECK (runtime_status IN ('running', 'suspended', 'completed', 'failed')),
    loop_state      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "loops" VALUES('s','running','suspended','{"status":"running","rounds_started":2}');
CREATE TABLE middleware_state (
    scope          TEXT NOT NULL,
    key            TEXT NOT NULL,
    value          TEXT NOT NULL,
    updated_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "middleware_state" VALUES('agent','key','{"a":[1,null]}',1700000000000);
CREATE TABLE owners (
    owner_id       TEXT NOT NULL PRIMARY KEY,
    host           TEXT NOT NULL,
    boot_id        TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    process_start  INTEGER NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE pending_messages (
    session_id      TEXT NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    position        INTEGER NOT NULL,
    message_id      TEXT NOT NULL,
    boundary        TEXT NOT NULL,
    accepted_at_ms  INTEGER NOT NULL,
    payload         TEXT NOT NULL,
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "pending_messages" VALUES('s',0,'message-2','steer',1100000,'{"id":"message-2","boundary":{"kind":"steer","turn_id":"turn-1"},"author":"ada","text":"stop that","principal":"telegram:7","quoted":[{"source":"thread","author":"ada","text":"as I said:\n> no"}],"attachments":[{"id":"file-1","name":"Plan ü.pdf","media_type":"application/pdf","size":1234,"sha256":"abababababababababababababababababababababababababababababababab"}],"reply_to":"message-0","accepted_at_ms":1100000}');
INSERT INTO "pending_messages" VALUES('s',1,'message-3','queue',1200000,'{"id":"message-3","boundary":{"kind":"queue","turn_id":null},"author":"bob","text":"and then","principal":null,"quoted":[],"attachments":[],"reply_to":null,"accepted_at_ms":1200000}');
CREATE TABLE receipts (
    submission_id   TEXT NOT NULL PRIMARY KEY CHECK (submission_id <> ''),
    session_id      TEXT NOT NULL,
    recorded_at_ms  INTEGER NOT NULL,
    payload         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "receipts" VALUES('message-1','s',1700000000000,'{"submission_id":"message-1","status":"accepted","disposition":"steer","position":2,"reason":"because","result":null}');
INSERT INTO "receipts" VALUES('press-1','s',1700000000000,'{"submission_id":"press-1","status":"accepted","disposition":null,"position":null,"reason":null,"result":{"kind":"approval_result","status":"already","decision":"denied","decided_by":"telegram:8","decided_at_ms":1500000}}');
INSERT INTO "receipts" VALUES('stop-1','s',1700000000000,'{"submission_id":"stop-1","status":"accepted","disposition":null,"position":null,"reason":null,"result":{"kind":"interrupt_result","status":"stopping"}}');
CREATE TABLE schema_versions (component TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "schema_versions" VALUES('runtime',1);
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
INSERT INTO "sessions" VALUES(1,'s',1,'an-id',1,2,4,27,NULL,0,'turn-1',1,'large','A title','project','cron',1700000000000,1700000000000,'{"active_execution":{"submission_id":"message-1","turn_id":"turn-1","started_at_ms":1000000,"model_calls":2,"tool_calls":3,"failed_tool_calls":1,"usage":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125},"next_model_step":2,"stop_hook_active":true,"interrupted_by":"telegram:7","crash_count":1,"principals":["telegram:7","telegram:8"],"phase":{"kind":"model","last_assistant_message":null}},"active_model_step":{"model_step_id":"step-1","step_index":1,"started_at_ms":1000500},"execution_stats":{"run_count":5,"aborted_run_count":1,"failed_run_count":2,"model_calls":9,"tool_calls":8,"failed_tool_calls":3},"total_usage":{"input_tokens":11,"output_tokens":7,"cache_read_tokens":3,"cost_usd":0.125},"title":"A title"}','{"tenant_id":"team-1","user_id":"user-1","user_name":"Ada","workspace_id":"ws-1","workspace_label":"project","origin_label":"cron"}','{"gateway.chat":{"workspace":"/srv/project","versions":[1,2]}}');
INSERT INTO "sessions" VALUES(2,'idle',0,'an-id',1,0,4,0,NULL,0,NULL,0,'small',NULL,NULL,NULL,1700000000000,1700000000000,'{"active_execution":null,"active_model_step":null,"execution_stats":{"run_count":0,"aborted_run_count":0,"failed_run_count":0,"model_calls":0,"tool_calls":0,"failed_tool_calls":0},"total_usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cost_usd":0.0},"title":null}','{"tenant_id":null,"user_id":null,"user_name":null,"workspace_id":null,"workspace_label":null,"origin_label":null}','{}');
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
INSERT INTO "tool_calls" VALUES(1,'s',1,1,0,'call-1','turn-1','read_file','done',NULL,'key-1','{"call":{"call_id":"call-1","name":"read_file","arguments":{"path":"a/ü.txt","limit":3,"deep":{"x":[1,null]}}},"state":"done","idempotency_key":"key-1"}');
INSERT INTO "tool_calls" VALUES(1,'s',1,1,1,'call-2','turn-1','write_file','started',NULL,'key-2','{"call":{"call_id":"call-2","name":"write_file","arguments":{"path":"b.txt","text":"\u0000 "}},"state":"started","idempotency_key":"key-2"}');
INSERT INTO "tool_calls" VALUES(1,'s',1,1,2,'call-3','turn-1','shell','pending',NULL,'key-3','{"call":{"call_id":"call-3","name":"shell","arguments":{"argv":["ls","-l"]}},"state":"pending","idempotency_key":"key-3"}');
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
COMMIT;
