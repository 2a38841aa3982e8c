#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_for_test.h"

STORE_TEST(the_best_come_first)
{
    int64_t a = PUT(ts, .priority = 0), b = PUT(ts, .priority = 5), c = PUT(ts, .priority = -100),
            d = PUT(ts, .priority = 5), e = PUT(ts, .priority = 100);
    check_seqs(READY(ts, .tenant = STR("acme")), e, b, d, a, c);
}

STORE_TEST(queues_come_in_the_order_of_the_filter)
{
    int64_t a = PUT(ts, .queue = STR("slow"), .priority = 100), b = PUT(ts, .queue = STR("fast")),
            c = PUT(ts, .queue = STR("other")), d = PUT(ts, .queue = STR("fast"), .priority = 1);
    const struct str queues[] = {STR("fast"), STR("slow")};
    check_seqs(READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2), d, b, a);
    check_seqs(READY(ts, .tenant = STR("acme")), a, d, b, c);
}

/* A claim may leave a queue alone until those before it are empty. */
STORE_TEST(the_next_queue_has_its_turn_when_the_one_before_is_empty)
{
    const struct str queues[] = {STR("fast"), STR("slow"), STR("idle")};
    int64_t a = PUT(ts, .queue = STR("slow"), .priority = 9), b = PUT(ts, .queue = STR("slow")),
            c = PUT(ts, .queue = STR("fast")), d = PUT(ts, .queue = STR("fast"));
    struct job_page *page =
        READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 3, .limit = 1);
    check_seqs(page, c);
    assert_true(page->more);
    page = READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 3, .limit = 2);
    check_seqs(page, c, d);
    assert_true(page->more);
    page = READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 3, .limit = 4);
    check_seqs(page, c, d, a, b);
    assert_false(page->more);
}

STORE_TEST(only_the_tasks_that_are_asked_for)
{
    int64_t a = PUT(ts, .task = STR("a")), b = PUT(ts, .task = STR("b"));
    PUT(ts, .task = STR("c"));
    const struct str tasks[] = {STR("b"), STR("a")};
    check_seqs(READY(ts, .tenant = STR("acme"), .tasks = tasks, .n_tasks = 2), a, b);
}

STORE_TEST(only_queued_jobs_are_ready)
{
    int64_t queued = 0;
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        int64_t seq = ts_put_in(ts, (enum redrive_state)s, NULL);
        if (s == REDRIVE_STATE_QUEUED)
            queued = seq;
    }
    check_seqs(READY(ts, .tenant = STR("acme")), queued);
}

/* Invariant 6: time alone makes nothing ready, only a promotion does. */
STORE_TEST(a_due_job_is_not_ready_before_it_is_promoted)
{
    PUT(ts, .process_after_ms = ts->now_ms + 10);
    ts->now_ms += 100;
    assert_int_equal(READY(ts, .tenant = STR("acme"))->n, 0);
}

STORE_TEST(a_paused_queue_has_none_even_if_named)
{
    int64_t a = PUT(ts, .queue = STR("a"));
    int64_t b = PUT(ts, .queue = STR("b"));
    int64_t other = PUT(ts, .tenant = STR("other"), .queue = STR("b"));
    ts_pause(ts, STR("acme"), STR("b"));
    const struct str queues[] = {STR("b"), STR("a")};
    check_seqs(READY(ts, .tenant = STR("acme")), a);
    check_seqs(READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2), a);
    check_seqs(READY(ts, .tenant = STR("other")), other);
    const struct shared_row resume = {.kind = SHARED_PAUSE,
                                      .tenant = STR("acme"),
                                      .key = STR("b"),
                                      .version = 1,
                                      .removed = true};
    assert_int_equal(ts_shared_put(ts, &resume), 0);
    check_seqs(READY(ts, .tenant = STR("acme")), a, b);
}

STORE_TEST(a_pause_applies_to_the_tenants_in_turn_too)
{
    PUT(ts, .tenant = STR("a"));
    int64_t b = PUT(ts, .tenant = STR("b"));
    ts_pause(ts, STR("a"), STR("main"));
    check_seqs(READY(ts, .n_queues = 0), b);
}

