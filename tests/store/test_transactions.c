#include "store_for_test.h"

#include "dump.h"

/* Touches everything that a transaction can touch; `seqs` are of jobs in each state. */
static void change_everything(struct test_store *ts, const int64_t *seqs)
{
    PUT(ts, .id = STR("new"));
    ts_start(ts, seqs[REDRIVE_STATE_QUEUED]);
    CHANGE(ts, .seq = seqs[REDRIVE_STATE_SCHEDULED], .kind = MOVE_RUN_NOW);
    CHANGE(ts, .seq = seqs[REDRIVE_STATE_RETRYING], .kind = MOVE_CANCEL);
    CHANGE(ts, .seq = seqs[REDRIVE_STATE_RUNNING], .kind = MOVE_CANCEL);
    CHANGE(ts, .seq = seqs[REDRIVE_STATE_COMPLETED], .kind = MOVE_REMOVE);
    CHANGE(ts, .seq = seqs[REDRIVE_STATE_FAILED], .kind = MOVE_REDRIVE);
    CHANGE(ts, .seq = seqs[REDRIVE_STATE_DEAD_LETTER], .kind = MOVE_EDIT, .payload = STR("[]"));
    ts_unpark(ts, seqs[REDRIVE_STATE_PARKED]);
    ts_sweep(ts, STATE_BIT(CANCELLED), INT64_MAX, 100);
    ts_pause(ts, STR("acme"), STR("main"));
    const struct shared_row row = {.kind = SHARED_TASK,
                                   .key = STR("mail"),
                                   .version = 1,
                                   .tenant = STR("acme"),
                                   .value = STR("second")};
    assert_int_equal(ts_shared_put(ts, &row), 0);
    ts_count(ts, (struct counter){STR("acme"), STR("completed"), STR("mail"), 5});
}

static void fill(struct test_store *ts, int64_t seqs[REDRIVE_STATE_COUNT])
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        seqs[s] = ts_put_in(ts, (enum redrive_state)s, NULL);
    const struct shared_row row = {
        .kind = SHARED_TASK, .key = STR("mail"), .tenant = STR("acme"), .value = STR("first")};
    assert_int_equal(ts_shared_put(ts, &row), 0);
    ts_count(ts, (struct counter){STR("acme"), STR("completed"), STR("mail"), 3});
}

STORE_TEST(a_rollback_leaves_nothing)
{
    struct buf before, within, after;
    buf_init(&before, 1 << 20);
    buf_init(&within, 1 << 20);
    buf_init(&after, 1 << 20);
    int64_t seqs[REDRIVE_STATE_COUNT];
    fill(ts, seqs);

    dump_store(ts->store, &before);
    ts_begin(ts);
    int64_t version = ts->shared_version;
    change_everything(ts, seqs);
    dump_store(ts->store, &within);
    ts_rollback(ts);
    dump_store(ts->store, &after);
    assert_string_not_equal(buf_cstr(&within), buf_cstr(&before));
    assert_string_equal(buf_cstr(&after), buf_cstr(&before));
    ts_begin(ts);
    assert_int_equal(ts->shared_version, version);
    ts_rollback(ts);
    buf_release(&before);
    buf_release(&within);
    buf_release(&after);
}

STORE_TEST(closing_rolls_an_open_transaction_back)
{
    int64_t kept = PUT(ts, .id = STR("kept"));
    struct test_store other;
    ts_join(&other, ts);
    ts_begin(&other);
    PUT(&other, .id = STR("lost"));
    ts_close(&other);
    check_seqs(LIST(ts, .order = ORDER_OLDEST), kept);
    ts_begin(ts);
    ts_rollback(ts);
}

STORE_TEST(a_committed_transaction_is_visible_at_once_to_all)
{
    struct buf ours, theirs;
    buf_init(&ours, 1 << 20);
    buf_init(&theirs, 1 << 20);
    int64_t seqs[REDRIVE_STATE_COUNT];
    fill(ts, seqs);
    ts_begin(ts);
    change_everything(ts, seqs);
    ts_commit(ts);
    struct test_store other;
    ts_join(&other, ts);
    dump_store(ts->store, &ours);
    dump_store(other.store, &theirs);
    assert_string_equal(buf_cstr(&ours), buf_cstr(&theirs));
    ts_close(&other);
    buf_release(&ours);
    buf_release(&theirs);
}

/* The state of the job in the open transaction, by its name; -1: there is none. */
static int state_of(struct test_store *ts, const char *id)
{
    const struct job_name name = {STR("acme"), str_of(id)};
    struct job_page page = {0};
    assert_int_equal(store_ops(ts->store)->lookup(ts->store, &name, 1, &page, NULL), 0);
    const int state = page.n == 1 ? (int)page.jobs[0].status.state : -1;
    job_page_release(&page);
    return state;
}

