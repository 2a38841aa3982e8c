/* test_queue_held.c - a store, or one of its shards, that keeps what it is given for long or does
 * not take it: everything else goes on. */
#include "queue_for_test.h"

#include "engine/committer.h"
#include "store/held_files.h"
#include "store/shards/shards.h"

static struct held_file *const WHOLE = &held_files[3];

/* ---- Turns ----------------------------------------------------------------------------------- */

static atomic_bool turns_are_held; /* a turn waits before it hands in what it has taken */
static atomic_int n_turns_held;
static atomic_int n_apart; /* how often settlements were handed in without a claim */

void __real_committer_run_with(struct committer *committer, struct list *ops, struct op *op);
void __wrap_committer_run_with(struct committer *committer, struct list *ops, struct op *op);
void __real_committer_submit_all(struct committer *committer, struct list *ops);
void __wrap_committer_submit_all(struct committer *committer, struct list *ops);

void __wrap_committer_run_with(struct committer *committer, struct list *ops, struct op *op)
{
    n_turns_held += turns_are_held;
    HOLD_UNTIL(!turns_are_held);
    __real_committer_run_with(committer, ops, op);
}

void __wrap_committer_submit_all(struct committer *committer, struct list *ops)
{
    n_apart += !list_empty(ops);
    __real_committer_submit_all(committer, ops);
}

/* What has ended meanwhile is in the next turn. */
static void let_turns_go(void)
{
    WAIT_FOR_REST();
    turns_are_held = false;
}

