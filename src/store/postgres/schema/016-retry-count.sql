-- retry_count is the number of retries that were made: attempts - 1, and 0 of a job that never ran, as over
-- HTTP (job_retry_count in src/store/job.h). attempts stands beside it.

CREATE OR REPLACE VIEW redrive.retry_queue AS
SELECT s.id AS sample_id,
       redrive.as_json(s.payload) AS payload,
       h.error_message AS error_msg,
       greatest(j.attempts - 1, 0) AS retry_count,
       redrive.at(j.process_after_ms) AS process_after,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant,
       j.attempts AS attempts
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n
WHERE j.state = 1;

CREATE OR REPLACE VIEW redrive.final_results AS
SELECT s.id AS sample_id,
       redrive.as_json(s.payload) AS payload,
       r.result AS result,
       greatest(j.attempts - 1, 0) AS retry_count,
       redrive.at(j.finished_ms) AS completed_at,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant,
       j.attempts AS attempts
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
LEFT JOIN redrive.results r ON r.seq = j.seq
WHERE j.state = 5;

CREATE OR REPLACE VIEW redrive.dead_letter_queue AS
SELECT s.id AS sample_id,
       redrive.as_json(s.payload) AS payload,
       h.error_message AS error_msg,
       greatest(j.attempts - 1, 0) AS retry_count,
       redrive.at(j.finished_ms) AS failed_at,
       c.name AS error_class,
       h.error_type AS error_type,
       h.stacktrace AS stacktrace,
       q.name AS reason,
       greatest(s.max_attempts, j.attempts) AS max_attempts,
       lpad(to_hex(coalesce(j.fingerprint, 0)), 16, '0') AS fingerprint,
       l.task AS task_name,
       l.queue AS queue,
       t.name AS tenant,
       j.attempts AS attempts
FROM redrive.job_states j
JOIN redrive.partitions l ON l.partition_id = j.partition_id
JOIN redrive.tenants t ON t.tenant_id = l.tenant_id
JOIN redrive.specs s ON s.seq = j.seq
JOIN redrive.classes c ON c.class = coalesce(j.error_class, 0)
JOIN redrive.reasons q ON q.reason = coalesce(j.reason, 0)
LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n
WHERE j.state = 7;
