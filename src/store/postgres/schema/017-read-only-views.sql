-- Views are read-only: what changes a job is a move of the queue, with rules of its own. A statement that would write to
-- a view is answered with the function to call, and not with "cannot delete from view" or "permission denied". A
-- trigger for the whole statement refuses it also when no row fits; the one for a row makes the statement possible at
-- all, also on views that PostgreSQL would write through by itself.
CREATE FUNCTION redrive.refuse_to_write() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shows_jobs boolean := TG_TABLE_NAME IN ('retry_queue', 'final_results', 'dead_letter_queue', 'failed_jobs', 'jobs',
                                            'jobs_by_status', 'attempts', 'job_events');
BEGIN
    RAISE EXCEPTION 'the view redrive.% is read-only', TG_TABLE_NAME
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = CASE WHEN NOT shows_jobs THEN 'use the commands of redrive: redrive --help'
                          WHEN TG_OP = 'INSERT' THEN $h$submit a job with SELECT redrive.submit('TASK', '{"a": 1}')$h$
                          WHEN TG_OP = 'UPDATE' THEN $h$run a job again with SELECT redrive.retry('ID'), $h$
                               || $h$take it back with SELECT redrive.cancel('ID')$h$
                          ELSE $h$remove failed jobs with SELECT redrive.purge('30 days'), $h$
                               || $h$take a job back with SELECT redrive.cancel('ID')$h$ END;
END
$$;
REVOKE ALL ON FUNCTION redrive.refuse_to_write() FROM PUBLIC;

-- Without the privilege PostgreSQL would answer before the trigger does. It allows nothing: the triggers refuse.
DO $migration$
DECLARE
    view_name text;
BEGIN
    FOR view_name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'v'
    LOOP
        EXECUTE format('CREATE TRIGGER refuse_to_write BEFORE INSERT OR UPDATE OR DELETE ON redrive.%I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION redrive.refuse_to_write()', view_name);
        EXECUTE format('CREATE TRIGGER refuse_to_write_row INSTEAD OF INSERT OR UPDATE OR DELETE ON redrive.%I '
                       'FOR EACH ROW EXECUTE FUNCTION redrive.refuse_to_write()', view_name);
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON redrive.%I TO PUBLIC', view_name);
    END LOOP;
END
$migration$;