/* The same of a list that asks for a name. */
static int listed_state(struct test_store *ts, const struct job_filter *filter)
{
    struct job_page page = {0};
    assert_int_equal(store_ops(ts->store)->list(ts->store, filter, &page, NULL), 0);
    const int state = page.n == 1 ? (int)page.jobs[0].status.state : -1;
    job_page_release(&page);
    return state;
}

STORE_TEST(reads_by_name_see_the_moves_of_their_transaction)
{
    const struct job_filter by_id = {.tenant = STR("acme"), .id = STR("x"), .limit = 1};
    const struct job_filter by_key = {.tenant = STR("acme"), .unique_key = STR("k"), .limit = 1};
    ts_begin(ts);
    int64_t seq = PUT(ts, .id = STR("x"), .unique_key = STR("k"));
    assert_int_equal(state_of(ts, "x"), REDRIVE_STATE_QUEUED);
    assert_int_equal(listed_state(ts, &by_id), REDRIVE_STATE_QUEUED);
    assert_int_equal(listed_state(ts, &by_key), REDRIVE_STATE_QUEUED);
    uint64_t token = ts_start(ts, seq);
    assert_int_equal(state_of(ts, "x"), REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_history(ts, seq)->n, 1);
    check_move(ts_settle(ts, seq, token, decision_retrying(10)), 0, REDRIVE_STATE_RETRYING);
    assert_int_equal(state_of(ts, "x"), REDRIVE_STATE_RETRYING);
    assert_int_equal(listed_state(ts, &by_id), REDRIVE_STATE_RETRYING);
    ts_pause(ts, STR("acme"), STR("main"));
    assert_true(ts_queues(ts, STR("acme"))->counts[0].paused);
    ts_commit(ts);
    ts_begin(ts);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(state_of(ts, "x"), -1);
    assert_int_equal(listed_state(ts, &by_id), -1);
    ts_commit(ts);
}

