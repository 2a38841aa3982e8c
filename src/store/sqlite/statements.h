/* statements.h - every statement that the store keeps prepared, in one place.
 *
 * Numbers in them are those of enum redrive_state: 2 queued, 3 running, 4 parked; below 2
 * time-locked, from 5 on ended (checked in statement.c). Values are always bound, never written
 * into the text; lists, which have many filters, are put together from constant pieces in list.c.
 */
#ifndef STORE_SQLITE_STATEMENTS_H
#define STORE_SQLITE_STATEMENTS_H

/* What a whole job is read from; job_read (read.h) knows the order of the columns. */
#define JOB_COLUMNS                                                                         \
    "j.seq, j.state, j.line_id, j.priority, j.process_after_ms, j.lease_until_ms, "         \
    "j.finished_ms, j.max_attempts, j.attempts, j.parked_by_limit, j.unique_forever, "      \
    "j.unique_key, j.id, j.epoch, j.reason, j.deferrals, j.crashes, j.created_ms, "         \
    "j.updated_ms, j.first_started_ms, j.started_ms, j.held_ms, j.held_since_ms, j.token, " \
    "j.permit_generation, j.permit_probe, j.fingerprint, j.worker, s.deadline_ms, s.sum, "  \
    "s.breaker_key, s.limit_key, s.user, s.project, s.service, s.policy, s.payload, "       \
    "j.error_class, h.error_code, h.error_type, h.error_message, h.stacktrace, r.result"
#define JOB_SIDES                                       \
    " LEFT JOIN specs s ON s.seq = j.seq"               \
    " LEFT JOIN history h ON h.history_id = j.error_at" \
    " LEFT JOIN results r ON r.seq = j.seq"

