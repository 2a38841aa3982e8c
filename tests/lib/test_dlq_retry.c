/* Dead letters that get another chance, one by one and all together. */
#include "fixture.h"

static int check_both_epochs(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    assert_int_equal(entry->epoch, 1);
    assert_int_equal(entry->attempts, 2);
    assert_int_equal(entry->n_history, 4);
    const unsigned attempts[] = {1, 2, 1, 2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(entry->history[i].attempt, attempts[i]);
    assert_string_equal(entry->message, "Connection timed out");
    assert_string_equal(entry->history[0].message, "Connection refused");
    assert_memory_equal(entry->payload, "body", 4);
    assert_true(entry->seq > 2);
    return 0;
}

HANDLER_TEST(a_retry_starts_afresh_and_keeps_both_histories)
{
    struct redrive_policy policy = f->policy;
    policy.max_retries = 1;
    char type[] = "X";
    const char *types[] = {type};
    policy.give_up_on = (struct redrive_match){.types = types, .n_types = 1};
    struct redrive_job job = {
        .id = "a", .task = "t", .payload = "body", .payload_len = 4, .policy = &policy};
    redrive_submit(f->handler, &job, refuse_connection, NULL, NULL);
    bury(f, 1);
    policy.max_retries = 50; /* the entry has its own copy */
    type[0] = 'Y';

    struct script script = {.failures = ALWAYS, .code = -ETIMEDOUT};
    struct redrive_result result;
    assert_int_equal(redrive_dlq_retry(f->handler, "a", run_script, &script, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(script.calls, 2);
    assert_int_equal(result.attempts, 2);
    assert_int_equal(redrive_dlq_show(f->handler, "a", check_both_epochs, NULL), 0);
    assert_int_equal(dlq_of(f->handler).total_jobs, 2);
    assert_int_equal(metrics_of(f->handler).jobs_redriven, 1);
    check_balance(f->handler);

    assert_int_equal(redrive_dlq_retry(f->handler, "a", succeed, NULL, &result), 0);
    assert_int_equal(redrive_dlq_show(f->handler, "a", check_both_epochs, NULL),
                     REDRIVE_E_NOT_FOUND);
    check_balance(f->handler);
}

struct inside {
    struct redrive_handler *handler;
    const char *id;
};

static int look_from_inside(struct redrive_run *run, void *arg)
{
    struct inside *inside = arg;
    struct redrive_handler *h = inside->handler;
    struct ids ids = {0};
    size_t len;
    assert_int_equal(dlq_of(h).total_jobs, 0);
    assert_int_equal(redrive_dlq_list(h, NULL, collect, &ids), 0);
    assert_int_equal(ids.n, 0);
    assert_int_equal(redrive_dlq_show(h, "a", collect, &ids), REDRIVE_E_STATE);
    assert_int_equal(redrive_dlq_retry(h, "a", succeed, NULL, NULL), REDRIVE_E_STATE);
    assert_int_equal(redrive_dlq_edit(h, "a", "x", 1), REDRIVE_E_STATE);
    assert_int_equal(redrive_dlq_remove(h, "a"), REDRIVE_E_STATE);
    assert_int_equal(
        redrive_submit(h, &(struct redrive_job){.id = "a", .task = "t"}, succeed, NULL, NULL),
        REDRIVE_E_EXISTS);
    assert_memory_equal(redrive_run_payload(run, &len), "edited", 6);
    assert_int_equal(len, 6);
    return 0;
}

HANDLER_TEST(the_entry_is_gone_exactly_while_its_job_is_back)
{
    struct redrive_job job = {.id = "a", .task = "t", .payload = "body", .payload_len = 4};
    redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    assert_int_equal(redrive_dlq_edit(f->handler, "a", "edited", 6), 0);
    struct inside inside = {f->handler, "a"};
    assert_int_equal(redrive_dlq_retry(f->handler, "a", look_from_inside, &inside, NULL), 0);
}

static int retry_same_id(struct redrive_run *run, void *arg)
{
    struct redrive_result result;
    assert_int_equal(redrive_dlq_retry(arg, redrive_run_job_id(run), succeed, NULL, &result),
                     REDRIVE_E_EXISTS);
    return find_input_malformed(run, NULL);
}

HANDLER_TEST(a_later_job_of_the_same_id_blocks_and_replaces)
{
    struct redrive_job job = {.id = "a", .task = "t"};
    redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    redrive_submit(f->handler, &job, retry_same_id, f->handler, NULL);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
    struct ids ids = {0};
    redrive_dlq_list(f->handler, NULL, collect, &ids);
    assert_int_equal(ids.last_seq, 2);
    redrive_submit(f->handler, &job, succeed, NULL, NULL);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
}

OPTIONS_TEST(a_refused_retry_leaves_the_entry)
{
    f->breaker.on_open = REDRIVE_ON_OPEN_REJECT;
    fixture_new_handler(f);
    struct redrive_job job = {.id = "a", .task = "t"};
    redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    redrive_breaker_trip(f->handler, "t");
    struct redrive_result result;
    assert_int_equal(redrive_dlq_retry(f->handler, "a", succeed, NULL, &result),
                     REDRIVE_E_BREAKER_OPEN);
    assert_int_equal(redrive_dlq_retry(f->handler, "b", succeed, NULL, &result),
                     REDRIVE_E_NOT_FOUND);
    assert_string_equal(result.error.message, "no such dead letter");
    assert_int_equal(redrive_dlq_retry(f->handler, "a", NULL, NULL, &result), REDRIVE_E_INVALID);
    redrive_handler_stop(f->handler);
    assert_int_equal(redrive_dlq_retry(f->handler, "a", succeed, NULL, &result),
                     REDRIVE_E_STOPPING);
    assert_int_equal(redrive_dlq_retry_all(f->handler, NULL, succeed, NULL, 0, false, NULL, NULL),
                     REDRIVE_E_STOPPING);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
}

static int succeed_every_other_time(struct redrive_run *run, void *arg)
{
    struct script *script = arg;
    int n = atomic_fetch_add(&script->calls, 1);
    return n % 2 == 0 ? 0 : find_input_malformed(run, NULL);
}

HANDLER_TEST(all_matches_are_retried_once_at_the_pace_given)
{
    bury(f, 10);
    redrive_call(f->handler, "other", find_input_malformed, NULL, NULL);
    struct redrive_dlq_filter filter = {.task = "t"};
    size_t matched = 99;
    size_t completed = 99;
    assert_int_equal(
        redrive_dlq_retry_all(f->handler, &filter, NULL, NULL, 4, true, &matched, &completed), 0);
    assert_int_equal(matched, 10);
    assert_int_equal(completed, 0);
    assert_int_equal(fixture_elapsed_ms(f), 0);

    struct script script = {0};
    assert_int_equal(redrive_dlq_retry_all(f->handler, &filter, succeed_every_other_time, &script,
                                           4, false, &matched, &completed),
                     0);
    assert_int_equal(script.calls, 10);
    assert_int_equal(matched, 10);
    assert_int_equal(completed, 5);
    assert_int_equal(fixture_elapsed_ms(f), 9 * 250);
    assert_int_equal(dlq_of(f->handler).total_jobs, 6);

    filter.limit = 2;
    assert_int_equal(
        redrive_dlq_retry_all(f->handler, &filter, succeed, NULL, 0, false, &matched, NULL), 0);
    assert_int_equal(matched, 2);
    assert_int_equal(redrive_dlq_retry_all(f->handler, NULL, succeed, NULL, 0, false, NULL, NULL),
                     0);
    assert_int_equal(dlq_of(f->handler).total_jobs, 0);
    check_balance(f->handler);
}

static int empty_the_rest(struct redrive_run *run, void *arg)
{
    (void)run;
    return redrive_dlq_purge(arg, 0, NULL);
}

HANDLER_TEST(entries_that_go_meanwhile_are_not_retried)
{
    bury(f, 3);
    size_t matched = 0;
    assert_int_equal(redrive_dlq_retry_all(f->handler, NULL, empty_the_rest, f->handler, 1, false,
                                           &matched, NULL),
                     0);
    assert_int_equal(matched, 1);
}

static void wait_and_purge(int64_t ms, void *ctx)
{
    struct fixture *f = ctx;
    atomic_fetch_add(&f->clock.now_ms, ms);
    redrive_dlq_purge(f->handler, 0, NULL);
}

static int64_t now_of_fixture(void *ctx)
{
    return atomic_load(&((struct fixture *)ctx)->clock.now_ms);
}

OPTIONS_TEST(entries_that_go_while_the_pace_is_kept_are_not_retried)
{
    f->options.clock = (struct redrive_clock){now_of_fixture, wait_and_purge, f};
    fixture_new_handler(f);
    bury(f, 3);
    size_t matched = 0;
    assert_int_equal(
        redrive_dlq_retry_all(f->handler, NULL, succeed, NULL, 1, false, &matched, NULL), 0);
    assert_int_equal(matched, 1);
}

static int stop_the_handler(struct redrive_run *run, void *arg)
{
    struct redrive_handler *h = arg;
    (void)run;
    redrive_handler_stop(h);
    return -EAGAIN;
}

HANDLER_TEST(a_stop_ends_the_retrying_of_all)
{
    bury(f, 3);
    size_t matched = 0;
    assert_int_equal(redrive_dlq_retry_all(f->handler, NULL, stop_the_handler, f->handler, 1, false,
                                           &matched, NULL),
                     REDRIVE_E_STOPPING);
    assert_int_equal(matched, 1);
    assert_int_equal(dlq_of(f->handler).total_jobs, 3); /* the one under way has come back */
}

static int cancel_itself(struct redrive_run *run, void *arg)
{
    struct fixture *f = arg;
    bury(f, 3); /* more than there is room for */
    redrive_cancel(f->handler, redrive_run_job_id(run));
    return -EINTR;
}

OPTIONS_TEST(a_cancelled_retry_puts_the_entry_back_into_its_place)
{
    f->options.max_dead_letters = 4;
    fixture_new_handler(f);
    for (char id[] = "a"; id[0] <= 'c'; id[0]++) {
        struct redrive_job job = {.id = id, .task = "t"};
        redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    }
    assert_int_equal(redrive_dlq_retry(f->handler, "b", cancel_itself, f, NULL),
                     REDRIVE_E_CANCELLED);
    struct ids ids = {0};
    assert_int_equal(
        redrive_dlq_list(f->handler, &(struct redrive_dlq_filter){.limit = 1}, collect, &ids), 0);
    assert_string_equal(ids.text, "c"); /* b came back older than c, and made room at once */
    assert_int_equal(dlq_of(f->handler).total_jobs, 4);
    assert_int_equal(dlq_of(f->handler).dropped, 2);
    check_balance(f->handler);
}

static void *retry_all_slowly(void *arg)
{
    struct redrive_handler *h = arg;
    int rc = redrive_dlq_retry_all(h, NULL, succeed, NULL, 0.001, false, NULL, NULL);
    return rc == REDRIVE_E_STOPPING ? arg : NULL;
}

TEST(a_stop_interrupts_the_pace)
{
    struct redrive_handler *h = redrive_handler_new(NULL, NULL);
    for (int i = 0; i < 2; i++)
        redrive_call(h, "t", find_input_malformed, NULL, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, retry_all_slowly, h), 0);
    WAIT_FOR(metrics_of(h).jobs_redriven == 1);
    WAIT_FOR(metrics_of(h).jobs_completed == 1);
    redrive_handler_stop(h);
    void *stopped = NULL;
    pthread_join(thread, &stopped);
    assert_ptr_equal(stopped, h);
    redrive_handler_free(h);
}

HANDLER_TEST(a_wrong_pace_is_refused)
{
    size_t matched = 99;
    assert_int_equal(
        redrive_dlq_retry_all(f->handler, NULL, succeed, NULL, -1, false, &matched, NULL),
        REDRIVE_E_INVALID);
    assert_int_equal(matched, 0);
    assert_int_equal(
        redrive_dlq_retry_all(f->handler, NULL, succeed, NULL, 0.0 / 0.0, false, NULL, NULL),
        REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_retry_all(f->handler, NULL, NULL, NULL, 1, false, NULL, NULL),
                     REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_retry_all(NULL, NULL, succeed, NULL, 1, false, NULL, NULL),
                     REDRIVE_E_INVALID);
}

static int keep_deadline(struct redrive_run *run, void *arg)
{
    (void)arg;
    assert_int_equal(redrive_run_remaining_ms(run), 5 * SECOND);
    return 0;
}

HANDLER_TEST(a_redriven_job_has_its_deadline_anew)
{
    struct redrive_job job = {.id = "a", .task = "t", .deadline_ms = 5 * SECOND};
    redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    assert_int_equal(redrive_dlq_edit(f->handler, "a", NULL, 0), 0);
    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    assert_int_equal(redrive_dlq_retry(f->handler, "a", keep_deadline, NULL, NULL), 0);
}
