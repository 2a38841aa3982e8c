#include "store_for_test.h"

#include <stdio.h>

STORE_TEST(each_field_of_the_filter_counts)
{
    int64_t a = PUT(ts, .tenant = STR("t1"), .id = STR("a"), .task = STR("resize"),
                    .queue = STR("slow"), .user = STR("ann"), .unique_key = STR("k1"));
    int64_t b = PUT(ts, .tenant = STR("t2"), .id = STR("b"), .task = STR("mail"),
                    .queue = STR("fast"), .user = STR("bob"), .unique_key = STR("k2"));
    check_seqs(LIST(ts, .order = ORDER_OLDEST), a, b);
    check_seqs(LIST(ts, .tenant = STR("t1")), a);
    check_seqs(LIST(ts, .id = STR("b")), b);
    check_seqs(LIST(ts, .task = STR("resize")), a);
    check_seqs(LIST(ts, .queue = STR("fast")), b);
    check_seqs(LIST(ts, .user = STR("ann")), a);
    check_seqs(LIST(ts, .unique_key = STR("k2")), b);
    check_seqs(LIST(ts, .tenant = STR(""), .id = STR("")), a, b);
    assert_int_equal(LIST(ts, .tenant = STR("t1"), .id = STR("b"))->n, 0);
    assert_int_equal(LIST(ts, .id = STR("A"))->n, 0);
}

STORE_TEST(states_are_a_mask)
{
    int64_t seqs[REDRIVE_STATE_COUNT];
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        seqs[s] = ts_put_in(ts, (enum redrive_state)s, NULL);
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        check_seqs(LIST(ts, .states = 1u << s), seqs[s]);
    check_seqs(LIST(ts, .states = STATE_BIT(QUEUED) | STATE_BIT(CANCELLED)),
               seqs[REDRIVE_STATE_QUEUED], seqs[REDRIVE_STATE_CANCELLED]);
    assert_int_equal(LIST(ts, .states = 0)->n, REDRIVE_STATE_COUNT);
}

static int64_t put_dead(struct test_store *ts, enum redrive_class class_,
                        enum redrive_reason reason, const char *type, const char *message,
                        uint64_t fingerprint)
{
    int64_t seq = PUT(ts, .priority = 0);
    uint64_t token = ts_start(ts, seq);
    struct decision d = decision_ended(REDRIVE_STATE_DEAD_LETTER, reason);
    const struct settle_move move = {
        .seq = seq,
        .token = token,
        .decision = &d,
        .error = {.class_ = class_, .type = str_of(type), .message = str_of(message)},
        .fingerprint = fingerprint};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_DEAD_LETTER);
    return seq;
}

STORE_TEST(errors_can_be_searched)
{
    int64_t a = put_dead(ts, REDRIVE_CLASS_NETWORK, REDRIVE_REASON_EXHAUSTED, "ConnectError",
                         "connection to 10%_off refused", 5);
    int64_t b = put_dead(ts, REDRIVE_CLASS_VALIDATION, REDRIVE_REASON_NOT_RETRIABLE, "ValueError",
                         "Connection is not a number", UINT64_MAX);
    int64_t c = PUT(ts, .priority = 0);
    check_seqs(LIST(ts, .classes = 1u << REDRIVE_CLASS_NETWORK), a);
    check_seqs(LIST(ts, .classes = 1u << REDRIVE_CLASS_NETWORK | 1u << REDRIVE_CLASS_VALIDATION), a,
               b);
    check_seqs(LIST(ts, .classes = 1u << REDRIVE_CLASS_SUCCESS), c);
    check_seqs(LIST(ts, .reasons = 1u << REDRIVE_REASON_NOT_RETRIABLE), b);
    check_seqs(LIST(ts, .reasons = 1u << REDRIVE_REASON_NONE), c);
    check_seqs(LIST(ts, .error_type = STR("ConnectError")), a);
    assert_int_equal(LIST(ts, .error_type = STR("Connect"))->n, 0);
    check_seqs(LIST(ts, .text = STR("onnection")), a, b);
    check_seqs(LIST(ts, .text = STR("connection")), a);
    check_seqs(LIST(ts, .text = STR("10%_off")), a);
    assert_int_equal(LIST(ts, .text = STR("10__off"))->n, 0);
    assert_int_equal(LIST(ts, .text = STR("con%refused"))->n, 0);
    check_seqs(LIST(ts, .fingerprint = 5), a);
    check_seqs(LIST(ts, .fingerprint = UINT64_MAX), b);
}

