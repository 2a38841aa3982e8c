/* statements.h - every statement that is kept prepared, and the columns of a job in a result.
 *
 * States are written as numbers: 0 scheduled, 1 retrying, 2 queued, 3 running, 4 parked, 5 to 8
 * ended, 9 waiting. Arrays are columns of what is written, one item for each row. The texts of the
 * statements need statement_parts.h, their numbers do not.
 */
#ifndef STORE_POSTGRES_STATEMENTS_H
#define STORE_POSTGRES_STATEMENTS_H

/* What is added to the marker's expected number when the outcome of a commit is asked for: no
 * commit sets such a number. */
#define MARKER_NOT_MADE 1000000
#define MARKER_MADE     1000001
#define MARKER_WAS_GONE 1000002

#define STATEMENT_MAP(XX)                                                                          \
    XX(BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")                                   \
    XX(BEGIN_SNAPSHOT, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")                          \
    XX(SNAPSHOT_WAITS, "SET LOCAL idle_in_transaction_session_timeout = 0")                        \
    XX(LOCK_WAIT, "SELECT set_config('lock_timeout', $1::text, false)")                            \
    XX(LOCK_WAIT_LOCAL, "SELECT set_config('lock_timeout', $1::text, true)")                       \
    XX(COMMIT, "COMMIT")                                                                           \
    XX(ROLLBACK, "ROLLBACK")                                                                       \
    XX(TRANSACTION, "SELECT version, " CLOCK_MS " FROM redrive.shared_version")                    \
    XX(BUMP, "UPDATE redrive.shared_version SET version = version + $1::bigint")                   \
    /* The first commit of a handle also removes rows of handles that were never closed. */        \
    XX(MARKERS_SWEEP, "DELETE FROM redrive.handles WHERE handle = ANY (ARRAY("                     \
                      "SELECT h.handle FROM redrive.handles h WHERE h.committed_at < now() - "     \
                      "interval '1 day' ORDER BY h.handle LIMIT 100 FOR UPDATE SKIP LOCKED))")     \
    XX(MARKER_NEW, MARKER("INSERT INTO redrive.handles (handle, commits) VALUES ($1::bigint, 1)")) \
    XX(MARKER_RAISE,                                                                               \
       MARKER("UPDATE redrive.handles SET commits = commits + 1, committed_at = now() "            \
              "WHERE handle = $1::bigint AND commits = $3::bigint"))                               \
    XX(MARKER_ASK,                                                                                 \
       "INSERT INTO redrive.handles AS h (handle, commits) "                                       \
       "VALUES ($1::bigint, $2::bigint + " TEXT_OF(                                                \
           MARKER_WAS_GONE) ") "                                                                   \
                            "ON CONFLICT (handle) DO UPDATE SET commits = CASE "                   \
                            "WHEN h.commits > $2::bigint + 1 THEN h.commits "                      \
                            "WHEN h.commits = $2::bigint + 1 THEN $2::bigint + " TEXT_OF(          \
                                MARKER_MADE) " "                                                   \
                                             "ELSE $2::bigint + " TEXT_OF(                         \
                                                 MARKER_NOT_MADE) " END RETURNING commits")        \
    XX(MARKER_REMOVE, "DELETE FROM redrive.handles WHERE handle = $1::bigint")                     \
    /* Not in the transaction, because a transaction that notifies makes all others that do so     \
     * wait until it is on disk; for the same reason this one does not wait for the disk. */       \
    XX(NOTIFY, "SELECT set_config('synchronous_commit', 'off', true), "                            \
               "pg_notify('redrive', $1::text)")                                                   \
    XX(LISTEN, "LISTEN redrive")                                                                   \
                                                                                                   \
    XX(ELECT, ELECTION("redrive_elects"))                                                          \
    XX(ELECT_CLAIMER, ELECTION("redrive_claims"))                                                  \
    XX(ANY_READY, "WITH redrive_claims AS (SELECT 1) "                                             \
                  "SELECT EXISTS (SELECT FROM redrive.job_states WHERE state = 2)")                \
    XX(RESIGN, "DELETE FROM redrive.shared WHERE kind = 100 AND value = $1::bytea")                \
                                                                                                   \
    XX(PARTITION_NAMED,                                                                            \
       "SELECT partition_id, tenant_id FROM redrive.partition_named($1::text, $2::text, "          \
       "$3::text)")                                                                                \
    XX(PARTITIONS_KNOWN,                                                                           \
       "SELECT l.partition_id, l.tenant_id, t.name, l.queue, l.task FROM redrive.partitions l "    \
       "JOIN redrive.tenants t ON t.tenant_id = l.tenant_id "                                      \
       "WHERE l.partition_id = ANY ($1::int[])")                                                   \
    XX(COUNTS_ADD,                                                                                 \
       "INSERT INTO redrive.count_deltas SELECT u.* FROM unnest($1::redrive.count_deltas[]) u")    \
    XX(COUNTS_COMPACT, "SELECT redrive.compact_counts($1::int)")                                   \
    XX(COUNTERS_COMPACT, "SELECT redrive.compact_counters($1::int)")                               \
                                                                                                   \
    XX(ROWS_LOCK,                                                                                  \
       "SELECT " ROW_COLUMNS " FROM redrive.job_states j WHERE j.seq = ANY ($1::bigint[]) "        \
       "ORDER BY j.seq FOR UPDATE")                                                                \
    XX(ROWS_LOCK_FREE,                                                                             \
       "SELECT " ROW_COLUMNS " FROM redrive.job_states j WHERE j.seq = ANY ($1::bigint[]) "        \
       "ORDER BY j.seq FOR UPDATE SKIP LOCKED")                                                    \
    XX(ROWS_ADD,                                                                                   \
       "INSERT INTO redrive.job_states SELECT u.* FROM unnest($1::redrive.job_states[]) u")        \
    XX(ROWS_WRITE, OR_REFUSE(WRITE_ROWS, "$2::bigint"))                                            \
    /* No column that is in an index, or in the condition of one: the update is HOT. */            \
    XX(LEASES_WRITE,                                                                               \
       OR_REFUSE("UPDATE redrive.job_states j SET updated_ms = $4::bigint, "                       \
                 "lease_until_ms = greatest(j.lease_until_ms, u.until_ms) "                        \
                 "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) "                          \
                 "AS u(seq, token, until_ms) WHERE j.seq = u.seq AND j.token = u.token",           \
                 "$5::bigint"))                                                                    \
    XX(LEASE_CHECKS,                                                                               \
       "WITH longer AS (UPDATE redrive.job_states j SET lease_check_ms = c.lease_until_ms FROM "   \
       "(SELECT q.seq, q.lease_until_ms FROM redrive.job_states q WHERE q.state = 3 "              \
       "AND q.lease_check_ms <= $1::bigint AND q.lease_until_ms > $1::bigint "                     \
       "ORDER BY q.lease_check_ms, q.seq LIMIT 4096 FOR UPDATE SKIP LOCKED) c "                    \
       "WHERE j.seq = c.seq) SELECT set_config('synchronous_commit', 'off', true)")                \
    XX(HISTORY_ADD, "INSERT INTO redrive.history SELECT u.* FROM unnest($1::redrive.history[]) u") \
    XX(RESULTS_WRITE, "INSERT INTO redrive.results SELECT * FROM unnest($1::bigint[], "            \
                      "$2::text[]) ON CONFLICT (seq) DO UPDATE SET result = EXCLUDED.result")      \
    XX(PARKED_ADD, "INSERT INTO redrive.parked SELECT u.seq, s.tenant_id, coalesce(CASE "          \
                   "WHEN u.by_limit THEN s.limit_key ELSE s.breaker_key END, ''), "                \
                   "s.max_attempts - u.attempts FROM unnest($1::bigint[], $2::boolean[], "         \
                   "$3::int[]) AS u(seq, by_limit, attempts) "                                     \
                   "JOIN redrive.specs s ON s.seq = u.seq")                                        \
    XX(PARKED_REMOVE, "DELETE FROM redrive.parked WHERE seq = ANY ($1::bigint[])")                 \
    XX(KEYS_FREE, "DELETE FROM redrive.live_keys k USING redrive.specs s "                         \
                  "WHERE s.seq = ANY ($1::bigint[]) AND k.tenant_id = s.tenant_id "                \
                  "AND k.unique_key = s.unique_key AND k.seq = s.seq")                             \
    XX(KEY_TAKE, "INSERT INTO redrive.live_keys SELECT tenant_id, unique_key, seq "                \
                 "FROM redrive.specs WHERE seq = $1::bigint ON CONFLICT DO NOTHING")               \
    XX(PAYLOAD_WRITE, "UPDATE redrive.specs SET payload = $2::text WHERE seq = $1::bigint")        \
                                                                                                   \
    XX(SPECS_ADD,                                                                                  \
       NEW_SPECS "INSERT INTO redrive.specs SELECT * FROM u ORDER BY id, tenant_id, seq "          \
                 "ON CONFLICT ON CONSTRAINT specs_by_id DO NOTHING RETURNING seq, tenant_id, id")  \
    XX(IDS_FIND, "SELECT u.n, s.seq, j.state, s.id FROM unnest($1::int[], $2::int[], "             \
                 "$3::text[]) AS u(n, tenant_id, id) JOIN redrive.specs s ON s.id = u.id "         \
                 "AND s.tenant_id = u.tenant_id JOIN redrive.job_states j ON j.seq = s.seq")       \
    XX(KEYS_LOCK, "SELECT pg_advisory_xact_lock(1919247218, x.h) FROM (SELECT DISTINCT "           \
                  "hashtext(k) AS h FROM unnest($1::text[]) AS k ORDER BY h) x")                   \
    XX(JOBS_ADD,                                                                                   \
       "SELECT a.taken, a.seq, a.state, a.id FROM unnest($1::redrive.specs[], $2::int[], "         \
       "$3::bigint[], $4::bigint[], $5::int[]) AS u(seq, tenant_id, created_ms, max_attempts, "    \
       "unique_forever, id, unique_key, breaker_key, limit_key, user_name, project, service, "     \
       "policy, payload, partition_id, process_after_ms, deadline_ms, priority) "                  \
       "CROSS JOIN LATERAL redrive.add_job(u.tenant_id, u.partition_id, $6::bigint, "              \
       "u.process_after_ms, nullif(u.deadline_ms, 0), u.priority, u.max_attempts, "                \
       "u.unique_forever, u.id, u.unique_key, u.breaker_key, u.limit_key, u.user_name, "           \
       "u.project, u.service, u.policy, u.payload) a")                                             \
                                                                                                   \
    XX(READY_OF_TENANT, READY_PARTITIONS_OF_TENANT("") READY_CANDIDATES READY_JOBS)                \
    XX(READY_OF_TENANT_LIMITED,                                                                    \
       READY_PARTITIONS_OF_TENANT(READY_TASK_LIMIT) READY_LIMITED_CANDIDATES READY_JOBS)           \
    XX(READY_IN_TURN, READY_PARTITIONS_IN_TURN("") READY_CANDIDATES READY_JOBS)                    \
    XX(READY_IN_TURN_LIMITED,                                                                      \
       READY_PARTITIONS_IN_TURN(READY_TASK_LIMIT) READY_LIMITED_CANDIDATES READY_JOBS)             \
                                                                                                   \
    XX(READY_ALONE, READY_ALONE_IN("", "", ""))                                                    \
    XX(READY_ALONE_FROM,                                                                           \
       READY_ALONE_IN(" AND q.priority = $5::int AND q.seq >= $6::bigint",                         \
                      " AND NOT EXISTS (SELECT FROM redrive.job_states o WHERE o.state = 2 "       \
                      "AND o.partition_id = $1::int AND o.priority > $5::int)",                    \
                      " OR EXISTS (SELECT FROM redrive.job_states o WHERE o.state = 2 "            \
                      "AND o.partition_id = $1::int AND o.priority < $5::int)"))                   \
                                                                                                   \
    XX(DUE, "SELECT " ROW_COLUMNS " FROM redrive.job_states j WHERE " IS_TIME_LOCKED               \
            " AND j.process_after_ms <= $1::bigint ORDER BY j.process_after_ms, j.seq "            \
            "LIMIT $2::bigint FOR UPDATE SKIP LOCKED")                                             \
    XX(DUE_NEXT, NEXT_TIMES(IS_TIME_LOCKED, "process_after_ms"))                                   \
    XX(EXPIRED, "WITH ended AS MATERIALIZED (SELECT x.seq, x.lease_until_ms FROM (SELECT q.seq, "  \
                "q.lease_until_ms FROM redrive.job_states q WHERE q.state = 3 "                    \
                "AND q.lease_check_ms <= $1::bigint AND q.lease_until_ms <= $1::bigint "           \
                "ORDER BY q.lease_check_ms, q.seq LIMIT $2::bigint + " LEASES_LOOKED_AT ") x "     \
                "ORDER BY x.lease_until_ms, x.seq), "                                              \
                "j AS (SELECT q.* FROM ended JOIN redrive.job_states q ON q.seq = ended.seq "      \
                "WHERE q.state = 3 AND q.lease_until_ms <= $1::bigint "                            \
                "ORDER BY ended.lease_until_ms, ended.seq LIMIT $2::bigint FOR UPDATE OF q SKIP "  \
                "LOCKED) " SCANNED_JOBS("j.lease_until_ms, j.seq"))                                \
    XX(EXPIRED_NEXT, NEXT_LEASES)                                                                  \
    XX(OVERDUE, "WITH j AS (SELECT * FROM redrive.job_states j WHERE " HAS_DEADLINE                \
                " AND j.deadline_ms <= $1::bigint ORDER BY j.deadline_ms, j.seq "                  \
                "LIMIT $2::bigint FOR UPDATE SKIP LOCKED) " SCANNED_JOBS("j.deadline_ms, j.seq"))  \
    XX(OVERDUE_NEXT, NEXT_TIMES(HAS_DEADLINE, "deadline_ms"))                                      \
    XX(PARKED_OLDEST, PARKED_JOBS("", "p.seq"))                                                    \
    XX(PARKED_PROBES, PARKED_JOBS("", "p.attempts_left DESC, p.seq"))                              \
    XX(PARKED_NEWEST,                                                                              \
       PARKED_JOBS(" AND p.attempts_left = (SELECT q.attempts_left FROM redrive.tenants u "        \
                   "JOIN redrive.parked q ON q.tenant_id = u.tenant_id WHERE u.name = $1::text "   \
                   "AND q.gate = $2::text ORDER BY q.attempts_left DESC LIMIT 1)",                 \
                   "p.seq DESC"))                                                                  \
    XX(PARKED_ANY,                                                                                 \
       "SELECT count(*) FROM (SELECT 1 FROM redrive.tenants t JOIN redrive.parked p "              \
       "ON p.tenant_id = t.tenant_id JOIN redrive.job_states j ON j.seq = p.seq WHERE "            \
       "t.name = $1::text "                                                                        \
       "AND p.gate = $2::text AND j.state = 4 LIMIT $3::bigint) AS found")                         \
    XX(READY_IN_QUEUE,                                                                             \
       "SELECT " ROW_COLUMNS " FROM (SELECT l.partition_id FROM redrive.tenants t "                \
       "JOIN redrive.partitions l ON l.tenant_id = t.tenant_id WHERE t.name = $1::text "           \
       "AND l.queue = $2::text AND l.partition_id >= $3::int ORDER BY l.partition_id) l "          \
       "CROSS JOIN LATERAL (SELECT * FROM redrive.job_states q WHERE q.state = 2 "                 \
       "AND q.partition_id = l.partition_id AND (l.partition_id > $3::int OR $5::bigint = 0 "      \
       "OR q.priority < $4::int OR (q.priority = $4::int AND q.seq > $5::bigint)) "                \
       "ORDER BY q.priority DESC, q.seq LIMIT $6::bigint) j LIMIT $6::bigint")                     \
    XX(FINISHED,                                                                                   \
       "SELECT " ROW_COLUMNS ", s.policy FROM (SELECT c.* FROM unnest($1::int[]) AS st(state) "    \
       "CROSS JOIN LATERAL (SELECT q.* FROM redrive.job_states q WHERE q.state = st.state "        \
       "AND q.state >= 5 AND q.finished_ms < $2::bigint "                                          \
       "AND (q.finished_ms, q.seq) > ($4::bigint, $5::bigint) "                                    \
       "ORDER BY q.finished_ms, q.seq LIMIT $3::bigint) c "                                        \
       "ORDER BY c.finished_ms, c.seq LIMIT $3::bigint) j "                                        \
       "LEFT JOIN redrive.specs s ON s.seq = j.seq ORDER BY j.finished_ms, j.seq")                 \
                                                                                                   \
    XX(REMOVE, "WITH gone AS MATERIALIZED (SELECT seq, partition_id, state, has_key, history_n, "  \
               "parents FROM redrive.job_states WHERE seq = ANY ($1::bigint[])), " REMOVE_JOBS     \
               "SELECT count(*) FROM gone")                                                        \
    XX(SHARED_ADD, "INSERT INTO redrive.shared (kind, tenant, key, version, used, sent, value) "   \
                   "VALUES ($1::int, $2::text, $3::text, 1, greatest($4::bigint, 0), "             \
                   "greatest($5::bigint, 0), $6::bytea) ON CONFLICT DO NOTHING "                   \
                   "RETURNING used, sent, version")                                                \
    XX(SHARED_WRITE, WRITE_SHARED " RETURNING used, sent, version")                                \
    XX(SHARED_REMOVE, REMOVE_SHARED)                                                               \
    XX(GATE_WRITE, SUMS_OR_REFUSE(WRITE_SHARED, "RD003"))                                          \
    XX(GATE_ADD, SUMS_OR_REFUSE("UPDATE redrive.shared SET " ADD_SUMS " WHERE " OF_SHARED          \
                                " AND $4::bigint IN (0, version) AND " SUMS_FIT,                   \
                                "RD005"))                                                          \
    XX(GATE_REMOVE, OR_REFUSE(REMOVE_SHARED, "1"))                                                 \
    XX(SHARED_LIST, "SELECT tenant, key, version, value, used, sent FROM redrive.shared "          \
                    "WHERE kind = $1::int AND ($2::text = '' OR tenant = $2::text) "               \
                    "ORDER BY tenant, key")                                                        \
    XX(COUNTERS_ADD,                                                                               \
       "INSERT INTO redrive.counters SELECT u.* FROM unnest($1::redrive.counters[]) u")            \
    XX(COUNTERS_LIST, "SELECT tenant, name, label, sum(value)::bigint FROM redrive.counters "      \
                      "WHERE $1::text = '' OR tenant = $1::text GROUP BY tenant, name, label "     \
                      "ORDER BY tenant, name, label")                                              \
                                                                                                   \
    XX(EDGES_PUT, "INSERT INTO redrive.edges SELECT u.* FROM unnest($1::redrive.edges[]) u "       \
                  "ON CONFLICT (child, parent) DO UPDATE SET rule = EXCLUDED.rule, outcome = "     \
                  "EXCLUDED.outcome")                                                              \
    XX(EDGES_TO_CHILDREN,                                                                          \
       "SELECT e.child, e.parent, e.rule, e.outcome FROM " THESE_SEQS                              \
       "CROSS JOIN LATERAL (SELECT * FROM redrive.edges x WHERE x.parent = u.seq OFFSET 0) e")     \
    XX(EDGES_FROM_PARENTS,                                                                         \
       "SELECT e.child, e.parent, e.rule, e.outcome FROM " THESE_SEQS                              \
       "CROSS JOIN LATERAL (SELECT * FROM redrive.edges x WHERE x.child = u.seq OFFSET 0) e")      \
    XX(PARENTS,                                                                                    \
       "SELECT u.seq, p.id, p.state, octet_length(p.result), "                                     \
       "CASE WHEN octet_length(p.result) <= $2::bigint THEN p.result END FROM " THESE_SEQS         \
       "CROSS JOIN LATERAL (SELECT e.parent, s.id, j.state, r.result FROM "                        \
       "(SELECT x.parent FROM redrive.edges x WHERE x.child = u.seq ORDER BY x.parent OFFSET 0) "  \
       "e CROSS JOIN LATERAL (SELECT id FROM redrive.specs WHERE seq = e.parent LIMIT 1) s "       \
       "CROSS JOIN LATERAL (SELECT state FROM redrive.job_states WHERE seq = e.parent LIMIT 1) j " \
       "LEFT JOIN LATERAL (SELECT result FROM redrive.results WHERE seq = e.parent LIMIT 1) r "    \
       "ON true ORDER BY e.parent LIMIT $3::bigint) p ORDER BY u.at, p.parent")                    \
    XX(JOBS_NAMED, "SELECT " JOB_COLUMNS " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY "   \
                   "AS u(tenant, id, at) JOIN redrive.tenants t ON t.name = u.tenant "             \
                   "CROSS JOIN LATERAL (SELECT * FROM redrive.specs x WHERE x.id = u.id "          \
                   "AND x.tenant_id = t.tenant_id LIMIT 1) s "                                     \
                   "JOIN redrive.job_states j ON j.seq = s.seq" ERROR_JOINS " ORDER BY u.at")      \
    XX(JOBS_READ, "SELECT " JOB_COLUMNS " FROM " THESE_SEQS                                        \
                  "JOIN redrive.job_states j ON j.seq = u.seq LEFT JOIN redrive.specs s "          \
                  "ON s.seq = u.seq" ERROR_JOINS " ORDER BY u.at")                                 \
    XX(HISTORY_READ,                                                                               \
       "SELECT u.at, h.epoch, h.number, h.started_ms, h.ended_ms, h.worker, h.outcome, "           \
       "h.error_class, h.error_code, h.error_type, h.error_message, h.stacktrace, h.delay_ms, "    \
       "h.why, h.next_ms, h.n FROM " THESE_SEQS                                                    \
       "CROSS JOIN LATERAL (SELECT * FROM redrive.history x WHERE x.seq = u.seq OFFSET 0) h "      \
       "UNION ALL SELECT u.at, coalesce(j.epoch, 0), j.attempts, j.started_ms, "                   \
       "CASE WHEN j.state = 5 THEN j.finished_ms END, j.worker, j.state, 0, 0, NULL, NULL, NULL, " \
       "0, 'none', 0, 2147483647 FROM " THESE_SEQS                                                 \
       "CROSS JOIN LATERAL (SELECT * FROM redrive.job_states x WHERE x.seq = u.seq LIMIT 1) j "    \
       "WHERE j.state = 3 OR j.state = 5 AND j.attempts = 1 ORDER BY 1, 16")                       \
    XX(QUEUES,                                                                                     \
       "WITH sums AS (SELECT t.name AS tenant, l.queue, l.tenant_id, sum(y.scheduled) AS s0, "     \
       "sum(y.retrying) AS s1, sum(y.queued) AS s2, sum(y.running) AS s3, sum(y.parked) AS s4, "   \
       "sum(y.completed) AS s5, sum(y.failed) AS s6, sum(y.dead_letter) AS s7, "                   \
       "sum(y.cancelled) AS s8, sum(y.waiting) AS s9 FROM redrive.count_deltas y JOIN "            \
       "redrive.partitions l "                                                                     \
       "ON l.partition_id = y.partition_id JOIN redrive.tenants t ON t.tenant_id = l.tenant_id "   \
       "WHERE $1::text = '' OR t.name = $1::text GROUP BY t.name, l.queue, l.tenant_id), "         \
       "paused AS (SELECT p.tenant, p.key AS queue FROM redrive.shared p WHERE p.kind = 2 "        \
       "AND ($1::text = '' OR p.tenant = $1::text)) "                                              \
       "SELECT coalesce(sums.tenant, paused.tenant) AS tenant, "                                   \
       "coalesce(sums.queue, paused.queue) AS queue, NULL, NULL, NULL, NULL, s0::bigint, "         \
       "s1::bigint, s2::bigint, s3::bigint, s4::bigint, s5::bigint, s6::bigint, s7::bigint, "      \
       "s8::bigint, s9::bigint, paused.tenant IS NOT NULL, "                                       \
       "CASE WHEN s2 > 0 THEN (SELECT s.created_ms FROM redrive.specs s WHERE s.seq = (SELECT "    \
       "min(redrive.oldest_ready(l.partition_id)) FROM redrive.partitions l "                      \
       "WHERE l.tenant_id = sums.tenant_id AND l.queue = sums.queue)) END, "                       \
       "CASE WHEN s0 + s1 > 0 THEN (SELECT min(d.ms) FROM redrive.partitions l CROSS JOIN "        \
       "LATERAL ("                                                                                 \
       "SELECT q.process_after_ms AS ms FROM redrive.job_states q WHERE q.state IN (0, 1) "        \
       "AND q.partition_id = l.partition_id ORDER BY q.process_after_ms LIMIT 1) d "               \
       "WHERE l.tenant_id = sums.tenant_id AND l.queue = sums.queue) END "                         \
       "FROM sums FULL JOIN paused ON paused.tenant = sums.tenant "                                \
       "AND paused.queue = sums.queue WHERE paused.tenant IS NOT NULL "                            \
       "OR s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 <> 0 ORDER BY 1, 2")                    \
    XX(PARTITIONS,                                                                                 \
       "SELECT t.name, l.queue, l.task, NULL, NULL, NULL, sum(y.scheduled)::bigint, "              \
       "sum(y.retrying)::bigint, sum(y.queued)::bigint, sum(y.running)::bigint, "                  \
       "sum(y.parked)::bigint, sum(y.completed)::bigint, sum(y.failed)::bigint, "                  \
       "sum(y.dead_letter)::bigint, "                                                              \
       "sum(y.cancelled)::bigint, sum(y.waiting)::bigint, NULL, NULL, NULL FROM "                  \
       "redrive.count_deltas y JOIN "                                                              \
       "redrive.partitions l "                                                                     \
       "ON l.partition_id = y.partition_id JOIN redrive.tenants t ON t.tenant_id = l.tenant_id "   \
       "WHERE $1::text = '' OR t.name = $1::text GROUP BY t.name, l.queue, l.task "                \
       "HAVING sum(y.scheduled + y.retrying + y.queued + y.running + y.parked + y.completed + "    \
       "y.failed + y.dead_letter + y.cancelled + y.waiting) <> 0 ORDER BY 1, 2, 3")                \
    XX(PARKED_COUNTS,                                                                              \
       "SELECT t.name, NULL, NULL, p.gate, count(*), 0::bigint FROM redrive.parked p "             \
       "JOIN redrive.tenants t ON t.tenant_id = p.tenant_id "                                      \
       "WHERE $1::text = '' OR t.name = $1::text GROUP BY t.name, p.gate "                         \
       "ORDER BY t.name, p.gate")                                                                  \
                                                                                                   \
    XX(RUNNING_COUNTS,                                                                             \
       "SELECT c.tenant, NULL, NULL, c.gate, sum(c.jobs)::bigint, sum(c.used)::bigint FROM ("      \
       "SELECT t.name AS tenant, s.limit_key AS gate, count(*) AS jobs, 0::bigint AS used "        \
       "FROM (SELECT seq FROM redrive.job_states WHERE state = 3 "                                 \
       "ORDER BY lease_check_ms, seq OFFSET 0) j CROSS JOIN LATERAL (SELECT tenant_id, limit_key " \
       "FROM redrive.specs WHERE seq = j.seq OFFSET 0) s "                                         \
       "JOIN redrive.tenants t ON t.tenant_id = s.tenant_id "                                      \
       "WHERE s.limit_key <> '' GROUP BY t.name, s.limit_key "                                     \
       "UNION ALL SELECT tenant, key, 0, used FROM redrive.shared WHERE kind = 1 AND used > 0) c " \
       "WHERE $1::text = '' OR c.tenant = $1::text GROUP BY c.tenant, c.gate "                     \
       "ORDER BY c.tenant, c.gate")                                                                \
    XX(REMEMBERED_KEYS, "SELECT t.name, f.unique_key, f.id, f.state FROM redrive.forever_keys f "  \
                        "JOIN redrive.tenants t ON t.tenant_id = f.tenant_id "                     \
                        "WHERE (t.name, f.unique_key) > ($1::text, $2::text) "                     \
                        "ORDER BY t.name, f.unique_key LIMIT $3::bigint")                          \
    XX(KEYS_HELD, "SELECT EXISTS (SELECT FROM redrive.keys k WHERE k.tenant_id = t.tenant_id "     \
                  "AND k.unique_key = u.key) OR EXISTS (SELECT FROM redrive.forever_keys f WHERE " \
                  "f.tenant_id = t.tenant_id AND f.unique_key = u.key) "                           \
                  "FROM unnest($2::text[]) WITH ORDINALITY AS u(key, n) "                          \
                  "LEFT JOIN redrive.tenants t ON t.name = $1::text ORDER BY u.n")                 \
    XX(KEYS_IMPORT,                                                                                \
       "WITH u AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], "         \
       "$4::int[]) AS u(tenant, unique_key, id, state)), made AS (INSERT INTO redrive.tenants "    \
       "(name) SELECT DISTINCT tenant FROM u ORDER BY 1 ON CONFLICT DO NOTHING "                   \
       "RETURNING tenant_id, name), known AS (SELECT tenant_id, name FROM made UNION ALL "         \
       "SELECT t.tenant_id, t.name FROM redrive.tenants t) "                                       \
       "INSERT INTO redrive.forever_keys SELECT DISTINCT ON (known.tenant_id, u.unique_key) "      \
       "known.tenant_id, u.unique_key, nextval('redrive.job_seq'), u.id, u.state "                 \
       "FROM u JOIN known ON known.name = u.tenant "                                               \
       "WHERE NOT EXISTS (SELECT FROM redrive.keys k WHERE k.tenant_id = known.tenant_id "         \
       "AND k.unique_key = u.unique_key AND k.unique_forever) "                                    \
       "ORDER BY known.tenant_id, u.unique_key ON CONFLICT DO NOTHING")                            \
    XX(KEY_ADD, /* and the key is not remembered any more: its job is here again */                \
       "WITH own AS (SELECT tenant_id, unique_key, seq, unique_forever, id FROM redrive.specs "    \
       "WHERE seq = $1::bigint), gone AS (DELETE FROM redrive.forever_keys f USING own "           \
       "WHERE own.unique_forever AND f.tenant_id = own.tenant_id "                                 \
       "AND f.unique_key = own.unique_key AND f.id = own.id) "                                     \
       "INSERT INTO redrive.keys SELECT tenant_id, unique_key, seq, unique_forever FROM own")      \
    XX(SPEC_REMOVE, "DELETE FROM redrive.specs WHERE seq = $1::bigint")                            \
    XX(BYTES, "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "    \
              "JOIN pg_namespace n ON n.oid = c.relnamespace "                                     \
              "WHERE n.nspname = 'redrive' AND c.relkind = 'r'")

