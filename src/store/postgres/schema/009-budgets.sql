-- A task whose only limit is a retry budget has a limit, too: redrive.submit gives its jobs the key.
DO $migration$
DECLARE
    was text := pg_get_functiondef('redrive.submit(text, text, text, integer, text, text, boolean, timestamptz,
                                    timestamptz, text, text, text, text)'::regprocedure);
    becomes text := replace(was, $$limits ->> 'concurrency' IS NOT NULL THEN$$,
                            $$limits ->> 'concurrency' IS NOT NULL OR limits ->> 'retry_budget' IS NOT NULL THEN$$);
BEGIN
    ASSERT becomes <> was;
    EXECUTE becomes;
END
$migration$;
