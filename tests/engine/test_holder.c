/* What holds a parked job, and when it may go. */
#include "engine/engine_for_test.h"

#include "base/text/buf.h"
#include "engine/gates/view.h"

static const char YAML[] =
    "tasks:\n"
    "  call: {retry: {max_retries: 9}, breaker: {failure_threshold: 1, recovery_timeout: 30s,\n"
    "         recovery_jitter: 0, release_rate: 1}}\n"
    "  paced: {limits: {rate: 1/min, burst: 1}}\n"
    "  single: {limits: {concurrency: 1}}\n"
    "  fixed: {breaker: {key: shared-word}}\n"
    "  hosts: {breaker: {key: \"{payload.host}\"}}\n";

static struct gate_info gate_of(struct test_engine *te, int64_t seq)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct store *store = engine_store(te->engine);
    static struct job_page page; /* the key is the job's */
    struct gate_info gate;
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(gate_read(store, &page.jobs[0], te->now_ms, &gate, NULL), 0);
    return gate;
}

static void check_json(const struct gate_info *gate, const char *expected)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1 << 16);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    gate_write_json(&w, gate);
    json_end_object(&w);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

static void by_hand(struct test_engine *te, const char *key, enum breaker_verb verb)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, str_of(key), verb);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
}

ENGINE_TEST(a_breaker_tells_when_its_next_probe_goes, YAML)
{
    by_hand(te, "call", BREAKER_SIMULATE_FAILURE);
    const int64_t opened_ms = te->now_ms;
    int64_t seqs[3];
    for (int i = 0; i < 3; i++)
        seqs[i] = te_submit(te, "call", NULL);
    assert_false(gate_of(te, seqs[0]).is_held);
    assert_int_equal(te_claim(te, 3), 0);
    te->now_ms += 1000;
    struct gate_info gate = gate_of(te, seqs[0]);
    assert_true(gate.is_held && !gate.is_limit);
    assert_int_equal(gate.may_go_ms, opened_ms + 30000);
    check_json(&gate, "{\"held_by\":{\"kind\":\"breaker\",\"key\":\"call\",\"state\":\"open\","
                      "\"may_go_at\":\"2026-01-01T00:00:30.000Z\"}}");
    /* While the probe is out, the others wait for its answer. */
    te_pass(te, 29000);
    const struct job *probe = te_claim_one(te);
    const int64_t waits = probe->status.seq == seqs[2] ? seqs[1] : seqs[2];
    gate = gate_of(te, waits);
    assert_int_equal(gate.state, REDRIVE_BREAKER_HALF_OPEN);
    assert_int_equal(gate.may_go_ms, 0);
    /* After it has closed they are let go at its pace. */
    assert_int_equal(te_succeed(te, probe), 0);
    gate = gate_of(te, waits);
    assert_int_equal(gate.state, REDRIVE_BREAKER_CLOSED);
    assert_in_range(gate.may_go_ms, te->now_ms, te->now_ms + 1000);
    by_hand(te, "call", BREAKER_TRIP);
    gate = gate_of(te, waits);
    assert_int_equal(gate.may_go_ms, 0);
}

ENGINE_TEST(a_limit_tells_when_its_rate_has_room, YAML)
{
    te_submit(te, "paced", NULL);
    int64_t waits = te_submit(te, "paced", NULL);
    assert_int_equal(te_claim(te, 2), 1);
    struct gate_info gate = gate_of(te, waits);
    assert_true(gate.is_held && gate.is_limit);
    assert_int_equal(gate.may_go_ms, te->now_ms + 60000);
    assert_int_equal(gate.rate.count, 1);
    check_json(&gate,
               "{\"held_by\":{\"kind\":\"limit\",\"key\":\"limit:task:paced\",\"rate\":\"1/min\","
               "\"concurrency\":null,\"running\":1,\"may_go_at\":\"2026-01-01T00:01:00.000Z\"}}");
}

ENGINE_TEST(a_limit_on_concurrency_waits_for_a_job_to_end, YAML)
{
    te_submit(te, "single", NULL);
    int64_t waits = te_submit(te, "single", NULL);
    assert_int_equal(te_claim(te, 2), 1);
    struct gate_info gate = gate_of(te, waits);
    assert_int_equal(gate.may_go_ms, 0);
    assert_int_equal(gate.slots.used, 1);
}

/* ---- Breakers of tasks that no job has met --------------------------------------------------- */

ENGINE_TEST(declared_tasks_have_breakers_from_the_start, YAML)
{
    struct breaker_page page = {0};
    struct store *store = engine_store(te->engine);
    by_hand(te, "call", BREAKER_TRIP);
    assert_int_equal(breakers_read(store, (struct str){0}, te->now_ms, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(breakers_add_declared(te->config, (struct str){0}, te->now_ms, &page, NULL),
                     0);
    static const char *const KEYS[] = {"call", "paced", "shared-word", "single"};
    assert_int_equal(page.n, 4); /* not of `hosts`, whose jobs have many */
    for (size_t i = 0; i < 4; i++) {
        const struct redrive_breaker_status *s = &page.breakers[i].status;
        assert_true(str_is(page.breakers[i].key, KEYS[i]));
        assert_true(str_is(page.breakers[i].tenant, ENGINE_TENANT_DEFAULT));
        assert_int_equal(s->state, i == 0 ? REDRIVE_BREAKER_FORCED_OPEN : REDRIVE_BREAKER_CLOSED);
        assert_int_equal(s->failure_count, 0);
        assert_ptr_equal(breakers_find(&page, STR(ENGINE_TENANT_DEFAULT), str_of(KEYS[i])),
                         &page.breakers[i]);
    }
    breaker_page_release(&page);
}

ENGINE_TEST(a_failure_of_an_unknown_task_is_refused, YAML)
{
    static const struct {
        const char *key;
        int code;
    } CASES[] = {{"call", 0},
                 {"shared-word", 0},
                 {"nosuch", REDRIVE_E_NOT_FOUND},
                 {"hosts", REDRIVE_E_NOT_FOUND}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct breaker_op op;
        breaker_op_init(&op, (struct str){0}, str_of(CASES[i].key), BREAKER_SIMULATE_FAILURE);
        op.known_only = true;
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), CASES[i].code);
    }
}
