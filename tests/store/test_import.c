/* Jobs and keys that come from another store. Where they come from is the memory store or one of
 * the kind under test; what they must be is what that store tells of them. */
#include "dump.h"
#include "import_all.h"
#include "store_for_test.h"

#define DUMP_MAX ((size_t)1 << 22)

static void check_same_dump(struct store *expected, struct store *is)
{
    struct buf a, b;
    buf_init(&a, DUMP_MAX);
    buf_init(&b, DUMP_MAX);
    dump_store(expected, &a);
    dump_store(is, &b);
    assert_string_equal(buf_cstr(&a), buf_cstr(&b));
    buf_release(&a);
    buf_release(&b);
}

/* ---- A store with everything in it ----------------------------------------------------------- */

static void run_once(struct test_store *ts, int64_t seq, struct decision decision)
{
    ts->now_ms += 7;
    ts_promote(ts, 100, &(int64_t){0});
    const struct start_move start = {
        .seq = seq,
        .token = UINT64_C(0xF000000000000000) + ts->next_token++,
        .lease_until_ms = ts->now_ms + 1000,
        .worker = STR("w\xC3\xBC"),
        .permit = {.generation = 3, .probe = 2},
    };
    check_move(ts_try_start(ts, &start), 0, REDRIVE_STATE_RUNNING);
    ts->now_ms += 5;
    const bool failed = decision.class_ != REDRIVE_CLASS_SUCCESS;
    const struct settle_move move = {
        .seq = seq,
        .token = start.token,
        .decision = &decision,
        .error = {.class_ = decision.class_,
                  .type = failed ? STR("Timeout") : (struct str){0},
                  .message = failed ? STR("no answer after 30 s") : (struct str){0},
                  .stacktrace = failed ? STR("at a\n  at b") : (struct str){0},
                  .code = failed ? -504 : 0},
        .result = failed ? (struct str){0} : STR("{\"ok\": true}"),
        .fingerprint = failed ? UINT64_C(0xFEDCBA9876543210) : 0,
    };
    check_move(ts_settle_with(ts, &move), 0, decision.state);
}

static int64_t put_full(struct test_store *ts, const char *id)
{
    return PUT(ts, .id = str_of(id), .task = STR("resize"), .queue = STR("slow"),
               .payload = STR("{\"n\": 1,\n \"t\": \"\xC3\xBC\"}"), .user = STR("eve"),
               .project = STR("p1"), .service = STR("s3"), .unique_key = str_of(id),
               .policy = STR("{\"max_attempts\":9}"), .breaker_key = STR("smtp"),
               .limit_key = STR("tenant:acme"), .priority = -7, .max_attempts = 9,
               .deadline_ms = TS_START_MS + 3600000);
}

static void put_at_work(struct test_store *ts)
{
    int64_t seq = put_full(ts, "running");
    run_once(ts, seq, decision_retrying(0));
    ts_promote(ts, 100, &(int64_t){0});
    const struct start_move start = {.seq = seq,
                                     .token = UINT64_MAX,
                                     .lease_until_ms = ts->now_ms + 40000,
                                     .worker = STR("w2"),
                                     .permit = {.generation = UINT64_MAX, .probe = 5}};
    check_move(ts_try_start(ts, &start), 0, REDRIVE_STATE_RUNNING);
    ts_start(ts, PUT(ts, .id = STR("running-first")));

    seq = put_full(ts, "parked-by-limit");
    run_once(ts, seq, decision_retrying(0));
    ts_promote(ts, 100, &(int64_t){0});
    check_move(ts_park(ts, seq, false), 0, REDRIVE_STATE_PARKED);
    ts->now_ms += 900;
    check_move(ts_unpark(ts, seq), 0, REDRIVE_STATE_QUEUED);
    check_move(ts_park(ts, seq, true), 0, REDRIVE_STATE_PARKED);
    ts_put_in(ts, REDRIVE_STATE_PARKED, &(struct job_spec){.id = STR("parked-fresh")});

    seq = put_full(ts, "released");
    run_once(ts, seq, decision_released());
    run_once(ts, put_full(ts, "snoozed"), decision_snoozed(50000));
    struct decision crashed = decision_retrying(60000);
    crashed.crashes = 2;
    run_once(ts, put_full(ts, "crashed"), crashed);
}

