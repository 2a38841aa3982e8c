-- retry_count is the number of retries that were made: attempts - 1, and 0 of a job that never ran, as over
-- HTTP (job_retry_count in src/store/job.h). attempts stands beside it.

DROP VIEW retry_queue;
CREATE VIEW retry_queue AS
SELECT s.id AS sample_id,
       s.payload AS payload,
       h.error_message AS error_msg,
       max(j.attempts - 1, 0) AS retry_count,
       strftime('%Y-%m-%d %H:%M:%f', j.process_after_ms / 1000.0, 'unixepoch') AS process_after,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant,
       j.attempts AS attempts
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
LEFT JOIN history h ON h.history_id = j.error_at
WHERE j.state = 1;

DROP VIEW final_results;
CREATE VIEW final_results AS
SELECT s.id AS sample_id,
       s.payload AS payload,
       r.result AS result,
       max(j.attempts - 1, 0) AS retry_count,
       strftime('%Y-%m-%d %H:%M:%f', j.sort_key / 1000.0, 'unixepoch') AS completed_at,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant,
       j.attempts AS attempts
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
LEFT JOIN results r ON r.seq = j.seq
WHERE j.state = 5;

DROP VIEW dead_letter_queue;
CREATE VIEW dead_letter_queue AS
SELECT s.id AS sample_id,
       s.payload AS payload,
       h.error_message AS error_msg,
       max(j.attempts - 1, 0) AS retry_count,
       strftime('%Y-%m-%d %H:%M:%f', j.sort_key / 1000.0, 'unixepoch') AS failed_at,
       c.name AS error_class,
       h.error_type AS error_type,
       h.stacktrace AS stacktrace,
       q.name AS reason,
       max(s.max_attempts, j.attempts) AS max_attempts,
       printf('%016x', j.fingerprint) AS fingerprint,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant,
       j.attempts AS attempts
FROM job_states j
JOIN partitions l ON l.partition_id = j.partition_id
JOIN tenants t ON t.tenant_id = l.tenant_id
JOIN specs s ON s.seq = j.seq
JOIN classes c ON c.class = j.error_class
JOIN reasons q ON q.reason = j.reason
LEFT JOIN history h ON h.history_id = j.error_at
WHERE j.state = 7;
