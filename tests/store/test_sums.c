#include "store_for_test.h"

STORE_TEST(every_state_of_a_queue_is_counted)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        for (int i = 0; i <= s; i++)
            ts_put_in(ts, (enum redrive_state)s, NULL);
    struct count_page *page = ts_queues(ts, STR("acme"));
    assert_int_equal(page->n, 1);
    check_str(page->counts[0].tenant, "acme");
    check_str(page->counts[0].queue, "main");
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        assert_int_equal(page->counts[0].by_state[s], s + 1);
    assert_false(page->counts[0].paused);
}

STORE_TEST(queues_come_by_tenant_and_name_empty_paused_ones_too)
{
    PUT(ts, .tenant = STR("b"), .queue = STR("x"));
    PUT(ts, .tenant = STR("a"), .queue = STR("z"));
    PUT(ts, .tenant = STR("a"), .queue = STR("m"));
    ts_pause(ts, STR("a"), STR("z"));
    ts_pause(ts, STR("a"), STR("empty"));
    struct count_page *page = ts_queues(ts, (struct str){0});
    assert_int_equal(page->n, 4);
    check_str(page->counts[0].queue, "empty");
    assert_true(page->counts[0].paused);
    check_str(page->counts[1].queue, "m");
    assert_false(page->counts[1].paused);
    check_str(page->counts[2].queue, "z");
    assert_true(page->counts[2].paused);
    check_str(page->counts[3].tenant, "b");
    assert_int_equal(ts_queues(ts, STR("a"))->n, 3);
    assert_int_equal(ts_queues(ts, STR("c"))->n, 0);
}

STORE_TEST(the_oldest_and_the_next_are_known)
{
    int64_t t = ts->now_ms;
    PUT(ts, .process_after_ms = t + 500);
    struct count_page *page = ts_queues(ts, STR("acme"));
    assert_int_equal(page->counts[0].oldest_ready_ms, 0);
    assert_int_equal(page->counts[0].next_due_ms, t + 500);
    ts->now_ms = t + 20;
    int64_t later = PUT(ts, .priority = 100);
    ts->now_ms = t + 10;
    int64_t sooner = PUT(ts, .process_after_ms = t + 400);
    PUT(ts, .priority = 0);
    page = ts_queues(ts, STR("acme"));
    assert_int_equal(page->counts[0].oldest_ready_ms, t + 20);
    assert_int_equal(page->counts[0].next_due_ms, t + 400);
    CHANGE(ts, .seq = sooner, .kind = MOVE_CANCEL);
    CHANGE(ts, .seq = later, .kind = MOVE_CANCEL);
    page = ts_queues(ts, STR("acme"));
    assert_int_equal(page->counts[0].oldest_ready_ms, t + 10);
    assert_int_equal(page->counts[0].next_due_ms, t + 500);
    assert_int_equal(page->counts[0].by_state[REDRIVE_STATE_CANCELLED], 2);
}

STORE_TEST(every_task_of_a_queue_is_counted)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        ts_put_in(ts, (enum redrive_state)s, &(struct job_spec){.task = STR("b")});
        ts_put_in(ts, (enum redrive_state)s, &(struct job_spec){.task = STR("b")});
        ts_put_in(ts, (enum redrive_state)s, &(struct job_spec){.task = STR("a")});
    }
    struct count_page *page = ts_partitions(ts, STR("acme"));
    assert_int_equal(page->n, 2);
    check_str(page->counts[0].tenant, "acme");
    check_str(page->counts[0].queue, "main");
    check_str(page->counts[0].task, "a");
    check_str(page->counts[1].task, "b");
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        assert_int_equal(page->counts[0].by_state[s], 1);
        assert_int_equal(page->counts[1].by_state[s], 2);
    }
}

STORE_TEST(partitions_come_by_tenant_queue_and_task)
{
    PUT(ts, .tenant = STR("b"), .queue = STR("x"), .task = STR("t"));
    PUT(ts, .tenant = STR("a"), .queue = STR("y"), .task = STR("t"));
    PUT(ts, .tenant = STR("a"), .queue = STR("x"), .task = STR("u"));
    PUT(ts, .tenant = STR("a"), .queue = STR("x"), .task = STR("t"));
    struct count_page *page = ts_partitions(ts, (struct str){0});
    static const char *const SORTED[][3] = {
        {"a", "x", "t"}, {"a", "x", "u"}, {"a", "y", "t"}, {"b", "x", "t"}};
    assert_int_equal(page->n, 4);
    for (int i = 0; i < 4; i++) {
        check_str(page->counts[i].tenant, SORTED[i][0]);
        check_str(page->counts[i].queue, SORTED[i][1]);
        check_str(page->counts[i].task, SORTED[i][2]);
    }
    assert_int_equal(ts_partitions(ts, STR("b"))->n, 1);
    assert_int_equal(ts_partitions(ts, STR("c"))->n, 0);
}

