/* repair.c - sets jobs aside whose rows cannot be read, and puts right what the tables say of jobs
 * that are not there.
 *
 * Jobs are looked for by SQL, some at a time. What is left of them is kept, and read once more,
 * under locks, in the transaction that removes them: a job of which that is something else was
 * changed meanwhile, and stays.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/postgres/private.h"
#include "store/remains.h"

#define KEPT_AT_ONCE 50

/* The seqs of a step, as an array of SQL, and its statements. */
#define SEQS_MAX (KEPT_AT_ONCE * 24 + 64)
#define SQL_MAX  (SEQS_MAX * 2 + 2048)

/* As pg_row_fault and pg_job_read see them; jobs of which tables have something, but not the one
 * with their state; and those that are gone and that others wait for. */
#define FIND                                                                                     \
    "SELECT seq FROM (SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.specs s ON "      \
    "s.seq = j.seq LEFT JOIN redrive.partitions l ON l.partition_id = j.partition_id WHERE "     \
    "s.seq IS NULL OR l.partition_id IS NULL OR j.state NOT BETWEEN 0 AND %d OR "                \
    "j.reason NOT BETWEEN 0 AND %d OR j.error_class NOT BETWEEN 0 AND %d UNION "                 \
    "(SELECT seq FROM redrive.specs UNION SELECT seq FROM redrive.results UNION SELECT seq "     \
    "FROM redrive.history UNION SELECT e.parent FROM redrive.edges e JOIN redrive.job_states c " \
    "ON c.seq = e.child WHERE e.outcome = 0 AND c.state = 9 EXCEPT SELECT seq FROM "             \
    "redrive.job_states)) f WHERE seq > %lld ORDER "                                             \
    "BY seq LIMIT %d"

/* All rows of a job in a table. */
#define ROWS_OF(table, column)                                                             \
    "'" table "', (SELECT jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)) FROM redrive." table \
    " t WHERE t." column " = q.seq)"
#define HAS_ROW(table) "EXISTS (SELECT 1 FROM redrive." table " t WHERE t.seq = q.seq)"
#define REMAINS                                                                                                                                                                   \
    "SELECT q.seq, jsonb_strip_nulls(jsonb_build_object('seq', q.seq, 'why', 'its rows cannot "                                                                                   \
    "be read, or some are gone', " ROWS_OF("job_states", "seq") ", " ROWS_OF(                                                                                                     \
        "specs",                                                                                                                                                                  \
        "seq") ", " ROWS_OF("results",                                                                                                                                            \
                            "seq") ", " ROWS_OF("history",                                                                                                                        \
                                                "seq") ", " ROWS_OF("keys",                                                                                                       \
                                                                    "seq") ", " ROWS_OF("parked",                                                                                 \
                                                                                        "seq") ","                                                                                \
                                                                                               " " ROWS_OF("edges", "child") "))::text FROM unnest(%s) AS q(seq) WHERE " HAS_ROW( \
                                                                                                   "job_states") " OR " HAS_ROW("specs") " OR " HAS_ROW("results") " OR " HAS_ROW("history")

/* Tables with a column `seq`; the rows of a job are removed from all of them. */
static const char *const TABLES[] = {"job_states", "specs",     "results", "history",
                                     "keys",       "live_keys", "parked"};

#define IS_LIVE       "(j.state < 5 OR j.state = 9)"
#define NO_JOB(table) "NOT EXISTS (SELECT 1 FROM redrive.job_states j WHERE j.seq = " table ".seq)"

/* What follows from the rows of jobs, and is not as it follows. */
static const char *const ENTRIES[] = {
    "DELETE FROM redrive.keys k WHERE " NO_JOB("k"),
    "DELETE FROM redrive.live_keys k WHERE NOT EXISTS (SELECT 1 FROM redrive.job_states j WHERE "
    "j.seq = k.seq AND " IS_LIVE ")",
    "INSERT INTO redrive.live_keys SELECT s.tenant_id, s.unique_key, j.seq FROM redrive.job_states "
    "j JOIN redrive.specs s ON s.seq = j.seq WHERE " IS_LIVE " AND j.has_key AND s.unique_key IS "
    "NOT NULL ON CONFLICT DO NOTHING",
    "DELETE FROM redrive.parked p WHERE NOT EXISTS (SELECT 1 FROM redrive.job_states j WHERE "
    "j.seq = p.seq AND j.state = 4)",
    "DELETE FROM redrive.edges e WHERE NOT EXISTS (SELECT 1 FROM redrive.job_states j WHERE j.seq "
    "= e.child)",
    "UPDATE redrive.job_states j SET error_n = NULL WHERE j.error_n IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM redrive.history h WHERE h.seq = j.seq AND h.n = j.error_n)",
    "UPDATE redrive.job_states SET lease_until_ms = coalesce(lease_until_ms, updated_ms), "
    "lease_check_ms = coalesce(lease_until_ms, updated_ms) WHERE state = 3 AND (lease_check_ms IS "
    "NULL OR lease_until_ms IS NULL OR lease_check_ms > lease_until_ms)",
};