STORE_TEST(ends_are_bounded_in_time)
{
    int64_t t = ts->now_ms, seqs[3];
    PUT(ts, .priority = 0);
    for (int i = 0; i < 3; i++) {
        ts->now_ms = t + 10 * i;
        seqs[i] = ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    }
    check_seqs(LIST(ts, .finished_after_ms = t + 10), seqs[1], seqs[2]);
    check_seqs(LIST(ts, .finished_before_ms = t + 10), seqs[0]);
    check_seqs(LIST(ts, .finished_after_ms = t + 10, .finished_before_ms = t + 20), seqs[1]);
    check_seqs(LIST(ts, .finished_before_ms = t + 1000), seqs[0], seqs[1], seqs[2]);
}

STORE_TEST(orders_are_what_they_say)
{
    int64_t t = ts->now_ms;
    ts->now_ms = t + 20;
    int64_t a = ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    ts->now_ms = t + 30;
    int64_t b = ts_put_in(ts, REDRIVE_STATE_FAILED, NULL);
    int64_t live = PUT(ts, .priority = 0);
    ts->now_ms = t + 10;
    int64_t c = ts_put_in(ts, REDRIVE_STATE_CANCELLED, NULL);
    ts->now_ms = t + 20;
    int64_t d = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    check_seqs(LIST(ts, .order = ORDER_OLDEST), a, b, live, c, d);
    check_seqs(LIST(ts, .order = ORDER_NEWEST), d, c, live, b, a);
    check_seqs(LIST(ts, .order = ORDER_FINISHED), b, d, a, c, live);
}

STORE_TEST(a_bound_ends_the_list)
{
    int64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = ts_put_in(ts, i == 2 ? REDRIVE_STATE_QUEUED : REDRIVE_STATE_COMPLETED, NULL);
    check_seqs(LIST(ts, .order = ORDER_OLDEST, .until_seq = seqs[1]), seqs[0], seqs[1]);
    check_seqs(LIST(ts, .order = ORDER_NEWEST, .until_seq = seqs[3]), seqs[4], seqs[3]);
    check_seqs(LIST(ts, .order = ORDER_NEWEST, .until_seq = seqs[1], .after_seq = seqs[3]), seqs[2],
               seqs[1]);
    check_seqs(
        LIST(ts, .order = ORDER_NEWEST, .until_seq = seqs[1], .states = STATE_BIT(COMPLETED)),
        seqs[4], seqs[3], seqs[1]);
    assert_false(LIST(ts, .order = ORDER_NEWEST, .until_seq = seqs[1])->more);
}

/* A store may choose another way to the same jobs. */
STORE_TEST(a_hint_changes_nothing)
{
    int64_t a = put_dead(ts, REDRIVE_CLASS_NETWORK, REDRIVE_REASON_EXHAUSTED, "ConnectError",
                         "connection refused", 5);
    int64_t b = ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    PUT(ts, .priority = 0);
    const uint32_t ended = STATE_BIT(COMPLETED) | STATE_BIT(DEAD_LETTER);
    check_seqs(LIST(ts, .is_few = true, .states = ended, .order = ORDER_NEWEST), b, a);
    check_seqs(LIST(ts, .is_few = true, .states = ended, .text = STR("onnection")), a);
    check_seqs(LIST(ts, .is_most = true, .tenant = STR("acme"), .states = ended), a, b);
}

