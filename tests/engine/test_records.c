/* A thousand records, some without a payload, some flaky, some hopeless, in runs under a clock that
 * moves, until nothing waits. The test keeps its own book of what may start when. */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "base/rng.h"

#define N_RECORDS 1000
#define N_WORKERS 50

static const char CONFIG[] = "tasks:\n"
                             "  record:\n"
                             "    payload: required\n"
                             "    retry: {profile: records}\n"
                             "    breaker: {failure_threshold: 0, failure_rate: 0}\n";

struct book {
    struct test_engine te;
    struct rng rng;
    int64_t not_before_ms[N_RECORDS + 1]; /* by number of the job */
    unsigned starts[N_RECORDS + 1];
    bool ended[N_RECORDS + 1];
    unsigned submitted, dead_at_once, completed, dead;
};

/* Every tenth has none; of the others every seventh never works, and the rest do half the time. */
static void submit_all(struct book *b)
{
    static char keys[N_RECORDS][16], payloads[N_RECORDS][32];
    static struct job_spec specs[N_RECORDS];
    struct submit_op op;
    for (unsigned i = 0; i < N_RECORDS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "r%u", i);
        (void)snprintf(payloads[i], sizeof payloads[i], "{\"n\": %u}", i);
        specs[i] = (struct job_spec){
            .task = STR("record"),
            .unique_key = str_of(keys[i]),
            .unique_forever = true,
            .payload = i % 10 == 0 ? STR("null") : str_of(payloads[i]),
        };
    }
    assert_int_equal(submit_op_init(&op, b->te.engine, specs, N_RECORDS, NULL), 0);
    op.records = true;
    assert_int_equal(engine_apply_one(b->te.engine, &op.op, NULL), 0);
    for (unsigned i = 0; i < N_RECORDS; i++) {
        bool is_new = op.answers[i].code == 0 && !op.answers[i].existed;
        bool is_dead = is_new && op.answers[i].state == REDRIVE_STATE_DEAD_LETTER;
        b->submitted += is_new;
        b->dead_at_once += is_dead;
        if (is_dead)
            b->ended[op.answers[i].seq] = true;
    }
    submit_op_release(&op);
}

static void begin_record(struct book *b, const struct job *job, struct settlement *ret)
{
    size_t seq = (size_t)job->status.seq;
    assert_in_range(seq, 1, N_RECORDS);
    assert_false(b->ended[seq]);
    assert_true(b->te.now_ms >= b->not_before_ms[seq]);
    assert_int_equal(job->status.attempts, ++b->starts[seq]);
    bool works = seq % 7 != 0 && rng_below(&b->rng, 2) == 0;
    *ret = (struct settlement){
        .seq = job->status.seq,
        .token = job->status.token,
        .outcome = {.failure = {.status = works ? "SUCCESS" : "TRANSIENT_FAIL"}},
    };
}

static void end_record(struct book *b, const struct settlement *s)
{
    assert_int_equal(s->ret.code, 0);
    if (s->ret.state == REDRIVE_STATE_RETRYING) {
        /* 2, 4, 8, 16, 32 minutes, by the policy and not by what the engine says. */
        b->not_before_ms[s->seq] = b->te.now_ms + (INT64_C(60000) << b->starts[s->seq]);
        return;
    }
    b->ended[s->seq] = true;
    b->completed += s->ret.state == REDRIVE_STATE_COMPLETED;
    b->dead += s->ret.state == REDRIVE_STATE_DEAD_LETTER;
}

static void run_claimed(struct book *b)
{
    struct settlement s[N_WORKERS];
    struct settle_op op;
    size_t n = b->te.claim.n;
    for (size_t i = 0; i < n; i++)
        begin_record(b, &b->te.claim.jobs[i], &s[i]);
    settle_op_init(&op, s, n);
    assert_int_equal(engine_apply_one(b->te.engine, &op.op, NULL), 0);
    for (size_t i = 0; i < n; i++)
        end_record(b, &s[i]);
}

static size_t waiting(struct book *b)
{
    return te_count(&b->te, REDRIVE_STATE_QUEUED) + te_count(&b->te, REDRIVE_STATE_RETRYING) +
           te_count(&b->te, REDRIVE_STATE_RUNNING) + te_count(&b->te, REDRIVE_STATE_PARKED);
}

TEST(thousand_records_end_and_none_starts_early)
{
    static struct book b;
    unsigned runs = 0;
    te_init(&b.te, CONFIG);
    rng_seed(&b.rng, 42);
    submit_all(&b);
    assert_int_equal(b.submitted, N_RECORDS);
    assert_int_equal(b.dead_at_once, N_RECORDS / 10);
    b.dead = b.dead_at_once;
    for (; waiting(&b) > 0 && runs < 1000; runs++) {
        while (te_claim(&b.te, N_WORKERS) > 0)
            run_claimed(&b);
        /* Not in step with the delays, so that some come late and none early. */
        te_pass(&b.te, 47000);
    }
    assert_int_equal(waiting(&b), 0);
    assert_int_equal(b.completed + b.dead, b.submitted);
    assert_int_equal(te_count(&b.te, REDRIVE_STATE_COMPLETED), b.completed);
    assert_int_equal(te_count(&b.te, REDRIVE_STATE_DEAD_LETTER), b.dead);
    assert_int_equal(te_counter(&b.te, "jobs_completed", ""), b.completed);
    assert_int_equal(te_counter(&b.te, "jobs_dlq", ""), b.dead);
    assert_true(b.dead > b.dead_at_once + 100);
    for (size_t seq = 1; seq <= b.submitted; seq++)
        assert_in_range(b.starts[seq], (seq - 1) % 10 == 0 ? 0 : 1, (seq - 1) % 10 == 0 ? 0 : 6);
    /* A second batch of the same records adds nothing. */
    b.submitted = 0;
    submit_all(&b);
    assert_int_equal(b.submitted, 0);
    assert_int_equal(waiting(&b), 0);
    te_release(&b.te);
}
