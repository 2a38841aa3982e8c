-- Jobs that wait for others. A row is an edge from a parent to a child; it goes with the child. Whether the
-- child waits is said by its own row, which counts the edges that are open.
CREATE TABLE redrive.edges (
    child   bigint NOT NULL,
    parent  bigint NOT NULL,
    rule    smallint NOT NULL,  -- on + 3 * on_dead, as in src/core/after.h
    outcome smallint NOT NULL,  -- 0 open, 1 met, 2 missed
    PRIMARY KEY (child, parent)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX edges_by_parent ON redrive.edges (parent, child);

INSERT INTO redrive.states VALUES (9, 'waiting');
INSERT INTO redrive.reasons VALUES (8, 'skipped');
ALTER TABLE redrive.job_states ADD COLUMN parents integer;      -- edges that it is the child of,
ALTER TABLE redrive.job_states ADD COLUMN open_parents integer; -- and those of them that are open
ALTER TABLE redrive.job_states ADD COLUMN children integer;     -- edges that it is the parent of, at most
ALTER TABLE redrive.count_deltas ADD COLUMN waiting bigint NOT NULL DEFAULT 0;

DROP INDEX redrive.jobs_deadlines;
CREATE INDEX jobs_deadlines ON redrive.job_states (deadline_ms, seq)
    WHERE deadline_ms IS NOT NULL AND state IN (0, 1, 2, 4, 9);

CREATE OR REPLACE FUNCTION redrive.compact_counts(p_limit integer) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM redrive.count_deltas
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM redrive.count_deltas LIMIT p_limit
                                FOR UPDATE SKIP LOCKED))
        RETURNING *)
    INSERT INTO redrive.count_deltas
    SELECT partition_id, sum(scheduled), sum(retrying), sum(queued), sum(running), sum(parked),
           sum(completed), sum(failed), sum(dead_letter), sum(cancelled), sum(waiting)
    FROM gone GROUP BY partition_id
    HAVING sum(scheduled) <> 0 OR sum(retrying) <> 0 OR sum(queued) <> 0 OR sum(running) <> 0
        OR sum(parked) <> 0 OR sum(completed) <> 0 OR sum(failed) <> 0 OR sum(dead_letter) <> 0
        OR sum(cancelled) <> 0 OR sum(waiting) <> 0
$$;

CREATE OR REPLACE VIEW redrive.job_counts AS
SELECT t.name AS tenant, l.queue AS queue, l.task AS task_name,
       sum(y.scheduled)::bigint AS scheduled, sum(y.retrying)::bigint AS retrying,
       sum(y.queued)::bigint AS queued, sum(y.running)::bigint AS running,
       sum(y.parked)::bigint AS parked, sum(y.completed)::bigint AS completed,
       sum(y.failed)::bigint AS failed, sum(y.dead_letter)::bigint AS dead_letter,
       sum(y.cancelled)::bigint AS cancelled, sum(y.waiting)::bigint AS waiting
FROM redrive.count_deltas y
JOIN redrive.partitions l ON l.partition_id = y.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
GROUP BY t.name, l.queue, l.task;

-- What each job waits for, or has waited for. A parent that was removed has no id.
CREATE VIEW redrive.job_edges AS
SELECT c.id AS job_id, p.id AS after_id,
       CASE e.rule % 3 WHEN 0 THEN 'success' WHEN 1 THEN 'end' ELSE 'failure' END AS on_end,
       CASE e.rule / 3 WHEN 0 THEN 'wait' WHEN 1 THEN 'cancel' ELSE 'run' END AS on_dead,
       CASE e.outcome WHEN 0 THEN 'open' WHEN 1 THEN 'met' ELSE 'missed' END AS outcome,
       t.name AS tenant
FROM redrive.edges e
JOIN redrive.specs c ON c.seq = e.child
JOIN redrive.tenants t ON t.tenant_id = c.tenant_id
LEFT JOIN redrive.specs p ON p.seq = e.parent;

