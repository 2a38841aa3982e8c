/* Dead letters: what they keep, how they are found, how they are changed and go. */
#include "fixture.h"

/* ---- What they keep -------------------------------------------------------------------------- */

static int check_whole_entry(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    assert_int_equal(entry->seq, 1);
    assert_string_equal(entry->id, "order-1");
    assert_string_equal(entry->task, "ship");
    assert_string_equal(entry->service, "depot");
    assert_string_equal(entry->queue, "fast");
    assert_string_equal(entry->user, "ada");
    assert_string_equal(entry->project, "shop");
    assert_int_equal(entry->priority, 7);
    assert_int_equal(entry->reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(entry->class_, REDRIVE_CLASS_VALIDATION);
    assert_string_equal(entry->error_type, "shop.OrderError");
    assert_string_equal(entry->message, "order 4711 has no customer");
    assert_string_equal(entry->stacktrace, "at order.c:12\nat main.c:3");
    assert_int_equal(entry->attempts, 1);
    assert_int_equal(entry->max_attempts, 6);
    assert_int_equal(entry->epoch, 0);
    assert_int_equal(entry->failed_at_ms, START);
    assert_int_not_equal(entry->fingerprint, 0);
    assert_int_equal(entry->payload_len, 3);
    assert_memory_equal(entry->payload, "a\0b", 3);
    assert_int_equal(entry->n_history, 1);
    assert_int_equal(entry->history[0].attempt, 1);
    assert_int_equal(entry->history[0].started_ms, START);
    assert_int_equal(entry->history[0].ended_ms, START);
    assert_int_equal(entry->history[0].class_, REDRIVE_CLASS_VALIDATION);
    assert_string_equal(entry->history[0].message, "order 4711 has no customer");
    return 42;
}

HANDLER_TEST(an_entry_keeps_copies_of_everything)
{
    char words[][8] = {"order-1", "ship", "depot", "fast", "ada", "shop", "a\0b"};
    struct redrive_job job = {
        .id = words[0],
        .task = words[1],
        .service = words[2],
        .queue = words[3],
        .user = words[4],
        .project = words[5],
        .priority = 7,
        .payload = words[6],
        .payload_len = 3,
    };
    redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    memset(words, 'x', sizeof words);
    assert_int_equal(redrive_dlq_show(f->handler, "order-1", check_whole_entry, NULL), 42);
}

static int check_history(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    assert_int_equal(entry->n_history, 3);
    const int64_t started[] = {0, 1, 3};
    const int64_t delays[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(entry->history[i].attempt, i + 1);
        assert_int_equal(entry->history[i].started_ms, START + started[i] * SECOND);
        assert_int_equal(entry->history[i].delay_ms, delays[i] * SECOND);
        assert_string_equal(entry->history[i].message, "Connection refused");
    }
    assert_null(entry->queue);
    assert_null(entry->error_type);
    assert_null(entry->payload);
    assert_string_equal(entry->message, "Connection refused");
    return 0;
}

OPTIONS_TEST(history_tells_each_attempt_and_the_delay_after_it)
{
    f->policy.max_retries = 2;
    fixture_new_handler(f);
    redrive_call(f->handler, "t", refuse_connection, NULL, NULL);
    assert_int_equal(redrive_dlq_list(f->handler, NULL, check_history, NULL), 0);
}

static int check_long_history(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    assert_int_equal(entry->attempts, 251);
    assert_int_equal(entry->n_history, REDRIVE_HISTORY_MAX);
    assert_int_equal(entry->history[0].attempt, 152);
    assert_int_equal(entry->history[REDRIVE_HISTORY_MAX - 1].attempt, 251);
    return 0;
}

OPTIONS_TEST(only_the_latest_history_is_kept)
{
    f->policy.max_retries = 250;
    f->policy.backoff.strategy = REDRIVE_STRATEGY_IMMEDIATE;
    f->breaker.failure_threshold = 0;
    f->breaker.failure_rate = 0;
    fixture_new_handler(f);
    struct redrive_job job = {.id = "a", .task = "t"};
    redrive_submit(f->handler, &job, refuse_connection, NULL, NULL);
    assert_int_equal(redrive_dlq_show(f->handler, "a", check_long_history, NULL), 0);
    redrive_dlq_retry(f->handler, "a", refuse_connection, NULL, NULL);
    assert_int_equal(redrive_dlq_show(f->handler, "a", check_long_history, NULL), 0);
}

/* ---- Finding them ---------------------------------------------------------------------------- */

static void check_list(struct fixture *f, struct redrive_dlq_filter filter, const char *expected)
{
    struct ids ids = {0};
    assert_int_equal(redrive_dlq_list(f->handler, &filter, collect, &ids), 0);
    assert_string_equal(ids.text, expected);
}

static int fail_by_payload(struct redrive_run *run, void *arg)
{
    (void)arg;
    const char *payload = redrive_run_payload(run, NULL);
    return redrive_run_fail(run, &(struct redrive_failure){
                                     .http_status = payload[0] == 'v' ? 422 : 410,
                                     .error_type = payload[0] == 'v' ? "shop.OrderError" : NULL,
                                     .message = payload[0] == 'm' ? NULL : payload,
                                 });
}

/* a: validation, b: permanent, c: deadline of class network, d: no message; a minute apart. */
static void bury_four(struct fixture *f)
{
    fixture_options(f);
    f->policy.total_timeout_ms = 2 * SECOND;
    fixture_new_handler(f);
    const struct redrive_job jobs[] = {
        {.id = "a", .task = "x", .queue = "q", .payload = "v no 17"},
        {.id = "b", .task = "y", .payload = "gone since 2024"},
        {.id = "c", .task = "x", .service = "s"},
        {.id = "d", .task = "y", .payload = "m"},
    };
    for (int i = 0; i < 4; i++) {
        atomic_store(&f->clock.now_ms, START + i * MINUTE);
        redrive_submit(f->handler, &jobs[i], i == 2 ? refuse_connection : fail_by_payload, NULL,
                       NULL);
    }
}

TEST(filters_choose)
{
    struct fixture f;
    bury_four(&f);
    typedef struct redrive_dlq_filter F;
    check_list(&f, (F){0}, "abcd");
    check_list(&f, (F){.task = "x"}, "ac");
    check_list(&f, (F){.service = "s"}, "c");
    check_list(&f, (F){.queue = "q"}, "a");
    check_list(&f, (F){.error_type = "OrderError"}, "a");
    check_list(&f, (F){.error_type = "*Order*"}, "a");
    check_list(&f, (F){.error_type = "Other"}, "");
    check_list(&f, (F){.text = "since"}, "b");
    check_list(&f, (F){.text = "refused"}, "c");
    check_list(&f, (F){.classes = 1u << REDRIVE_CLASS_PERMANENT}, "bd");
    check_list(&f, (F){.classes = 1u << REDRIVE_CLASS_PERMANENT | 1u << REDRIVE_CLASS_NETWORK},
               "bcd");
    check_list(&f, (F){.reasons = 1u << REDRIVE_REASON_DEADLINE}, "c");
    check_list(&f, (F){.failed_after_ms = START + MINUTE}, "bcd");
    check_list(&f, (F){.failed_before_ms = START + MINUTE}, "a");
    check_list(&f, (F){.fingerprint = 1}, "");
    check_list(&f, (F){.task = "y", .text = "since", .limit = 5}, "b");
    fixture_release(&f);
}

static int note_fingerprint(const struct redrive_dead_letter *entry, void *ctx)
{
    *(uint64_t *)ctx = entry->fingerprint;
    return 0;
}

TEST(a_fingerprint_chooses_its_likes)
{
    struct fixture f;
    bury_four(&f);
    uint64_t fingerprint = 0;
    redrive_dlq_show(f.handler, "a", note_fingerprint, &fingerprint);
    struct redrive_job alike = {.id = "e", .task = "z", .payload = "v no 4"};
    redrive_submit(f.handler, &alike, fail_by_payload, NULL, NULL);
    check_list(&f, (struct redrive_dlq_filter){.fingerprint = fingerprint}, "ae");
    fixture_release(&f);
}

static int remove_it(const struct redrive_dead_letter *entry, void *ctx)
{
    struct fixture *f = ctx;
    assert_int_equal(redrive_dlq_remove(f->handler, entry->id), 0);
    assert_string_equal(entry->task, "t"); /* still there for us */
    return 0;
}

static int count(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)entry;
    ++*(size_t *)ctx;
    return 0;
}

