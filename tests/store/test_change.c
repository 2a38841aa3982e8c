#include "store_for_test.h"

#include "dump.h"

#define LIVE                                                                              \
    (STATE_BIT(SCHEDULED) | STATE_BIT(RETRYING) | STATE_BIT(QUEUED) | STATE_BIT(PARKED) | \
     STATE_BIT(RUNNING) | STATE_BIT(WAITING))

/* From which states, and to which, each change goes. */
static const struct {
    struct change_move move;
    uint32_t from;
    int to; /* -1: it stays */
} CHANGES[] = {
    {{.kind = MOVE_CANCEL}, LIVE, REDRIVE_STATE_CANCELLED},
    {{.kind = MOVE_RUN_NOW}, STATE_BIT(SCHEDULED) | STATE_BIT(RETRYING), REDRIVE_STATE_QUEUED},
    {{.kind = MOVE_REDRIVE}, STATE_BIT(DEAD_LETTER) | STATE_BIT(FAILED), REDRIVE_STATE_QUEUED},
    {{.kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER, .reason = REDRIVE_REASON_DEADLINE},
     LIVE & ~STATE_BIT(RUNNING),
     REDRIVE_STATE_DEAD_LETTER},
    {{.kind = MOVE_END, .to = REDRIVE_STATE_FAILED, .reason = REDRIVE_REASON_BREAKER_OPEN},
     LIVE & ~STATE_BIT(RUNNING),
     REDRIVE_STATE_FAILED},
    {{.kind = MOVE_EDIT, .payload = STR("[2]")}, STATE_BIT(DEAD_LETTER), -1},
    {{.kind = MOVE_SKIP, .reason = REDRIVE_REASON_SKIPPED},
     STATE_BIT(WAITING),
     REDRIVE_STATE_CANCELLED},
    {{.kind = MOVE_REMOVE},
     STATE_BIT(COMPLETED) | STATE_BIT(FAILED) | STATE_BIT(DEAD_LETTER) | STATE_BIT(CANCELLED),
     -1},
};

static void check_change(struct test_store *ts, size_t i, enum redrive_state from)
{
    struct buf before, after;
    buf_init(&before, 1 << 20);
    buf_init(&after, 1 << 20);
    struct change_move move = CHANGES[i].move;
    move.seq = ts_put_in(ts, from, NULL);
    dump_store(ts->store, &before);
    struct move_result r = ts_change(ts, &move);
    dump_store(ts->store, &after);
    if (CHANGES[i].from >> from & 1) {
        check_move(r, 0, CHANGES[i].to < 0 ? from : (enum redrive_state)CHANGES[i].to);
        assert_string_not_equal(buf_cstr(&before), buf_cstr(&after));
        if (move.kind == MOVE_REMOVE)
            assert_null(ts_job(ts, move.seq));
        else
            assert_int_equal(ts_state(ts, move.seq), r.state);
    } else {
        check_move(r, REDRIVE_E_STATE, from);
        assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    }
    buf_release(&before);
    buf_release(&after);
}

/* Invariants 3 and 9: of what has ended, only dead letters and failed jobs come back. */
STORE_TEST(every_change_is_made_from_its_states_and_from_no_others)
{
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++)
        for (int from = 0; from < REDRIVE_STATE_COUNT; from++)
            check_change(ts, i, (enum redrive_state)from);
}

STORE_TEST(an_end_must_be_an_end_without_success)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    for (int to = 0; to < REDRIVE_STATE_COUNT; to++) {
        if (to == REDRIVE_STATE_DEAD_LETTER || to == REDRIVE_STATE_FAILED)
            continue;
        struct move_result r =
            CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = (enum redrive_state)to);
        check_move(r, REDRIVE_E_INVALID, REDRIVE_STATE_QUEUED);
        assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_QUEUED);
    }
}

