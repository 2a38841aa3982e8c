/* shards.h - a store that is spread over several others, cut by tenant.
 *
 *     shards:URL URL …          up to SHARDS_MAX stores of any kind, always in the same order
 *
 * Every tenant lives on one shard, with all of its jobs, keys, limits, breakers and cron entries:
 * what has to be whole within a tenant is whole. Jobs are known outside by a number that names
 * their shard as well, so that a number and a cursor mean one job of all shards.
 *
 * A handle of `shards:` reads. What is asked about one tenant is asked of its shard; the rest is
 * asked of each shard, and the answers are put together in their order. It makes no transaction:
 * each shard has an engine of its own, and operations find theirs through a router
 * (engine/shards/router.h).
 */
#ifndef STORE_SHARDS_SHARDS_H
#define STORE_SHARDS_SHARDS_H

#include "store/store.h"

#define SHARDS_MAX 16

struct shard_set;     /* record.h */
struct moved_tenants; /* tenants.h */

/* ---- Which shards there are ------------------------------------------------------------------ */

struct shard_urls {
    const char *urls[SHARDS_MAX];
    size_t n;
    char *text; /* that the URLs are parts of */
};

/* Whether the URL is one of shards. */
bool shards_is(const char *url);

/* Takes a URL of shards apart. A URL of another store is one shard. REDRIVE_E_INVALID: fewer than
 * two, more than SHARDS_MAX, or the same one twice. Release also after a failure. */
int shard_urls_init(struct shard_urls *urls, const char *url, struct redrive_err *err);
void shard_urls_release(struct shard_urls *urls);

/* Which of `n` shards, those that the store had at first, a tenant is on that was never moved
 * (tenants.h); the default tenant if it is absent. Never changes: stores are laid out by it. */
size_t shard_of_tenant(struct str tenant, size_t n);

/* Names the shard in an error that it has caused: its detail begins with it. */
void shard_err(struct redrive_err *err, size_t shard, const char *url);

/* ---- Numbers of jobs ------------------------------------------------------------------------- */

/* The number of a job outside of its shard. Order within a shard is kept. */
static inline int64_t shard_seq(int64_t seq, size_t shard)
{
    return seq * SHARDS_MAX + (int64_t)shard;
}

static inline size_t shard_of_seq(int64_t seq)
{
    return (size_t)(seq % SHARDS_MAX);
}

/* The number within its shard. */
static inline int64_t shard_own_seq(int64_t seq)
{
    return seq / SHARDS_MAX;
}

/* The first number within a shard that is, outside, no lower than `seq`; it may be 0 or less. */
int64_t shard_seq_from(int64_t seq, size_t shard);

/* ---- Handles --------------------------------------------------------------------------------- */

/* A shard that is opened when it is back, and what it is compared with then. */
struct late_shard {
    const struct shard_urls *urls;
    size_t index;
    bool create; /* as of struct store_options */
    const struct shard_set *set;
};

/* A handle of a shard that is away; `why`: that is known from a try, or NULL. Both must outlive
 * the handle, `why` only the call. */
int shard_open_late(struct late_shard *shard, const struct store_options *options,
                    const struct redrive_err *why, struct store **ret, struct redrive_err *err);

struct sharded {
    struct store_base base;
    struct shard_urls urls;
    struct store *stores[SHARDS_MAX];
    struct late_shard late[SHARDS_MAX];
    struct shard_set *set;       /* NULL: no shard was away when it was opened */
    size_t n_hashed;             /* as of struct shard_set */
    struct moved_tenants *moved; /* tenants.h */
};

static inline struct sharded *sharded_of(struct store *store)
{
    return (struct sharded *)(void *)store;
}

/* Hands `rc` on; names the shard in the error of a failure. */
int shards_fail_at(const struct sharded *s, size_t shard, int rc, struct redrive_err *err);

/* A slot that no other store has. */
int shards_counts_around(struct store *store, enum count_kind kind, struct str tenant,
                         struct count_page *ret, struct redrive_err *err);

STORE_SLOT_MAP(STORE_SLOT_DECLARE, shards)

#endif
