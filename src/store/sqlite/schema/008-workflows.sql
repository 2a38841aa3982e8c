-- Jobs that wait for others. A row is an edge from a parent to a child; it goes with the child. Whether the
-- child waits is said by its own row, which counts the edges that are open.
CREATE TABLE edges (
    child   INTEGER NOT NULL,
    parent  INTEGER NOT NULL,
    rule    INTEGER NOT NULL,  -- on + 3 * on_dead, as in src/core/after.h
    outcome INTEGER NOT NULL,  -- 0 open, 1 met, 2 missed
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_by_parent ON edges (parent, child);

INSERT INTO states VALUES (9, 'waiting');
INSERT INTO reasons VALUES (8, 'skipped');
ALTER TABLE partitions ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;

DROP VIEW job_counts;
CREATE VIEW job_counts AS
SELECT t.name AS tenant, l.queue AS queue, l.task AS task_name, l.scheduled, l.retrying, l.queued,
       l.running, l.parked, l.completed, l.failed, l.dead_letter, l.cancelled, l.waiting
FROM partitions l JOIN tenants t ON t.tenant_id = l.tenant_id;

-- What each job waits for, or has waited for. A parent that was removed has no id.
CREATE VIEW job_edges AS
SELECT c.id AS job_id, p.id AS after_id,
       CASE e.rule % 3 WHEN 0 THEN 'success' WHEN 1 THEN 'end' ELSE 'failure' END AS on_end,
       CASE e.rule / 3 WHEN 0 THEN 'wait' WHEN 1 THEN 'cancel' ELSE 'run' END AS on_dead,
       CASE e.outcome WHEN 0 THEN 'open' WHEN 1 THEN 'met' ELSE 'missed' END AS outcome,
       t.name AS tenant
FROM edges e
JOIN specs c ON c.seq = e.child
JOIN tenants t ON t.tenant_id = c.tenant_id
LEFT JOIN specs p ON p.seq = e.parent;