HANDLER_TEST(pages_survive_the_removal_of_what_was_seen)
{
    bury(f, 200);
    struct ids ids = {0};
    struct redrive_dlq_filter page = {.limit = 3};
    assert_int_equal(redrive_dlq_list(f->handler, &page, collect, &ids), 0);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.last_seq, 3);
    assert_int_equal(redrive_dlq_list(f->handler, &page, remove_it, f), 0);
    page.after_seq = ids.last_seq;
    size_t seen = 0;
    for (;;) {
        ids = (struct ids){0};
        assert_int_equal(redrive_dlq_list(f->handler, &page, collect, &ids), 0);
        if (ids.n == 0)
            break;
        seen += ids.n;
        page.after_seq = ids.last_seq;
    }
    assert_int_equal(seen, 197);
}

HANDLER_TEST(a_walk_may_remove_what_it_is_shown)
{
    bury(f, 150);
    size_t n = 0;
    assert_int_equal(redrive_dlq_list(f->handler, NULL, count, &n), 0);
    assert_int_equal(n, 150);
    assert_int_equal(redrive_dlq_list(f->handler, NULL, remove_it, f), 0);
    assert_int_equal(dlq_of(f->handler).total_jobs, 0);
}

static int stop_at_70(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    return entry->seq == 70 ? -7 : 0;
}

