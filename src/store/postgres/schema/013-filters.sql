-- The ended jobs of a partition, the latest end last, so that a list by task or queue does not look at those of others;
-- for jobs that have not ended jobs_ready, jobs_due_in_partition and jobs_leased serve.
CREATE INDEX jobs_ended_in_partition ON redrive.job_states (partition_id, state, finished_ms, seq) WHERE state >= 5;

-- Failures by class and by type, and jobs by the group of their error. A job that succeeds at once is in none of these.
CREATE INDEX history_by_class ON redrive.history (error_class, seq) WHERE error_class <> 0;
CREATE INDEX history_by_type ON redrive.history (error_type, seq) WHERE error_type IS NOT NULL;
CREATE INDEX jobs_by_fingerprint ON redrive.job_states (fingerprint, seq) WHERE fingerprint IS NOT NULL;
