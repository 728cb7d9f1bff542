-- Which sessions keep which files; their content lies in the folder of blobs under its SHA-256, until no row names it.
CREATE TABLE session_files (
    session_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    -- Who sent it; NULL for a file that the agent sends.
    principal TEXT,
    size INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (session_id, sha256)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_files_by_content ON session_files (sha256);
CREATE INDEX session_files_by_person ON session_files (principal, at_ms);
