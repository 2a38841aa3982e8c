/* statement_parts.h - what statements have in common, and the parts of the long ones. */
#ifndef STORE_POSTGRES_STATEMENT_PARTS_H
#define STORE_POSTGRES_STATEMENT_PARTS_H

#include "store/postgres/statements.h"

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)

/* The seqs of $1, each with its place among them. What belongs to them is joined by LATERAL with a
 * LIMIT or OFFSET, which the server cannot turn into a read of the whole table: it would, before
 * the first ANALYZE. */
#define THESE_SEQS "unnest($1::bigint[]) WITH ORDINALITY AS u(seq, at) "

/* What a scan gives of the jobs that the CTE j has locked: JOB_COLUMNS without the big parts and
 * the texts of the last error. A job whose row of specs is gone is given with NULLs. */
#define SCANNED_JOBS(order)                                             \
    "SELECT " ROW_COLUMNS                                               \
    ", " SPEC_NAMES("s") ", NULL, NULL, NULL, NULL, NULL, NULL FROM j " \
                         "LEFT JOIN redrive.specs s ON s.seq = j.seq ORDER BY " order

/* Shared version and time, which transactions begin with. */
#define CLOCK_MS "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
#define ANSWER   "(SELECT version FROM redrive.shared_version), (SELECT " CLOCK_MS ")"

/* The time of the job after $2 others, the first that is later than $1, how many are not, up to $2,
 * and an ANSWER. */
#define NEXT_TIMES(condition, column)                                                              \
    "SELECT (SELECT j." column " FROM redrive.job_states j WHERE " condition " ORDER BY j." column \
    ", j.seq OFFSET $2::bigint LIMIT 1), "                                                         \
    "(SELECT j." column " FROM redrive.job_states j WHERE " condition " AND j." column             \
    " > $1::bigint ORDER BY j." column ", j.seq LIMIT 1), "                                        \
    "(SELECT count(*) FROM (SELECT 1 FROM redrive.job_states j WHERE " condition " AND j." column  \
    " <= $1::bigint ORDER BY j." column ", j.seq LIMIT $2::bigint) x), " ANSWER

/* The same of leases. Of the leases that are checked first, up to a bound, it looks at their ends,
 * of the others at the time of their check. The last column: some were due for a check, and are
 * longer by now. $1: the time, $2: how many are given. */
#define LEASES_LOOKED_AT "500"
#define NEXT_LEASES                                                                     \
    "WITH first AS MATERIALIZED (SELECT q.seq, q.lease_until_ms, q.lease_check_ms "     \
    "FROM redrive.job_states q WHERE q.state = 3 ORDER BY q.lease_check_ms, q.seq "     \
    "LIMIT $2::bigint + " LEASES_LOOKED_AT "), "                                        \
    "other AS MATERIALIZED (SELECT (SELECT q.lease_check_ms FROM redrive.job_states q " \
    "WHERE q.state = 3 ORDER BY q.lease_check_ms, q.seq "                               \
    "OFFSET $2::bigint + " LEASES_LOOKED_AT " LIMIT 1) AS ms) "                         \
    "SELECT least((SELECT lease_until_ms FROM first ORDER BY lease_until_ms, seq "      \
    "OFFSET $2::bigint LIMIT 1), (SELECT ms FROM other)), "                             \
    "least((SELECT min(lease_until_ms) FROM first WHERE lease_until_ms > $1::bigint), " \
    "(SELECT ms FROM other)), "                                                         \
    "(SELECT count(*) FROM first WHERE lease_until_ms <= $1::bigint), " ANSWER ", "     \
    "EXISTS (SELECT FROM first WHERE lease_check_ms <= $1::bigint "                     \
    "AND lease_until_ms > $1::bigint)"

/* The parked jobs of a gate. */
#define PARKED_JOBS(condition, order)                                                            \
    "SELECT " ROW_COLUMNS " FROM redrive.tenants t JOIN redrive.parked p "                       \
    "ON p.tenant_id = t.tenant_id JOIN redrive.job_states j ON j.seq = p.seq "                   \
    "WHERE t.name = $1::text AND p.gate = $2::text AND j.state = 4" condition " ORDER BY " order \
    " LIMIT $3::bigint FOR UPDATE OF j SKIP LOCKED"

