/* scan.c - jobs by an index. The transaction keeps what it reads: a move needs no further request.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* More than this many are not given at once; `more` says that there are others. */
#define AT_ONCE_MAX ((size_t)4096)

/* Jobs whose rows cannot be read stay at the head of an index. A scan by time or of a gate looks
 * past as many of them as it meets, up to this many. */
#define LOOK_PAST_MAX ((size_t)65536)

/* ---- By times -------------------------------------------------------------------------------- */

static int64_t time_of(enum scan_index index, const struct job *job)
{
    switch (index) {
    case SCAN_DUE: return job->status.process_after_ms;
    case SCAN_LEASES: return job->status.lease_until_ms;
    default: return job->spec.deadline_ms;
    }
}

/* The shared version is checked: the leader relies on shared rows, and may have been woken because
 * they changed. */
static int read_times(struct store *store, const struct scan *scan, size_t limit, redisReply **ret,
                      struct redrive_err *err)
{
    rd_ask_read(store, scan->index == SCAN_DUE ? "locked" : "due");
    if (scan->index != SCAN_DUE)
        rd_ask_text(store, scan->index == SCAN_LEASES ? "x" : "d");
    rd_ask_int(store, rd_score_of(store->now_ms));
    rd_ask_int(store, (int64_t)limit);
    int rc = rd_link_read(store, ret, err);
    return rc == 0 ? rd_shared_check(store, err) : rc;
}

