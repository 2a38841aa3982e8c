/* pipe.c - statements on their way to the server, and their results. */
#include <endian.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"
#include "store/postgres/statement_parts.h"

_Static_assert(REDRIVE_STATE_SCHEDULED == 0 && REDRIVE_STATE_RETRYING == 1 &&
                   REDRIVE_STATE_QUEUED == 2 && REDRIVE_STATE_RUNNING == 3 &&
                   REDRIVE_STATE_PARKED == 4 && REDRIVE_STATE_COMPLETED == 5 &&
                   REDRIVE_STATE_CANCELLED == 8 && REDRIVE_STATE_WAITING == 9,
               "statements.h and the schema write states as numbers");
_Static_assert(SHARED_PAUSE == 2 && SHARED_TASK == 3 && SHARED_CANCEL == 7,
               "statements.h and the schema write kinds as numbers");

static const char *const TEXTS[STATEMENT_COUNT] = {
#define XX(name, text) text,
    STATEMENT_MAP(XX)
#undef XX
};

static const char *const NAMES[STATEMENT_COUNT] = {
#define XX(name, text) "redrive_" #name,
    STATEMENT_MAP(XX)
#undef XX
};

/* ---- Sending --------------------------------------------------------------------------------- */

static bool make_room_for_results(struct store *store, size_t capacity)
{
    if (capacity <= store->results_capacity)
        return true;
    PGresult **grown = realloc(store->results, capacity * sizeof(PGresult *));
    if (!grown)
        return false;
    store->results = grown;
    store->results_capacity = capacity;
    return true;
}

static bool make_room_for_sent(struct store *store, size_t capacity)
{
    struct sent *grown = realloc(store->sent, capacity * sizeof *grown);
    if (!grown)
        return false;
    store->sent = grown;
    store->sent_capacity = capacity;
    return true;
}

/* Makes room for a statement and its result, before the statement is given to libpq, which keeps it
 * in a buffer and sends it with what follows: a COMMIT that is there, but not noted, would be sent
 * with the ROLLBACK after it, and be made although its caller was told of a failure. So would a
 * COMMIT whose answer cannot be kept. Without memory the arguments are dropped, and nothing is
 * sent.
 */
static int reserve_sent(struct store *store, struct redrive_err *err)
{
    if (store->n_open == 0)
        store->sent_ns = clock_monotonic_ns();
    if (store->n_sent < store->sent_capacity)
        return 0;
    const size_t capacity = store->sent_capacity ? store->sent_capacity * 2 : 16;
    if (make_room_for_results(store, capacity) && make_room_for_sent(store, capacity))
        return 0;
    pg_args_reset(&store->args);
    return err_nomem(err);
}

static void note_sent(struct store *store, struct sent sent)
{
    store->sent[store->n_sent++] = sent;
    store->n_open++;
}

/* A connection on which a statement was sent in part cannot be used any more. */
static int give_up(struct store *store, struct redrive_err *err)
{
    int rc = pg_connection_error(store, err);
    pg_disconnect(store);
    pg_args_reset(&store->args);
    return rc;
}

/* Drops arguments that could not be built, so that the next statement starts with none. */
static int args_failed(struct store *store, struct redrive_err *err)
{
    const bool too_big = buf_failed(&store->args.bytes) == REDRIVE_E_TOO_BIG;
    pg_args_reset(&store->args);
    return too_big
               ? err_set(err, REDRIVE_E_TOO_BIG, "a transaction has more than the store can take")
               : err_nomem(err);
}

static int send(struct store *store, const char *name, const char *sql, struct redrive_err *err)
{
    struct args *args = &store->args;
    const char *values[ARGS_MAX];
    int formats[ARGS_MAX];
    int n = args->n;
    if (buf_failed(&args->bytes))
        return args_failed(store, err);
    for (int i = 0; i < n; i++) {
        values[i] = args->len[i] < 0   ? NULL
                    : args->bytes.data ? args->bytes.data + args->at[i]
                                       : "";
        formats[i] = 1;
    }
    int sent = name ? PQsendQueryPrepared(store->conn, name, n, values, args->len, formats, 1)
                    : PQsendQueryParams(store->conn, sql, n, NULL, values, args->len, formats, 1);
    pg_args_reset(args);
    return sent ? 0 : give_up(store, err);
}

