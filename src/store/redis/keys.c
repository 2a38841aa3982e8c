/* keys.c - unique keys: the jobs of a key, and keys whose jobs are gone. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "store/redis/private.h"

#define AT_ONCE 64

void rd_key_jobs_release(struct key_jobs *jobs)
{
    free(jobs->entries);
    buf_release(&jobs->counting);
    *jobs = (struct key_jobs){0};
}

static int add_entry(struct key_jobs *jobs, struct entry *entry, struct redrive_err *err)
{
    struct entry **grown = realloc(jobs->entries, (jobs->n + 1) * sizeof(struct entry *));
    if (!grown)
        return err_nomem(err);
    jobs->entries = grown;
    jobs->entries[jobs->n++] = entry;
    return 0;
}

/* Reads some of the jobs, in the server's order: first those that count. The answer begins with how
 * many these are, and whether the key is remembered. */
static int read_some(struct store *store, const struct digest *digest, int64_t from,
                     struct key_jobs *ret, size_t *ret_n, struct redrive_err *err)
{
    int64_t seqs[AT_ONCE];
    struct entry *entries[AT_ONCE];
    redisReply *reply = NULL;
    size_t n = 0;
    rd_ask_read(store, "key_jobs");
    rd_ask_str(store, digest_str(digest));
    rd_ask_int(store, from);
    rd_ask_int(store, AT_ONCE);
    int rc = rd_link_read(store, &reply, err);
    if (rc != 0)
        return rc;
    const int64_t n_counting = rd_reply_int(reply, 0);
    ret->is_remembered = rd_reply_int(reply, 1) != 0;
    for (; n + 2 < reply->elements && n < AT_ONCE; n++)
        seqs[n] = rd_reply_int(reply, n + 2);
    freeReplyObject(reply);
    for (size_t i = 0; i < n; i++) {
        const struct member member = rd_member_of(seqs[i]);
        if (from + (int64_t)i < n_counting)
            buf_add_str(&ret->counting, member_str(&member));
        else if (!ret->has_other) {
            ret->has_other = true;
            ret->other = member;
        }
    }
    rc = rd_entries_get(store, seqs, n, NULL, entries, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (entries[i])
            rc = add_entry(ret, entries[i], err);
    *ret_n = n;
    return rc;
}

int rd_key_jobs_read(struct store *store, const struct digest *digest, struct key_jobs *ret,
                     struct redrive_err *err)
{
    int rc = 0;
    *ret = (struct key_jobs){0};
    buf_init(&ret->counting, 1 << 24);
    for (size_t from = 0, n = AT_ONCE; rc == 0 && n == AT_ONCE; from += n)
        rc = read_some(store, digest, (int64_t)from, ret, &n, err);
    struct entry *e = map_get(&store->new_keys, digest_str(digest));
    for (; rc == 0 && e; e = e->next_key)
        if (e->is_there)
            rc = add_entry(ret, e, err);
    return rc == 0 && buf_failed(&ret->counting) ? err_nomem(err) : rc;
}

int rd_key_jobs_rely(struct store *store, const struct digest *digest, const struct key_jobs *jobs,
                     bool forever, struct redrive_err *err)
{
    const struct str other = jobs->has_other ? member_str(&jobs->other) : (struct str){0};
    const struct str words[] = {jobs->is_remembered ? STR("1") : STR("0"), buf_str(&jobs->counting),
                                forever ? other : STR("-")};
    for (size_t i = 0; i < jobs->n; i++)
        rd_entry_rely(store, jobs->entries[i]);
    if (map_get(&store->keys_relied, digest_str(digest)))
        return 0;
    if (map_put(&store->keys_relied, digest_str(digest), store) != 0)
        return err_nomem(err);
    rd_ops_add(&store->checks, 'U', digest_str(digest), NULL, 0, words, 3);
    return store->checks.failed ? err_nomem(err) : 0;
}

/* ---- Keys whose jobs are gone ---------------------------------------------------------------- */

bool rd_remembered_unpack(struct str bytes, struct arena *arena, struct remembered_key *ret,
                          int64_t *ret_seq)
{
    const char *end = NULL;
    *ret = (struct remembered_key){0};
    if (!rd_take_part(&bytes, arena, &ret->tenant) || !rd_take_part(&bytes, arena, &ret->key) ||
        !rd_take_part(&bytes, arena, &ret->id) || bytes.len == 0)
        return false;
    const int64_t state = rd_number(bytes.ptr, &end);
    ret->state = (enum redrive_state)state;
    *ret_seq = rd_number(end, NULL);
    return state >= 0 && state < REDRIVE_STATE_COUNT;
}

/* The cell of a key, with its place in the list of these; `bytes` has the place. */
static int held_cell(struct store *store, struct str tenant, struct str key, struct buf *bytes,
                     struct cell **ret, struct redrive_err *err)
{
    const struct digest digest = rd_digest_of(tenant, key);
    const struct str name[] = {STR("held"), digest_str(&digest)};
    int rc = rd_cells_get(store, name, 1, ret, err);
    if (rc != 0)
        return rc;
    rd_add_part(bytes, tenant);
    rd_add_part(bytes, key);
    (*ret)->lex = rd_transaction_dup(store, buf_str(bytes));
    return 0;
}

int rd_key_remember(struct store *store, const struct remembered_key *key, int64_t seq,
                    struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf bytes = BUF_MAX(1 << 20);
    struct cell *cell;
    int rc = held_cell(store, key->tenant, key->key, &bytes, &cell, err);
    if (rc != 0 || cell->now.len > 0)
        return rc;
    rd_add_part(&bytes, key->id);
    buf_printf(&bytes, "%d %" PRId64, (int)key->state, seq);
    return buf_failed(&bytes) ? err_nomem(err) : rd_cell_put(store, cell, buf_str(&bytes), err);
}

int rd_key_forget(struct store *store, const struct job_spec *spec, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf bytes = BUF_MAX(1 << 20);
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct remembered_key key;
    struct cell *cell;
    int64_t seq;
    int rc = held_cell(store, spec->tenant, spec->unique_key, &bytes, &cell, err);
    if (rc != 0 || !rd_remembered_unpack(cell->now, &arena, &key, &seq))
        return rc;
    return str_eq(key.id, spec->id) ? rd_cell_put(store, cell, (struct str){0}, err) : 0;
}

/* Whether a job that is unique for ever has the key. */
static int is_held_for_ever(struct store *store, const struct remembered_key *key, bool *ret,
                            struct redrive_err *err)
{
    struct key_jobs jobs;
    const struct digest digest = rd_digest_of(key->tenant, key->key);
    int rc = rd_key_jobs_read(store, &digest, &jobs, err);
    *ret = false;
    for (size_t i = 0; i < jobs.n; i++)
        *ret |= jobs.entries[i]->now.job.spec.unique_forever;
    rd_key_jobs_release(&jobs);
    return rc;
}

int redis_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                      struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    if (rc == 0)
        store->has_new_jobs = true;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool is_held = false;
        rc = is_held_for_ever(store, &keys[i], &is_held, err);
        if (rc == 0 && !is_held)
            rc = rd_key_remember(store, &keys[i], 0, err);
    }
    return rc;
}