/* If the last job of the reply was moved by the transaction, what follows it is not earlier. */
static int scan_times(struct page_maker *maker, struct scan *scan, size_t limit, size_t past,
                      bool *ret_full, struct redrive_err *err)
{
    struct store *store = maker->store;
    struct job_page *page = maker->page;
    redisReply *reply = NULL;
    bool is_left = false;
    size_t n_read = 0;
    int64_t at_ms = 0;
    int rc = read_times(store, scan, limit + past, &reply, err);
    for (size_t at = 0; rc == 0 && at < reply->elements && !is_left; n_read++) {
        struct row row;
        bool is_moved;
        rc = rd_reply_row(store, reply, &at, &row, NULL, &is_moved, err);
        if (rc != 0) {
            rc = rd_page_leave_out(maker, rc, err);
            continue;
        }
        at_ms = time_of(scan->index, &row.job);
        is_left = !is_moved && (page->n == limit || at_ms > store->now_ms);
        scan->next_ms = is_moved || is_left ? at_ms : 0;
        if (!is_moved && !is_left)
            rc = rd_page_add(maker, &row, NULL, err);
    }
    freeReplyObject(reply);
    *ret_full = n_read > limit + past;
    /* One of them was moved or is damaged, so that the extra one, which has the next time, was
     * given as well. */
    if (*ret_full && scan->next_ms == 0) {
        scan->next_ms = at_ms;
        is_left = true;
    }
    page->more = is_left && scan->next_ms <= store->now_ms;
    return rc;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

static int read_parked(struct store *store, const struct scan *scan, size_t limit, redisReply **ret,
                       struct redrive_err *err)
{
    static const char *const READS[] = {[SCAN_PARKED_OLDEST] = "chunks",
                                        [SCAN_PARKED_PROBES] = "ranked",
                                        [SCAN_PARKED_NEWEST] = "foremost"};
    RELEASED_BY(buf_release) struct buf key = BUF_MAX(1 << 20);
    buf_puts(&key, scan->index == SCAN_PARKED_OLDEST ? "q:" : "p:");
    rd_add_part(&key, scan->tenant);
    rd_add_part(&key, scan->name);
    rd_ask_read(store, READS[scan->index]);
    rd_ask_str(store, buf_str(&key));
    if (scan->index == SCAN_PARKED_PROBES) {
        rd_ask_text(store, "+");
        rd_ask_text(store, "");
        rd_ask_text(store, "");
    }
    rd_ask_int(store, (int64_t)limit + 1);
    return rd_link_read(store, ret, err);
}

static int scan_parked(struct page_maker *maker, struct scan *scan, size_t limit, size_t past,
                       bool *ret_full, struct redrive_err *err)
{
    struct job_page *page = maker->page;
    redisReply *reply = NULL;
    const bool is_counted = scan->index == SCAN_PARKED_NEWEST; /* how many there are comes first */
    int rc = read_parked(maker->store, scan, limit + past, &reply, err);
    for (size_t at = is_counted; rc == 0 && at < reply->elements && !page->more;) {
        page->more = page->n == limit;
        if (!page->more)
            rc = rd_page_add_reply(maker, reply, &at, false, err);
    }
    *ret_full = rc == 0 && reply->elements >= 2 * (limit + past + 1);
    if (rc == 0 && is_counted && reply->elements > 0)
        page->more =
            reply->element[0]->integer > (long long)page->n + (long long)page->n_unreadable;
    else /* some of them may have been moved by the transaction: then others follow */
        page->more |= *ret_full;
    freeReplyObject(reply);
    return rc;
}

/* ---- Ready jobs ------------------------------------------------------------------------------ */

/* The ready jobs of a partition after the place of the scan, which is moved: the number of the
 * partition, the number of a chunk, a seq. */
static int scan_partition(struct page_maker *maker, struct scan *scan,
                          const struct partition *partition, size_t limit, size_t *looked,
                          struct redrive_err *err)
{
    struct store *store = maker->store;
    redisReply *reply = NULL;
    if (scan->after.partition != partition->id)
        scan->after = (struct scan_place){.partition = partition->id};
    rd_ask_read(store, "partition");
    rd_ask_int(store, partition->id);
    rd_ask_int(store, scan->after.priority);
    rd_ask_int(store, scan->after.seq);
    rd_ask_int(store, (int64_t)(limit - *looked) + 1);
    int rc = rd_link_read(store, &reply, err);
    for (size_t at = 0; rc == 0 && at < reply->elements && !maker->page->more;) {
        maker->page->more = *looked == limit;
        if (maker->page->more)
            break;
        ++*looked;
        scan->after.priority = rd_reply_int(reply, at++);
        scan->after.seq = rd_reply_int(reply, at);
        rc = rd_page_add_reply(maker, reply, &at, false, err);
    }
    freeReplyObject(reply);
    return rc;
}

static int scan_ready(struct page_maker *maker, struct scan *scan, size_t limit,
                      struct redrive_err *err)
{
    struct store *store = maker->store;
    size_t looked = 0;
    int rc = rd_partitions_refresh(store, err);
    const uint32_t first = scan->after.partition > 0 ? (uint32_t)scan->after.partition : 1;
    for (uint32_t i = first; rc == 0 && i <= store->n_partitions && !maker->page->more; i++) {
        const struct partition *partition = store->partitions[i];
        if (partition && str_eq(partition->tenant, scan->tenant) &&
            str_eq(partition->queue, scan->name))
            rc = scan_partition(maker, scan, partition, limit, &looked, err);
    }
    return rc;
}

/* ---- By times, or of a gate ------------------------------------------------------------------ */

/* Scans again, further into the index, for as long as jobs that cannot be read take the places of
 * others. */
static int scan_from_start(struct page_maker *maker, struct scan *scan, size_t limit,
                           struct redrive_err *err)
{
    size_t past = 0;
    bool is_full = false;
    int rc = 0;
    do {
        past = 2 * maker->n_damaged;
        rd_page_start(maker, maker->store, maker->page);
        scan->next_ms = 0;
        rc = (scan->index <= SCAN_DEADLINES ? scan_times : scan_parked)(maker, scan, limit, past,
                                                                        &is_full, err);
    } while (rc == 0 && is_full && maker->page->n < limit && 2 * maker->n_damaged > past &&
             past < LOOK_PAST_MAX);
    return rc;
}

/* ---- Finished jobs --------------------------------------------------------------------------- */

/* An ended job at its place in the index: its score is there even if its row cannot be read. */
struct end {
    int64_t ms;
    int64_t seq;
    struct entry *entry; /* NULL: its row cannot be read */
};

static int by_end(const void *left, const void *right)
{
    const struct end *a = left, *b = right;
    if (a->ms != b->ms)
        return a->ms < b->ms ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* Ended jobs of several states. */
struct ended {
    struct end *ends;
    size_t n;
    bool are_all; /* no state has more than were asked for */
};

/* Adds up to `limit` jobs of a state after the place of the scan; those that the transaction has
 * moved are left out. */
static int add_ended(struct page_maker *maker, const struct scan *scan, int state, size_t limit,
                     struct ended *ret, struct redrive_err *err)
{
    struct store *store = maker->store;
    const char key[] = {'e', ':', (char)('0' + state), '\0'};
    redisReply *reply = NULL;
    rd_ask_read(store, "ranked");
    rd_ask_text(store, key);
    rd_ask_text(store, "+");
    if (scan->after.ms == 0 && scan->after.seq == 0) {
        rd_ask_text(store, "");
        rd_ask_text(store, "");
    } else {
        rd_ask_int(store, rd_score_of(scan->after.ms));
        rd_ask_int(store, scan->after.seq);
    }
    rd_ask_int(store, (int64_t)limit);
    rd_ask_text(store, "0");
    rd_ask_text(store, "1");
    int rc = rd_link_read(store, &reply, err);
    for (size_t at = 0; rc == 0 && at + 2 < reply->elements && at < 3 * limit; at += 3) {
        struct end *end = &ret->ends[ret->n];
        *end = (struct end){rd_reply_int(reply, at), rd_reply_int(reply, at + 1), NULL};
        if (rd_entry_moved(store, end->seq))
            continue;
        rc = rd_entry_learn(store, end->seq, rd_reply_str(reply, at + 2), &end->entry, err);
        if (rc == REDRIVE_E_CORRUPT)
            rc = 0;
        ret->n += rc == 0;
    }
    ret->are_all &= rc == 0 && reply->elements < 3 * limit;
    freeReplyObject(reply);
    return rc;
}

/* The jobs that were looked at, up to `limit` of them, and where the scan goes on. */
static int take_ended(struct page_maker *maker, struct scan *scan, const struct ended *ended,
                      size_t limit, struct redrive_err *err)
{
    struct job_page *page = maker->page;
    int rc = 0;
    page->more = !ended->are_all;
    for (size_t i = 0; rc == 0 && i < ended->n; i++) {
        const struct end *end = &ended->ends[i];
        page->more = end->ms < scan->before_ms && (i == limit || !ended->are_all);
        if (i == limit || end->ms >= scan->before_ms)
            break;
        scan->after = (struct scan_place){.ms = end->ms, .seq = end->seq};
        if (!end->entry)
            rc = rd_page_leave_out(maker, rd_row_damaged(end->seq, err), err);
        else if (end->entry->is_there) /* it was in two indexes, and read as damaged then */
            rc = rd_page_add(maker, &end->entry->now, NULL, err);
    }
    return rc;
}

static int scan_finished(struct page_maker *maker, struct scan *scan, size_t limit,
                         struct redrive_err *err)
{
    struct ended ended = {calloc(REDRIVE_STATE_COUNT * (limit + 1), sizeof *ended.ends), 0, true};
    int rc = 0;
    if (!ended.ends)
        return err_nomem(err);
    for (int state = 0; rc == 0 && state < REDRIVE_STATE_COUNT; state++)
        if (scan->states & STATES_ENDED & 1u << state)
            rc = add_ended(maker, scan, state, limit + 1, &ended, err);
    if (rc == 0 && ended.n > 0)
        qsort(ended.ends, ended.n, sizeof *ended.ends, by_end);
    if (rc == 0)
        rc = take_ended(maker, scan, &ended, limit, err);
    free(ended.ends);
    return rc;
}

int redis_scan(struct store *store, struct scan *scan, struct job_page *ret,
               struct redrive_err *err)
{
    struct page_maker maker;
    const size_t limit = scan->limit < AT_ONCE_MAX ? scan->limit : AT_ONCE_MAX;
    rd_page_start(&maker, store, ret);
    scan->next_ms = 0;
    int rc = rd_transaction_needed(store, err);
    if (rc != 0)
        return rc;
    rc = scan->index <= SCAN_PARKED_NEWEST ? scan_from_start(&maker, scan, limit, err)
         : scan->index == SCAN_READY       ? scan_ready(&maker, scan, limit, err)
                                           : scan_finished(&maker, scan, limit, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