static int not_connected(struct store *store, struct redrive_err *err)
{
    pg_args_reset(&store->args);
    return pg_connection_error(store, err);
}

static bool is_prepared(const struct store *store, enum statement which)
{
    bool is_known = store->prepared[which];
    for (size_t i = 0; !is_known && i < store->n_sent; i++)
        is_known = store->sent[i].is_prepare && store->sent[i].statement == (int)which;
    return is_known;
}

static int prepare(struct store *store, enum statement which, struct redrive_err *err)
{
    if (is_prepared(store, which))
        return 0;
    int rc = reserve_sent(store, err);
    if (rc == 0 && !PQsendPrepare(store->conn, NAMES[which], TEXTS[which], 0, NULL))
        rc = give_up(store, err);
    if (rc == 0)
        note_sent(store, (struct sent){.statement = (int)which, .is_prepare = true});
    return rc;
}

int pg_send_bare(struct store *store, enum statement which, struct redrive_err *err)
{
    int rc = prepare(store, which, err);
    if (rc == 0)
        rc = reserve_sent(store, err);
    if (rc == 0 && !PQsendQueryPrepared(store->conn, NAMES[which], 0, NULL, NULL, NULL, 1))
        rc = give_up(store, err);
    if (rc == 0)
        note_sent(store, (struct sent){.statement = (int)which});
    return rc;
}

/* BEGIN is sent with the first statement of a transaction. A statement between two transactions
 * ends the one that was begun ahead for the next claim. */
static int begin_transaction(struct store *store, struct redrive_err *err)
{
    if (!store->in_transaction)
        pg_ahead_drop(store);
    if (!pg_is_connected(store))
        return not_connected(store, err);
    if (!store->in_transaction || store->is_begun)
        return 0;
    store->is_begun = true;
    return pg_send_bare(store, store->is_snapshot ? STATEMENT_BEGIN_SNAPSHOT : STATEMENT_BEGIN,
                        err);
}

/* Whether a statement changes nothing, but for locks on the rows that it returns. */
static bool is_a_read(enum statement which)
{
    return (which >= STATEMENT_READY_OF_TENANT && which <= STATEMENT_FINISHED) ||
           which == STATEMENT_BEGIN || which == STATEMENT_BEGIN_SNAPSHOT ||
           which == STATEMENT_SNAPSHOT_WAITS || which == STATEMENT_ROLLBACK ||
           which == STATEMENT_TRANSACTION || which == STATEMENT_SHARED_LIST ||
           which == STATEMENT_PARTITIONS_KNOWN || which == STATEMENT_JOBS_NAMED ||
           which == STATEMENT_JOBS_READ;
}

int pg_send(struct store *store, enum statement which, bool is_wanted, struct redrive_err *err)
{
    int rc = begin_transaction(store, err);
    if (rc == 0)
        rc = prepare(store, which, err);
    if (rc == 0)
        rc = reserve_sent(store, err);
    if (rc == 0)
        rc = send(store, NAMES[which], NULL, err);
    if (rc == 0)
        note_sent(store, (struct sent){.statement = (int)which, .is_wanted = is_wanted});
    store->writes |= !is_a_read(which);
    return rc;
}

int pg_send_text(struct store *store, const char *sql, struct redrive_err *err)
{
    int rc = begin_transaction(store, err);
    if (rc == 0)
        rc = reserve_sent(store, err);
    if (rc == 0)
        rc = send(store, NULL, sql, err);
    if (rc == 0)
        note_sent(store, (struct sent){.statement = -1, .is_wanted = true});
    return rc;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

void pg_forget_results(struct store *store)
{
    for (size_t i = 0; i < store->n_results; i++)
        PQclear(store->results[i]);
    store->n_results = 0;
}

bool pg_keep_result(struct store *store, PGresult *result)
{
    if (!make_room_for_results(store, store->n_results + 1))
        return false;
    store->results[store->n_results++] = result;
    return true;
}

/* One answer; *rc is the first failure of all. */
static void take_answer(struct store *store, const struct sent *sent, PGresult *result, int *rc,
                        struct redrive_err *err)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
        if (sent->is_prepare)
            store->prepared[sent->statement] = true;
        if (*rc == 0 && sent->is_wanted) {
            if (pg_keep_result(store, result))
                return;
            *rc = err_nomem(err);
        }
        break;
    case PGRES_PIPELINE_ABORTED: break;
    default:
        if (*rc == 0)
            *rc = pg_error(store, result, err);
        break;
    }
    PQclear(result);
}

