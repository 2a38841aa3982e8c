/* repair.c - sets jobs aside whose rows cannot be read, and puts right what the tables say of jobs
 * that are not there.
 *
 * Jobs are looked for outside of transactions, some at a time. What is left of them is kept, and
 * written once more in the transaction that removes them: a job of which that is something else was
 * changed meanwhile, and stays.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/remains.h"
#include "store/sqlite/private.h"

#define LOOKED_AT_ONCE 500
#define KEPT_AT_ONCE   50

/* What has a row of a job, and by which column. Unique keys are in `specs` as well. */
static const struct {
    const char *name;
    const char *sql;
} TABLES[] = {
    {"job_states", "SELECT * FROM job_states WHERE seq = ?1"},
    {"specs", "SELECT * FROM specs WHERE seq = ?1"},
    {"results", "SELECT * FROM results WHERE seq = ?1"},
    {"history", "SELECT * FROM history WHERE seq = ?1"},
    {"parked", "SELECT * FROM parked WHERE seq = ?1"},
    {"edges", "SELECT * FROM edges WHERE child = ?1"},
    {"keys", "SELECT k.* FROM keys k WHERE k.seq = ?1 AND NOT EXISTS (SELECT 1 FROM specs s WHERE "
             "s.seq = ?1)"},
};
#define TABLES_COUNT (sizeof TABLES / sizeof TABLES[0])

/* Jobs of which tables have something, but not the one with their state; and those that are gone
 * and that others wait for. */
#define FIND_LOST                                                                            \
    "SELECT seq FROM (SELECT seq FROM specs UNION SELECT seq FROM results UNION SELECT seq " \
    "FROM history UNION SELECT e.parent FROM edges e JOIN job_states c ON c.seq = e.child "  \
    "WHERE e.outcome = 0 AND c.state = 9) WHERE seq > ?1 AND seq NOT IN (SELECT seq FROM "   \
    "job_states) ORDER BY seq"
#define FIND_STATES                                                                              \
    "SELECT j.seq, s.seq FROM job_states j LEFT JOIN specs s ON s.seq = j.seq WHERE j.seq > ?1 " \
    "ORDER BY j.seq LIMIT ?2"

#define IS_LIVE "(state < 5 OR state = 9)"

/* What follows from the rows of jobs, and is not as it follows. */
static const char *const ENTRIES[] = {
    "DELETE FROM keys WHERE seq NOT IN (SELECT seq FROM job_states)",
    "DELETE FROM live_keys WHERE seq NOT IN (SELECT seq FROM job_states WHERE " IS_LIVE ")",
    "INSERT OR IGNORE INTO live_keys SELECT s.tenant_id, s.unique_key, j.seq FROM job_states j "
    "JOIN specs s USING (seq) WHERE " IS_LIVE " AND s.unique_key IS NOT NULL",
    "DELETE FROM parked WHERE seq NOT IN (SELECT seq FROM job_states WHERE state = 4)",
    "DELETE FROM deadlines WHERE seq NOT IN (SELECT seq FROM job_states)",
    "DELETE FROM time_locked WHERE NOT EXISTS (SELECT 1 FROM job_states j WHERE j.seq = "
    "time_locked.seq AND j.state IN (0, 1) AND j.partition_id = time_locked.partition_id AND "
    "j.process_after_ms = time_locked.process_after_ms)",
    "INSERT OR IGNORE INTO time_locked SELECT partition_id, process_after_ms, seq FROM job_states "
    "WHERE state IN (0, 1)",
    "INSERT OR IGNORE INTO job_blocks SELECT DISTINCT partition_id, seq >> 8 FROM job_states",
    "DELETE FROM edges WHERE child NOT IN (SELECT seq FROM job_states)",
    "UPDATE job_states SET error_at = NULL WHERE error_at <> 0 AND error_at NOT IN (SELECT "
    "history_id FROM history)",
};

/* Looks at each job once, however many partitions there are. */
#define NEW_COUNTS                                                                              \
    "(SELECT l.partition_id AS id, ifnull(s0, 0) AS s0, ifnull(s1, 0) AS s1, ifnull(s2, 0) AS " \
    "s2, ifnull(s3, 0) AS s3, ifnull(s4, 0) AS s4, ifnull(s5, 0) AS s5, ifnull(s6, 0) AS s6, "  \
    "ifnull(s7, 0) AS s7, ifnull(s8, 0) AS s8, ifnull(s9, 0) AS s9 FROM partitions l LEFT "     \
    "JOIN (SELECT partition_id, sum(state = 0) AS s0, sum(state = 1) AS s1, sum(state = 2) "    \
    "AS s2, sum(state = 3) AS s3, sum(state = 4) AS s4, sum(state = 5) AS s5, sum(state = 6) "  \
    "AS s6, sum(state = 7) AS s7, sum(state = 8) AS s8, sum(state = 9) AS s9 FROM job_states "  \
    "GROUP BY partition_id) USING (partition_id)) c"
