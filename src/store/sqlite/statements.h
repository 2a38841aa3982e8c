/* statements.h - every statement that the store keeps prepared, in one place.
 *
 * Numbers in them are those of enum redrive_state: 2 queued, 3 running, 4 parked; below 2
 * time-locked, 5 to 8 ended, 9 waiting (checked in statement.c). Values are always bound, never
 * written into the text; lists, which have many filters, are put together from constant pieces in
 * list.c.
 */
#ifndef STORE_SQLITE_STATEMENTS_H
#define STORE_SQLITE_STATEMENTS_H

/* The columns of a whole job, in the order of enum job_column; job_read (read.c) reads them. A
 * fresh job has epoch 0 and no `packed_status`: it has never started nor been parked, so that all
 * columns after the payload are 0 or NULL, and need not be read. */
#define FRESH_COLUMNS                                                                         \
    "j.seq, j.state, j.partition_id, j.sort_key, j.process_after_ms, j.updated_ms, j.epoch, " \
    "j.packed_status, "                                                                       \
    "s.id, s.priority, s.max_attempts, s.created_ms, s.deadline_ms, s.sum, "                  \
    "s.unique_forever, s.unique_key, s.breaker_key, s.limit_key, s.user, s.project, "         \
    "s.service, s.policy, s.payload"
#define JOB_COLUMNS                                                                    \
    FRESH_COLUMNS ", j.attempts, j.reason, j.started_ms, j.paused_ms, j.error_class, " \
                  "j.error_at, j.fingerprint, j.worker, h.error_code, h.error_type, "  \
                  "h.error_message, h.stacktrace, r.result"
enum job_column {
    COLUMN_SEQ,
    COLUMN_STATE,
    COLUMN_PARTITION_ID,
    COLUMN_SORT_KEY,
    COLUMN_PROCESS_AFTER_MS,
    COLUMN_UPDATED_MS,
    COLUMN_EPOCH,
    COLUMN_PACKED_STATUS,
    COLUMN_ID,
    COLUMN_PRIORITY,
    COLUMN_MAX_ATTEMPTS,
    COLUMN_CREATED_MS,
    COLUMN_DEADLINE_MS,
    COLUMN_SUM,
    COLUMN_UNIQUE_FOREVER,
    COLUMN_UNIQUE_KEY,
    COLUMN_BREAKER_KEY,
    COLUMN_LIMIT_KEY,
    COLUMN_USER,
    COLUMN_PROJECT,
    COLUMN_SERVICE,
    COLUMN_POLICY,
    COLUMN_PAYLOAD,
    COLUMN_ATTEMPTS, /* from here on not of FRESH_COLUMNS */
    COLUMN_REASON,
    COLUMN_STARTED_MS,
    COLUMN_PAUSED_MS,
    COLUMN_ERROR_CLASS,
    COLUMN_ERROR_AT,
    COLUMN_FINGERPRINT,
    COLUMN_WORKER,
    COLUMN_ERROR_CODE,
    COLUMN_ERROR_TYPE,
    COLUMN_ERROR_MESSAGE,
    COLUMN_STACKTRACE,
    COLUMN_RESULT,
};
#define JOB_SPEC " LEFT JOIN specs s ON s.seq = j.seq"
#define JOB_ERROR                                       \
    " LEFT JOIN history h ON h.history_id = j.error_at" \
    " LEFT JOIN results r ON r.seq = iif(j.started_ms > 0, j.seq, NULL)"
#define JOB_SIDES JOB_SPEC JOB_ERROR

/* The sort keys of the queued jobs of a partition. */
#define SORT_KEYS_OF(partition) "BETWEEN " partition " << 32 AND (" partition " << 32 | 4294967295)"

/* The jobs of a block of numbers; see block_of. */
#define SEQ_IN_BLOCK(block) "seq BETWEEN " block " << 8 AND (" block " << 8 | 255)"

/* The parked jobs of a gate. */
#define IN_GATE "tenant_id = (SELECT tenant_id FROM tenants WHERE name = ?1) AND gate = ?2"

/* The jobs of a state that ended before a time, after a place. ?1: bit mask of states. */
#define ENDED_IN(state)                                                                         \
    "SELECT seq, sort_key FROM job_states WHERE state = " state " AND ?1 >> " state " & 1 AND " \
    "sort_key < ?2 AND (sort_key, seq) > (?3, ?4)"