/* Reads up to the end of a pipeline; *at is the index of its first statement among those that were
 * sent, and is moved behind its last. False: the connection is gone. */
static bool take_answers(struct store *store, size_t *at, int *rc, struct redrive_err *err)
{
    for (;;) {
        PGresult *result = PQgetResult(store->conn);
        if (!result) {
            /* The end of what one statement has answered. */
            if (PQstatus(store->conn) == CONNECTION_BAD || *at >= store->n_sent)
                return false;
            ++*at;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return true;
        }
        static const struct sent NONE = {.statement = -1};
        take_answer(store, *at < store->n_sent ? &store->sent[*at] : &NONE, result, rc, err);
    }
}

/* Reads the answers to pipelines that were sent off, and drops them. */
static bool take_unheard(struct store *store, size_t *at)
{
    bool stands = true;
    for (; stands && store->n_unheard > 0; store->n_unheard--) {
        int ignored = 0;
        stands = take_answers(store, at, &ignored, NULL);
        pg_forget_results(store);
    }
    if (!store->next.is_open)
        store->base.wants_upkeep = false;
    return stands;
}

static void forget_sent(struct store *store)
{
    store->n_sent = store->n_open = store->n_unheard = 0;
}

/* Reads the answers to pipelines that were sent off, and to the next one. What follows stays
 * unread. */
static int take_pipeline(struct store *store, struct redrive_err *err)
{
    size_t at = 0;
    int rc = 0;
    const bool stands = take_unheard(store, &at) && take_answers(store, &at, &rc, err);
    if (!stands || PQstatus(store->conn) == CONNECTION_BAD) {
        if (rc == 0)
            rc = pg_connection_error(store, err);
        pg_disconnect(store);
    } else {
        store->n_sent -= at;
        memmove(store->sent, store->sent + at, store->n_sent * sizeof *store->sent);
        if (store->is_swapped && !store->in_transaction)
            pg_disconnect(store);
    }
    if (rc != 0) {
        pg_forget_results(store);
        store->is_lost = store->in_transaction;
        server_time_forget(&store->answer.time);
    }
    return rc;
}

int pg_sync_then(struct store *store, void (*send_more)(struct store *store),
                 struct redrive_err *err)
{
    pg_forget_results(store);
    store->asked_ns = store->sent_ns;
    const size_t n_unheard = store->n_unheard;
    if (pg_is_connected(store) && !PQpipelineSync(store->conn)) {
        int rc = pg_connection_error(store, err);
        pg_disconnect(store);
        store->is_lost = store->in_transaction;
        return rc;
    }
    store->n_open = store->n_unheard = 0;
    if (send_more && pg_is_connected(store))
        send_more(store);
    if (!pg_is_connected(store)) {
        forget_sent(store);
        store->is_lost = store->in_transaction;
        return pg_connection_error(store, err);
    }
    const size_t n_after = store->n_unheard;
    store->n_unheard = n_unheard;
    int rc = take_pipeline(store, err);
    if (pg_is_connected(store))
        store->n_unheard = n_after;
    return rc;
}

int pg_sync(struct store *store, struct redrive_err *err)
{
    return pg_sync_then(store, NULL, err);
}

int pg_take_next(struct store *store, struct redrive_err *err)
{
    pg_forget_results(store);
    return take_pipeline(store, err);
}

void pg_send_off(struct store *store)
{
    if (PQpipelineSync(store->conn)) {
        store->n_unheard++;
        store->n_open = 0;
    } else {
        pg_disconnect(store);
    }
}

void pg_drain(struct store *store)
{
    size_t at = 0;
    if (store->n_unheard == 0)
        return;
    const bool stands = take_unheard(store, &at);
    forget_sent(store);
    if (!stands || PQstatus(store->conn) == CONNECTION_BAD || store->is_swapped)
        pg_disconnect(store);
}

