-- The tables of a store.
--
-- A job costs few writes: a row of job_states and one of specs at submit, the first again at start
-- and at settle. What never changes is in specs, so that a large payload is written once; what
-- few jobs have (results, errors) is in rows of its own. Times are
-- milliseconds since 1970 UTC, 0 means never; the views show them as text.

-- The one row of facts about the whole store. A new job has the number after the last one of specs,
-- and next_seq at least, which is written when jobs are removed: their numbers are never given again.
CREATE TABLE meta (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    next_seq       INTEGER NOT NULL,
    shared_version INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 1, 1);

-- The words behind the numbers, for the views.
CREATE TABLE states  (state  INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE classes (class  INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE reasons (reason INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
INSERT INTO states VALUES (0, 'scheduled'), (1, 'retrying'), (2, 'queued'), (3, 'running'),
    (4, 'parked'), (5, 'completed'), (6, 'failed'), (7, 'dead_letter'), (8, 'cancelled');
INSERT INTO classes VALUES (0, 'success'), (1, 'transient'), (2, 'rate_limited'), (3, 'network'),
    (4, 'system'), (5, 'database'), (6, 'permanent'), (7, 'validation'), (8, 'authentication');
INSERT INTO reasons VALUES (0, 'none'), (1, 'exhausted'), (2, 'not_retriable'), (3, 'deadline'),
    (4, 'poison'), (5, 'breaker_open'), (6, 'manual'), (7, 'damaged');

CREATE TABLE tenants (
    tenant_id INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE
) STRICT;

-- A partition is the jobs of one task in one queue, and how many are in each state. The counts
-- are kept by the transaction that moves the jobs, one update a partition, so that rows are never counted.
CREATE TABLE partitions (
    partition_id INTEGER PRIMARY KEY,
    tenant_id   INTEGER NOT NULL REFERENCES tenants,
    queue       TEXT NOT NULL,
    task        TEXT NOT NULL,
    scheduled   INTEGER NOT NULL DEFAULT 0,
    retrying    INTEGER NOT NULL DEFAULT 0,
    queued      INTEGER NOT NULL DEFAULT 0,
    running     INTEGER NOT NULL DEFAULT 0,
    parked      INTEGER NOT NULL DEFAULT 0,
    completed   INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    dead_letter INTEGER NOT NULL DEFAULT 0,
    cancelled   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant_id, queue, task)
) STRICT;

-- The state of each job: only what changes, because each move reads and writes every column again.
-- NOT NULL costs a step for each column in every write, so that few columns have it; STRICT checks
-- in a single step that columns have numbers.
CREATE TABLE job_states (
    seq              INTEGER PRIMARY KEY,
    state            INTEGER NOT NULL,
    sort_key         INTEGER NOT NULL,  -- see jobs_by_sort_key
    partition_id     INTEGER NOT NULL,
    process_after_ms INTEGER,
    attempts         INTEGER,
    epoch            INTEGER,
    reason           INTEGER,
    updated_ms       INTEGER,
    started_ms       INTEGER,
    paused_ms        INTEGER,
    error_class      INTEGER,
    error_at         INTEGER,           -- the row of history that has the latest error
    fingerprint      INTEGER,
    worker           TEXT,
    packed_status    BLOB               -- numbers that no search uses, packed: row.c
) STRICT;

-- Jobs of one state in the order that matters in it: queued ones by partition, then priority, the
-- highest first (partition_id << 32 | 2147483647 - priority), so that a claim reads only
-- ready jobs; time-locked ones by when they are due, running ones by the end of the lease, ended
-- ones by the end; parked ones have 0. The rowid, seq, is the last column of each index. One index
-- and not several, because an update opens every index that has the state in it.
CREATE INDEX jobs_by_sort_key ON job_states (state, sort_key);

-- What few jobs have is in tables of its own, because an update opens every index of its table that
-- has the state in its condition, whether the row is in it or not.

-- Unique keys of all jobs that have one.
CREATE TABLE keys (
    tenant_id      INTEGER NOT NULL,
    unique_key     TEXT NOT NULL,
    unique_forever INTEGER NOT NULL,
    seq            INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, unique_key, unique_forever, seq)
) STRICT, WITHOUT ROWID;

-- One unique key, one live job: the primary key refuses a second one.
CREATE TABLE live_keys (
    tenant_id  INTEGER NOT NULL,
    unique_key TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, unique_key)
) STRICT, WITHOUT ROWID;

-- Parked jobs by what holds them: a breaker's key, or a limit's.
CREATE TABLE parked (
    seq           INTEGER PRIMARY KEY,
    tenant_id     INTEGER NOT NULL,
    gate          TEXT NOT NULL,
    attempts_left INTEGER NOT NULL
) STRICT;
CREATE INDEX parked_oldest ON parked (tenant_id, gate);
CREATE INDEX parked_probes ON parked (tenant_id, gate, attempts_left DESC);

-- What does not change after submit, except by an edit of a dead letter's payload, with a checksum
-- that every reader checks.
CREATE TABLE specs (
    seq            INTEGER PRIMARY KEY,
    tenant_id      INTEGER NOT NULL,
    id             TEXT NOT NULL,
    priority       INTEGER,
    max_attempts   INTEGER,
    created_ms     INTEGER,
    deadline_ms    INTEGER,
    sum            INTEGER,
    unique_forever INTEGER,
    unique_key     TEXT,
    breaker_key    TEXT,
    limit_key      TEXT,
    user           TEXT,
    project        TEXT,
    service        TEXT,
    policy         TEXT,
    payload        TEXT
) STRICT;

-- The tenant comes first, so that all jobs of a small tenant are found without reading those of others; seq, the
-- rowid, is the last column of the index.
CREATE UNIQUE INDEX specs_by_id ON specs (tenant_id, id);

CREATE TABLE results (
    seq    INTEGER PRIMARY KEY,
    result TEXT NOT NULL
) STRICT;

-- Each start that has ended, but for an epoch's first attempt that was a success.
CREATE TABLE history (
    history_id    INTEGER PRIMARY KEY,
    seq           INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    started_ms    INTEGER NOT NULL,
    ended_ms      INTEGER NOT NULL,
    outcome       INTEGER NOT NULL,
    delay_ms      INTEGER NOT NULL,
    next_ms       INTEGER NOT NULL,
    error_class   INTEGER NOT NULL,
    error_code    INTEGER NOT NULL,
    why           TEXT NOT NULL,
    worker        TEXT,
    error_type    TEXT,
    error_message TEXT,
    stacktrace    TEXT
) STRICT;
CREATE INDEX history_of_job ON history (seq);

-- Keys that were unique for ever, of jobs that are gone.
CREATE TABLE forever_keys (
    tenant_id  INTEGER NOT NULL,
    unique_key TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    id         TEXT NOT NULL,
    state      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, unique_key)
) STRICT, WITHOUT ROWID;

-- Small rows that processes keep copies of; see enum shared_kind.
CREATE TABLE shared (
    kind    INTEGER NOT NULL,
    tenant  TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    value   BLOB,
    PRIMARY KEY (kind, tenant, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    label  TEXT NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, label)
) STRICT, WITHOUT ROWID;