/* What an index gives after a move is the store's own choice; but what has left it is not there. */
STORE_TEST(what_a_transaction_has_moved_leaves_its_index)
{
    int64_t seqs[2] = {PUT(ts, .id = STR("x")), PUT(ts, .id = STR("y"))};
    ts_begin(ts);
    check_seqs(READY(ts, .tenant = STR("acme")), seqs[0], seqs[1]);
    uint64_t token = ts_start(ts, seqs[0]);
    const struct job_page *page = READY(ts, .tenant = STR("acme"));
    for (size_t i = 0; i < page->n; i++)
        assert_int_equal(page->jobs[i].status.seq, seqs[1]);
    ts_commit(ts);
    ts_begin(ts);
    check_move(ts_settle(ts, seqs[0], token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    check_seqs(READY(ts, .tenant = STR("acme")), seqs[1]);
    ts_commit(ts);
}

STORE_TEST(a_handle_has_one_transaction_at_a_time)
{
    const struct store_ops *ops = store_ops(ts->store);
    struct redrive_err err = {0};
    assert_int_equal(ops->commit(ts->store, &err), REDRIVE_E_STATE);
    ops->rollback(ts->store);
    ts_begin(ts);
    int64_t seq = PUT(ts, .id = STR("x"));
    int64_t now_ms, version;
    assert_int_equal(ops->begin(ts->store, 1, &now_ms, &version, &err), REDRIVE_E_STATE);
    ts_commit(ts);
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_QUEUED);
}

STORE_TEST(moves_need_a_transaction)
{
    int64_t seq = ts_put_in(ts, REDRIVE_STATE_RUNNING, NULL);
    const struct store_ops *ops = store_ops(ts->store);
    struct store *s = ts->store;
    struct decision d = decision_completed();
    struct job_spec spec = {.tenant = STR("t"), .id = STR("i"), .queue = STR("q")};
    struct submit_result submitted;
    struct start_move start = {.seq = seq, .token = 9};
    struct settle_move settle = {.seq = seq, .token = 1, .decision = &d};
    struct extend_move extend = {.seq = seq, .token = 1, .lease_until_ms = 5};
    struct change_move change = {.seq = seq, .kind = MOVE_CANCEL};
    struct claim_filter filter = {.limit = 1};
    struct shared_row row = {.kind = SHARED_TASK, .key = STR("k")};
    struct counter counter = {.name = STR("n"), .value = 1};
    struct move_result r;
    assert_int_equal(ops->submit(s, &spec, 1, &submitted, &ts->arena, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->ready(s, &filter, &ts->page, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->move(s, STARTS(&start, 1), &r, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->move(s, PARKS(&seq, 1, false), &r, NULL), REDRIVE_E_STATE);
    for (int index = SCAN_DUE; index <= SCAN_FINISHED; index++) {
        struct scan scan = {.index = (enum scan_index)index, .limit = 1};
        assert_int_equal(ops->scan(s, &scan, &ts->page, NULL), REDRIVE_E_STATE);
    }
    assert_int_equal(ops->move(s, UNPARKS(&seq, 1), &r, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->move(s, SETTLES(&settle, 1), &r, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->move(s, EXTENDS(&extend, 1), &r, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->move(s, CHANGES(&change, 1), &r, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->shared_put(s, &row, 1, &r, NULL), REDRIVE_E_STATE);
    assert_int_equal(ops->counters_add(s, &counter, 1, NULL), REDRIVE_E_STATE);
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_RUNNING);
}

STORE_TEST(a_refused_move_fails_none_of_its_neighbours)
{
    int64_t a = PUT(ts, .id = STR("a")), b = ts_put_in(ts, REDRIVE_STATE_COMPLETED, NULL),
            c = PUT(ts, .id = STR("c"));
    const struct start_move moves[] = {
        {.seq = a, .token = 11, .lease_until_ms = ts->now_ms + 1},
        {.seq = b, .token = 12, .lease_until_ms = ts->now_ms + 1},
        {.seq = 999999, .token = 13, .lease_until_ms = ts->now_ms + 1},
        {.seq = c, .token = 14, .lease_until_ms = ts->now_ms + 1},
    };
    struct move_result r[4];
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->move(ts->store, STARTS(moves, 4), r, NULL), 0);
    ts_commit(ts);
    check_move(r[0], 0, REDRIVE_STATE_RUNNING);
    check_move(r[1], REDRIVE_E_STATE, REDRIVE_STATE_COMPLETED);
    assert_int_equal(r[2].code, REDRIVE_E_NOT_FOUND);
    check_move(r[3], 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_job(ts, a)->status.token, 11);
    assert_int_equal(ts_job(ts, c)->status.token, 14);
}

STORE_TEST(a_job_that_is_not_there_is_not_found_by_any_move)
{
    struct start_move start = {.seq = 4711, .token = 1};
    assert_int_equal(ts_try_start(ts, &start).code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_settle(ts, 4711, 1, decision_completed()).code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_extend(ts, 4711, 1, 5).code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_park(ts, 4711, true).code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_unpark(ts, 4711).code, REDRIVE_E_NOT_FOUND);
    for (int kind = MOVE_CANCEL; kind <= MOVE_EDIT; kind++)
        assert_int_equal(
            CHANGE(ts, .seq = 4711, .kind = (enum move_kind)kind, .to = REDRIVE_STATE_FAILED).code,
            REDRIVE_E_NOT_FOUND);
    assert_int_equal(ts_history(ts, 4711)->n, 0);
}

STORE_TEST(the_transaction_says_its_time)
{
    int64_t now_ms = 0, version;
    /* The store says whose time it is. */
    assert_int_equal(store_ops(ts->store)->begin(ts->store, 4242, &now_ms, &version, NULL), 0);
    assert_int_equal(now_ms, 4242);
    store_ops(ts->store)->rollback(ts->store);

    struct store *other = NULL;
    assert_int_equal(store_open(ts->url, &(struct store_options){.create = false}, &other, NULL),
                     0);
    assert_int_equal(store_ops(other)->begin(other, 4242, &now_ms, &version, NULL), 0);
    if (store_ops(other)->capabilities & STORE_SERVER_TIME)
        assert_true(now_ms > TS_START_MS);
    else
        assert_int_equal(now_ms, 4242);
    store_close(other);
}

/* As when a request came while begin waited for its turn. */
STORE_TEST(the_time_of_a_transaction_can_be_set_after_its_begin)
{
    const struct store_ops *ops = store_ops(ts->store);
    const int64_t later_ms = ts->now_ms + 60000;
    struct submit_result result;
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(ops->set_time(ts->store, 4242), 4242); /* without a transaction: nothing */
    ts_begin(ts);
    assert_int_equal(ops->set_time(ts->store, later_ms), later_ms);
    const struct job_spec spec = {
        .tenant = STR("acme"), .id = STR("x"), .task = STR("t"), .queue = STR("q")};
    assert_int_equal(ops->submit(ts->store, &spec, 1, &result, &arena, NULL), 0);
    ts_commit(ts);
    assert_int_equal(ts_job(ts, result.seq)->status.created_ms, later_ms);
    arena_release(&arena);
}

STORE_TEST(a_server_sets_the_time_of_a_transaction_itself)
{
    struct store *other = NULL;
    int64_t begun_ms = 0, version;
    if (!(store_ops(ts->store)->capabilities & STORE_SERVER_TIME))
        skip();
    assert_int_equal(store_open(ts->url, &(struct store_options){.create = false}, &other, NULL),
                     0);
    assert_int_equal(store_ops(other)->begin(other, 4242, &begun_ms, &version, NULL), 0);
    assert_true(store_ops(other)->set_time(other, 4243) >= begun_ms);
    store_close(other);
}

STORE_TEST(waiting_ends_with_its_time)
{
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 5, NULL, NULL), 0);
}

STORE_TEST(a_wait_after_anothers_commit_is_short)
{
    struct test_store other;
    if (!(store_ops(ts->store)->capabilities & STORE_NOTIFIES))
        skip();
    ts_join(&other, ts);
    ts_begin(ts);
    ts_rollback(ts);
    PUT(&other, .id = STR("x"));
    /* Longer than the time that a test is given. */
    uint32_t notification = 0;
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 600000, &notification, NULL), 0);
    assert_int_equal(notification, STORE_NOTIFY_ALL);
    ts_close(&other);
}

/* Waits until notifications of this kind are there; gives all that came until then. */
static uint32_t notification_until(struct test_store *ts, uint32_t wanted)
{
    uint32_t all = 0;
    for (int i = 0; i < 1000 && !(all & wanted); i++) {
        uint32_t notification = 0;
        assert_int_equal(store_ops(ts->store)->wait(ts->store, 100, &notification, NULL), 0);
        all |= notification;
    }
    assert_true(all & wanted);
    return all;
}

/* What a first wait says, which only begins to listen, concerns no other process; what comes later
 * is. */
static void start_listening(struct test_store *ts)
{
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 0, NULL, NULL), 0);
}