enum statement {
#define XX(name, text) STATEMENT_##name,
    STATEMENT_MAP(XX)
#undef XX
    STATEMENT_COUNT
};

/* ---- Columns --------------------------------------------------------------------------------- */

/* What rows.c reads of a job, in the order of enum row_column. */
#define ROW_COLUMNS                                                                                \
    "j.seq, j.partition_id, j.state, j.priority, j.has_key, j.reason, j.error_class, j.attempts, " \
    "j.epoch, j.deferrals, j.crashes, j.history_n, j.error_n, j.process_after_ms, "                \
    "j.updated_ms, j.started_ms, j.first_started_ms, j.finished_ms, j.paused_ms, "                 \
    "j.paused_since_ms, j.lease_until_ms, j.token, j.permit_generation, j.permit_probe, "          \
    "j.fingerprint, j.deadline_ms, j.by_limit, j.worker, j.parents, j.open_parents, j.children"

enum row_column {
    COLUMN_SEQ,
    COLUMN_PARTITION_ID,
    COLUMN_STATE,
    COLUMN_PRIORITY,
    COLUMN_HAS_KEY,
    COLUMN_REASON,
    COLUMN_ERROR_CLASS,
    COLUMN_ATTEMPTS,
    COLUMN_EPOCH,
    COLUMN_DEFERRALS,
    COLUMN_CRASHES,
    COLUMN_HISTORY_N,
    COLUMN_ERROR_N,
    COLUMN_PROCESS_AFTER,
    COLUMN_UPDATED,
    COLUMN_STARTED,
    COLUMN_FIRST_STARTED,
    COLUMN_FINISHED,
    COLUMN_PAUSED,
    COLUMN_PAUSED_SINCE,
    COLUMN_LEASE_UNTIL,
    COLUMN_TOKEN,
    COLUMN_GENERATION,
    COLUMN_PROBE,
    COLUMN_FINGERPRINT,
    COLUMN_DEADLINE,
    COLUMN_BY_LIMIT,
    COLUMN_WORKER,
    COLUMN_PARENTS,
    COLUMN_OPEN_PARENTS,
    COLUMN_CHILDREN,
    ROW_COLUMN_COUNT,