static int fill_remembered(struct store *store, const redisReply *places, size_t n,
                           struct remembered_key_page *ret, struct redrive_err *err)
{
    redisReply *reply = NULL;
    ret->keys = arena_array(&ret->arena, n + 1, sizeof *ret->keys);
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++) {
        struct str place = rd_reply_str(places, i), tenant = {0}, key = {0};
        if (!rd_take_part(&place, &ret->arena, &tenant) || !rd_take_part(&place, &ret->arena, &key))
            return err_set(err, REDRIVE_E_CORRUPT, "a remembered key is damaged");
        const struct digest digest = rd_digest_of(tenant, key);
        rd_ask_text(store, "held");
        rd_ask_str(store, digest_str(&digest));
    }
    int rc = n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int64_t ignored;
        if (rd_remembered_unpack(rd_reply_str(reply, i), &ret->arena, &ret->keys[ret->n], &ignored))
            ret->n++;
    }
    freeReplyObject(reply);
    return rc == 0 && ret->arena.failed ? err_nomem(err) : rc;
}

int redis_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                          size_t limit, struct remembered_key_page *ret, struct redrive_err *err)
{
    redisReply *places = NULL;
    struct buf after;
    remembered_key_page_release(ret);
    buf_init(&after, 1 << 20);
    if (after_tenant.len > 0 || after_key.len > 0) {
        buf_putc(&after, '(');
        rd_add_part(&after, after_tenant);
        rd_add_part(&after, after_key);
    } else {
        buf_putc(&after, '-');
    }
    rd_ask_read(store, "lex");
    rd_ask_text(store, "h");
    rd_ask_str(store, buf_str(&after));
    rd_ask_int(store, (int64_t)limit + 1);
    buf_release(&after);
    int rc = rd_link_read(store, &places, err);
    if (rc == 0) {
        const size_t n = places->elements < limit ? places->elements : limit;
        ret->more = places->elements > limit;
        rc = fill_remembered(store, places, n, ret, err);
        freeReplyObject(places);
    }
    if (rc != 0)
        remembered_key_page_release(ret);
    return rc;
}

/* The question of a submit, without ids and new seqs. */
int redis_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                    bool *ret, struct redrive_err *err)
{
    redisReply *reply = NULL;
    int rc = store_check_count(n, err);
    if (rc < 0 || n == 0)
        return rc;
    rd_ask_read(store, "holders");
    rd_ask_int(store, 0);
    rd_ask_int(store, 0);
    for (size_t i = 0; i < n; i++) {
        const struct digest digest = rd_digest_of(tenant, keys[i]);
        rd_ask_str(store, digest_str(&digest));
    }
    rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        ret[i] = false;
        for (size_t k = 0; k < 3; k++)
            ret[i] |= rd_reply_str(reply, 1 + 3 * i + k).len > 0;
    }
    freeReplyObject(reply);
    return rc;
}
