#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "engine/verbs/submit.h"
#include "server/claim_waits.h"
#include "waiting.h"

#define LONG_MS (10 * WAIT_LIMIT_MS)
#define MANY    200

static struct timers *timers;
static struct claim_waits *_Atomic waits;
static struct committer *committer;
static atomic_int n_asked;
static _Atomic(op_apply_fn) real_claim;

/* ---- A committer and its waits --------------------------------------------------------------- */

static void on_ready(void *ctx)
{
    struct claim_waits *all = waits;
    (void)ctx;
    if (all)
        claim_waits_ready(all);
}

static int setup(void **state)
{
    const struct store_options store_options = {.create = true};
    struct engine_options engine_options = {0};
    struct committer_options options = {.on_ready = on_ready};
    struct claim_waits *all;
    (void)state;
    n_asked = 0;
    assert_int_equal(store_open("memory:", &store_options, &engine_options.store, NULL), 0);
    assert_int_equal(engine_open(&engine_options, &options.engine, NULL), 0);
    assert_int_equal(committer_start(&options, &committer, NULL), 0);
    assert_int_equal(timers_new(&timers, NULL), 0);
    assert_int_equal(claim_waits_new(committer, timers, &all, NULL), 0);
    waits = all;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    claim_waits_close(waits);
    committer_stop(committer);
    timers_free(timers);
    claim_waits_free(waits);
    waits = NULL;
    return 0;
}

struct client {
    struct claim_wait wait; /* first */
    struct str queue;
    atomic_int got; /* -1: no answer yet */
};

static void answered(struct claim_wait *wait)
{
    struct client *client = (struct client *)(void *)wait;
    int n = wait->claim.op.code < 0 ? wait->claim.op.code : (int)wait->claim.n;
    claim_op_release(&wait->claim);
    client->got = n;
}

static int counted_claim(struct engine *engine, struct op *op, struct redrive_err *err)
{
    n_asked++;
    return real_claim(engine, op, err);
}

static void ask(struct client *client, const char *queue, int64_t wait_ms)
{
    *client = (struct client){.queue = str_of(queue), .got = -1};
    const struct claim_filter filter = {.queues = &client->queue, .n_queues = 1, .limit = 1};
    claim_op_init(&client->wait.claim, &filter, STR("w"), 0);
    real_claim = client->wait.claim.op.apply;
    client->wait.claim.op.apply = counted_claim;
    client->wait.claim.op.kind = NULL; /* each is made, and counted, alone */
    client->wait.key = client->queue;
    client->wait.until_ms = clock_monotonic_ms() + wait_ms;
    client->wait.done = answered;
    claim_wait_init(waits, &client->wait);
    claim_waits_add(&client->wait);
}

/* Until everything that has been handed in so far has been answered. */
static int do_nothing(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine;
    (void)op;
    (void)err;
    return 0;
}

static void settle_down(void)
{
    for (int i = 0; i < 3; i++) {
        struct op op = {.apply = do_nothing};
        assert_int_equal(committer_run(committer, &op, NULL), 0);
    }
}

static void submit(const char *queue)
{
    const struct job_spec spec = {.task = STR("t"), .queue = str_of(queue)};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(committer), &spec, 1, NULL), 0);
    assert_int_equal(committer_run(committer, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, 0);
    submit_op_release(&op);
}

static int answer_of(const struct client *client)
{
    WAIT_FOR(client->got != -1);
    return client->got;
}

static size_t n_answered(const struct client *clients, size_t n)
{
    size_t answered_so_far = 0;
    for (size_t i = 0; i < n; i++)
        answered_so_far += clients[i].got != -1;
    return answered_so_far;
}

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

/* ---- Facts ----------------------------------------------------------------------------------- */

FIXTURE_TEST(a_claim_finds_what_is_there)
{
    struct client a;
    submit("q");
    ask(&a, "q", LONG_MS);
    assert_int_equal(answer_of(&a), 1);
}

FIXTURE_TEST(a_claim_that_may_not_wait_is_answered_at_once)
{
    struct client a;
    ask(&a, "q", 0);
    assert_int_equal(answer_of(&a), 0);
}

FIXTURE_TEST(a_claim_is_answered_when_its_time_is_over)
{
    struct client a;
    int64_t before_ms = clock_monotonic_ms();
    ask(&a, "q", 50);
    assert_int_equal(answer_of(&a), 0);
    assert_true(clock_monotonic_ms() - before_ms >= 50);
}

FIXTURE_TEST(a_job_wakes_the_one_that_sleeps)
{
    struct client a;
    ask(&a, "q", LONG_MS);
    settle_down();
    assert_int_equal(a.got, -1);
    submit("q");
    assert_int_equal(answer_of(&a), 1);
}

FIXTURE_TEST(a_job_wakes_one_of_many_and_costs_little)
{
    struct client *clients = calloc(MANY, sizeof *clients);
    for (size_t i = 0; i < MANY; i++)
        ask(&clients[i], "q", LONG_MS);
    settle_down();
    assert_int_equal(n_answered(clients, MANY), 0);
    int before = n_asked;
    submit("q");
    assert_int_equal(answer_of(&clients[0]), 1); /* the one that has waited longest */
    settle_down();
    assert_int_equal(n_answered(clients, MANY), 1);
    /* The one that got it, the next in line, and perhaps one for a further look. */
    assert_in_range(n_asked - before, 1, 4);
    claim_waits_close(waits);
    assert_int_equal(n_answered(clients, MANY), MANY);
    free(clients);
}

FIXTURE_TEST(many_jobs_serve_a_whole_line)
{
    struct client clients[20];
    for (size_t i = 0; i < 20; i++)
        ask(&clients[i], "q", LONG_MS);
    for (size_t i = 0; i < 20; i++)
        submit("q");
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(answer_of(&clients[i]), 1);
}

FIXTURE_TEST(lines_do_not_stand_in_each_others_way)
{
    struct client a, b;
    ask(&a, "a", LONG_MS);
    ask(&b, "b", LONG_MS);
    settle_down();
    submit("b");
    assert_int_equal(answer_of(&b), 1);
    settle_down();
    assert_int_equal(a.got, -1);
    claim_waits_end(&a.wait);
    assert_int_equal(a.got, 0);
}

FIXTURE_TEST(ending_a_claim_twice_is_no_mistake)
{
    struct client a;
    ask(&a, "q", LONG_MS);
    settle_down();
    claim_waits_end(&a.wait);
    claim_waits_end(&a.wait);
    assert_int_equal(a.got, 0);
    submit("q");
    settle_down();
    assert_int_equal(a.got, 0);
}

FIXTURE_TEST(after_a_close_nobody_sleeps)
{
    struct client a, b;
    ask(&a, "q", LONG_MS);
    settle_down();
    claim_waits_close(waits);
    assert_int_equal(a.got, 0);
    ask(&b, "q", LONG_MS);
    assert_int_equal(answer_of(&b), 0);
}