STORE_TEST(an_end_with_an_error_leaves_a_row_without_a_start)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    ts->now_ms += 10;
    check_move(
        CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
               .reason = REDRIVE_REASON_NOT_RETRIABLE,
               .error = {REDRIVE_CLASS_VALIDATION, STR("Missing"), STR("no payload"), STR(""), 7},
               .fingerprint = 99),
        0, REDRIVE_STATE_DEAD_LETTER);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->attempts, 0);
    assert_int_equal(s->started_ms, 0);
    assert_int_equal(s->finished_ms, ts->now_ms);
    assert_int_equal(s->reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(s->error.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(s->fingerprint, 99);
    check_str(s->error.type, "Missing");
    check_str(s->error.message, "no payload");
    const struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 1);
    assert_int_equal(h->attempts[0].number, 0);
    assert_int_equal(h->attempts[0].started_ms, 0);
    assert_int_equal(h->attempts[0].ended_ms, ts->now_ms);
    assert_int_equal(h->attempts[0].outcome, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(h->attempts[0].error.class_, REDRIVE_CLASS_VALIDATION);
    check_str(h->attempts[0].error.message, "no payload");
}

STORE_TEST(an_end_without_an_error_keeps_the_last_one)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    struct decision d = decision_retrying(9000);
    const struct settle_move move = {
        .seq = seq,
        .token = ts_start(ts, seq),
        .decision = &d,
        .error = {REDRIVE_CLASS_NETWORK, STR("Refused"), STR("refused"), STR(""), 0}};
    assert_int_equal(ts_settle_with(ts, &move).code, 0);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER), 0,
               REDRIVE_STATE_DEAD_LETTER);
    check_str(ts_job(ts, seq)->status.error.message, "refused");
    assert_int_equal(ts_history(ts, seq)->n, 1);
}

STORE_TEST(a_cancel_ends_a_lease)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    uint64_t token = ts_start(ts, seq);
    ts->now_ms += 10;
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->token, 0);
    assert_int_equal(s->lease_until_ms, 0);
    assert_int_equal(s->finished_ms, ts->now_ms);
    check_move(ts_settle(ts, seq, token, decision_completed()), REDRIVE_E_STATE,
               REDRIVE_STATE_CANCELLED);
    check_move(ts_extend(ts, seq, token, INT64_MAX), REDRIVE_E_STATE, REDRIVE_STATE_CANCELLED);
}

STORE_TEST(run_now_moves_the_time)
{
    int64_t seq = PUT(ts, .process_after_ms = ts->now_ms + 60000);
    ts->now_ms += 5;
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_RUN_NOW), 0, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_job(ts, seq)->status.process_after_ms, ts->now_ms);
    check_seqs(READY(ts, .tenant = STR("acme")), seq);
}

STORE_TEST(a_redrive_starts_anew)
{
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    ts->now_ms += 1000;
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->epoch, 1);
    assert_int_equal(s->attempts, 0);
    assert_int_equal(s->crashes, 0);
    assert_int_equal(s->reason, REDRIVE_REASON_NONE);
    assert_int_equal(s->process_after_ms, ts->now_ms);
    assert_int_equal(s->first_started_ms, 0);
    assert_int_equal(s->finished_ms, 0);
    assert_int_equal(s->paused_ms, 0);
    assert_int_equal(s->created_ms, TS_START_MS);
    check_str(s->error.message, "no answer");
    assert_int_equal(ts_history(ts, seq)->n, 1);
    ts_start(ts, seq);
    assert_int_equal(ts_job(ts, seq)->status.attempts, 1);
    assert_int_equal(ts_job(ts, seq)->status.first_started_ms, ts->now_ms);
}