static void put_ended(struct test_store *ts)
{
    run_once(ts, put_full(ts, "done"), decision_completed());
    int64_t seq = put_full(ts, "done-late");
    run_once(ts, seq, decision_retrying(0));
    run_once(ts, seq, decision_completed());
    run_once(ts, put_full(ts, "failed"),
             decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_NOT_RETRIABLE));
    seq = put_full(ts, "dead");
    run_once(ts, seq, decision_retrying(0));
    run_once(ts, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    seq = put_full(ts, "cancelled-at-work");
    ts_start(ts, seq);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    seq = put_full(ts, "too-late");
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
                      .reason = REDRIVE_REASON_DEADLINE,
                      .error = {.class_ = REDRIVE_CLASS_PERMANENT, .message = STR("deadline")},
                      .fingerprint = 9),
               0, REDRIVE_STATE_DEAD_LETTER);
    seq = PUT(ts, .id = STR("killed"));
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_FAILED,
                      .reason = REDRIVE_REASON_MANUAL),
               0, REDRIVE_STATE_FAILED);
}

/* Back from the dead: waiting, failed once more, and a success at once. */
static void put_redriven(struct test_store *ts)
{
    static const char *const IDS[] = {"again-queued", "again-retrying", "again-done"};
    for (int i = 0; i < 3; i++) {
        int64_t seq = put_full(ts, IDS[i]);
        run_once(ts, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_POISON));
        check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
        if (i == 1)
            run_once(ts, seq, decision_retrying(30000));
        if (i == 2)
            run_once(ts, seq, decision_completed());
    }
}

static void put_everything(struct test_store *ts)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        ts_put_in(ts, (enum redrive_state)s, NULL);
    put_full(ts, "fresh");
    PUT(ts, .id = STR("fresh"), .tenant = STR("zeta"), .unique_key = STR("fresh"));
    PUT(ts, .id = STR("forever"), .unique_key = STR("f1"), .unique_forever = true);
    ts_put_in(ts, REDRIVE_STATE_COMPLETED,
              &(struct job_spec){
                  .id = STR("forever-done"), .unique_key = STR("f2"), .unique_forever = true});
    put_at_work(ts);
    put_ended(ts);
    put_redriven(ts);
}

/* ---- Every field ----------------------------------------------------------------------------- */

static void check_taken_over(struct test_store *ts, const char *from_store)
{
    struct test_store from;
    ts_open(&from, from_store);
    put_everything(&from);
    import_all_anew(&from, ts);
    check_same_dump(from.store, ts->store);
    ts_close(&from);
}

STORE_TEST(jobs_of_another_kind_of_store_are_kept_whole)
{
    check_taken_over(ts, "memory");
}

STORE_TEST(jobs_of_the_same_kind_of_store_are_kept_whole)
{
    check_taken_over(ts, stores_name());
}

STORE_TEST(order_given_is_order_of_seq)
{
    struct test_store from;
    ts_open(&from, "memory");
    PUT(&from, .id = STR("c"));
    PUT(&from, .id = STR("a"));
    PUT(&from, .id = STR("b"));
    int64_t before = PUT(ts, .id = STR("first"));
    import_all_anew(&from, ts);
    int64_t after = PUT(ts, .id = STR("last"));
    int64_t c = seq_of(ts, "c"), a = seq_of(ts, "a"), b = seq_of(ts, "b");
    assert_true(before < c && c < a && a < b && b < after);
    ts_close(&from);
}

STORE_TEST(what_is_there_is_left_alone)
{
    struct test_store from;
    struct move_result results[100];
    ts_open(&from, "memory");
    put_everything(&from);
    import_all_anew(&from, ts);
    import_all(&from, ts, results);
    for (size_t i = 0; i < from.page.n; i++)
        check_move(results[i], REDRIVE_E_EXISTS, from.page.jobs[i].status.state);
    check_same_dump(from.store, ts->store);
    ts_close(&from);
}

/* Its own state is told, not that of the one which was offered. */
STORE_TEST(a_job_that_moved_on_is_left_alone)
{
    struct test_store from;
    struct move_result result;
    ts_open(&from, "memory");
    PUT(&from, .id = STR("a"));
    import_all_anew(&from, ts);
    ts_start(ts, seq_of(ts, "a"));
    import_all(&from, ts, &result);
    check_move(result, REDRIVE_E_EXISTS, REDRIVE_STATE_RUNNING);
    assert_int_equal(LIST(ts)->n, 1);
    ts_close(&from);
}

STORE_TEST(one_id_twice_in_a_call_is_one_job)
{
    const struct job job = {
        .spec = {.tenant = STR("acme"), .id = STR("a"), .task = STR("t"), .queue = STR("q")},
        .status = {.state = REDRIVE_STATE_QUEUED, .created_ms = 5, .updated_ms = 6}};
    const struct imported_job twice[] = {{&job, NULL, 0}, {&job, NULL, 0}};
    struct move_result results[2];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->import(ts->store, twice, 2, results, NULL), 0);
    ts_commit(ts);
    check_move(results[0], 0, REDRIVE_STATE_QUEUED);
    check_move(results[1], REDRIVE_E_EXISTS, REDRIVE_STATE_QUEUED);
    assert_int_equal(LIST(ts)->n, 1);
}