/* One statement sees jobs and counts as of one moment. What it adds is the same as long as other
 * transactions move both together. */
#define STATE_COUNTS                                                                     \
    "count(*) FILTER (WHERE state = 0) AS s0, count(*) FILTER (WHERE state = 1) AS s1, " \
    "count(*) FILTER (WHERE state = 2) AS s2, count(*) FILTER (WHERE state = 3) AS s3, " \
    "count(*) FILTER (WHERE state = 4) AS s4, count(*) FILTER (WHERE state = 5) AS s5, " \
    "count(*) FILTER (WHERE state = 6) AS s6, count(*) FILTER (WHERE state = 7) AS s7, " \
    "count(*) FILTER (WHERE state = 8) AS s8, count(*) FILTER (WHERE state = 9) AS s9"
#define RECOUNT                                                                                 \
    "INSERT INTO redrive.count_deltas (partition_id, scheduled, retrying, queued, running, "    \
    "parked, completed, failed, dead_letter, cancelled, waiting) SELECT * FROM (SELECT "        \
    "partition_id, sum(s0) AS d0, sum(s1) AS d1, sum(s2) AS d2, sum(s3) AS d3, sum(s4) AS d4, " \
    "sum(s5) AS d5, sum(s6) AS d6, sum(s7) AS d7, sum(s8) AS d8, sum(s9) AS d9 FROM (SELECT "   \
    "partition_id, " STATE_COUNTS " FROM redrive.job_states GROUP BY partition_id UNION ALL "   \
    "SELECT partition_id, -scheduled, -retrying, -queued, -running, -parked, -completed, "      \
    "-failed, -dead_letter, -cancelled, -waiting FROM redrive.count_deltas) b GROUP BY "        \
    "partition_id) d WHERE (d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) <> (0, 0, 0, 0, 0, 0, 0, "  \
    "0, 0, 0)"

struct repairing {
    struct store *store;
    const struct store_repair *repair;
    struct store_repaired *ret;
    char seqs[SEQS_MAX]; /* of this step, as an array of SQL */
    char sql[SQL_MAX];
};

/* ---- Statements ------------------------------------------------------------------------------ */

/* Without a time limit, with the plans of a large query. */
static const char *const PREPARE[] = {
    "BEGIN",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL enable_hashjoin = on",
    "SET LOCAL enable_sort = on",
    "SET LOCAL enable_mergejoin = on",
};

static int begin_text(struct store *store, struct redrive_err *err)
{
    int rc = pg_is_connected(store) ? 0 : pg_connect(store, true, err);
    for (size_t i = 0; rc == 0 && i < sizeof PREPARE / sizeof PREPARE[0]; i++)
        rc = pg_run_text(store, PREPARE[i], err);
    return rc;
}

/* Commits, unless `rc` says that something has failed. */
static int end_text(struct store *store, int rc, struct redrive_err *err)
{
    if (rc == 0)
        return pg_run_text(store, "COMMIT", err);
    if (pg_is_connected(store))
        (void)pg_run_text(store, "ROLLBACK", NULL);
    return rc;
}

/* Rows that the last statement has changed. */
static uint64_t rows_changed(const struct store *store)
{
    return store->n_results > 0 ? strtoull(PQcmdTuples(store->results[0]), NULL, 10) : 0;
}

static void list_seqs(struct repairing *r, const int64_t *seqs, size_t n)
{
    size_t len = (size_t)snprintf(r->seqs, sizeof r->seqs, "'{");
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(r->seqs + len, sizeof r->seqs - len, "%s%lld", i ? "," : "",
                                (long long)seqs[i]);
    (void)snprintf(r->seqs + len, sizeof r->seqs - len, "}'::bigint[]");
}

/* ---- Jobs that cannot be read ---------------------------------------------------------------- */

static int read_lines(struct repairing *r, struct buf *ret, struct redrive_err *err)
{
    struct store *store = r->store;
    (void)snprintf(r->sql, sizeof r->sql, REMAINS, r->seqs);
    int rc = pg_run_text(store, r->sql, err);
    for (int i = 0; rc == 0 && i < PQntuples(store->results[0]); i++) {
        buf_add(ret, PQgetvalue(store->results[0], i, 1),
                (size_t)PQgetlength(store->results[0], i, 1));
        buf_putc(ret, '\n');
    }
    return rc == 0 && buf_failed(ret) ? err_nomem(err) : rc;
}

/* The seqs whose lines are among those that were kept. */
static size_t choose_unchanged(const struct store *store, struct str kept, int64_t *ret)
{
    const PGresult *lines = store->results[0];
    size_t n = 0;
    for (int i = 0; i < PQntuples(lines); i++)
        if (memmem(kept.ptr, kept.len, PQgetvalue(lines, i, 1), (size_t)PQgetlength(lines, i, 1)))
            ret[n++] = pg_get_int(lines, i, 0);
    return n;
}

