/* Jobs that wait for others, too many to be skipped in one transaction: invariants 15 and 16 of
 * engine/verbs/after.h hold when ticks have gone on, also those of another process. */
#include "engine/engine_for_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/state.h"
#include "engine/verbs/after.h"

#define N_CHAIN  1000
#define CHILDREN 100
#define EACH     60

struct names {
    char id[16];
    struct job_after after;
};

/* A job of an array that waits for another one of it. */
static void name_after(struct names *names, struct job_spec *specs, size_t i, size_t parent)
{
    snprintf(names[i].id, sizeof names[i].id, "j%zu", i);
    names[i].after = (struct job_after){str_of(names[parent].id), {AFTER_SUCCESS, AFTER_DEAD_WAIT}};
    specs[i] = (struct job_spec){.task = STR("t"), .id = str_of(names[i].id)};
    if (i != parent) {
        specs[i].after = &names[i].after;
        specs[i].n_after = 1;
    }
}

/* `parent_of` gives for each job but the first the one that it waits for; itself: none. */
static void submit_graph(struct test_engine *te, size_t n, size_t (*parent_of)(size_t i),
                         int64_t *seqs)
{
    struct names *names = calloc(n, sizeof *names);
    struct job_spec *specs = calloc(n, sizeof *specs);
    struct submit_op op;
    assert_non_null(names);
    assert_non_null(specs);
    for (size_t i = 0; i < n; i++)
        name_after(names, specs, i, i > 0 ? parent_of(i) : 0);
    assert_int_equal(submit_op_init(&op, te->engine, specs, n, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(op.answers[i].code, 0);
        seqs[i] = op.answers[i].seq;
    }
    submit_op_release(&op);
    free(specs);
    free(names);
}

static size_t one_before(size_t i)
{
    return i - 1;
}

/* The children of the first, then theirs. */
static size_t in_two_levels(size_t i)
{
    return i <= CHILDREN ? 0 : 1 + (i - CHILDREN - 1) / EACH;
}

/* Rows that are left for ticks; `ret_id` gets what the first one names. */
static size_t count_put_off(struct test_engine *te, char ret_id[16])
{
    struct store *store;
    struct shared_page page = {0};
    assert_int_equal(store_open(te->url, NULL, &store, NULL), 0);
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_CANCEL, (struct str){0}, &page, NULL), 0);
    const size_t n = page.n;
    if (n > 0 && ret_id) {
        char value[64];
        assert_true(after_is_put_off(&page.rows[0]));
        snprintf(value, sizeof value, "%.*s", (int)page.rows[0].value.len, page.rows[0].value.ptr);
        assert_int_equal(sscanf(value, "{\"ended\":[\"%15[^\"]", ret_id), 1);
    }
    shared_page_release(&page);
    store_close(store);
    return n;
}

/* The process is gone; another one opens the store. */
static void go_on_with_another_process(struct test_engine *te)
{
    struct engine *other = te_second_engine(te);
    engine_close(te->engine);
    te->engine = other;
}

static void check_all_skipped(struct test_engine *te, const int64_t *seqs, size_t n)
{
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), n);
    assert_int_equal(te_counter(te, "jobs_cancelled", ""), n);
    for (size_t i = 1; i < n; i += n / 50)
        assert_int_equal(te_job(te, seqs[i]).status.reason, REDRIVE_REASON_SKIPPED);
    assert_int_equal(count_put_off(te, NULL), 0);
}

ENGINE_TEST(a_long_chain_is_skipped_by_several_transactions, NULL)
{
    int64_t seqs[N_CHAIN], next_ms;
    submit_graph(te, N_CHAIN, one_before, seqs);
    assert_int_equal(te_change(te, MOVE_CANCEL, seqs[0]), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), AFTER_ROUNDS_MAX + 1);
    assert_int_equal(count_put_off(te, NULL), 1);
    assert_true(engine_next_ms(te->engine) <= te->now_ms);
    go_on_with_another_process(te);
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), 2 * AFTER_ROUNDS_MAX + 1);
    assert_true(next_ms <= te->now_ms);
    te_tick(te);
    check_all_skipped(te, seqs, N_CHAIN);
}

TEST(many_children_are_skipped_by_several_transactions)
{
    struct test_engine te;
    const size_t n = 1 + CHILDREN + CHILDREN * EACH;
    int64_t *seqs = calloc(n, sizeof *seqs);
    assert_non_null(seqs);
    te_init(&te, NULL);
    submit_graph(&te, n, in_two_levels, seqs);
    assert_int_equal(te_change(&te, MOVE_CANCEL, seqs[0]), 0);
    assert_int_equal(te_count(&te, REDRIVE_STATE_CANCELLED),
                     1 + CHILDREN + AFTER_DECIDED_MAX / EACH * EACH);
    assert_int_equal(count_put_off(&te, NULL), 1);
    go_on_with_another_process(&te);
    te_tick(&te);
    check_all_skipped(&te, seqs, n);
    free(seqs);
    te_release(&te);
}

/* Removal decides the children itself; the row names a job that is gone then. */
ENGINE_TEST(a_job_that_is_removed_before_its_turn_leaves_no_child_behind, NULL)
{
    int64_t seqs[N_CHAIN];
    char id[16];
    submit_graph(te, N_CHAIN, one_before, seqs);
    assert_int_equal(te_change(te, MOVE_CANCEL, seqs[0]), 0);
    assert_int_equal(count_put_off(te, id), 1);
    assert_int_equal(te_change(te, MOVE_REMOVE, seqs[strtoul(id + 1, NULL, 10)]), 0);
    te_tick(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), N_CHAIN - 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_WAITING), 0);
    assert_int_equal(count_put_off(te, NULL), 0);
}

