#include "core/state.h"
#include "store_for_test.h"

#include <stdio.h>

STORE_TEST(a_job_is_kept_as_it_was_given)
{
    const char payload[] = "{\"a\": [1,  2],\t\"b\":\"\xC3\xA4\\u0000\"}";
    int64_t seq =
        PUT(ts, .tenant = STR("t1"), .id = STR("x-1"), .task = STR("resize"), .queue = STR("slow"),
            .payload = str_of(payload), .user = STR("u"), .project = STR("p"), .service = STR("s"),
            .unique_key = STR("key"), .unique_forever = true, .policy = STR("{\"max_retries\":1}"),
            .breaker_key = STR("bk"), .limit_key = STR("lk"), .priority = -100, .max_attempts = 9,
            .deadline_ms = TS_START_MS + 5);
    const struct job *job = ts_job(ts, seq);
    assert_non_null(job);
    check_str(job->spec.tenant, "t1");
    check_str(job->spec.id, "x-1");
    check_str(job->spec.task, "resize");
    check_str(job->spec.queue, "slow");
    check_str(job->spec.payload, payload);
    check_str(job->spec.user, "u");
    check_str(job->spec.project, "p");
    check_str(job->spec.service, "s");
    check_str(job->spec.unique_key, "key");
    assert_true(job->spec.unique_forever);
    check_str(job->spec.policy, "{\"max_retries\":1}");
    check_str(job->spec.breaker_key, "bk");
    check_str(job->spec.limit_key, "lk");
    assert_int_equal(job->spec.priority, -100);
    assert_int_equal(job->spec.max_attempts, 9);
    assert_int_equal(job->spec.deadline_ms, TS_START_MS + 5);
}

STORE_TEST(a_payload_may_hold_any_byte)
{
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    int64_t seq = PUT(ts, .payload = {bytes, sizeof bytes});
    const struct job *job = ts_job(ts, seq);
    assert_int_equal(job->spec.payload.len, sizeof bytes);
    assert_memory_equal(job->spec.payload.ptr, bytes, sizeof bytes);
}

STORE_TEST(a_new_job_is_queued_and_has_no_past)
{
    struct submit_result r = TRY_PUT(ts, .id = STR("x"));
    assert_int_equal(r.code, 0);
    assert_true(r.seq > 0);
    assert_int_equal(r.state, REDRIVE_STATE_QUEUED);
    check_str(r.id, "x");
    const struct job_status *s = &ts_job(ts, r.seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_QUEUED);
    assert_int_equal(s->reason, REDRIVE_REASON_NONE);
    assert_int_equal(s->created_ms, ts->now_ms);
    assert_int_equal(s->updated_ms, ts->now_ms);
    assert_int_equal(s->process_after_ms, ts->now_ms);
    assert_int_equal(s->attempts + s->epoch + s->deferrals + s->crashes, 0);
    assert_int_equal(s->started_ms + s->first_started_ms + s->finished_ms + s->paused_ms, 0);
    assert_int_equal(s->token, 0);
    assert_int_equal(s->error.class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(ts_history(ts, r.seq)->n, 0);
}

STORE_TEST(a_later_time_makes_it_scheduled)
{
    struct submit_result later = TRY_PUT(ts, .process_after_ms = ts->now_ms + 1);
    struct submit_result now = TRY_PUT(ts, .process_after_ms = ts->now_ms);
    assert_int_equal(later.state, REDRIVE_STATE_SCHEDULED);
    assert_int_equal(now.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_job(ts, later.seq)->status.process_after_ms, ts->now_ms + 1);
    assert_int_equal(ts_job(ts, now.seq)->status.process_after_ms, ts->now_ms);
}

STORE_TEST(order_of_submission_is_order_of_seq)
{
    struct job_spec specs[20] = {0};
    struct submit_result r[20];
    char ids[20][8];
    for (int i = 0; i < 20; i++) {
        ids[i][0] = (char)('z' - i);
        ids[i][1] = '\0';
        specs[i] = (struct job_spec){
            .tenant = STR("acme"), .id = str_of(ids[i]), .task = STR("t"), .queue = STR("q")};
    }
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->submit(ts->store, specs, 20, r, &ts->arena, NULL), 0);
    ts_commit(ts);
    for (int i = 1; i < 20; i++)
        assert_true(r[i].seq > r[i - 1].seq);
    assert_true(PUT(ts, .id = STR("after")) > r[19].seq);
}

