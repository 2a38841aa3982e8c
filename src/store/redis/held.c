/* held.c - keys that are unique for ever and whose jobs are gone. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

bool rd_held_unpack(struct str bytes, struct arena *arena, struct remembered_key *ret,
                    int64_t *ret_seq)
{
    char *end = NULL;
    *ret = (struct remembered_key){0};
    if (!rd_take_part(&bytes, arena, &ret->tenant) || !rd_take_part(&bytes, arena, &ret->key) ||
        !rd_take_part(&bytes, arena, &ret->id) || bytes.len == 0)
        return false;
    ret->state = (enum redrive_state)strtol(bytes.ptr, &end, 10);
    *ret_seq = strtoll(end, NULL, 10);
    return ret->state < REDRIVE_STATE_COUNT;
}

int rd_held_put(struct store *store, const struct remembered_key *key, int64_t seq,
                struct redrive_err *err)
{
    const struct digest digest = rd_digest_of(key->tenant, key->key);
    const struct str name[] = {STR("held"), digest_str(&digest)};
    struct cell *cell;
    struct buf bytes;
    int rc = rd_cells_get(store, name, 1, &cell, err);
    if (rc != 0 || cell->now.len > 0)
        return rc;
    buf_init(&bytes, 1 << 20);
    rd_add_part(&bytes, key->tenant);
    rd_add_part(&bytes, key->key);
    cell->lex = rd_transaction_dup(store, buf_str(&bytes));
    rd_add_part(&bytes, key->id);
    buf_printf(&bytes, "%d %" PRId64, (int)key->state, seq);
    rc = buf_failed(&bytes) ? err_nomem(err) : rd_cell_put(store, cell, buf_str(&bytes), err);
    buf_release(&bytes);
    return rc;
}

int redis_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                      struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    if (rc == 0)
        store->has_new_jobs = true;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = rd_held_put(store, &keys[i], 0, err);
    return rc;
}

static int fill_held(struct store *store, const redisReply *places, size_t n,
                     struct remembered_key_page *ret, struct redrive_err *err)
{
    redisReply *reply = NULL;
    ret->keys = arena_array(&ret->arena, n + 1, sizeof *ret->keys);
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++) {
        struct str place = rd_reply_str(places, i), tenant = {0}, key = {0};
        if (!rd_take_part(&place, &ret->arena, &tenant) || !rd_take_part(&place, &ret->arena, &key))
            return err_set(err, REDRIVE_E_CORRUPT, "a key that is held is damaged");
        const struct digest digest = rd_digest_of(tenant, key);
        rd_ask_text(store, "held");
        rd_ask_str(store, digest_str(&digest));
    }
    int rc = n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int64_t ignored;
        if (rd_held_unpack(rd_reply_str(reply, i), &ret->arena, &ret->keys[ret->n], &ignored))
            ret->n++;
    }
    if (reply)
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
        rc = fill_held(store, places, n, ret, err);
        freeReplyObject(places);
    }
    if (rc != 0)
        remembered_key_page_release(ret);
    return rc;
}