#define IS_TIME_LOCKED "j.state IN (0, 1)"
#define HAS_DEADLINE   "j.deadline_ms IS NOT NULL AND j.state IN (0, 1, 2, 4, 9)"

/* The leader is a row of `shared` of a kind that nothing else has: its version is the time until
 * which it leads, its value the name of the handle. The processes that claim are counted by the
 * last statement of each connection, which begins with WITH `name`. */
#define ELECTION(name)                                                                            \
    "WITH " name " AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint "            \
    "AS ms), kept AS (INSERT INTO redrive.shared AS k (kind, tenant, key, version, value) "       \
    "SELECT 100, '', '', ms + $2::bigint, $1::bytea FROM " name " "                               \
    "WHERE $2::bigint > 0 AND NOT EXISTS (SELECT FROM redrive.shared o WHERE o.kind = 100 "       \
    "AND o.value <> $1::bytea AND o.version BETWEEN ms AND ms + $2::bigint) "                     \
    "ON CONFLICT (kind, tenant, key) DO UPDATE SET version = excluded.version, "                  \
    "value = excluded.value WHERE k.value = excluded.value OR k.version NOT BETWEEN "             \
    "excluded.version - $2::bigint AND excluded.version RETURNING 1) "                            \
    "SELECT EXISTS (SELECT FROM kept), EXISTS (SELECT FROM redrive.job_states WHERE state = 2), " \
    "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "                  \
    "AND query LIKE 'WITH redrive\\_claims %'), set_config('synchronous_commit', 'off', true)"

/* The end of a commit: refused unless the marker of the handle is as expected. $2 is the
 * transaction's time if it was computed, which may be wrong by at most a second. Gives an ANSWER.
 */
#define MARKER(made)                                                                             \
    "WITH made AS (" made " RETURNING 1) SELECT CASE WHEN NOT EXISTS (SELECT FROM made) THEN "   \
    "redrive.refuse('RD002') WHEN abs((extract(epoch FROM now()) * 1000)::bigint - $2::bigint) " \
    "> 1000 THEN redrive.refuse('RD004') ELSE (SELECT version FROM redrive.shared_version) "     \
    "END, " CLOCK_MS

/* Ends the transaction if a statement has not changed as many rows as it must. */
#define OR_REFUSE(change, n)                                                                 \
    "WITH changed AS (" change " RETURNING 1) SELECT redrive.refuse('RD003') WHERE (SELECT " \
    "count(*) FROM changed) <> " n

/* Ends the transaction if a statement has not changed the row that it must; gives the row's sums.
 */
#define SUMS_OR_REFUSE(change, code)                                                              \
    "WITH changed AS (" change                                                                    \
    " RETURNING used, sent, version) SELECT CASE WHEN NOT EXISTS (SELECT FROM "                   \
    "changed) THEN redrive.refuse('" code "') ELSE (SELECT used FROM changed) END, (SELECT sent " \
    "FROM changed), (SELECT version FROM changed)"

/* A row that processes share: $1 to $3 are its name, $4 the version that it must have, $5 and $6
 * what is added to its sums, $7 up to how many slots may be in use (0: any number), $8 its value.
 */
#define OF_SHARED "kind = $1::int AND tenant = $2::text AND key = $3::text"
#define ADD_SUMS  "used = greatest(used + $5::bigint, 0), sent = greatest(sent + $6::bigint, 0)"
#define SUMS_FIT  "($5::bigint <= 0 OR $7::bigint = 0 OR used + $5::bigint <= $7::bigint)"
#define WRITE_SHARED                                                                \
    "UPDATE redrive.shared SET value = $8::bytea, version = version + 1, " ADD_SUMS \
    " WHERE " OF_SHARED " AND version = $4::bigint AND " SUMS_FIT
#define REMOVE_SHARED                                                          \
    "DELETE FROM redrive.shared WHERE " OF_SHARED " AND version = $4::bigint " \
    "AND used + $5::bigint <= 0"

