-- Jobs that wait for their time, by partition, so that the first one of a queue is found by one look at
-- each of its partitions. A table of its own, because most jobs never wait for a time.
CREATE TABLE time_locked (
    partition_id     INTEGER NOT NULL,
    process_after_ms INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    PRIMARY KEY (partition_id, process_after_ms, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO time_locked SELECT partition_id, process_after_ms, seq FROM job_states
WHERE state IN (0, 1) ORDER BY 1, 2, 3;
