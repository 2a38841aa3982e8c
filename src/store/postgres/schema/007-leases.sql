-- A lease is renewed many times, and seldom ends. Its end is in no index, so that the renewal is a HOT
-- update: it writes one row version on the same page and no index entry. lease_check_ms is when the lease is to
-- be checked: its end as of the start of the job, or as of the last check. It is never later than the end.
ALTER TABLE redrive.job_states ADD COLUMN lease_check_ms bigint;
UPDATE redrive.job_states SET lease_check_ms = lease_until_ms WHERE state = 3;
DROP INDEX redrive.jobs_leased;
CREATE INDEX jobs_leased ON redrive.job_states (lease_check_ms, seq) WHERE state = 3;
ALTER TABLE redrive.job_states SET (fillfactor = 85);

-- Ends a transaction, with the COMMIT that follows in the same pipeline: RD002, its outcome was asked for before
-- the server read the COMMIT; RD003, a row is not as its handle has left it; RD004, the time of the transaction is wrong.
CREATE FUNCTION redrive.refuse(p_code text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = p_code, MESSAGE = 'the transaction is no longer wanted';
END
$$;
DROP FUNCTION redrive.refuse_late_commit();

REVOKE ALL ON FUNCTION redrive.refuse(text) FROM PUBLIC;