-- The functions in SQL know the state. A job that others wait for is cancelled by an engine, as a running one
-- is, because these must be released or skipped in the same transaction; purge leaves a job that others wait for.
DO $migration$
DECLARE
    change record;
    was text;
    becomes text;
BEGIN
    FOR change IN SELECT * FROM (VALUES
        (1, 'add_job', 'OR j.state < 5)', 'OR j.state < 5 OR j.state = 9)'),
        (2, 'cancel', 'job.state IN (0, 1, 2, 4) THEN', 'job.state IN (0, 1, 2, 4, 9) THEN'),
        (3, 'cancel', 'ELSIF job.state >= 5 THEN', 'ELSIF job.state BETWEEN 5 AND 8 THEN'),
        (4, 'cancel', E'IF job.state = 3 THEN\n        -- Names',
                      E'IF job.state = 3 OR job.children IS NOT NULL THEN\n        -- Names'),
        (5, 'cancel', '-(job.state = 4)::int, 0, 0, 0, 1);',
                      '-(job.state = 4)::int, 0, 0, 0, 1, -(job.state = 9)::int);'),
        (7, 'retry', E'ELSE\n        IF job.deadline_ms',
                     E'ELSE\n        next_state := CASE WHEN job.open_parents > 0 THEN 9 ELSE 2 END;\n        IF job.deadline_ms'),
        (6, 'retry', E'partition redrive.partitions;\nBEGIN',
                     E'partition redrive.partitions;\n    next_state integer := 2;\nBEGIN'),
        (8, 'retry', E'SET state = 2, updated_ms = now_ms, process_after_ms = now_ms,\n            reason',
                     E'SET state = next_state, updated_ms = now_ms, process_after_ms = now_ms,\n            reason'),
        (9, 'retry', '-(job.state = 1)::int, 1, 0, 0, 0,', '-(job.state = 1)::int, (next_state = 2)::int, 0, 0, 0,'),
        (10, 'retry', '-(job.state = 7)::int, 0);', '-(job.state = 7)::int, 0, (next_state = 9)::int);'),
        (11, 'retry', $$RETURN 'queued';$$, $$RETURN CASE next_state WHEN 9 THEN 'waiting' ELSE 'queued' END;$$),
        (12, 'purge', 'AND j.finished_ms < before_ms',
                      'AND j.finished_ms < before_ms AND (j.children IS NULL OR (j.seq IN (SELECT unnest(with_children)) '
                      || 'AND NOT EXISTS (SELECT FROM redrive.edges e WHERE e.parent = j.seq AND e.outcome = 0)))'),
        (13, 'purge', 'no_spec AS (', 'no_edges AS (DELETE FROM redrive.edges e USING gone WHERE e.child = gone.seq),'
                      || E'\n    no_spec AS ('),
        (14, 'purge', 'removed bigint;', E'removed bigint;\n    with_children bigint[];'),
        (15, 'purge', 'WITH gone AS MATERIALIZED (', $$-- Jobs that have children are locked first, and the edges read by the next statement: a child that
    -- comes in has been seen then, or waits for the lock and finds its parent gone.
    SELECT array_agg(x.seq) INTO with_children FROM (
        SELECT j.seq FROM redrive.job_states j JOIN redrive.partitions l ON l.partition_id = j.partition_id
        JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
        WHERE j.state IN (6, 7) AND j.state >= 5 AND j.finished_ms < before_ms AND j.children IS NOT NULL
          AND t.name = coalesce(nullif(tenant, ''), 'default')
        FOR UPDATE OF j SKIP LOCKED) x;
    WITH gone AS MATERIALIZED ($$)
        ) AS c(n, name, old_text, new_text) ORDER BY n
    LOOP
        SELECT pg_get_functiondef(p.oid) INTO STRICT was FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.proname = change.name;
        becomes := replace(was, change.old_text, change.new_text);
        ASSERT becomes <> was, change.name || ': ' || change.old_text;
        EXECUTE becomes;
    END LOOP;
END
$migration$;
