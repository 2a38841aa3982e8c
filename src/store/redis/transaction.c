/* transaction.c - begin, commit and rollback, and the outcome of a commit whose answer was lost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"

/* How much is kept from one transaction to the next beside the rows of running jobs, and for how
 * long. Payloads and results that it has written are a part of it. */
#define KEPT_MAX              5000
#define KEPT_BYTES_MAX        ((size_t)8 << 20)
#define KEPT_TRANSACTIONS_MAX 100

/* How many versions of shared rows are remembered at most. */
#define SHARED_KNOWN_MAX 10000

/* The server keeps the outcome of a commit for 600 s (OUTCOME_S in 2-commit.lua); less a margin. */
#define OUTCOME_MS 500000

/* The rows of running jobs do not count: each clean-up copies them, and would come with every
 * commit. */
static bool is_too_much(const struct store *store)
{
    return store->entries.count + store->cells.count > KEPT_MAX + store->n_running ||
           store->arena.bytes > KEPT_BYTES_MAX + store->running_bytes;
}

/* After a commit the server has the rows as the transaction has changed them. Only those of running
 * jobs that this handle has started are of use to the next transaction. */
static void keep_committed(struct store *store)
{
    for (size_t i = 0; i < store->n_dirty; i++) {
        struct entry *e = store->dirty[i];
        e->stored = e->packed;
        e->now.version = (e->now.version + 1) % RD_VERSION_END;
        e->is_dirty = false;
    }
    if (store->shared_known.count > SHARED_KNOWN_MAX)
        rd_map_empty(&store->shared_known);
    MAP_FOREACH (&store->shared_writes, slot) {
        const struct shared_write *write = slot->value;
        if (write->version >= 0)
            rd_shared_learn(store, (struct str){slot->key, slot->key_len}, write->now);
    }
    rd_transaction_end(store);
    if (++store->n_kept > KEPT_TRANSACTIONS_MAX || is_too_much(store))
        rd_entries_keep_running(store);
}

/* ---- Begin ----------------------------------------------------------------------------------- */

/* A transaction begins with what the last answer has told: the server is asked only if that is too
 * old, and no transaction waits for another. */

static bool can_begin_unasked(const struct store *store)
{
    return store->told.is_known && store->told.has_history && !store->is_astray &&
           rd_link_is_alive(store);
}

static int say_hello(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask(store, "hello");
    int rc = rd_link_told(store, &reply, err);
    freeReplyObject(reply);
    return rc;
}

int rd_set_up(struct store *store, struct redrive_err *err)
{
    char id[24];
    rd_ask(store, "setup");
    rd_ask_int(store, SCHEMA_VERSION);
    snprintf(id, sizeof id, "%016" PRIx64, rng_next(&store->rng));
    rd_ask_text(store, id);
    redisReply *reply = NULL;
    int rc = rd_link_call(store, &reply, err);
    freeReplyObject(reply);
    return rc;
}

static int ask_server(struct store *store, struct redrive_err *err)
{
    int rc = say_hello(store, err);
    if (rc == REDRIVE_E_NOT_FOUND && store->creates) {
        rc = rd_set_up(store, err);
        if (rc == 0)
            rc = say_hello(store, err);
    }
    if (rc == 0)
        store->commits_seen = store->told.commits;
    return rc;
}

/* A server with another history may have lost data, and a store that was emptied has none: what is
 * cached of it, here and in the engine, is no longer valid. The engine is given
 * STORE_VERSION_UNKNOWN. */
static void forget_another(struct store *store)
{
    rd_store_forget(store);
    memcpy(store->known_history, store->told.history, sizeof store->known_history);
    memcpy(store->known_id, store->told.id, sizeof store->known_id);
}

int64_t redis_set_time(struct store *store, int64_t now_ms)
{
    if (!store->in_transaction)
        return now_ms;
    const int64_t mono_ns = clock_monotonic_ns();
    const struct store_time time = store->caller_time ? (struct store_time){now_ms, now_ms}
                                                      : server_time_at(&store->told.time, mono_ns);
    store->begun_ms = mono_ns / 1000000;
    store->now_ms = time.now_ms;
    store->base.unsure_ms = time.latest_ms - time.now_ms;
    return store->now_ms;
}

