/* ops.c - what a commit does and relies upon: lists of operations, and the keys of a job. */
#include "store/redis/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/breaker/breaker.h"
#include "core/state.h"
#include "store/redis/link.h"
#include "store/redis/private.h"

/* The server's scripts pass the arguments of an operation to a command on a stack of limited size;
 * longer operations are sent in parts. */
#define ARGUMENTS_MAX ((size_t)1000)
#define BODY_MAX      ((size_t)1 << 30)

/* Operations that remove, which are carried out first: so an id can go from one job to another. */
#define REMOVING "DYKBQVE"

struct op_group {
    char letter;
    size_t n; /* arguments */
    size_t n_head;
    struct buf name; /* its key, as the request has it */
    struct buf body; /* its arguments, as the request has them */
    bool is_sum;
    int64_t sum;
    struct buf field;
};

void rd_ops_init(struct ops *ops)
{
    *ops = (struct ops){0};
    map_init(&ops->by_key, rng_system_seed());
    buf_init(&ops->id, BODY_MAX);
}

static void group_free(struct op_group *group)
{
    buf_release(&group->name);
    buf_release(&group->body);
    buf_release(&group->field);
    free(group);
}

void rd_ops_reset(struct ops *ops)
{
    const uint64_t seed = ops->by_key.seed;
    for (size_t i = 0; i < ops->n; i++)
        group_free(ops->groups[i]);
    ops->n = 0;
    ops->failed = false;
    map_release(&ops->by_key);
    map_init(&ops->by_key, seed);
}

void rd_ops_release(struct ops *ops)
{
    rd_ops_reset(ops);
    free(ops->groups);
    buf_release(&ops->id);
    map_release(&ops->by_key);
    *ops = (struct ops){0};
}

static struct op_group *group_new(struct ops *ops, char letter, struct str key)
{
    if (ops->n == ops->capacity) {
        size_t capacity = ops->capacity ? 2 * ops->capacity : 32;
        struct op_group **grown = realloc(ops->groups, capacity * sizeof(struct op_group *));
        if (!grown)
            return NULL;
        ops->groups = grown;
        ops->capacity = capacity;
    }
    struct op_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->letter = letter;
    buf_init(&group->name, BODY_MAX);
    buf_init(&group->body, BODY_MAX);
    buf_init(&group->field, BODY_MAX);
    rd_add_word(&group->name, key);
    ops->groups[ops->n++] = group;
    return group;
}

/* Additions with the same letter, key and head are one operation. */
static struct str identity(struct ops *ops, char letter, struct str key, const struct str *head,
                           size_t n_head)
{
    buf_reset(&ops->id);
    buf_putc(&ops->id, letter);
    rd_add_word(&ops->id, key);
    for (size_t i = 0; i < n_head; i++)
        rd_add_word(&ops->id, head[i]);
    return buf_str(&ops->id);
}

void rd_ops_add(struct ops *ops, char letter, struct str key, const struct str *head, size_t n_head,
                const struct str *words, size_t n)
{
    const struct str id = identity(ops, letter, key, head, n_head);
    struct op_group *group = map_get(&ops->by_key, id);
    if (!group || group->n + n > ARGUMENTS_MAX) {
        group = group_new(ops, letter, key);
        if (!group || map_put(&ops->by_key, id, group) != 0) {
            ops->failed = true;
            return;
        }
        for (size_t i = 0; i < n_head; i++)
            rd_add_word(&group->body, head[i]);
        group->n = n_head;
    }
    for (size_t i = 0; i < n; i++)
        rd_add_word(&group->body, words[i]);
    group->n += n;
    ops->failed |= buf_failed(&group->body) != 0;
}

void rd_ops_sum(struct ops *ops, struct str key, struct str field, int64_t delta)
{
    const struct str id = identity(ops, 'N', key, &field, 1);
    struct op_group *group = map_get(&ops->by_key, id);
    if (!group) {
        group = group_new(ops, 'N', key);
        if (!group || map_put(&ops->by_key, id, group) != 0) {
            ops->failed = true;
            return;
        }
        group->is_sum = true;
        buf_add_str(&group->field, field);
    }
    group->sum = (int64_t)((uint64_t)group->sum + (uint64_t)delta);
}

