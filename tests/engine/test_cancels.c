/* Cancels that were left in the store. PostgreSQL is asked for them in SQL. */
#include "engine/bed.h"

#include <stdio.h>

#include "store/stores_postgres.h"

#define TENANT "default"
#define MANY   450

/* Puts a row into the store, past the engine. */
static void put_row(struct bed *bed, const char *id, const char *value)
{
    struct store *store = engine_store(bed->engine);
    const struct store_ops *ops = store_ops(store);
    const struct shared_row row = {
        .kind = SHARED_CANCEL, .tenant = STR(TENANT), .key = str_of(id), .value = str_of(value)};
    struct move_result result;
    int64_t now_ms, version;
    assert_int_equal(ops->begin(store, bed->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(ops->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(ops->commit(store, NULL), 0);
}

/* Asks for the cancel of a job that runs. */
static void ask(struct bed *bed, const char *id, int64_t seq)
{
    char text[128], answer[32];
    if (strcmp(stores_name(), "postgres") == 0) {
        (void)snprintf(text, sizeof text, "SELECT redrive.cancel('%s')", id);
        stores_postgres_sql(bed->url, text, answer, sizeof answer);
        assert_string_equal(answer, "cancelling");
        return;
    }
    const struct job job = bed_job(bed, seq);
    (void)snprintf(text, sizeof text, "{\"created_ms\":%lld,\"epoch\":%u}",
                   (long long)job.status.created_ms, job.status.epoch);
    put_row(bed, id, text);
}

static size_t rows_left(struct bed *bed)
{
    struct store *store = engine_store(bed->engine);
    struct shared_page page = {0};
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_CANCEL, (struct str){0}, &page, NULL), 0);
    const size_t n = page.n;
    shared_page_release(&page);
    return n;
}

static int64_t submit(struct bed *bed, const char *id)
{
    const struct job_spec spec = {.task = STR("t"), .id = str_of(id)};
    return bed_submit_spec(bed, &spec);
}

BED_TEST(a_running_job_gives_its_place_back, "tasks: {t: {limits: {concurrency: 1}}}\n")
{
    const int64_t seq = submit(bed, "a"), other = submit(bed, "b");
    const struct job job = *bed_claim_one(bed);
    assert_int_equal(job.status.seq, seq);
    assert_int_equal(bed_claim(bed, 1), 0);
    ask(bed, "a", seq);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RUNNING);
    bed_pass(bed, 1000);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_CANCELLED);
    assert_int_equal(rows_left(bed), 0);
    assert_int_equal(bed->told[ENGINE_EVENT_CANCELLED], 1);
    assert_int_equal(bed_counter(bed, "jobs_cancelled", ""), 1);
    assert_int_equal(bed_claim_one(bed)->status.seq, other);
    assert_int_equal(bed_settle(bed, &job, &(struct outcome){.ending = ENDING_RAN}),
                     REDRIVE_E_STATE);
}

BED_TEST(a_job_that_goes_back_to_the_queue_is_cancelled_there, NULL)
{
    const int64_t seq = submit(bed, "a");
    const struct job *job = bed_claim_one(bed);
    ask(bed, "a", seq);
    assert_int_equal(bed_fail(bed, job, "network"), 0);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RETRYING);
    bed_pass(bed, 100);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_CANCELLED);
    assert_int_equal(rows_left(bed), 0);
}

BED_TEST(a_job_that_ends_before_stays_as_it_ended, NULL)
{
    const int64_t seq = submit(bed, "a");
    const struct job *job = bed_claim_one(bed);
    ask(bed, "a", seq);
    assert_int_equal(bed_succeed(bed, job), 0);
    bed_pass(bed, 100);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_COMPLETED);
    assert_int_equal(rows_left(bed), 0);
    assert_int_equal(bed->told[ENGINE_EVENT_CANCELLED], 0);
}

BED_TEST(a_later_life_of_the_job_is_not_meant, NULL)
{
    const int64_t seq = submit(bed, "a");
    const struct job *job = bed_claim_one(bed);
    ask(bed, "a", seq);
    assert_int_equal(bed_fail(bed, job, "PERMANENT_FAIL"), 0);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, seq), 0);
    bed_pass(bed, 100);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_QUEUED);
    assert_int_equal(rows_left(bed), 0);
}

/* A cancel of the new life takes the place of one that nobody has carried out. */
TEST(a_cancel_of_this_life_is_not_lost_behind_an_older_one)
{
    struct bed bed;
    if (strcmp(stores_name(), "postgres") != 0)
        skip(); /* there are such rows only where SQL asks for them */
    bed_init(&bed, NULL);
    const int64_t seq = submit(&bed, "a");
    const struct job *job = bed_claim_one(&bed);
    ask(&bed, "a", seq);
    ask(&bed, "a", seq);
    assert_int_equal(rows_left(&bed), 1);
    assert_int_equal(bed_fail(&bed, job, "PERMANENT_FAIL"), 0);
    assert_int_equal(bed_change(&bed, MOVE_REDRIVE, seq), 0);
    (void)bed_claim_one(&bed);
    ask(&bed, "a", seq);
    assert_int_equal(rows_left(&bed), 1);
    bed_pass(&bed, 100);
    assert_int_equal(bed_state(&bed, seq), REDRIVE_STATE_CANCELLED);
    bed_release(&bed);
}

BED_TEST(what_names_no_job_goes, NULL)
{
    const int64_t seq = submit(bed, "a");
    (void)bed_claim_one(bed);
    put_row(bed, "nobody", "{\"created_ms\":1,\"epoch\":0}");
    put_row(bed, "a", "{\"created_ms\":");
    bed_pass(bed, 100);
    assert_int_equal(rows_left(bed), 0);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RUNNING);
    put_row(bed, "a", "{\"epoch\":0}");
    bed_pass(bed, 100);
    assert_int_equal(rows_left(bed), 0);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RUNNING);
}

BED_TEST(many_are_carried_out_in_several_transactions, NULL)
{
    char id[16], value[64];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        (void)submit(bed, id);
    }
    assert_int_equal(bed_claim(bed, MANY), MANY);
    (void)snprintf(value, sizeof value, "{\"created_ms\":%lld,\"epoch\":0}",
                   (long long)bed->now_ms);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        put_row(bed, id, value);
    }
    bed_pass(bed, 100);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_CANCELLED), MANY);
    assert_int_equal(rows_left(bed), 0);
}

BED_TEST(of_two_engines_one_carries_it_out, "tasks: {t: {limits: {concurrency: 2}}}\n")
{
    int64_t next_ms;
    struct engine *second = bed_second_engine(bed);
    const int64_t seq = submit(bed, "a");
    (void)submit(bed, "b");
    (void)submit(bed, "c");
    assert_int_equal(bed_claim(bed, 3), 2);
    ask(bed, "a", seq);
    bed->now_ms += 100;
    assert_int_equal(engine_tick(second, &next_ms, NULL), 0);
    bed_tick(bed);
    assert_int_equal(bed_counter(bed, "jobs_cancelled", ""), 1);
    assert_int_equal(bed_claim(bed, 2), 1);
    engine_close(second);
}
