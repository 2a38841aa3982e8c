-- Breakers and limits are JSON from here on (src/engine/gates/gate_row.c). The older format
-- cannot be read in SQL: they start again, closed and free, and parked jobs are released.
UPDATE redrive.shared SET version = version + 1, value = convert_to(
    '{"format":3,"state":"closed","has_parked":true,"candidates":0,"candidates_until_ms":0,'
    || '"consecutive":0,"probe_successes":0,"probe_failures":0,"probe_slow":0,"reopened":0,'
    || '"generation":1,"next_token":0,"seed":1,"opened_at_ms":0,"retry_at_ms":0,'
    || '"bucket_start_ms":0,"bucket_newest":0,"bucket_calls":[],"bucket_failures":[],'
    || '"bucket_slow":[],"last_calls":0,"last_failed":[],"last_slow":[],"probe_tokens":[],'
    || '"probe_expires_ms":[],"releasing_rate":0,"releasing_credit":0,'
    || '"releasing_credit_ms":0,"releasing_grown_ms":0,"failure_threshold":5,'
    || '"failure_rate":0.5,"min_calls":20,"window_ms":10000,"window_calls":0,'
    || '"slow_call_ms":0,"slow_rate":0.5,"recovery_timeout_ms":30000,'
    || '"recovery_multiplier":1,"recovery_max_ms":300000,"recovery_jitter":0.1,'
    || '"half_open_max":1,"success_threshold":1,"half_open_rate":0,"probe_lease_ms":30000,'
    || '"on_open":"park","release_rate":10,"release_growth":10}', 'UTF8')
WHERE kind = 0;
UPDATE redrive.shared SET version = version + 1, value = convert_to(
    '{"format":3,"has_parked":true,"candidates":0,"candidates_until_ms":0,"running":0,'
    || '"concurrency":0,"rate_count":0,"rate_period_s":0,"rate_burst":0,"token_parts":0,'
    || '"tokens_at_ms":0}', 'UTF8')
WHERE kind = 1;
UPDATE redrive.shared_version SET version = version + 1;

-- Breakers and limits, for which jobs may have to wait. `definition` has the whole value.
CREATE VIEW redrive.breakers AS
SELECT key AS name, v ->> 'state' AS state, (v ->> 'consecutive')::bigint AS failures_in_a_row,
       redrive.at(nullif((v ->> 'opened_at_ms')::bigint, 0)) AS opened_at,
       CASE WHEN v ->> 'state' IN ('open', 'half_open')
            THEN redrive.at((v ->> 'retry_at_ms')::bigint) END AS next_probe_at,
       (v ->> 'has_parked')::boolean AS has_parked_jobs, v AS definition, tenant
FROM (SELECT key, tenant, convert_from(value, 'UTF8')::jsonb AS v
      FROM redrive.shared WHERE kind = 0) s;

-- Of a limit: how many jobs run under it, how many may, and how many may start in which time (seconds).
CREATE VIEW redrive.limits AS
SELECT key AS name, (v ->> 'running')::bigint AS running,
       nullif((v ->> 'concurrency')::bigint, 0) AS concurrency,
       nullif((v ->> 'rate_count')::bigint, 0) AS starts,
       nullif((v ->> 'rate_period_s')::bigint, 0) AS per_seconds,
       (v ->> 'has_parked')::boolean AS has_parked_jobs, v AS definition, tenant
FROM (SELECT key, tenant, convert_from(value, 'UTF8')::jsonb AS v
      FROM redrive.shared WHERE kind = 1) s;

CREATE VIEW redrive.paused_queues AS
SELECT key AS queue,
       redrive.at((convert_from(value, 'UTF8')::jsonb ->> 'since_ms')::bigint) AS since, tenant
FROM redrive.shared WHERE kind = 2;

-- Processes that work, and remote workers; seen_at is the time of the last sign of life.
CREATE VIEW redrive.workers AS
SELECT key AS name, v ->> 'host' AS host, (v ->> 'pid')::bigint AS pid,
       (v ->> 'running')::bigint AS running, (v ->> 'slots')::bigint AS slots,
       (v ->> 'runs')::bigint AS runs, (v ->> 'failed')::bigint AS failed_runs,
       redrive.at((v ->> 'started_ms')::bigint) AS started_at,
       redrive.at((v ->> 'seen_ms')::bigint) AS seen_at, tenant
FROM (SELECT key, tenant, convert_from(value, 'UTF8')::jsonb AS v
      FROM redrive.shared WHERE kind = 5) s;