/* The first jobs of so many chains of three. */
#define N_SHORT 200

static size_t one_before_of_three(size_t i)
{
    return i % 3 == 0 ? i : i - 1;
}

/* Each leaves a row; a tick goes on with as many as one transaction can. */
ENGINE_TEST(what_many_short_chains_leave_is_decided_together, NULL)
{
    struct change_op op;
    struct change_item items[N_SHORT] = {0};
    int64_t seqs[3 * N_SHORT], next_ms;
    submit_graph(te, 3 * (size_t)N_SHORT, one_before_of_three, seqs);
    for (size_t i = 0; i < N_SHORT; i++)
        items[i].seq = seqs[3 * i];
    change_op_init(&op, MOVE_CANCEL, items, N_SHORT);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_true(count_put_off(te, NULL) > 50);
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    assert_int_equal(count_put_off(te, NULL), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), 3 * N_SHORT);
}

/* ---- Two processes that decide the same --------------------------------------------------------
 */

/* What the other process does between the moment when the first one has read edges and the one when
 * it decides them; it may wait for the first one. */
static struct {
    const struct store_ops *real;
    struct store_ops ops;
    struct engine *other;
    pthread_t thread;
    int64_t removes; /* a job; 0: it ticks */
    bool is_begun, has_ended;
    int rc;
} meanwhile;

static void *do_meanwhile(void *unused)
{
    struct change_item item = {.seq = meanwhile.removes};
    struct change_op op;
    int64_t next_ms;
    (void)unused;
    change_op_init(&op, MOVE_REMOVE, &item, 1);
    meanwhile.rc = meanwhile.removes > 0 ? engine_apply_one(meanwhile.other, &op.op, NULL)
                                         : engine_tick(meanwhile.other, &next_ms, NULL);
    return NULL;
}

static int edges_meanwhile(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                           struct edge_page *ret, struct redrive_err *err)
{
    const int rc = meanwhile.real->edges(store, side, seqs, n, ret, err);
    if (!meanwhile.is_begun) {
        struct timespec until;
        meanwhile.is_begun = true;
        assert_int_equal(pthread_create(&meanwhile.thread, NULL, do_meanwhile, NULL), 0);
        assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
        until.tv_sec++;
        meanwhile.has_ended = pthread_timedjoin_np(meanwhile.thread, NULL, &until) == 0;
    }
    return rc;
}

/* A child waits for the end of the job that is noted first, and of one that lives. The second
 * process ticks, or removes the noted job, while the first one goes on. */
static void decide_by_two(bool removes)
{
    struct test_engine te;
    int64_t seqs[N_CHAIN];
    char id[16];
    if (strcmp(stores_name(), "memory") == 0 || strcmp(stores_name(), "sqlite") == 0)
        skip(); /* one transaction at a time */
    te_init(&te, NULL);
    submit_graph(&te, N_CHAIN, one_before, seqs);
    const struct job_spec live = {.task = STR("t"), .id = STR("live")};
    const int64_t live_seq = te_submit_spec(&te, &live);
    snprintf(id, sizeof id, "j%d", AFTER_ROUNDS_MAX);
    const struct job_after after[] = {{str_of(id), {AFTER_END, AFTER_DEAD_WAIT}},
                                      {STR("live"), {AFTER_END, AFTER_DEAD_WAIT}}};
    const struct job_spec child = {
        .task = STR("t"), .id = STR("child"), .after = after, .n_after = 2};
    const int64_t child_seq = te_submit_spec(&te, &child);
    assert_int_equal(te_change(&te, MOVE_CANCEL, seqs[0]), 0);
    assert_int_equal(count_put_off(&te, id), 1);

    meanwhile.other = te_second_engine(&te);
    meanwhile.removes = removes ? seqs[AFTER_ROUNDS_MAX] : 0;
    meanwhile.is_begun = meanwhile.has_ended = false;
    meanwhile.real = te.engine->ops;
    meanwhile.ops = *meanwhile.real;
    meanwhile.ops.edges = edges_meanwhile;
    ((struct store_base *)(void *)te.engine->store)->ops = &meanwhile.ops;
    te.engine->ops = &meanwhile.ops;
    te_tick(&te);
    assert_true(meanwhile.is_begun);
    if (!meanwhile.has_ended)
        assert_int_equal(pthread_join(meanwhile.thread, NULL), 0);
    assert_int_equal(meanwhile.rc, 0);
    assert_int_equal(te_job(&te, child_seq).status.state, REDRIVE_STATE_WAITING);
    assert_int_equal(te_job(&te, child_seq).status.open_parents, 1);
    te_tick(&te);
    assert_int_equal(te_count(&te, REDRIVE_STATE_CANCELLED), N_CHAIN - removes);
    assert_int_equal(te_change(&te, MOVE_CANCEL, live_seq), 0);
    assert_int_equal(te_job(&te, child_seq).status.state, REDRIVE_STATE_QUEUED);
    engine_close(meanwhile.other);
    te_release(&te);
}

TEST(ticks_of_two_processes_decide_an_edge_once)
{
    decide_by_two(false);
}

TEST(a_tick_and_a_removal_decide_an_edge_once)
{
    decide_by_two(true);
}
