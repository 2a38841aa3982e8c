-- Deadlines of jobs that have one. A row is written at submit and stays until its time has come, or
-- the job is removed: no other move of a job reads or writes it.
CREATE TABLE deadlines (
    deadline_ms INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    PRIMARY KEY (deadline_ms, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO deadlines SELECT s.deadline_ms, s.seq FROM specs s JOIN job_states j USING (seq)
WHERE s.deadline_ms > 0 AND j.state < 5;

-- The definitions of tasks, as workers have published them.
CREATE VIEW tasks AS
SELECT key AS name, CAST(value AS TEXT) AS definition, version AS version, tenant AS tenant
FROM shared WHERE kind = 3;
