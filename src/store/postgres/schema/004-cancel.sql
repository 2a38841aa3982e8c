-- A running job may hold a slot of a limit and a permit of a breaker, which only the engine gives back. So
-- it is not cancelled in SQL, but the cancel is asked for: a row of `shared` of kind 7 (SHARED_CANCEL of enum
-- shared_kind) says which job, and the leader carries it out. Rights stay as they were granted.

-- Cancels a job that waits when the transaction of the caller commits, and asks for the cancel of one
-- that runs. The result is its state then: 'cancelled', or the one in which it had ended before;
-- 'cancelling' of a running job, until an engine has cancelled it or it ends by itself; NULL: there is
-- no such job. A job that runs is not locked: its worker need not wait for a long transaction.
CREATE OR REPLACE FUNCTION redrive.cancel(id text, tenant text DEFAULT 'default') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    job redrive.job_states;
    partition redrive.partitions;
    created_ms bigint;
    life bytea;
BEGIN
    tenant := coalesce(nullif(tenant, ''), 'default');
    SELECT j.* INTO job FROM redrive.tenants t JOIN redrive.specs s ON s.tenant_id = t.tenant_id
    JOIN redrive.job_states j ON j.seq = s.seq WHERE t.name = tenant AND s.id = id;
    IF job.state IN (0, 1, 2, 4) THEN
        -- A job that was started meanwhile is unlocked again, with the subtransaction that has locked it.
        BEGIN
            SELECT j.* INTO job FROM redrive.job_states j WHERE j.seq = job.seq FOR UPDATE;
            IF job.state = 3 THEN
                RAISE EXCEPTION USING ERRCODE = 'RD001';
            END IF;
        EXCEPTION WHEN SQLSTATE 'RD001' THEN
            NULL;
        END;
    END IF;
    IF job.seq IS NULL THEN
        RETURN NULL;
    ELSIF job.state >= 5 THEN
        RETURN (SELECT st.name FROM redrive.states st WHERE st.state = job.state);
    END IF;

    IF job.state = 3 THEN
        -- Names the epoch of the job: if it is redriven later, or another job gets this id, that is not cancelled.
        SELECT s.created_ms INTO created_ms FROM redrive.specs s WHERE s.seq = job.seq;
        life := convert_to(format('{"created_ms":%s,"epoch":%s}', created_ms, coalesce(job.epoch, 0)),
                           'UTF8');
        DELETE FROM redrive.shared h
        WHERE h.kind = 7 AND h.tenant = tenant AND h.key = id AND h.value <> life;
        -- The version is one that no earlier row of this job had.
        INSERT INTO redrive.shared (kind, version, tenant, key, value)
        VALUES (7, now_ms, tenant, id, life) ON CONFLICT DO NOTHING;
        PERFORM pg_notify('redrive', '2');
        RETURN 'cancelling';
    END IF;

    IF job.state = 4 THEN
        DELETE FROM redrive.parked p WHERE p.seq = job.seq;
        IF job.first_started_ms IS NOT NULL THEN
            job.paused_ms := coalesce(job.paused_ms, 0) + greatest(now_ms - job.paused_since_ms, 0);
        END IF;
    END IF;
    UPDATE redrive.job_states j SET state = 8, updated_ms = now_ms, finished_ms = now_ms, by_limit = NULL,
        paused_since_ms = NULL, paused_ms = job.paused_ms
    WHERE j.seq = job.seq;
    IF job.has_key THEN
        DELETE FROM redrive.live_keys k USING redrive.specs s WHERE s.seq = job.seq
           AND k.tenant_id = s.tenant_id AND k.unique_key = s.unique_key AND k.seq = s.seq;
    END IF;
    INSERT INTO redrive.count_deltas
    VALUES (job.partition_id, -(job.state = 0)::int, -(job.state = 1)::int, -(job.state = 2)::int, 0,
            -(job.state = 4)::int, 0, 0, 0, 1);
    SELECT l.* INTO partition FROM redrive.partitions l WHERE l.partition_id = job.partition_id;
    INSERT INTO redrive.counters
    VALUES (tenant, 'jobs_cancelled', '', 1),
           (tenant, 'jobs_cancelled', 'partition:' || partition.queue || '/' || partition.task, 1);
    PERFORM pg_notify('redrive', '6');
    RETURN 'cancelled';
END
$$;
