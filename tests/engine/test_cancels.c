/* Cancels that were left in the store. PostgreSQL is asked for them in SQL. */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "store/stores_postgres.h"

#define TENANT "default"
#define MANY   450

/* Puts a row into the store, past the engine. */
static void put_row(struct test_engine *te, const char *id, const char *value)
{
    struct store *store = engine_store(te->engine);
    const struct store_ops *ops = store_ops(store);
    const struct shared_row row = {
        .kind = SHARED_CANCEL, .tenant = STR(TENANT), .key = str_of(id), .value = str_of(value)};
    struct move_result result;
    int64_t now_ms, version;
    assert_int_equal(ops->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(ops->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(ops->commit(store, NULL), 0);
}

/* Asks for the cancel of a job that runs. */
static void ask(struct test_engine *te, const char *id, int64_t seq)
{
    char text[128], answer[32];
    if (strcmp(stores_name(), "postgres") == 0) {
        (void)snprintf(text, sizeof text, "SELECT redrive.cancel('%s')", id);
        stores_postgres_sql(te->url, text, answer, sizeof answer);
        assert_string_equal(answer, "cancelling");
        return;
    }
    const struct job job = te_job(te, seq);
    (void)snprintf(text, sizeof text, "{\"created_ms\":%lld,\"epoch\":%u}",
                   (long long)job.status.created_ms, job.status.epoch);
    put_row(te, id, text);
}

static size_t rows_left(struct test_engine *te)
{
    struct store *store = engine_store(te->engine);
    struct shared_page page = {0};
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_CANCEL, (struct str){0}, &page, NULL), 0);
    const size_t n = page.n;
    shared_page_release(&page);
    return n;
}

static int64_t submit(struct test_engine *te, const char *id)
{
    const struct job_spec spec = {.task = STR("t"), .id = str_of(id)};
    return te_submit_spec(te, &spec);
}

ENGINE_TEST(a_running_job_gives_its_place_back, "tasks: {t: {limits: {concurrency: 1}}}\n")
{
    const int64_t seq = submit(te, "a"), other = submit(te, "b");
    const struct job job = *te_claim_one(te);
    assert_int_equal(job.status.seq, seq);
    assert_int_equal(te_claim(te, 1), 0);
    ask(te, "a", seq);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    te_pass(te, 1000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_CANCELLED);
    assert_int_equal(rows_left(te), 0);
    assert_int_equal(te->told[ENGINE_EVENT_CANCELLED], 1);
    assert_int_equal(te_counter(te, "jobs_cancelled", ""), 1);
    assert_int_equal(te_claim_one(te)->status.seq, other);
    assert_int_equal(te_settle(te, &job, &(struct outcome){.ending = ENDING_RAN}), REDRIVE_E_STATE);
}

ENGINE_TEST(a_job_that_goes_back_to_the_queue_is_cancelled_there, NULL)
{
    const int64_t seq = submit(te, "a");
    const struct job *job = te_claim_one(te);
    ask(te, "a", seq);
    assert_int_equal(te_fail(te, job, "network"), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RETRYING);
    te_pass(te, 100);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_CANCELLED);
    assert_int_equal(rows_left(te), 0);
}

ENGINE_TEST(a_job_that_ends_before_stays_as_it_ended, NULL)
{
    const int64_t seq = submit(te, "a");
    const struct job *job = te_claim_one(te);
    ask(te, "a", seq);
    assert_int_equal(te_succeed(te, job), 0);
    te_pass(te, 100);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_COMPLETED);
    assert_int_equal(rows_left(te), 0);
    assert_int_equal(te->told[ENGINE_EVENT_CANCELLED], 0);
}

ENGINE_TEST(a_later_life_of_the_job_is_not_meant, NULL)
{
    const int64_t seq = submit(te, "a");
    const struct job *job = te_claim_one(te);
    ask(te, "a", seq);
    assert_int_equal(te_fail(te, job, "PERMANENT_FAIL"), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), 0);
    te_pass(te, 100);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_QUEUED);
    assert_int_equal(rows_left(te), 0);
}

/* A cancel of the new life takes the place of one that nobody has carried out. */
TEST(a_cancel_of_this_life_is_not_lost_behind_an_older_one)
{
    struct test_engine te;
    if (strcmp(stores_name(), "postgres") != 0)
        skip(); /* there are such rows only where SQL asks for them */
    te_init(&te, NULL);
    const int64_t seq = submit(&te, "a");
    const struct job *job = te_claim_one(&te);
    ask(&te, "a", seq);
    ask(&te, "a", seq);
    assert_int_equal(rows_left(&te), 1);
    assert_int_equal(te_fail(&te, job, "PERMANENT_FAIL"), 0);
    assert_int_equal(te_change(&te, MOVE_REDRIVE, seq), 0);
    (void)te_claim_one(&te);
    ask(&te, "a", seq);
    assert_int_equal(rows_left(&te), 1);
    te_pass(&te, 100);
    assert_int_equal(te_state(&te, seq), REDRIVE_STATE_CANCELLED);
    te_release(&te);
}

ENGINE_TEST(what_names_no_job_goes, NULL)
{
    const int64_t seq = submit(te, "a");
    (void)te_claim_one(te);
    put_row(te, "nobody", "{\"created_ms\":1,\"epoch\":0}");
    put_row(te, "a", "{\"created_ms\":");
    te_pass(te, 100);
    assert_int_equal(rows_left(te), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
    put_row(te, "a", "{\"epoch\":0}");
    te_pass(te, 100);
    assert_int_equal(rows_left(te), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RUNNING);
}

ENGINE_TEST(many_are_carried_out_in_several_transactions, NULL)
{
    char id[16], value[64];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        (void)submit(te, id);
    }
    assert_int_equal(te_claim(te, MANY), MANY);
    (void)snprintf(value, sizeof value, "{\"created_ms\":%lld,\"epoch\":0}", (long long)te->now_ms);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        put_row(te, id, value);
    }
    te_pass(te, 100);
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), MANY);
    assert_int_equal(rows_left(te), 0);
}

ENGINE_TEST(of_two_engines_one_carries_it_out, "tasks: {t: {limits: {concurrency: 2}}}\n")
{
    int64_t next_ms;
    struct engine *second = te_second_engine(te);
    const int64_t seq = submit(te, "a");
    (void)submit(te, "b");
    (void)submit(te, "c");
    assert_int_equal(te_claim(te, 3), 2);
    ask(te, "a", seq);
    te->now_ms += 100;
    assert_int_equal(engine_tick(second, &next_ms, NULL), 0);
    te_tick(te);
    assert_int_equal(te_counter(te, "jobs_cancelled", ""), 1);
    assert_int_equal(te_claim(te, 2), 1);
    engine_close(second);
}