static int reset(void **state)
{
    (void)state;
    held_files_reset();
    turns_are_held = false;
    n_turns_held = n_apart = 0;
    return 0;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

#define N_SHARDS 3

struct field {
    struct test_queue *tq; /* its queue works for all tenants */
    char store[1024];
    struct redrive_queue *of[N_SHARDS]; /* each for a tenant of that shard */
    atomic_int runs[N_SHARDS];
    bool fails[N_SHARDS]; /* the first run of this shard does, when the gate is open */
    atomic_bool is_open;
};

static struct redrive_queue *open_for(const struct field *f, const char *tenant)
{
    const struct redrive_queue_options options = {
        .store = f->store, .config = f->tq->config, .tenant = tenant};
    struct redrive_queue *queue;
    struct redrive_err err = {0};
    if (redrive_queue_open(&options, &queue, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return queue;
}

static struct redrive_queue *open_on(const struct field *f, size_t shard)
{
    char tenant[32];
    int i = 0;
    do
        snprintf(tenant, sizeof tenant, "tenant-%d", i++);
    while (shard_of_tenant(str_of(tenant), N_SHARDS) != shard);
    return open_for(f, tenant);
}

static int run_counted(struct redrive_task_run *run, void *arg)
{
    struct field *f = arg;
    const size_t shard = shard_of_tenant(str_of(redrive_task_run_tenant(run)), N_SHARDS);
    const bool fails = atomic_fetch_add(&f->runs[shard], 1) == 0 && f->fails[shard];
    HOLD_UNTIL(!fails || atomic_load(&f->is_open));
    return fails ? -ECONNREFUSED : 0;
}

static void field_init(struct field *f, uint32_t concurrency)
{
    *f = (struct field){.tq = tq_new("sqlite:")};
    const char *dir = f->tq->dir;
    snprintf(f->store, sizeof f->store, "shards:sqlite:%s/0.db sqlite:%s/1.db sqlite:%s/2.db", dir,
             dir, dir);
    f->tq->queue = open_for(f, NULL);
    for (size_t i = 0; i < N_SHARDS; i++)
        f->of[i] = open_on(f, i);
    tq_handle(f->tq->queue, "t", run_counted, f, concurrency);
}

static void field_release(struct field *f)
{
    for (size_t i = 0; i < N_SHARDS; i++)
        redrive_queue_close(f->of[i]);
    tq_free(f->tq);
}

/* In one transaction, since the next one may be held up. */
static void submit_on(struct field *f, size_t shard, size_t n)
{
    struct redrive_job_spec jobs[100] = {0};
    for (size_t i = 0; i < n; i++)
        jobs[i].task = "t";
    assert_int_equal(redrive_queue_submit(f->of[shard], jobs, n, 0, NULL, NULL), 0);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, reset, NULL)

/* Those of its own shard wait: it may have opened their breaker. */
FIXTURE_TEST(a_failure_that_is_not_settled_stops_no_job_of_another_shard)
{
    struct field f;
    struct worker worker;
    field_init(&f, 3);
    f.fails[0] = f.fails[1] = true;
    held_files[1].is_held = true;
    submit(f.of[0], "t", "here");
    submit(f.of[1], "t", "there");
    worker_start(&worker, f.tq->queue);
    WAIT_FOR(f.runs[0] >= 1);
    WAIT_FOR(f.runs[1] >= 1);
    WAIT_FOR_REST(); /* the third thread sleeps */
    turns_are_held = true;
    submit_on(&f, 1, 10);
    WAIT_FOR(n_turns_held >= 1);
    atomic_store(&f.is_open, true);
    let_turns_go(); /* one claims a job there, the next one settles both failures */
    WAIT_FOR(held_files[1].n_held >= 1);
    WAIT_FOR_STATE(f.of[0], "here", REDRIVE_STATE_COMPLETED);
    for (int i = 2; i < 20; i++) {
        submit_on(&f, 0, 1);
        WAIT_FOR(f.runs[0] >= i + 1);
    }
    assert_int_equal(atomic_load(&held_files[1].n_held), 1);
    assert_in_range(atomic_load(&f.runs[1]), 1, 2); /* one may have run beside it */
    held_files_let_go();
    WAIT_FOR_STATE(f.of[1], "there", REDRIVE_STATE_COMPLETED);
    WAIT_FOR(f.runs[1] >= 12);
    worker_stop(&worker, LONG_MS);
    field_release(&f);
}

/* A function of one thread has claimed four jobs ahead of each shard when that stops to settle. */
FIXTURE_TEST(shards_that_settle_nothing_leave_runs_for_the_jobs_of_another)
{
    struct field f;
    struct worker worker;
    field_init(&f, 1);
    for (size_t i = 0; i < N_SHARDS; i++)
        held_files[i].delay_ms = 20; /* so that jobs are claimed ahead */
    submit_on(&f, 0, 60);
    worker_start(&worker, f.tq->queue);
    WAIT_FOR(f.runs[0] >= 60);
    for (size_t i = 1; i < N_SHARDS; i++) {
        held_files[i].is_held = true;
        submit_on(&f, i, 20);
        WAIT_FOR(held_files[i].n_held >= 1);
        WAIT_FOR_REST();
    }
    submit_on(&f, 0, 40);
    WAIT_FOR(f.runs[0] >= 100);
    held_files_let_go();
    for (size_t i = 1; i < N_SHARDS; i++)
        WAIT_FOR(f.runs[i] >= 20);
    worker_stop(&worker, LONG_MS);
    field_release(&f);
}

/* ---- One store ------------------------------------------------------------------------------- */

struct gate {
    atomic_int n_started;
    atomic_int n_returned;
    atomic_bool is_open;
    int n_apart; /* as it was when the fourth job began */
};

static void wait_at(const struct gate *gate)
{
    HOLD_UNTIL(atomic_load(&gate->is_open));
}

/* The first eight end together, but for number 1, whose end begins a turn. Number 0 fails. */
static int end_together(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    const int number = atoi(redrive_task_run_id(run));
    const bool is_early = !atomic_load(&gate->is_open);
    atomic_fetch_add(&gate->n_started, 1);
    wait_at(gate);
    if (is_early && number != 1)
        WAIT_FOR(n_turns_held >= 1);
    atomic_fetch_add(&gate->n_returned, 1);
    return is_early && number == 0 ? -ECONNREFUSED : 0;
}

static int tq_reset(void **state)
{
    reset(NULL);
    return tq_setup(state);
}

#define RESET_FILE_TEST(test)                                                          \
    CHECK_WITH(test, struct test_queue *tq)                                            \
    CHECK_ADD(test, #test, check_run_##test, tq_reset, tq_teardown, (void *)"sqlite:") \
    static void test(struct test_queue *tq)

/* Such as a large result on a disk that is nearly full. The job has the number 1. */
RESET_FILE_TEST(an_outcome_that_the_store_does_not_take_holds_up_no_other)
{
    struct gate gate = {0};
    struct worker worker;
    char id[16];
    WHOLE->refused_seq = 1;
    for (int i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "%d", i);
        submit(tq->queue, "t", id);
    }
    tq_handle(tq->queue, "t", end_together, &gate, 8);
    worker_start(&worker, tq->queue);
    WAIT_FOR(gate.n_started >= 8);
    turns_are_held = true;
    atomic_store(&gate.is_open, true);
    WAIT_FOR(gate.n_returned >= 8);
    let_turns_go();
    for (int i = 1; i < 16; i++) {
        snprintf(id, sizeof id, "%d", i);
        if (i >= 8)
            submit(tq->queue, "t", id);
        WAIT_FOR_STATE(tq->queue, id, REDRIVE_STATE_COMPLETED);
    }
    assert_int_equal(state_of(tq->queue, "0"), REDRIVE_STATE_RUNNING);
    WHOLE->refused_seq = 0;
    WAIT_FOR_STATE(tq->queue, "0", REDRIVE_STATE_COMPLETED);
    assert_int_equal(atomic_load(&gate.n_started), 17);
    worker_stop(&worker, LONG_MS);
}

static int run_until_open(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    (void)run;
    atomic_fetch_add(&gate->n_started, 1);
    wait_at(gate);
    return 0;
}

#define BEAT_MS 2000
#define ROUNDS  10

/* Holds a heartbeat for longer than it takes until the next is due, and tells how long after it the
 * next one comes. */
static int64_t time_next_beat(void)
{
    WHOLE->is_held = true;
    const int n = WHOLE->n_moves;
    WAIT_FOR(WHOLE->n_held == 1);
    pass_ms(BEAT_MS + 200);
    assert_true(WHOLE->n_moves <= n + 1);
    const int held = WHOLE->n_moves;
    const int64_t since_ms = clock_monotonic_ms();
    held_files_let_go();
    WAIT_FOR(WHOLE->n_moves > held);
    return clock_monotonic_ms() - since_ms;
}

/* One that was due meanwhile is not left out until the next one is due. On a busy machine it may be
 * late, but not each time. */
FIXTURE_TEST(a_heartbeat_that_was_kept_is_soon_followed_by_the_next)
{
    struct test_queue *tq = tq_new("sqlite:");
    struct gate gate = {0};
    struct worker worker;
    write_file(tq->config, "tasks: {t: {lease: 60s, heartbeat: 2s}}\n");
    tq->queue = tq_open(tq);
    WHOLE->kind = MOVE_EXTEND;
    WHOLE->is_held = true;
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", run_until_open, &gate, 1);
    worker_start(&worker, tq->queue);
    int64_t took_ms = INT64_MAX;
    for (int i = 0; i < ROUNDS && took_ms > BEAT_MS / 2; i++)
        took_ms = time_next_beat();
    assert_in_range(took_ms, 0, BEAT_MS / 2);
    atomic_store(&gate.is_open, true);
    worker_stop(&worker, LONG_MS);
    tq_free(tq);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

/* A queue whose task has this lease, and one job. */
static struct test_queue *tq_with_lease(const char *yaml)
{
    struct test_queue *tq = tq_new("sqlite:");
    write_file(tq->config, yaml);
    tq->queue = tq_open(tq);
    WHOLE->kind = MOVE_EXTEND;
    submit(tq->queue, "t", "a");
    return tq;
}

/* Some tries may be late on a busy machine, but not each. */
FIXTURE_TEST(a_failed_heartbeat_is_tried_again_before_the_next_is_due)
{
    struct test_queue *tq = tq_with_lease("tasks: {t: {lease: 600s, heartbeat: 3s}}\n");
    struct gate gate = {0};
    struct worker worker;
    WHOLE->is_refused = true;
    tq_handle(tq->queue, "t", run_until_open, &gate, 1);
    int64_t shortest_ms = INT64_MAX;
    worker_start(&worker, tq->queue);
    WAIT_FOR(WHOLE->n_moves >= 1);
    for (int n = 2; n <= 4; n++) {
        const int64_t since_ms = clock_monotonic_ms();
        WAIT_FOR(WHOLE->n_moves >= n);
        const int64_t ms = clock_monotonic_ms() - since_ms;
        shortest_ms = ms < shortest_ms ? ms : shortest_ms;
    }
    assert_in_range(shortest_ms, 0, 1500);
    assert_true(atomic_load(&WHOLE->n_moves) < 50);
    WHOLE->is_refused = false;
    atomic_store(&gate.is_open, true);
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_COMPLETED);
    assert_int_equal(atomic_load(&gate.n_started), 1);
    worker_stop(&worker, LONG_MS);
    tq_free(tq);
}

/* Returns when it is told to, the first time. */
static int return_if_told(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    if (atomic_fetch_add(&gate->n_started, 1) > 0)
        return 0;
    WAIT_FOR(redrive_task_run_cancelled(run));
    atomic_fetch_add(&gate->n_returned, 1);
    return -ECANCELED;
}

/* The failure of a function that was told is none of the job's. */
FIXTURE_TEST(a_function_is_told_when_its_lease_is_over_while_the_store_hangs)
{
    struct test_queue *tq =
        tq_with_lease("tasks: {t: {lease: 1s, heartbeat: 300ms, retry: {strategy: "
                      "immediate, max_attempts: 2}}}\n");
    struct gate gate = {0};
    struct worker worker;
    WHOLE->is_held = true;
    tq_handle(tq->queue, "t", return_if_told, &gate, 2);
    worker_start(&worker, tq->queue);
    WAIT_FOR(gate.n_returned >= 1);
    assert_int_equal(atomic_load(&WHOLE->n_held), 1);
    assert_int_equal(atomic_load(&gate.n_started), 1);
    held_files_let_go();
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_COMPLETED);
    assert_int_equal(atomic_load(&gate.n_started), 2);
    worker_stop(&worker, LONG_MS);
    tq_free(tq);
}

/* The first one stays whatever it is told, until the gate is open. */
static int stay(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    const bool is_first = atomic_fetch_add(&gate->n_started, 1) == 0;
    WAIT_FOR(!is_first || redrive_task_run_cancelled(run));
    wait_at(gate);
    atomic_fetch_add(&gate->n_returned, 1);
    return 0;
}

/* The lease is lost since no heartbeat gets through; other transactions do. */
FIXTURE_TEST(no_attempt_starts_while_an_earlier_one_runs)
{
    struct test_queue *tq =
        tq_with_lease("tasks: {t: {lease: 1s, heartbeat: 300ms, retry: {strategy: "
                      "immediate, max_attempts: 5}}}\n");
    struct gate gate = {0};
    struct worker worker;
    struct redrive_job_status job = {0};
    WHOLE->is_refused = true;
    tq_handle(tq->queue, "t", stay, &gate, 2);
    worker_start(&worker, tq->queue);
    WAIT_FOR(gate.n_started >= 1);
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_SCHEDULED); /* its claim was put off */
    assert_int_equal(atomic_load(&gate.n_started), 1);
    WHOLE->is_refused = false;
    atomic_store(&gate.is_open, true);
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_COMPLETED);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&gate.n_started), 2);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.attempts, 2);
    redrive_queue_job_release(&job);
    tq_free(tq);
}

