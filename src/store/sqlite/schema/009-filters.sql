-- Where the jobs of a partition are: it has some among the seqs block << 8 … block << 8 | 255. A row is added by the first
-- job of a partition in a block and removed with the last one (src/store/sqlite/blocks.c), so that a list by task or
-- queue skips the jobs of others, and a job costs next to nothing: an index would have an entry for each.
CREATE TABLE job_blocks (
    partition_id INTEGER NOT NULL,
    block        INTEGER NOT NULL,
    PRIMARY KEY (partition_id, block)
) STRICT, WITHOUT ROWID;
INSERT INTO job_blocks SELECT DISTINCT partition_id, seq >> 8 FROM job_states ORDER BY 1, 2;

-- Failures by class and by type, in the order of seq. A job that succeeds at once has no row in the history.
CREATE INDEX history_by_class ON history (error_class, seq) WHERE error_class <> 0;
CREATE INDEX history_by_type ON history (error_type, seq) WHERE error_type IS NOT NULL;
