#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "store/redis/private.h"

/* The attempt that has no row: it runs, or it was a success at once. */
static bool latest_attempt(const struct job *job, struct job_attempt *ret)
{
    const struct job_status *s = &job->status;
    const bool runs = s->state == REDRIVE_STATE_RUNNING;
    if (!runs && !(s->state == REDRIVE_STATE_COMPLETED && s->attempts == 1))
        return false;
    *ret = (struct job_attempt){
        .epoch = s->epoch,
        .number = s->attempts,
        .started_ms = s->started_ms,
        .ended_ms = runs ? 0 : s->finished_ms,
        .worker = s->worker,
        .outcome = s->state,
        .why = str_of(delay_why_name(DELAY_NONE)),
    };
    return true;
}

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

static int read_rows(struct store *store, const struct row *row, struct attempt_page *ret,
                     struct redrive_err *err)
{
    char key[32];
    redisReply *reply = NULL;
    const int64_t seq = row->job.status.seq;
    if (row->n_history == 0)
        return 0;
    snprintf(key, sizeof key, "a:%" PRId64, seq >> 8);
    rd_ask_read(store, "cells");
    for (uint32_t i = 0; i < row->n_history; i++) {
        const char field[] = {(char)seq, (char)(i >> 24), (char)(i >> 16), (char)(i >> 8), (char)i};
        rd_ask_text(store, key);
        rd_ask_str(store, (struct str){field, sizeof field});
    }
    int rc = rd_link_read(store, &reply, err);
    for (uint32_t i = 0; rc == 0 && i < row->n_history; i++) {
        struct job_attempt attempt;
        const struct str bytes = rd_reply_str(reply, i);
        if (bytes.len == 0)
            break; /* the job has gone in between */
        if (rd_attempt_unpack(bytes, &attempt))
            add_attempt(ret, attempt);
        else
            rc = err_set(err, REDRIVE_E_CORRUPT, "the history of job %lld is damaged",
                         (long long)seq);
    }
    if (reply)
        freeReplyObject(reply);
    return rc;
}

static int read_history(struct store *store, int64_t seq, struct str bytes,
                        struct attempt_page *ret, struct redrive_err *err)
{
    struct job_attempt latest;
    struct row row;
    int rc = rd_row_unpack(store, seq, bytes, &row, err);
    if (rc != 0)
        return rc;
    ret->attempts = arena_array(&ret->arena, (size_t)row.n_history + 1, sizeof *ret->attempts);
    if (!ret->attempts)
        return err_nomem(err);
    rc = read_rows(store, &row, ret, err);
    if (rc == 0 && latest_attempt(&row.job, &latest))
        add_attempt(ret, latest);
    return rc == 0 && ret->arena.failed ? err_nomem(err) : rc;
}

int redis_history(struct store *store, int64_t seq, struct attempt_page *ret,
                  struct redrive_err *err)
{
    redisReply *reply = NULL;
    attempt_page_release(ret);
    int rc = rd_unit_write(store, err);
    if (rc != 0 || seq <= 0)
        return rc;
    rd_ask_read(store, "rows");
    rd_ask_text(store, "0");
    rd_ask_int(store, seq);
    rc = rd_link_read(store, &reply, err);
    if (rc == 0 && rd_reply_str(reply, 0).len > 0)
        rc = read_history(store, seq, rd_reply_str(reply, 0), ret, err);
    if (reply)
        freeReplyObject(reply);
    if (rc != 0)
        attempt_page_release(ret);
    return rc;
}