int redis_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                int64_t *ret_shared_version, struct redrive_err *err)
{
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is open already");
    const int64_t age_ms = server_time_age_ms(&store->told.time, clock_monotonic_ns());
    const bool asks = store_must_ask(&store->base, age_ms) || !can_begin_unasked(store);
    int rc = asks ? ask_server(store, err) : 0;
    if (rc != 0)
        return rc;
    rd_ahead_expire(store);
    const bool is_known = rd_is_known(store);
    if (!is_known)
        forget_another(store);
    store->transaction++;
    store->in_transaction = true;
    store->has_heard = asks;
    store->base.notification = STORE_NOTIFY_ALL;
    store->shared_version = store->told.shared_version;
    *ret_now_ms = redis_set_time(store, now_ms);
    *ret_shared_version = is_known ? store->shared_version : STORE_VERSION_UNKNOWN;
    return 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int collect_entry(struct store *store, struct entry *e, struct redrive_err *err)
{
    struct row old, next = e->now;
    int rc = e->stored.len > 0 ? rd_row_unpack(store, e->seq, e->stored, &old, err) : 0;
    if (rc != 0)
        return rc;
    next.version = (next.version + 1) % RD_VERSION_END;
    buf_reset(&store->row);
    if (e->is_there && rd_row_pack(&next, &store->row) != 0)
        return err_nomem(err);
    rd_places_diff(&store->ops, e->stored.len > 0 ? &old : NULL, e->is_there ? &next : NULL,
                   buf_str(&store->row));
    e->packed = rd_transaction_dup(store, buf_str(&store->row));
    if (e->stored.len > 0)
        rd_entry_rely(store, e);
    if (e->given == store->transaction && e->now.job.status.state == REDRIVE_STATE_RUNNING)
        rd_rely_on_no_pause(store, e->now.partition);
    return 0;
}

static void collect_cell(struct store *store, const struct cell *cell)
{
    const struct str words[] = {cell->field, cell->now}, seen[] = {cell->field, cell->stored};
    const struct str place[] = {STR("0"), cell->lex};
    if (cell->is_read)
        rd_ops_add(&store->checks, 'H', cell->key, NULL, 0, seen, 2);
    if (cell->now.len > 0)
        rd_ops_add(&store->ops, 'H', cell->key, NULL, 0, words, 2);
    else if (cell->stored.len > 0 || !cell->is_read)
        rd_ops_add(&store->ops, 'D', cell->key, NULL, 0, words, 1);
    if (cell->lex.len > 0 && cell->now.len > 0)
        rd_ops_add(&store->ops, 'Z', STR("h"), NULL, 0, place, 2);
    else if (cell->lex.len > 0)
        rd_ops_add(&store->ops, 'Y', STR("h"), NULL, 0, &cell->lex, 1);
}

/* Turns the changes into operations, and into the checks that they rely upon. */
static int collect(struct store *store, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < store->n_dirty; i++)
        rc = collect_entry(store, store->dirty[i], err);
    for (size_t i = 0; i < store->n_dirty_cells; i++)
        collect_cell(store, store->dirty_cells[i]);
    rd_edges_collect(store);
    rd_shared_collect(store);
    if (rc == 0 && (store->ops.failed || store->checks.failed || store->arena.failed))
        rc = err_nomem(err);
    return rc;
}

/* ---- The end --------------------------------------------------------------------------------- */

static int outcome_unknown(struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_IO, "the connection to the Redis server broke at the commit");
    err_detail(err, "the outcome is unknown: all of the transaction's moves were made, or none");
    return rc;
}

/* Asks outside of the transaction, so that it is asked again on a new connection. */
static int ask_outcome(struct store *store, long long *ret)
{
    redisReply *reply = NULL;
    store->in_transaction = false;
    rd_ask(store, "outcome");
    rd_ask_text(store, store->me);
    rd_ask_int(store, store->commit);
    const int rc = rd_link_call(store, &reply, NULL);
    store->in_transaction = true;
    *ret = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return rc;
}

/* The connection broke at the commit: the server says whether the commit was made; if not, it never
 * will be. */
static int learn_outcome(struct store *store, int64_t sent_ms, struct redrive_err *err)
{
    long long outcome = -1;
    if (ask_outcome(store, &outcome) != 0 || clock_monotonic_ms() - sent_ms > OUTCOME_MS ||
        outcome < 0) {
        rd_entries_distrust(store);
        return outcome_unknown(err);
    }
    if (outcome == 1)
        return 0;
    return err_set(err, REDRIVE_E_CANCELLED,
                   "the connection to the Redis server broke before the commit");
}

