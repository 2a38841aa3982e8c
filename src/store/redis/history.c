/* history.c - the attempts of jobs. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

static void add_attempt(struct attempt_page *page, struct job_attempt attempt)
{
    struct arena *arena = &page->arena;
    attempt.worker = rd_page_dup(arena, attempt.worker);
    attempt.why = rd_page_dup(arena, attempt.why);
    attempt.error.type = rd_page_dup(arena, attempt.error.type);
    attempt.error.message = rd_page_dup(arena, attempt.error.message);
    attempt.error.stacktrace = rd_page_dup(arena, attempt.error.stacktrace);
    page->attempts[page->n++] = attempt;
}

/* ---- Many at once ---------------------------------------------------------------------------- */

/* The jobs that are asked about, as their rows say them. */
struct question {
    struct row row; /* without a partition: there is no such job */
    struct attempt_page *page;
};

/* Reads the rows of the jobs; the reply, which they point into, is the caller's. */
static int read_jobs(struct store *store, const int64_t *seqs, size_t n, struct question *ret,
                     redisReply **ret_reply, struct redrive_err *err)
{
    rd_ask_read(store, "rows");
    rd_ask_text(store, "0");
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    int rc = rd_link_read(store, ret_reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct str bytes = rd_reply_str(*ret_reply, i);
        const struct entry *moved = store->in_transaction ? rd_entry_moved(store, seqs[i]) : NULL;
        if (moved && moved->is_there)
            ret[i].row = moved->now;
        else if (!moved && bytes.len > 0)
            rc = rd_row_unpack(store, seqs[i], bytes, &ret[i].row, err);
    }
    return rc;
}

static void ask_attempts(struct store *store, const struct row *row)
{
    for (uint32_t i = 0; i < row->n_history; i++) {
        const struct beside b = rd_beside_history(row->job.status.seq, i);
        rd_ask_text(store, b.key);
        rd_ask_str(store, rd_beside_field(&b));
    }
}

/* Takes the attempts of one job off the reply. */
static int take_attempts(struct store *store, const struct question *q, const redisReply *reply,
                         size_t *at, struct redrive_err *err)
{
    const size_t first = *at, end = *at + q->row.n_history;
    int rc = 0;
    for (; rc == 0 && *at < end; ++*at) {
        struct job_attempt attempt;
        const struct beside b = rd_beside_history(q->row.job.status.seq, (uint32_t)(*at - first));
        const struct cell *own =
            store->in_transaction ? rd_cell_known(store, str_of(b.key), rd_beside_field(&b)) : NULL;
        const struct str bytes = own ? own->now : rd_reply_str(reply, *at);
        if (bytes.len == 0)
            break; /* the job has gone in between */
        if (rd_attempt_unpack(bytes, &attempt))
            add_attempt(q->page, attempt);
        else
            rc = err_set(err, REDRIVE_E_CORRUPT, "the history of job %lld is damaged",
                         (long long)q->row.job.status.seq);
    }
    *at = end;
    return rc;
}

static int read_attempts(struct store *store, const struct question *questions, size_t n,
                         struct redrive_err *err)
{
    redisReply *reply = NULL;
    bool has_any = false;
    size_t at = 0;
    int rc = 0;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++) {
        ask_attempts(store, &questions[i].row);
        has_any |= questions[i].row.n_history > 0;
    }
    if (has_any)
        rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = take_attempts(store, &questions[i], reply, &at, err);
    if (reply)
        freeReplyObject(reply);
    return rc;
}

static int fill(struct store *store, struct question *questions, size_t n, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct attempt_page *page = questions[i].page;
        const size_t most = (size_t)questions[i].row.n_history + 1;
        if (!questions[i].row.partition)
            continue;
        page->attempts = arena_array(&page->arena, most, sizeof *page->attempts);
        rc = page->attempts ? 0 : err_nomem(err);
    }
    if (rc == 0)
        rc = read_attempts(store, questions, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job_attempt latest;
        if (questions[i].row.partition &&
            transition_attempt_in_row(&questions[i].row.job.status, &latest))
            add_attempt(questions[i].page, latest);
        rc = questions[i].page->arena.failed ? err_nomem(err) : 0;
    }
    return rc;
}

int redis_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                  struct redrive_err *err)
{
    redisReply *reply = NULL;
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    if (rc != 0 || n == 0)
        return rc;
    struct question *questions = calloc(n, sizeof *questions);
    if (!questions)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        questions[i].page = &ret[i];
    rc = read_jobs(store, seqs, n, questions, &reply, err);
    if (rc == 0)
        rc = fill(store, questions, n, err);
    if (reply)
        freeReplyObject(reply);
    free(questions);
    if (rc != 0)
        attempt_pages_release(ret, n);
    return rc;
}
