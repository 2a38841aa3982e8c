/* verify.c - whether the file is whole, and whether its rows agree with each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/sqlite/private.h"

/* A query for rows that contradict others: the seq of a job, or the number of a partition. */
struct question {
    const char *sql;
    const char *finding;
    bool is_partition;
    bool is_final; /* a repair has no answer to it */
};

static const struct question QUESTIONS[] = {
    {"SELECT j.seq FROM job_states j LEFT JOIN specs s ON s.seq = j.seq WHERE s.seq IS NULL",
     "it has no payload"},
    {"SELECT s.seq FROM specs s LEFT JOIN job_states j ON j.seq = s.seq WHERE j.seq IS NULL",
     "it has no state"},
    {"SELECT j.seq FROM job_states j LEFT JOIN partitions l ON l.partition_id = j.partition_id "
     "WHERE l.partition_id IS NULL",
     "it is in no partition"},
    {"SELECT j.seq FROM job_states j LEFT JOIN history h ON h.history_id = j.error_at "
     "WHERE j.error_at <> 0 AND h.history_id IS NULL",
     "its latest error is gone"},
    {"SELECT seq FROM (SELECT seq FROM job_states WHERE state = 4 UNION ALL SELECT seq FROM "
     "parked) "
     "GROUP BY seq HAVING count(*) <> 2",
     "it is parked in one table, and not in the other", .is_final = true},
    {"SELECT j.seq FROM job_states j LEFT JOIN time_locked t ON t.partition_id = j.partition_id "
     "AND t.process_after_ms = j.process_after_ms AND t.seq = j.seq "
     "WHERE j.state IN (0, 1) AND t.seq IS NULL",
     "its time would not come"},
    {"SELECT j.seq FROM job_states j JOIN specs s ON s.seq = j.seq LEFT JOIN live_keys k "
     "ON k.tenant_id = s.tenant_id AND k.unique_key = s.unique_key AND k.seq = j.seq "
     "WHERE (j.state < 5 OR j.state = 9) AND s.unique_key IS NOT NULL AND k.seq IS NULL",
     "it does not hold its unique key"},
    {"SELECT k.seq FROM live_keys k LEFT JOIN job_states j ON j.seq = k.seq "
     "AND (j.state < 5 OR j.state = 9) WHERE j.seq IS NULL",
     "it holds a unique key, and is not there or has ended"},
    {"SELECT j.seq FROM job_states j LEFT JOIN job_blocks b ON b.partition_id = j.partition_id "
     "AND b.block = j.seq >> 8 WHERE b.block IS NULL",
     "lists of its task would not find it"},
    {"SELECT j.seq FROM job_states j WHERE j.state = 9 AND NOT EXISTS "
     "(SELECT 1 FROM edges e WHERE e.child = j.seq AND e.outcome = 0)",
     "it waits, and all that it waits for is decided", .is_final = true},
    {"SELECT e.child FROM edges e JOIN job_states c ON c.seq = e.child "
     "LEFT JOIN job_states p ON p.seq = e.parent "
     "WHERE e.outcome = 0 AND c.state = 9 AND p.seq IS NULL",
     "it waits for a job that is not there"},
    {"SELECT l.partition_id FROM partitions l LEFT JOIN (SELECT partition_id, "
     "sum(state = 0) AS s0, sum(state = 1) AS s1, sum(state = 2) AS s2, sum(state = 3) AS s3, "
     "sum(state = 4) AS s4, sum(state = 5) AS s5, sum(state = 6) AS s6, sum(state = 7) AS s7, "
     "sum(state = 8) AS s8, sum(state = 9) AS s9 FROM job_states GROUP BY partition_id) c "
     "USING (partition_id) WHERE (l.scheduled, l.retrying, l.queued, l.running, l.parked, "
     "l.completed, l.failed, l.dead_letter, l.cancelled, l.waiting) <> (ifnull(s0, 0), "
     "ifnull(s1, 0), ifnull(s2, 0), ifnull(s3, 0), ifnull(s4, 0), ifnull(s5, 0), ifnull(s6, 0), "
     "ifnull(s7, 0), ifnull(s8, 0), ifnull(s9, 0))",
     "its counts are not those of its jobs", .is_partition = true},
};

#define QUESTIONS_COUNT (sizeof QUESTIONS / sizeof QUESTIONS[0])

struct watcher {
    void (*progress)(void *ctx);
    void *ctx;
};

static int call_watcher(void *arg)
{
    const struct watcher *watcher = arg;
    watcher->progress(watcher->ctx);
    return 0;
}

static int damaged(struct redrive_err *err, const char *finding)
{
    err_set(err, REDRIVE_E_CORRUPT, "the store is damaged");
    err_detail(err, "%s", finding);
    err_hint(err, "stop all processes and restore a backup, or save what can be read with "
                  "sqlite3 .recover");
    return REDRIVE_E_CORRUPT;
}

/* The first row of the answer: 1, 0 if there is none, or a negative code. */
static int ask(struct store *store, const char *sql, sqlite3_stmt **ret, struct redrive_err *err)
{
    int rc = sqlite3_prepare_v2(store->db, sql, -1, ret, NULL);
    return rc == SQLITE_OK ? sql_step(store, *ret, err) : sql_error(store, rc, err);
}

bool sql_finding_is_want_of_memory(const char *finding)
{
    static const char CODE[] = "error code=";
    const char *code = strstr(finding, CODE);
    const long number = code ? strtol(code + sizeof CODE - 1, NULL, 10) : SQLITE_OK;
    return number == SQLITE_NOMEM || number == SQLITE_IOERR_NOMEM;
}

/* The first row of the check is 'ok', or the first of its findings. */
static int check_pages(struct store *store, struct redrive_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = ask(store, "PRAGMA quick_check(1)", &st, err);
    const char *verdict = rc > 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (verdict && strcmp(verdict, "ok") != 0)
        rc = sql_finding_is_want_of_memory(verdict) ? err_nomem(err) : damaged(err, verdict);
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

/* A handle that only looks may have a file of another version. */
static bool has_current_tables(struct store *store, int *ret_rc, struct redrive_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = ask(store, "PRAGMA user_version", &st, err);
    const int64_t version = rc > 0 ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    *ret_rc = rc < 0 ? rc : 0;
    return version == STORE_SCRIPTS_COUNT;
}

static int check_rows(struct store *store, const struct question *question, struct redrive_err *err)
{
    char text[160];
    sqlite3_stmt *st = NULL;
    int rc = ask(store, question->sql, &st, err);
    if (rc > 0) {
        (void)snprintf(text, sizeof text, "%s %lld: %s",
                       question->is_partition ? "partition" : "job",
                       (long long)sqlite3_column_int64(st, 0), question->finding);
        rc = damaged(err, text);
        if (!question->is_final)
            err_hint(err, "%s", STORE_REPAIR_HINT);
    }
    sqlite3_finalize(st);
    return rc;
}

int sqlite_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                  struct redrive_err *err)
{
    struct watcher watcher = {progress, ctx};
    int rc = view_begin(store, err);
    if (rc < 0)
        return rc;
    if (progress)
        sqlite3_progress_handler(store->db, STEPS_BETWEEN_CALLS, call_watcher, &watcher);
    rc = check_pages(store, err);
    const bool is_current = rc == 0 && has_current_tables(store, &rc, err);
    for (size_t i = 0; rc == 0 && is_current && i < QUESTIONS_COUNT; i++)
        rc = check_rows(store, &QUESTIONS[i], err);
    sqlite3_progress_handler(store->db, 0, NULL, NULL);
    view_end(store);
    return rc;
}
