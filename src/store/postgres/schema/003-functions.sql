-- What applications call in their own transactions. docs/postgres.md explains it, and the grants.

-- Fills in a template of a breaker's or a limit's key, as the engine does: what a job does not have
-- is empty, control characters become underscores.
CREATE FUNCTION redrive.fill_in(template text, task text, queue text, tenant text, user_name text,
                                service text, payload json) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest text := template;
    filled text := '';
    opened integer;
    closed integer;
    name text;
    step text;
    value json;
BEGIN
    LOOP
        opened := strpos(rest, '{');
        closed := CASE WHEN opened > 0 THEN strpos(substr(rest, opened), '}') ELSE 0 END;
        EXIT WHEN closed = 0;
        name := substr(rest, opened + 1, closed - 2);
        value := CASE WHEN name LIKE 'payload.%' THEN payload END;
        FOREACH step IN ARRAY string_to_array(substr(name, 9), '.') LOOP
            -- an operator with a path would also take a number for an index into an array
            value := CASE WHEN json_typeof(value) = 'object' THEN value -> step END;
        END LOOP;
        filled := filled || left(rest, opened - 1) || coalesce(
            CASE WHEN name LIKE 'payload.%' THEN value #>> '{}'
                 WHEN name = 'task' THEN task
                 WHEN name = 'service' THEN service
                 WHEN name = 'queue' THEN queue
                 WHEN name = 'tenant' THEN tenant
                 WHEN name = 'user' THEN user_name
            END, '');
        rest := substr(rest, opened + closed);
    END LOOP;
    filled := regexp_replace(filled || rest, '[\x01-\x1f]', '_', 'g');
    IF octet_length(filled) > 512 THEN
        RAISE EXCEPTION 'the key of the job''s breaker or limit is over 512 bytes'
            USING ERRCODE = 'string_data_right_truncation';
    END IF;
    RETURN filled;
END
$$;