#define STATEMENT_MAP(XX)                                                                         \
    XX(BEGIN, "BEGIN IMMEDIATE")                                                                  \
    XX(BEGIN_READ, "BEGIN")                                                                       \
    XX(COMMIT, "COMMIT")                                                                          \
    XX(ROLLBACK, "ROLLBACK")                                                                      \
    XX(DATA_VERSION, "PRAGMA data_version")                                                       \
    XX(META_READ, "SELECT next_seq, shared_version FROM meta")                                    \
    XX(META_WRITE, "UPDATE meta SET next_seq = ?1, shared_version = ?2")                          \
                                                                                                  \
    XX(TENANT_ADD, "INSERT INTO tenants (name) VALUES (?1) ON CONFLICT DO NOTHING")               \
    XX(TENANT_FIND, "SELECT tenant_id FROM tenants WHERE name = ?1")                              \
    XX(LINE_ADD, "INSERT INTO lines (tenant_id, queue, task) VALUES "                             \
                 "((SELECT tenant_id FROM tenants WHERE name = ?1), ?2, ?3)")                     \
    XX(LINE_FIND,                                                                                 \
       "SELECT l.line_id, l.tenant_id, t.name, l.queue, l.task FROM tenants t "                   \
       "JOIN lines l USING (tenant_id) WHERE t.name = ?1 AND l.queue = ?2 AND l.task = ?3")       \
    XX(LINE_READ, "SELECT l.line_id, l.tenant_id, t.name, l.queue, l.task FROM lines l "          \
                  "JOIN tenants t USING (tenant_id) WHERE l.line_id = ?1")                        \
    XX(LINE_COUNT,                                                                                \
       "UPDATE lines SET scheduled = scheduled + ?2, retrying = retrying + ?3, "                  \
       "queued = queued + ?4, running = running + ?5, parked = parked + ?6, "                     \
       "completed = completed + ?7, failed = failed + ?8, dead_letter = dead_letter + ?9, "       \
       "cancelled = cancelled + ?10 WHERE line_id = ?1")                                          \
                                                                                                  \
    XX(JOB_ADD, "INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, 0, 0, ?8, ?9, ?10, "  \
                "0, 0, 0, 0, ?11, ?11, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL)")                   \
    XX(SPEC_ADD, "INSERT INTO specs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")            \
    XX(KEY_ADD, "INSERT INTO live_keys VALUES (?1, ?2, ?3)")                                      \
    XX(FIND_ID, "SELECT seq, state, id FROM jobs WHERE tenant_id = ?1 AND id = ?2")               \
    XX(FIND_LIVE_KEY, "SELECT j.seq, j.state, j.id FROM live_keys k JOIN jobs j USING (seq) "     \
                      "WHERE k.tenant_id = ?1 AND k.unique_key = ?2")                             \
    XX(FIND_KEY, "SELECT seq, state, id FROM jobs WHERE tenant_id = ?1 AND unique_key = ?2 "      \
                 "AND unique_forever = ?3 ORDER BY seq LIMIT 1")                                  \
    XX(FIND_GONE_KEY,                                                                             \
       "SELECT seq, state, id FROM forever_keys WHERE tenant_id = ?1 AND unique_key = ?2")        \
                                                                                                  \
    XX(ROW_READ,                                                                                  \
       "SELECT state, line_id, tenant_id, process_after_ms, lease_until_ms, finished_ms, "        \
       "attempts, parked_by_limit, epoch, reason, deferrals, crashes, first_started_ms, "         \
       "started_ms, held_ms, held_since_ms, token, permit_generation, permit_probe, "             \
       "error_class, error_at, fingerprint, unique_key IS NOT NULL FROM jobs WHERE seq = ?1")     \
    XX(ROW_WRITE,                                                                                 \
       "UPDATE jobs SET state = ?2, process_after_ms = ?3, lease_until_ms = ?4, "                 \
       "finished_ms = ?5, attempts = ?6, parked_by_limit = ?7, epoch = ?8, reason = ?9, "         \
       "deferrals = ?10, crashes = ?11, first_started_ms = ?12, started_ms = ?13, "               \
       "held_ms = ?14, held_since_ms = ?15, token = ?16, permit_generation = ?17, "               \
       "permit_probe = ?18, error_class = ?19, error_at = ?20, fingerprint = ?21, "               \
       "updated_ms = ?22, worker = coalesce(?23, worker) WHERE seq = ?1")                         \
    XX(PARKED_ADD,                                                                                \
       "INSERT INTO parked SELECT j.seq, j.tenant_id, coalesce(CASE WHEN ?2 THEN s.limit_key "    \
       "ELSE s.breaker_key END, ''), j.max_attempts - j.attempts FROM jobs j "                    \
       "JOIN specs s USING (seq) WHERE j.seq = ?1")                                               \
    XX(PARKED_REMOVE, "DELETE FROM parked WHERE seq = ?1")                                        \
    XX(KEY_FREE, "DELETE FROM live_keys WHERE (tenant_id, unique_key) = "                         \
                 "(SELECT tenant_id, unique_key FROM jobs WHERE seq = ?1) AND seq = ?1")          \
    XX(KEY_TAKE,                                                                                  \
       "INSERT INTO live_keys SELECT tenant_id, unique_key, seq FROM jobs WHERE seq = ?1 "        \
       "ON CONFLICT DO NOTHING")                                                                  \
    XX(RESULT_WRITE, "INSERT OR REPLACE INTO results VALUES (?1, ?2)")                            \
    XX(HISTORY_ADD,                                                                               \
       "INSERT INTO history SELECT NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "          \
       "worker, ?12, ?13, ?14 FROM jobs WHERE seq = ?1")                                          \
                                                                                                  \
    XX(READY_LINES,                                                                               \
       "SELECT line_id FROM jobs WHERE state = 2 AND line_id > ?1 ORDER BY line_id LIMIT 1")      \
    XX(DUE, "SELECT seq, process_after_ms FROM jobs WHERE state < 2 "                             \
            "ORDER BY process_after_ms, seq LIMIT ?1")                                            \
    XX(LEASED, "SELECT seq, lease_until_ms FROM jobs WHERE state = 3 "                            \
               "ORDER BY lease_until_ms, seq LIMIT ?1")                                           \
    XX(DEADLINE_ADD, "INSERT INTO deadlines VALUES (?1, ?2)")                                     \
    XX(DEADLINE_RENEW, "INSERT OR IGNORE INTO deadlines SELECT deadline_ms, seq FROM specs "      \
                       "WHERE seq = ?1 AND deadline_ms > 0")                                      \
    XX(DEADLINE_REMOVE, "DELETE FROM deadlines WHERE deadline_ms = ?1 AND seq = ?2")              \
    XX(DEADLINES, "SELECT d.seq, d.deadline_ms, coalesce(j.state, 8) FROM deadlines d "           \
                  "LEFT JOIN jobs j USING (seq) ORDER BY d.deadline_ms, d.seq")                   \
    XX(CREDIT_PAUSE,                                                                              \
       "UPDATE jobs SET held_ms = held_ms + ?3 - max(?4, updated_ms), "                           \
       "updated_ms = ?3 WHERE state = 2 AND first_started_ms > 0 AND updated_ms < ?3 "            \
       "AND line_id IN (SELECT l.line_id FROM lines l JOIN tenants t USING (tenant_id) "          \
       "WHERE t.name = ?1 AND l.queue = ?2)")                                                     \
    XX(JOB_READ, "SELECT " JOB_COLUMNS " FROM jobs j" JOB_SIDES " WHERE j.seq = ?1")              \
    XX(PARKED_OLDEST,                                                                             \
       "SELECT " JOB_COLUMNS " FROM parked p CROSS JOIN jobs j ON j.seq = p.seq" JOB_SIDES        \
       " WHERE p.tenant_id = (SELECT tenant_id FROM tenants WHERE name = ?1) AND p.lane = ?2 "    \
       "ORDER BY p.seq LIMIT ?3")                                                                 \
    XX(PARKED_PROBES,                                                                             \
       "SELECT " JOB_COLUMNS " FROM parked p CROSS JOIN jobs j ON j.seq = p.seq" JOB_SIDES        \
       " WHERE p.tenant_id = (SELECT tenant_id FROM tenants WHERE name = ?1) AND p.lane = ?2 "    \
       "ORDER BY p.attempts_left DESC, p.seq LIMIT ?3")                                           \
                                                                                                  \
    XX(FOREVER_KEEP,                                                                              \
       "INSERT INTO forever_keys SELECT tenant_id, unique_key, seq, id, state FROM jobs "         \
       "WHERE seq = ?1 AND unique_forever AND unique_key IS NOT NULL ON CONFLICT DO NOTHING")     \
    XX(JOB_REMOVE, "DELETE FROM jobs WHERE seq = ?1")                                             \
    XX(SPEC_REMOVE, "DELETE FROM specs WHERE seq = ?1")                                           \
    XX(RESULT_REMOVE, "DELETE FROM results WHERE seq = ?1")                                       \
    XX(HISTORY_REMOVE, "DELETE FROM history WHERE seq = ?1")                                      \
    XX(PAYLOAD_WRITE, "UPDATE specs SET payload = ?2, sum = ?3 WHERE seq = ?1")                   \
    XX(ENDED, "SELECT seq, finished_ms FROM jobs WHERE state >= 5 AND state = ?1 "                \
              "AND finished_ms < ?2 ORDER BY finished_ms, seq LIMIT ?3")                          \
                                                                                                  \
    XX(HISTORY_READ,                                                                              \
       "SELECT epoch, number, started_ms, ended_ms, worker, outcome, error_class, error_code, "   \
       "error_type, error_message, stacktrace, delay_ms, why, next_ms FROM history "              \
       "WHERE seq = ?1 ORDER BY history_id")                                                      \
    XX(HISTORY_LATEST,                                                                            \
       "SELECT epoch, attempts, started_ms, finished_ms, worker, state, 0, 0, NULL, NULL, "       \
       "NULL, 0, 'none', 0 FROM jobs WHERE seq = ?1 AND (state = 3 OR state = 5 AND attempts = "  \
       "1)")                                                                                      \
    XX(QUEUES,                                                                                    \
       "SELECT t.name, l.queue, sum(l.scheduled), sum(l.retrying), sum(l.queued), "               \
       "sum(l.running), sum(l.parked), sum(l.completed), sum(l.failed), sum(l.dead_letter), "     \
       "sum(l.cancelled), max(s.key IS NOT NULL) FROM lines l JOIN tenants t USING (tenant_id) "  \
       "LEFT JOIN shared s ON s.kind = 2 AND s.tenant = t.name AND s.key = l.queue "              \
       "WHERE ?1 = '' OR t.name = ?1 GROUP BY t.name, l.queue "                                   \
       "UNION ALL SELECT tenant, key, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM shared s "                \
       "WHERE kind = 2 AND (?1 = '' OR tenant = ?1) AND NOT EXISTS (SELECT 1 FROM lines "         \
       "JOIN tenants t USING (tenant_id) WHERE t.name = s.tenant AND queue = s.key) "             \
       "ORDER BY 1, 2")                                                                           \
    XX(OLDEST_READY,                                                                              \
       "SELECT j.created_ms FROM tenants t JOIN lines l USING (tenant_id) "                       \
       "JOIN jobs j ON j.line_id = l.line_id AND j.state = 2 WHERE t.name = ?1 AND l.queue = ?2 " \
       "ORDER BY j.seq LIMIT 1")                                                                  \
    XX(NEXT_DUE, "SELECT j.process_after_ms FROM jobs j JOIN lines l USING (line_id) "            \
                 "JOIN tenants t ON t.tenant_id = l.tenant_id WHERE j.state < 2 AND t.name = ?1 " \
                 "AND l.queue = ?2 ORDER BY j.process_after_ms LIMIT 1")                          \
                                                                                                  \
    XX(PAUSES, "SELECT tenant, key FROM shared WHERE kind = 2")                                   \
    XX(SHARED_VERSION, "SELECT version FROM shared WHERE kind = ?1 AND tenant = ?2 AND key = ?3") \
    XX(SHARED_WRITE, "INSERT OR REPLACE INTO shared VALUES (?1, ?2, ?3, ?4, ?5)")                 \
    XX(SHARED_REMOVE, "DELETE FROM shared WHERE kind = ?1 AND tenant = ?2 AND key = ?3")          \
    XX(SHARED_LIST, "SELECT tenant, key, version, value FROM shared WHERE kind = ?1 "             \
                    "AND (?2 = '' OR tenant = ?2) ORDER BY tenant, key")                          \
    XX(COUNTER_ADD, "INSERT INTO counters VALUES (?1, ?2, ?3, ?4) "                               \
                    "ON CONFLICT DO UPDATE SET value = value + excluded.value")                   \
    XX(COUNTER_LIST,                                                                              \
       "SELECT tenant, name, label, value FROM counters WHERE ?1 = '' OR tenant = ?1 "            \
       "ORDER BY tenant, name, label")

enum statement {
#define XX(name, text) STATEMENT_##name,
    STATEMENT_MAP(XX)
#undef XX
    STATEMENT_COUNT
};

/* One for each line that a claim looks at; they run side by side. */
#define SQL_READY                                  \
    "SELECT " JOB_COLUMNS " FROM jobs j" JOB_SIDES \
    " WHERE j.state = 2 AND j.line_id = ?1 ORDER BY j.priority DESC, j.seq"

#endif