static int remove_chosen(struct repairing *r, size_t n, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && n > 0 && i < sizeof TABLES / sizeof TABLES[0]; i++) {
        (void)snprintf(r->sql, sizeof r->sql, "DELETE FROM redrive.%s WHERE seq = ANY (%s)",
                       TABLES[i], r->seqs);
        rc = pg_run_text(r->store, r->sql, err);
    }
    (void)snprintf(r->sql, sizeof r->sql, "DELETE FROM redrive.edges WHERE child = ANY (%s)",
                   r->seqs);
    return rc == 0 && n > 0 ? pg_run_text(r->store, r->sql, err) : rc;
}

static int remove_found(struct repairing *r, struct str kept, struct redrive_err *err)
{
    int64_t chosen[KEPT_AT_ONCE];
    size_t n = 0;
    int rc = begin_text(r->store, err);
    (void)snprintf(r->sql, sizeof r->sql,
                   "SELECT 1 FROM redrive.job_states WHERE seq = ANY (%s) ORDER BY seq FOR UPDATE",
                   r->seqs);
    if (rc == 0)
        rc = pg_run_text(r->store, r->sql, err);
    (void)snprintf(r->sql, sizeof r->sql, REMAINS, r->seqs);
    if (rc == 0)
        rc = pg_run_text(r->store, r->sql, err);
    if (rc == 0) {
        n = choose_unchanged(r->store, kept, chosen);
        list_seqs(r, chosen, n);
        rc = remove_chosen(r, n, err);
    }
    rc = end_text(r->store, rc, err);
    if (rc == 0)
        r->ret->jobs += n;
    return rc;
}

static int find_some(struct repairing *r, int64_t after, int64_t ret[KEPT_AT_ONCE], size_t *ret_n,
                     struct redrive_err *err)
{
    struct store *store = r->store;
    *ret_n = 0;
    int rc = begin_text(store, err);
    (void)snprintf(r->sql, sizeof r->sql, FIND, REDRIVE_STATE_COUNT - 1, REDRIVE_REASON_COUNT - 1,
                   REDRIVE_CLASS_COUNT - 1, (long long)after, KEPT_AT_ONCE);
    if (rc == 0)
        rc = pg_run_text(store, r->sql, err);
    for (int i = 0; rc == 0 && i < PQntuples(store->results[0]) && i < KEPT_AT_ONCE; i++)
        ret[(*ret_n)++] = pg_get_int(store->results[0], i, 0);
    return end_text(store, rc, err);
}

static int set_some_aside(struct repairing *r, const int64_t *seqs, size_t n,
                          struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf lines = BUF_MAX(REMAINS_MAX_BYTES);
    list_seqs(r, seqs, n);
    int rc = begin_text(r->store, err);
    if (rc == 0)
        rc = read_lines(r, &lines, err);
    rc = end_text(r->store, rc, err);
    if (rc == 0 && lines.len > 0)
        rc = r->repair->keep(r->repair->ctx, buf_str(&lines), err);
    if (rc == 0)
        rc = r->repair->leave(r->repair->ctx, seqs, n, err);
    return rc == 0 ? remove_found(r, buf_str(&lines), err) : rc;
}

/* ---- The slot -------------------------------------------------------------------------------- */

/* Runs a statement as a transaction of its own. */
static int put_right(struct repairing *r, const char *sql, uint64_t *ret_rows,
                     struct redrive_err *err)
{
    int rc = begin_text(r->store, err);
    if (rc == 0)
        rc = pg_run_text(r->store, sql, err);
    const uint64_t rows = rc == 0 ? rows_changed(r->store) : 0;
    rc = end_text(r->store, rc, err);
    if (rc == 0)
        *ret_rows += rows;
    if (r->repair->progress)
        r->repair->progress(r->repair->ctx);
    return rc;
}

int postgres_repair(struct store *store, const struct store_repair *repair,
                    struct store_repaired *ret, struct redrive_err *err)
{
    struct repairing r = {.store = store, .repair = repair, .ret = ret};
    int64_t seqs[KEPT_AT_ONCE], after = INT64_MIN + 1;
    size_t n = KEPT_AT_ONCE;
    int rc = 0;
    *ret = (struct store_repaired){0};
    while (rc == 0 && n == KEPT_AT_ONCE) {
        rc = find_some(&r, after, seqs, &n, err);
        if (rc == 0 && n > 0) {
            rc = set_some_aside(&r, seqs, n, err);
            after = seqs[n - 1];
        }
        if (repair->progress)
            repair->progress(repair->ctx);
    }
    for (size_t i = 0; rc == 0 && i < sizeof ENTRIES / sizeof ENTRIES[0]; i++)
        rc = put_right(&r, ENTRIES[i], &ret->entries, err);
    return rc == 0 ? put_right(&r, RECOUNT, &ret->counts, err) : rc;
}