/* Few jobs of a task among many others, and then none: from the first to the last, page by page. */
STORE_TEST(jobs_of_a_task_are_found_wherever_they_are)
{
    int64_t rare[6];
    size_t n = 0;
    ts_begin(ts);
    for (int i = 0; i < 1300; i++) {
        const bool is_rare = i == 0 || i == 255 || i == 256 || i == 700 || i == 1299;
        const int64_t seq = PUT(ts, .task = is_rare ? STR("rare") : STR("common"),
                                .queue = is_rare && i > 300 ? STR("aside") : STR("q"));
        if (is_rare)
            rare[n++] = seq;
    }
    ts_commit(ts);
    rare[n] = PUT(ts, .tenant = STR("zeta"), .task = STR("rare"));
    for (int hint = 0; hint < 2; hint++) {
        const struct job_filter f = {
            .tenant = STR("acme"), .task = STR("rare"), .limit = 50, .is_rare = hint};
        struct job_filter g = f;
        check_seqs(ts_list(ts, &g), rare[0], rare[1], rare[2], rare[3], rare[4]);
        g.order = ORDER_NEWEST;
        check_seqs(ts_list(ts, &g), rare[4], rare[3], rare[2], rare[1], rare[0]);
        g.limit = 2;
        check_seqs(ts_list(ts, &g), rare[4], rare[3]);
        assert_true(ts->page.more);
        g.after_seq = rare[3];
        check_seqs(ts_list(ts, &g), rare[2], rare[1]);
        g.until_seq = rare[1] + 1;
        check_seqs(ts_list(ts, &g), rare[2]);
        assert_false(ts->page.more);
        g = f;
        g.tenant = (struct str){0};
        g.queue = STR("aside");
        g.order = ORDER_NEWEST;
        check_seqs(ts_list(ts, &g), rare[4], rare[3]);
        g.task = STR("common");
        assert_int_equal(ts_list(ts, &g)->n, 0);
    }
}

/* By the time of the end, which is not the order of their numbers. */
STORE_TEST(ended_jobs_of_a_task_are_found_by_their_end)
{
    int64_t a = PUT(ts, .task = STR("rare"), .queue = STR("one"));
    int64_t b = PUT(ts, .task = STR("rare"), .queue = STR("two"));
    for (int i = 0; i < 30; i++)
        (void)ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    ts->now_ms += 10;
    check_move(ts_settle(ts, b, ts_start(ts, b), decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    ts->now_ms += 10;
    check_move(ts_settle(ts, a, ts_start(ts, a),
                         decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED)),
               0, REDRIVE_STATE_DEAD_LETTER);
    const uint32_t ended = STATE_BIT(COMPLETED) | STATE_BIT(DEAD_LETTER);
    check_seqs(LIST(ts, .task = STR("rare"), .states = ended, .order = ORDER_FINISHED), a, b);
    check_seqs(LIST(ts, .task = STR("rare"), .states = ended, .order = ORDER_FINISHED, .limit = 1),
               a);
    check_seqs(LIST(ts, .queue = STR("two"), .states = ended, .order = ORDER_FINISHED), b);
    check_seqs(LIST(ts, .task = STR("rare"), .states = STATE_BIT(COMPLETED),
                    .order = ORDER_FINISHED, .finished_before_ms = ts->now_ms - 5),
               b);
    check_seqs(LIST(ts, .task = STR("rare"), .states = ended, .order = ORDER_FINISHED,
                    .after_seq = a, .after_ms = ts->now_ms),
               b);
}

/* A handle that has seen a job come does not rely on it after a rollback or a removal. */
STORE_TEST(jobs_of_a_task_are_found_after_others_were_taken_back)
{
    ts_begin(ts);
    PUT(ts, .task = STR("rare"));
    ts_rollback(ts);
    int64_t first = PUT(ts, .task = STR("rare"));
    check_seqs(LIST(ts, .task = STR("rare")), first);
    check_move(ts_settle(ts, first, ts_start(ts, first), decision_completed()), 0,
               REDRIVE_STATE_COMPLETED);
    ts->now_ms += 10;
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), ts->now_ms, 10), 1);
    assert_int_equal(LIST(ts, .task = STR("rare"))->n, 0);
    int64_t second = PUT(ts, .task = STR("rare"));
    check_seqs(LIST(ts, .task = STR("rare")), second);
}