static bool is_empty(const struct op_group *group)
{
    return group->is_sum && group->sum == 0;
}

size_t rd_ops_count(const struct ops *ops)
{
    size_t n = 0;
    for (size_t i = 0; i < ops->n; i++)
        if (!is_empty(ops->groups[i]))
            n += 3 + (ops->groups[i]->is_sum ? 2 : ops->groups[i]->n);
    return n;
}

static void group_ask(struct store *store, const struct op_group *group)
{
    rd_ask_str(store, (struct str){&group->letter, 1});
    buf_add_str(&store->words, buf_str(&group->name));
    store->n_words++;
    if (group->is_sum) {
        rd_ask_int(store, 2);
        rd_ask_str(store, buf_str(&group->field));
        rd_ask_int(store, group->sum);
        return;
    }
    rd_ask_int(store, (int64_t)group->n);
    buf_add_str(&store->words, buf_str(&group->body));
    store->n_words += group->n;
}

void rd_ops_ask(struct store *store, const struct ops *ops)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < ops->n; i++) {
            const bool removes = strchr(REMOVING, ops->groups[i]->letter) != NULL;
            if (removes == (pass == 0) && !is_empty(ops->groups[i]))
                group_ask(store, ops->groups[i]);
        }
}

/* ---- The keys of a job -------------------------------------------------------------------------
 *
 * The keys of a job in the server, and the operations that lead from one image of it to another:
 *
 *   b, j:BUCKET          rows, 256 to a bucket; field: the low byte of the seq
 *   i:HASH               id → seq, in 16384 hashes that stay small and so are kept packed
 *   k:DIGEST             the jobs of a unique key, by seq: first those that count (they live, or
 *                        are unique for ever), then from 2^52 on those that have ended
 *   t, t:TENANT, r:PARTITION, r:PARTITION:CHUNK
 *                        queued: tenants, their partitions, by priority and bucket, the low bytes
 *   w, w:PARTITION       scheduled, retrying: by process_after
 *   x                    running: by the end of the lease
 *   p:GATE, q:GATE, q:GATE:CHUNK
 *                        parked: in the order of probes, and by seq
 *   l                    gates and how many are parked in them
 *   d                    not started, with a deadline: by it
 *   f:SEQ, g:SEQ         edges of a job to its children, and from its parents: the other job → rule
 *                        and outcome, a digit each
 *   e:STATE              ended: by the time of the end
 *   n:PARTITION          how many stand in each state
 *   y:TENANT, y:TENANT:CHUNK
 *                        all jobs of a tenant: its buckets, and in each the low bytes
 */

#define COUNTS_NO_LONGER (INT64_C(1) << 52)
#define BUCKET_BITS      8
#define RANK_BITS        37

/* Short keys, numbers as text. */
struct word {
    char text[RD_DIGITS_MAX + 4];
};

static struct word word_of(const char *name, int64_t number)
{
    struct word word;
    const size_t len = strlen(name);
    memcpy(word.text, name, len);
    rd_digits(number, word.text + len);
    return word;
}

#define NUMBER(n)         word_of("", n)
#define KEY(name, number) word_of(name, number)

static bool in_states(const struct row *row, uint32_t states)
{
    return row && states >> row->job.status.state & 1;
}

static void put_row(struct ops *ops, const struct row *row, struct str bytes)
{
    const int64_t seq = row->job.status.seq;
    const struct word bucket = NUMBER(seq >> BUCKET_BITS);
    const char low = (char)seq;
    const struct str words[] = {{&low, 1}, bytes};
    rd_ops_add(ops, bytes.len > 0 ? 'J' : 'K', str_of(bucket.text), NULL, 0, words,
               bytes.len > 0 ? 2 : 1);
}

static void id_diff(struct ops *ops, const struct row *row, bool is_there)
{
    const struct digest digest = rd_digest_of(row->job.spec.tenant, row->job.spec.id);
    const struct member member = rd_member_of(row->job.status.seq);
    char key[RD_ID_KEY_MAX];
    const struct str field = rd_id_place(&digest, key);
    const struct str words[] = {field, member_str(&member)};
    rd_ops_add(ops, is_there ? 'H' : 'D', str_of(key), NULL, 0, words, is_there ? 2 : 1);
}

