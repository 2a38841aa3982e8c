/* keys.c - the jobs of a unique key. */
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

/* Some of the jobs, in the server's order: first those that count. The answer begins with how many
 * they are, and whether the key is held. */
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
    ret->is_held = rd_reply_int(reply, 1) != 0;
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
    rc = rd_entries_get(store, seqs, n, entries, err);
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
    const struct str words[] = {jobs->is_held ? STR("1") : STR("0"), buf_str(&jobs->counting),
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
