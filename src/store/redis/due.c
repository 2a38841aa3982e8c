/* due.c - jobs whose time has come: due, expired, overdue, or to be let out of a lane. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* Any number may be asked for; a request has its bounds. Who is given less is told that there is
 * more. */
#define AT_ONCE_MAX ((size_t)4096)

static size_t at_once(size_t limit)
{
    return limit < AT_ONCE_MAX ? limit : AT_ONCE_MAX;
}

/* Whoever keeps time goes by what processes share, and may have been woken because it has changed.
 */
static int read_due_now(struct store *store, redisReply **ret, struct redrive_err *err)
{
    int rc = rd_link_read(store, ret, err);
    return rc == 0 ? rd_shared_check(store, err) : rc;
}

int redis_promote_due(struct store *store, size_t limit, size_t *ret_moved, int64_t *ret_next_ms,
                      struct redrive_err *err)
{
    redisReply *reply = NULL;
    size_t moved = 0;
    int64_t next_ms = 0;
    limit = at_once(limit);
    int rc = rd_unit_needed(store, err);
    if (rc != 0)
        return rc;
    rd_ask_read(store, "locked");
    rd_ask_int(store, rd_score_of(store->now_ms));
    rd_ask_int(store, (int64_t)limit);
    rc = read_due_now(store, &reply, err);
    for (size_t at = 0; rc == 0 && at < reply->elements; at += 2) {
        /* What follows one that the unit has moved, and is the last, is no earlier. */
        if (rd_entry_moved(store, rd_reply_int(reply, at))) {
            struct row row;
            rc = rd_row_unpack(store, 0, rd_reply_str(reply, at + 1), &row, err);
            next_ms = row.job.status.process_after_ms;
            continue;
        }
        struct entry *e =
            rd_entry_learn(store, rd_reply_int(reply, at), rd_reply_str(reply, at + 1), err);
        struct move_result result;
        if (!e) {
            rc = REDRIVE_E_CORRUPT;
            break;
        }
        next_ms = e->now.job.status.process_after_ms;
        if (moved == limit || next_ms > store->now_ms)
            break;
        rc = rd_entry_move(store, e, &(struct move){e->seq, MOVE_PROMOTE}, &result, err);
        moved += result.code == 0;
        next_ms = 0;
    }
    if (reply)
        freeReplyObject(reply);
    *ret_moved = moved;
    *ret_next_ms = next_ms;
    return rc;
}

/* The jobs of a sorted set up to the unit's time, as `time_of` tells it; what is next. */
static int read_due(struct store *store, const char *set, int64_t (*time_of)(const struct job *job),
                    size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                    struct redrive_err *err)
{
    struct page_maker maker;
    redisReply *reply = NULL;
    limit = at_once(limit);
    rd_page_start(&maker, store, ret);
    int rc = rd_unit_needed(store, err);
    if (rc != 0)
        return rc;
    rd_ask_read(store, "due");
    rd_ask_text(store, set);
    rd_ask_int(store, rd_score_of(store->now_ms));
    rd_ask_int(store, (int64_t)limit);
    rd_ask_text(store, "1");
    rc = read_due_now(store, &reply, err);
    int64_t next_ms = 0;
    bool is_left = false;
    for (size_t at = 0; rc == 0 && at < reply->elements && !is_left;) {
        struct str big[BIG_COUNT];
        struct row row;
        bool is_moved;
        rc = rd_reply_row(store, reply, &at, &row, big, &is_moved, err);
        if (rc != 0)
            break;
        next_ms = is_moved ? time_of(&row.job) : 0;
        if (is_moved)
            continue;
        is_left = ret->n == limit || time_of(&row.job) > store->now_ms;
        if (is_left)
            next_ms = time_of(&row.job);
        else
            rc = rd_page_add(&maker, &row, big, err);
    }
    if (reply)
        freeReplyObject(reply);
    if (rc != 0) {
        job_page_release(ret);
        return rc;
    }
    *ret_next_ms = next_ms;
    ret->more = is_left && next_ms <= store->now_ms;
    return 0;
}

static int64_t lease_of(const struct job *job)
{
    return job->status.lease_until_ms;
}

static int64_t deadline_of(const struct job *job)
{
    return job->spec.deadline_ms;
}

int redis_expired(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                  struct redrive_err *err)
{
    return read_due(store, "x", lease_of, limit, ret, ret_next_ms, err);
}

