/* Another configuration for an engine that is at work. */
#include "engine/bed.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/committer.h"
#include "engine/engine.h"
#include "engine/tasks.h"

#define QUICK "tasks: {call: {retry: {max_attempts: 2, strategy: fixed, initial_delay: 1s}}}\n"
#define SLOW                                                                                     \
    "tasks: {call: {retry: {total_timeout: 0, max_attempts: 9, strategy: fixed, initial_delay: " \
    "10m, max_delay: 20m, "                                                                      \
    "jitter: false}}}\n"

BED_TEST(waiting_jobs_go_by_the_new_policy, QUICK)
{
    int64_t seq = bed_submit(bed, "call", "{}");
    bed_reload(bed, SLOW);
    assert_int_equal(bed_fail(bed, bed_claim_one(bed), "TRANSIENT_FAIL"), 0);
    bed_pass(bed, 60 * 1000);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RETRYING);
    bed_pass(bed, 3600 * 1000);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_QUEUED);
}

BED_TEST(shown_attempts_are_never_less_than_there_were,
         "tasks: {call: {retry: {max_attempts: 2, strategy: immediate}}}\n")
{
    int64_t seq = bed_submit(bed, "call", "{}");
    bed_reload(bed, "tasks: {call: {retry: {max_attempts: 3, strategy: immediate}}}\n");
    for (int n = 0; n < 3; n++) {
        assert_int_equal(bed_fail(bed, bed_claim_one(bed), "TRANSIENT_FAIL"), 0);
        bed_tick(bed);
    }
    const struct job job = bed_job(bed, seq);
    assert_int_equal(job.status.attempts, 3);
    assert_int_equal(job_max_attempts(&job), 3);
}

BED_TEST(shown_attempts_are_those_of_the_class_that_ended_it,
         "tasks: {call: {retry: {max_attempts: 2, strategy: immediate},\n"
         "  on: {rate_limited: {max_attempts: 9}}}}\n")
{
    int64_t seq = bed_submit(bed, "call", "{}");
    struct job job = bed_job(bed, seq);
    assert_int_equal(job_max_attempts(&job), 9);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(bed_fail(bed, bed_claim_one(bed), "TRANSIENT_FAIL"), 0);
        bed_tick(bed);
    }
    job = bed_job(bed, seq);
    assert_int_equal(job.status.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job.status.attempts, 2);
    assert_int_equal(job_max_attempts(&job), 2);
}

BED_TEST(new_jobs_go_by_the_new_definitions, QUICK)
{
    bed_reload(bed, SLOW "strict_tasks: true\n");
    int64_t seq = bed_submit(bed, "call", "{}");
    assert_int_equal(bed_job(bed, seq).spec.max_attempts, 9);
    const struct job_spec unknown = {.task = STR("other")};
    assert_int_equal(bed_try_submit(bed, &unknown), REDRIVE_E_UNKNOWN);
    assert_string_equal(engine_task(bed->engine, STR("call"))->name, "call");
    assert_string_equal(engine_task(bed->engine, STR("other"))->name, "");
}

BED_TEST(classification_is_the_new_one, QUICK)
{
    const struct outcome outcome = {.ending = ENDING_RAN, .failure = {.error_type = "OddError"}};
    bed_reload(bed, QUICK "classify: [{error_type: OddError, class: permanent}]\n");
    int64_t seq = bed_submit(bed, "call", "{}");
    assert_int_equal(bed_settle(bed, bed_claim_one(bed), &outcome), 0);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_DEAD_LETTER);
}

