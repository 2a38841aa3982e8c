/* Jobs and keys that come from another store. Where they come from is the memory store or one of
 * the kind under test; what they must be is what that store tells of them. */
#include "dump.h"
#include "import_all.h"
#include "kit.h"

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

static void run_once(struct kit *k, int64_t seq, struct decision decision)
{
    k->now_ms += 7;
    kit_promote(k, 100, &(int64_t){0});
    const struct start_move start = {
        .seq = seq,
        .token = UINT64_C(0xF000000000000000) + k->next_token++,
        .lease_until_ms = k->now_ms + 1000,
        .worker = STR("w\xC3\xBC"),
        .permit = {.generation = 3, .probe = 2},
    };
    check_move(kit_try_start(k, &start), 0, REDRIVE_STATE_RUNNING);
    k->now_ms += 5;
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
    check_move(kit_settle_with(k, &move), 0, decision.state);
}

static int64_t put_full(struct kit *k, const char *id)
{
    return PUT(k, .id = str_of(id), .task = STR("resize"), .queue = STR("slow"),
               .payload = STR("{\"n\": 1,\n \"t\": \"\xC3\xBC\"}"), .user = STR("eve"),
               .project = STR("p1"), .service = STR("s3"), .unique_key = str_of(id),
               .policy = STR("{\"max_attempts\":9}"), .breaker_key = STR("smtp"),
               .limit_key = STR("tenant:acme"), .priority = -7, .max_attempts = 9,
               .deadline_ms = KIT_START_MS + 3600000);
}

static void put_at_work(struct kit *k)
{
    int64_t seq = put_full(k, "running");
    run_once(k, seq, decision_retrying(0));
    kit_promote(k, 100, &(int64_t){0});
    const struct start_move start = {.seq = seq,
                                     .token = UINT64_MAX,
                                     .lease_until_ms = k->now_ms + 40000,
                                     .worker = STR("w2"),
                                     .permit = {.generation = UINT64_MAX, .probe = 5}};
    check_move(kit_try_start(k, &start), 0, REDRIVE_STATE_RUNNING);
    kit_start(k, PUT(k, .id = STR("running-first")));

    seq = put_full(k, "parked-by-limit");
    run_once(k, seq, decision_retrying(0));
    kit_promote(k, 100, &(int64_t){0});
    check_move(kit_park(k, seq, false), 0, REDRIVE_STATE_PARKED);
    k->now_ms += 900;
    check_move(kit_unpark(k, seq), 0, REDRIVE_STATE_QUEUED);
    check_move(kit_park(k, seq, true), 0, REDRIVE_STATE_PARKED);
    kit_put_in(k, REDRIVE_STATE_PARKED, &(struct job_spec){.id = STR("parked-fresh")});

    seq = put_full(k, "released");
    run_once(k, seq, decision_released());
    run_once(k, put_full(k, "snoozed"), decision_snoozed(50000));
    struct decision crashed = decision_retrying(60000);
    crashed.crashes = 2;
    run_once(k, put_full(k, "crashed"), crashed);
}