/* Invariant 4. */
STORE_TEST(a_redrive_is_refused_while_a_live_job_holds_its_key)
{
    const struct job_spec spec = {.unique_key = STR("k")};
    int64_t dead = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &spec);
    int64_t failed = ts_put_in(ts, REDRIVE_STATE_FAILED, &spec);
    int64_t live = ts_put_in(ts, REDRIVE_STATE_RETRYING, &spec);
    ts_put_in(ts, REDRIVE_STATE_QUEUED,
              &(struct job_spec){.tenant = STR("other"), .unique_key = STR("k")});
    check_move(CHANGE(ts, .seq = dead, .kind = MOVE_REDRIVE), REDRIVE_E_EXISTS,
               REDRIVE_STATE_DEAD_LETTER);
    check_move(CHANGE(ts, .seq = failed, .kind = MOVE_REDRIVE), REDRIVE_E_EXISTS,
               REDRIVE_STATE_FAILED);
    CHANGE(ts, .seq = live, .kind = MOVE_CANCEL);
    check_move(CHANGE(ts, .seq = dead, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    check_move(CHANGE(ts, .seq = failed, .kind = MOVE_REDRIVE), REDRIVE_E_EXISTS,
               REDRIVE_STATE_FAILED);
}

STORE_TEST(a_job_that_is_unique_for_ever_can_be_redriven)
{
    const struct job_spec spec = {.unique_key = STR("k"), .unique_forever = true};
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &spec);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
}

STORE_TEST(an_edit_replaces_the_payload_and_nothing_else)
{
    int64_t seq =
        ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &(struct job_spec){.payload = STR("{\"a\":1}")});
    ts->now_ms += 3;
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_EDIT, .payload = STR("{\"a\":2}")), 0,
               REDRIVE_STATE_DEAD_LETTER);
    const struct job *job = ts_job(ts, seq);
    check_str(job->spec.payload, "{\"a\":2}");
    assert_int_equal(job->status.finished_ms, TS_START_MS);
    assert_int_equal(job->status.updated_ms, ts->now_ms);
    assert_int_equal(job->status.epoch, 0);
}

STORE_TEST(a_removed_job_takes_its_history_along)
{
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL);
    assert_int_equal(ts_history(ts, seq)->n, 1);
    CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE);
    assert_int_equal(ts_history(ts, seq)->n, 0);
    assert_int_equal(CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE).code, REDRIVE_E_NOT_FOUND);
}

STORE_TEST(a_batch_sees_its_own_changes)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    const struct change_move moves[] = {
        {.seq = seq, .kind = MOVE_CANCEL},
        {.seq = seq, .kind = MOVE_CANCEL},
        {.seq = seq, .kind = MOVE_REMOVE},
        {.seq = seq, .kind = MOVE_REMOVE},
    };
    struct move_result r[4];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->move(ts->store, CHANGES(moves, 4), r, NULL), 0);
    ts_commit(ts);
    check_move(r[0], 0, REDRIVE_STATE_CANCELLED);
    check_move(r[1], REDRIVE_E_STATE, REDRIVE_STATE_CANCELLED);
    check_move(r[2], 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(r[3].code, REDRIVE_E_NOT_FOUND);
}

STORE_TEST(a_sweep_takes_what_ended_before_a_time_the_earliest_first)
{
    int64_t t = ts->now_ms, seqs[4];
    static const int64_t ENDED[] = {30, 10, 20, 20};
    for (int i = 0; i < 4; i++) {
        ts->now_ms = t + ENDED[i];
        seqs[i] = ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    }
    ts->now_ms = t + 100;
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), t + 10, 10), 0);
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), t + 30, 2), 2);
    check_seqs(LIST(ts, .order = ORDER_OLDEST), seqs[0], seqs[3]);
    assert_int_equal(ts_sweep(ts, STATE_BIT(COMPLETED), t + 30, 10), 1);
    check_seqs(LIST(ts, .order = ORDER_OLDEST), seqs[0]);
}

