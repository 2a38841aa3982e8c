/* change.c - which keys live, and how ended jobs go. */
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "store/redis/private.h"

/* How many ended jobs go in one request. */
#define SWEEP_MAX ((size_t)4096)

int rd_entry_key_is_live(struct store *store, const struct entry *entry, bool *ret,
                         struct redrive_err *err)
{
    const struct job_spec *spec = &entry->now.job.spec;
    struct key_jobs jobs;
    *ret = false;
    if (spec->unique_key.len == 0)
        return 0;
    const struct digest digest = rd_digest_of(spec->tenant, spec->unique_key);
    int rc = rd_key_jobs_read(store, &digest, &jobs, err);
    for (size_t i = 0; rc == 0 && i < jobs.n; i++)
        *ret |= !state_has_ended(jobs.entries[i]->now.job.status.state);
    if (rc == 0 && !*ret)
        rc = rd_key_jobs_rely(store, &digest, &jobs, false, err);
    rd_key_jobs_release(&jobs);
    return rc;
}

/* ---- Sweeping -----------------------------------------------------------------------------------
 */

static int by_end(const void *left, const void *right)
{
    const struct entry *a = *(struct entry *const *)left, *b = *(struct entry *const *)right;
    const int64_t x = a->now.job.status.finished_ms, y = b->now.job.status.finished_ms;
    if (x != y)
        return x < y ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* Up to `limit` jobs of each of the states, from the earliest end after a place on, sorted. The
 * caller frees them. */
static int ended_after(struct store *store, uint32_t states, int64_t at_ms, int64_t at_seq,
                       size_t limit, struct entry ***ret, size_t *ret_n, struct redrive_err *err)
{
    struct entry **entries = calloc(REDRIVE_STATE_COUNT * limit + 1, sizeof(struct entry *));
    size_t n = 0;
    int rc = 0;
    if (!entries)
        return err_nomem(err);
    for (int state = 0; rc == 0 && state < REDRIVE_STATE_COUNT; state++) {
        const char key[] = {'e', ':', (char)('0' + state), '\0'};
        redisReply *reply = NULL;
        if (!(states & STATES_ENDED & 1u << state))
            continue;
        rd_ask_read(store, "ranked");
        rd_ask_text(store, key);
        rd_ask_text(store, "+");
        if (at_ms == 0 && at_seq == 0) {
            rd_ask_text(store, "");
            rd_ask_text(store, "");
        } else {
            rd_ask_int(store, rd_score_of(at_ms));
            rd_ask_int(store, at_seq);
        }
        rd_ask_int(store, (int64_t)limit);
        rd_ask_text(store, "0");
        rc = rd_link_read(store, &reply, err);
        for (size_t at = 0; rc == 0 && at < reply->elements && at < 2 * limit; at += 2) {
            if (rd_entry_moved(store, rd_reply_int(reply, at)))
                continue;
            entries[n] =
                rd_entry_learn(store, rd_reply_int(reply, at), rd_reply_str(reply, at + 1), err);
            rc = entries[n++] ? 0 : REDRIVE_E_CORRUPT;
        }
        if (reply)
            freeReplyObject(reply);
    }
    if (rc == 0)
        qsort(entries, n, sizeof(struct entry *), by_end);
    else
        free(entries);
    *ret = rc == 0 ? entries : NULL;
    *ret_n = n;
    return rc;
}

int redis_sweep(struct store *store, uint32_t states, int64_t finished_before_ms, size_t limit,
                size_t *ret_removed, struct redrive_err *err)
{
    struct entry **entries = NULL;
    size_t n = 0, removed = 0;
    limit = limit < SWEEP_MAX ? limit : SWEEP_MAX;
    int rc = rd_unit_needed(store, err);
    if (rc == 0)
        rc = ended_after(store, states, 0, 0, limit, &entries, &n, err);
    if (rc != 0)
        return rc;
    while (removed < n && removed < limit &&
           entries[removed]->now.job.status.finished_ms < finished_before_ms)
        removed++;
    rc = rd_entries_remove(store, entries, removed, err);
    free(entries);
    *ret_removed = removed;
    return rc;
}

int redis_sweep_tasks(struct store *store, struct sweep_walk *walk, struct redrive_err *err)
{
    const size_t limit = walk->limit < SWEEP_MAX ? walk->limit : SWEEP_MAX;
    struct entry **entries = NULL;
    size_t n = 0, looked = 0, removed = 0;
    sweep_walk_begin(walk);
    int rc = rd_unit_needed(store, err);
    if (rc == 0)
        rc = ended_after(store, walk->states, walk->at_ms, walk->at_seq, limit, &entries, &n, err);
    if (rc != 0)
        return rc;
    for (; rc == 0 && looked < n && looked < limit; looked++) {
        struct entry *e = entries[looked];
        const struct job_spec *spec = &e->now.job.spec;
        if (e->now.job.status.finished_ms >= walk->finished_before_ms)
            break;
        walk->at_ms = e->now.job.status.finished_ms;
        walk->at_seq = e->seq;
        if (spec->policy.len > 0)
            rc = sweep_walk_tell(
                walk, &(struct sweep_own){e->seq, walk->at_ms, spec->task, spec->policy}, err);
        else if (sweep_walk_has(walk, spec->task))
            entries[removed++] = e;
    }
    if (rc == 0)
        rc = rd_entries_remove(store, entries, removed, err);
    free(entries);
    walk->removed = removed;
    walk->more = rc == 0 && looked == limit;
    return rc;
}