static void put_ended(struct kit *k)
{
    run_once(k, put_full(k, "done"), decision_completed());
    int64_t seq = put_full(k, "done-late");
    run_once(k, seq, decision_retrying(0));
    run_once(k, seq, decision_completed());
    run_once(k, put_full(k, "failed"),
             decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_NOT_RETRIABLE));
    seq = put_full(k, "dead");
    run_once(k, seq, decision_retrying(0));
    run_once(k, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    seq = put_full(k, "cancelled-at-work");
    kit_start(k, seq);
    check_move(CHANGE(k, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    seq = put_full(k, "too-late");
    check_move(CHANGE(k, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
                      .reason = REDRIVE_REASON_DEADLINE,
                      .error = {.class_ = REDRIVE_CLASS_PERMANENT, .message = STR("deadline")},
                      .fingerprint = 9),
               0, REDRIVE_STATE_DEAD_LETTER);
    seq = PUT(k, .id = STR("killed"));
    check_move(CHANGE(k, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_FAILED,
                      .reason = REDRIVE_REASON_MANUAL),
               0, REDRIVE_STATE_FAILED);
}

/* Back from the dead: waiting, failed once more, and a success at once. */
static void put_redriven(struct kit *k)
{
    static const char *const IDS[] = {"again-queued", "again-retrying", "again-done"};
    for (int i = 0; i < 3; i++) {
        int64_t seq = put_full(k, IDS[i]);
        run_once(k, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_POISON));
        check_move(CHANGE(k, .seq = seq, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
        if (i == 1)
            run_once(k, seq, decision_retrying(30000));
        if (i == 2)
            run_once(k, seq, decision_completed());
    }
}

static void put_everything(struct kit *k)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        kit_put_in(k, (enum redrive_state)s, NULL);
    put_full(k, "fresh");
    PUT(k, .id = STR("fresh"), .tenant = STR("zeta"), .unique_key = STR("fresh"));
    PUT(k, .id = STR("forever"), .unique_key = STR("f1"), .unique_forever = true);
    kit_put_in(k, REDRIVE_STATE_COMPLETED,
               &(struct job_spec){
                   .id = STR("forever-done"), .unique_key = STR("f2"), .unique_forever = true});
    put_at_work(k);
    put_ended(k);
    put_redriven(k);
}

/* ---- Every field ----------------------------------------------------------------------------- */

static void check_taken_over(struct kit *k, const char *from_store)
{
    struct kit from;
    kit_open(&from, from_store);
    put_everything(&from);
    import_all_anew(&from, k);
    check_same_dump(from.store, k->store);
    kit_close(&from);
}

KIT_TEST(jobs_of_another_kind_of_store_are_kept_whole)
{
    check_taken_over(k, "memory");
}

KIT_TEST(jobs_of_the_same_kind_of_store_are_kept_whole)
{
    check_taken_over(k, stores_name());
}

KIT_TEST(order_given_is_order_of_seq)
{
    struct kit from;
    kit_open(&from, "memory");
    PUT(&from, .id = STR("c"));
    PUT(&from, .id = STR("a"));
    PUT(&from, .id = STR("b"));
    int64_t before = PUT(k, .id = STR("first"));
    import_all_anew(&from, k);
    int64_t after = PUT(k, .id = STR("last"));
    int64_t c = seq_of(k, "c"), a = seq_of(k, "a"), b = seq_of(k, "b");
    assert_true(before < c && c < a && a < b && b < after);
    kit_close(&from);
}

KIT_TEST(what_is_there_is_left_alone)
{
    struct kit from;
    struct move_result results[100];
    kit_open(&from, "memory");
    put_everything(&from);
    import_all_anew(&from, k);
    import_all(&from, k, results);
    for (size_t i = 0; i < from.page.n; i++)
        check_move(results[i], REDRIVE_E_EXISTS, from.page.jobs[i].status.state);
    check_same_dump(from.store, k->store);
    kit_close(&from);
}

/* Its own state is told, not that of the one which was offered. */
KIT_TEST(a_job_that_moved_on_is_left_alone)
{
    struct kit from;
    struct move_result result;
    kit_open(&from, "memory");
    PUT(&from, .id = STR("a"));
    import_all_anew(&from, k);
    kit_start(k, seq_of(k, "a"));
    import_all(&from, k, &result);
    check_move(result, REDRIVE_E_EXISTS, REDRIVE_STATE_RUNNING);
    assert_int_equal(LIST(k)->n, 1);
    kit_close(&from);
}

KIT_TEST(one_id_twice_in_a_call_is_one_job)
{
    const struct job job = {
        .spec = {.tenant = STR("acme"), .id = STR("a"), .task = STR("t"), .queue = STR("q")},
        .status = {.state = REDRIVE_STATE_QUEUED, .created_ms = 5, .updated_ms = 6}};
    const struct imported_job twice[] = {{&job, NULL, 0}, {&job, NULL, 0}};
    struct move_result results[2];
    kit_begin(k);
    assert_int_equal(store_ops(k->store)->import(k->store, twice, 2, results, NULL), 0);
    kit_commit(k);
    check_move(results[0], 0, REDRIVE_STATE_QUEUED);
    check_move(results[1], REDRIVE_E_EXISTS, REDRIVE_STATE_QUEUED);
    assert_int_equal(LIST(k)->n, 1);
}

KIT_TEST(a_job_that_this_transaction_has_removed_is_taken_over)
{
    struct kit from;
    struct move_result results[2];
    kit_open(&from, "memory");
    PUT(&from, .id = STR("a"), .unique_key = STR("key"));
    import_all_anew(&from, k);
    const int64_t was = seq_of(k, "a");
    struct change_move gone[] = {{was, .kind = MOVE_CANCEL}, {was, .kind = MOVE_REMOVE}};
    kit_begin(k);
    assert_int_equal(store_ops(k->store)->move(k->store, CHANGES(gone, 2), results, NULL), 0);
    import_all_anew(&from, k);
    kit_commit(k);
    kit_close(&from);
}

KIT_TEST(a_rollback_takes_it_back)
{
    struct kit from, empty;
    struct move_result results[100];
    kit_open(&from, "memory");
    kit_open(&empty, "memory");
    put_everything(&from);
    kit_begin(k);
    import_all(&from, k, results);
    kit_rollback(k);
    check_same_dump(empty.store, k->store);
    import_all_anew(&from, k);
    check_same_dump(from.store, k->store);
    kit_close(&from);
    kit_close(&empty);
}

KIT_TEST(taking_over_needs_a_transaction)
{
    const struct job job = {.spec = {.tenant = STR("acme"), .id = STR("a")}};
    const struct imported_job imported = {&job, NULL, 0};
    const struct remembered_key key = {.tenant = STR("acme"), .key = STR("k"), .id = STR("a")};
    struct move_result result;
    const struct store_ops *ops = store_ops(k->store);
    assert_int_equal(ops->import(k->store, &imported, 1, &result, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->import_keys(k->store, &key, 1, NULL), REDRIVE_E_STATE);
}

/* ---- They live on ---------------------------------------------------------------------------- */

KIT_TEST(queued_jobs_are_ready_in_order)
{
    struct kit from;
    kit_open(&from, "memory");
    PUT(&from, .id = STR("low"), .priority = -1);
    PUT(&from, .id = STR("first"));
    PUT(&from, .id = STR("second"));
    PUT(&from, .id = STR("high"), .priority = 1);
    import_all_anew(&from, k);
    int64_t low = seq_of(k, "low"), first = seq_of(k, "first"), second = seq_of(k, "second");
    int64_t high = seq_of(k, "high");
    check_seqs(READY(k, .tenant = STR("acme")), high, first, second, low);
    uint64_t token = kit_start(k, high);
    check_move(kit_settle(k, high, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    check_seqs(READY(k, .tenant = STR("acme")), first, second, low);
    kit_close(&from);
}

KIT_TEST(attempts_go_on_where_they_were)
{
    struct kit from;
    kit_open(&from, "memory");
    int64_t seq = put_full(&from, "a");
    run_once(&from, seq, decision_retrying(0));
    run_once(&from, seq, decision_retrying(0));
    import_all_anew(&from, k);
    k->now_ms = from.now_ms;
    seq = seq_of(k, "a");
    run_once(k, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 3);
    assert_int_equal(h->attempts[2].number, 3);
    const struct job *job = kit_job(k, seq);
    assert_int_equal(job->status.attempts, 3);
    assert_int_equal(job->status.first_started_ms, KIT_START_MS + 7);
    kit_close(&from);
}

KIT_TEST(a_lease_ends_in_the_new_store)
{
    struct kit from;
    int64_t next_ms = 0;
    kit_open(&from, "memory");
    uint64_t token = kit_start(&from, PUT(&from, .id = STR("a")));
    import_all_anew(&from, k);
    int64_t seq = seq_of(k, "a");
    assert_int_equal(kit_expired(k, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, KIT_START_MS + 30000);
    k->now_ms = KIT_START_MS + 30000;
    check_seqs(kit_expired(k, 10, &next_ms), seq);
    assert_int_equal(k->page.jobs[0].status.token, token);
    check_move(kit_settle(k, seq, token + 1, decision_retrying(0)), REDRIVE_E_STATE,
               REDRIVE_STATE_RUNNING);
    check_move(kit_settle(k, seq, token, decision_retrying(0)), 0, REDRIVE_STATE_RETRYING);
    assert_int_equal(kit_history(k, seq)->n, 1);
    kit_close(&from);
}

KIT_TEST(time_locked_jobs_come_when_due)
{
    struct kit from;
    int64_t next_ms = 0;
    kit_open(&from, "memory");
    kit_put_in(&from, REDRIVE_STATE_SCHEDULED, &(struct job_spec){.id = STR("scheduled")});
    from.now_ms += 10;
    kit_put_in(&from, REDRIVE_STATE_RETRYING, &(struct job_spec){.id = STR("retrying")});
    import_all_anew(&from, k);
    assert_int_equal(kit_queues(k, STR("acme"))->counts[0].next_due_ms, KIT_START_MS + 60000);
    k->now_ms = KIT_START_MS + 60000;
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
    assert_int_equal(next_ms, KIT_START_MS + 60010);
    assert_int_equal(kit_state(k, seq_of(k, "scheduled")), REDRIVE_STATE_QUEUED);
    k->now_ms += 10;
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
    assert_int_equal(next_ms, 0);
    assert_int_equal(kit_queues(k, STR("acme"))->counts[0].next_due_ms, 0);
    kit_close(&from);
}

KIT_TEST(parked_jobs_stand_in_their_gate)
{
    struct kit from;
    kit_open(&from, "memory");
    int64_t seq = put_full(&from, "a");
    run_once(&from, seq, decision_retrying(0));
    kit_promote(&from, 10, &(int64_t){0});
    int64_t parked_ms = from.now_ms;
    kit_park(&from, seq, false);
    kit_park(&from, put_full(&from, "b"), false);
    kit_park(&from, put_full(&from, "limited"), true);
    import_all_anew(&from, k);
    int64_t a = seq_of(k, "a"), b = seq_of(k, "b"), limited = seq_of(k, "limited");
    check_seqs(kit_parked(k, STR("smtp"), SCAN_PARKED_OLDEST, 10), a, b);
    check_seqs(kit_parked(k, STR("smtp"), SCAN_PARKED_PROBES, 10), b, a);
    check_seqs(kit_parked(k, STR("tenant:acme"), SCAN_PARKED_OLDEST, 10), limited);
    k->now_ms = parked_ms + 4000;
    check_move(kit_unpark(k, a), 0, REDRIVE_STATE_QUEUED);
    assert_int_equal(kit_job(k, a)->status.paused_ms, 4000);
    check_seqs(kit_parked(k, STR("smtp"), SCAN_PARKED_OLDEST, 10), b);
    kit_close(&from);
}

KIT_TEST(deadlines_are_met)
{
    struct kit from;
    int64_t next_ms = 0;
    kit_open(&from, "memory");
    PUT(&from, .id = STR("a"), .deadline_ms = KIT_START_MS + 100);
    kit_put_in(&from, REDRIVE_STATE_PARKED,
               &(struct job_spec){.id = STR("b"), .deadline_ms = KIT_START_MS + 50});
    kit_put_in(&from, REDRIVE_STATE_DEAD_LETTER,
               &(struct job_spec){.id = STR("dead"), .deadline_ms = KIT_START_MS + 70});
    import_all_anew(&from, k);
    int64_t a = seq_of(k, "a"), b = seq_of(k, "b"), dead = seq_of(k, "dead");
    assert_int_equal(kit_overdue(k, 10, &next_ms)->n, 0);
    k->now_ms += 100;
    check_seqs(kit_overdue(k, 10, &next_ms), b, a);
    check_move(CHANGE(k, .seq = dead, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    check_seqs(kit_overdue(k, 10, &next_ms), b, dead, a);
    kit_close(&from);
}

KIT_TEST(dead_letters_can_be_redriven_edited_and_swept)
{
    struct kit from;
    kit_open(&from, "memory");
    put_full(&from, "a");
    put_full(&from, "b");
    run_once(&from, 1, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    run_once(&from, 2, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    import_all_anew(&from, k);
    k->now_ms = from.now_ms;
    int64_t a = seq_of(k, "a");
    check_move(CHANGE(k, .seq = a, .kind = MOVE_EDIT, .payload = STR("{\"n\":2}")), 0,
               REDRIVE_STATE_DEAD_LETTER);
    check_move(CHANGE(k, .seq = a, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    const struct job *job = kit_job(k, a);
    assert_int_equal(job->status.epoch, 1);
    check_str(job->spec.payload, "{\"n\":2}");
    check_str(job->status.error.message, "no answer after 30 s");
    assert_int_equal(kit_sweep(k, STATE_BIT(DEAD_LETTER), k->now_ms + 1, 10), 1);
    assert_int_equal(LIST(k)->n, 1);
    assert_int_equal(kit_history(k, a)->n, 1);
    kit_close(&from);
}
