-- A job that is submitted in SQL takes part in the experiment of its task, as one of the program does.

-- The name of a job's arm: the first 32 bits of SHA-256 of EXPERIMENT/ID are a point between 0 and 1, and arms
-- follow each other by their shares. The last one has all that is left.
CREATE FUNCTION redrive.arm_of(experiment json, id text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hash bytea := sha256(convert_to((experiment ->> 'name') || '/' || id, 'UTF8'));
    point float8 := (get_byte(hash, 0)::bigint * 16777216 + get_byte(hash, 1) * 65536 + get_byte(hash, 2) * 256
                     + get_byte(hash, 3))::float8 / 4294967296;
    reached float8 := 0;
    arm record;
    chosen text;
BEGIN
    FOR arm IN
        SELECT a.name, a.definition FROM json_each(experiment -> 'arms') WITH ORDINALITY AS a(name, definition, n)
        ORDER BY a.n
    LOOP
        chosen := arm.name;
        reached := reached + (arm.definition ->> 'share')::float8;
        EXIT WHEN point < reached;
    END LOOP;
    RETURN chosen;
END
$$;

DO $migration$
DECLARE
    was text := pg_get_functiondef('redrive.submit(text, text, text, integer, text, text, boolean, timestamptz,
                                    timestamptz, text, text, text, text)'::regprocedure);
    becomes text;
    part record;
BEGIN
    becomes := was;
    FOR part IN SELECT * FROM (VALUES
        ($$    random text;
BEGIN
$$, $$    random text;
    arm_name text;
    arm json;
    arm_policy text;
BEGIN
$$),
        ($$    SELECT * INTO partition FROM redrive.partition_named(tenant, queue, task);
$$, $$    -- As the program writes it: the arm, and its whole policy.
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
    SELECT * INTO partition FROM redrive.partition_named(tenant, queue, task);
$$),
        ($$        service, NULL, redrive.as_kept(payload));
$$, $$        service, arm_policy, redrive.as_kept(payload));
$$),
        ($$        -- Bits of enum store_notification: ready, time, end.
$$, $$        INSERT INTO redrive.counters
        SELECT tenant, 'arm_submitted', 'arm:' || arm_name, 1 WHERE arm_name IS NOT NULL;
        -- Bits of enum store_notification: ready, time, end.
$$)) AS parts(old, new)
    LOOP
        ASSERT position(part.old IN becomes) > 0, part.old;
        becomes := replace(becomes, part.old, part.new);
    END LOOP;
    EXECUTE becomes;
END
$migration$;
