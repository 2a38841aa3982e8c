-- Tenants of roles: a role that logs in and has rows here calls submit, cancel, retry and purge for these tenants
-- only. A role without rows may do so for all tenants. The owner of the schema writes the rows; SET ROLE does not
-- change who has logged in.
CREATE TABLE redrive.role_tenants (
    role_name name NOT NULL,
    tenant    text NOT NULL,
    PRIMARY KEY (role_name, tenant)
);

-- The tenant that a function was called for, by its name; an error if the caller's role has others only.
CREATE FUNCTION redrive.tenant_of_caller(tenant text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    wanted text := coalesce(nullif(tenant, ''), 'default');
    own text[];
BEGIN
    SELECT array_agg(r.tenant ORDER BY r.tenant) INTO own FROM redrive.role_tenants r
    WHERE r.role_name = session_user;
    IF wanted <> ALL (own) THEN
        RAISE EXCEPTION 'the role % may not change jobs of the tenant %', session_user, wanted
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('say tenant => %L; its tenants are in redrive.role_tenants', own[1]);
    END IF;
    RETURN wanted;
END
$$;
REVOKE ALL ON FUNCTION redrive.tenant_of_caller(text) FROM PUBLIC;

-- The policy of a job with its traceparent, as trace_keep() of src/core/trace/context.c puts them together: the
-- traceparent in version 00, as the first member. What is no traceparent is left out.
CREATE FUNCTION redrive.with_trace(policy text, traceparent text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    part text[] := regexp_match(traceparent, '^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$');
    flags integer;
BEGIN
    IF part IS NULL OR part[1] = 'ff' OR (part[1] = '00' AND part[5] IS NOT NULL) OR part[2] ~ '^0*$'
       OR part[3] ~ '^0*$' THEN
        RETURN policy;
    END IF;
    flags := get_byte(decode(part[4], 'hex'), 0) & 3; -- TRACE_SAMPLED, TRACE_RANDOM
    RETURN format('{"traceparent":"00-%s-%s-0%s"%s', part[2], part[3], flags, coalesce(',' || substr(policy, 2), '}'));
END
$$;
REVOKE ALL ON FUNCTION redrive.with_trace(text, text) FROM PUBLIC;

-- Submits a job when the transaction of the caller commits. The result is the job that stands for it, a new one, or
-- the one that holds this id or this unique key already; its state; and whether it was there.
CREATE FUNCTION redrive.submit_job(
    task text, payload text DEFAULT NULL, queue text DEFAULT NULL, priority integer DEFAULT 0,
    id text DEFAULT NULL, unique_key text DEFAULT NULL, unique_forever boolean DEFAULT false,
    process_after timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    tenant text DEFAULT 'default', user_name text DEFAULT NULL, project text DEFAULT NULL,
    service text DEFAULT NULL, traceparent text DEFAULT NULL,
    OUT job_id text, OUT status text, OUT existed boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    after_ms bigint := coalesce(extract(epoch FROM process_after) * 1000, 0);
    definition json;
    limits json;
    parsed json;
    breaker_key text;
    limit_key text;
    max_attempts integer;
    partition record;
    job record;
    random text;
    arm_name text;
    arm json;
    arm_policy text;
BEGIN
    IF coalesce(task, '') = '' THEN
        RAISE EXCEPTION 'a job needs a task' USING ERRCODE = 'invalid_parameter_value';
    ELSIF priority IS NULL OR priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'priority % is not between -100 and 100', priority
            USING ERRCODE = 'numeric_value_out_of_range';
    ELSIF octet_length(payload) > 1048576 THEN
        RAISE EXCEPTION 'the payload is over 1048576 bytes'
            USING ERRCODE = 'string_data_right_truncation',
                  HINT = 'keep large data elsewhere and submit where it is';
    END IF;
    PERFORM redrive.check_name(n.what, n.name)
    FROM (VALUES ('task', task), ('id', id), ('tenant', tenant), ('queue', queue),
                 ('unique key', unique_key), ('user', user_name), ('project', project),
                 ('service', service)) AS n(what, name);
    parsed := payload::json;
    tenant := redrive.tenant_of_caller(tenant);

    SELECT convert_from(s.value, 'UTF8')::json INTO definition
    FROM redrive.shared s WHERE s.kind = 3 AND s.tenant = 'default' AND s.key = task;
    IF definition ->> 'payload' = 'required' AND coalesce(json_typeof(parsed), 'null') = 'null' THEN
        RAISE EXCEPTION 'the payload is missing' USING ERRCODE = 'null_value_not_allowed',
            DETAIL = format('task ''%s'' says payload: required', task);
    END IF;
    queue := coalesce(nullif(queue, ''), definition ->> 'queue', 'default');
    -- The most that any class of failure allows.
    SELECT max(n) + 1 INTO max_attempts
    FROM (SELECT coalesce((definition #>> '{retry,max_retries}')::integer, 5) AS n
          UNION ALL
          SELECT (rule.value ->> 'max_retries')::integer FROM json_each(definition -> 'on') rule) AS limits;
    breaker_key := redrive.fill_in(
        CASE WHEN definition IS NULL THEN '{task}'
             ELSE coalesce(definition #>> '{breaker,key}', '') END,
        task, queue, tenant, user_name, service, parsed);
    limits := definition -> 'limits';
    IF limits ->> 'rate' IS NOT NULL OR limits ->> 'concurrency' IS NOT NULL
       OR limits ->> 'retry_budget' IS NOT NULL THEN
        limit_key := CASE limits ->> 'per'
            WHEN 'user' THEN 'limit:user:' || task || ':' || nullif(user_name, '')
            WHEN 'project' THEN 'limit:project:' || task || ':' || nullif(project, '')
            WHEN 'key' THEN 'limit:key:' || redrive.fill_in(coalesce(limits ->> 'key', ''), task,
                queue, tenant, user_name, service, parsed)
            ELSE 'limit:task:' || task END;
    END IF;
    IF coalesce(id, '') = '' THEN
        -- As the engine makes them: 48 bits of milliseconds, version 7, and randomness.
        random := replace(gen_random_uuid()::text, '-', '');
        id := regexp_replace(lpad(to_hex(now_ms), 12, '0') || '7' || substr(random, 14),
                             '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\1-\2-\3-\4-\5');
    END IF;

    -- As the program writes it: the arm, and its whole policy.
    IF definition -> 'experiment' IS NOT NULL THEN
        arm := definition #> ARRAY['experiment', 'arms', redrive.arm_of(definition -> 'experiment', id)];
        arm_name := (definition #>> '{experiment,name}') || '/' || redrive.arm_of(definition -> 'experiment', id);
        arm_policy := '{"experiment":"' || arm_name || '",' || substr(arm ->> 'retry', 2, length(arm ->> 'retry') - 2)
                      || coalesce(',"on":' || (arm ->> 'on'), '') || '}';
        SELECT max(n) + 1 INTO max_attempts
        FROM (SELECT (arm #>> '{retry,max_retries}')::integer AS n
              UNION ALL
              SELECT (rule.value ->> 'max_retries')::integer FROM json_each(arm -> 'on') rule) AS most;
    END IF;
    SELECT * INTO partition FROM redrive.partition_in_sql(tenant, queue, task);
    SELECT * INTO job FROM redrive.add_job(
        partition.tenant_id, partition.partition_id, now_ms, CASE WHEN after_ms > 0 THEN after_ms ELSE now_ms END,
        (extract(epoch FROM deadline) * 1000)::bigint, priority, max_attempts,
        coalesce(unique_forever, false), id, nullif(unique_key, ''),
        redrive.as_kept(nullif(breaker_key, '')), redrive.as_kept(limit_key), user_name, project,
        service, redrive.with_trace(arm_policy, traceparent), redrive.as_kept(payload));
    IF NOT job.taken THEN
        INSERT INTO redrive.count_deltas
        VALUES (partition.partition_id, (job.state = 0)::int, 0, (job.state = 2)::int, 0, 0, 0, 0, 0, 0);
        INSERT INTO redrive.counters
        VALUES (tenant, 'jobs_received', '', 1),
               (tenant, 'jobs_received', 'partition:' || queue || '/' || task, 1);
        INSERT INTO redrive.counters
        SELECT tenant, 'arm_submitted', 'arm:' || arm_name, 1 WHERE arm_name IS NOT NULL;
        -- Bits of enum store_notification: ready, time, end.
        PERFORM pg_notify('redrive', (CASE WHEN job.state = 2 THEN 1 ELSE 2 END
                                      | CASE WHEN deadline IS NULL THEN 4 ELSE 6 END)::text);
    END IF;
    job_id := job.id;
    status := (SELECT st.name FROM redrive.states st WHERE st.state = job.state);
    existed := job.taken;
END
$$;
REVOKE ALL ON FUNCTION redrive.submit_job(text, text, text, integer, text, text, boolean, timestamptz, timestamptz,
                                          text, text, text, text, text) FROM PUBLIC;

-- The id alone.
CREATE OR REPLACE FUNCTION redrive.submit(
    task text, payload text DEFAULT NULL, queue text DEFAULT NULL, priority integer DEFAULT 0,
    id text DEFAULT NULL, unique_key text DEFAULT NULL, unique_forever boolean DEFAULT false,
    process_after timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    tenant text DEFAULT 'default', user_name text DEFAULT NULL, project text DEFAULT NULL,
    service text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT job_id FROM redrive.submit_job(task, payload, queue, priority, id, unique_key, unique_forever,
                                          process_after, deadline, tenant, user_name, project, service)
$$;

DO $migration$
DECLARE
    change record;
    was text;
    becomes text;
    submitter text;
BEGIN
    -- The other functions ask for the tenant of their caller, too.
    FOR change IN SELECT * FROM (VALUES
        ('cancel', $$tenant := coalesce(nullif(tenant, ''), 'default');$$,
                   'tenant := redrive.tenant_of_caller(tenant);'),
        ('retry', $$tenant := coalesce(nullif(tenant, ''), 'default');$$,
                  'tenant := redrive.tenant_of_caller(tenant);'),
        ('purge', E'BEGIN\n    IF older_than', E'BEGIN\n    tenant := redrive.tenant_of_caller(tenant);\n    IF older_than')
        ) AS c(name, old_text, new_text)
    LOOP
        SELECT pg_get_functiondef(p.oid) INTO STRICT was FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.proname = change.name;
        becomes := replace(was, change.old_text, change.new_text);
        ASSERT becomes <> was, change.name || ': ' || change.old_text;
        EXECUTE becomes;
    END LOOP;

    -- Roles that may submit may do so by either function.
    FOR submitter IN
        SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
        FROM pg_proc p, aclexplode(p.proacl) a
        WHERE p.oid = 'redrive.submit(text, text, text, integer, text, text, boolean, timestamptz, timestamptz, text,
                                      text, text, text)'::regprocedure
          AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner
    LOOP
        EXECUTE 'GRANT EXECUTE ON FUNCTION redrive.submit_job(text, text, text, integer, text, text, boolean, timestamptz, '
                || 'timestamptz, text, text, text, text, text) TO ' || submitter;
    END LOOP;
END
$migration$;