STORE_TEST(a_job_that_this_transaction_has_removed_is_taken_over)
{
    struct test_store from;
    struct move_result results[2];
    ts_open(&from, "memory");
    PUT(&from, .id = STR("a"), .unique_key = STR("key"));
    import_all_anew(&from, ts);
    const int64_t was = seq_of(ts, "a");
    struct change_move gone[] = {{was, .kind = MOVE_CANCEL}, {was, .kind = MOVE_REMOVE}};
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->move(ts->store, CHANGES(gone, 2), results, NULL), 0);
    import_all_anew(&from, ts);
    ts_commit(ts);
    ts_close(&from);
}

STORE_TEST(a_rollback_takes_it_back)
{
    struct test_store from, empty;
    struct move_result results[100];
    ts_open(&from, "memory");
    ts_open(&empty, "memory");
    put_everything(&from);
    ts_begin(ts);
    import_all(&from, ts, results);
    ts_rollback(ts);
    check_same_dump(empty.store, ts->store);
    import_all_anew(&from, ts);
    check_same_dump(from.store, ts->store);
    ts_close(&from);
    ts_close(&empty);
}

STORE_TEST(taking_over_needs_a_transaction)
{
    const struct job job = {.spec = {.tenant = STR("acme"), .id = STR("a")}};
    const struct imported_job imported = {&job, NULL, 0};
    const struct remembered_key key = {.tenant = STR("acme"), .key = STR("k"), .id = STR("a")};
    struct move_result result;
    const struct store_ops *ops = store_ops(ts->store);
    assert_int_equal(ops->import(ts->store, &imported, 1, &result, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->import_keys(ts->store, &key, 1, NULL), REDRIVE_E_STATE);
}

/* ---- They live on ---------------------------------------------------------------------------- */

STORE_TEST(queued_jobs_are_ready_in_order)
{
    struct test_store from;
    ts_open(&from, "memory");
    PUT(&from, .id = STR("low"), .priority = -1);
    PUT(&from, .id = STR("first"));
    PUT(&from, .id = STR("second"));
    PUT(&from, .id = STR("high"), .priority = 1);
    import_all_anew(&from, ts);
    int64_t low = seq_of(ts, "low"), first = seq_of(ts, "first"), second = seq_of(ts, "second");
    int64_t high = seq_of(ts, "high");
    check_seqs(READY(ts, .tenant = STR("acme")), high, first, second, low);
    uint64_t token = ts_start(ts, high);
    check_move(ts_settle(ts, high, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    check_seqs(READY(ts, .tenant = STR("acme")), first, second, low);
    ts_close(&from);
}

STORE_TEST(attempts_go_on_where_they_were)
{
    struct test_store from;
    ts_open(&from, "memory");
    int64_t seq = put_full(&from, "a");
    run_once(&from, seq, decision_retrying(0));
    run_once(&from, seq, decision_retrying(0));
    import_all_anew(&from, ts);
    ts->now_ms = from.now_ms;
    seq = seq_of(ts, "a");
    run_once(ts, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 3);
    assert_int_equal(h->attempts[2].number, 3);
    const struct job *job = ts_job(ts, seq);
    assert_int_equal(job->status.attempts, 3);
    assert_int_equal(job->status.first_started_ms, TS_START_MS + 7);
    ts_close(&from);
}

STORE_TEST(a_lease_ends_in_the_new_store)
{
    struct test_store from;
    int64_t next_ms = 0;
    ts_open(&from, "memory");
    uint64_t token = ts_start(&from, PUT(&from, .id = STR("a")));
    import_all_anew(&from, ts);
    int64_t seq = seq_of(ts, "a");
    assert_int_equal(ts_expired(ts, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, TS_START_MS + 30000);
    ts->now_ms = TS_START_MS + 30000;
    check_seqs(ts_expired(ts, 10, &next_ms), seq);
    assert_int_equal(ts->page.jobs[0].status.token, token);
    check_move(ts_settle(ts, seq, token + 1, decision_retrying(0)), REDRIVE_E_STATE,
               REDRIVE_STATE_RUNNING);
    check_move(ts_settle(ts, seq, token, decision_retrying(0)), 0, REDRIVE_STATE_RETRYING);
    assert_int_equal(ts_history(ts, seq)->n, 1);
    ts_close(&from);
}

STORE_TEST(time_locked_jobs_come_when_due)
{
    struct test_store from;
    int64_t next_ms = 0;
    ts_open(&from, "memory");
    ts_put_in(&from, REDRIVE_STATE_SCHEDULED, &(struct job_spec){.id = STR("scheduled")});
    from.now_ms += 10;
    ts_put_in(&from, REDRIVE_STATE_RETRYING, &(struct job_spec){.id = STR("retrying")});
    import_all_anew(&from, ts);
    assert_int_equal(ts_queues(ts, STR("acme"))->counts[0].next_due_ms, TS_START_MS + 60000);
    ts->now_ms = TS_START_MS + 60000;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    assert_int_equal(next_ms, TS_START_MS + 60010);
    assert_int_equal(ts_state(ts, seq_of(ts, "scheduled")), REDRIVE_STATE_QUEUED);
    ts->now_ms += 10;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    assert_int_equal(next_ms, 0);
    assert_int_equal(ts_queues(ts, STR("acme"))->counts[0].next_due_ms, 0);
    ts_close(&from);
}

STORE_TEST(parked_jobs_stand_in_their_gate)
{
    struct test_store from;
    ts_open(&from, "memory");
    int64_t seq = put_full(&from, "a");
    run_once(&from, seq, decision_retrying(0));
    ts_promote(&from, 10, &(int64_t){0});
    int64_t parked_ms = from.now_ms;
    ts_park(&from, seq, false);
    ts_park(&from, put_full(&from, "b"), false);
    ts_park(&from, put_full(&from, "limited"), true);
    import_all_anew(&from, ts);
    int64_t a = seq_of(ts, "a"), b = seq_of(ts, "b"), limited = seq_of(ts, "limited");
    check_seqs(ts_parked(ts, STR("smtp"), SCAN_PARKED_OLDEST, 10), a, b);
    check_seqs(ts_parked(ts, STR("smtp"), SCAN_PARKED_PROBES, 10), b, a);
    check_seqs(ts_parked(ts, STR("tenant:acme"), SCAN_PARKED_OLDEST, 10), limited);
    ts->now_ms = parked_ms + 4000;
    check_move(ts_unpark(ts, a), 0, REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_job(ts, a)->status.paused_ms, 4000);
    check_seqs(ts_parked(ts, STR("smtp"), SCAN_PARKED_OLDEST, 10), b);
    ts_close(&from);
}

STORE_TEST(deadlines_are_met)
{
    struct test_store from;
    int64_t next_ms = 0;
    ts_open(&from, "memory");
    PUT(&from, .id = STR("a"), .deadline_ms = TS_START_MS + 100);
    ts_put_in(&from, REDRIVE_STATE_PARKED,
              &(struct job_spec){.id = STR("b"), .deadline_ms = TS_START_MS + 50});
    ts_put_in(&from, REDRIVE_STATE_DEAD_LETTER,
              &(struct job_spec){.id = STR("dead"), .deadline_ms = TS_START_MS + 70});
    import_all_anew(&from, ts);
    int64_t a = seq_of(ts, "a"), b = seq_of(ts, "b"), dead = seq_of(ts, "dead");
    assert_int_equal(ts_overdue(ts, 10, &next_ms)->n, 0);
    ts->now_ms += 100;
    check_seqs(ts_overdue(ts, 10, &next_ms), b, a);
    check_move(CHANGE(ts, .seq = dead, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    check_seqs(ts_overdue(ts, 10, &next_ms), b, dead, a);
    ts_close(&from);
}

STORE_TEST(dead_letters_can_be_redriven_edited_and_swept)
{
    struct test_store from;
    ts_open(&from, "memory");
    put_full(&from, "a");
    put_full(&from, "b");
    run_once(&from, 1, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    run_once(&from, 2, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    import_all_anew(&from, ts);
    ts->now_ms = from.now_ms;
    int64_t a = seq_of(ts, "a");
    check_move(CHANGE(ts, .seq = a, .kind = MOVE_EDIT, .payload = STR("{\"n\":2}")), 0,
               REDRIVE_STATE_DEAD_LETTER);
    check_move(CHANGE(ts, .seq = a, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    const struct job *job = ts_job(ts, a);
    assert_int_equal(job->status.epoch, 1);
    check_str(job->spec.payload, "{\"n\":2}");
    check_str(job->status.error.message, "no answer after 30 s");
    assert_int_equal(ts_sweep(ts, STATE_BIT(DEAD_LETTER), ts->now_ms + 1, 10), 1);
    assert_int_equal(LIST(ts)->n, 1);
    assert_int_equal(ts_history(ts, a)->n, 1);
    ts_close(&from);
}