STORE_TEST(users_belong_to_their_tenant)
{
    int64_t a = PUT(ts, .tenant = STR("t1"), .user = STR("ann"));
    int64_t other = PUT(ts, .tenant = STR("t2"), .user = STR("ann"));
    PUT(ts, .tenant = STR("t1"), .user = STR("bob"));
    PUT(ts, .tenant = STR("t1"));
    int64_t b = PUT(ts, .tenant = STR("t1"), .user = STR("ann"));
    check_seqs(LIST(ts, .tenant = STR("t1"), .user = STR("ann")), a, b);
    check_seqs(LIST(ts, .tenant = STR("t1"), .user = STR("ann"), .order = ORDER_NEWEST), b, a);
    check_seqs(LIST(ts, .tenant = STR("t1"), .user = STR("ann"), .order = ORDER_NEWEST, .limit = 1),
               b);
    check_seqs(LIST(ts, .tenant = STR("t1"), .user = STR("ann"), .after_seq = a), b);
    check_seqs(LIST(ts, .user = STR("ann")), a, other, b);
    assert_int_equal(LIST(ts, .tenant = STR("t2"), .user = STR("bob"))->n, 0);
}

/* A job that failed in one way and then in another is found by the last error alone, and once. */
STORE_TEST(the_last_error_is_searched_and_no_older_one)
{
    int64_t seq = PUT(ts, .priority = 0);
    static const char *const MESSAGES[] = {"first", "second", "second"};
    for (int i = 0; i < 3; i++) {
        const struct decision d = {.state = REDRIVE_STATE_QUEUED, .uses_attempt = true};
        const struct settle_move move = {
            .seq = seq,
            .token = ts_start(ts, seq),
            .decision = &d,
            .error = {.class_ = i == 0 ? REDRIVE_CLASS_NETWORK : REDRIVE_CLASS_SYSTEM,
                      .type = str_of(MESSAGES[i]),
                      .message = str_of(MESSAGES[i])},
            .fingerprint = 1 + (uint64_t)i};
        check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_QUEUED);
    }
    for (int order = ORDER_OLDEST; order <= ORDER_NEWEST; order++) {
        const enum job_order by = (enum job_order)order;
        check_seqs(LIST(ts, .order = by, .text = STR("second")), seq);
        check_seqs(LIST(ts, .order = by, .error_type = STR("second")), seq);
        check_seqs(LIST(ts, .order = by, .classes = 1u << REDRIVE_CLASS_SYSTEM), seq);
        check_seqs(LIST(ts, .order = by, .fingerprint = 3), seq);
        assert_int_equal(LIST(ts, .order = by, .text = STR("first"))->n, 0);
        assert_int_equal(LIST(ts, .order = by, .error_type = STR("first"))->n, 0);
        assert_int_equal(LIST(ts, .order = by, .classes = 1u << REDRIVE_CLASS_NETWORK)->n, 0);
        assert_int_equal(LIST(ts, .order = by, .fingerprint = 2)->n, 0);
    }
}

/* Reads all pages of one size and compares them with the one big page. */
static void check_pages(struct test_store *ts, struct job_filter filter, size_t size,
                        const int64_t *all, size_t n)
{
    size_t seen = 0;
    filter.limit = size;
    for (;;) {
        struct job_page *page = ts_list(ts, &filter);
        for (size_t i = 0; i < page->n; i++, seen++) {
            assert_true(seen < n);
            assert_int_equal(page->jobs[i].status.seq, all[seen]);
            filter.after_seq = page->jobs[i].status.seq;
            filter.after_ms = page->jobs[i].status.finished_ms;
        }
        assert_int_equal(page->more, seen < n);
        if (!page->more)
            break;
        assert_int_equal(page->n, size);
    }
    assert_int_equal(seen, n);
}