STORE_TEST(partitions_come_with_a_commit_and_lose_what_is_empty)
{
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    ts_begin(ts);
    PUT(ts, .task = STR("new"));
    /* Within the transaction counts may be those of before. */
    assert_in_range(ts_partitions(ts, STR("acme"))->n, 1, 2);
    ts_rollback(ts);
    assert_int_equal(ts_partitions(ts, STR("acme"))->n, 1);
    const int64_t new_ = PUT(ts, .task = STR("new"));
    assert_int_equal(ts_partitions(ts, STR("acme"))->n, 2);
    CHANGE(ts, .seq = new_, .kind = MOVE_CANCEL);
    CHANGE(ts, .seq = new_, .kind = MOVE_REMOVE);
    CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE);
    assert_int_equal(ts_partitions(ts, STR("acme"))->n, 0);
}

STORE_TEST(running_jobs_are_counted_by_their_limits)
{
    const struct job_spec limited = {.breaker_key = STR("host-a"), .limit_key = STR("user-1")};
    ts_running(ts, (struct str){0});
    assert_int_equal(ts->gates.n, 0);
    for (int i = 0; i < 3; i++)
        ts_put_in(ts, REDRIVE_STATE_RUNNING, &limited);
    ts_put_in(ts, REDRIVE_STATE_PARKED, &limited);
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, &limited);
    ts_put_in(ts, REDRIVE_STATE_RUNNING, &(struct job_spec){.breaker_key = STR("host-a")});
    ts_put_in(ts, REDRIVE_STATE_RUNNING,
              &(struct job_spec){.tenant = STR("zoo"), .limit_key = STR("user-1")});
    ts_running(ts, (struct str){0});
    assert_int_equal(ts->gates.n, 2);
    check_str(ts->gates.counts[0].tenant, "acme");
    check_str(ts->gates.counts[0].gate, "user-1");
    assert_int_equal(ts->gates.counts[0].jobs, 3);
    check_str(ts->gates.counts[1].tenant, "zoo");
    ts_running(ts, STR("zoo"));
    assert_int_equal(ts->gates.n, 1);
    assert_int_equal(ts->gates.counts[0].jobs, 1);
}

STORE_TEST(parked_jobs_are_counted_by_what_holds_them)
{
    assert_int_equal(ts_gates(ts, (struct str){0})->n, 0);
    for (int i = 0; i < 3; i++)
        ts_put_in(ts, REDRIVE_STATE_PARKED,
                  &(struct job_spec){.breaker_key = STR("host-a"), .limit_key = STR("user-1")});
    int64_t seq = PUT(ts, .breaker_key = STR("host-a"), .limit_key = STR("user-1"));
    check_move(ts_park(ts, seq, true), 0, REDRIVE_STATE_PARKED);
    ts_put_in(ts, REDRIVE_STATE_PARKED,
              &(struct job_spec){.tenant = STR("zoo"), .breaker_key = STR("host-a")});
    PUT(ts, .breaker_key = STR("host-b"));
    struct count_page *page = ts_gates(ts, (struct str){0});
    assert_int_equal(page->n, 3);
    check_str(page->counts[0].tenant, "acme");
    check_str(page->counts[0].gate, "host-a");
    assert_int_equal(page->counts[0].jobs, 3);
    check_str(page->counts[1].gate, "user-1");
    assert_int_equal(page->counts[1].jobs, 1);
    check_str(page->counts[2].tenant, "zoo");
    assert_int_equal(page->counts[2].jobs, 1);
    page = ts_gates(ts, STR("zoo"));
    assert_int_equal(page->n, 1);
    check_move(ts_unpark(ts, seq), 0, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_gates(ts, STR("acme"))->n, 1);
}

static int64_t put_dead(struct test_store *ts, uint64_t fingerprint, int64_t ended_ms)
{
    static char payload[100000];
    memset(payload, '1', sizeof payload);
    ts->now_ms = ended_ms;
    int64_t seq = PUT(ts, .task = fingerprint == 9 ? STR("nine") : STR("mail"),
                      .payload = {payload, fingerprint == 9 ? sizeof payload : 5});
    uint64_t token = ts_start(ts, seq);
    struct decision d = decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED);
    const struct settle_move move = {.seq = seq,
                                     .token = token,
                                     .decision = &d,
                                     .error = {.class_ = REDRIVE_CLASS_NETWORK,
                                               .type = STR("Refused"),
                                               .message = STR("no route"),
                                               .stacktrace = STR("at line 1")},
                                     .fingerprint = fingerprint};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_DEAD_LETTER);
    return seq;
}