/* Forgets what the server says has changed. */
static int commit_refused(struct store *store, const redisReply *reply, struct redrive_err *err)
{
    const char *what = "a job";
    for (size_t i = 1; i + 2 < reply->elements; i += 3) {
        const struct str letter = rd_reply_str(reply, i), key = rd_reply_str(reply, i + 1);
        const struct str field = rd_reply_str(reply, i + 2);
        if (str_is(letter, "J") && field.len == 1) {
            const int64_t bucket = rd_reply_int(reply, i + 1);
            rd_entry_forget(store, bucket * 256 + (unsigned char)field.ptr[0]);
        } else if (str_is(letter, "L")) {
            what = "a limit";
        } else if (str_is(letter, "S")) {
            what = "a row that processes share";
            rd_shared_forget(store, key, field);
        } else if (str_is(letter, "A") || str_is(letter, "H") || str_is(letter, "U")) {
            what = "an id or a unique key";
        } else if (str_is(letter, "time")) {
            what = "the clock of the server";
        } else if (str_is(letter, "history")) {
            what = "the history of the server";
        }
    }
    int rc = err_set(err, REDRIVE_E_CANCELLED,
                     "other processes have changed what the transaction relies on");
    err_detail(err, "%s is not as it was", what);
    return rc;
}

/* How many jobs the transaction has made ready. */
static int64_t made_ready(const struct store *store)
{
    int64_t n = 0;
    for (size_t i = 0; i < store->n_dirty; i++)
        n += store->dirty[i]->is_there &&
             store->dirty[i]->now.job.status.state == REDRIVE_STATE_QUEUED;
    return n;
}

static void ask_commit(struct store *store)
{
    rd_ask(store, store->has_new_jobs ? "commit" : "commit_full");
    rd_ask_text(store, store->me);
    rd_ask_int(store, ++store->commit);
    rd_ask_text(store, store->known_id);
    rd_ask_text(store, store->known_history);
    if (store->caller_time)
        rd_ask_text(store, "");
    else
        rd_ask_int(store, store->now_ms + clock_monotonic_ms() - store->begun_ms);
    rd_ask_int(store, store->last_seq);
    rd_ask_int(store, store->shared_puts);
    rd_ask_text(store, store->origin);
    rd_ask_int(store, store->base.notification);
    rd_ask_int(store, made_ready(store));
    rd_ask_int(store, (int64_t)store->n_reserved);
    for (size_t i = 0; i < store->n_reserved; i++)
        rd_ask_int(store, store->reserved[i]);
    rd_ask_int(store, (int64_t)rd_ops_count(&store->checks));
    rd_ops_ask(store, &store->checks);
    rd_ops_ask(store, &store->ops);
}

static int send_commit(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    const int64_t sent_ms = clock_monotonic_ms();
    ask_commit(store);
    store->has_heard = true; /* what others commit from now on is new to it */
    int rc = rd_link_commit(store, &reply, &store->base.is_rolled_back, err);
    if (rc == 0) {
        store->n_reserved = 0;
        if (str_is(rd_reply_str(reply, 0), "OK"))
            rd_limits_merged(store, reply);
        else if (reply->type == REDIS_REPLY_ARRAY)
            rc = commit_refused(store, reply, err);
        freeReplyObject(reply);
    } else if (!store->link) {
        rc = learn_outcome(store, sent_ms, err);
    }
    if (rc != REDRIVE_E_CANCELLED)
        return rc;
    store->base.is_rolled_back = true;
    if (err) {
        const struct redrive_err last = *err;
        err_detail(err, "none of the transaction's moves was made; %s", last.detail);
        err_hint(err, "do it again");
    }
    return rc;
}

int redis_commit(struct store *store, struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    store->base.is_rolled_back = true;
    if (rc == 0)
        rc = collect(store, err);
    if (rc == 0)
        rc = send_commit(store, err);
    if (rc != 0)
        return rc;
    store->commits_seen++;
    keep_committed(store);
    return 0;
}

void redis_rollback(struct store *store)
{
    if (!store->in_transaction)
        return;
    if (store->link && store->n_reserved > 0) {
        rd_ask(store, "release");
        for (size_t i = 0; i < store->n_reserved; i++)
            rd_ask_int(store, store->reserved[i]);
        rd_link_tell(store);
    }
    const bool has_changed = store->n_dirty > 0;
    rd_transaction_end(store);
    if (has_changed || is_too_much(store))
        rd_entries_keep_running(store);
}