int redis_overdue(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                  struct redrive_err *err)
{
    return read_due(store, "d", deadline_of, limit, ret, ret_next_ms, err);
}

int redis_parked(struct store *store, struct str tenant, struct str lane, enum parked_order order,
                 size_t limit, struct job_page *ret, struct redrive_err *err)
{
    static const char *const READS[] = {
        [PARKED_OLDEST] = "chunks", [PARKED_PROBES] = "ranked", [PARKED_NEWEST] = "foremost"};
    struct page_maker maker;
    redisReply *reply = NULL;
    struct buf key;
    limit = at_once(limit);
    rd_page_start(&maker, store, ret);
    int rc = rd_unit_needed(store, err);
    if (rc != 0)
        return rc;
    buf_init(&key, 1 << 20);
    buf_puts(&key, order == PARKED_OLDEST ? "q:" : "p:");
    rd_add_part(&key, tenant);
    rd_add_part(&key, lane);
    rd_ask_read(store, READS[order]);
    rd_ask_str(store, buf_str(&key));
    if (order == PARKED_PROBES) {
        rd_ask_text(store, "+");
        rd_ask_text(store, "");
        rd_ask_text(store, "");
    }
    rd_ask_int(store, (int64_t)limit + 1);
    rd_ask_text(store, "1");
    buf_release(&key);
    rc = rd_link_read(store, &reply, err);
    const bool is_counted = order == PARKED_NEWEST; /* how many there are comes first */
    for (size_t at = is_counted; rc == 0 && at < reply->elements;) {
        ret->more = ret->n == limit;
        if (ret->more)
            break;
        rc = rd_page_add_reply(&maker, reply, &at, err);
    }
    if (rc == 0 && is_counted && reply->elements > 0)
        ret->more = reply->element[0]->integer > (long long)ret->n;
    if (reply)
        freeReplyObject(reply);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}

/* ---- Pauses -------------------------------------------------------------------------------------
 */

/* One that has not waited in the pause is left as it is. */
static int credit_job(struct store *store, const struct pause_credit *credit, struct entry *e,
                      struct redrive_err *err)
{
    const struct move move = {e->seq, MOVE_CREDIT, .credit = credit};
    struct move_result ignored;
    return rd_entry_move(store, e, &move, &ignored, err);
}

/* The ready jobs of a line after the place that it has come to, which moves: the line's number, the
 * number of a chunk, a seq. */
static int credit_line(struct store *store, struct pause_credit *credit, const struct line *line,
                       size_t limit, size_t *looked, struct redrive_err *err)
{
    redisReply *reply = NULL;
    if (credit->at_line != line->id) {
        credit->at_line = line->id;
        credit->at_priority = credit->at_seq = 0;
    }
    rd_ask_read(store, "line");
    rd_ask_int(store, line->id);
    rd_ask_int(store, credit->at_priority);
    rd_ask_int(store, credit->at_seq);
    rd_ask_int(store, (int64_t)(limit - *looked) + 1);
    int rc = rd_link_read(store, &reply, err);
    for (size_t at = 0; rc == 0 && at < reply->elements; at += 3) {
        credit->more = *looked == limit;
        if (credit->more)
            break;
        ++*looked;
        credit->at_priority = rd_reply_int(reply, at);
        credit->at_seq = rd_reply_int(reply, at + 1);
        if (rd_entry_moved(store, credit->at_seq))
            continue;
        struct entry *e = rd_entry_learn(store, credit->at_seq, rd_reply_str(reply, at + 2), err);
        rc = e ? credit_job(store, credit, e, err) : REDRIVE_E_CORRUPT;
    }
    if (reply)
        freeReplyObject(reply);
    return rc;
}

int redis_credit_pause(struct store *store, struct pause_credit *credit, struct redrive_err *err)
{
    const size_t limit = at_once(credit->limit);
    size_t looked = 0;
    credit->more = false;
    int rc = rd_unit_needed(store, err);
    if (rc == 0)
        rc = rd_lines_refresh(store, err);
    if (rc != 0 || credit->since_ms >= credit->until_ms)
        return rc;
    const uint32_t first = credit->at_line > 0 ? (uint32_t)credit->at_line : 1;
    for (uint32_t i = first; rc == 0 && i <= store->n_lines && !credit->more; i++) {
        const struct line *line = store->lines[i];
        if (line && str_eq(line->tenant, credit->tenant) && str_eq(line->queue, credit->queue))
            rc = credit_line(store, credit, line, limit, &looked, err);
    }
    return rc;
}
