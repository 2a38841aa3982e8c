/* SQL moves jobs as the state machine does.
 *
 * Cancel and retry are written in PL/pgSQL as well, because an application calls them in a
 * transaction of its own. So for each state that a job can be in, SQL moves one job and the store
 * another, and the two must end alike. Times count as there or not there.
 */
#include "store_for_test.h"
#include "stores_postgres.h"

struct twins {
    int64_t by_sql, by_store;
    int64_t sql_due_ms, store_due_ms; /* process_after before the move */
};

/* `was_parked`: it ran, was parked and released before. */
static int64_t put_twin(struct test_store *ts, enum redrive_state state, const char *id,
                        bool was_parked)
{
    const struct job_spec spec = {
        .id = str_of(id), .unique_key = str_of(id), .breaker_key = STR("b")};
    if (!was_parked)
        return ts_put_in(ts, state, &spec);
    int64_t next_ms;
    const int64_t seq = ts_put(ts, &spec);
    check_move(ts_settle(ts, seq, ts_start(ts, seq), decision_released()), 0, REDRIVE_STATE_QUEUED);
    check_move(ts_settle(ts, seq, ts_start(ts, seq), decision_retrying(0)), 0,
               REDRIVE_STATE_RETRYING);
    ts_promote(ts, 10, &next_ms);
    check_move(ts_park(ts, seq, true), 0, REDRIVE_STATE_PARKED);
    return seq;
}

static struct twins put_twins(struct test_store *ts, enum redrive_state state, bool was_parked)
{
    struct twins twins = {
        .by_sql = put_twin(ts, state, "by_sql", was_parked),
        .by_store = put_twin(ts, state, "by_store", was_parked),
    };
    twins.sql_due_ms = ts_job(ts, twins.by_sql)->status.process_after_ms;
    twins.store_due_ms = ts_job(ts, twins.by_store)->status.process_after_ms;
    ts->now_ms += 1000; /* of the store; SQL has the server's clock */
    return twins;
}

static void check_alike(struct test_store *ts, struct twins twins)
{
    const struct job_status a = ts_job(ts, twins.by_sql)->status;
    const size_t n_attempts = ts_history(ts, twins.by_sql)->n;
    const struct job_status b = ts_job(ts, twins.by_store)->status;
    assert_int_equal(a.state, b.state);
    assert_int_equal(a.reason, b.reason);
    assert_int_equal(a.parked_by_limit, b.parked_by_limit);
    assert_int_equal(a.epoch, b.epoch);
    assert_int_equal(a.attempts, b.attempts);
    assert_int_equal(a.deferrals, b.deferrals);
    assert_int_equal(a.crashes, b.crashes);
    assert_int_equal(a.process_after_ms != twins.sql_due_ms,
                     b.process_after_ms != twins.store_due_ms);
    assert_int_equal(a.first_started_ms > 0, b.first_started_ms > 0);
    assert_int_equal(a.started_ms > 0, b.started_ms > 0);
    assert_int_equal(a.finished_ms > 0, b.finished_ms > 0);
    assert_int_equal(a.paused_ms > 0, b.paused_ms > 0);
    assert_int_equal(a.paused_since_ms > 0, b.paused_since_ms > 0);
    assert_int_equal(a.token > 0, b.token > 0);
    assert_int_equal(a.lease_until_ms > 0, b.lease_until_ms > 0);
    assert_int_equal(n_attempts, ts_history(ts, twins.by_store)->n);
    /* Both hold their keys, or neither. */
    assert_int_equal(TRY_PUT(ts, .unique_key = STR("by_sql")).code,
                     TRY_PUT(ts, .unique_key = STR("by_store")).code);
}

static void begin_anew(struct test_store *ts)
{
    ts_close(ts);
    ts_open(ts, "postgres");
}

static void check_cancel(struct test_store *ts, enum redrive_state state, bool was_parked)
{
    const struct twins twins = put_twins(ts, state, was_parked);
    stores_postgres_sql(ts->url, "SELECT redrive.cancel('by_sql', 'acme')", NULL, 0);
    CHANGE(ts, .seq = twins.by_store, .kind = MOVE_CANCEL);
    check_alike(ts, twins);
    begin_anew(ts);
}

/* A running one is cancelled by the engine: see above. */
STORE_TEST(sql_cancels_as_the_state_machine_does)
{
    for (enum redrive_state from = 0; from < REDRIVE_STATE_COUNT; from++)
        if (from != REDRIVE_STATE_RUNNING)
            check_cancel(ts, from, false);
    check_cancel(ts, REDRIVE_STATE_PARKED, true);
}

static void check_retry(struct test_store *ts, enum redrive_state state, bool was_parked)
{
    const struct twins twins = put_twins(ts, state, was_parked);
    const bool waits = state == REDRIVE_STATE_SCHEDULED || state == REDRIVE_STATE_RETRYING;
    stores_postgres_sql(ts->url, "SELECT redrive.retry('by_sql', 'acme')", NULL, 0);
    CHANGE(ts, .seq = twins.by_store, .kind = waits ? MOVE_RUN_NOW : MOVE_REDRIVE);
    check_alike(ts, twins);
    begin_anew(ts);
}

STORE_TEST(sql_retries_as_the_state_machine_does)
{
    for (enum redrive_state from = 0; from < REDRIVE_STATE_COUNT; from++)
        check_retry(ts, from, false);
    check_retry(ts, REDRIVE_STATE_PARKED, true);
}