#define RECOUNT                                                                                \
    "UPDATE partitions SET scheduled = s0, retrying = s1, queued = s2, running = s3, parked "  \
    "= s4, completed = s5, failed = s6, dead_letter = s7, cancelled = s8, waiting = s9 "       \
    "FROM " NEW_COUNTS                                                                         \
    " WHERE partition_id = c.id AND (scheduled, retrying, queued, running, parked, "           \
    "completed, failed, dead_letter, cancelled, waiting) <> (s0, s1, s2, s3, s4, s5, s6, s7, " \
    "s8, s9)"

struct repairing {
    struct store *store;
    const struct store_repair *repair;
    struct store_repaired *ret;
    int64_t found[KEPT_AT_ONCE];
    size_t n;
    sqlite3_stmt *tables[TABLES_COUNT];
};

/* ---- What is left of a job ------------------------------------------------------------------- */

static void write_column(struct json_writer *w, sqlite3_stmt *st, int i)
{
    json_key(w, sqlite3_column_name(st, i));
    switch (sqlite3_column_type(st, i)) {
    case SQLITE_INTEGER: json_put_int(w, sqlite3_column_int64(st, i)); break;
    case SQLITE_FLOAT: json_put_double(w, sqlite3_column_double(st, i)); break;
    case SQLITE_NULL: json_put_null(w); break;
    default: {
        const void *bytes = sqlite3_column_blob(st, i);
        remains_put(w, (struct str){bytes, (size_t)sqlite3_column_bytes(st, i)});
    }
    }
}

/* The rows of one table as an array, if there are any. */
static int write_table(struct repairing *r, size_t table, int64_t seq, struct json_writer *w,
                       size_t *ret_rows, struct redrive_err *err)
{
    struct store *store = r->store;
    sqlite3_stmt *st = r->tables[table];
    size_t n = 0;
    int rc;
    bind_int(st, 1, seq);
    while ((rc = sql_step(store, st, err)) > 0) {
        if (n++ == 0)
            json_open_array(w, TABLES[table].name);
        json_begin_object(w);
        for (int i = 0; i < sqlite3_column_count(st); i++)
            write_column(w, st, i);
        json_end_object(w);
    }
    sqlite3_reset(st);
    if (n > 0)
        json_end_array(w);
    *ret_rows += n;
    return rc;
}

/* Adds a line; *ret_rows 0: nothing is left, and no line is added. */
static int write_job(struct repairing *r, int64_t seq, struct buf *lines, size_t *ret_rows,
                     struct redrive_err *err)
{
    const size_t before = lines->len;
    struct json_writer w;
    int rc = 0;
    *ret_rows = 0;
    remains_begin(&w, lines, seq, "its rows cannot be read, or some are gone");
    for (size_t i = 0; rc == 0 && i < TABLES_COUNT; i++)
        rc = write_table(r, i, seq, &w, ret_rows, err);
    if (rc != 0)
        return rc;
    remains_end(&w, lines);
    if (*ret_rows == 0)
        buf_truncate(lines, before);
    return buf_failed(lines) ? err_nomem(err) : 0;
}

static int prepare_tables(struct repairing *r, struct redrive_err *err)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < TABLES_COUNT; i++)
        rc = sqlite3_prepare_v2(r->store->db, TABLES[i].sql, -1, &r->tables[i], NULL);
    return rc == SQLITE_OK ? 0 : sql_error(r->store, rc, err);
}

/* ---- Jobs that cannot be read ---------------------------------------------------------------- */

/* In the transaction that has written the same line as was kept. */
static int remove_rows(struct store *store, int64_t seq, struct redrive_err *err)
{
    static const enum statement STEPS[] = {STATEMENT_KEY_REMOVE, STATEMENT_KEY_FREE,
                                           STATEMENT_PARKED_REMOVE, STATEMENT_EDGES_REMOVE,
                                           STATEMENT_TIME_UNLOCK};
    int rc = 0;
    row_cache_drop(&store->kept, seq);
    for (size_t i = 0; rc == 0 && i < sizeof STEPS / sizeof STEPS[0]; i++)
        rc = sql_run_for(store, STEPS[i], seq, err);
    return rc == 0 ? rows_remove(store, seq, seq, err) : rc;
}

static int remove_unchanged(struct repairing *r, struct str kept, uint64_t *ret_removed,
                            struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf line = BUF_MAX(REMAINS_MAX_BYTES);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        size_t n_rows;
        buf_reset(&line);
        rc = write_job(r, r->found[i], &line, &n_rows, err);
        if (rc != 0 || n_rows == 0 ||
            !memmem(kept.ptr, kept.len, line.data ? line.data : "", line.len))
            continue;
        rc = remove_rows(r->store, r->found[i], err);
        *ret_removed += rc == 0;
    }
    return rc;
}

static int remove_found(struct repairing *r, struct str kept, struct redrive_err *err)
{
    uint64_t removed = 0;
    int64_t now_ms, version;
    int rc = sqlite_begin(r->store, 0, &now_ms, &version, err);
    if (rc != 0)
        return rc;
    rc = remove_unchanged(r, kept, &removed, err);
    if (rc == 0)
        rc = sqlite_commit(r->store, err);
    if (rc == 0)
        r->ret->jobs += removed;
    sqlite_rollback(r->store);
    return rc;
}