STORE_TEST(a_sweep_takes_only_the_states_it_is_told)
{
    int64_t seqs[REDRIVE_STATE_COUNT];
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        seqs[s] = ts_put_in(ts, (enum redrive_state)s, NULL);
    assert_int_equal(ts_sweep(ts, STATE_BIT(DEAD_LETTER), INT64_MAX, 100), 1);
    assert_null(ts_job(ts, seqs[REDRIVE_STATE_DEAD_LETTER]));
    assert_int_equal(ts_history(ts, seqs[REDRIVE_STATE_DEAD_LETTER])->n, 0);
    assert_int_equal(ts_sweep(ts, LIVE, INT64_MAX, 100), 0);
    assert_int_equal(ts_sweep(ts, UINT32_MAX, INT64_MAX, 100), 3);
    for (int s = 0; s < REDRIVE_STATE_COMPLETED; s++)
        assert_int_equal(ts_state(ts, seqs[s]), s);
}

STORE_TEST(finished_jobs_are_given_by_their_end_from_a_place_on)
{
    int64_t t = ts->now_ms, seqs[6];
    for (int i = 0; i < 6; i++) {
        ts->now_ms = t + i / 2; /* two at a time */
        seqs[i] = ts_put_in(ts, i % 3 ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_FAILED, NULL);
    }
    ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL);
    struct scan scan = {.index = SCAN_FINISHED,
                        .limit = 3,
                        .states = STATE_BIT(DEAD_LETTER) | STATE_BIT(FAILED) | STATE_BIT(QUEUED),
                        .before_ms = t + 2};
    ts_begin(ts);
    check_seqs(ts_scan(ts, &scan), seqs[0], seqs[1], seqs[2]);
    assert_true(ts->page.more);
    assert_int_equal(scan.after.ms, t + 1);
    assert_int_equal(scan.after.seq, seqs[2]);
    check_seqs(ts_scan(ts, &scan), seqs[3]);
    assert_false(ts->page.more);
    assert_int_equal(ts_scan(ts, &scan)->n, 0);
    assert_int_equal(scan.after.seq, seqs[3]);
    scan.before_ms = t + 3;
    check_seqs(ts_scan(ts, &scan), seqs[4], seqs[5]);
    ts_commit(ts);
}

/* Enough to tell how long a job is kept; no payload is moved. */
STORE_TEST(finished_jobs_are_told_with_end_task_and_policy)
{
    const struct job_spec plain = {.task = STR("mine")},
                          own = {.task = STR("mine"), .policy = STR("{\"max_retries\":1}")};
    int64_t t = ts->now_ms, seqs[2];
    seqs[0] = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &plain);
    ts->now_ms = t + 1;
    seqs[1] = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, &own);
    struct scan scan = {
        .index = SCAN_FINISHED, .limit = 10, .states = STATE_BIT(DEAD_LETTER), .before_ms = t + 10};
    check_seqs(ts_scan(ts, &scan), seqs[0], seqs[1]);
    const struct job *job = &ts->page.jobs[1];
    assert_int_equal(ts->page.jobs[0].spec.policy.len, 0);
    assert_int_equal(job->status.finished_ms, t + 1);
    assert_int_equal(job->status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_true(str_is(job->spec.task, "mine"));
    assert_true(str_is(job->spec.tenant, "acme"));
    assert_true(str_is(job->spec.queue, "main"));
    assert_true(str_is(job->spec.policy, "{\"max_retries\":1}"));
}

/* A job that has come back and ended anew since a scan is kept for as long as any other. */
STORE_TEST(a_job_is_removed_only_with_the_end_that_was_seen)
{
    const int64_t seq = ts_put_in(ts, REDRIVE_STATE_DEAD_LETTER, NULL), end_ms = ts->now_ms;
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE, .finished_ms = end_ms - 1),
               REDRIVE_E_STATE, REDRIVE_STATE_DEAD_LETTER);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE, .finished_ms = end_ms), 0,
               REDRIVE_STATE_DEAD_LETTER);
    assert_null(ts_job(ts, seq));
}
