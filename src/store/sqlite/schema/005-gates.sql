-- Breakers and limits are JSON from here on (src/engine/gates/gate_row.c). The older format
-- cannot be read in SQL: they start again, closed and free, and parked jobs are released.
UPDATE shared SET version = version + 1, value = CAST(
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
    || '"on_open":"park","release_rate":10,"release_growth":10}' AS BLOB)
WHERE kind = 0;
UPDATE shared SET version = version + 1, value = CAST(
    '{"format":3,"has_parked":true,"candidates":0,"candidates_until_ms":0,"running":0,'
    || '"concurrency":0,"rate_count":0,"rate_period_s":0,"rate_burst":0,"token_parts":0,'
    || '"tokens_at_ms":0}' AS BLOB)
WHERE kind = 1;
UPDATE meta SET shared_version = shared_version + 1;

-- Breakers and limits, for which jobs may have to wait. `definition` has the whole value.
CREATE VIEW breakers AS
SELECT key AS name,
       json_extract(v, '$.state') AS state,
       json_extract(v, '$.consecutive') AS failures_in_a_row,
       strftime('%Y-%m-%d %H:%M:%f', nullif(json_extract(v, '$.opened_at_ms'), 0) / 1000.0,
                'unixepoch') AS opened_at,
       CASE WHEN json_extract(v, '$.state') IN ('open', 'half_open')
            THEN strftime('%Y-%m-%d %H:%M:%f', json_extract(v, '$.retry_at_ms') / 1000.0,
                          'unixepoch') END AS next_probe_at,
       json_extract(v, '$.has_parked') AS has_parked_jobs,
       v AS definition,
       tenant AS tenant
FROM (SELECT key, tenant, CAST(value AS TEXT) AS v FROM shared WHERE kind = 0);

-- Of a limit: how many jobs run under it, how many may, and how many may start in which time (seconds).
CREATE VIEW limits AS
SELECT key AS name,
       json_extract(v, '$.running') AS running,
       nullif(json_extract(v, '$.concurrency'), 0) AS concurrency,
       nullif(json_extract(v, '$.rate_count'), 0) AS starts,
       nullif(json_extract(v, '$.rate_period_s'), 0) AS per_seconds,
       json_extract(v, '$.has_parked') AS has_parked_jobs,
       v AS definition,
       tenant AS tenant
FROM (SELECT key, tenant, CAST(value AS TEXT) AS v FROM shared WHERE kind = 1);

CREATE VIEW paused_queues AS
SELECT key AS queue,
       strftime('%Y-%m-%d %H:%M:%f', json_extract(CAST(value AS TEXT), '$.since_ms') / 1000.0,
                'unixepoch') AS since,
       tenant AS tenant
FROM shared WHERE kind = 2;

-- Processes that work, and remote workers; seen_at is the time of the last sign of life.
CREATE VIEW workers AS
SELECT key AS name,
       json_extract(v, '$.host') AS host,
       json_extract(v, '$.pid') AS pid,
       json_extract(v, '$.running') AS running,
       json_extract(v, '$.slots') AS slots,
       json_extract(v, '$.runs') AS runs,
       json_extract(v, '$.failed') AS failed_runs,
       strftime('%Y-%m-%d %H:%M:%f', json_extract(v, '$.started_ms') / 1000.0, 'unixepoch')
           AS started_at,
       strftime('%Y-%m-%d %H:%M:%f', json_extract(v, '$.seen_ms') / 1000.0, 'unixepoch') AS seen_at,
       tenant AS tenant
FROM (SELECT key, tenant, CAST(value AS TEXT) AS v FROM shared WHERE kind = 5);