STORE_TEST(a_page_is_bounded_and_says_if_there_are_more)
{
    int64_t a = PUT(ts, .priority = 3), b = PUT(ts, .priority = 2), c = PUT(ts, .priority = 1);
    struct job_page *page = READY(ts, .tenant = STR("acme"), .limit = 2);
    check_seqs(page, a, b);
    assert_true(page->more);
    page = READY(ts, .tenant = STR("acme"), .limit = 3);
    check_seqs(page, a, b, c);
    assert_false(page->more);
    page = READY(ts, .tenant = STR("nobody"));
    assert_int_equal(page->n, 0);
    assert_false(page->more);
}

STORE_TEST(jobs_of_one_tenant_only)
{
    PUT(ts, .tenant = STR("a"));
    int64_t b = PUT(ts, .tenant = STR("b"));
    check_seqs(READY(ts, .tenant = STR("b")), b);
}

/* One at a time: of three tenants, any three calls in a row serve each. */
STORE_TEST(no_tenant_waits_for_another)
{
    static const char *const TENANTS[] = {"a", "b", "c"};
    for (int i = 0; i < 20; i++)
        PUT(ts, .tenant = STR("a"), .priority = 100);
    for (int i = 0; i < 3; i++) {
        PUT(ts, .tenant = STR("b"));
        PUT(ts, .tenant = STR("c"), .priority = -100);
    }
    for (int round = 0; round < 3; round++) {
        unsigned served = 0;
        for (int call = 0; call < 3; call++) {
            struct job_page *page = READY(ts, .limit = 1);
            assert_int_equal(page->n, 1);
            for (unsigned t = 0; t < 3; t++)
                if (str_is(page->jobs[0].spec.tenant, TENANTS[t]))
                    served |= 1u << t;
            ts_start(ts, page->jobs[0].status.seq);
        }
        assert_int_equal(served, 7);
    }
}

STORE_TEST(tenants_in_turn_are_served_until_nothing_is_left)
{
    for (int i = 0; i < 9; i++) {
        PUT(ts, .tenant = STR("a"));
        PUT(ts, .tenant = i % 3 ? STR("b") : STR("c"));
    }
    size_t n = 0;
    for (;;) {
        struct job_page *page = READY(ts, .limit = 4);
        if (page->n == 0)
            break;
        for (size_t i = 0; i < page->n; i++, n++)
            ts_start(ts, page->jobs[i].status.seq);
    }
    assert_int_equal(n, 18);
}

STORE_TEST(within_a_tenant_the_best_come_first_though_all_are_asked)
{
    for (int i = 0; i < 6; i++)
        PUT(ts, .tenant = i % 2 ? STR("a") : STR("b"), .priority = i);
    struct job_page *page = READY(ts, .limit = 100);
    for (size_t i = 0; i < page->n; i++)
        for (size_t j = i + 1; j < page->n; j++)
            if (str_eq(page->jobs[i].spec.tenant, page->jobs[j].spec.tenant))
                assert_true(page->jobs[i].spec.priority > page->jobs[j].spec.priority);
}

/* More partitions than a store may want to look at one by one. */
#define MANY 40

STORE_TEST(of_many_partitions_the_best_come_first)
{
    int64_t seqs[3 * MANY];
    char task[16];
    for (int i = 0; i < 3 * MANY; i++) {
        (void)snprintf(task, sizeof task, "t%d", i % MANY);
        seqs[i] = PUT(ts, .task = str_of(task), .priority = i / MANY == 1 ? 7 : 0);
        PUT(ts, .tenant = STR("other"), .task = str_of(task));
    }
    for (size_t limit = 1; limit <= 3 * MANY; limit += 17) {
        struct job_page *page = READY(ts, .tenant = STR("acme"), .limit = limit);
        assert_int_equal(page->n, limit);
        assert_int_equal(page->more, limit < 3 * MANY);
        for (size_t i = 0; i < limit; i++)
            assert_int_equal(page->jobs[i].status.seq, seqs[i < MANY       ? i + MANY
                                                            : i < 2 * MANY ? i - MANY
                                                                           : i]);
    }
    assert_false(READY(ts, .tenant = STR("acme"), .limit = 3 * MANY)->more);
    assert_false(READY(ts, .limit = 6 * MANY)->more);
    assert_int_equal(READY(ts, .tenant = STR("nobody"))->n, 0);
}

static void put_for_many_tenants(struct test_store *ts, int jobs_each)
{
    char tenant[16];
    for (int n = 0; n < jobs_each; n++)
        for (int i = 0; i < MANY; i++) {
            (void)snprintf(tenant, sizeof tenant, "t%d", i);
            PUT(ts, .tenant = str_of(tenant), .task = n % 2 ? STR("a") : STR("b"), .priority = n,
                .breaker_key = i % 2 ? STR("odd") : STR("even"));
        }
}