int pg_run(struct store *store, enum statement which, const PGresult **ret, struct redrive_err *err)
{
    int rc = pg_send(store, which, ret != NULL, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    else
        store->is_lost = store->in_transaction;
    if (rc == 0 && ret)
        *ret = store->results[0];
    return rc;
}

int pg_run_checked(struct store *store, enum statement which, const PGresult **ret,
                   struct redrive_err *err)
{
    if (store->has_asked)
        return pg_run(store, which, ret, err);
    int rc = pg_send(store, which, true, err);
    if (rc == 0)
        rc = pg_send(store, STATEMENT_TRANSACTION, true, err);
    if (rc != 0)
        store->is_lost = store->in_transaction;
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc == 0)
        rc = pg_answer_check(store, store->results[1], 0, err);
    if (rc == 0)
        *ret = store->results[0];
    return rc;
}

/* A copy of what is to be sent, for a second time. */
static bool keep_args(const struct args *from, struct args *to)
{
    pg_args_init(to);
    to->n = from->n;
    memcpy(to->at, from->at, sizeof to->at);
    memcpy(to->len, from->len, sizeof to->len);
    return !buf_failed(&from->bytes) && buf_add(&to->bytes, from->bytes.data, from->bytes.len) == 0;
}

static int read_once(struct store *store, enum statement which, const char *sql,
                     const PGresult **ret, struct redrive_err *err)
{
    int rc = sql ? pg_send_text(store, sql, err) : pg_send(store, which, true, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc == 0)
        *ret = store->results[store->n_results - 1];
    return rc;
}

int pg_run_text(struct store *store, const char *sql, struct redrive_err *err)
{
    int rc = pg_send_text(store, sql, err);
    return rc == 0 ? pg_sync(store, err) : rc;
}

int pg_read(struct store *store, enum statement which, const char *sql, const PGresult **ret,
            struct redrive_err *err)
{
    struct args again;
    if (!keep_args(&store->args, &again)) {
        pg_args_release(&again);
        return args_failed(store, err);
    }
    int rc = 0;
    if (store->in_transaction) {
        pg_args_reset(&store->args);
        rc = pg_rows_flush(store, err);
        pg_args_release(&store->args);
        store->args = again;
        if (rc == 0)
            rc = read_once(store, which, sql, ret, err);
        else
            pg_args_reset(&store->args);
        store->is_lost |= rc != 0;
        return rc;
    }
    if (!pg_is_connected(store))
        rc = pg_connect(store, true, err);
    if (rc == 0)
        rc = read_once(store, which, sql, ret, err);
    if (rc != 0 && !pg_is_connected(store)) {
        rc = pg_connect(store, true, err);
        if (rc == 0) {
            pg_args_release(&store->args);
            store->args = again;
            return read_once(store, which, sql, ret, err);
        }
        pg_args_reset(&store->args);
    }
    pg_args_release(&again);
    return rc;
}

/* ---- What is in a result --------------------------------------------------------------------- */

int64_t pg_get_int(const PGresult *result, int row, int column)
{
    const char *bytes = PQgetvalue(result, row, column);
    uint64_t big8;
    uint32_t big4;
    uint16_t big2;
    switch (PQgetlength(result, row, column)) {
    case sizeof big8: memcpy(&big8, bytes, sizeof big8); return (int64_t)be64toh(big8);
    case sizeof big4: memcpy(&big4, bytes, sizeof big4); return (int32_t)be32toh(big4);
    case sizeof big2: memcpy(&big2, bytes, sizeof big2); return (int16_t)be16toh(big2);
    default: return 0;
    }
}

bool pg_get_bool(const PGresult *result, int row, int column)
{
    return PQgetlength(result, row, column) == 1 && *PQgetvalue(result, row, column) != 0;
}

bool pg_is_below(const PGresult *result, int row, int column, int n)
{
    const int64_t number = pg_get_int(result, row, column);
    return number >= 0 && number < n;
}

struct str pg_get_raw(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return (struct str){NULL, 0};
    return (struct str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

struct str pg_get_text(const PGresult *result, int row, int column, struct arena *arena)
{
    struct str raw = pg_get_raw(result, row, column);
    return raw.ptr ? pg_text_decode(raw, arena) : raw;
}