-- Text as the store keeps it. The characters from U+10FF00 on stand for bytes that cannot be in a
-- text; such a character in the text of the caller is kept as its four bytes.
CREATE FUNCTION redrive.as_kept(t text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN t !~ '[\U0010ff00-\U0010ffff]' THEN t ELSE (
        SELECT string_agg(CASE WHEN ascii(c) < 1113856 THEN c ELSE (
                   SELECT string_agg(chr(1113856 + get_byte(convert_to(c, 'UTF8'), i)), '' ORDER BY i)
                   FROM generate_series(0, 3) AS i) END, '' ORDER BY n)
        FROM regexp_split_to_table(t, '') WITH ORDINALITY AS x(c, n)) END
$$;

-- One name of a job: not too long, one line.
CREATE FUNCTION redrive.check_name(what text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(name) > 255 THEN
        RAISE EXCEPTION '% is over 255 bytes', what USING ERRCODE = 'string_data_right_truncation';
    ELSIF name ~ '[\x01-\x1f\x7f]' THEN
        RAISE EXCEPTION '% has a control character', what
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF name ~ '[\U0010ff00-\U0010ffff]' THEN
        RAISE EXCEPTION '% has a character from U+10FF00 on', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Submits a job when the transaction of the caller commits. The result is the id of the job that
-- stands for it: a new one, or the one that holds this id or this unique key already.
CREATE FUNCTION redrive.submit(
    task text, payload text DEFAULT NULL, queue text DEFAULT NULL, priority integer DEFAULT 0,
    id text DEFAULT NULL, unique_key text DEFAULT NULL, unique_forever boolean DEFAULT false,
    process_after timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    tenant text DEFAULT 'default', user_name text DEFAULT NULL, project text DEFAULT NULL,
    service text DEFAULT NULL) RETURNS text
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
    tenant := coalesce(nullif(tenant, ''), 'default');

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
    IF limits ->> 'rate' IS NOT NULL OR limits ->> 'concurrency' IS NOT NULL THEN
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

    SELECT * INTO partition FROM redrive.partition_named(tenant, queue, task);
    SELECT * INTO job FROM redrive.add_job(
        partition.tenant_id, partition.partition_id, now_ms, CASE WHEN after_ms > 0 THEN after_ms ELSE now_ms END,
        (extract(epoch FROM deadline) * 1000)::bigint, priority, max_attempts,
        coalesce(unique_forever, false), id, nullif(unique_key, ''),
        redrive.as_kept(nullif(breaker_key, '')), redrive.as_kept(limit_key), user_name, project,
        service, NULL, redrive.as_kept(payload));
    IF NOT job.taken THEN
        INSERT INTO redrive.count_deltas
        VALUES (partition.partition_id, (job.state = 0)::int, 0, (job.state = 2)::int, 0, 0, 0, 0, 0, 0);
        INSERT INTO redrive.counters
        VALUES (tenant, 'jobs_received', '', 1),
               (tenant, 'jobs_received', 'partition:' || queue || '/' || task, 1);
        -- Bits of enum store_notification: ready, time, end.
        PERFORM pg_notify('redrive', (CASE WHEN job.state = 2 THEN 1 ELSE 2 END
                                      | CASE WHEN deadline IS NULL THEN 4 ELSE 6 END)::text);
    END IF;
    RETURN job.id;
END
$$;

CREATE FUNCTION redrive.submit(
    task text, payload json, queue text DEFAULT NULL, priority integer DEFAULT 0,
    id text DEFAULT NULL, unique_key text DEFAULT NULL, unique_forever boolean DEFAULT false,
    process_after timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    tenant text DEFAULT 'default', user_name text DEFAULT NULL, project text DEFAULT NULL,
    service text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT redrive.submit(task, payload::text, queue, priority, id, unique_key, unique_forever,
                          process_after, deadline, tenant, user_name, project, service)
$$;

CREATE FUNCTION redrive.submit(
    task text, payload jsonb, queue text DEFAULT NULL, priority integer DEFAULT 0,
    id text DEFAULT NULL, unique_key text DEFAULT NULL, unique_forever boolean DEFAULT false,
    process_after timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL,
    tenant text DEFAULT 'default', user_name text DEFAULT NULL, project text DEFAULT NULL,
    service text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT redrive.submit(task, payload::text, queue, priority, id, unique_key, unique_forever,
                          process_after, deadline, tenant, user_name, project, service)
$$;

-- Cancels a live job when the transaction of the caller commits. The result is its state then, which
-- is another one when it had ended before; NULL: there is no such job. A running job that holds a slot of
-- a limit is refused: only the engine gives the slot back.
CREATE FUNCTION redrive.cancel(id text, tenant text DEFAULT 'default') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    job redrive.job_states;
BEGIN
    SELECT j.* INTO job FROM redrive.tenants t JOIN redrive.specs s ON s.tenant_id = t.tenant_id
    JOIN redrive.job_states j ON j.seq = s.seq
    WHERE t.name = coalesce(nullif(tenant, ''), 'default') AND s.id = id FOR UPDATE OF j;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF job.state >= 5 THEN
        RETURN (SELECT st.name FROM redrive.states st WHERE st.state = job.state);
    END IF;
    IF job.state = 3 THEN
        IF EXISTS (SELECT FROM redrive.specs s WHERE s.seq = job.seq AND s.limit_key IS NOT NULL) THEN
            RAISE EXCEPTION 'the job is running and holds a place of a limit'
                USING ERRCODE = 'object_in_use', HINT = 'redrive jobs cancel gives the place back';
        END IF;
        job.history_n := coalesce(job.history_n, 0) + 1;
        INSERT INTO redrive.history (seq, n, started_ms, ended_ms, delay_ms, next_ms, epoch, number,
                                     error_code, outcome, error_class, why, worker)
        VALUES (job.seq, job.history_n, coalesce(job.started_ms, 0), now_ms, 0, 0,
                coalesce(job.epoch, 0), job.attempts, 0, 8, 0, 'none', job.worker);
    ELSIF job.state = 4 THEN
        DELETE FROM redrive.parked p WHERE p.seq = job.seq;
        IF job.first_started_ms IS NOT NULL THEN
            job.paused_ms := coalesce(job.paused_ms, 0) + greatest(now_ms - job.paused_since_ms, 0);
        END IF;
    END IF;
    UPDATE redrive.job_states j SET state = 8, updated_ms = now_ms, finished_ms = now_ms, token = NULL,
        lease_until_ms = NULL, permit_generation = NULL, permit_probe = NULL, by_limit = NULL,
        paused_since_ms = NULL, paused_ms = job.paused_ms, history_n = job.history_n
    WHERE j.seq = job.seq;
    IF job.has_key THEN
        DELETE FROM redrive.live_keys k USING redrive.specs s WHERE s.seq = job.seq
           AND k.tenant_id = s.tenant_id AND k.unique_key = s.unique_key AND k.seq = s.seq;
    END IF;
    INSERT INTO redrive.count_deltas
    VALUES (job.partition_id, -(job.state = 0)::int, -(job.state = 1)::int, -(job.state = 2)::int,
            -(job.state = 3)::int, -(job.state = 4)::int, 0, 0, 0, 1);
    PERFORM pg_notify('redrive', '6');
    RETURN 'cancelled';
END
$$;

-- Every role may call a function unless that is revoked.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
GRANT EXECUTE ON FUNCTION redrive.at(bigint), redrive.as_json(text) TO PUBLIC;
