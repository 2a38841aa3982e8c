/* walk.c - reads jobs by seq, some at a time: all of them, or those of states that have few. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many jobs the server looks at in one call. */
#define LOOK_AT_ONCE   1000
#define PICKED_AT_ONCE 256

/* With more partitions than this the server gives jobs of all, which are filtered here. */
#define PARTITIONS_MAX 2000

/* With more jobs than this a walk over all jobs is as fast. */
#define PICKED_MAX ((int64_t)20000)

/* Reads the next of the seqs that the walk has picked. */
static int read_picked(struct store *store, struct walk *walk, bool wants_big, redisReply **ret,
                       struct redrive_err *err)
{
    rd_ask_read(store, "picked");
    rd_ask_int(store, walk->states);
    rd_ask_int(store, walk->flags);
    rd_ask_str(store, walk->partitions);
    rd_ask_text(store, wants_big ? "1" : "0");
    for (size_t i = 0; i < PICKED_AT_ONCE && walk->at < walk->n_seqs; i++)
        rd_ask_int(store, walk->seqs[walk->at++]);
    walk->is_over = walk->at == walk->n_seqs;
    return rd_link_read(store, ret, err);
}

int rd_walk_read(struct store *store, struct walk *walk, size_t limit, bool wants_big,
                 redisReply **ret, struct redrive_err *err)
{
    if (walk->seqs)
        return read_picked(store, walk, wants_big, ret, err);
    rd_ask_read(store, "walk");
    rd_ask_text(store, walk->is_back ? "-" : "+");
    rd_ask_int(store, walk->after);
    rd_ask_int(store, walk->states);
    rd_ask_int(store, walk->flags);
    rd_ask_str(store, walk->partitions);
    rd_ask_int(store, (int64_t)limit);
    rd_ask_int(store, LOOK_AT_ONCE);
    rd_ask_text(store, wants_big ? "1" : "0");
    rd_ask_text(store, walk->own);
    int rc = rd_link_read(store, ret, err);
    if (rc != 0)
        return rc;
    const int64_t at = rd_reply_int(*ret, 0);
    walk->is_over = at < 0;
    walk->after = at;
    return 0;
}

static bool wants(struct str wanted, struct str s)
{
    return wanted.len == 0 || str_eq(wanted, s);
}

int rd_walk_partitions(struct store *store, const struct job_filter *f, struct buf *ret,
                       bool *ret_none, struct redrive_err *err)
{
    size_t n = 0;
    *ret_none = false;
    if (f->tenant.len == 0 && f->queue.len == 0 && f->task.len == 0)
        return 0;
    int rc = rd_partitions_refresh(store, err);
    for (uint32_t i = 1; rc == 0 && i <= store->n_partitions; i++) {
        const struct partition *partition = store->partitions[i];
        if (!partition || !wants(f->tenant, partition->tenant) ||
            !wants(f->queue, partition->queue) || !wants(f->task, partition->task))
            continue;
        for (int shift = 24; shift >= 0; shift -= 8)
            buf_putc(ret, (char)(i >> shift));
        n++;
    }
    *ret_none = n == 0;
    if (n > PARTITIONS_MAX)
        buf_reset(ret);
    return rc == 0 && buf_failed(ret) ? err_nomem(err) : rc;
}

/* ---- Few jobs -------------------------------------------------------------------------------- */

/* The names of the sorted sets of these states; how many. */
static size_t list_sets(uint32_t states, char sets[REDRIVE_STATE_COUNT][4])
{
    size_t n = 0;
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        if (!(states >> state & 1))
            continue;
        const char ended[4] = {'e', ':', (char)('0' + state), '\0'};
        memcpy(sets[n++], state == REDRIVE_STATE_RUNNING ? "x\0\0" : ended, 4);
    }
    return n;
}

int rd_walk_count(struct store *store, uint32_t states, int64_t *ret, struct redrive_err *err)
{
    char sets[REDRIVE_STATE_COUNT][4];
    const size_t n = list_sets(states, sets);
    redisReply *reply = NULL;
    *ret = 0;
    rd_ask_read(store, "cards");
    for (size_t i = 0; i < n; i++)
        rd_ask_text(store, sets[i]);
    int rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        *ret += rd_reply_int(reply, i);
    freeReplyObject(reply);
    return rc;
}

static bool follows(const struct walk *walk, int64_t seq)
{
    return walk->is_back ? seq < walk->after : seq > walk->after;
}

static int rising(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int falling(const void *left, const void *right)
{
    return rising(right, left);
}

/* Takes the seqs of all sets out of the answer. */
static int take_seqs(struct walk *walk, const redisReply *reply, size_t total,
                     struct redrive_err *err)
{
    walk->seqs = calloc(total + 1, sizeof *walk->seqs);
    if (!walk->seqs)
        return err_nomem(err);
    for (size_t i = 1; i < reply->elements; i++) {
        const struct str members = rd_reply_str(reply, i);
        for (size_t at = 0; at + MEMBER_BYTES <= members.len && walk->n_seqs < total;
             at += MEMBER_BYTES) {
            const int64_t seq = rd_member_seq((struct str){members.ptr + at, MEMBER_BYTES});
            if (follows(walk, seq))
                walk->seqs[walk->n_seqs++] = seq;
        }
    }
    qsort(walk->seqs, walk->n_seqs, sizeof *walk->seqs, walk->is_back ? falling : rising);
    walk->is_over = walk->n_seqs == 0;
    return 0;
}

/* All states in one request, so that a job which moves from one to another is in one of them. */
int rd_walk_plan(struct store *store, struct walk *walk, struct redrive_err *err)
{
    char sets[REDRIVE_STATE_COUNT][4];
    redisReply *reply = NULL;
    if (walk->states & ~(STATES_ENDED | IN(RUNNING)))
        return 0;
    const size_t n = list_sets(walk->states, sets);
    const int64_t most = walk->own[0] && walk->n_own <= PICKED_MAX ? walk->n_own - 1 : PICKED_MAX;
    rd_ask_read(store, "plan");
    rd_ask_int(store, most);
    for (size_t i = 0; i < n; i++)
        rd_ask_text(store, sets[i]);
    int rc = rd_link_read(store, &reply, err);
    const int64_t total = rc == 0 ? rd_reply_int(reply, 0) : 0;
    if (rc == 0 && total >= 0 && total <= most)
        rc = take_seqs(walk, reply, (size_t)total, err);
    freeReplyObject(reply);
    return rc;
}

void rd_walk_release(struct walk *walk)
{
    free(walk->seqs);
    walk->seqs = NULL;
}
