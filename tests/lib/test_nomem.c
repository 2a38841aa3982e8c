/* Memory that runs out at the nth allocation, for every n: nobody crashes, nothing leaks, and the
 * caller is always told. */
#include "fixture.h"

/* ---- An allocator that fails on demand (linked with --wrap) ---------------------------------- */

static long until_failure = -1; /* allocations that still succeed; -1: all */

static bool may_allocate(void)
{
    if (until_failure < 0)
        return true;
    if (until_failure == 0)
        return false;
    until_failure--;
    return true;
}

#include "nomem.h"

/* Does the same with 0, 1, 2 … allocations that succeed, until it needs no more. */
typedef bool (*attempt_fn)(struct fixture *f);

static void with_ever_more_memory(attempt_fn attempt, void (*prepare)(struct fixture *f))
{
    bool done = false;
    for (long n = 0; !done; n++) {
        assert_true(n < 1000);
        struct fixture f;
        fixture_init(&f);
        if (prepare)
            prepare(&f);
        until_failure = n;
        done = attempt(&f);
        until_failure = -1;
        check_balance(f.handler);
        fixture_release(&f);
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

TEST(a_handler_is_made_whole_or_not_at_all)
{
    struct fixture f;
    fixture_options(&f);
    const struct redrive_classify_row row = {.source = REDRIVE_SOURCE_ERROR_TYPE,
                                             .pattern = "Quota*",
                                             .class_ = REDRIVE_CLASS_RATE_LIMITED,
                                             .severity = REDRIVE_SEVERITY_OF_CLASS,
                                             .task = "t"};
    f.options.classify = &row;
    f.options.n_classify = 1;
    for (long n = 0;; n++) {
        assert_true(n < 100);
        struct redrive_err err = {0};
        until_failure = n;
        struct redrive_handler *h = redrive_handler_new(&f.options, &err);
        until_failure = -1;
        assert_int_equal(err.code, h ? 0 : REDRIVE_E_NOMEM);
        redrive_handler_free(h);
        if (h)
            break;
    }
}

/* The policy is the job's own: its copy can fail too. */
static bool submit_and_die(struct fixture *f)
{
    const char *types[] = {"OrderError"};
    struct redrive_policy policy = f->policy;
    policy.max_retries = 1;
    policy.retry_on = (struct redrive_match){.types = types, .n_types = 1};
    struct redrive_job job = {
        .id = "a", .task = "t", .payload = "body", .payload_len = 4, .policy = &policy};
    struct redrive_result result;
    int rc = redrive_submit(f->handler, &job, find_input_malformed, NULL, &result);
    until_failure = -1;
    struct redrive_dlq_stats stats = dlq_of(f->handler);
    if (rc == REDRIVE_E_NOMEM) {
        assert_int_equal(metrics_of(f->handler).jobs_received, 0);
        return false;
    }
    assert_int_equal(rc, REDRIVE_E_JOB_FAILED);
    assert_in_range(result.attempts, 1, 2); /* without its strings the type does not match */
    assert_int_equal(stats.total_jobs + stats.lost, 1);
    if (result.state == REDRIVE_STATE_FAILED) {
        assert_int_equal(stats.lost, 1);
        assert_int_equal(metrics_of(f->handler).jobs_failed, 1);
        assert_string_equal(result.error.hint, "there was no memory to keep it as a dead letter");
        return false;
    }
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    return result.attempts == 2;
}

static int count_whole(const struct redrive_dead_letter *entry, void *ctx)
{
    *(bool *)ctx = entry->n_history == 2 && entry->message && entry->stacktrace &&
                   entry->history[0].message && entry->history[1].message;
    return 0;
}

static bool submit_and_keep_everything(struct fixture *f)
{
    submit_and_die(f);
    bool is_whole = false;
    redrive_dlq_show(f->handler, "a", count_whole, &is_whole);
    return is_whole;
}

TEST(a_job_that_dies_without_memory_is_still_reported)
{
    with_ever_more_memory(submit_and_die, NULL);
    with_ever_more_memory(submit_and_keep_everything, NULL);
}

static void bury_one(struct fixture *f)
{
    submit_and_die(f);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
}

static int note_epoch(const struct redrive_dead_letter *entry, void *ctx)
{
    *(uint32_t *)ctx = entry->epoch;
    assert_memory_equal(entry->payload, "body", 4);
    return 0;
}

static bool retry_and_die_again(struct fixture *f)
{
    struct redrive_result result;
    int rc = redrive_dlq_retry(f->handler, "a", find_input_malformed, NULL, &result);
    until_failure = -1;
    uint32_t epoch = 99;
    assert_int_equal(redrive_dlq_show(f->handler, "a", note_epoch, &epoch), 0);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
    if (rc == REDRIVE_E_NOMEM) {
        assert_int_equal(epoch, 0);
        return false;
    }
    assert_int_equal(rc, REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    return epoch == 1;
}

TEST(a_redriven_job_never_loses_its_dead_letter)
{
    with_ever_more_memory(retry_and_die_again, bury_one);
}

static bool edit(struct fixture *f)
{
    int rc = redrive_dlq_edit(f->handler, "a", "new", 3);
    assert_true(rc == 0 || rc == REDRIVE_E_NOMEM);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
    return rc == 0;
}

/* One more entry would make the table of ids grow. */
static void bury_six(struct fixture *f)
{
    bury_one(f);
    for (int i = 0; i < 5; i++)
        redrive_call(f->handler, "t", find_input_malformed, NULL, NULL);
}

static bool edit_in_full_table(struct fixture *f)
{
    int rc = redrive_dlq_edit(f->handler, "a", "new", 3);
    assert_true(rc == 0 || rc == REDRIVE_E_NOMEM);
    assert_int_equal(dlq_of(f->handler).total_jobs, 6);
    return rc == 0;
}

TEST(an_edit_happens_or_not)
{
    with_ever_more_memory(edit, bury_one);
    with_ever_more_memory(edit_in_full_table, bury_six);
}

static int count_group(const struct redrive_dlq_group *group, void *ctx)
{
    *(size_t *)ctx += group->count;
    return 0;
}

static bool group(struct fixture *f)
{
    size_t n = 0;
    int rc = redrive_dlq_groups(f->handler, NULL, count_group, &n);
    assert_true(rc == 0 ? n == 1 : rc == REDRIVE_E_NOMEM && n == 0);
    return rc == 0;
}

TEST(groups_come_all_or_not_at_all)
{
    with_ever_more_memory(group, bury_one);
}

static bool configure(struct fixture *f)
{
    struct redrive_err err = {0};
    int rc = redrive_breaker_configure(f->handler, "t", &f->breaker, &err);
    assert_int_equal(rc, err.code);
    assert_true(rc == 0 || rc == REDRIVE_E_NOMEM);
    assert_int_equal(redrive_breaker_list(f->handler, NULL, 0), rc == 0);
    return rc == 0;
}

TEST(a_breaker_is_made_or_not)
{
    with_ever_more_memory(configure, NULL);
}

static int give_result(struct redrive_run *run, void *arg)
{
    assert_int_equal(redrive_run_result(run, "one", 3), 0);
    until_failure = 0;
    int rc = redrive_run_result(run, "two", 3);
    until_failure = -1;
    *(int *)arg = rc;
    return 0;
}

HANDLER_TEST(a_result_that_cannot_be_copied_leaves_the_earlier)
{
    int rc = 0;
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", give_result, &rc, &result), 0);
    assert_int_equal(rc, REDRIVE_E_NOMEM);
    assert_memory_equal(result.data, "one", 3);
    redrive_result_release(&result);
}

/* Last: the shared handler cannot be made a second time. */
TEST(without_memory_there_is_no_shared_handler)
{
    until_failure = 0;
    struct redrive_result result;
    int rc = redrive_call(NULL, "t", succeed, NULL, &result);
    until_failure = -1;
    assert_int_equal(rc, REDRIVE_E_NOMEM);
    assert_int_equal(result.state, REDRIVE_STATE_FAILED);
    assert_null(redrive_handler_default());
}