/* Both sums of a job's limit in one number: slots in use above, candidates in 32 bits below; NULL:
 * it has none. */
#define LIMIT_SUMS(job, of_tenant)                                                                 \
    "CASE WHEN " job ".limit_key IS NOT NULL THEN (SELECT g.used * 4294967296 + g.sent FROM "      \
    "redrive.shared g WHERE g.kind = 1 AND g.tenant = " of_tenant " AND g.key = " job ".limit_key" \
    ") END"

/* As ERROR_JOINS; a job that never started has no result, and is not looked up. */
#define READY_JOINS                                                     \
    " LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n" \
    " LEFT JOIN redrive.results r ON r.seq = CASE WHEN j.started_ms IS NOT NULL THEN j.seq END"

/* The best of a partition, of which the CTE wanted (partition_id, tenant_id, rank, turn) has one
 * row w. */
#define READY_OF_PARTITION(most)                                                             \
    "LATERAL (SELECT q.seq, q.priority FROM redrive.job_states q "                           \
    "WHERE q.state = 2 AND q.partition_id = w.partition_id ORDER BY q.priority DESC, q.seq " \
    "LIMIT " most ") c WHERE w.turn <= $6::bigint"

#define READY_NTH                             \
    "row_number() OVER (PARTITION BY w.turn " \
    "ORDER BY w.rank, c.priority DESC, c.seq) AS nth"

/* Candidates of a claim: the best of each partition, every tenant's first, then every tenant's
 * second. $4 how many to look at, $5 how many to give, $6 of how many tenants. */
#define READY_CANDIDATES                                              \
    "cand AS MATERIALIZED ("                                          \
    "SELECT c.seq, w.turn, w.tenant_id, " READY_NTH " FROM wanted w " \
    "CROSS JOIN " READY_OF_PARTITION("$4::bigint") " ORDER BY nth, w.turn LIMIT $4::bigint), "

/* The same where tasks have limits: $7, one for each of the tasks in $3. $8 more of each task are
 * looked at, because others may have locked some. */
#define READY_TASK_LIMIT \
    ", l.task, ($7::bigint[])[array_position($3::text[], l.task)] + $8::bigint AS most"
#define READY_LIMITED_CANDIDATES                                                        \
    "cand AS MATERIALIZED (SELECT y.seq, y.turn, y.tenant_id, y.nth FROM (SELECT x.*, " \
    "row_number() OVER (PARTITION BY x.task ORDER BY x.nth, x.turn) AS of_task FROM ("  \
    "SELECT c.seq, w.turn, w.tenant_id, w.task, w.most, " READY_NTH                     \
    " FROM wanted w CROSS JOIN " READY_OF_PARTITION(                                    \
        "least($4::bigint, w.most)") ") x) y WHERE y.of_task <= y.most "                \
                                     "ORDER BY y.nth, y.turn LIMIT $4::bigint), "

#define READY_JOBS                                                                                \
    "j AS (SELECT q.*, " SPEC_COLUMNS(                                                            \
        "s") ", cand.nth, cand.turn, cand.tenant_id FROM cand "                                   \
             "LEFT JOIN redrive.specs s ON s.seq = cand.seq "                                     \
             "JOIN redrive.job_states q ON q.seq = cand.seq WHERE q.state = 2 "                   \
             "ORDER BY cand.nth, cand.turn LIMIT $5::bigint FOR UPDATE OF q SKIP LOCKED) "        \
             "SELECT " ROW_COLUMNS ", " SPEC_COLUMNS(                                             \
                 "j") ", " ERROR_COLUMNS ", j.tenant_id, (SELECT count(*) FROM "                  \
                      "cand), (SELECT max(turn) FROM wanted), j.turn, " ANSWER ", " LIMIT_SUMS(   \
                          "j",                                                                    \
                          "(SELECT name FROM redrive.tenants "                                    \
                          "WHERE tenant_id = j.tenant_id)") " "                                   \
                                                            "FROM (VALUES (1)) AS one LEFT JOIN " \
                                                            "(j" READY_JOINS                      \
                                                            ") ON true ORDER BY j.nth, j.turn"

