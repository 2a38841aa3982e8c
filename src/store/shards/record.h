/* record.h - what each shard says of the store that it is a part of.
 *
 * Tenants are found by the number of shards at first and by their order, so neither may change;
 * more may be added at the end. Each shard keeps a row (SHARED_SHARDS) with a random name of the
 * whole store, which of its shards it is, of how many, and the list of all. Shards that are opened
 * together must say the same, each in its place. A store that is one of several is not opened by
 * itself: it would answer for all.
 *
 * The addresses in the list are for people. A shard that has moved to another server is found by
 * its row, and may be named by its new address.
 */
#ifndef STORE_SHARDS_RECORD_H
#define STORE_SHARDS_RECORD_H

#include "base/text/buf.h"
#include "store/shards/shards.h"

#define SHARD_SET_MAX 24

/* What the shards of a store have in common. */
struct shard_set {
    char name[SHARD_SET_MAX]; /* of the whole store; empty: not known yet */
    size_t hashed;            /* by how many shards names of tenants are hashed (shard_of_tenant) */
    struct buf list;          /* the addresses of all, without passwords, as recorded */
};
void shard_set_init(struct shard_set *set);
void shard_set_release(struct shard_set *set);

/* REDRIVE_E_STATE with both lists if these shards are not those that the store was made of, or if
 * one that belongs to no store yet has jobs. With `create` new shards get their rows; without it
 * they are REDRIVE_E_NOT_FOUND. A store that is NULL is away: the others are compared with each
 * other, and none is set up unless the store was before. `ret` may be NULL. */
int shard_record_check(struct store *const *stores, const struct shard_urls *urls, bool create,
                       struct shard_set *ret, struct redrive_err *err);

/* The same for one shard that comes back, by what the others have said. */
int shard_record_check_one(struct store *store, const struct shard_urls *urls, size_t shard,
                           bool create, const struct shard_set *set, struct redrive_err *err);

/* Makes a store larger: the shards are those that it has, in their order, and new ones after them,
 * which are empty. Names of tenants are hashed by as many as before, so that each stays where it
 * is; new shards get tenants that are moved there. `ret_before`: how many there were. The same call
 * goes on after an interruption. */
int shard_record_add(struct store *const *stores, const struct shard_urls *urls, size_t *ret_before,
                     struct redrive_err *err);

/* By how many shards names are hashed, as one of them says; 0: it has no record. */
int shard_record_hashed(struct store *store, size_t *ret, struct redrive_err *err);

/* The addresses of all shards, as one of them says, into an empty buffer that the caller releases;
 * empty: it has no record, or cannot be read. */
void shard_record_list(struct store *store, struct buf *ret);

/* REDRIVE_E_IO: a tenant that has left this shard is on one that was added since this process was
 * started with `n` of them. The error has what is missing in its list, of all as recorded. */
void shard_record_unknown(struct str list, struct str tenant, size_t shard, size_t n,
                          struct redrive_err *err);

/* For a store that is opened by itself: REDRIVE_E_STATE if it is one of several shards. */
int shard_record_refuse(struct store *store, struct redrive_err *err);

#endif