STORE_TEST(pages_join_without_a_gap_at_every_boundary)
{
    /* Several jobs end at the same time, some never. */
    for (int i = 0; i < 17; i++) {
        ts->now_ms = TS_START_MS + i * 7 % 5;
        ts_put_in(ts, i % 4 == 3 ? REDRIVE_STATE_QUEUED : REDRIVE_STATE_COMPLETED, NULL);
    }
    static const uint32_t STATES[] = {0, STATE_BIT(COMPLETED), STATE_BIT(QUEUED)};
    for (int order = ORDER_OLDEST; order <= ORDER_FINISHED; order++) {
        for (int s = 0; s < 3; s++) {
            struct job_filter filter = {
                .order = (enum job_order)order, .states = STATES[s], .limit = 100};
            struct job_page *page = ts_list(ts, &filter);
            int64_t all[17];
            size_t n = page->n;
            for (size_t i = 0; i < n; i++)
                all[i] = page->jobs[i].status.seq;
            for (size_t size = 1; size <= 18; size++)
                check_pages(ts, filter, size, all, n);
        }
    }
}

STORE_TEST(a_page_has_its_bounds)
{
    const struct store_ops *ops = store_ops(ts->store);
    struct job_filter filter = {.limit = 0};
    struct redrive_err err = {0};
    PUT(ts, .priority = 0);
    assert_int_equal(ops->list(ts->store, &filter, &ts->page, &err), REDRIVE_E_RANGE);
    assert_true(err.message[0] != '\0');
    assert_int_equal(ops->groups(ts->store, &filter, &ts->groups, NULL), REDRIVE_E_RANGE);
    filter.limit = STORE_PAGE_MAX + 1;
    assert_int_equal(ops->list(ts->store, &filter, &ts->page, NULL), REDRIVE_E_RANGE);
    filter.limit = STORE_PAGE_MAX;
    assert_int_equal(ops->list(ts->store, &filter, &ts->page, NULL), 0);
    assert_int_equal(ts->page.n, 1);
}

/* What a lookup of these names gives, in the page of the test's store. */
#define LOOKUP(ts, ...)                                \
    lookup(ts, (const struct job_name[]){__VA_ARGS__}, \
           sizeof((const struct job_name[]){__VA_ARGS__}) / sizeof(struct job_name))
static struct job_page *lookup(struct test_store *ts, const struct job_name *names, size_t n)
{
    struct redrive_err err = {0};
    if (store_ops(ts->store)->lookup(ts->store, names, n, &ts->page, &err) < 0)
        fail_msg("lookup: %s", err.message);
    assert_false(ts->page.more);
    return &ts->page;
}

static struct job_page *find(struct test_store *ts, const int64_t *seqs, size_t n)
{
    assert_int_equal(store_ops(ts->store)->find(ts->store, seqs, n, &ts->page, NULL), 0);
    assert_false(ts->page.more);
    return &ts->page;
}

STORE_TEST(jobs_are_found_by_their_names)
{
    const int64_t a = PUT(ts, .tenant = STR("t1"), .id = STR("a"), .payload = STR("[1]"));
    const int64_t b = PUT(ts, .tenant = STR("t1"), .id = STR("b"));
    const int64_t other = PUT(ts, .tenant = STR("t2"), .id = STR("a"), .payload = STR("[2]"));
    const struct job_name first = {STR("t1"), STR("a")}, second = {STR("t1"), STR("b")},
                          third = {STR("t2"), STR("a")}, none = {STR("t2"), STR("b")},
                          nobody = {STR("t3"), STR("a")}, nameless = {.id = STR("a")};
    check_seqs(LOOKUP(ts, second, none, third, nobody, first, nameless), b, other, a);
    check_str(ts->page.jobs[1].spec.payload, "[2]");
    check_seqs(LOOKUP(ts, first, second, first), a, b, a);
    assert_int_equal(LOOKUP(ts, none)->n, 0);
    assert_int_equal(lookup(ts, NULL, 0)->n, 0);
}

