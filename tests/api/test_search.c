/* What a search asks its store for: a store that has counts and no jobs, and keeps the filters. */
#include "api/search.h"

#include "check.h"
#include "engine/verbs/change.h"
#include "store/wrap.h"

#define STATE_BIT(state) (1u << REDRIVE_STATE_##state)

static struct {
    struct wrap wrap; /* first */
    struct store *inner;
    struct job_count counts[2];
    int n_counts; /* how often they were read */
    struct job_filter lists[32];
    size_t n_lists;
    int64_t newest; /* what a list of one job gives */
} fake;

static int give_counts(struct store *store, enum count_kind kind, struct str tenant,
                       struct count_page *ret, struct redrive_err *err)
{
    (void)store, (void)tenant, (void)err;
    assert_int_equal(kind, COUNT_PARTITIONS);
    fake.n_counts++;
    *ret = (struct count_page){.n = 2};
    arena_init(&ret->arena);
    ret->counts = arena_array(&ret->arena, 2, sizeof *ret->counts);
    memcpy(ret->counts, fake.counts, sizeof fake.counts);
    return 0;
}

static int give_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                     struct redrive_err *err)
{
    (void)store, (void)err;
    job_page_release(ret);
    if (filter->limit == 1) {
        arena_init(&ret->arena);
        ret->jobs = arena_array(&ret->arena, 1, sizeof *ret->jobs);
        ret->jobs[0] = (struct job){.status = {.seq = fake.newest}};
        ret->n = 1;
        return 0;
    }
    assert_true(fake.n_lists < sizeof fake.lists / sizeof fake.lists[0]);
    fake.lists[fake.n_lists++] = *filter;
    return 0;
}

/* A million jobs of acme, and ten of zeta. */
static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    assert_int_equal(
        store_open("memory:", &(struct store_options){.create = true}, &fake.inner, NULL), 0);
    wrap_init(&fake.wrap, fake.inner);
    fake.wrap.ops.counts = give_counts;
    fake.wrap.ops.list = give_list;
    fake.newest = 1000000;
    fake.counts[0] = (struct job_count){.tenant = STR("acme"), .queue = STR("q"), .task = STR("t")};
    fake.counts[0].by_state[REDRIVE_STATE_QUEUED] = 890000;
    fake.counts[0].by_state[REDRIVE_STATE_COMPLETED] = 100000;
    fake.counts[0].by_state[REDRIVE_STATE_DEAD_LETTER] = 10000;
    fake.counts[1] = (struct job_count){.tenant = STR("zeta"), .queue = STR("q"), .task = STR("t")};
    fake.counts[1].by_state[REDRIVE_STATE_QUEUED] = 10;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_close(fake.inner);
    return 0;
}

/* Searches to the end, or until it is late; how often the counts were read for it. */
static int run(const struct job_filter *filter, struct search *search)
{
    struct job_page page = {0};
    const int before = fake.n_counts;
    struct job_filter full = *filter;
    full.limit = 50;
    fake.n_lists = 0;
    assert_int_equal(search_init(search, wrap_store(&fake.wrap), &full, NULL), 0);
    while (!search->is_over && !search->is_late) {
        assert_int_equal(search_next(search, 50, &page, NULL), 0);
        search_take(search, &page, page.n);
    }
    job_page_release(&page);
    return fake.n_counts - before;
}

#define RUN(...) run(&(struct job_filter){.order = ORDER_NEWEST, __VA_ARGS__}, &search)

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

FIXTURE_TEST(a_search_looks_at_every_job_in_few_steps)
{
    struct search search;
    assert_int_equal(RUN(.tenant = STR("acme"), .text = STR("words")), 1);
    assert_true(search.is_over);
    assert_in_range(fake.n_lists, 2, 8);
    assert_int_equal(fake.lists[0].after_seq, 1000001);
    assert_int_equal(fake.lists[0].until_seq, 1000001 - SEARCH_STEP);
    for (size_t i = 1; i < fake.n_lists; i++)
        assert_int_equal(fake.lists[i].after_seq, fake.lists[i - 1].until_seq);
    assert_int_equal(fake.lists[fake.n_lists - 1].until_seq, 1);
    assert_true(fake.lists[0].is_most);
}

