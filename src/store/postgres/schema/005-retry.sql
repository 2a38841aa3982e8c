-- What people did by UPDATE and DELETE in other systems: a manual retry, and the end of old failures.
-- docs/sql.md names the commands that do the same on every store.

-- Runs a job again when the transaction of the caller commits: one that waits for its time is queued at
-- once, one that is dead or failed starts anew, with fresh attempts in a new epoch. The result is its state
-- then: 'queued', or the one in which it stays (completed, cancelled, running, parked); NULL: there is no
-- such job. Refused: a job whose unique key a live job holds, and one whose deadline has passed.
CREATE FUNCTION redrive.retry(id text, tenant text DEFAULT 'default') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    job redrive.job_states;
    spec redrive.specs;
    partition redrive.partitions;
BEGIN
    tenant := coalesce(nullif(tenant, ''), 'default');
    SELECT s.* INTO spec FROM redrive.tenants t JOIN redrive.specs s ON s.tenant_id = t.tenant_id
    WHERE t.name = tenant AND s.id = id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- One that runs is not locked: its worker need not wait for a long transaction.
    SELECT j.* INTO job FROM redrive.job_states j
    WHERE j.seq = spec.seq AND j.state IN (0, 1, 6, 7) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN (SELECT st.name FROM redrive.job_states j JOIN redrive.states st USING (state)
                WHERE j.seq = spec.seq);
    END IF;

    IF job.state IN (0, 1) THEN
        UPDATE redrive.job_states j SET state = 2, updated_ms = now_ms, process_after_ms = now_ms
        WHERE j.seq = job.seq;
    ELSE
        IF job.deadline_ms <= now_ms THEN
            RAISE EXCEPTION 'the deadline of job % has passed', id
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'submit it anew, with another deadline';
        END IF;
        IF job.has_key THEN
            -- Waits for a submit of the same key that has not committed yet.
            INSERT INTO redrive.live_keys VALUES (spec.tenant_id, spec.unique_key, job.seq)
            ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'a live job holds the unique key of job %', id
                    USING ERRCODE = 'unique_violation', HINT = 'wait until it has ended, or cancel it';
            END IF;
        END IF;
        UPDATE redrive.job_states j SET state = 2, updated_ms = now_ms, process_after_ms = now_ms,
            reason = NULL, epoch = coalesce(j.epoch, 0) + 1, attempts = 0, crashes = NULL,
            first_started_ms = NULL, paused_ms = NULL, finished_ms = NULL
        WHERE j.seq = job.seq;
        SELECT l.* INTO partition FROM redrive.partitions l WHERE l.partition_id = job.partition_id;
        INSERT INTO redrive.counters
        VALUES (tenant, 'jobs_redriven', '', 1),
               (tenant, 'jobs_redriven', 'partition:' || partition.queue || '/' || partition.task, 1);
    END IF;
    INSERT INTO redrive.count_deltas
    VALUES (job.partition_id, -(job.state = 0)::int, -(job.state = 1)::int, 1, 0, 0, 0,
            -(job.state = 6)::int, -(job.state = 7)::int, 0);
    PERFORM pg_notify('redrive', '5'); -- ready, end: bits of enum store_notification
    RETURN 'queued';
END
$$;

-- Removes what the view failed_jobs shows and has ended longer ago than this, with its history; 0 seconds:
-- all of it. The result is how many there were. Keys that are unique for ever are remembered. Jobs that
-- another transaction has locked are left.
CREATE FUNCTION redrive.purge(older_than interval, tenant text DEFAULT 'default') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    before_ms bigint;
    removed bigint;
BEGIN
    IF older_than IS NULL OR older_than < interval '0' THEN
        RAISE EXCEPTION 'purge needs an age' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'redrive.purge(''30 days''); ''0 days'' removes all failed jobs';
    END IF;
    before_ms := extract(epoch FROM clock_timestamp() - older_than) * 1000;
    -- With 0 seconds jobs that have ended in this millisecond are removed as well.
    IF older_than = interval '0' THEN
        before_ms := now_ms + 1;
    END IF;
    WITH gone AS MATERIALIZED (
        SELECT j.* FROM redrive.job_states j JOIN redrive.partitions l ON l.partition_id = j.partition_id
        JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
        WHERE j.state IN (6, 7) AND j.state >= 5 AND j.finished_ms < before_ms
          AND t.name = coalesce(nullif(tenant, ''), 'default')
        ORDER BY j.seq FOR UPDATE OF j SKIP LOCKED),
    kept AS (
        INSERT INTO redrive.forever_keys
        SELECT k.tenant_id, k.unique_key, k.seq, s.id, gone.state
        FROM gone JOIN redrive.specs s ON s.seq = gone.seq
        JOIN redrive.keys k ON k.tenant_id = s.tenant_id AND k.unique_key = s.unique_key
                           AND k.seq = s.seq
        WHERE gone.has_key AND k.unique_forever ON CONFLICT DO NOTHING),
    no_key AS (
        DELETE FROM redrive.keys k USING gone, redrive.specs s
        WHERE gone.has_key AND s.seq = gone.seq AND k.tenant_id = s.tenant_id
          AND k.unique_key = s.unique_key AND k.seq = s.seq),
    no_history AS (DELETE FROM redrive.history h USING gone WHERE h.seq = gone.seq),
    no_result AS (DELETE FROM redrive.results r USING gone WHERE r.seq = gone.seq),
    no_spec AS (DELETE FROM redrive.specs s USING gone WHERE s.seq = gone.seq),
    no_job AS (DELETE FROM redrive.job_states x USING gone WHERE x.seq = gone.seq),
    counted AS (
        INSERT INTO redrive.count_deltas
        SELECT partition_id, 0, 0, 0, 0, 0, 0, -count(*) FILTER (WHERE state = 6),
               -count(*) FILTER (WHERE state = 7), 0
        FROM gone GROUP BY partition_id)
    SELECT count(*) INTO removed FROM gone;
    RETURN removed;
END
$$;

REVOKE ALL ON FUNCTION redrive.retry(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION redrive.purge(interval, text) FROM PUBLIC;
