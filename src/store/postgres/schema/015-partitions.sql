-- A partition that a transaction adds is locked, by its unique name, until the transaction ends, and an application's
-- transaction may stay open for long. So processes and applications do not add the same row: a partition has up to
-- two rows, and numbers, one that a process has added and one that redrive.submit has added in its caller's
-- transaction. Jobs of both are the jobs of one task in one queue: claims, counts and lists go by names.
ALTER TABLE redrive.partitions ADD COLUMN by_sql boolean NOT NULL DEFAULT false;
ALTER TABLE redrive.partitions DROP CONSTRAINT partitions_tenant_id_queue_task_key;
ALTER TABLE redrive.partitions ADD CONSTRAINT partitions_by_name UNIQUE (tenant_id, queue, task, by_sql);

-- For processes: the number of a partition, which is added if it is not there yet. If another process is adding it,
-- this one waits for it.
CREATE OR REPLACE FUNCTION redrive.partition_named(p_tenant text, p_queue text, p_task text,
                                                   OUT partition_id integer, OUT tenant_id integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    LOOP
        SELECT l.partition_id, l.tenant_id INTO partition_named.partition_id, partition_named.tenant_id
        FROM redrive.tenants t JOIN redrive.partitions l ON l.tenant_id = t.tenant_id
        WHERE t.name = p_tenant AND l.queue = p_queue AND l.task = p_task ORDER BY l.by_sql LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
        INSERT INTO redrive.tenants (name) VALUES (p_tenant) ON CONFLICT DO NOTHING;
        INSERT INTO redrive.partitions (tenant_id, queue, task)
        SELECT t.tenant_id, p_queue, p_task FROM redrive.tenants t WHERE t.name = p_tenant
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;

-- For redrive.submit: processes do not wait for what this adds, unless the tenant is new as well.
CREATE FUNCTION redrive.partition_in_sql(p_tenant text, p_queue text, p_task text,
                                         OUT partition_id integer, OUT tenant_id integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    LOOP
        SELECT l.partition_id, l.tenant_id INTO partition_in_sql.partition_id, partition_in_sql.tenant_id
        FROM redrive.tenants t JOIN redrive.partitions l ON l.tenant_id = t.tenant_id
        WHERE t.name = p_tenant AND l.queue = p_queue AND l.task = p_task ORDER BY l.by_sql LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
        INSERT INTO redrive.tenants (name) VALUES (p_tenant) ON CONFLICT DO NOTHING;
        INSERT INTO redrive.partitions (tenant_id, queue, task, by_sql)
        SELECT t.tenant_id, p_queue, p_task, true FROM redrive.tenants t WHERE t.name = p_tenant
        ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION redrive.partition_in_sql(text, text, text) FROM PUBLIC;

DO $migration$
DECLARE
    was text := pg_get_functiondef('redrive.submit(text, text, text, integer, text, text, boolean, timestamptz,
                                    timestamptz, text, text, text, text)'::regprocedure);
    becomes text := replace(was, 'FROM redrive.partition_named(tenant, queue, task)',
                            'FROM redrive.partition_in_sql(tenant, queue, task)');
BEGIN
    ASSERT becomes <> was;
    EXECUTE becomes;
END
$migration$;