/* Though a call is for one, and one tenant has as many partitions as all the others. */
STORE_TEST(of_many_tenants_none_waits_for_another)
{
    char name[16];
    put_for_many_tenants(ts, 3);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "task%d", i);
        PUT(ts, .tenant = STR("t3"), .task = str_of(name), .priority = 100);
    }
    for (int round = 0; round < 3; round++) {
        unsigned served[MANY] = {0};
        for (int call = 0; call < MANY; call++) {
            struct job_page *page = READY(ts, .limit = 1);
            assert_int_equal(page->n, 1);
            assert_true(page->more);
            for (size_t i = 0; i < page->n; i++) {
                struct str tenant = page->jobs[i].spec.tenant;
                int number = 0;
                for (size_t c = 1; c < tenant.len; c++)
                    number = number * 10 + tenant.ptr[c] - '0';
                served[number]++;
                assert_int_equal(page->jobs[i].spec.priority, number == 3 ? 100 : 2 - round);
            }
            ts_begin(ts);
            for (size_t i = 0; i < page->n; i++)
                ts_start(ts, page->jobs[i].status.seq);
            ts_commit(ts);
        }
        for (int i = 0; i < MANY; i++)
            assert_int_equal(served[i], 1);
    }
}

STORE_TEST(of_many_tenants_pauses_hold)
{
    put_for_many_tenants(ts, 2);
    ts_pause(ts, STR("t4"), STR("main"));
    struct job_page *page = READY(ts, .limit = (size_t)3 * MANY);
    assert_int_equal(page->n, 2 * MANY - 2);
    assert_false(page->more);
    for (size_t i = 0; i < page->n; i++)
        assert_false(str_is(page->jobs[i].spec.tenant, "t4"));
}

/* What the transaction itself has moved counts. */
STORE_TEST(of_many_tenants_those_that_start_are_not_given_again)
{
    put_for_many_tenants(ts, 1);
    ts_begin(ts);
    size_t n = 0;
    for (;;) {
        struct job_page *page = READY(ts, .limit = 7);
        if (page->n == 0)
            break;
        n += page->n;
        assert_int_equal(page->more, n < MANY);
        for (size_t i = 0; i < page->n; i++)
            ts_start(ts, page->jobs[i].status.seq);
    }
    assert_int_equal(n, MANY);
    ts_rollback(ts);
    assert_int_equal(READY(ts, .limit = 100)->n, MANY);
}

/* ---- Limits of tasks, and of bytes ----------------------------------------------------------- */

static const struct str TWO_TASKS[] = {STR("a"), STR("b")};

/* Invariant 11 over the tasks of a worker, whose slots are not all free. */
STORE_TEST(tasks_come_in_one_order_up_to_their_limits)
{
    int64_t a1 = PUT(ts, .task = STR("a"), .priority = 1), b1 = PUT(ts, .task = STR("b")),
            a2 = PUT(ts, .task = STR("a"), .priority = 9), a3 = PUT(ts, .task = STR("a")),
            b2 = PUT(ts, .task = STR("b"), .priority = 5);
    PUT(ts, .task = STR("c"), .priority = 100);
    const size_t limits[] = {2, 4};
    struct job_page *page = READY(ts, .tenant = STR("acme"), .tasks = TWO_TASKS, .n_tasks = 2,
                                  .task_limits = limits, .limit = 6);
    check_seqs(page, a2, b2, a1, b1);
    assert_false(page->more);
    page = READY(ts, .tenant = STR("acme"), .tasks = TWO_TASKS, .n_tasks = 2, .task_limits = limits,
                 .limit = 2);
    check_seqs(page, a2, b2);
    assert_true(page->more);
    page = READY(ts, .tenant = STR("acme"), .tasks = TWO_TASKS, .n_tasks = 2, .limit = 6);
    check_seqs(page, a2, b2, a1, b1, a3);
}

STORE_TEST(a_task_with_all_the_jobs_has_its_limit_too)
{
    const size_t limits[] = {2, 4};
    int64_t seqs[6];
    for (int i = 0; i < 6; i++)
        seqs[i] = PUT(ts, .task = STR("a"));
    for (int i = 0; i < 6; i += 2) {
        struct job_page *page =
            READY(ts, .tasks = TWO_TASKS, .n_tasks = 2, .task_limits = limits, .limit = 6);
        check_seqs(page, seqs[i], seqs[i + 1]);
        assert_false(page->more);
        ts_start(ts, seqs[i]);
        ts_start(ts, seqs[i + 1]);
    }
}

