#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How much is kept from one unit to the next, and for how long. */
#define KEPT_MAX       5000
#define KEPT_UNITS_MAX 500

int rd_unit_needed(struct store *store, struct redrive_err *err)
{
    if (!store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "there is no open unit");
    if (!store->is_lost)
        return 0;
    int rc = err_set(err, REDRIVE_E_CANCELLED, "the unit is lost: none of its moves was made");
    err_detail(err, "its connection has broken, or it took too long and was given up");
    err_hint(err, "do it again");
    return rc;
}

/* What a unit leaves behind when it ends: nothing that is still to be told. */
static void end_unit(struct store *store)
{
    rd_map_empty(&store->ids);
    rd_map_empty(&store->new_keys);
    rd_ops_reset(&store->onward);
    rd_ops_reset(&store->back);
    rd_ops_reset(&store->at_end);
    store->n_dirty = store->n_dirty_cells = 0;
    store->has_dirty_keys = store->has_written = store->has_new_jobs = false;
    store->is_collected = store->meddles = false;
    store->in_unit = store->is_lost = false;
}

void rd_unit_forget(struct store *store)
{
    end_unit(store);
    arena_release(&store->arena);
    arena_init(&store->arena);
    rd_map_empty(&store->entries);
    rd_map_empty(&store->cells);
    store->kept_unit = 0;
    store->n_kept = 0;
}

/* After a commit all rows that the unit has met are as the server has them. */
static void keep(struct store *store)
{
    store->meddled += store->meddles;
    store->is_late = false;
    end_unit(store);
    store->kept_unit = store->unit;
    if (++store->n_kept > KEPT_UNITS_MAX || store->entries.count + store->cells.count > KEPT_MAX)
        rd_entries_keep_running(store);
}

/* ---- Writing ----------------------------------------------------------------------------------
 */

/* The operations for a field, one way. */
static void cell_diff(struct ops *ops, const struct cell *cell, struct str old, struct str new_)
{
    const struct str words[] = {cell->field, new_};
    if (new_.len > 0)
        rd_ops_add(ops, 'H', cell->key, NULL, 0, words, 2);
    else if (old.len > 0)
        rd_ops_add(ops, 'D', cell->key, NULL, 0, words, 1);
    if (cell->lex.len == 0)
        return;
    const struct str place[] = {STR("0"), cell->lex};
    if (new_.len > 0)
        rd_ops_add(ops, 'Z', STR("h"), NULL, 0, place, 2);
    else if (old.len > 0)
        rd_ops_add(ops, 'Y', STR("h"), NULL, 0, place + 1, 1);
}

/* Turns what has changed into operations. `with_back`: and into those that take it back, after
 * which the changes count as stored. */
static int collect(struct store *store, bool with_back, struct redrive_err *err)
{
    store->is_collected = true;
    for (size_t i = 0; i < store->n_dirty; i++) {
        struct entry *e = store->dirty[i];
        struct row old;
        store->meddles |= rd_entry_is_stored_running(e) && !e->is_mine;
        int rc = e->stored.len > 0 ? rd_row_unpack(store, e->seq, e->stored, &old, err) : 0;
        if (rc != 0)
            return rc;
        const struct row *was = e->stored.len > 0 ? &old : NULL;
        const struct row *is = e->is_there ? &e->now : NULL;
        buf_reset(&store->row);
        if (is && rd_row_pack(is, &store->row) != 0)
            return err_nomem(err);
        rd_places_diff(&store->onward, was, is, buf_str(&store->row));
        if (with_back)
            rd_places_diff(&store->back, is, was, e->stored);
        e->stored = rd_unit_dup(store, buf_str(&store->row));
        e->is_dirty = false;
    }
    for (size_t i = 0; i < store->n_dirty_cells; i++) {
        struct cell *c = store->dirty_cells[i];
        cell_diff(&store->onward, c, c->stored, c->now);
        if (with_back)
            cell_diff(&store->back, c, c->now, c->stored);
        c->stored = c->now;
        c->is_dirty = false;
    }
    store->n_dirty = store->n_dirty_cells = 0;
    store->has_dirty_keys = false;
    rd_map_empty(&store->new_keys);
    return store->onward.failed || store->back.failed || store->arena.failed ? err_nomem(err) : 0;
}

