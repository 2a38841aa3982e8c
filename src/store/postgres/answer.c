/* answer.c - the time of a transaction, and the shared version, without a question.
 *
 * Claims and commits tell both. While the last answer is fresh, a transaction goes by it: its time
 * is the server's when that was told, and what has passed since the answer came. That is a lower
 * bound of the server's time, off by less than a round trip. A clock that was set, or a machine
 * that slept, is noticed by the commit, which compares the transaction's time with the server's.
 */
#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

#define NS_IN_MS     1000000
#define BACKWARDS_MS 1000

void pg_answer_note(struct store *store, const PGresult *result, int column)
{
    store->answer.heard_ns = clock_monotonic_ns();
    store->answer.shared_version = pg_get_int(result, 0, column);
    store->answer.server_ms = pg_get_int(result, 0, column + 1);
}

int64_t pg_answer_age_ms(const struct store *store)
{
    if (store->answer.heard_ns == 0)
        return INT64_MAX;
    return (clock_monotonic_ns() - store->answer.heard_ns) / NS_IN_MS;
}

int64_t pg_answer_time_ms(struct store *store)
{
    struct answer *answer = &store->answer;
    const int64_t now_ms = answer->server_ms + pg_answer_age_ms(store);
    const bool is_back = now_ms < answer->last_ms && answer->last_ms - now_ms < BACKWARDS_MS;
    if (!is_back)
        answer->last_ms = now_ms;
    return answer->last_ms;
}

int pg_answer_check(struct store *store, const PGresult *result, int column,
                    struct redrive_err *err)
{
    pg_answer_note(store, result, column);
    if (store->answer.shared_version == store->shared_version)
        return 0;
    store->is_lost = true;
    return err_set(err, REDRIVE_E_CANCELLED, "what processes share has changed meanwhile");
}