/* In one step where the store has an index of these, else in several. */
FIXTURE_TEST(an_index_saves_steps)
{
    struct search search;
    const struct job_filter filters[] = {
        {.order = ORDER_NEWEST, .tenant = STR("acme"), .user = STR("ann")},
        {.order = ORDER_NEWEST, .task = STR("rare")},
    };
    fake.counts[1].task = STR("rare");
    for (size_t i = 0; i < 2; i++) {
        (void)run(&filters[i], &search);
        assert_true(fake.n_lists > 1);
        assert_int_equal(fake.lists[0].until_seq, 1000001 - SEARCH_STEP);
        fake.wrap.ops.capabilities |= STORE_INDEXED;
        (void)run(&filters[i], &search);
        assert_int_equal(fake.n_lists, 1);
        assert_int_equal(fake.lists[0].until_seq, 0);
        fake.wrap.ops.capabilities &= ~(uint32_t)STORE_INDEXED;
    }
    fake.wrap.ops.capabilities |= STORE_INDEXED;
    (void)RUN(.tenant = STR("acme"), .user = STR("ann"), .text = STR("words"));
    assert_in_range(fake.n_lists, 2, 4);
    assert_true(fake.lists[0].until_seq < 1000001 - SEARCH_STEP);
}

FIXTURE_TEST(counts_are_read_for_the_first_page_alone)
{
    struct search search;
    char cursor[JOB_CURSOR_MAX];
    struct job_filter next = {.order = ORDER_NEWEST, .tenant = STR("acme"), .text = STR("words")};
    assert_int_equal(RUN(.tenant = STR("acme"), .text = STR("words")), 1);
    search.is_over = false;
    search.filter.after_seq = 5000;
    assert_int_equal(job_cursor_read(str_of(search_cursor(&search, cursor)), &next, NULL), 0);
    assert_int_equal(run(&next, &search), 0);
    assert_int_equal(fake.n_lists, 1);
    assert_int_equal(fake.lists[0].after_seq, 5000);
    assert_int_equal(fake.lists[0].until_seq, 1);
    assert_true(fake.lists[0].is_most);
}

FIXTURE_TEST(few_jobs_of_some_states_take_one_step_on_every_page)
{
    struct search search;
    char cursor[JOB_CURSOR_MAX];
    const uint32_t dead = STATE_BIT(DEAD_LETTER);
    struct job_filter next = {.order = ORDER_NEWEST, .tenant = STR("acme"), .states = dead};
    assert_int_equal(RUN(.tenant = STR("acme"), .states = dead), 1);
    assert_int_equal(fake.n_lists, 1);
    assert_true(fake.lists[0].is_few);
    assert_int_equal(fake.lists[0].until_seq, 0);
    search.is_over = false;
    search.filter.after_seq = 5000;
    assert_int_equal(job_cursor_read(str_of(search_cursor(&search, cursor)), &next, NULL), 0);
    assert_int_equal(run(&next, &search), 0);
    assert_int_equal(fake.n_lists, 1);
    assert_true(fake.lists[0].is_few);
    assert_int_equal(fake.lists[0].until_seq, 0);
}

FIXTURE_TEST(a_task_that_few_jobs_have_is_told_to_the_store)
{
    struct search search;
    (void)RUN(.task = STR("t"));
    assert_false(fake.lists[0].is_rare);
    (void)RUN(.task = STR("t"), .states = STATE_BIT(COMPLETED) | STATE_BIT(DEAD_LETTER));
    assert_false(fake.lists[0].is_rare);
    (void)RUN(.task = STR("t"), .states = STATE_BIT(DEAD_LETTER));
    assert_true(fake.lists[0].is_rare);
    (void)RUN(.tenant = STR("zeta"), .queue = STR("q"));
    assert_true(fake.lists[0].is_rare);
    fake.counts[0].by_state[REDRIVE_STATE_PARKED] =
        30000; /* a store may have to read all of these */
    (void)RUN(.tenant = STR("zeta"), .queue = STR("q"));
    assert_false(fake.lists[0].is_rare);
}