/* A new row of each table, and several of them. OR FAIL: a statement that can be undone by itself
 * would need a journal of its own. */
#define SPEC_ROW         "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define SPEC_ROW_BINDS   17
#define JOB_ROW          "(?, ?, ?, ?, ?, 0, 0, 0, ?, 0, 0, 0, NULL, 0, NULL, ?)"
#define JOB_ROW_BINDS    7
#define ADD_ROWS(row)    row "," row "," row "," row "," row "," row "," row "," row
#define ADD_ROWS_AT_ONCE 8

/* Rows of an edge, and what is done where it is there already. */
#define EDGES_4 "(?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?), (?, ?, ?, ?)"
#define EDGES_8 EDGES_4 ", " EDGES_4
#define OR_REPLACE_EDGE \
    " ON CONFLICT DO UPDATE SET rule = excluded.rule, outcome = excluded.outcome"

#define STATEMENT_MAP(XX)                                                                          \
    XX(BEGIN, "BEGIN IMMEDIATE")                                                                   \
    XX(BEGIN_READ, "BEGIN")                                                                        \
    XX(COMMIT, "COMMIT")                                                                           \
    XX(ROLLBACK, "ROLLBACK")                                                                       \
    XX(DATA_VERSION, "PRAGMA data_version")                                                        \
    XX(META_READ, "SELECT next_seq, shared_version FROM meta")                                     \
    XX(META_WRITE, "UPDATE meta SET next_seq = ?1, shared_version = ?2")                           \
    XX(LAST_SEQ, "SELECT max(seq) FROM specs")                                                     \
    XX(TENANT_ADD, "INSERT INTO tenants (name) VALUES (?1) ON CONFLICT DO NOTHING")                \
    XX(TENANT_FIND, "SELECT tenant_id FROM tenants WHERE name = ?1")                               \
    XX(PARTITION_ADD, "INSERT INTO partitions (tenant_id, queue, task) VALUES "                    \
                      "((SELECT tenant_id FROM tenants WHERE name = ?1), ?2, ?3)")                 \
    XX(PARTITION_FIND,                                                                             \
       "SELECT l.partition_id, l.tenant_id, t.name, l.queue, l.task FROM tenants t "               \
       "JOIN partitions l USING (tenant_id) WHERE t.name = ?1 AND l.queue = ?2 AND l.task = ?3")   \
    XX(PARTITION_READ,                                                                             \
       "SELECT l.partition_id, l.tenant_id, t.name, l.queue, l.task FROM partitions l "            \
       "JOIN tenants t USING (tenant_id) WHERE l.partition_id = ?1")                               \
    XX(PARTITION_COUNT,                                                                            \
       "UPDATE partitions SET scheduled = scheduled + ?2, retrying = retrying + ?3, "              \
       "queued = queued + ?4, running = running + ?5, parked = parked + ?6, "                      \
       "completed = completed + ?7, failed = failed + ?8, dead_letter = dead_letter + ?9, "        \
       "cancelled = cancelled + ?10, waiting = waiting + ?11 WHERE partition_id = ?1")             \
    XX(TENANT_SIZE,                                                                                \
       "SELECT coalesce(sum(n) FILTER (WHERE tenant = ?1), 0), coalesce(sum(n), 0), "              \
       "coalesce(sum(in_states), 0) FROM ("                                                        \
       "SELECT t.name AS tenant, l.scheduled + l.retrying + l.queued + l.running + l.parked + "    \
       "l.completed + l.failed + l.dead_letter + l.cancelled + l.waiting AS n, "                   \
       "(?2 & 1) * l.scheduled + (?2 >> 1 & 1) * l.retrying + (?2 >> 2 & 1) * l.queued + "         \
       "(?2 >> 3 & 1) * l.running + (?2 >> 4 & 1) * l.parked + (?2 >> 5 & 1) * l.completed + "     \
       "(?2 >> 6 & 1) * l.failed + (?2 >> 7 & 1) * l.dead_letter + "                               \
       "(?2 >> 8 & 1) * l.cancelled + (?2 >> 9 & 1) * l.waiting AS in_states "                     \
       "FROM partitions l JOIN tenants t USING (tenant_id))")                                      \
    XX(SPEC_ADD, "INSERT INTO specs VALUES " SPEC_ROW)                                             \
    XX(SPECS_ADD, "INSERT OR FAIL INTO specs VALUES " ADD_ROWS(SPEC_ROW))                          \
    XX(JOB_ADD, "INSERT INTO job_states VALUES " JOB_ROW)                                          \
    XX(JOBS_ADD, "INSERT OR FAIL INTO job_states VALUES " ADD_ROWS(JOB_ROW))                       \
    XX(BLOCK_ADD, "INSERT OR IGNORE INTO job_blocks VALUES (?1, ?2)")                              \
    XX(BLOCK_REMOVE,                                                                               \
       "DELETE FROM job_blocks WHERE partition_id = ?1 AND block = ?2 AND NOT "                    \
       "EXISTS (SELECT 1 FROM job_states WHERE " SEQ_IN_BLOCK("?2") " AND partition_id = ?1)")     \
    XX(KEY_ADD, "INSERT INTO keys VALUES (?1, ?2, ?4, ?3)")                                        \
    XX(LIVE_KEY_ADD, "INSERT INTO live_keys VALUES (?1, ?2, ?3)")                                  \
    XX(FIND_ID, "SELECT s.seq, j.state, s.id FROM specs s JOIN job_states j USING (seq) "          \
                "WHERE s.tenant_id = ?1 AND s.id = ?2")                                            \
    XX(FIND_LIVE_KEY,                                                                              \
       "SELECT j.seq, j.state, s.id FROM live_keys k JOIN job_states j USING (seq) "               \
       "JOIN specs s USING (seq) WHERE k.tenant_id = ?1 AND k.unique_key = ?2")                    \
    XX(FIND_KEY, "SELECT j.seq, j.state, s.id FROM keys k CROSS JOIN job_states j USING (seq) "    \
                 "JOIN specs s USING (seq) WHERE k.tenant_id = ?1 AND k.unique_key = ?2 "          \
                 "AND k.unique_forever = ?3 ORDER BY k.seq LIMIT 1")                               \
    XX(FIND_GONE_KEY,                                                                              \
       "SELECT seq, state, id FROM forever_keys WHERE tenant_id = ?1 AND unique_key = ?2")         \
    XX(KEY_HELD, "SELECT 1 FROM keys WHERE tenant_id = ?1 AND unique_key = ?2 UNION ALL "          \
                 "SELECT 1 FROM forever_keys WHERE tenant_id = ?1 AND unique_key = ?2 LIMIT 1")    \
    XX(ROW_READ,                                                                                   \
       "SELECT j.state, j.sort_key, j.partition_id, j.process_after_ms, j.attempts, j.epoch, "     \
       "j.reason, j.started_ms, j.paused_ms, j.error_class, j.error_at, j.fingerprint, "           \
       "j.packed_status, "                                                                         \
       "s.priority, s.unique_key IS NOT NULL, j.updated_ms FROM job_states j" JOB_SPEC             \
       " WHERE j.seq = ?1")                                                                        \
    XX(ROW_WRITE, "UPDATE job_states SET state = ?2, sort_key = ?3, partition_id = ?4, "           \
                  "process_after_ms = ?5, "                                                        \
                  "attempts = ?6, epoch = ?7, reason = ?8, updated_ms = ?9, started_ms = ?10, "    \
                  "paused_ms = ?11, error_class = ?12, error_at = ?13, fingerprint = ?14, "        \
                  "packed_status = ?15, "                                                          \
                  "worker = coalesce(?16, worker) WHERE seq = ?1")                                 \
    XX(PARKED_ADD,                                                                                 \
       "INSERT INTO parked SELECT j.seq, s.tenant_id, coalesce(CASE WHEN ?2 THEN s.limit_key "     \
       "ELSE s.breaker_key END, ''), s.max_attempts - j.attempts FROM job_states j "               \
       "JOIN specs s USING (seq) WHERE j.seq = ?1")                                                \
    XX(PARKED_REMOVE, "DELETE FROM parked WHERE seq = ?1")                                         \
    XX(TIME_LOCK, "INSERT INTO time_locked VALUES (?1, ?2, ?3)")                                   \
    XX(TIME_UNLOCK, "DELETE FROM time_locked WHERE (partition_id, process_after_ms, seq) = "       \
                    "(SELECT partition_id, process_after_ms, seq FROM job_states WHERE seq = ?1)") \
    XX(KEY_FREE, "DELETE FROM live_keys WHERE (tenant_id, unique_key) = "                          \
                 "(SELECT tenant_id, unique_key FROM specs WHERE seq = ?1) AND seq = ?1")          \
    XX(KEY_TAKE,                                                                                   \
       "INSERT INTO live_keys SELECT tenant_id, unique_key, seq FROM specs WHERE seq = ?1 "        \
       "ON CONFLICT DO NOTHING")                                                                   \
    XX(RESULT_WRITE, "INSERT OR REPLACE INTO results VALUES (?1, ?2)")                             \
    XX(HISTORY_ADD,                                                                                \
       "INSERT INTO history SELECT NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "           \
       "worker, ?12, ?13, ?14 FROM job_states WHERE seq = ?1")                                     \
    XX(HISTORY_IMPORT, "INSERT INTO history VALUES "                                               \
                       "(NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?15, ?12, ?13, ?14)") \
    XX(JOB_IMPORT, "INSERT INTO job_states VALUES "                                                \
                   "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?16, ?15)")      \
    XX(REMEMBERED_KEY_ADD,                                                                         \
       "INSERT INTO forever_keys SELECT tenant_id, ?2, 0, ?3, ?4 FROM tenants t "                  \
       "WHERE t.name = ?1 AND NOT EXISTS (SELECT 1 FROM keys k WHERE k.tenant_id = t.tenant_id "   \
       "AND k.unique_key = ?2 AND k.unique_forever = 1) ON CONFLICT DO NOTHING")                   \
    XX(REMEMBERED_KEY_REMOVE,                                                                      \
       "DELETE FROM forever_keys WHERE tenant_id = ?1 AND unique_key = ?2 AND id = ?3")            \
    XX(REMEMBERED_KEYS,                                                                            \
       "SELECT * FROM (SELECT t.name, k.unique_key, k.id, k.state FROM tenants t "                 \
       "CROSS JOIN forever_keys k USING (tenant_id) WHERE t.name = ?1 AND k.unique_key > ?2 "      \
       "ORDER BY 1, 2 LIMIT ?3) UNION ALL "                                                        \
       "SELECT * FROM (SELECT t.name, k.unique_key, k.id, k.state FROM tenants t "                 \
       "CROSS JOIN forever_keys k USING (tenant_id) WHERE t.name > ?1 "                            \
       "ORDER BY 1, 2 LIMIT ?3) ORDER BY 1, 2 LIMIT ?3")                                           \
    XX(READY_PARTITIONS, "SELECT sort_key >> 32 FROM job_states WHERE state = 2 AND sort_key >= "  \
                         "?1 ORDER BY sort_key LIMIT 1")                                           \
    XX(READY_TURNS,                                                                                \
       "SELECT partition_id FROM partitions WHERE tenant_id BETWEEN ?1 AND ?2 AND queued > 0 "     \
       "ORDER BY tenant_id")                                                                       \
    XX(READY_SAME, /* the one that follows a job in its partition: of its priority, or below it */ \
       "SELECT seq, sort_key FROM job_states WHERE state = 2 AND sort_key = ?1 AND seq > ?2 "      \
       "ORDER BY seq LIMIT 1")                                                                     \
    XX(READY_BELOW, "SELECT seq, sort_key FROM job_states WHERE state = 2 AND sort_key > ?1 AND "  \
                    "sort_key <= ?2 "                                                              \
                    "ORDER BY sort_key, seq LIMIT 1")                                              \
    XX(DUE, "SELECT seq, sort_key FROM job_states WHERE state = 0 UNION ALL "                      \
            "SELECT seq, sort_key FROM job_states WHERE state = 1 ORDER BY 2, 1")                  \
    XX(LEASED, "SELECT seq, sort_key FROM job_states WHERE state = 3 ORDER BY sort_key, seq")      \
    XX(DEADLINE_ADD, "INSERT INTO deadlines VALUES (?1, ?2)")                                      \
    XX(DEADLINE_RENEW, "INSERT OR IGNORE INTO deadlines SELECT deadline_ms, seq FROM specs "       \
                       "WHERE seq = ?1 AND deadline_ms > 0")                                       \
    XX(DEADLINE_REMOVE, "DELETE FROM deadlines WHERE deadline_ms = ?1 AND seq = ?2")               \
    XX(DEADLINES_ANY, "SELECT 1 FROM deadlines LIMIT 1")                                           \
    XX(DEADLINES_REMOVE,                                                                           \
       "DELETE FROM deadlines WHERE (deadline_ms, seq) IN (SELECT deadline_ms, seq FROM specs "    \
       "WHERE seq BETWEEN ?1 AND ?2 AND deadline_ms > 0)")                                         \
    XX(DEADLINES, "SELECT d.seq, d.deadline_ms, coalesce(j.state, 8) FROM deadlines d "            \
                  "LEFT JOIN job_states j USING (seq) ORDER BY d.deadline_ms, d.seq")              \
    XX(QUEUE_PARTITIONS,                                                                           \
       "SELECT l.partition_id FROM tenants t JOIN partitions l USING (tenant_id) "                 \
       "WHERE t.name = ?1 AND l.queue = ?2 AND l.partition_id > ?3 "                               \
       "ORDER BY l.partition_id LIMIT 1")                                                          \
    XX(JOB_READ, "SELECT " JOB_COLUMNS " FROM job_states j" JOB_SIDES " WHERE j.seq = ?1")         \
    XX(JOB_NAMED,                                                                                  \
       "SELECT " JOB_COLUMNS " FROM specs s CROSS JOIN job_states j ON j.seq = s.seq" JOB_ERROR    \
       " WHERE s.tenant_id = (SELECT tenant_id FROM tenants WHERE name = ?1) AND s.id = ?2")       \
    XX(PARKED_OLDEST, "SELECT seq FROM parked WHERE " IN_GATE " ORDER BY seq")                     \
    XX(PARKED_PROBES, "SELECT seq FROM parked WHERE " IN_GATE " ORDER BY attempts_left DESC, seq") \
    XX(PARKED_NEWEST, "SELECT seq FROM parked WHERE " IN_GATE                                      \
                      " AND attempts_left = (SELECT attempts_left FROM parked WHERE " IN_GATE      \
                      " ORDER BY attempts_left DESC LIMIT 1) ORDER BY seq DESC")                   \
    XX(PARKED_COUNT, "SELECT count(*) FROM (SELECT 1 FROM parked WHERE " IN_GATE " LIMIT ?3)")     \
    XX(FOREVER_KEEP,                                                                               \
       "INSERT INTO forever_keys SELECT s.tenant_id, s.unique_key, s.seq, s.id, j.state "          \
       "FROM specs s JOIN job_states j USING (seq) WHERE s.seq = ?1 AND s.unique_forever "         \
       "AND s.unique_key IS NOT NULL ON CONFLICT DO NOTHING")                                      \
    XX(KEY_REMOVE, "DELETE FROM keys WHERE (tenant_id, unique_key) = "                             \
                   "(SELECT tenant_id, unique_key FROM specs WHERE seq = ?1) AND seq = ?1")        \
    XX(JOBS_REMOVE, "DELETE FROM job_states WHERE seq BETWEEN ?1 AND ?2")                          \
    XX(SPECS_REMOVE, "DELETE FROM specs WHERE seq BETWEEN ?1 AND ?2")                              \
    XX(RESULTS_REMOVE, "DELETE FROM results WHERE seq BETWEEN ?1 AND ?2")                          \
    XX(ATTEMPTS_REMOVE, "DELETE FROM history WHERE seq BETWEEN ?1 AND ?2")                         \
    XX(PAYLOAD_WRITE, "UPDATE specs SET payload = ?2, sum = ?3 WHERE seq = ?1")                    \
    XX(ENDED, ENDED_IN("5") " UNION ALL " ENDED_IN("6") " UNION ALL " ENDED_IN(                    \
                  "7") " UNION ALL " ENDED_IN("8") " ORDER BY 2, 1")                               \
    XX(ENDED_BRIEF, /* from the time of ?3 on: scan.c passes over those up to its place */         \
       "SELECT seq, sort_key FROM job_states WHERE state = ?1 AND sort_key < ?2 AND "              \
       "sort_key >= ?3 ORDER BY sort_key, seq")                                                    \
    XX(ENDED_RUN, "SELECT j.seq, j.state, j.sort_key, j.partition_id, s.unique_key IS NOT NULL, "  \
                  "j.packed_status FROM job_states j" JOB_SPEC                                     \
                  " WHERE j.seq BETWEEN ?1 AND ?2 ORDER BY j.seq")                                 \
    XX(EDGE_PUT, "INSERT INTO edges VALUES (?, ?, ?, ?)" OR_REPLACE_EDGE)                          \
    XX(EDGES_PUT,                                                                                  \
       "INSERT INTO edges VALUES " EDGES_8 ", " EDGES_8 ", " EDGES_8 ", " EDGES_8 OR_REPLACE_EDGE) \
    XX(EDGES_TO_CHILDREN,                                                                          \
       "SELECT child, parent, rule, outcome FROM edges INDEXED BY edges_by_parent "                \
       "WHERE parent = ?1 ORDER BY child")                                                         \
    XX(EDGES_FROM_PARENTS,                                                                         \
       "SELECT child, parent, rule, outcome FROM edges WHERE child = ?1 ORDER BY parent")          \
    XX(PARENTS, "SELECT s.id, j.state, r.result FROM edges e "                                     \
                "CROSS JOIN specs s ON s.seq = e.parent "                                          \
                "CROSS JOIN job_states j ON j.seq = e.parent "                                     \
                "LEFT JOIN results r ON r.seq = e.parent "                                         \
                "WHERE e.child = ?1 ORDER BY e.parent LIMIT ?2")                                   \
    XX(EDGES_REMOVE, "DELETE FROM edges WHERE child = ?1")                                         \
    XX(OWN_POLICY, "SELECT policy FROM specs WHERE seq = ?1")                                      \
    XX(HISTORY_READ,                                                                               \
       "SELECT epoch, number, started_ms, ended_ms, worker, outcome, error_class, error_code, "    \
       "error_type, error_message, stacktrace, delay_ms, why, next_ms FROM history "               \
       "WHERE seq = ?1 ORDER BY history_id")                                                       \
    XX(HISTORY_LATEST,                                                                             \
       "SELECT epoch, attempts, started_ms, iif(state = 5, sort_key, 0), worker, state, 0, 0, "    \
       "NULL, "                                                                                    \
       "NULL, "                                                                                    \
       "NULL, 0, 'none', 0 FROM job_states WHERE seq = ?1 AND (state = 3 OR state = 5 AND "        \
       "attempts = "                                                                               \
       "1)")                                                                                       \
    XX(QUEUES,                                                                                     \
       "SELECT t.name, l.queue, NULL, NULL, 0, 0, sum(l.scheduled), sum(l.retrying), "             \
       "sum(l.queued), sum(l.running), sum(l.parked), sum(l.completed), sum(l.failed), "           \
       "sum(l.dead_letter), "                                                                      \
       "sum(l.cancelled), sum(l.waiting), max(s.key IS NOT NULL) FROM partitions l JOIN tenants "  \
       "t USING "                                                                                  \
       "(tenant_id) "                                                                              \
       "LEFT JOIN shared s ON s.kind = 2 AND s.tenant = t.name AND s.key = l.queue "               \
       "WHERE ?1 = '' OR t.name = ?1 GROUP BY t.name, l.queue "                                    \
       "UNION ALL SELECT tenant, key, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 "          \
       "FROM shared s "                                                                            \
       "WHERE kind = 2 AND (?1 = '' OR tenant = ?1) AND NOT EXISTS (SELECT 1 FROM partitions "     \
       "JOIN tenants t USING (tenant_id) WHERE t.name = s.tenant AND queue = s.key) "              \
       "ORDER BY 1, 2")                                                                            \
    XX(PARTITIONS,                                                                                 \
       "SELECT t.name, l.queue, l.task, NULL, 0, 0, l.scheduled, l.retrying, l.queued, "           \
       "l.running, l.parked, l.completed, l.failed, l.dead_letter, l.cancelled, l.waiting, 0 "     \
       "FROM "                                                                                     \
       "partitions l "                                                                             \
       "JOIN tenants t USING (tenant_id) WHERE ?1 = '' OR t.name = ?1 "                            \
       "ORDER BY t.name, l.queue, l.task")                                                         \
    XX(PARKED_COUNTS,                                                                              \
       "SELECT t.name, NULL, NULL, p.gate, p.parked, 0 FROM (SELECT tenant_id, gate, "             \
       "count(*) AS parked FROM parked INDEXED BY parked_oldest GROUP BY tenant_id, gate) p "      \
       "JOIN tenants t USING (tenant_id) WHERE ?1 = '' OR t.name = ?1 ORDER BY t.name, p.gate")    \
    XX(RUNNING_COUNTS,                                                                             \
       "SELECT tenant, NULL, NULL, gate, sum(jobs), sum(used) FROM ("                              \
       "SELECT t.name AS tenant, s.limit_key AS gate, count(*) AS jobs, 0 AS used "                \
       "FROM job_states j INDEXED BY jobs_by_sort_key "                                            \
       "CROSS JOIN specs s USING (seq) CROSS JOIN tenants t ON t.tenant_id = s.tenant_id "         \
       "WHERE j.state = 3 AND s.limit_key <> '' GROUP BY t.name, s.limit_key "                     \
       "UNION ALL SELECT tenant, key, 0, used FROM shared WHERE kind = 1 AND used > 0) "           \
       "WHERE ?1 = '' OR tenant = ?1 GROUP BY tenant, gate ORDER BY tenant, gate")                 \
    XX(OLDEST_READY, /* the first of each priority of each partition: as many steps as there are   \
                      * such                                                                       \
                      */                                                                           \
       "WITH RECURSIVE p (partition_id, sort_key) AS (SELECT l.partition_id, (SELECT j.sort_key "  \
       "FROM job_states j "                                                                        \
       "WHERE j.state = 2 AND j.sort_key " SORT_KEYS_OF(                                           \
           "l.partition_id") " ORDER BY j.sort_key LIMIT 1) "                                      \
                             "FROM tenants t JOIN partitions l USING (tenant_id) WHERE t.name = "  \
                             "?1 AND "                                                             \
                             "l.queue = ?2 "                                                       \
                             "UNION ALL SELECT p.partition_id, (SELECT j.sort_key FROM "           \
                             "job_states j WHERE "                                                 \
                             "j.state = "                                                          \
                             "2 "                                                                  \
                             "AND j.sort_key > p.sort_key AND j.sort_key <= (p.partition_id << "   \
                             "32 | 4294967295) ORDER "                                             \
                             "BY j.sort_key "                                                      \
                             "LIMIT 1) FROM p WHERE p.sort_key IS NOT NULL) "                      \
                             "SELECT created_ms FROM specs WHERE seq = (SELECT min((SELECT j.seq " \
                             "FROM "                                                               \
                             "job_states j "                                                       \
                             "WHERE j.state = 2 AND j.sort_key = p.sort_key ORDER BY j.seq LIMIT " \
                             "1)) FROM p)")                                                        \
    XX(NEXT_DUE, /* one look for each partition */                                                 \
       "SELECT min((SELECT k.process_after_ms FROM time_locked k WHERE k.partition_id = "          \
       "l.partition_id "                                                                           \
       "ORDER BY k.process_after_ms LIMIT 1)) FROM tenants t JOIN partitions l USING (tenant_id) " \
       "WHERE t.name = ?1 AND l.queue = ?2")                                                       \
    XX(PAUSES, "SELECT tenant, key FROM shared WHERE kind = 2")                                    \
    XX(SHARED_STATE, "SELECT version, used, sent FROM shared "                                     \
                     "WHERE kind = ?1 AND tenant = ?2 AND key = ?3")                               \
    XX(SHARED_WRITE, "INSERT OR REPLACE INTO shared (kind, tenant, key, used, sent, version, "     \
                     "value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                 \
    XX(SHARED_COUNT, "UPDATE shared SET used = ?4, sent = ?5 "                                     \
                     "WHERE kind = ?1 AND tenant = ?2 AND key = ?3")                               \
    XX(SHARED_REMOVE, "DELETE FROM shared WHERE kind = ?1 AND tenant = ?2 AND key = ?3")           \
    XX(SHARED_LIST, "SELECT tenant, key, version, value, used, sent FROM shared WHERE kind = ?1 "  \
                    "AND (?2 = '' OR tenant = ?2) ORDER BY tenant, key")                           \
    XX(COUNTER_ADD, "INSERT INTO counters VALUES (?1, ?2, ?3, ?4) "                                \
                    "ON CONFLICT DO UPDATE SET value = value + excluded.value")                    \
    XX(COUNTER_LIST,                                                                               \
       "SELECT tenant, name, label, value FROM counters WHERE ?1 = '' OR tenant = ?1 "             \
       "ORDER BY tenant, name, label")

enum statement {
#define XX(name, text) STATEMENT_##name,
    STATEMENT_MAP(XX)
#undef XX
    STATEMENT_COUNT
};

/* One for each partition that a claim looks at; they run side by side. */
#define SQL_READY                                         \
    "SELECT " FRESH_COLUMNS " FROM job_states j" JOB_SPEC \
    " WHERE j.state = 2 AND j.sort_key BETWEEN ?1 AND ?2 ORDER BY j.sort_key, j.seq"

#endif
