/* shard_record.h - what each shard says of the store that it is a part of.
 *
 * Tenants are found by the number of shards and by their order, so neither may change. Each shard
 * keeps a row (SHARED_SHARDS) with a random name of the whole store, which of its shards it is, of
 * how many, and the list of all. Shards that are opened together must say the same, each in its
 * place. A store that is one of several is not opened by itself: it would answer for all.
 *
 * The addresses in the list are for people. A shard that has moved to another server is found by
 * its row, and may be named by its new address.
 */
#ifndef ENGINE_SHARD_RECORD_H
#define ENGINE_SHARD_RECORD_H

#include "store/shards/shards.h"

/* REDRIVE_E_STATE with both lists if these shards are not those that the store was made of, or if
 * one that belongs to no store yet has jobs. With `create` new shards get their rows; without it
 * they are REDRIVE_E_NOT_FOUND. */
int shard_record_check(struct store *const *stores, const struct shard_urls *urls, bool create,
                       struct redrive_err *err);

/* For a store that is opened by itself: REDRIVE_E_STATE if it is one of several shards. */
int shard_record_refuse(struct store *store, struct redrive_err *err);

#endif