/* The queue's place counts for more than the priority, over all tasks. */
STORE_TEST(queues_in_order_hold_for_tasks_with_limits)
{
    const struct str queues[] = {STR("urgent"), STR("bulk")};
    const size_t limits[] = {1, 2};
    PUT(ts, .task = STR("a"), .queue = STR("bulk"), .priority = 50);
    int64_t b = PUT(ts, .task = STR("b"), .queue = STR("bulk")),
            u = PUT(ts, .task = STR("a"), .queue = STR("urgent")),
            v = PUT(ts, .task = STR("b"), .queue = STR("urgent"), .priority = -5);
    check_seqs(READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2, .tasks = TWO_TASKS,
                     .n_tasks = 2, .task_limits = limits, .limit = 3),
               u, v, b);
}

/* Two slots that are always free together: the second tenant with jobs of the first task must not
 * be left out each time. */
STORE_TEST(no_tenant_is_left_out_for_ever_by_a_limit)
{
    static const char *const TENANTS[] = {"t1", "t2", "t3"};
    const size_t limits[] = {1, 1};
    unsigned served = 0;
    for (int i = 0; i < 5; i++) {
        PUT(ts, .tenant = STR("t1"), .task = STR("a"));
        PUT(ts, .tenant = STR("t2"), .task = STR("a"));
        PUT(ts, .tenant = STR("t3"), .task = STR("b"));
    }
    for (int call = 0; call < 3; call++) {
        struct job_page *page =
            READY(ts, .tasks = TWO_TASKS, .n_tasks = 2, .task_limits = limits, .limit = 2);
        int64_t seqs[2];
        const size_t n = page->n;
        assert_in_range(n, 1, 2);
        for (size_t i = 0; i < n; i++) {
            seqs[i] = page->jobs[i].status.seq;
            for (unsigned t = 0; t < 3; t++)
                if (str_is(page->jobs[i].spec.tenant, TENANTS[t]))
                    served |= 1u << t;
        }
        for (size_t i = 0; i < n; i++)
            ts_start(ts, seqs[i]);
    }
    assert_int_equal(served, 7);
}

/* The same where the partitions are so many that stores go another way. */
STORE_TEST(of_many_tenants_limits_of_tasks_hold)
{
    char tenant[16];
    const size_t limits[] = {3, 2};
    unsigned long long served = 0;
    for (unsigned t = 0; t < 40; t++) {
        snprintf(tenant, sizeof tenant, "t%02u", t);
        PUT(ts, .tenant = str_of(tenant), .task = STR("a"));
        PUT(ts, .tenant = str_of(tenant), .task = t % 2 ? STR("a") : STR("b"));
    }
    for (int call = 0; call < 40; call++) {
        int64_t seqs[5];
        size_t n_of[2] = {0};
        struct job_page *page =
            READY(ts, .tasks = TWO_TASKS, .n_tasks = 2, .task_limits = limits, .limit = 5);
        const size_t n = page->n;
        for (size_t i = 0; i < n; i++) {
            seqs[i] = page->jobs[i].status.seq;
            n_of[str_is(page->jobs[i].spec.task, "b")]++;
            served |= 1ull << strtoul(page->jobs[i].spec.tenant.ptr + 1, NULL, 10);
        }
        assert_in_range(n_of[0], 0, 3);
        assert_in_range(n_of[1], 0, 2);
        for (size_t i = 0; i < n; i++)
            ts_start(ts, seqs[i]);
    }
    assert_true(served == (1ull << 40) - 1);
    assert_int_equal(READY(ts, .limit = 1)->n, 0);
}

static char *megabytes(size_t n)
{
    const size_t len = n << 20;
    char *text = malloc(len + 1);
    memset(text, ' ', len);
    text[0] = '{';
    text[len - 1] = '}';
    text[len] = '\0';
    return text;
}

