-- The tables of a store, in a schema of their own.
--
-- A job costs few writes: one row of specs and one of job_states at submit, the latter again at
-- start and at settle. Each of these is a new version of the row and a new entry in the primary
-- key, so that what never changes (ids, payloads) is kept apart, in specs. Times are
-- milliseconds since 1970 UTC; in columns that may be NULL, NULL stands for 0, which means never.
-- Text is compared as bytes.

CREATE TABLE redrive.meta (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL
);
INSERT INTO redrive.meta VALUES (true, 0);

-- Rises, in the transaction that changes it, with every row of `shared` that processes cache.
CREATE TABLE redrive.shared_version (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO redrive.shared_version VALUES (true, 1);

-- The words behind the numbers, for the views.
CREATE TABLE redrive.states  (state  smallint PRIMARY KEY, name text NOT NULL);
CREATE TABLE redrive.classes (class  smallint PRIMARY KEY, name text NOT NULL);
CREATE TABLE redrive.reasons (reason smallint PRIMARY KEY, name text NOT NULL);
INSERT INTO redrive.states VALUES (0, 'scheduled'), (1, 'retrying'), (2, 'queued'), (3, 'running'),
    (4, 'parked'), (5, 'completed'), (6, 'failed'), (7, 'dead_letter'), (8, 'cancelled');
INSERT INTO redrive.classes VALUES (0, 'success'), (1, 'transient'), (2, 'rate_limited'),
    (3, 'network'), (4, 'system'), (5, 'database'), (6, 'permanent'), (7, 'validation'),
    (8, 'authentication');
INSERT INTO redrive.reasons VALUES (0, 'none'), (1, 'exhausted'), (2, 'not_retriable'),
    (3, 'deadline'), (4, 'poison'), (5, 'breaker_open'), (6, 'manual'), (7, 'damaged');

CREATE TABLE redrive.tenants (
    tenant_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text COLLATE "C" NOT NULL UNIQUE
);

-- A partition is the jobs of one task in one queue. Partitions never change and never go.
CREATE TABLE redrive.partitions (
    partition_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id integer NOT NULL REFERENCES redrive.tenants,
    queue     text COLLATE "C" NOT NULL,
    task      text COLLATE "C" NOT NULL,
    UNIQUE (tenant_id, queue, task)
);

-- How many jobs of a partition are in each state: the sum of its rows. A transaction adds a row for each partition
-- that it has moved jobs of, so that no two transactions wait for each other; now and then a commit sums
-- many rows up into one.
CREATE TABLE redrive.count_deltas (
    partition_id integer NOT NULL,
    scheduled   bigint NOT NULL,
    retrying    bigint NOT NULL,
    queued      bigint NOT NULL,
    running     bigint NOT NULL,
    parked      bigint NOT NULL,
    completed   bigint NOT NULL,
    failed      bigint NOT NULL,
    dead_letter bigint NOT NULL,
    cancelled   bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE SEQUENCE redrive.job_seq AS bigint;

-- What does not change after submit, except by an edit of a dead letter's payload.
CREATE TABLE redrive.specs (
    seq            bigint PRIMARY KEY,
    tenant_id      integer NOT NULL,
    created_ms     bigint NOT NULL,
    max_attempts   integer NOT NULL,
    unique_forever boolean NOT NULL,
    id             text COLLATE "C" NOT NULL,
    unique_key     text COLLATE "C",
    breaker_key    text COLLATE "C",
    limit_key      text COLLATE "C",
    user_name      text COLLATE "C",
    project        text COLLATE "C",
    service        text COLLATE "C",
    policy         text COLLATE "C",
    payload        text COLLATE "C",
    CONSTRAINT specs_by_id UNIQUE (id, tenant_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- The jobs of a tenant, however many jobs others have. The index is here because a row of specs is written once.
CREATE INDEX specs_by_tenant ON redrive.specs (tenant_id, seq);

-- The state of each job: only what changes.
CREATE TABLE redrive.job_states (
    seq               bigint PRIMARY KEY,
    process_after_ms  bigint NOT NULL,
    updated_ms        bigint NOT NULL,
    partition_id      integer NOT NULL,
    priority          integer NOT NULL,
    attempts          integer NOT NULL,
    state             smallint NOT NULL,
    reason            smallint,
    error_class       smallint,
    has_key           boolean NOT NULL,
    by_limit          boolean,
    epoch             integer,
    deferrals         integer,
    crashes           integer,
    history_n         integer,  -- how many rows of history it has
    error_n           integer,  -- the one that has the latest error
    started_ms        bigint,
    first_started_ms  bigint,
    finished_ms       bigint,
    paused_ms         bigint,
    paused_since_ms   bigint,
    lease_until_ms    bigint,
    token             bigint,
    permit_generation bigint,
    permit_probe      bigint,
    fingerprint       bigint,
    deadline_ms       bigint,
    worker            text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0.1);

-- One index for each state in which order matters, with the jobs of that state only: a job that has
-- ended is in none that a claim reads.
CREATE INDEX jobs_ready ON redrive.job_states (partition_id, priority DESC, seq) WHERE state = 2;
CREATE INDEX jobs_due ON redrive.job_states (process_after_ms, seq) WHERE state IN (0, 1);
CREATE INDEX jobs_due_in_partition ON redrive.job_states (partition_id, process_after_ms) WHERE state IN (0, 1);
CREATE INDEX jobs_leased ON redrive.job_states (lease_until_ms, seq) WHERE state = 3;
CREATE INDEX jobs_ended ON redrive.job_states (state, finished_ms, seq) WHERE state >= 5;
CREATE INDEX jobs_deadlines ON redrive.job_states (deadline_ms, seq)
    WHERE deadline_ms IS NOT NULL AND state IN (0, 1, 2, 4);

-- The lowest seq among the queued jobs of a partition. Within a priority the first one has it: so it takes one
-- look for each priority.
CREATE FUNCTION redrive.oldest_ready(p_partition_id integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE firsts(priority, seq) AS (
        (SELECT j.priority, j.seq FROM redrive.job_states j WHERE j.state = 2 AND j.partition_id = p_partition_id
         ORDER BY j.priority DESC, j.seq LIMIT 1)
        UNION ALL
        SELECT n.priority, n.seq FROM firsts CROSS JOIN LATERAL (
            SELECT j.priority, j.seq FROM redrive.job_states j
            WHERE j.state = 2 AND j.partition_id = p_partition_id AND j.priority < firsts.priority
            ORDER BY j.priority DESC, j.seq LIMIT 1) n)
    SELECT min(seq) FROM firsts
$$;

-- Parked jobs by what holds them: a breaker's key, or a limit's.
CREATE TABLE redrive.parked (
    seq           bigint PRIMARY KEY,
    tenant_id     integer NOT NULL,
    gate          text COLLATE "C" NOT NULL,
    attempts_left integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX parked_oldest ON redrive.parked (tenant_id, gate, seq);
CREATE INDEX parked_probes ON redrive.parked (tenant_id, gate, attempts_left DESC, seq);

-- Unique keys of all jobs that have one.
CREATE TABLE redrive.keys (
    tenant_id      integer NOT NULL,
    unique_key     text COLLATE "C" NOT NULL,
    seq            bigint NOT NULL,
    unique_forever boolean NOT NULL,
    PRIMARY KEY (tenant_id, unique_key, seq)
);

-- One unique key, one live job: the primary key refuses a second one.
CREATE TABLE redrive.live_keys (
    tenant_id  integer NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (tenant_id, unique_key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Keys that were unique for ever, of jobs that are gone.
CREATE TABLE redrive.forever_keys (
    tenant_id  integer NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    state      smallint NOT NULL,
    PRIMARY KEY (tenant_id, unique_key)
);

CREATE TABLE redrive.results (
    seq    bigint PRIMARY KEY,
    result text COLLATE "C" NOT NULL
);

-- Each start that has ended, but for an epoch's first attempt that was a success.
CREATE TABLE redrive.history (
    seq           bigint NOT NULL,
    n             integer NOT NULL,
    started_ms    bigint NOT NULL,
    ended_ms      bigint NOT NULL,
    delay_ms      bigint NOT NULL,
    next_ms       bigint NOT NULL,
    epoch         integer NOT NULL,
    number        integer NOT NULL,
    error_code    integer NOT NULL,
    outcome       smallint NOT NULL,
    error_class   smallint NOT NULL,
    why           text COLLATE "C" NOT NULL,
    worker        text COLLATE "C",
    error_type    text COLLATE "C",
    error_message text COLLATE "C",
    stacktrace    text COLLATE "C",
    PRIMARY KEY (seq, n)
);

-- Small rows that processes keep copies of; the kinds are those of enum shared_kind.
CREATE TABLE redrive.shared (
    kind    smallint NOT NULL,
    version bigint NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    value   bytea,
    PRIMARY KEY (kind, tenant, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A row for each open handle that has committed: how many commits it has made. A handle raises its
-- number in the transaction that it commits, and again when it asks for the outcome of a commit
-- whose answer was lost. Rows of handles that were not closed are removed after a day.
CREATE TABLE redrive.handles (
    handle       bigint PRIMARY KEY,
    commits      bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Ends a transaction whose outcome its handle has asked for before the server read its COMMIT.
CREATE FUNCTION redrive.refuse_late_commit() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the marker of this handle''s commits is not as it was left'
        USING ERRCODE = 'RD002';
END
$$;

-- Sums as those of count_deltas.
CREATE TABLE redrive.counters (
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    label  text COLLATE "C" NOT NULL,
    value  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Sums some rows of count_deltas, or of counters, up. Other transactions that do so take other rows.
CREATE FUNCTION redrive.compact_counts(p_limit integer) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM redrive.count_deltas
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM redrive.count_deltas LIMIT p_limit
                                FOR UPDATE SKIP LOCKED))
        RETURNING *)
    INSERT INTO redrive.count_deltas
    SELECT partition_id, sum(scheduled), sum(retrying), sum(queued), sum(running), sum(parked),
           sum(completed), sum(failed), sum(dead_letter), sum(cancelled)
    FROM gone GROUP BY partition_id
    HAVING sum(scheduled) <> 0 OR sum(retrying) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0
        OR sum(parked) <> 0 OR sum(completed) <> 0 OR sum(failed) <> 0 OR sum(dead_letter) <> 0
        OR sum(cancelled) <> 0
$$;

CREATE FUNCTION redrive.compact_counters(p_limit integer) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM redrive.counters
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM redrive.counters LIMIT p_limit
                                FOR UPDATE SKIP LOCKED))
        RETURNING *)
    INSERT INTO redrive.counters
    SELECT tenant, name, label, sum(value) FROM gone GROUP BY tenant, name, label
$$;

-- The number of a partition, which is added if it is not there yet. If another transaction is adding
-- the same one, this one waits for it.
CREATE FUNCTION redrive.partition_named(p_tenant text, p_queue text, p_task text,
                                   OUT partition_id integer, OUT tenant_id integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    LOOP
        SELECT l.partition_id, l.tenant_id INTO partition_named.partition_id, partition_named.tenant_id
        FROM redrive.tenants t JOIN redrive.partitions l ON l.tenant_id = t.tenant_id
        WHERE t.name = p_tenant AND l.queue = p_queue AND l.task = p_task;
        IF FOUND THEN
            RETURN;
        END IF;
        INSERT INTO redrive.tenants (name) VALUES (p_tenant) ON CONFLICT DO NOTHING;
        INSERT INTO redrive.partitions (tenant_id, queue, task)
        SELECT t.tenant_id, p_queue, p_task FROM redrive.tenants t WHERE t.name = p_tenant
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- A new job, unless its id or its unique key is taken: then `taken`, and the fields of the job that
-- stands for it. The order in which ids and keys are checked is that of store.h.
CREATE FUNCTION redrive.add_job(
    p_tenant_id integer, p_partition_id integer, p_now_ms bigint, p_process_after_ms bigint,
    p_deadline_ms bigint, p_priority integer, p_max_attempts integer, p_unique_forever boolean,
    p_id text, p_unique_key text, p_breaker_key text, p_limit_key text, p_user_name text,
    p_project text, p_service text, p_policy text, p_payload text,
    OUT taken boolean, OUT seq bigint, OUT state smallint, OUT id text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own bigint := nextval('redrive.job_seq');
BEGIN
    LOOP
        taken := true;
        SELECT s.seq, j.state, s.id INTO add_job.seq, add_job.state, add_job.id
        FROM redrive.specs s JOIN redrive.job_states j ON j.seq = s.seq
        WHERE s.id = p_id AND s.tenant_id = p_tenant_id;
        IF FOUND THEN
            RETURN;
        END IF;
        IF p_unique_key IS NOT NULL THEN
            -- Waits for a transaction that has taken the same key and not committed yet.
            INSERT INTO redrive.live_keys VALUES (p_tenant_id, p_unique_key, own)
            ON CONFLICT DO NOTHING;
            SELECT h.seq, h.state, h.id INTO add_job.seq, add_job.state, add_job.id
            FROM (SELECT k.seq, j.state, s.id FROM redrive.keys k
                  JOIN redrive.job_states j ON j.seq = k.seq JOIN redrive.specs s ON s.seq = k.seq
                  WHERE k.tenant_id = p_tenant_id AND k.unique_key = p_unique_key
                    AND (p_unique_forever OR k.unique_forever OR j.state < 5)
                  UNION ALL
                  SELECT f.seq, f.state, f.id FROM redrive.forever_keys f
                  WHERE f.tenant_id = p_tenant_id AND f.unique_key = p_unique_key) h
            ORDER BY h.seq LIMIT 1;
            IF FOUND THEN
                DELETE FROM redrive.live_keys k WHERE k.tenant_id = p_tenant_id
                   AND k.unique_key = p_unique_key AND k.seq = own;
                RETURN;
            END IF;
            -- No job holds it now; if it was taken meanwhile, tries again.
            PERFORM FROM redrive.live_keys k WHERE k.tenant_id = p_tenant_id
                AND k.unique_key = p_unique_key AND k.seq = own;
            CONTINUE WHEN NOT FOUND;
        END IF;
        INSERT INTO redrive.specs VALUES (own, p_tenant_id, p_now_ms, p_max_attempts,
            p_unique_forever, p_id, p_unique_key, p_breaker_key, p_limit_key, p_user_name,
            p_project, p_service, p_policy, p_payload)
        ON CONFLICT ON CONSTRAINT specs_by_id DO NOTHING;
        EXIT WHEN FOUND;
        DELETE FROM redrive.live_keys k WHERE k.tenant_id = p_tenant_id
           AND k.unique_key = p_unique_key AND k.seq = own;
    END LOOP;
    taken := false;
    seq := own;
    state := CASE WHEN p_process_after_ms > p_now_ms THEN 0 ELSE 2 END;
    id := p_id;
    IF p_unique_key IS NOT NULL THEN
        INSERT INTO redrive.keys VALUES (p_tenant_id, p_unique_key, own, p_unique_forever);
    END IF;
    INSERT INTO redrive.job_states (seq, process_after_ms, updated_ms, partition_id, priority, attempts, state,
                              has_key, deadline_ms)
    VALUES (own, p_process_after_ms, p_now_ms, p_partition_id, p_priority, 0, add_job.state,
            p_unique_key IS NOT NULL, p_deadline_ms);
END
$$;