    /* What read.c adds to it. */
    COLUMN_CREATED = ROW_COLUMN_COUNT,
    COLUMN_MAX_ATTEMPTS,
    COLUMN_UNIQUE_FOREVER,
    COLUMN_ID,
    COLUMN_UNIQUE_KEY,
    COLUMN_BREAKER_KEY,
    COLUMN_LIMIT_KEY,
    COLUMN_USER,
    COLUMN_PROJECT,
    COLUMN_SERVICE,
    COLUMN_POLICY,
    COLUMN_PAYLOAD,
    COLUMN_ERROR_CODE,
    COLUMN_ERROR_TYPE,
    COLUMN_ERROR_MESSAGE,
    COLUMN_STACKTRACE,
    COLUMN_RESULT,
    JOB_COLUMN_COUNT,
};

#define SPEC_NAMES(s)                                                                         \
    s ".created_ms, " s ".max_attempts, " s ".unique_forever, " s ".id, " s ".unique_key, " s \
      ".breaker_key, " s ".limit_key, " s ".user_name, " s ".project, " s ".service, " s ".policy"
#define SPEC_COLUMNS(s) SPEC_NAMES(s) ", " s ".payload"

#define ERROR_COLUMNS "h.error_code, h.error_type, h.error_message, h.stacktrace, r.result"

#define JOB_COLUMNS ROW_COLUMNS ", " SPEC_COLUMNS("s") ", " ERROR_COLUMNS

/* To a job j: its latest error h, its result r. */
#define ERROR_JOINS                                                     \
    " LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n" \
    " LEFT JOIN redrive.results r ON r.seq = j.seq"

#endif