#define READY_WANTS                                                                        \
    "(cardinality($2::text[]) = 0 OR l.queue = ANY ($2::text[])) "                         \
    "AND (cardinality($3::text[]) = 0 OR l.task = ANY ($3::text[])) "                      \
    "AND NOT EXISTS (SELECT FROM redrive.shared p WHERE p.kind = 2 AND p.tenant = t.name " \
    "AND p.key = l.queue)"

/* The partitions that a claim wants, with further columns. */
#define READY_PARTITIONS_OF_TENANT(columns)                                                \
    "WITH wanted AS MATERIALIZED (SELECT l.partition_id, l.tenant_id, 1::bigint AS turn, " \
    "coalesce(array_position($2::text[], l.queue), 0) AS rank" columns                     \
    " FROM redrive.tenants t JOIN redrive.partitions l ON l.tenant_id = t.tenant_id "      \
    "WHERE t.name = $1::text AND " READY_WANTS "), "
#define READY_PARTITIONS_IN_TURN(columns)                                                      \
    "WITH RECURSIVE busy(partition_id) AS ((SELECT q.partition_id FROM redrive.job_states q "  \
    "WHERE q.state = 2 ORDER BY q.partition_id, q.priority DESC, q.seq LIMIT 1) UNION ALL "    \
    "SELECT (SELECT q.partition_id FROM redrive.job_states q WHERE q.state = 2 "               \
    "AND q.partition_id > busy.partition_id ORDER BY q.partition_id, q.priority DESC, q.seq "  \
    "LIMIT 1) "                                                                                \
    "FROM busy WHERE busy.partition_id IS NOT NULL), wanted AS MATERIALIZED ("                 \
    "SELECT l.partition_id, l.tenant_id, dense_rank() OVER (ORDER BY l.tenant_id <= $1::int, " \
    "l.tenant_id) AS turn, coalesce(array_position($2::text[], l.queue), 0) AS rank" columns   \
    " FROM busy JOIN redrive.partitions l ON l.partition_id = busy.partition_id "              \
    "JOIN redrive.tenants t ON t.tenant_id = l.tenant_id WHERE " READY_WANTS "), "

/* Seqs follow the order of submission, and ids are taken in the order of ids, so that no two
 * transactions deadlock. */
#define NEW_SPECS                                                                         \
    "WITH u AS MATERIALIZED (SELECT nextval('redrive.job_seq') AS seq, u.tenant_id, "     \
    "u.created_ms, u.max_attempts, u.unique_forever, u.id, u.unique_key, u.breaker_key, " \
    "u.limit_key, u.user_name, u.project, u.service, u.policy, u.payload "                \
    "FROM unnest($1::redrive.specs[]) u) "

/* Removes the jobs of gone (seq, partition_id, state) with all that belongs to them. */
#define REMOVE_JOBS                                                                             \
    "kept AS (INSERT INTO redrive.forever_keys SELECT k.tenant_id, k.unique_key, k.seq, s.id, " \
    "gone.state FROM gone JOIN redrive.specs s ON s.seq = gone.seq "                            \
    "JOIN redrive.keys k ON k.tenant_id = s.tenant_id AND k.unique_key = s.unique_key "         \
    "AND k.seq = s.seq WHERE gone.has_key AND k.unique_forever ON CONFLICT DO NOTHING), "       \
    "no_key AS (DELETE FROM redrive.keys k USING gone, redrive.specs s "                        \
    "WHERE gone.has_key AND s.seq = gone.seq AND k.tenant_id = s.tenant_id "                    \
    "AND k.unique_key = s.unique_key AND k.seq = s.seq), "                                      \
    "no_history AS (DELETE FROM redrive.history h USING gone "                                  \
    "WHERE gone.history_n IS NOT NULL AND h.seq = gone.seq), "                                  \
    "no_result AS (DELETE FROM redrive.results r USING gone WHERE r.seq = gone.seq), "          \
    "no_edges AS (DELETE FROM redrive.edges e USING gone "                                      \
    "WHERE gone.parents IS NOT NULL AND e.child = gone.seq), "                                  \
    "no_spec AS (DELETE FROM redrive.specs s USING gone WHERE s.seq = gone.seq), "              \
    "no_job AS (DELETE FROM redrive.job_states x USING gone WHERE x.seq = gone.seq) "

