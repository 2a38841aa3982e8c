/* around.c - which process is the leader for all, how many claim, whether there is anything to
 * take. */
#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* Time is asked for, and those who claim are counted, no more often than this: to count them is to
 * look at every connection of the server. */
#define COUNT_EVERY_MS 500

static void name_me(struct store *store)
{
    pg_args_bytes(&store->args, (struct str){(const char *)&store->me, sizeof store->me});
}

static int look(struct store *store, int64_t keep_ms, bool claims, struct redrive_err *err)
{
    const PGresult *result;
    name_me(store);
    pg_args_int8(&store->args, keep_ms);
    int rc =
        pg_read(store, claims ? STATEMENT_AROUND_CLAIMS : STATEMENT_AROUND, NULL, &result, err);
    if (rc != 0)
        return rc;
    store->around = (struct store_around){.is_leader = pg_get_bool(result, 0, 0),
                                          .has_ready = pg_get_bool(result, 0, 1),
                                          .claimers = (size_t)pg_get_int(result, 0, 2)};
    store->around_ms = clock_monotonic_ms();
    return 0;
}

static int look_for_ready(struct store *store, struct redrive_err *err)
{
    const PGresult *result;
    int rc = pg_read(store, STATEMENT_AROUND_READY, NULL, &result, err);
    if (rc == 0)
        store->around.has_ready = pg_get_bool(result, 0, 0);
    return rc;
}

static int leave(struct store *store, struct redrive_err *err)
{
    const PGresult *ignored;
    name_me(store);
    store->around.is_leader = false;
    return pg_read(store, STATEMENT_AROUND_LEAVE, NULL, &ignored, err);
}

int postgres_elect(struct store *store, int64_t keep_ms, bool claims, struct store_around *ret,
                   struct redrive_err *err)
{
    int rc = 0;
    *ret = (struct store_around){0};
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE,
                       "a transaction is open: a leader is elected outside of one");
    if (keep_ms <= 0 && store->around.is_leader)
        rc = leave(store, err);
    if (rc != 0)
        return rc;
    const bool is_fresh =
        claims && store->around_ms != 0 && clock_monotonic_ms() - store->around_ms < COUNT_EVERY_MS;
    rc = is_fresh ? look_for_ready(store, err) : look(store, keep_ms, claims, err);
    if (rc == 0)
        *ret = store->around;
    return rc;
}

void pg_give_time_back(struct store *store)
{
    /* If that fails, the time is over soon. */
    if (store->around.is_leader && pg_is_connected(store))
        (void)leave(store, NULL);
}
