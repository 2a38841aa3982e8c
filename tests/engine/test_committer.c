/* Many threads, one committer: everything that is handed in is answered once. */
#include "engine/engine_for_test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/scope.h"
#include "base/time/clock.h"
#include "engine/clock/cron_entries.h"
#include "engine/committer.h"
#include "stores_postgres.h"
#include "waiting.h"

#define N_THREADS 8
#define ORIGIN    7
#define N_JOBS    60 /* of each thread */

#define HOUR_MS 3600000

/* How often the clock is read before it is set back by two hours, and how often since. */
static atomic_int n_ahead, n_since;

static int64_t wall(void *ctx)
{
    (void)ctx;
    const bool is_ahead = n_ahead > 0 && n_ahead-- > 0;
    n_since += !is_ahead;
    return clock_wall_ms() + (is_ahead ? 2 * HOUR_MS : 0);
}

static struct committer *start_with(const char *url, struct test_engine *te,
                                    void (*on_ready)(void *), void *ctx)
{
    const struct store_options store_options = {.create = true, .origin = ORIGIN};
    struct engine_options options = {.clock = wall, .seed = 3, .config = te->config};
    struct committer_options committer_options = {.on_ready = on_ready, .ready_ctx = ctx};
    struct committer *committer;
    assert_int_equal(store_open(url, &store_options, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &committer_options.engine, NULL), 0);
    assert_int_equal(store_open(url, &store_options, &committer_options.watch, NULL), 0);
    assert_int_equal(committer_start(&committer_options, &committer, NULL), 0);
    return committer;
}

static struct committer *start(const char *url, struct test_engine *te)
{
    return start_with(url, te, NULL, NULL);
}

struct crew {
    struct committer *committer;
    atomic_uint submitted;
    atomic_uint completed;
    atomic_uint refused;
};

static bool submit_some(struct crew *crew, size_t n)
{
    struct job_spec specs[4] = {
        {.task = STR("t")}, {.task = STR("t")}, {.task = STR("t")}, {.task = STR("t")}};
    struct submit_op op;
    if (submit_op_init(&op, committer_engine(crew->committer), specs, n, NULL) < 0)
        return false;
    int rc = committer_run(crew->committer, &op.op, NULL);
    for (size_t i = 0; i < n; i++)
        crew->submitted += rc == 0 && op.answers[i].code == 0;
    submit_op_release(&op);
    return rc == 0;
}

static bool work_some(struct crew *crew)
{
    const struct claim_filter filter = {.limit = 3};
    struct settlement s[3] = {{.seq = 0}};
    struct claim_op claim;
    struct settle_op settle;
    claim_op_init(&claim, &filter, STR("w"), 0);
    int rc = committer_run(crew->committer, &claim.op, NULL);
    for (size_t i = 0; i < claim.n; i++)
        s[i] = (struct settlement){.seq = claim.jobs[i].status.seq,
                                   .token = claim.jobs[i].status.token};
    if (rc == 0 && claim.n > 0) {
        settle_op_init(&settle, s, claim.n);
        rc = committer_run(crew->committer, &settle.op, NULL);
        for (size_t i = 0; i < claim.n; i++)
            *(s[i].ret.code == 0 ? &crew->completed : &crew->refused) += 1;
    }
    claim_op_release(&claim);
    return rc == 0;
}

static void *work(void *arg)
{
    struct crew *crew = arg;
    for (int i = 0; i < N_JOBS / 4; i++)
        if (!submit_some(crew, 4) || !work_some(crew) || !work_some(crew))
            return NULL;
    while (crew->completed + crew->refused < N_THREADS * N_JOBS)
        if (!work_some(crew))
            return NULL;
    return crew;
}

ENGINE_TEST(eight_threads_are_all_accounted_for, NULL)
{
    struct crew crew = {.committer = start(te->url, te)};
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &crew), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
    committer_stop(crew.committer);
    assert_int_equal(crew.submitted, N_THREADS * N_JOBS);
    assert_int_equal(crew.completed, N_THREADS * N_JOBS);
    assert_int_equal(crew.refused, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), N_THREADS * N_JOBS);
    assert_int_equal(te_counter(te, "jobs_completed", ""), N_THREADS * N_JOBS);
}