HANDLER_TEST(a_nonzero_answer_ends_the_walk)
{
    bury(f, 100);
    assert_int_equal(redrive_dlq_list(f->handler, NULL, stop_at_70, NULL), -7);
}

struct groups {
    size_t n;
    size_t counts[4];
    uint64_t seq[4];
    int64_t first_ms[4];
    int64_t last_ms[4];
};

static int collect_group(const struct redrive_dlq_group *group, void *ctx)
{
    struct groups *groups = ctx;
    groups->counts[groups->n] = group->count;
    groups->seq[groups->n] = group->example.seq;
    groups->first_ms[groups->n] = group->first_ms - START;
    groups->last_ms[groups->n] = group->last_ms - START;
    groups->n++;
    return 0;
}

static int refuse_group(const struct redrive_dlq_group *group, void *ctx)
{
    (void)ctx;
    return (int)group->count;
}

HANDLER_TEST(errors_that_look_alike_are_grouped)
{
    struct groups groups = {0};
    assert_int_equal(redrive_dlq_groups(f->handler, NULL, collect_group, &groups), 0);
    assert_int_equal(groups.n, 0);

    const char *const payloads[] = {"v order 1", "gone 7", "v order 23",
                                    "m",         "gone 9", "v order 4"};
    for (int i = 0; i < 6; i++) {
        atomic_store(&f->clock.now_ms, START + i * SECOND);
        struct redrive_job job = {.task = "t", .payload = payloads[i]};
        redrive_submit(f->handler, &job, fail_by_payload, NULL, NULL);
    }
    assert_int_equal(redrive_dlq_groups(f->handler, NULL, collect_group, &groups), 0);
    assert_int_equal(groups.n, 3);
    assert_int_equal(groups.counts[0], 3);
    assert_int_equal(groups.seq[0], 6);
    assert_int_equal(groups.first_ms[0], 0);
    assert_int_equal(groups.last_ms[0], 5 * SECOND);
    assert_int_equal(groups.counts[1], 2);
    assert_int_equal(groups.counts[2], 1);

    struct redrive_dlq_filter filter = {.limit = 2, .classes = 1u << REDRIVE_CLASS_PERMANENT};
    groups = (struct groups){0};
    assert_int_equal(redrive_dlq_groups(f->handler, &filter, collect_group, &groups), 0);
    assert_int_equal(groups.n, 2);
    assert_int_equal(groups.counts[0], 2);
    assert_int_equal(redrive_dlq_groups(f->handler, NULL, refuse_group, NULL), 3);
    filter.limit = 1;
    groups = (struct groups){0};
    assert_int_equal(redrive_dlq_groups(f->handler, &filter, collect_group, &groups), 0);
    assert_int_equal(groups.n, 1);
}