/* Rows of redrive.job_states u replace those of the same seq. Where the column of the deadline has
 * a token, only if that token still holds the job and it has as many children as the column of the
 * parents says. */
#define WRITE_ROWS                                                                                \
    "UPDATE redrive.job_states j SET state = u.state, reason = u.reason, error_class = "          \
    "u.error_class, attempts = u.attempts, epoch = u.epoch, deferrals = u.deferrals, "            \
    "crashes = u.crashes, history_n = u.history_n, error_n = u.error_n, process_after_ms = "      \
    "u.process_after_ms, updated_ms = u.updated_ms, started_ms = u.started_ms, "                  \
    "first_started_ms = u.first_started_ms, finished_ms = u.finished_ms, paused_ms = "            \
    "u.paused_ms, paused_since_ms = u.paused_since_ms, lease_until_ms = u.lease_until_ms, token " \
    "= "                                                                                          \
    "u.token, permit_generation = u.permit_generation, permit_probe = u.permit_probe, "           \
    "fingerprint = u.fingerprint, by_limit = u.by_limit, worker = u.worker, "                     \
    "lease_check_ms = u.lease_check_ms, open_parents = u.open_parents, "                          \
    "children = u.children, parents = CASE WHEN u.deadline_ms IS NULL THEN u.parents ELSE "       \
    "j.parents END "                                                                              \
    "FROM unnest($1::redrive.job_states[]) u WHERE j.seq = u.seq "                                \
    "AND (u.deadline_ms IS NULL OR j.token = u.deadline_ms "                                      \
    "AND j.children IS NOT DISTINCT FROM u.parents)"

/* The jobs of the only partition that has any, in a single scan, in order; none if other partitions
 * have jobs, or it is paused. Then whether it is the only one, whether it has more, and how long it
 * took to find the first (microseconds). The left joins leave the planner no choice of the order.
 * Jobs are those of a range of the partition; `is_alone` and `has_more` are about the rest of it.
 */
#define READY_ALONE_IN(range, is_alone, has_more)                                                 \
    "WITH alone AS MATERIALIZED (SELECT NOT EXISTS (SELECT FROM redrive.job_states o "            \
    "WHERE o.state = 2 AND o.partition_id < $1::int) AND NOT EXISTS (SELECT FROM "                \
    "redrive.job_states o "                                                                       \
    "WHERE o.state = 2 AND o.partition_id > $1::int) AND NOT EXISTS (SELECT FROM redrive.shared " \
    "p "                                                                                          \
    "WHERE p.kind = 2 AND p.tenant = $2::text AND p.key = $3::text)" is_alone " AS yes) "         \
    "SELECT " JOB_COLUMNS ", (SELECT yes FROM alone), (SELECT EXISTS (SELECT q.seq FROM "         \
    "redrive.job_states q WHERE q.state = 2 AND q.partition_id = $1::int" range " "               \
    "ORDER BY q.priority DESC, q.seq OFFSET $4::bigint LIMIT 1)" has_more "), " ANSWER ", "       \
    "(SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * "                   \
    "1000000)::bigint), " LIMIT_SUMS(                                                             \
        "s",                                                                                      \
        "$2::text") " FROM (VALUES (1)) AS one LEFT JOIN ((SELECT q.* FROM redrive.job_states q " \
                    "WHERE q.state = 2 "                                                          \
                    "AND q.partition_id = $1::int" range " AND (SELECT yes FROM alone) "          \
                    "ORDER BY q.priority DESC, q.seq LIMIT $4::bigint FOR UPDATE SKIP LOCKED) j " \
                    "LEFT JOIN redrive.specs s ON s.seq = j.seq" READY_JOINS ") ON true"

#endif