/* An index by class leads to fewer jobs than that of the state, as a rule. */
FIXTURE_TEST(few_states_are_no_reason_to_leave_the_index_of_an_error)
{
    struct search search;
    (void)RUN(.states = STATE_BIT(DEAD_LETTER), .classes = 1u << REDRIVE_CLASS_NETWORK);
    assert_false(fake.lists[0].is_few);
    (void)RUN(.states = STATE_BIT(DEAD_LETTER), .text = STR("words"));
    assert_true(fake.lists[0].is_few);
}

FIXTURE_TEST(what_no_job_can_be_is_not_looked_for)
{
    struct search search;
    assert_int_equal(RUN(.tenant = STR("acme"), .task = STR("nothing")), 1);
    assert_int_equal(fake.n_lists, 0);
    assert_int_equal(RUN(.tenant = STR("acme"), .states = STATE_BIT(FAILED)), 1);
    assert_int_equal(fake.n_lists, 0);
    assert_int_equal(RUN(.states = STATE_BIT(QUEUED), .finished_after_ms = 7), 0);
    assert_int_equal(fake.n_lists, 0);
    assert_true(search.is_over);
}

/* In one step: these are in an order of their own. */
FIXTURE_TEST(other_orders_are_planned_too)
{
    struct search search;
    const struct job_filter rare = {
        .order = ORDER_OLDEST, .tenant = STR("acme"), .states = STATE_BIT(DEAD_LETTER)};
    const struct job_filter none = {
        .order = ORDER_FINISHED, .tenant = STR("acme"), .states = STATE_BIT(FAILED)};
    assert_int_equal(run(&rare, &search), 1);
    assert_int_equal(fake.n_lists, 1);
    assert_true(fake.lists[0].is_few);
    assert_int_equal(fake.lists[0].until_seq, 0);
    assert_int_equal(run(&none, &search), 1);
    assert_int_equal(fake.n_lists, 0);
}

FIXTURE_TEST(a_reason_is_looked_for_among_jobs_that_can_have_one)
{
    struct search search;
    const uint32_t some = STATE_BIT(FAILED) | STATE_BIT(DEAD_LETTER) | STATE_BIT(CANCELLED);
    (void)RUN(.tenant = STR("acme"), .reasons = 1u << REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(fake.n_lists, 1);
    assert_int_equal(fake.lists[0].states, some);
    assert_true(fake.lists[0].is_few);
    (void)RUN(.tenant = STR("acme"), .reasons = 1u << REDRIVE_REASON_NONE);
    assert_int_equal(fake.lists[0].states, 0);
    (void)run(&(struct job_filter){.order = ORDER_FINISHED, .finished_after_ms = 7}, &search);
    assert_int_equal(fake.lists[0].states, some | STATE_BIT(COMPLETED));
}

/* A change of all that match is made in transactions, in which a look at every job would hold up
 * all others. */
FIXTURE_TEST(a_change_of_few_jobs_does_not_look_at_the_others)
{
    struct bulk bulk;
    struct bulk_forecast forecast;
    bulk_init(&bulk, MOVE_REDRIVE, &(struct job_filter){.tenant = STR("acme")}, 1);
    assert_int_equal(bulk_count(wrap_store(&fake.wrap), &bulk, UINT64_MAX, &forecast, NULL), 0);
    assert_int_equal(fake.n_lists, 1);
    assert_true(fake.lists[0].is_few);
    bulk_init(&bulk, MOVE_REDRIVE, &(struct job_filter){.tenant = STR("zeta")}, 1);
    assert_int_equal(bulk_count(wrap_store(&fake.wrap), &bulk, UINT64_MAX, &forecast, NULL), 0);
    assert_int_equal(fake.n_lists, 1);
}