ENGINE_TEST(job_is_due_without_anybody_asking, NULL)
{
    struct committer *committer = start(te->url, te);
    const struct job_spec spec = {.task = STR("t"), .delay_ms = 100};
    struct submit_op submit;
    assert_int_equal(submit_op_init(&submit, committer_engine(committer), &spec, 1, NULL), 0);
    assert_int_equal(committer_run(committer, &submit.op, NULL), 0);
    assert_int_equal(submit.answers[0].state, REDRIVE_STATE_SCHEDULED);
    WAIT_FOR(te_count(te, REDRIVE_STATE_QUEUED) > 0);
    submit_op_release(&submit);
    committer_stop(committer);
}

ENGINE_TEST(change_by_another_process_is_noticed, NULL)
{
    struct committer *committer = start(te->url, te);
    te->now_ms = clock_wall_ms();
    const struct job_spec spec = {.task = STR("t"), .process_after_ms = te->now_ms + 100};
    te_submit_spec(te, &spec); /* by an engine that nobody ticks */
    WAIT_FOR(te_count(te, REDRIVE_STATE_QUEUED) > 0);
    committer_stop(committer);
}

static void count_answer(struct op *op, void *ctx)
{
    (void)op;
    *(atomic_uint *)ctx += 1;
}

static void count_ready(void *ctx)
{
    *(atomic_uint *)ctx += 1;
}

static void submit_now(struct committer *committer, int64_t process_after_ms)
{
    const struct job_spec spec = {.task = STR("t"), .process_after_ms = process_after_ms};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(committer), &spec, 1, NULL), 0);
    assert_int_equal(committer_run(committer, &op.op, NULL), 0);
    submit_op_release(&op);
}

ENGINE_TEST(word_is_given_when_jobs_become_ready, NULL)
{
    atomic_uint told = 0;
    struct committer *committer = start_with(te->url, te, count_ready, &told);
    submit_now(committer, 0);
    WAIT_FOR(told >= 1);
    unsigned before = told;
    submit_now(committer, clock_wall_ms() + 100);
    WAIT_FOR(told >= before + 1); /* when it is due, by nobody's doing */
    before = told;
    te->now_ms = clock_wall_ms();
    te_submit(te, "t", "{}"); /* by another process */
    WAIT_FOR(told >= before + 1);
    committer_stop(committer);
}

/* One who says that he is of this process, so that his notifications are not heard here. */
ENGINE_TEST(word_that_was_lost_costs_a_moment, NULL)
{
    atomic_uint told = 0;
    const struct store_options store_options = {.create = true, .origin = ORIGIN};
    struct engine_options options = {.clock = wall, .seed = 4};
    assert_int_equal(store_open(te->url, &store_options, &options.store, NULL), 0);
    struct engine *te_engine = te->engine, *unheard;
    assert_int_equal(engine_open(&options, &unheard, NULL), 0);
    struct committer *committer = start_with(te->url, te, count_ready, &told);
    te->engine = unheard;
    for (int i = 0; i < 3; i++) {
        const unsigned before = told;
        te_submit(te, "t", "{}");
        WAIT_FOR(told >= before + 1);
    }
    te->engine = te_engine;
    engine_close(unheard);
    committer_stop(committer);
}

ENGINE_TEST(claim_sees_what_has_just_become_due, NULL)
{
    te->now_ms = clock_wall_ms() - 1000;
    const struct job_spec spec = {.task = STR("t"), .process_after_ms = te->now_ms + 500};
    te_submit_spec(te, &spec);
    struct committer *committer = start(te->url, te);
    const struct claim_filter filter = {.limit = 1};
    struct claim_op claim;
    claim_op_init(&claim, &filter, STR("w"), 0);
    assert_int_equal(committer_run(committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    claim_op_release(&claim);
    committer_stop(committer);
}

/* When the only cron entry was last marked; 0: not yet. */
static int64_t cron_mark(struct test_engine *te)
{
    struct store *store = engine_store(te->engine);
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    struct cron_entry_row row = {0};
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_CRON, (struct str){0}, &page, NULL), 0);
    assert_true(page.n == 0 || cron_entry_row_read(page.rows[0].value, &row));
    return row.last_ms;
}

static void ask_for_work(struct committer *committer)
{
    const struct claim_filter filter = {.limit = 1};
    struct claim_op claim;
    claim_op_init(&claim, &filter, STR("w"), 0);
    assert_int_equal(committer_run(committer, &claim.op, NULL), 0);
    claim_op_release(&claim);
}