STORE_TEST(a_seq_is_never_given_twice)
{
    int64_t last = ts_put_in(ts, REDRIVE_STATE_CANCELLED, NULL);
    check_move(CHANGE(ts, .seq = last, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
    assert_null(ts_job(ts, last));
    assert_true(PUT(ts, .id = STR("x")) > last);
}

STORE_TEST(a_second_submit_of_an_id_gives_the_first_job)
{
    int64_t first = PUT(ts, .id = STR("x"), .payload = STR("1"));
    ts_start(ts, first);
    struct submit_result again = TRY_PUT(ts, .id = STR("x"), .payload = STR("2"));
    assert_int_equal(again.code, REDRIVE_E_EXISTS);
    assert_int_equal(again.seq, first);
    assert_int_equal(again.state, REDRIVE_STATE_RUNNING);
    check_str(again.id, "x");
    check_str(ts_job(ts, first)->spec.payload, "1");
    check_seqs(LIST(ts, .id = STR("x")), first);
}

STORE_TEST(an_id_is_held_until_its_job_is_gone)
{
    int64_t first = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &(struct job_spec){.id = STR("x")});
    assert_int_equal(TRY_PUT(ts, .id = STR("x")).code, REDRIVE_E_EXISTS);
    CHANGE(ts, .seq = first, .kind = MOVE_REMOVE);
    assert_int_equal(TRY_PUT(ts, .id = STR("x")).code, 0);
}

STORE_TEST(tenants_do_not_share_ids_or_keys)
{
    PUT(ts, .tenant = STR("a"), .id = STR("x"), .unique_key = STR("k"));
    PUT(ts, .tenant = STR("b"), .id = STR("x"), .unique_key = STR("k"));
    PUT(ts, .tenant = STR("c"), .id = STR("y"), .unique_key = STR("k"), .unique_forever = true);
    assert_int_equal(TRY_PUT(ts, .tenant = STR("b"), .id = STR("x")).code, REDRIVE_E_EXISTS);
}

STORE_TEST(ids_within_one_batch_count_too)
{
    const struct job_spec specs[] = {
        {.tenant = STR("acme"), .id = STR("x"), .queue = STR("q"), .task = STR("t")},
        {.tenant = STR("acme"), .id = STR("x"), .queue = STR("q"), .task = STR("t")},
        {.tenant = STR("acme"),
         .id = STR("y"),
         .queue = STR("q"),
         .task = STR("t"),
         .unique_key = STR("k")},
        {.tenant = STR("acme"),
         .id = STR("z"),
         .queue = STR("q"),
         .task = STR("t"),
         .unique_key = STR("k")},
    };
    struct submit_result r[4];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->submit(ts->store, specs, 4, r, &ts->arena, NULL), 0);
    ts_commit(ts);
    assert_int_equal(r[0].code, 0);
    assert_int_equal(r[1].code, REDRIVE_E_EXISTS);
    assert_int_equal(r[1].seq, r[0].seq);
    assert_int_equal(r[2].code, 0);
    assert_int_equal(r[3].code, REDRIVE_E_EXISTS);
    check_str(r[3].id, "y");
}

STORE_TEST(of_equal_ids_in_one_batch_the_first_is_taken)
{
    const struct job_spec specs[] = {
        {.tenant = STR("acme"),
         .id = STR("z"),
         .queue = STR("q"),
         .task = STR("A"),
         .payload = STR("1")},
        {.tenant = STR("acme"), .id = STR("a"), .queue = STR("q"), .task = STR("A")},
        {.tenant = STR("acme"),
         .id = STR("z"),
         .queue = STR("q"),
         .task = STR("B"),
         .payload = STR("2")},
    };
    struct submit_result r[3];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->submit(ts->store, specs, 3, r, &ts->arena, NULL), 0);
    ts_commit(ts);
    assert_int_equal(r[0].code, 0);
    assert_int_equal(r[1].code, 0);
    assert_int_equal(r[2].code, REDRIVE_E_EXISTS);
    assert_int_equal(r[2].seq, r[0].seq);
    check_str(r[2].id, "z");
    const struct job *job = ts_job(ts, r[0].seq);
    check_str(job->spec.payload, "1");
    check_str(job->spec.task, "A");
}