/* The settlement of the first is held up; meanwhile the second returns. */
static int take_turns(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    const int number = atomic_fetch_add(&gate->n_started, 1);
    (void)run;
    if (number == 0)
        WAIT_FOR(gate->n_started >= 2);
    else if (number == 1)
        wait_at(gate);
    else if (number == 3)
        gate->n_apart = n_apart;
    atomic_fetch_add(&gate->n_returned, 1);
    return 0;
}

/* Two transactions for a job and not one would halve what such a task can do. */
FIXTURE_TEST(jobs_under_a_limit_are_settled_together_with_the_next_claim)
{
    struct test_queue *tq = tq_new("sqlite:");
    struct gate gate = {0};
    struct worker worker;
    write_file(tq->config, "tasks: {t: {limits: {concurrency: 10}}}\n");
    tq->queue = tq_open(tq);
    WHOLE->is_held = true;
    for (int i = 0; i < 4; i++)
        submit(tq->queue, "t", NULL);
    tq_handle(tq->queue, "t", take_turns, &gate, 2);
    worker_start(&worker, tq->queue);
    WAIT_FOR(WHOLE->n_held >= 1);
    atomic_store(&gate.is_open, true);
    WAIT_FOR(gate.n_returned >= 2);
    WAIT_FOR_REST(); /* its thread sleeps */
    held_files_let_go();
    WAIT_FOR(gate.n_returned >= 4);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(gate.n_apart, 0);
    tq_free(tq);
}