HANDLER_TEST(groups_of_one_size_show_the_latest_first)
{
    const char *const payloads[] = {"v a", "v b", "v c"};
    for (int i = 0; i < 3; i++) {
        struct redrive_job job = {.task = "t", .payload = payloads[i]};
        redrive_submit(f->handler, &job, fail_by_payload, NULL, NULL);
    }
    struct groups groups = {0};
    assert_int_equal(redrive_dlq_groups(f->handler, NULL, collect_group, &groups), 0);
    assert_int_equal(groups.n, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(groups.seq[i], 3 - i);
}

/* ---- Editing and removing -------------------------------------------------------------------- */

static int check_edited(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    assert_int_equal(entry->seq, 2);
    assert_memory_equal(entry->payload, "new", 3);
    assert_int_equal(entry->payload_len, 3);
    assert_string_equal(entry->message, "order 4711 has no customer");
    assert_int_equal(entry->n_history, 1);
    return 0;
}

static int edit_under_our_eyes(const struct redrive_dead_letter *entry, void *ctx)
{
    assert_int_equal(redrive_dlq_edit(ctx, "b", "new", 3), 0);
    assert_memory_equal(entry->payload, "old", 3);
    return 0;
}

HANDLER_TEST(an_edit_changes_the_payload_and_nothing_else)
{
    for (char id[] = "a"; id[0] <= 'c'; id[0]++) {
        struct redrive_job job = {
            .id = id, .task = "t", .payload = "old", .payload_len = 3, .policy = &f->policy};
        redrive_submit(f->handler, &job, find_input_malformed, NULL, NULL);
    }
    assert_int_equal(redrive_dlq_show(f->handler, "b", edit_under_our_eyes, f->handler), 0);
    assert_int_equal(redrive_dlq_show(f->handler, "b", check_edited, NULL), 0);
    check_list(f, (struct redrive_dlq_filter){0}, "abc");
    assert_int_equal(dlq_of(f->handler).total_jobs, 3);
    assert_int_equal(redrive_dlq_edit(f->handler, "x", "new", 3), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_dlq_edit(f->handler, "b", NULL, 3), REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_edit(f->handler, NULL, "new", 3), REDRIVE_E_INVALID);
}

TEST(what_is_removed_is_gone)
{
    struct fixture f;
    bury_four(&f);
    assert_int_equal(redrive_dlq_remove(f.handler, "b"), 0);
    assert_int_equal(redrive_dlq_remove(f.handler, "b"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(redrive_dlq_remove(f.handler, NULL), REDRIVE_E_INVALID);
    check_list(&f, (struct redrive_dlq_filter){0}, "acd");
    fixture_release(&f);
}

TEST(a_purge_takes_what_is_old_enough)
{
    struct fixture f;
    bury_four(&f); /* at 0, 1, 2 and 3 minutes; the third after a retry of 1 s */
    size_t removed = 99;
    assert_int_equal(redrive_dlq_purge(f.handler, 10 * MINUTE, &removed), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(redrive_dlq_purge(f.handler, 2 * MINUTE, &removed), 0);
    assert_int_equal(removed, 2);
    check_list(&f, (struct redrive_dlq_filter){0}, "cd");
    assert_int_equal(redrive_dlq_purge(f.handler, -1, &removed), REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_purge(f.handler, 0, NULL), 0);
    assert_int_equal(dlq_of(f.handler).total_jobs, 0);
    fixture_release(&f);
}

HANDLER_TEST(entries_leave_by_themselves_after_their_retention)
{
    struct redrive_policy one_day = f->policy;
    one_day.dlq_retention_days = 1;
    struct redrive_policy for_ever = f->policy;
    for_ever.dlq_retention_days = 0;
    const struct redrive_job jobs[] = {
        {.id = "7", .task = "t"},
        {.id = "1", .task = "t", .policy = &one_day},
        {.id = "0", .task = "t", .policy = &for_ever},
    };
    for (int i = 0; i < 3; i++)
        redrive_submit(f->handler, &jobs[i], find_input_malformed, NULL, NULL);
    atomic_store(&f->clock.now_ms, START + DAY - 1);
    check_list(f, (struct redrive_dlq_filter){0}, "710");
    atomic_store(&f->clock.now_ms, START + DAY);
    check_list(f, (struct redrive_dlq_filter){0}, "70");
    atomic_store(&f->clock.now_ms, START + 7 * DAY);
    assert_int_equal(redrive_dlq_remove(f->handler, "7"), REDRIVE_E_NOT_FOUND);
    atomic_store(&f->clock.now_ms, START + 36500 * DAY);
    check_list(f, (struct redrive_dlq_filter){0}, "0");
}

OPTIONS_TEST(the_oldest_makes_room_and_is_counted)
{
    f->options.max_dead_letters = 3;
    fixture_new_handler(f);
    bury(f, 5);
    struct redrive_dlq_stats stats = dlq_of(f->handler);
    assert_int_equal(stats.total_jobs, 3);
    assert_int_equal(stats.dropped, 2);
    assert_int_equal(stats.by_class[REDRIVE_CLASS_VALIDATION], 3);
    assert_int_equal(stats.by_reason[REDRIVE_REASON_NOT_RETRIABLE], 3);
    assert_int_equal(metrics_of(f->handler).jobs_dlq, 5);
}

OPTIONS_TEST(what_has_expired_needs_no_pushing_out)
{
    f->options.max_dead_letters = 3;
    fixture_new_handler(f);
    bury(f, 3);
    atomic_fetch_add(&f->clock.now_ms, 7 * DAY);
    bury(f, 3);
    assert_int_equal(dlq_of(f->handler).total_jobs, 3);
    assert_int_equal(dlq_of(f->handler).dropped, 0);
}

HANDLER_TEST(nothing_is_asked_of_nobody)
{
    struct redrive_dlq_stats stats;
    assert_int_equal(redrive_dlq_list(NULL, NULL, collect, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_list(f->handler, NULL, NULL, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_show(f->handler, NULL, collect, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_dlq_groups(f->handler, NULL, NULL, NULL), REDRIVE_E_INVALID);
    redrive_dlq_stats_get(NULL, &stats);
    redrive_dlq_stats_get(f->handler, NULL);
}