/* Invariant 4. */
STORE_TEST(a_key_is_held_in_every_live_state_and_in_no_other)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        char key[8] = {'k', (char)('0' + s), '\0'};
        const struct job_spec spec = {.unique_key = str_of(key)};
        int64_t first = ts_put_in(ts, (enum redrive_state)s, &spec);
        struct submit_result again = ts_try_put(ts, &spec);
        if (!state_has_ended((enum redrive_state)s)) {
            assert_int_equal(again.code, REDRIVE_E_EXISTS);
            assert_int_equal(again.seq, first);
            assert_int_equal(again.state, s);
        } else {
            assert_int_equal(again.code, 0);
            assert_true(again.seq > first);
        }
    }
}

STORE_TEST(jobs_without_a_key_do_not_meet)
{
    PUT(ts, .unique_key = STR(""), .unique_forever = true);
    PUT(ts, .unique_key = STR(""));
    PUT(ts, .unique_forever = true);
    PUT(ts, .unique_forever = false);
}

STORE_TEST(an_id_is_asked_before_a_key)
{
    int64_t a = PUT(ts, .id = STR("a"), .unique_key = STR("ka"));
    PUT(ts, .id = STR("b"), .unique_key = STR("kb"));
    struct submit_result r = TRY_PUT(ts, .id = STR("a"), .unique_key = STR("kb"));
    assert_int_equal(r.code, REDRIVE_E_EXISTS);
    assert_int_equal(r.seq, a);
}

STORE_TEST(a_key_for_ever_is_held_after_the_end)
{
    const struct job_spec spec = {.unique_key = STR("k"), .unique_forever = true};
    int64_t first = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &spec);
    struct submit_result forever = ts_try_put(ts, &spec);
    struct submit_result once = TRY_PUT(ts, .unique_key = STR("k"));
    assert_int_equal(forever.code, REDRIVE_E_EXISTS);
    assert_int_equal(forever.seq, first);
    assert_int_equal(once.code, REDRIVE_E_EXISTS);
    assert_int_equal(once.seq, first);
    assert_int_equal(once.state, REDRIVE_STATE_COMPLETED);
}

/* Operations that are committed together see each other: the removal holds the key as well. */
STORE_TEST(a_key_for_ever_is_held_by_a_removal_of_the_same_transaction)
{
    const struct job_spec spec = {.id = STR("a"), .unique_key = STR("k"), .unique_forever = true};
    int64_t first = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &spec);
    ts_begin(ts);
    assert_int_equal(CHANGE(ts, .seq = first, .kind = MOVE_REMOVE).code, 0);
    struct submit_result r = TRY_PUT(ts, .id = STR("b"), .unique_key = STR("k"));
    ts_commit(ts);
    assert_int_equal(r.code, REDRIVE_E_EXISTS);
    assert_int_equal(r.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(r.seq, first);
}

STORE_TEST(a_key_for_ever_is_refused_if_any_job_holds_it)
{
    const struct job_spec spec = {.unique_key = STR("k")};
    int64_t first = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &spec);
    ts_put_in(ts, REDRIVE_STATE_QUEUED, &spec);
    struct submit_result r = TRY_PUT(ts, .unique_key = STR("k"), .unique_forever = true);
    assert_int_equal(r.code, REDRIVE_E_EXISTS);
    assert_int_equal(r.seq, first);
}

STORE_TEST(a_key_for_ever_outlives_its_job)
{
    const struct job_spec removed = {
        .id = STR("r"), .unique_key = STR("kr"), .unique_forever = true};
    const struct job_spec swept = {.id = STR("s"), .unique_key = STR("ks"), .unique_forever = true};
    int64_t r = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &removed);
    CHANGE(ts, .seq = r, .kind = MOVE_REMOVE);
    int64_t s = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &swept);
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), ts->now_ms + 1, 10), 1);

    struct submit_result again = TRY_PUT(ts, .id = STR("r2"), .unique_key = STR("kr"));
    assert_int_equal(again.code, REDRIVE_E_EXISTS);
    assert_int_equal(again.seq, r);
    assert_int_equal(again.state, REDRIVE_STATE_DEAD_LETTER);
    check_str(again.id, "r");
    again = TRY_PUT(ts, .id = STR("s2"), .unique_key = STR("ks"), .unique_forever = true);
    assert_int_equal(again.code, REDRIVE_E_EXISTS);
    assert_int_equal(again.seq, s);
    assert_int_equal(again.state, REDRIVE_STATE_COMPLETED);
    check_str(again.id, "s");
}

STORE_TEST(a_key_that_is_not_for_ever_goes_with_its_job)
{
    const struct job_spec spec = {.unique_key = STR("k")};
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &spec);
    CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE);
    assert_int_equal(TRY_PUT(ts, .unique_key = STR("k"), .unique_forever = true).code, 0);
}

