/* statements.h - every statement that is kept prepared.
 *
 * States stand as numbers: 0 scheduled, 1 retrying, 2 queued, 3 running, 4 parked, from 5 on ended.
 * Arrays are columns of what is written, one item for each row.
 */
#ifndef STORE_POSTGRES_STATEMENTS_H
#define STORE_POSTGRES_STATEMENTS_H

/* What a marker is set to by the question for a commit's outcome, beyond what the handle expects of
 * it: no commit brings it there. */
#define MARKER_NOT_MADE 1000000
#define MARKER_MADE     1000001
#define MARKER_WAS_GONE 1000002

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)

/* What rows.c reads of a job, in the order of enum row_column. */
#define ROW_COLUMNS                                                                           \
    "j.seq, j.line_id, j.state, j.priority, j.has_key, j.reason, j.error_class, j.attempts, " \
    "j.epoch, j.deferrals, j.crashes, j.history_n, j.error_n, j.process_after_ms, "           \
    "j.updated_ms, j.started_ms, j.first_started_ms, j.finished_ms, j.held_ms, "              \
    "j.held_since_ms, j.lease_until_ms, j.token, j.permit_generation, j.permit_probe, "       \
    "j.fingerprint, j.deadline_ms, j.by_limit, j.worker"

enum row_column {
    COLUMN_SEQ,
    COLUMN_LINE_ID,
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
    COLUMN_HELD,
    COLUMN_HELD_SINCE,
    COLUMN_LEASE_UNTIL,
    COLUMN_TOKEN,
    COLUMN_GENERATION,
    COLUMN_PROBE,
    COLUMN_FINGERPRINT,
    COLUMN_DEADLINE,
    COLUMN_BY_LIMIT,
    COLUMN_WORKER,
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

/* To a job j: its spec s, its latest error h, its result r. */
#define ERROR_JOINS                                                     \
    " LEFT JOIN redrive.history h ON h.seq = j.seq AND h.n = j.error_n" \
    " LEFT JOIN redrive.results r ON r.seq = j.seq"
#define JOB_JOINS " JOIN redrive.specs s ON s.seq = j.seq" ERROR_JOINS

/* The seqs of $1, each with its place among them. What belongs to them is joined by LATERAL with a
 * LIMIT or OFFSET, which the server cannot turn into a read of the whole table: it would, before
 * the first ANALYZE. */
#define THESE_SEQS "unnest($1::bigint[]) WITH ORDINALITY AS u(seq, at) "

/* What a scan tells of the jobs that the CTE j has locked, as they now are: JOB_COLUMNS without the
 * big parts and the texts of the last error. */
#define SCANNED_JOBS(order)                                             \
    "SELECT " ROW_COLUMNS                                               \
    ", " SPEC_NAMES("s") ", NULL, NULL, NULL, NULL, NULL, NULL FROM j " \
                         "JOIN redrive.specs s ON s.seq = j.seq ORDER BY " order

/* Shared version and time, for answer.c. */
#define CLOCK_MS "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
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

/* The same of leases: their ends of as many of those that are to be looked at first as are worth
 * the look, and of the others when they are to be looked at. At last whether there are some that
 * were to be looked at and are longer by now. $1: the time, $2: how many are given. */
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

/* The parked jobs of a lane. */
#define PARKED_JOBS(condition, order)                                                            \
    "SELECT " ROW_COLUMNS " FROM redrive.tenants t JOIN redrive.parked p "                       \
    "ON p.tenant_id = t.tenant_id JOIN redrive.job_states j ON j.seq = p.seq "                   \
    "WHERE t.name = $1::text AND p.lane = $2::text AND j.state = 4" condition " ORDER BY " order \
    " LIMIT $3::bigint FOR UPDATE OF j SKIP LOCKED"

#define IS_TIME_LOCKED "j.state IN (0, 1)"
#define HAS_DEADLINE   "j.deadline_ms IS NOT NULL AND j.state IN (0, 1, 2, 4)"

/* Who keeps time is a row of `shared` of a kind that nothing else has; its version is until when,
 * its value who. Who claims is told by the statement that a connection has made last: its first
 * words are `name`. */
#define AROUND(name)                                                                              \
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

/* The end of a commit: made (1 row) if the marker of the handle was as expected; $2 is the unit's
 * time if it was computed, which may be off by a second from when the transaction began. Gives an
 * ANSWER. */
#define MARKER(made)                                                                             \
    "WITH made AS (" made " RETURNING 1) SELECT CASE WHEN NOT EXISTS (SELECT FROM made) THEN "   \
    "redrive.refuse('RD002') WHEN abs((extract(epoch FROM now()) * 1000)::bigint - $2::bigint) " \
    "> 1000 THEN redrive.refuse('RD004') ELSE (SELECT version FROM redrive.shared_version) "     \
    "END, " CLOCK_MS

/* Ends the unit if a statement has not changed as many rows as it must. */
#define OR_REFUSE(change, n)                                                                 \
    "WITH changed AS (" change " RETURNING 1) SELECT redrive.refuse('RD003') WHERE (SELECT " \
    "count(*) FROM changed) <> " n

/* Ends the unit if a statement has not changed the row that it must; gives the row's sums. */
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

/* The best of a line, of which the CTE wanted (line_id, tenant_id, rank, turn) has one row w. */
#define READY_OF_LINE(most)                                                        \
    "LATERAL (SELECT q.seq, q.priority FROM redrive.job_states q "                 \
    "WHERE q.state = 2 AND q.line_id = w.line_id ORDER BY q.priority DESC, q.seq " \
    "LIMIT " most ") c WHERE w.turn <= $6::bigint"

#define READY_NTH                             \
    "row_number() OVER (PARTITION BY w.turn " \
    "ORDER BY w.rank, c.priority DESC, c.seq) AS nth"

/* Candidates of a claim: the best of each line, every tenant's first, then every tenant's second.
 * $4 how many to look at, $5 how many to give, $6 of how many tenants. */
#define READY_CANDIDATES                                              \
    "cand AS MATERIALIZED ("                                          \
    "SELECT c.seq, w.turn, w.tenant_id, " READY_NTH " FROM wanted w " \
    "CROSS JOIN " READY_OF_LINE("$4::bigint") " ORDER BY nth, w.turn LIMIT $4::bigint), "

/* The same where tasks have limits: $7, one for each of the tasks in $3. $8 more of each task are
 * looked at, because others may have locked some. */
#define READY_TASK_LIMIT \
    ", l.task, ($7::bigint[])[array_position($3::text[], l.task)] + $8::bigint AS most"
#define READY_LIMITED_CANDIDATES                                                        \
    "cand AS MATERIALIZED (SELECT y.seq, y.turn, y.tenant_id, y.nth FROM (SELECT x.*, " \
    "row_number() OVER (PARTITION BY x.task ORDER BY x.nth, x.turn) AS of_task FROM ("  \
    "SELECT c.seq, w.turn, w.tenant_id, w.task, w.most, " READY_NTH                     \
    " FROM wanted w CROSS JOIN " READY_OF_LINE(                                         \
        "least($4::bigint, w.most)") ") x) y WHERE y.of_task <= y.most "                \
                                     "ORDER BY y.nth, y.turn LIMIT $4::bigint), "

#define READY_JOBS                                                                                \
    "j AS (SELECT q.*, " SPEC_COLUMNS(                                                            \
        "s") ", cand.nth, cand.turn, cand.tenant_id FROM cand "                                   \
             "JOIN redrive.specs s ON s.seq = cand.seq "                                          \
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

/* The lines that a claim wants, with further columns. */
#define READY_LINES_OF_TENANT(columns)                                                \
    "WITH wanted AS MATERIALIZED (SELECT l.line_id, l.tenant_id, 1::bigint AS turn, " \
    "coalesce(array_position($2::text[], l.queue), 0) AS rank" columns                \
    " FROM redrive.tenants t JOIN redrive.lines l ON l.tenant_id = t.tenant_id "      \
    "WHERE t.name = $1::text AND " READY_WANTS "), "
#define READY_LINES_IN_TURN(columns)                                                         \
    "WITH RECURSIVE busy(line_id) AS ((SELECT q.line_id FROM redrive.job_states q "          \
    "WHERE q.state = 2 ORDER BY q.line_id, q.priority DESC, q.seq LIMIT 1) UNION ALL "       \
    "SELECT (SELECT q.line_id FROM redrive.job_states q WHERE q.state = 2 "                  \
    "AND q.line_id > busy.line_id ORDER BY q.line_id, q.priority DESC, q.seq LIMIT 1) "      \
    "FROM busy WHERE busy.line_id IS NOT NULL), wanted AS MATERIALIZED ("                    \
    "SELECT l.line_id, l.tenant_id, dense_rank() OVER (ORDER BY l.tenant_id <= $1::int, "    \
    "l.tenant_id) AS turn, coalesce(array_position($2::text[], l.queue), 0) AS rank" columns \
    " FROM busy JOIN redrive.lines l ON l.line_id = busy.line_id "                           \
    "JOIN redrive.tenants t ON t.tenant_id = l.tenant_id WHERE " READY_WANTS "), "

/* Seqs follow the order of submission, and ids are taken in the order of ids, so that no two units
 * wait for each other crosswise. */
#define NEW_SPECS                                                                         \
    "WITH u AS MATERIALIZED (SELECT nextval('redrive.job_seq') AS seq, u.tenant_id, "     \
    "u.created_ms, u.max_attempts, u.unique_forever, u.id, u.unique_key, u.breaker_key, " \
    "u.limit_key, u.user_name, u.project, u.service, u.policy, u.payload "                \
    "FROM unnest($1::redrive.specs[]) u) "

/* Takes jobs away with all that belongs to them. gone (seq, line_id, state): which. */
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
    "no_spec AS (DELETE FROM redrive.specs s USING gone WHERE s.seq = gone.seq), "              \
    "no_job AS (DELETE FROM redrive.job_states x USING gone WHERE x.seq = gone.seq) "

/* Rows of redrive.job_states u that take the place of those of the same seq; where a token stands
 * in the place of the deadline, only as long as that token holds the job. */
#define WRITE_ROWS                                                                            \
    "UPDATE redrive.job_states j SET state = u.state, reason = u.reason, error_class = "      \
    "u.error_class, attempts = u.attempts, epoch = u.epoch, deferrals = u.deferrals, "        \
    "crashes = u.crashes, history_n = u.history_n, error_n = u.error_n, process_after_ms = "  \
    "u.process_after_ms, updated_ms = u.updated_ms, started_ms = u.started_ms, "              \
    "first_started_ms = u.first_started_ms, finished_ms = u.finished_ms, held_ms = "          \
    "u.held_ms, held_since_ms = u.held_since_ms, lease_until_ms = u.lease_until_ms, token = " \
    "u.token, permit_generation = u.permit_generation, permit_probe = u.permit_probe, "       \
    "fingerprint = u.fingerprint, by_limit = u.by_limit, worker = u.worker, "                 \
    "lease_check_ms = u.lease_check_ms "                                                      \
    "FROM unnest($1::redrive.job_states[]) u WHERE j.seq = u.seq "                            \
    "AND (u.deadline_ms IS NULL OR j.token = u.deadline_ms)"

/* The jobs of the one line that has any, in a single scan, which gives them in its order; none
 * where it is not the only one, or is paused. Then whether it is, whether it has more, and how long
 * it took to find the first (microseconds). With a left join there is no choice of what is looked
 * up for what. Jobs are those of a range of the line, `is_alone` and `has_more` are about the rest
 * of it. */
#define READY_ALONE_IN(range, is_alone, has_more)                                                 \
    "WITH alone AS MATERIALIZED (SELECT NOT EXISTS (SELECT FROM redrive.job_states o "            \
    "WHERE o.state = 2 AND o.line_id < $1::int) AND NOT EXISTS (SELECT FROM "                     \
    "redrive.job_states o "                                                                       \
    "WHERE o.state = 2 AND o.line_id > $1::int) AND NOT EXISTS (SELECT FROM redrive.shared p "    \
    "WHERE p.kind = 2 AND p.tenant = $2::text AND p.key = $3::text)" is_alone " AS yes) "         \
    "SELECT " JOB_COLUMNS ", (SELECT yes FROM alone), (SELECT EXISTS (SELECT q.seq FROM "         \
    "redrive.job_states q WHERE q.state = 2 AND q.line_id = $1::int" range " "                    \
    "ORDER BY q.priority DESC, q.seq OFFSET $4::bigint LIMIT 1)" has_more "), " ANSWER ", "       \
    "(SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * "                   \
    "1000000)::bigint), " LIMIT_SUMS(                                                             \
        "s",                                                                                      \
        "$2::text") " FROM (VALUES (1)) AS one LEFT JOIN ((SELECT q.* FROM redrive.job_states q " \
                    "WHERE q.state = 2 "                                                          \
                    "AND q.line_id = $1::int" range " AND (SELECT yes FROM alone) "               \
                    "ORDER BY q.priority DESC, q.seq LIMIT $4::bigint FOR UPDATE SKIP LOCKED) j " \
                    "LEFT JOIN redrive.specs s ON s.seq = j.seq" READY_JOINS ") ON true"

#define STATEMENT_MAP(XX)                                                                          \
    XX(BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")                                   \
    XX(COMMIT, "COMMIT")                                                                           \
    XX(ROLLBACK, "ROLLBACK")                                                                       \
    XX(UNIT, "SELECT version, " CLOCK_MS " FROM redrive.shared_version")                           \
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
    /* Beside the unit, because a transaction that notifies keeps all others that do so waiting    \
     * until it is on disk; for the same reason it does not wait for the disk itself. */           \
    XX(NOTIFY, "SELECT set_config('synchronous_commit', 'off', true), "                            \
               "pg_notify('redrive', $1::text)")                                                   \
    XX(LISTEN, "LISTEN redrive")                                                                   \
                                                                                                   \
    XX(AROUND, AROUND("redrive_around"))                                                           \
    XX(AROUND_CLAIMS, AROUND("redrive_claims"))                                                    \
    XX(AROUND_READY, "WITH redrive_claims AS (SELECT 1) "                                          \
                     "SELECT EXISTS (SELECT FROM redrive.job_states WHERE state = 2)")             \
    XX(AROUND_LEAVE, "DELETE FROM redrive.shared WHERE kind = 100 AND value = $1::bytea")          \
                                                                                                   \
    XX(LINE_NAMED, "SELECT line_id, tenant_id FROM redrive.line_named($1::text, $2::text, "        \
                   "$3::text)")                                                                    \
    XX(LINES_KNOWN, "SELECT l.line_id, l.tenant_id, t.name, l.queue, l.task FROM redrive.lines l " \
                    "JOIN redrive.tenants t ON t.tenant_id = l.tenant_id "                         \
                    "WHERE l.line_id = ANY ($1::int[])")                                           \
    XX(TALLIES_ADD, "INSERT INTO redrive.tallies SELECT u.* FROM unnest($1::redrive.tallies[]) u") \
    XX(TALLIES_FOLD, "SELECT redrive.fold_tallies($1::int)")                                       \
    XX(COUNTERS_FOLD, "SELECT redrive.fold_counters($1::int)")                                     \
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
    XX(KEYS_QUEUE_UP, "SELECT pg_advisory_xact_lock(1919247218, x.h) FROM (SELECT DISTINCT "       \
                      "hashtext(k) AS h FROM unnest($1::text[]) AS k ORDER BY h) x")               \
    XX(JOBS_ADD,                                                                                   \
       "SELECT a.taken, a.seq, a.state, a.id FROM unnest($1::redrive.specs[], $2::int[], "         \
       "$3::bigint[], $4::bigint[], $5::int[]) AS u(seq, tenant_id, created_ms, max_attempts, "    \
       "unique_forever, id, unique_key, breaker_key, limit_key, user_name, project, service, "     \
       "policy, payload, line_id, process_after_ms, deadline_ms, priority) "                       \
       "CROSS JOIN LATERAL redrive.add_job(u.tenant_id, u.line_id, $6::bigint, "                   \
       "u.process_after_ms, nullif(u.deadline_ms, 0), u.priority, u.max_attempts, "                \
       "u.unique_forever, u.id, u.unique_key, u.breaker_key, u.limit_key, u.user_name, "           \
       "u.project, u.service, u.policy, u.payload) a")                                             \
                                                                                                   \
    XX(READY_OF_TENANT, READY_LINES_OF_TENANT("") READY_CANDIDATES READY_JOBS)                     \
    XX(READY_OF_TENANT_LIMITED,                                                                    \
       READY_LINES_OF_TENANT(READY_TASK_LIMIT) READY_LIMITED_CANDIDATES READY_JOBS)                \
    XX(READY_IN_TURN, READY_LINES_IN_TURN("") READY_CANDIDATES READY_JOBS)                         \
    XX(READY_IN_TURN_LIMITED,                                                                      \
       READY_LINES_IN_TURN(READY_TASK_LIMIT) READY_LIMITED_CANDIDATES READY_JOBS)                  \
                                                                                                   \
    XX(READY_ALONE, READY_ALONE_IN("", "", ""))                                                    \
    XX(READY_ALONE_FROM,                                                                           \
       READY_ALONE_IN(" AND q.priority = $5::int AND q.seq >= $6::bigint",                         \
                      " AND NOT EXISTS (SELECT FROM redrive.job_states o WHERE o.state = 2 "       \
                      "AND o.line_id = $1::int AND o.priority > $5::int)",                         \
                      " OR EXISTS (SELECT FROM redrive.job_states o WHERE o.state = 2 "            \
                      "AND o.line_id = $1::int AND o.priority < $5::int)"))                        \
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
                   "AND q.lane = $2::text ORDER BY q.attempts_left DESC LIMIT 1)",                 \
                   "p.seq DESC"))                                                                  \
    XX(PARKED_ANY,                                                                                 \
       "SELECT count(*) FROM (SELECT 1 FROM redrive.tenants t JOIN redrive.parked p "              \
       "ON p.tenant_id = t.tenant_id JOIN redrive.job_states j ON j.seq = p.seq WHERE "            \
       "t.name = $1::text "                                                                        \
       "AND p.lane = $2::text AND j.state = 4 LIMIT $3::bigint) AS found")                         \
    XX(READY_IN_QUEUE,                                                                             \
       "SELECT " ROW_COLUMNS " FROM (SELECT l.line_id FROM redrive.tenants t "                     \
       "JOIN redrive.lines l ON l.tenant_id = t.tenant_id WHERE t.name = $1::text "                \
       "AND l.queue = $2::text AND l.line_id >= $3::int ORDER BY l.line_id) l "                    \
       "CROSS JOIN LATERAL (SELECT * FROM redrive.job_states q WHERE q.state = 2 "                 \
       "AND q.line_id = l.line_id AND (l.line_id > $3::int OR $5::bigint = 0 "                     \
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
    XX(REMOVE, "WITH gone AS MATERIALIZED (SELECT seq, line_id, state, has_key, history_n FROM "   \
               "redrive.job_states WHERE seq = ANY ($1::bigint[])), " REMOVE_JOBS                  \
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
    XX(JOBS_NAMED, "SELECT " JOB_COLUMNS " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY "   \
                   "AS u(tenant, id, at) JOIN redrive.tenants t ON t.name = u.tenant "             \
                   "CROSS JOIN LATERAL (SELECT * FROM redrive.specs x WHERE x.id = u.id "          \
                   "AND x.tenant_id = t.tenant_id LIMIT 1) s "                                     \
                   "JOIN redrive.job_states j ON j.seq = s.seq" ERROR_JOINS " ORDER BY u.at")      \
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
       "sum(y.cancelled) AS s8 FROM redrive.tallies y JOIN redrive.lines l "                       \
       "ON l.line_id = y.line_id JOIN redrive.tenants t ON t.tenant_id = l.tenant_id "             \
       "WHERE $1::text = '' OR t.name = $1::text GROUP BY t.name, l.queue, l.tenant_id), "         \
       "paused AS (SELECT p.tenant, p.key AS queue FROM redrive.shared p WHERE p.kind = 2 "        \
       "AND ($1::text = '' OR p.tenant = $1::text)) "                                              \
       "SELECT coalesce(sums.tenant, paused.tenant) AS tenant, "                                   \
       "coalesce(sums.queue, paused.queue) AS queue, NULL, NULL, NULL, NULL, s0::bigint, "         \
       "s1::bigint, s2::bigint, s3::bigint, s4::bigint, s5::bigint, s6::bigint, s7::bigint, "      \
       "s8::bigint, paused.tenant IS NOT NULL, "                                                   \
       "CASE WHEN s2 > 0 THEN (SELECT s.created_ms FROM redrive.specs s WHERE s.seq = (SELECT "    \
       "min(redrive.oldest_ready(l.line_id)) FROM redrive.lines l "                                \
       "WHERE l.tenant_id = sums.tenant_id AND l.queue = sums.queue)) END, "                       \
       "CASE WHEN s0 + s1 > 0 THEN (SELECT min(d.ms) FROM redrive.lines l CROSS JOIN LATERAL ("    \
       "SELECT q.process_after_ms AS ms FROM redrive.job_states q WHERE q.state IN (0, 1) "        \
       "AND q.line_id = l.line_id ORDER BY q.process_after_ms LIMIT 1) d "                         \
       "WHERE l.tenant_id = sums.tenant_id AND l.queue = sums.queue) END "                         \
       "FROM sums FULL JOIN paused ON paused.tenant = sums.tenant "                                \
       "AND paused.queue = sums.queue WHERE paused.tenant IS NOT NULL "                            \
       "OR s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 <> 0 ORDER BY 1, 2")                         \
    XX(LINES,                                                                                      \
       "SELECT t.name, l.queue, l.task, NULL, NULL, NULL, sum(y.scheduled)::bigint, "              \
       "sum(y.retrying)::bigint, sum(y.queued)::bigint, sum(y.running)::bigint, "                  \
       "sum(y.parked)::bigint, sum(y.completed)::bigint, sum(y.failed)::bigint, "                  \
       "sum(y.dead_letter)::bigint, "                                                              \
       "sum(y.cancelled)::bigint, NULL, NULL, NULL FROM redrive.tallies y JOIN redrive.lines l "   \
       "ON l.line_id = y.line_id JOIN redrive.tenants t ON t.tenant_id = l.tenant_id "             \
       "WHERE $1::text = '' OR t.name = $1::text GROUP BY t.name, l.queue, l.task "                \
       "HAVING sum(y.scheduled + y.retrying + y.queued + y.running + y.parked + y.completed + "    \
       "y.failed + y.dead_letter + y.cancelled) <> 0 ORDER BY 1, 2, 3")                            \
    XX(PARKED_COUNTS,                                                                              \
       "SELECT t.name, NULL, NULL, p.lane, count(*), 0::bigint FROM redrive.parked p "             \
       "JOIN redrive.tenants t ON t.tenant_id = p.tenant_id "                                      \
       "WHERE $1::text = '' OR t.name = $1::text GROUP BY t.name, p.lane "                         \
       "ORDER BY t.name, p.lane")                                                                  \
                                                                                                   \
    XX(RUNNING_COUNTS,                                                                             \
       "SELECT c.tenant, NULL, NULL, c.lane, sum(c.jobs)::bigint, sum(c.used)::bigint FROM ("      \
       "SELECT t.name AS tenant, s.limit_key AS lane, count(*) AS jobs, 0::bigint AS used "        \
       "FROM (SELECT seq FROM redrive.job_states WHERE state = 3 "                                 \
       "ORDER BY lease_check_ms, seq OFFSET 0) j CROSS JOIN LATERAL (SELECT tenant_id, limit_key " \
       "FROM redrive.specs WHERE seq = j.seq OFFSET 0) s "                                         \
       "JOIN redrive.tenants t ON t.tenant_id = s.tenant_id "                                      \
       "WHERE s.limit_key <> '' GROUP BY t.name, s.limit_key "                                     \
       "UNION ALL SELECT tenant, key, 0, used FROM redrive.shared WHERE kind = 1 AND used > 0) c " \
       "WHERE $1::text = '' OR c.tenant = $1::text GROUP BY c.tenant, c.lane "                     \
       "ORDER BY c.tenant, c.lane")                                                                \
    XX(HELD_KEYS, "SELECT t.name, f.unique_key, f.id, f.state FROM redrive.forever_keys f "        \
                  "JOIN redrive.tenants t ON t.tenant_id = f.tenant_id "                           \
                  "WHERE (t.name, f.unique_key) > ($1::text, $2::text) "                           \
                  "ORDER BY t.name, f.unique_key LIMIT $3::bigint")                                \
    XX(KEYS_ADOPT,                                                                                 \
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
    XX(KEY_ADD, "INSERT INTO redrive.keys SELECT tenant_id, unique_key, seq, unique_forever "      \
                "FROM redrive.specs WHERE seq = $1::bigint")                                       \
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

#endif