STORE_TEST(a_claim_has_as_many_jobs_as_fit_its_bytes)
{
    char *small = megabytes(1), *big = megabytes(3);
    int64_t a = PUT(ts, .payload = {small, 1 << 20}), b = PUT(ts, .payload = {small, 1 << 20}),
            c = PUT(ts, .payload = {big, 3 << 20}), d = PUT(ts, .priority = -1);
    const size_t max_bytes = (2 << 20) + (1 << 19);
    struct job_page *page = READY(ts, .limit = 100, .max_bytes = max_bytes);
    check_seqs(page, a, b);
    assert_true(page->more);
    ts_start(ts, a);
    ts_start(ts, b);
    page = READY(ts, .tenant = STR("acme"), .limit = 100, .max_bytes = max_bytes);
    check_seqs(page, c); /* the first, whatever its size */
    assert_true(page->more);
    ts_start(ts, c);
    page = READY(ts, .limit = 100, .max_bytes = max_bytes);
    check_seqs(page, d);
    assert_false(page->more);
    free(small);
    free(big);
}

/* A job that does not fit is the first of the next claim, whoever's turn it was. */
STORE_TEST(of_many_tenants_bytes_leave_none_waiting)
{
    char *text = megabytes(1);
    char tenant[16];
    unsigned served = 0;
    for (unsigned t = 0; t < 12; t++) {
        snprintf(tenant, sizeof tenant, "t%02u", t);
        for (int i = 0; i < 4; i++)
            PUT(ts, .tenant = str_of(tenant), .payload = {text, 1 << 20});
    }
    free(text);
    for (int call = 0; call < 12; call++) {
        struct job_page *page = READY(ts, .limit = 100, .max_bytes = (3 << 20) + (1 << 19));
        int64_t seqs[3];
        const size_t n = page->n;
        assert_in_range(n, 1, 3);
        assert_true(page->more);
        for (size_t i = 0; i < n; i++) {
            seqs[i] = page->jobs[i].status.seq;
            served |= 1u << strtoul(page->jobs[i].spec.tenant.ptr + 1, NULL, 10);
        }
        for (size_t i = 0; i < n; i++)
            ts_start(ts, seqs[i]);
    }
    assert_int_equal(served, 0xfff);
}

/* Invariant 5. */
STORE_TEST(a_start_counts_one_attempt_and_takes_a_lease)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    ts->now_ms += 7;
    const struct start_move move = {.seq = seq,
                                    .token = UINT64_MAX - 1,
                                    .lease_until_ms = ts->now_ms + 30000,
                                    .worker = STR("host:1"),
                                    .permit = {.generation = 3, .probe = UINT64_MAX}};
    check_move(ts_try_start(ts, &move), 0, REDRIVE_STATE_RUNNING);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_RUNNING);
    assert_int_equal(s->attempts, 1);
    assert_true(s->token == UINT64_MAX - 1);
    assert_int_equal(s->lease_until_ms, ts->now_ms + 30000);
    check_str(s->worker, "host:1");
    assert_int_equal(s->permit.generation, 3);
    assert_true(s->permit.probe == UINT64_MAX);
    assert_int_equal(s->started_ms, ts->now_ms);
    assert_int_equal(s->first_started_ms, ts->now_ms);
    assert_int_equal(s->updated_ms, ts->now_ms);
    assert_int_equal(s->created_ms, TS_START_MS);
}

STORE_TEST(attempts_rise_by_one_with_each_start)
{
    int64_t seq = PUT(ts, .id = STR("x")), next_ms;
    for (uint32_t n = 1; n <= 4; n++) {
        uint64_t token = ts_start(ts, seq);
        assert_int_equal(ts_job(ts, seq)->status.attempts, n);
        assert_int_equal(ts_job(ts, seq)->status.first_started_ms, TS_START_MS);
        assert_int_equal(ts_job(ts, seq)->status.started_ms, ts->now_ms);
        ts_settle(ts, seq, token, decision_retrying(1000));
        assert_int_equal(ts_job(ts, seq)->status.attempts, n);
        ts->now_ms += 1000;
        assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    }
}

STORE_TEST(only_a_queued_job_can_be_started)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        if (s == REDRIVE_STATE_QUEUED)
            continue;
        int64_t seq = ts_put_in(ts, (enum redrive_state)s, NULL);
        struct job_status before = ts_job(ts, seq)->status;
        const struct start_move move = {.seq = seq, .token = 999, .worker = STR("thief")};
        check_move(ts_try_start(ts, &move), REDRIVE_E_STATE, (enum redrive_state)s);
        const struct job_status *after = &ts_job(ts, seq)->status;
        assert_int_equal(after->attempts, before.attempts);
        assert_int_equal(after->token, before.token);
        assert_int_equal(after->lease_until_ms, before.lease_until_ms);
    }
}