STORE_TEST(keys_that_are_held_are_known_without_a_transaction)
{
    const struct job_spec gone = {.id = STR("g"), .unique_key = STR("kg"), .unique_forever = true};
    const struct job_spec ended = {.id = STR("e"), .unique_key = STR("ke")};
    const struct job_spec freed = {.id = STR("f"), .unique_key = STR("kf")};
    const struct str keys[] = {STR("kx"), STR("kg"), STR("ke"), STR("kl"),
                               STR("kf"), STR("kb"), STR("kl")};
    const bool expected[] = {false, true, true, true, false, false, true};
    bool held[7], many[STORE_PAGE_MAX + 1];
    struct str too_many[STORE_PAGE_MAX + 1] = {STR("kx")};
    CHANGE(ts, .seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &gone), .kind = MOVE_REMOVE);
    CHANGE(ts, .seq = ts_put_in(ts, REDRIVE_STATE_COMPLETED, &freed), .kind = MOVE_REMOVE);
    (void)ts_put_in(ts, REDRIVE_STATE_COMPLETED, &ended);
    PUT(ts, .id = STR("l"), .unique_key = STR("kl"));
    PUT(ts, .id = STR("b"), .unique_key = STR("kb"), .tenant = STR("zeta"));
    const struct store_ops *ops = store_ops(ts->store);
    assert_int_equal(ops->keys_held(ts->store, STR("acme"), keys, 7, held, NULL), 0);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(held[i], expected[i]);
    assert_int_equal(ops->keys_held(ts->store, STR("nowhere"), keys, 7, held, NULL), 0);
    for (size_t i = 0; i < 7; i++)
        assert_false(held[i]);
    assert_int_equal(
        ops->keys_held(ts->store, STR("acme"), too_many, STORE_PAGE_MAX + 1, many, NULL),
        REDRIVE_E_RANGE);
}

/* Stores may add several rows at once; each job still has an answer of its own. */
STORE_TEST(a_taken_id_anywhere_in_a_large_batch_refuses_only_itself)
{
    enum {
        N = 27
    };
    int64_t old = PUT(ts, .id = STR("old"));
    for (size_t taken = 0; taken < N; taken++) {
        struct job_spec specs[N];
        struct submit_result results[N] = {0};
        char ids[N][16];
        ts_begin(ts);
        for (size_t i = 0; i < N; i++) {
            snprintf(ids[i], sizeof ids[i], "%zu-%zu", taken, i);
            specs[i] = (struct job_spec){.tenant = STR("acme"),
                                         .queue = i % 2 ? STR("q") : STR("r"),
                                         .task = STR("t"),
                                         .id = str_of(ids[i]),
                                         .priority = (int32_t)i,
                                         .process_after_ms = i % 5 ? 0 : ts->now_ms + 1,
                                         .deadline_ms = i % 7 ? 0 : ts->now_ms + 9};
        }
        specs[taken].id = STR("old");
        specs[(taken + 4) % N].unique_key = str_of(ids[0]);
        size_t again = (taken + 9) % N, first = again ? again - 1 : N - 1;
        specs[again].id = specs[first].id;
        assert_int_equal(
            store_ops(ts->store)->submit(ts->store, specs, N, results, &ts->arena, NULL), 0);
        ts_commit(ts);
        for (size_t i = 0; i < N; i++) {
            const struct submit_result *r = &results[i];
            const bool is_second = i == (again > first ? again : first);
            assert_int_equal(r->code, i == taken || is_second ? REDRIVE_E_EXISTS : 0);
            if (i == taken)
                assert_int_equal(r->seq, old);
            if (is_second)
                assert_int_equal(r->seq, results[again > first ? first : again].seq);
            const struct job *job = ts_job(ts, r->seq);
            check_str(r->id, specs[i].id.ptr);
            check_str(job->spec.id, specs[i].id.ptr);
            assert_int_equal(r->state, job->status.state);
            if (r->code == 0)
                assert_int_equal(job->spec.priority, i);
        }
    }
    assert_int_equal(LIST(ts, .order = ORDER_OLDEST, .limit = 1000)->n, 1 + N * (N - 2));
}

STORE_TEST(an_empty_batch_is_nothing)
{
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->submit(ts->store, NULL, 0, NULL, &ts->arena, NULL), 0);
    ts_commit(ts);
    assert_int_equal(LIST(ts, .order = ORDER_OLDEST)->n, 0);
}