STORE_TEST(a_lookup_sees_the_moves_of_its_transaction)
{
    const int64_t gone = ts_put_in(ts, REDRIVE_STATE_CANCELLED, &(struct job_spec){.id = STR("x")});
    const struct job_name names[] = {{STR("acme"), STR("x")}, {STR("acme"), STR("y")}};
    ts_begin(ts);
    const int64_t fresh = PUT(ts, .id = STR("y"));
    CHANGE(ts, .seq = gone, .kind = MOVE_REMOVE);
    check_seqs(lookup(ts, names, 2), fresh);
    ts_start(ts, fresh);
    assert_int_equal(lookup(ts, names, 2)->jobs[0].status.state, REDRIVE_STATE_RUNNING);
    const int64_t seqs[] = {gone, fresh};
    check_seqs(find(ts, seqs, 2), fresh);
    assert_int_equal(ts->page.jobs[0].status.state, REDRIVE_STATE_RUNNING);
    ts_rollback(ts);
    check_seqs(lookup(ts, names, 2), gone);
}

STORE_TEST(jobs_are_found_by_their_seqs)
{
    const int64_t a = PUT(ts, .tenant = STR("t1"), .payload = STR("[1]"));
    const int64_t b = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &(struct job_spec){.id = STR("b")});
    const int64_t seqs[] = {b, INT64_MAX, a, 0};
    check_seqs(find(ts, seqs, 4), b, a);
    check_str(ts->page.jobs[0].spec.id, "b");
    assert_true(ts->page.jobs[0].status.error.message.len > 0);
    check_str(ts->page.jobs[1].spec.payload, "[1]");
    assert_int_equal(find(ts, seqs, 0)->n, 0);
}

STORE_TEST(a_lookup_has_its_bounds)
{
    static struct job_name names[STORE_PAGE_MAX + 1];
    static int64_t seqs[STORE_PAGE_MAX + 1];
    static struct attempt_page pages[STORE_PAGE_MAX + 1];
    const struct store_ops *ops = store_ops(ts->store);
    const int64_t seq = PUT(ts, .id = STR("x"));
    for (size_t i = 0; i <= STORE_PAGE_MAX; i++) {
        names[i] = (struct job_name){STR("acme"), i == STORE_PAGE_MAX - 1 ? STR("x") : STR("y")};
        seqs[i] = seq;
    }
    check_seqs(lookup(ts, names, STORE_PAGE_MAX), seq);
    assert_int_equal(ops->history(ts->store, seqs, STORE_PAGE_MAX, pages, NULL), 0);
    assert_int_equal(ops->lookup(ts->store, names, STORE_PAGE_MAX + 1, &ts->page, NULL),
                     REDRIVE_E_RANGE);
    assert_int_equal(ts->page.n, 0);
    assert_int_equal(ops->find(ts->store, seqs, STORE_PAGE_MAX + 1, &ts->page, NULL),
                     REDRIVE_E_RANGE);
    assert_int_equal(ops->history(ts->store, seqs, STORE_PAGE_MAX + 1, pages, NULL),
                     REDRIVE_E_RANGE);
}

STORE_TEST(a_page_outlives_the_jobs_in_it)
{
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER,
                            &(struct job_spec){.id = STR("x"), .payload = STR("[1]")});
    struct job_page *page = LIST(ts, .id = STR("x"));
    CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE);
    check_str(page->jobs[0].spec.payload, "[1]");
    check_str(page->jobs[0].status.error.message, "no answer");
}

STORE_TEST(a_small_tenant_is_listed_beside_a_big_one)
{
    ts_fill_tenants(ts, 600);
    ts_check_small_tenant(ts);
    assert_int_equal(LIST(ts, .tenant = STR("small"), .queue = STR("other"))->n, 0);
    assert_int_equal(LIST(ts, .tenant = STR("other"))->n, 0);
    assert_int_equal(LIST(ts, .tenant = STR("big"), .order = ORDER_FINISHED, .limit = 1000)->n,
                     600);
}
