-- How many slots of a limit are in use, and how many parked jobs were sent ahead to the queue for them, are sums
-- that many processes add to: they move from the value of the row (src/engine/gates/gate_row.c) to columns of their own.
ALTER TABLE shared ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shared ADD COLUMN sent INTEGER NOT NULL DEFAULT 0;

-- They are cut out of the text, which is as the engine has written it: not every SQLite has functions for JSON.
UPDATE shared SET version = version + 1,
    used = CAST(substr(o.v, o.running + 11) AS INTEGER),
    sent = CAST(substr(o.v, o.candidates + 14) AS INTEGER),
    value = CAST('{"format":4' || substr(o.v, 12, o.candidates - 12)
        || substr(o.v, o.until, o.running - o.until)
        || substr(o.v, o.rest, length(o.v) - o.rest) || ',"seems_empty":false}' AS BLOB)
FROM (SELECT tenant AS of_tenant, key AS of_key, v, instr(v, ',"candidates":') AS candidates,
             instr(v, ',"candidates_until_ms":') AS until, instr(v, ',"running":') AS running,
             instr(v, ',"concurrency":') AS rest
      FROM (SELECT tenant, key, CAST(value AS TEXT) AS v FROM shared WHERE kind = 1)) o
WHERE kind = 1 AND tenant = o.of_tenant AND key = o.of_key AND o.v LIKE '{"format":3,%'
      AND 0 < o.candidates AND o.candidates < o.until AND o.until < o.running AND o.running < o.rest;
UPDATE meta SET shared_version = shared_version + 1;

-- Of a limit: how many jobs run under it, how many may, how many may start in which time (seconds), and how many were
-- sent ahead to start next.
DROP VIEW limits;
CREATE VIEW limits AS
SELECT key AS name,
       used AS running,
       nullif(json_extract(v, '$.concurrency'), 0) AS concurrency,
       nullif(json_extract(v, '$.rate_count'), 0) AS starts,
       nullif(json_extract(v, '$.rate_period_s'), 0) AS per_seconds,
       json_extract(v, '$.has_parked') AS has_parked_jobs,
       v AS definition,
       tenant AS tenant,
       sent AS candidates
FROM (SELECT key, tenant, used, sent, CAST(value AS TEXT) AS v FROM shared WHERE kind = 1);
