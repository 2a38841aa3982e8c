-- Views for people. docs/sql.md explains them. Times are text in UTC as SQLite's own date functions
-- write it, with milliseconds, so that they compare with datetime('now', '-1 hour').

-- Jobs that wait for another attempt. retry_count is the number of failures so far.
CREATE VIEW retry_queue AS
SELECT s.id AS sample_id,
       s.payload AS payload,
       h.error_message AS error_msg,
       j.attempts AS retry_count,
       strftime('%Y-%m-%d %H:%M:%f', j.process_after_ms / 1000.0, 'unixepoch') AS process_after,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
LEFT JOIN history h ON h.history_id = j.error_at
WHERE j.state = 1;

CREATE VIEW final_results AS
SELECT s.id AS sample_id,
       s.payload AS payload,
       r.result AS result,
       j.attempts - 1 AS retry_count,
       strftime('%Y-%m-%d %H:%M:%f', j.sort_key / 1000.0, 'unixepoch') AS completed_at,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
LEFT JOIN results r ON r.seq = j.seq
WHERE j.state = 5;

CREATE VIEW dead_letter_queue AS
SELECT s.id AS sample_id,
       s.payload AS payload,
       h.error_message AS error_msg,
       j.attempts AS retry_count,
       strftime('%Y-%m-%d %H:%M:%f', j.sort_key / 1000.0, 'unixepoch') AS failed_at,
       c.name AS error_class,
       h.error_type AS error_type,
       h.stacktrace AS stacktrace,
       q.name AS reason,
       max(s.max_attempts, j.attempts) AS max_attempts,
       printf('%016x', j.fingerprint) AS fingerprint,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
JOIN classes c ON c.class = j.error_class
JOIN reasons q ON q.reason = j.reason
LEFT JOIN history h ON h.history_id = j.error_at
WHERE j.state = 7;

-- Jobs that ended without success, dead letters and others. created_at is the time of the failure,
-- because that is when the entry was created.
CREATE VIEW failed_jobs AS
SELECT j.seq AS id,
       s.id AS job_id,
       l.task AS job_type,
       'FAILED' AS status,
       j.attempts AS attempts,
       max(s.max_attempts, j.attempts) AS max_attempts,
       h.error_message AS last_error,
       h.stacktrace AS error_stacktrace,
       s.payload AS input_data,
       strftime('%Y-%m-%d %H:%M:%f', j.sort_key / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%d %H:%M:%f', j.updated_ms / 1000.0, 'unixepoch') AS updated_at,
       t.name AS tenant
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
LEFT JOIN history h ON h.history_id = j.error_at
WHERE j.state IN (6, 7);

CREATE VIEW jobs_by_status AS
SELECT s.id AS id,
       l.task AS type,
       l.task AS task_name,
       n.name AS status,
       j.attempts AS attempts,
       max(s.max_attempts, j.attempts) AS max_attempts,
       h.error_message AS last_error,
       strftime('%Y-%m-%d %H:%M:%f', j.process_after_ms / 1000.0, 'unixepoch') AS scheduled_at,
       strftime('%Y-%m-%d %H:%M:%f', nullif(j.started_ms, 0) / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', j.updated_ms / 1000.0, 'unixepoch') AS updated_at,
       strftime('%Y-%m-%d %H:%M:%f', s.created_ms / 1000.0, 'unixepoch') AS created_at,
       s.priority AS priority,
       j.worker AS worker,
       l.queue AS queue,
       t.name AS tenant
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
JOIN states n ON n.state = j.state
LEFT JOIN history h ON h.history_id = j.error_at;

-- The same under the name that other systems use.
CREATE VIEW jobs AS SELECT * FROM jobs_by_status;

-- Every attempt: those in the history, and the one in the job's own row (it is running, or was a
-- success at the first attempt). attempt 0: the start was taken back, or, without a time of the
-- start, the job ended before it ever ran.
CREATE VIEW attempts AS
SELECT s.id AS job_id, h.epoch AS epoch, h.number AS attempt,
       strftime('%Y-%m-%d %H:%M:%f', nullif(h.started_ms, 0) / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', h.ended_ms / 1000.0, 'unixepoch') AS ended_at,
       h.worker AS worker, n.name AS outcome, c.name AS class, h.error_type AS error_type,
       h.error_message AS error_msg, h.stacktrace AS stacktrace, h.error_code AS code,
       h.delay_ms AS delay_ms, h.why AS why,
       strftime('%Y-%m-%d %H:%M:%f', nullif(h.next_ms, 0) / 1000.0, 'unixepoch') AS next_at,
       t.name AS tenant
FROM history h
JOIN specs s ON s.seq = h.seq
JOIN tenants t ON t.tenant_id = s.tenant_id
JOIN states n ON n.state = h.outcome
JOIN classes c ON c.class = h.error_class
UNION ALL
SELECT s.id, j.epoch, j.attempts,
       strftime('%Y-%m-%d %H:%M:%f', j.started_ms / 1000.0, 'unixepoch'),
       strftime('%Y-%m-%d %H:%M:%f', iif(j.state = 5, j.sort_key, NULL) / 1000.0, 'unixepoch'),
       j.worker, n.name, 'success', NULL, NULL, NULL, 0, 0, 'none', NULL, t.name
FROM job_states j
JOIN specs s ON s.seq = j.seq
JOIN tenants t ON t.tenant_id = s.tenant_id
JOIN states n ON n.state = j.state
WHERE j.state = 3 OR j.state = 5 AND j.attempts = 1;

CREATE VIEW job_events AS
SELECT s.id AS job_id, 'deferred' AS type,
       strftime('%Y-%m-%d %H:%M:%f', s.created_ms / 1000.0, 'unixepoch') AS at,
       0 AS attempts, t.name AS tenant
FROM specs s JOIN tenants t ON t.tenant_id = s.tenant_id
UNION ALL
SELECT job_id, 'started', started_at, attempt, tenant FROM attempts WHERE started_at IS NOT NULL
UNION ALL
SELECT job_id,
       CASE outcome WHEN 'retrying' THEN 'deferred_for_retry' WHEN 'completed' THEN 'succeeded'
                    WHEN 'scheduled' THEN 'snoozed' WHEN 'queued' THEN 'released'
                    ELSE outcome END,
       ended_at, attempt, tenant
FROM attempts WHERE ended_at IS NOT NULL;

-- How many, by queue, task and state; kept up to date by every transaction, so that nothing is counted.
CREATE VIEW job_counts AS
SELECT t.name AS tenant, l.queue AS queue, l.task AS task_name, l.scheduled, l.retrying, l.queued,
       l.running, l.parked, l.completed, l.failed, l.dead_letter, l.cancelled
FROM partitions l JOIN tenants t ON t.tenant_id = l.tenant_id;