static bool has_marked(struct committer *committer, struct test_engine *te)
{
    if (n_since == 0)
        ask_for_work(committer);
    const int64_t mark_ms = cron_mark(te);
    return mark_ms != 0 && mark_ms <= clock_wall_ms() + HOUR_MS;
}

/* The engine has nothing to do until the time from before comes again, and no other process that
 * would wake it. The clock may be set at any moment, also in the midst of a tick; whoever reads it
 * then must know. */
TEST(clock_that_was_set_back_makes_a_tick)
{
    for (int n = 1; n <= 40; n++) {
        struct test_engine te;
        te_init(&te, NULL);
        te.config = te_config(&te, "cron: {yearly: {task: t, schedule: \"0 0 1 1 *\"}}\n");
        n_ahead = n;
        n_since = 0;
        struct committer *committer = start(te.url, &te);
        WAIT_FOR(has_marked(committer, &te));
        committer_stop(committer);
        te_release(&te);
    }
    n_ahead = 0;
}

/* A claim may be made in the same transaction as a submit that came before it: then it finds the
 * job, or is told to look again. */
ENGINE_TEST(what_is_handed_in_together_is_found_by_the_next_look, NULL)
{
    struct submit_op submit;
    struct claim_op claim;
    struct list both;
    atomic_uint answered = 0;
    const struct job_spec spec = {.task = STR("t")};
    const struct claim_filter filter = {.limit = 1};
    struct committer *committer = start(te->url, te);
    assert_int_equal(submit_op_init(&submit, committer_engine(committer), &spec, 1, NULL), 0);
    claim_op_init(&claim, &filter, STR("w"), 0);
    submit.op.done = claim.op.done = count_answer;
    submit.op.done_ctx = claim.op.done_ctx = &answered;
    list_init(&both);
    list_insert(&both, &submit.op.link);
    list_insert(&both, &claim.op.link);
    committer_submit_all(committer, &both);
    assert_true(list_empty(&both));
    WAIT_FOR(answered >= 2);
    if (claim.n == 0) {
        assert_true(claim.more);
        assert_int_equal(committer_run(committer, &claim.op, NULL), 0);
    }
    assert_int_equal(claim.n, 1);
    claim_op_release(&claim);
    submit_op_release(&submit);
    committer_stop(committer);
}

ENGINE_TEST(stop_answers_what_was_handed_in, NULL)
{
    enum {
        N = 200
    };
    static struct claim_op ops[N];
    const struct claim_filter filter = {.limit = 1};
    atomic_uint answered = 0;
    struct committer *committer = start(te->url, te);
    for (int i = 0; i < N; i++) {
        claim_op_init(&ops[i], &filter, STR("w"), 0);
        ops[i].op.done = count_answer;
        ops[i].op.done_ctx = &answered;
        committer_submit(committer, &ops[i].op);
    }
    committer_stop(committer);
    assert_int_equal(answered, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(ops[i].op.code, 0);
        claim_op_release(&ops[i]);
    }
}

/* An operation that notes how many are made in its transaction: all of them are applied before the
 * first has its answer. */
struct noted {
    struct op op;
    struct tally *tally;
};
struct tally {
    atomic_uint applied;
    atomic_uint answered;
    unsigned together; /* at most */
};

static int note_applied(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)err;
    ((struct noted *)(void *)op)->tally->applied++;
    return 0;
}

static void note_answered(struct op *op, void *ctx)
{
    struct tally *tally = ctx;
    const unsigned n = tally->applied - tally->answered;
    (void)op;
    tally->together = n > tally->together ? n : tally->together;
    tally->answered++;
}

ENGINE_TEST(one_transaction_takes_no_more_bytes_than_it_may, NULL)
{
    enum {
        N = 12
    };
    struct tally tally = {.applied = 0};
    struct noted ops[N];
    struct list all;
    struct committer *committer = start(te->url, te);
    list_init(&all);
    for (int i = 0; i < N; i++) {
        ops[i] = (struct noted){.op = {.apply = note_applied,
                                       .weight = 1,
                                       .bytes = COMMITTER_MAX_BYTES / 4,
                                       .done = note_answered,
                                       .done_ctx = &tally},
                                .tally = &tally};
        list_insert(&all, &ops[i].op.link);
    }
    ops[N - 1].op.bytes = 3 * COMMITTER_MAX_BYTES; /* it is made all the same */
    committer_submit_all(committer, &all);
    WAIT_FOR(tally.answered >= N);
    assert_int_equal(tally.together, 4);
    for (int i = 0; i < N; i++)
        assert_int_equal(ops[i].op.code, 0);
    committer_stop(committer);
}

