-- For lists of the jobs that wait for their time, and of those that ended for a reason, in the order of seq. A job
-- that is due at once and succeeds is in none of the indexes of this script.
CREATE INDEX jobs_time_locked ON redrive.job_states (state, seq) WHERE state IN (0, 1);
CREATE INDEX jobs_by_reason ON redrive.job_states (reason, seq) WHERE reason IS NOT NULL;

-- Dead letters by group, with what it takes to count them by the filters of their page: their rows are not read.
CREATE INDEX dead_by_group ON redrive.job_states (partition_id, fingerprint, finished_ms, seq)
    INCLUDE (error_class, reason, error_n) WHERE state = 7 AND fingerprint IS NOT NULL;