BED_TEST(periodic_tasks_come_and_go,
         "cron: {hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n")
{
    bed_reload(bed, "cron: {often: {task: call, schedule: \"* * * * *\"},\n"
                    "       hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n");
    bed_pass(bed, 60 * 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed_reload(bed, "strict_tasks: false\n");
    bed_pass(bed, 3600 * 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
}

BED_TEST(a_cron_entries_keeps_its_marks,
         "cron: {hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n")
{
    bed_pass(bed, 3600 * 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed_reload(bed, "cron: {first: {task: x, schedule: \"0 0 1 1 *\"},\n"
                    "       hourly: {task: call, schedule: \"0 * * * *\", overlap: allow}}\n");
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed_pass(bed, 3600 * 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
}

BED_TEST(new_tasks_are_published, QUICK)
{
    bed_reload(bed, SLOW);
    struct shared_page page = {0};
    struct store *store = engine_store(bed->engine);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_true(str_contains(page.rows[0].value, STR("\"max_attempts\":9")) ||
                str_contains(page.rows[0].value, STR("\"max_retries\":8")));
    shared_page_release(&page);
}

BED_TEST(a_submit_under_way_keeps_what_it_began_with, QUICK)
{
    bed_reload(bed, "tasks: {call: {queue: media}}\n"); /* held by the engine alone */
    const struct job_spec spec = {.task = STR("call")};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, bed->engine, &spec, 1, NULL), 0);
    bed_reload(bed, QUICK);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    check_str(op.specs[0].queue, "media");
    submit_op_release(&op);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
}

/* ---- Jobs that are parked under a limit ------------------------------------------------------ */

#define LIMIT(limits) "tasks: {call: {limits: {" limits "}}}\n"

static void submit_some(struct bed *bed, int n)
{
    for (int i = 0; i < n; i++)
        bed_submit(bed, "call", "{}");
}

/* One of three runs. */
static void fill_limit(struct bed *bed, const char *yaml)
{
    bed_init(bed, yaml);
    submit_some(bed, 3);
    assert_int_equal(bed_claim(bed, 9), 1);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_PARKED), 2);
}

TEST(parked_jobs_go_by_the_new_limit)
{
    static const struct {
        const char *before, *after;
        size_t n;
    } CASES[] = {
        {LIMIT("concurrency: 1"), LIMIT("concurrency: 3"), 2},
        {LIMIT("concurrency: 1"), LIMIT("concurrency: 2"), 1},
        {LIMIT("concurrency: 1"), LIMIT("concurrency: adaptive, min_concurrency: 2"), 1},
        {LIMIT("concurrency: 1"), QUICK, 2},
        {LIMIT("rate: 1/d"), QUICK, 2},
        {LIMIT("rate: 1/d"), LIMIT("concurrency: 2"), 1},
        {LIMIT("concurrency: 1"), LIMIT("rate: 1/h"), 1},
        {LIMIT("concurrency: 1"), LIMIT("concurrency: 1, rate: 9/s"), 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct bed bed;
        fill_limit(&bed, CASES[i].before);
        bed_reload(&bed, CASES[i].after);
        assert_int_equal(bed_claim(&bed, 9), CASES[i].n);
        bed_release(&bed);
    }
}

/* What the bucket has is kept: it fills faster from now on. */
TEST(parked_jobs_go_at_the_new_rate)
{
    struct bed bed;
    int64_t next_ms;
    fill_limit(&bed, LIMIT("rate: 1/d"));
    bed_reload(&bed, LIMIT("rate: 10/s"));
    assert_int_equal(engine_tick(bed.engine, &next_ms, NULL), 0);
    assert_true(next_ms <= bed.now_ms + 100);
    bed_pass(&bed, 100);
    assert_int_equal(bed_claim(&bed, 9), 1);
    bed_pass(&bed, 100);
    assert_int_equal(bed_claim(&bed, 9), 1);
    bed_release(&bed);
}

TEST(a_restart_reaches_parked_jobs)
{
    struct bed bed;
    fill_limit(&bed, LIMIT("rate: 1/d"));
    config_free(bed.config);
    bed.config = bed_config(&bed, LIMIT("concurrency: 3"));
    struct engine *former = bed.engine;
    bed.engine = bed_second_engine(&bed);
    bed_tick(&bed);
    assert_int_equal(bed_claim(&bed, 9), 2);
    engine_close(former);
    bed_release(&bed);
}

/* The leader goes by what another process has published. */
TEST(a_reload_of_another_process_reaches_parked_jobs)
{
    struct bed bed;
    struct reload_op op;
    int64_t next_ms;
    fill_limit(&bed, LIMIT("rate: 1/d"));
    struct engine *leader = bed_engine_without_config(&bed);
    assert_int_equal(engine_tick(leader, &next_ms, NULL), 0);
    struct config *config = bed_config(&bed, LIMIT("concurrency: 2"));
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(bed.engine, &op.op, NULL), 0);
    reload_op_release(&op);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 0);
    assert_int_equal(engine_tick(leader, &next_ms, NULL), 0);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 1);
    engine_close(leader);
    bed_release(&bed);
}

