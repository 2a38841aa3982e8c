-- How many slots of a limit are in use, and how many parked jobs were sent ahead to the queue for them, are sums
-- that many processes add to: they move from the value of the row (src/engine/gates/gate_row.c) to columns of their own. A
-- transaction that would add slots above the limit ends with RD005.
ALTER TABLE redrive.shared ADD COLUMN used bigint NOT NULL DEFAULT 0;
ALTER TABLE redrive.shared ADD COLUMN sent bigint NOT NULL DEFAULT 0;

UPDATE redrive.shared s SET version = s.version + 1,
    used = coalesce((o.v ->> 'running')::bigint, 0), sent = coalesce((o.v ->> 'candidates')::bigint, 0),
    value = convert_to('{"format":4,"has_parked":' || (o.v ->> 'has_parked')
        || ',"candidates_until_ms":' || (o.v ->> 'candidates_until_ms')
        || ',"concurrency":' || (o.v ->> 'concurrency') || ',"rate_count":' || (o.v ->> 'rate_count')
        || ',"rate_period_s":' || (o.v ->> 'rate_period_s') || ',"rate_burst":' || (o.v ->> 'rate_burst')
        || ',"token_parts":' || (o.v ->> 'token_parts') || ',"tokens_at_ms":' || (o.v ->> 'tokens_at_ms')
        || ',"seems_empty":false}', 'UTF8')
FROM (SELECT tenant, key, convert_from(value, 'UTF8')::jsonb AS v FROM redrive.shared WHERE kind = 1) o
WHERE s.kind = 1 AND s.tenant = o.tenant AND s.key = o.key AND o.v ->> 'format' = '3';
UPDATE redrive.shared_version SET version = version + 1;

-- Of a limit: how many jobs run under it, how many may, how many may start in which time (seconds), and how many were
-- sent ahead to start next.
CREATE OR REPLACE VIEW redrive.limits AS
SELECT key AS name, used AS running, nullif((v ->> 'concurrency')::bigint, 0) AS concurrency,
       nullif((v ->> 'rate_count')::bigint, 0) AS starts,
       nullif((v ->> 'rate_period_s')::bigint, 0) AS per_seconds,
       (v ->> 'has_parked')::boolean AS has_parked_jobs, v AS definition, tenant, sent AS candidates
FROM (SELECT key, tenant, used, sent, convert_from(value, 'UTF8')::jsonb AS v
      FROM redrive.shared WHERE kind = 1) s;