static void tenant_diff(struct ops *ops, const struct row *row, bool is_there)
{
    const struct word key = KEY("y:", row->partition->tenant_id);
    const struct word chunk = NUMBER(row->job.status.seq >> BUCKET_BITS);
    const struct word low = NUMBER(row->job.status.seq & 0xff);
    const struct str head = str_of(chunk.text), item = str_of(low.text);
    rd_ops_add(ops, is_there ? 'C' : 'B', str_of(key.text), &head, 1, &item, 1);
}

static int64_t key_score(const struct row *row)
{
    const bool counts = row->job.spec.unique_forever || !state_has_ended(row->job.status.state);
    return row->job.status.seq + (counts ? 0 : COUNTS_NO_LONGER);
}

static void key_diff(struct ops *ops, const struct row *any, const struct row *old,
                     const struct row *new_)
{
    if (any->job.spec.unique_key.len == 0 || (old && new_ && key_score(old) == key_score(new_)))
        return;
    char key[2 + DIGEST_BYTES] = "k:";
    const struct digest digest = rd_digest_of(any->job.spec.tenant, any->job.spec.unique_key);
    memcpy(key + 2, digest.bytes, DIGEST_BYTES);
    const struct member member = rd_member_of(any->job.status.seq);
    const struct word score = NUMBER(key_score(any));
    const struct str words[] = {str_of(score.text), member_str(&member)};
    const struct str name = {key, sizeof key};
    if (new_)
        rd_ops_add(ops, 'Z', name, NULL, 0, words, 2);
    else
        rd_ops_add(ops, 'Y', name, NULL, 0, words + 1, 1);
}

static int64_t chunk_of(const struct row *row)
{
    int32_t priority = row->job.spec.priority;
    priority = priority > 127 ? 127 : priority < -128 ? -128 : priority;
    return ((int64_t)(127 - priority) << RANK_BITS) + (row->job.status.seq >> BUCKET_BITS);
}

static void ready_diff(struct ops *ops, const struct row *row, bool is_there)
{
    const struct word partition = NUMBER(row->partition->id),
                      tenant = NUMBER(row->partition->tenant_id);
    const struct word chunk = NUMBER(chunk_of(row)), low = NUMBER(row->job.status.seq & 0xff);
    const struct str head[] = {str_of(tenant.text), str_of(chunk.text)};
    const struct str item = str_of(low.text);
    rd_ops_add(ops, is_there ? 'R' : 'Q', str_of(partition.text), head, 2, &item, 1);
}

/* Moves a job within a sorted set, into it, or out of it; a new score overwrites the old one. */
static void ranked(struct ops *ops, const char *letters, struct str key, int64_t seq,
                   const int64_t *old, const int64_t *new_)
{
    const struct member member = rd_member_of(seq);
    if (new_ && !(old && *old == *new_)) {
        const struct word score = NUMBER(*new_);
        const struct str words[] = {str_of(score.text), member_str(&member)};
        rd_ops_add(ops, letters[0], key, NULL, 0, words, 2);
    } else if (old && !new_) {
        const struct str word = member_str(&member);
        rd_ops_add(ops, letters[1], key, NULL, 0, &word, 1);
    }
}

/* The score of a job in a set that it is in, when it is in one of the states; else NULL. */
static const int64_t *score_in(const struct row *row, uint32_t states, int64_t ms, int64_t *score)
{
    *score = rd_score_of(ms);
    return in_states(row, states) ? score : NULL;
}