/* More limits than one transaction renews. */
#define MANY 300
BED_TEST(all_limits_are_renewed, LIMIT("rate: 1/d, per: user"))
{
    for (int i = 0; i < 2 * MANY; i++) {
        char user[16];
        (void)snprintf(user, sizeof user, "user-%d", i % MANY);
        bed_submit_spec(bed, &(struct job_spec){.task = STR("call"), .user = str_of(user)});
    }
    for (size_t n = 0; n < MANY;)
        n += bed_claim(bed, 2 * MANY);
    while (bed_claim(bed, 2 * MANY) > 0)
        ;
    assert_int_equal(bed_count(bed, REDRIVE_STATE_PARKED), MANY);
    bed_reload(bed, LIMIT("concurrency: 2, per: user"));
    assert_int_equal(bed_count(bed, REDRIVE_STATE_PARKED), 0);
}

BED_TEST(ticks_that_may_not_overlap_do_not_after_a_reload, QUICK)
{
    const struct job_spec spec = {.task = STR("call"), .limit_key = STR("limit:cron:nightly")};
    bed_submit_spec(bed, &spec);
    bed_submit_spec(bed, &spec);
    assert_int_equal(bed_claim(bed, 9), 1);
    bed_reload(bed, SLOW);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_PARKED), 1);
}

/* ---- While others are at it ------------------------------------------------------------------ */

#define N_SUBMITS 300
#define N_RELOADS 40

static void *submit_many(void *arg)
{
    struct committer *committer = arg;
    const struct job_spec spec = {.task = STR("call"), .payload = STR("{}")};
    size_t accepted = 0;
    for (int i = 0; i < N_SUBMITS; i++) {
        struct submit_op op;
        if (submit_op_init(&op, committer_engine(committer), &spec, 1, NULL) < 0)
            continue;
        accepted += committer_run(committer, &op.op, NULL) == 0 && op.answers[0].code == 0;
        submit_op_release(&op);
    }
    return (void *)accepted;
}

BED_TEST(submits_go_on_while_configurations_change, QUICK)
{
    struct committer *committer;
    pthread_t threads[2];
    struct engine *witness = bed_second_engine(bed);
    const struct committer_options options = {.engine = bed->engine};
    bed->engine = witness;
    assert_int_equal(committer_start(&options, &committer, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, committer), 0);
    for (int i = 0; i < N_RELOADS; i++) {
        struct config *config = bed_config(bed, i % 2 ? QUICK : "tasks: {call: {queue: media}}\n");
        struct reload_op op;
        assert_int_equal(reload_op_init(&op, config, NULL), 0);
        config_free(config);
        assert_int_equal(committer_run(committer, &op.op, NULL), 0);
        reload_op_release(&op);
    }
    for (size_t i = 0; i < 2; i++) {
        void *accepted;
        assert_int_equal(pthread_join(threads[i], &accepted), 0);
        assert_int_equal((size_t)accepted, N_SUBMITS);
    }
    committer_stop(committer);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2 * N_SUBMITS);
}