STORE_TEST(alike_errors_are_grouped_the_largest_group_first)
{
    put_dead(ts, UINT64_MAX, 100);
    int64_t latest = put_dead(ts, 5, 300);
    put_dead(ts, 5, 200);
    put_dead(ts, 0, 400);
    int64_t nine = put_dead(ts, 9, 100);
    put_dead(ts, 5, 250);
    const struct job_filter all = {.states = STATE_BIT(DEAD_LETTER), .limit = 10};
    assert_int_equal(store_ops(ts->store)->groups(ts->store, &all, &ts->groups, NULL), 0);
    assert_int_equal(ts->groups.n, 3);
    const struct group_count *g = ts->groups.groups;
    assert_int_equal(g[0].fingerprint, 5);
    assert_int_equal(g[0].count, 3);
    assert_int_equal(g[0].first_ms, 200);
    assert_int_equal(g[0].last_ms, 300);
    assert_int_equal(g[0].example.status.seq, latest);
    check_str(g[0].example.spec.task, "mail");
    check_str(g[0].example.status.error.message, "no route");
    check_str(g[0].example.status.error.stacktrace, "at line 1");
    /* Payloads may be large, and nothing needs them. */
    for (size_t i = 0; i < ts->groups.n; i++)
        assert_int_equal(g[i].example.spec.payload.len, 0);
    assert_int_equal(g[1].fingerprint, 9);
    assert_int_equal(g[1].example.status.seq, nine);
    assert_true(g[2].fingerprint == UINT64_MAX);
}

STORE_TEST(groups_are_of_the_jobs_that_match)
{
    put_dead(ts, 5, 100);
    put_dead(ts, 5, 200);
    put_dead(ts, 9, 100);
    struct job_filter filter = {.task = STR("nine"), .limit = 10};
    assert_int_equal(store_ops(ts->store)->groups(ts->store, &filter, &ts->groups, NULL), 0);
    assert_int_equal(ts->groups.n, 1);
    assert_int_equal(ts->groups.groups[0].fingerprint, 9);
    filter = (struct job_filter){.limit = 1};
    assert_int_equal(store_ops(ts->store)->groups(ts->store, &filter, &ts->groups, NULL), 0);
    assert_int_equal(ts->groups.n, 1);
    assert_int_equal(ts->groups.groups[0].count, 2);
    filter = (struct job_filter){.states = STATE_BIT(COMPLETED), .limit = 10};
    assert_int_equal(store_ops(ts->store)->groups(ts->store, &filter, &ts->groups, NULL), 0);
    assert_int_equal(ts->groups.n, 0);
}

STORE_TEST(of_ends_at_the_same_time_the_higher_seq_is_the_example)
{
    put_dead(ts, 5, 100);
    int64_t higher = put_dead(ts, 5, 100);
    const struct job_filter all = {.limit = 10};
    assert_int_equal(store_ops(ts->store)->groups(ts->store, &all, &ts->groups, NULL), 0);
    assert_int_equal(ts->groups.groups[0].example.status.seq, higher);
}

struct causes {
    uint64_t total;
    uint64_t mails;
    uint64_t exhausted;
    uint64_t network;
    uint64_t of_type;
};

static void add_cause(void *ctx, const struct cause_count *cause)
{
    struct causes *sum = ctx;
    sum->total += cause->count;
    sum->mails += str_is(cause->task, "mail") ? cause->count : 0;
    sum->exhausted += cause->reason == REDRIVE_REASON_EXHAUSTED ? cause->count : 0;
    sum->network += cause->class_ == REDRIVE_CLASS_NETWORK ? cause->count : 0;
    sum->of_type += str_is(cause->type, "ConnectError") ? cause->count : 0;
}

STORE_TEST(causes_are_of_the_jobs_that_match)
{
    struct causes sum = {0};
    struct job_filter filter = {.states = STATE_BIT(DEAD_LETTER)};
    ts_fill_views(ts);
    ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &(struct job_spec){.tenant = STR("other")});
    assert_int_equal(store_ops(ts->store)->causes(ts->store, &filter, add_cause, &sum, NULL), 0);
    assert_int_equal(sum.total, 2);
    assert_int_equal(sum.mails, 1);
    assert_int_equal(sum.network, 1);
    assert_int_equal(sum.of_type, 1);
    assert_true(sum.exhausted >= 1);
    sum = (struct causes){0};
    filter.tenant = STR("other");
    assert_int_equal(store_ops(ts->store)->causes(ts->store, &filter, add_cause, &sum, NULL), 0);
    assert_int_equal(sum.total, 1);
    filter.task = STR("none");
    assert_int_equal(store_ops(ts->store)->causes(ts->store, &filter, add_cause, &sum, NULL), 0);
    assert_int_equal(sum.total, 1);
}