int rd_unit_write(struct store *store, struct redrive_err *err)
{
    if (!store->in_unit ||
        (store->n_dirty == 0 && store->n_dirty_cells == 0 && rd_ops_count(&store->onward) == 0))
        return 0;
    int rc = collect(store, true, err);
    if (rc != 0)
        return rc;
    rd_ask(store, store->has_new_jobs ? "apply" : "apply_full");
    rd_ask_int(store, store->unit);
    rd_ask_text(store, store->me);
    rd_ask_int(store, (int64_t)rd_ops_count(&store->back));
    rd_ops_ask(store, &store->back);
    rd_ops_ask(store, &store->onward);
    rd_ops_reset(&store->back);
    rd_ops_reset(&store->onward);
    rd_map_empty(&store->ids);
    store->has_written = true;
    redisReply *reply = NULL;
    rc = rd_link_call(store, &reply, err);
    if (rc == 0)
        freeReplyObject(reply);
    return rc;
}

/* Whether a job stands in the index of these states before and after, and elsewhere than before. */
static bool has_moved(const struct entry *e, uint32_t states, bool moves)
{
    const bool was = e->stored.len > 0 && states >> e->stored.ptr[0] & 1;
    const bool is = e->is_there && states >> e->now.job.status.state & 1;
    return was != is || (moves && was);
}

int rd_unit_write_for_key(struct store *store, struct str key, struct redrive_err *err)
{
    bool is_told = true;
    if (store->in_unit && str_is(key, "c"))
        is_told = rd_ops_count(&store->onward) == 0;
    for (size_t i = 0; i < store->n_dirty_cells; i++)
        is_told &= !str_eq(store->dirty_cells[i]->key, key);
    return is_told ? 0 : rd_unit_write(store, err);
}

int rd_unit_write_for(struct store *store, uint32_t states, bool moves, struct redrive_err *err)
{
    for (size_t i = 0; i < store->n_dirty; i++)
        if (has_moved(store->dirty[i], states, moves))
            return rd_unit_write(store, err);
    return 0;
}

/* ---- The end ----------------------------------------------------------------------------------
 */

static int nobody_knows(struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_IO, "the connection to the Redis server broke at the commit");
    err_detail(err, "nobody knows whether the unit's moves were made: all were, or none");
    return rc;
}

/* The connection has broken on the commit: the server knows whether it came that far. */
static int learn_fate(struct store *store, const char *history, struct redrive_err *err)
{
    redisReply *reply = NULL;
    struct redrive_err ignored;
    if (rd_link_open(store, &ignored) != 0)
        return nobody_knows(err);
    rd_ask(store, "fate");
    rd_ask_int(store, store->unit);
    rd_ask_text(store, store->me);
    rd_ask_text(store, history);
    if (rd_link_call(store, &reply, &ignored) != 0)
        return nobody_knows(err);
    const long long fate = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    if (fate == 1)
        return 0;
    if (fate == 0)
        return err_set(err, REDRIVE_E_CANCELLED,
                       "the connection to the Redis server broke before the commit");
    return nobody_knows(err);
}

static int send_commit(struct store *store, struct redrive_err *err)
{
    char history[RD_HISTORY_MAX];
    redisReply *reply = NULL;
    memcpy(history, store->history, sizeof history);
    rd_ask(store, store->has_new_jobs ? "commit" : "commit_full");
    rd_ask_int(store, store->unit);
    rd_ask_text(store, store->me);
    rd_ask_int(store, store->last_seq);
    rd_ask_int(store, store->shared_version);
    rd_ask_text(store, store->origin);
    rd_ask_int(store, store->base.news);
    rd_ask_int(store, store->meddles);
    rd_ops_ask(store, &store->onward);
    rd_ops_ask(store, &store->at_end);
    int rc = rd_link_call(store, &reply, err);
    store->base.is_undone = false;
    if (rc == 0)
        freeReplyObject(reply);
    else if (!store->link)
        rc = learn_fate(store, history, err);
    if (rc == REDRIVE_E_CANCELLED && err) {
        err_detail(err, "none of the unit's moves was made");
        err_hint(err, "do it again");
    }
    return rc;
}

int redis_commit(struct store *store, struct redrive_err *err)
{
    int rc = rd_unit_needed(store, err);
    store->base.is_undone = true;
    if (rc == 0)
        rc = collect(store, false, err);
    if (rc == 0)
        rc = send_commit(store, err);
    if (rc != 0)
        return rc;
    store->commits_seen++;
    keep(store);
    return 0;
}

void redis_rollback(struct store *store)
{
    if (!store->in_unit)
        return;
    if (store->link) {
        rd_ask(store, "abort");
        rd_ask_int(store, store->unit);
        rd_ask_text(store, store->me);
        rd_link_tell(store);
    }
    /* A shared version that was not committed may be given to something else. */
    if (store->shared_version != store->shared_begun)
        store->pauses_version = -1;
    if (!store->link || store->is_lost || store->is_collected) {
        rd_unit_forget(store);
        return;
    }
    /* What was read is still so. */
    end_unit(store);
    store->kept_unit = store->unit;
    rd_entries_keep_running(store);
}