static void put_and_tell(struct test_store *ts, struct str id, uint32_t notification)
{
    ts_begin(ts);
    PUT(ts, .id = id);
    store_notify(ts->store, notification);
    ts_commit(ts);
}

/* A claim that is given less than it asks for: only those who wait may be notified of new jobs.
 */
static void wait_for_jobs(struct test_store *ts)
{
    ts_begin(ts);
    (void)READY(ts, .tenant = {0});
    ts_rollback(ts);
}

STORE_TEST(a_wait_says_what_was_told)
{
    struct test_store other;
    if (!(store_ops(ts->store)->capabilities & STORE_TELLS))
        skip(); /* it has nothing to say */
    ts_join(&other, ts);
    start_listening(ts);
    put_and_tell(&other, STR("a"), STORE_NOTIFY_TIME);
    (void)notification_until(ts, STORE_NOTIFY_TIME);
    put_and_tell(&other, STR("b"), 0);
    wait_for_jobs(ts);
    put_and_tell(&other, STR("c"), STORE_NOTIFY_READY);
    assert_int_equal(notification_until(ts, STORE_NOTIFY_READY), STORE_NOTIFY_READY);
    put_and_tell(&other, STR("d"), STORE_NOTIFY_END);
    assert_int_equal(notification_until(ts, STORE_NOTIFY_END), STORE_NOTIFY_END);
    ts_close(&other);
}

STORE_TEST(handles_of_one_origin_do_not_notify_each_other)
{
    struct test_store watcher, writer;
    const struct store_options options = {.create = true, .caller_time = true, .origin = 7};
    struct test_store *const ours[] = {&watcher, &writer};
    if (!(store_ops(ts->store)->capabilities & STORE_TELLS))
        skip(); /* it has nothing to say */
    for (size_t i = 0; i < 2; i++) {
        ts_join(ours[i], ts);
        store_close(ours[i]->store);
        assert_int_equal(store_open(ts->url, &options, &ours[i]->store, NULL), 0);
    }
    start_listening(&watcher);
    put_and_tell(ts, STR("a"), STORE_NOTIFY_TIME);
    (void)notification_until(&watcher, STORE_NOTIFY_TIME);
    put_and_tell(&writer, STR("b"), STORE_NOTIFY_TIME);
    wait_for_jobs(&writer);
    put_and_tell(ts, STR("c"), STORE_NOTIFY_READY);
    assert_int_equal(notification_until(&watcher, STORE_NOTIFY_READY), STORE_NOTIFY_READY);
    ts_close(&watcher);
    ts_close(&writer);
}
