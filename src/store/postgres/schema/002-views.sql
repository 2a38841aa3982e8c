-- Views for people. docs/sql.md explains them, docs/postgres.md who may read them. Names and columns
-- are those of the SQLite store; times are of type timestamptz.

CREATE FUNCTION redrive.at(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_timestamp(nullif(ms, 0) / 1000.0)
$$;

-- A payload as jsonb, for the views. What jsonb cannot hold (a \u0000, half of a surrogate pair, a number out
-- of its range) is shown as a string that has the text; the payload itself stays as it was submitted, in specs.
CREATE FUNCTION redrive.as_json(payload text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN payload::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN to_jsonb(payload);
END
$$;

-- Jobs that wait for another attempt. retry_count is the number of failures so far.
CREATE VIEW redrive.retry_queue AS
SELECT s.id AS sample_id,
       redrive.as_json(s.payload) AS payload,
       h.error_message AS error_msg,
       j.attempts AS retry_count,
       redrive.at(j.process_after_ms) AS process_after,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n
WHERE j.state = 1;

CREATE VIEW redrive.final_results AS
SELECT s.id AS sample_id,
       redrive.as_json(s.payload) AS payload,
       r.result AS result,
       j.attempts - 1 AS retry_count,
       redrive.at(j.finished_ms) AS completed_at,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
LEFT JOIN redrive.results r ON r.seq = j.seq
WHERE j.state = 5;

CREATE VIEW redrive.dead_letter_queue AS
SELECT s.id AS sample_id,
       redrive.as_json(s.payload) AS payload,
       h.error_message AS error_msg,
       j.attempts AS retry_count,
       redrive.at(j.finished_ms) AS failed_at,
       c.name AS error_class,
       h.error_type AS error_type,
       h.stacktrace AS stacktrace,
       q.name AS reason,
       greatest(s.max_attempts, j.attempts) AS max_attempts,
       lpad(to_hex(coalesce(j.fingerprint, 0)), 16, '0') AS fingerprint,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
JOIN redrive.classes c ON c.class = coalesce(j.error_class, 0)
JOIN redrive.reasons q ON q.reason = coalesce(j.reason, 0)
LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n
WHERE j.state = 7;

-- Jobs that ended without success, dead letters and others. created_at is the time of the failure,
-- because that is when the entry was created.
CREATE VIEW redrive.failed_jobs AS
SELECT j.seq AS id,
       s.id AS job_id,
       l.task AS job_type,
       'FAILED' AS status,
       j.attempts AS attempts,
       greatest(s.max_attempts, j.attempts) AS max_attempts,
       h.error_message AS last_error,
       h.stacktrace AS error_stacktrace,
       redrive.as_json(s.payload) AS input_data,
       redrive.at(j.finished_ms) AS created_at,
       redrive.at(j.updated_ms) AS updated_at,
       t.name AS tenant
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n
WHERE j.state IN (6, 7);

CREATE VIEW redrive.jobs_by_status AS
SELECT s.id AS id,
       l.task AS type,
       l.task AS task_name,
       n.name AS status,
       j.attempts AS attempts,
       greatest(s.max_attempts, j.attempts) AS max_attempts,
       h.error_message AS last_error,
       redrive.at(j.process_after_ms) AS scheduled_at,
       redrive.at(j.started_ms) AS started_at,
       redrive.at(j.updated_ms) AS updated_at,
       redrive.at(s.created_ms) AS created_at,
       j.priority AS priority,
       j.worker AS worker,
       l.queue AS queue,
       t.name AS tenant
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
JOIN redrive.states n ON n.state = j.state
LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n;

-- The same under the name that other systems use.
CREATE VIEW redrive.jobs AS SELECT * FROM redrive.jobs_by_status;

-- Every attempt: those in the history, and the one in the job's own row (it is running, or was a
-- success at the first attempt). attempt 0: the start was taken back, or, without a time of the
-- start, the job ended before it ever ran.
CREATE VIEW redrive.attempts AS
SELECT s.id AS job_id, h.epoch AS epoch, h.number AS attempt,
       redrive.at(h.started_ms) AS started_at, redrive.at(h.ended_ms) AS ended_at,
       h.worker AS worker, n.name AS outcome, c.name AS class, h.error_type AS error_type,
       h.error_message AS error_msg, h.stacktrace AS stacktrace, h.error_code AS code,
       h.delay_ms AS delay_ms, h.why AS why, redrive.at(h.next_ms) AS next_at, t.name AS tenant
FROM redrive.history h
JOIN redrive.specs s ON s.seq = h.seq
JOIN redrive.tenants t ON t.tenant_id = s.tenant_id
JOIN redrive.states n ON n.state = h.outcome
JOIN redrive.classes c ON c.class = h.error_class
UNION ALL
SELECT s.id, coalesce(j.epoch, 0), j.attempts, redrive.at(j.started_ms),
       CASE WHEN j.state = 5 THEN redrive.at(j.finished_ms) END,
       j.worker, n.name, 'success', NULL, NULL, NULL, 0, 0, 'none', NULL, t.name
FROM redrive.job_states j
JOIN redrive.specs s ON s.seq = j.seq
JOIN redrive.tenants t ON t.tenant_id = s.tenant_id
JOIN redrive.states n ON n.state = j.state
WHERE j.state = 3 OR j.state = 5 AND j.attempts = 1;

CREATE VIEW redrive.job_events AS
SELECT s.id AS job_id, 'deferred' AS type, redrive.at(s.created_ms) AS at, 0 AS attempts,
       t.name AS tenant
FROM redrive.specs s JOIN redrive.tenants t ON t.tenant_id = s.tenant_id
UNION ALL
SELECT job_id, 'started', started_at, attempt, tenant
FROM redrive.attempts WHERE started_at IS NOT NULL
UNION ALL
SELECT job_id,
       CASE outcome WHEN 'retrying' THEN 'deferred_for_retry' WHEN 'completed' THEN 'succeeded'
                    WHEN 'scheduled' THEN 'snoozed' WHEN 'queued' THEN 'released'
                    ELSE outcome END,
       ended_at, attempt, tenant
FROM redrive.attempts WHERE ended_at IS NOT NULL;

-- The definitions of tasks that processes have published.
CREATE VIEW redrive.tasks AS
SELECT key AS name, convert_from(value, 'UTF8') AS definition, version, tenant
FROM redrive.shared WHERE kind = 3;

-- How many, by queue, task and state; kept up to date by every transaction, so that no job is counted.
CREATE VIEW redrive.job_counts AS
SELECT t.name AS tenant, l.queue AS queue, l.task AS task_name,
       sum(y.scheduled)::bigint AS scheduled, sum(y.retrying)::bigint AS retrying,
       sum(y.queued)::bigint AS queued, sum(y.running)::bigint AS running,
       sum(y.parked)::bigint AS parked, sum(y.completed)::bigint AS completed,
       sum(y.failed)::bigint AS failed, sum(y.dead_letter)::bigint AS dead_letter,
       sum(y.cancelled)::bigint AS cancelled
FROM redrive.count_deltas y
JOIN redrive.partitions l ON l.partition_id = y.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
GROUP BY t.name, l.queue, l.task;