static void times_diff(struct ops *ops, const struct row *any, const struct row *old,
                       const struct row *new_)
{
    static const struct job NONE = {0};
    const struct job *a = old ? &old->job : &NONE, *b = new_ ? &new_->job : &NONE;
    const int64_t seq = any->job.status.seq;
    const uint32_t locked = IN(SCHEDULED) | IN(RETRYING);
    const struct word partition = NUMBER(any->partition->id);
    int64_t x, y;
    ranked(ops, "WV", str_of(partition.text), seq,
           score_in(old, locked, a->status.process_after_ms, &x),
           score_in(new_, locked, b->status.process_after_ms, &y));
    ranked(ops, "ZY", STR("x"), seq, score_in(old, IN(RUNNING), a->status.lease_until_ms, &x),
           score_in(new_, IN(RUNNING), b->status.lease_until_ms, &y));
    ranked(ops, "ZY", STR("d"), seq,
           score_in(old, a->spec.deadline_ms ? STATES_UNSTARTED : 0, a->spec.deadline_ms, &x),
           score_in(new_, b->spec.deadline_ms ? STATES_UNSTARTED : 0, b->spec.deadline_ms, &y));
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        const struct word key = KEY("e:", state);
        const uint32_t mask = 1u << state & STATES_ENDED;
        if (mask)
            ranked(ops, "ZY", str_of(key.text), seq, score_in(old, mask, a->status.finished_ms, &x),
                   score_in(new_, mask, b->status.finished_ms, &y));
    }
}

/* The name of the gate that a job is parked in. */
static void add_gate_name(const struct row *row, struct buf *ret)
{
    const struct job *job = &row->job;
    rd_add_part(ret, job->spec.tenant);
    rd_add_part(ret, job->status.parked_by_limit ? job->spec.limit_key : job->spec.breaker_key);
}

static void gate_diff(struct ops *ops, const struct row *row, bool is_there)
{
    const struct job *job = &row->job;
    const int64_t left = (int64_t)(uint32_t)job->spec.max_attempts - job->status.attempts;
    const int64_t score = -left;
    RELEASED_BY(buf_release) struct buf key = BUF_MAX(1 << 20);
    buf_puts(&key, "p:");
    add_gate_name(row, &key);
    ranked(ops, "ZY", buf_str(&key), job->status.seq, is_there ? NULL : &score,
           is_there ? &score : NULL);
    ops->failed |= buf_failed(&key) != 0;
    if (!ops->failed) {
        const struct word chunk = NUMBER(job->status.seq >> BUCKET_BITS);
        const struct word low = NUMBER(job->status.seq & 0xff);
        const struct str head = str_of(chunk.text), item = str_of(low.text);
        key.data[0] = 'q';
        rd_ops_add(ops, is_there ? 'C' : 'B', buf_str(&key), &head, 1, &item, 1);
        rd_ops_sum(ops, STR("l"), (struct str){key.data + 2, key.len - 2}, is_there ? 1 : -1);
    }
}

static void count_diff(struct ops *ops, const struct row *row, int delta)
{
    const struct word key = KEY("n:", row->partition->id), state = NUMBER(row->job.status.state);
    rd_ops_sum(ops, str_of(key.text), str_of(state.text), delta);
}

/* Whether the job is in the same keys as before. One that was unparked and parked again may be in
 * another gate. */
static bool keys_stay(const struct row *old, const struct row *new_)
{
    return old && new_ && old->job.status.state == new_->job.status.state &&
           (!in_states(old, IN(PARKED)) ||
            (old->job.status.parked_by_limit == new_->job.status.parked_by_limit &&
             old->job.status.attempts == new_->job.status.attempts));
}

static void state_diff(struct ops *ops, const struct row *row, bool is_there)
{
    if (in_states(row, IN(QUEUED)))
        ready_diff(ops, row, is_there);
    if (in_states(row, IN(PARKED)))
        gate_diff(ops, row, is_there);
    count_diff(ops, row, is_there ? 1 : -1);
}

void rd_places_diff(struct ops *ops, const struct row *old, const struct row *new_,
                    struct str bytes)
{
    const struct row *any = new_ ? new_ : old;
    if (!any)
        return;
    put_row(ops, any, bytes);
    if (!old || !new_) {
        id_diff(ops, any, new_ != NULL);
        tenant_diff(ops, any, new_ != NULL);
    }
    key_diff(ops, any, old, new_);
    times_diff(ops, any, old, new_);
    if (keys_stay(old, new_))
        return;
    if (old)
        state_diff(ops, old, false);
    if (new_)
        state_diff(ops, new_, true);
}