static int set_found_aside(struct repairing *r, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf lines = BUF_MAX(REMAINS_MAX_BYTES);
    size_t n_rows;
    int rc = r->n > 0 ? view_begin(r->store, err) : 0;
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        rc = write_job(r, r->found[i], &lines, &n_rows, err);
    view_end(r->store);
    if (rc == 0 && lines.len > 0)
        rc = r->repair->keep(r->repair->ctx, buf_str(&lines), err);
    if (rc == 0 && r->n > 0)
        rc = r->repair->leave(r->repair->ctx, r->found, r->n, err);
    if (rc == 0 && r->n > 0)
        rc = remove_found(r, buf_str(&lines), err);
    r->n = 0;
    return rc;
}

static int add_found(struct repairing *r, int64_t seq, struct redrive_err *err)
{
    r->found[r->n++] = seq;
    return r->n == KEPT_AT_ONCE ? set_found_aside(r, err) : 0;
}

/* Whether a job cannot be read, though the file can; a negative code if that is not known. */
static int is_unreadable(struct store *store, int64_t seq, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    const int rc = sqlite_find(store, &seq, 1, &page, err);
    const int code = sqlite3_errcode(store->db) & 0xff;
    if (rc != REDRIVE_E_CORRUPT || code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return rc;
    if (err)
        *err = (struct redrive_err){0};
    return 1;
}

/* The seqs of some jobs, and which of them have no spec. *ret_n is 0 at the end. */
static int read_seqs(struct store *store, sqlite3_stmt *st, int64_t after, int64_t *seqs,
                     bool *has_spec, size_t *ret_n, struct redrive_err *err)
{
    int rc = 0;
    *ret_n = 0;
    bind_int(st, 1, after);
    while (*ret_n < LOOKED_AT_ONCE && (rc = sql_step(store, st, err)) > 0) {
        seqs[*ret_n] = sqlite3_column_int64(st, 0);
        has_spec[(*ret_n)++] =
            sqlite3_column_count(st) > 1 && sqlite3_column_type(st, 1) != SQLITE_NULL;
    }
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int set_all_aside(struct repairing *r, const char *sql, struct redrive_err *err)
{
    struct store *store = r->store;
    int64_t seqs[LOOKED_AT_ONCE], after = INT64_MIN;
    bool has_spec[LOOKED_AT_ONCE];
    size_t n = 1;
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &st, NULL);
    if (rc != SQLITE_OK)
        return sql_error(store, rc, err);
    if (sqlite3_bind_parameter_count(st) > 1)
        bind_int(st, 2, LOOKED_AT_ONCE);
    while (rc == 0 && n > 0) {
        rc = read_seqs(store, st, after, seqs, has_spec, &n, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            rc = has_spec[i] ? is_unreadable(store, seqs[i], err) : 1;
            if (rc > 0)
                rc = add_found(r, seqs[i], err);
            after = seqs[i];
        }
        if (r->repair->progress)
            r->repair->progress(r->repair->ctx);
    }
    sqlite3_finalize(st);
    return rc == 0 ? set_found_aside(r, err) : rc;
}

/* ---- What follows from the rows -------------------------------------------------------------- */

/* Runs a statement as a transaction of its own. */
static int put_right(struct repairing *r, const char *sql, uint64_t *ret_rows,
                     struct redrive_err *err)
{
    struct store *store = r->store;
    int64_t now_ms, version;
    sqlite3_stmt *st = NULL;
    int rc = sqlite_begin(store, 0, &now_ms, &version, err);
    if (rc != 0)
        return rc;
    rc = sqlite3_prepare_v2(store->db, sql, -1, &st, NULL);
    rc = rc == SQLITE_OK ? sql_run(store, st, err) : sql_error(store, rc, err);
    const int rows = rc == 0 ? sqlite3_changes(store->db) : 0;
    sqlite3_finalize(st);
    if (rc == 0)
        rc = sqlite_commit(store, err);
    if (rc == 0)
        *ret_rows += (uint64_t)rows;
    sqlite_rollback(store);
    if (r->repair->progress)
        r->repair->progress(r->repair->ctx);
    return rc;
}

int sqlite_repair(struct store *store, const struct store_repair *repair,
                  struct store_repaired *ret, struct redrive_err *err)
{
    struct repairing r = {.store = store, .repair = repair, .ret = ret};
    *ret = (struct store_repaired){0};
    int rc = prepare_tables(&r, err);
    if (rc == 0)
        rc = set_all_aside(&r, FIND_STATES, err);
    if (rc == 0)
        rc = set_all_aside(&r, FIND_LOST, err);
    for (size_t i = 0; rc == 0 && i < sizeof ENTRIES / sizeof ENTRIES[0]; i++)
        rc = put_right(&r, ENTRIES[i], &ret->entries, err);
    if (rc == 0)
        rc = put_right(&r, RECOUNT, &ret->counts, err);
    for (size_t i = 0; i < TABLES_COUNT; i++)
        sqlite3_finalize(r.tables[i]);
    return rc;
}