/* ---- Locks of others ------------------------------------------------------------------------- */

enum {
    WAITING = 5
};

/* Hands in submits of a job whose id an application's open transaction holds. */
static void *hand_in_blocked(struct test_engine *te, struct committer *committer,
                             struct submit_op *ops, atomic_uint *answered)
{
    const struct job_spec spec = {.task = STR("t"), .id = STR("taken")};
    void *session =
        stores_postgres_hold(te->url, "SELECT redrive.submit('t', '{}', id => 'taken')");
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(submit_op_init(&ops[i], committer_engine(committer), &spec, 1, NULL), 0);
        ops[i].op.done = count_answer;
        ops[i].op.done_ctx = answered;
        committer_submit(committer, &ops[i].op);
    }
    return session;
}

TEST(submits_that_wait_for_an_open_transaction_do_not_hold_others)
{
    struct test_engine te;
    struct submit_op ops[WAITING];
    atomic_uint answered = 0;
    if (strcmp(stores_name(), "postgres") != 0)
        skip(); /* on other stores applications have no transactions */
    te_init(&te, NULL);
    struct crew crew = {.committer = start(te.url, &te)};
    assert_true(submit_some(&crew, 1)); /* the tenant is there */
    void *session = hand_in_blocked(&te, crew.committer, ops, &answered);
    for (int i = 0; i < 10; i++)
        assert_true(submit_some(&crew, 1) && work_some(&crew));
    assert_int_equal(crew.submitted, 11);
    assert_int_equal(answered, 0);
    stores_postgres_let_go(session);
    WAIT_FOR(answered == WAITING);
    unsigned new = 0;
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(ops[i].op.code, 0);
        assert_int_equal(ops[i].answers[0].code, 0);
        new += !ops[i].answers[0].existed;
    }
    assert_int_equal(new, 1);
    assert_false(ops[0].answers[0].existed); /* in the order in which they came */
    committer_stop(crew.committer);
    assert_int_equal(answered, WAITING);
    for (int i = 0; i < WAITING; i++)
        submit_op_release(&ops[i]);
    te_release(&te);
}

TEST(submits_that_wait_are_answered_when_it_stops)
{
    struct test_engine te;
    struct submit_op ops[WAITING];
    atomic_uint answered = 0;
    if (strcmp(stores_name(), "postgres") != 0)
        skip(); /* on other stores applications have no transactions */
    te_init(&te, NULL);
    struct crew crew = {.committer = start(te.url, &te)};
    assert_true(submit_some(&crew, 1));
    void *session = hand_in_blocked(&te, crew.committer, ops, &answered);
    assert_true(submit_some(&crew, 1));
    committer_stop(crew.committer);
    assert_int_equal(answered, WAITING);
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_non_null(strstr(ops[i].op.err.hint, "still open"));
        submit_op_release(&ops[i]);
    }
    stores_postgres_let_go(session);
    te_release(&te);
}

/* ---- One that hangs -------------------------------------------------------------------------- */

struct hanging {
    struct committer *committer;
    struct claim_op op;
    atomic_uint hangs;
    atomic_bool may_go_on;
};

/* On the committer's thread. As a connection that gives no answer would, but for a transaction that
 * is open: on some stores others would wait for that one. */
static void hang(struct op *op, void *ctx)
{
    struct hanging *h = ctx;
    (void)op;
    h->hangs = 1;
    HOLD_UNTIL(h->may_go_on);
}

static void *stop_hanging(void *arg)
{
    committer_stop(((struct hanging *)arg)->committer);
    return NULL;
}

/* By an engine that nobody ticks. */
static void await_due_job(struct test_engine *te, size_t n_queued)
{
    te->now_ms = clock_wall_ms();
    const struct job_spec spec = {.task = STR("t"), .process_after_ms = te->now_ms + 100};
    te_submit_spec(te, &spec);
    WAIT_FOR(te_count(te, REDRIVE_STATE_QUEUED) >= n_queued);
}

static void check_time_is_kept_beside_one_that_hangs(bool stops)
{
    struct test_engine te;
    struct hanging h = {.may_go_on = false};
    const struct claim_filter filter = {
        .tasks = (struct str[]){STR("none")}, .n_tasks = 1, .limit = 1};
    pthread_t stopper;
    te_init(&te, NULL);
    h.committer = start(te.url, &te);
    await_due_job(&te, 1); /* so it is the leader */
    struct committer *other = start(te.url, &te);
    claim_op_init(&h.op, &filter, STR("w"), 0);
    h.op.op.done = hang;
    h.op.op.done_ctx = &h;
    committer_submit(h.committer, &h.op.op);
    WAIT_FOR(h.hangs >= 1);
    if (stops)
        assert_int_equal(pthread_create(&stopper, NULL, stop_hanging, &h), 0);
    await_due_job(&te, 2);
    h.may_go_on = true;
    if (stops)
        assert_int_equal(pthread_join(stopper, NULL), 0);
    else
        committer_stop(h.committer);
    committer_stop(other);
    claim_op_release(&h.op);
    te_release(&te);
}

TEST(another_is_leader_while_one_hangs)
{
    check_time_is_kept_beside_one_that_hangs(false);
}

TEST(another_is_leader_while_one_hangs_as_it_stops)
{
    check_time_is_kept_beside_one_that_hangs(true);
}

/* ---- Upkeep ---------------------------------------------------------------------------------- */

static const struct store_ops *original;
static atomic_uint upkeeps;

static struct store_base *base_of(struct store *store)
{
    return (struct store_base *)(void *)store;
}

static int commit_and_want_upkeep(struct store *store, struct redrive_err *err)
{
    const int rc = original->commit(store, err);
    base_of(store)->wants_upkeep = true;
    return rc;
}

static void count_upkeep(struct store *store)
{
    base_of(store)->wants_upkeep = false;
    upkeeps++;
}

/* A committer on a store with another commit. */
static struct committer *start_on(struct test_engine *te,
                                  int (*commit)(struct store *, struct redrive_err *))
{
    static struct store_ops ops;
    struct committer_options committer_options = {0};
    struct committer *committer;
    struct engine_options options = {.clock = wall, .seed = 3, .config = te->config};
    assert_int_equal(
        store_open(te->url, &(struct store_options){.create = true}, &options.store, NULL), 0);
    original = store_ops(options.store);
    ops = *original;
    ops.commit = commit;
    ops.upkeep = count_upkeep;
    base_of(options.store)->ops = &ops;
    assert_int_equal(engine_open(&options, &committer_options.engine, NULL), 0);
    assert_int_equal(committer_start(&committer_options, &committer, NULL), 0);
    return committer;
}

ENGINE_TEST(idle_committer_sees_to_its_store, NULL)
{
    struct crew crew = {.committer = start_on(te, commit_and_want_upkeep)};
    assert_true(submit_some(&crew, 4));
    WAIT_FOR(upkeeps > 0);
    committer_stop(crew.committer);
}

/* ---- A store that is far away ---------------------------------------------------------------- */

#define ROUNDS 25

static atomic_uint commits;
static int64_t far_ms; /* how long a commit takes */

static int commit_far_away(struct store *store, struct redrive_err *err)
{
    commits++;
    pass_ms(far_ms);
    return original->commit(store, err);
}

static void *submit_again_and_again(void *arg)
{
    for (int i = 0; i < ROUNDS; i++)
        if (!submit_some(arg, 1))
            return NULL;
    return arg;
}

/* How many transactions it takes. */
static unsigned count_transactions(void)
{
    struct test_engine te;
    pthread_t threads[N_THREADS];
    te_init(&te, NULL);
    struct crew crew = {.committer = start_on(&te, commit_far_away)};
    commits = 0;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_again_and_again, &crew), 0);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    committer_stop(crew.committer);
    assert_int_equal(crew.submitted, N_THREADS * ROUNDS);
    te_release(&te);
    return commits;
}

/* Clients that were answered together ask again together, and the first of them waits for the
 * others: else they would be in two transactions that follow each other, twice as many in all. On a
 * busy machine some come too late, unless the store is farther away. */
TEST(what_comes_soon_after_goes_along_if_the_store_is_far_away)
{
    unsigned n = UINT32_MAX;
    for (far_ms = 4; n > ROUNDS + ROUNDS / 3 && far_ms <= 256; far_ms *= 2)
        n = count_transactions();
    assert_in_range(n, ROUNDS, ROUNDS + ROUNDS / 3);
}
