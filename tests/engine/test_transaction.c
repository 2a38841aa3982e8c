/* Transactions that fail: who is told what, and what is left. */
#include "engine/bed.h"

#include <limits.h>

#include "base/err.h"
#include "base/time/clock.h"

static const struct store_ops *real;
static int fail_commit;            /* code of the next commits */
static unsigned fail_times;        /* of how many */
static bool commit_came_first;     /* the store had already done it */
static bool commit_is_rolled_back; /* the store knows that it has done nothing */
static unsigned commits;
static uint32_t told; /* by the last commit */
static unsigned begins;
static unsigned begins_left; /* after so many the store is gone */
static unsigned lists;
static uint64_t seen_token; /* of the last change */
static int put_code;        /* the slot fails with it */
static bool put_refused;    /* it says that others were faster */
static unsigned shared_puts;

static int submit_unless_bad(struct store *store, const struct job_spec *specs, size_t n,
                             struct submit_result *ret, struct arena *arena,
                             struct redrive_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(specs[i].task, "bad"))
            return err_set(err, REDRIVE_E_CORRUPT, "the store chokes on it");
    return real->submit(store, specs, n, ret, arena, err);
}

static int begin_or_fail(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                         int64_t *ret_version, struct redrive_err *err)
{
    if (begins++ >= begins_left)
        return err_set(err, REDRIVE_E_IO, "the store is gone");
    return real->begin(store, now_ms, ret_now_ms, ret_version, err);
}

static int commit_or_fail(struct store *store, struct redrive_err *err)
{
    int code = fail_commit;
    commits++;
    told = store_base(store)->notification;
    if (code != 0 && --fail_times == 0) {
        fail_commit = 0;
        fail_times = 1;
    }
    if (code == 0)
        return real->commit(store, err);
    if (commit_came_first)
        (void)real->commit(store, NULL);
    else
        real->rollback(store);
    ((struct store_base *)(void *)store)->is_rolled_back = commit_is_rolled_back;
    return err_set(err, code, "the commit failed");
}

static int list_counted(struct store *store, const struct job_filter *filter, struct job_page *ret,
                        struct redrive_err *err)
{
    lists++;
    return real->list(store, filter, ret, err);
}

static int move_noted(struct store *store, const struct move_list *list, struct move_result *ret,
                      struct redrive_err *err)
{
    if (list->kind == MOVE_CANCEL) {
        assert_non_null(list->changes[0].seen);
        seen_token = list->changes[0].seen->token;
    }
    return real->move(store, list, ret, err);
}

static int put_or_fail(struct store *store, const struct shared_row *rows, size_t n,
                       struct move_result *ret, struct redrive_err *err)
{
    shared_puts++;
    if (put_code != 0)
        return err_set(err, put_code, "the session is another one");
    int rc = real->shared_put(store, rows, n, ret, err);
    for (size_t i = 0; i < n && put_refused; i++)
        ret[i] = (struct move_result){.code = REDRIVE_E_STATE};
    return rc;
}

static struct buf lines; /* of the log */

static void keep_line(struct str line, void *ctx)
{
    (void)ctx;
    (void)buf_add(&lines, line.ptr, line.len);
}

static unsigned count_partitions(const char *event)
{
    unsigned n = 0;
    for (const char *at = strstr(buf_cstr(&lines), event); at; at = strstr(at + 1, event))
        n++;
    return n;
}

/* A store whose submit and commit can be made to fail. */
static void make_fragile(struct bed *bed)
{
    static struct store_ops fragile;
    const struct store_options options = {.create = true};
    static const struct log log = {.level = LOG_LEVEL_INFO, .sink = keep_line};
    struct engine_options engine_options = {.seed = 1, .log = &log};
    struct store *store;
    buf_release(&lines);
    buf_init(&lines, 1 << 20);
    bed_init(bed, NULL);
    engine_close(bed->engine);
    assert_int_equal(store_open("memory:fragile", &options, &store, NULL), 0);
    real = store_ops(store);
    fragile = *real;
    fragile.begin = begin_or_fail;
    fragile.submit = submit_unless_bad;
    fragile.commit = commit_or_fail;
    fragile.list = list_counted;
    fragile.move = move_noted;
    fragile.shared_put = put_or_fail;
    ((struct store_base *)(void *)store)->ops = &fragile;
    engine_options.store = store;
    begins_left = UINT_MAX;
    assert_int_equal(engine_open(&engine_options, &bed->engine, NULL), 0);
    fail_commit = 0;
    fail_times = 1;
    commits = 0;
    put_code = 0;
    put_refused = false;
}

static void submit_three(struct bed *bed, const char *const *tasks, struct submit_op *ops)
{
    struct op *list[3];
    for (int i = 0; i < 3; i++) {
        const struct job_spec spec = {.task = str_of(tasks[i])};
        assert_int_equal(submit_op_init(&ops[i], bed->engine, &spec, 1, NULL), 0);
        list[i] = &ops[i].op;
    }
    engine_apply(bed->engine, list, 3);
}

static void release_three(struct submit_op *ops)
{
    for (int i = 0; i < 3; i++)
        submit_op_release(&ops[i]);
}

static void operations_share_one_commit(void **state)
{
    (void)state;
    static const char *const TASKS[] = {"a", "b", "c"};
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    submit_three(&bed, TASKS, ops);
    assert_int_equal(commits, 1);
    release_three(ops);
    bed_release(&bed);
}

/* One more comes while a transaction waits. */
static void one_more(struct op_batch *batch)
{
    struct submit_op *all = batch->ctx;
    if (batch->n == 3)
        return;
    batch->ops[batch->n] = &all[batch->n].op;
    batch->n++;
}

static size_t apply_with_late_ones(struct bed *bed, struct submit_op *ops)
{
    struct op *list[3] = {&ops[0].op};
    struct op_batch batch = {.ops = list, .n = 1, .gather = one_more, .ctx = ops};
    for (int i = 0; i < 3; i++) {
        const struct job_spec spec = {.task = STR("t")};
        assert_int_equal(submit_op_init(&ops[i], bed->engine, &spec, 1, NULL), 0);
    }
    engine_apply_batch(bed->engine, &batch);
    for (size_t i = 0; i < batch.n; i++)
        assert_int_equal(list[i]->code, 0);
    return batch.n;
}

static void what_comes_while_a_transaction_waits_goes_with_it(void **state)
{
    (void)state;
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    assert_int_equal(apply_with_late_ones(&bed, ops), 2);
    assert_int_equal(commits, 1);
    assert_true(ops[1].answers[0].seq > 0);
    release_three(ops);
    bed_release(&bed);
}

static void a_transaction_that_is_tried_again_takes_along_what_came_meanwhile(void **state)
{
    (void)state;
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    fail_commit = REDRIVE_E_CANCELLED;
    assert_int_equal(apply_with_late_ones(&bed, ops), 3);
    assert_int_equal(commits, 2);
    release_three(ops);
    bed_release(&bed);
}

static void others_are_told_what_they_can_make_use_of(void **state)
{
    (void)state;
    struct bed bed;
    make_fragile(&bed);
    bed_submit(&bed, "t", "{}");
    assert_int_equal(bed_succeed(&bed, bed_claim_one(&bed)), 0);
    assert_true(told & STORE_NOTIFY_TIME); /* of a breaker that is new */
    bed_submit(&bed, "t", "{}");
    assert_int_equal(told, STORE_NOTIFY_READY | STORE_NOTIFY_END);
    const struct job *job = bed_claim_one(&bed);
    assert_int_equal(told, 0);
    assert_int_equal(bed_succeed(&bed, job), 0);
    assert_int_equal(told, STORE_NOTIFY_END);
    bed_submit(&bed, "t", "{}");
    assert_int_equal(bed_fail(&bed, bed_claim_one(&bed), "TRANSIENT_FAIL"), 0);
    assert_int_equal(told & (STORE_NOTIFY_TIME | STORE_NOTIFY_READY), STORE_NOTIFY_TIME);
    const struct job_spec later = {.task = STR("t"), .process_after_ms = clock_wall_ms() + 60000};
    bed_submit_spec(&bed, &later);
    assert_int_equal(told, STORE_NOTIFY_TIME | STORE_NOTIFY_END);
    bed_release(&bed);
}

static void bad_operation_fails_alone(void **state)
{
    (void)state;
    static const char *const TASKS[] = {"good", "bad", "good"};
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    submit_three(&bed, TASKS, ops);
    assert_int_equal(ops[0].op.code, 0);
    assert_int_equal(ops[1].op.code, REDRIVE_E_CORRUPT);
    assert_string_equal(ops[1].op.err.message, "the store chokes on it");
    assert_int_equal(ops[2].op.code, 0);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 2);
    assert_int_equal(bed_counter(&bed, "jobs_received", ""), 2);
    release_three(ops);
    bed_release(&bed);
}

/* Two connections that waited for each other, say: the server has let one of them go. */
static void transaction_that_others_were_in_the_way_of_is_tried_again_though_it_is_alone(
    void **state)
{
    (void)state;
    struct bed bed;
    make_fragile(&bed);
    fail_commit = REDRIVE_E_CANCELLED;
    commit_came_first = false;
    bed_submit(&bed, "a", "{}");
    assert_int_equal(commits, 2);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 1);
    assert_int_equal(bed_counter(&bed, "jobs_received", ""), 1);
    bed_release(&bed);
}

static void transaction_is_not_given_up_because_others_were_faster_many_times(void **state)
{
    (void)state;
    struct bed bed;
    make_fragile(&bed);
    fail_commit = REDRIVE_E_CANCELLED;
    fail_times = 20;
    commit_came_first = false;
    bed_submit(&bed, "a", "{}");
    assert_int_equal(commits, 21);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 1);
    bed_release(&bed);
}

/* Each would wait in vain for the store, and everybody with it. */
static void operations_are_not_tried_one_by_one_on_a_store_that_is_gone(void **state)
{
    (void)state;
    static const char *const TASKS[] = {"bad", "good", "good"};
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    begins = 0;
    begins_left = 1;
    submit_three(&bed, TASKS, ops);
    assert_int_equal(begins, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_string_equal(ops[i].op.err.message, "the store is gone");
    }
    release_three(ops);
    bed_release(&bed);
}

static void failed_commit_that_did_nothing_is_tried_again(void **state)
{
    (void)state;
    static const char *const TASKS[] = {"a", "b", "c"};
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    fail_commit = REDRIVE_E_NOMEM;
    commit_came_first = false;
    submit_three(&bed, TASKS, ops);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ops[i].op.code, 0);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 3);
    release_three(ops);
    bed_release(&bed);
}

static void unclear_commit_is_told_to_all_and_not_repeated(void **state)
{
    (void)state;
    static const char *const TASKS[] = {"a", "b", "c"};
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    fail_commit = REDRIVE_E_IO;
    commit_came_first = true;
    submit_three(&bed, TASKS, ops);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_non_null(strstr(ops[i].op.err.hint, "may or may not"));
    }
    assert_int_equal(commits, 1);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 3);
    assert_int_equal(bed_claim(&bed, 10), 3);
    release_three(ops);
    bed_release(&bed);
}

/* A new breaker is to be written with it. */
static int settle_one(struct bed *bed, const struct job_status *job, struct redrive_err *err)
{
    struct settlement s = {.seq = job->seq, .token = job->token, .outcome = {.ending = ENDING_RAN}};
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    shared_puts = 0;
    return engine_apply_one(bed->engine, &op.op, err);
}

static void a_store_that_fails_to_write_breakers_is_not_taken_for_a_race(void **state)
{
    (void)state;
    struct bed bed;
    struct redrive_err err = {0};
    make_fragile(&bed);
    bed_submit(&bed, "call", NULL);
    const struct job_status job = bed_claim_one(&bed)->status;
    put_code = REDRIVE_E_STATE;
    assert_int_equal(settle_one(&bed, &job, &err), REDRIVE_E_STATE);
    assert_string_equal(err.message, "the session is another one");
    assert_int_equal(shared_puts, 1);
    put_code = 0;
    assert_int_equal(settle_one(&bed, &job, NULL), 0);
    bed_release(&bed);
}

static void a_transaction_that_is_given_up_says_what_was_in_its_way(void **state)
{
    (void)state;
    struct bed bed;
    struct redrive_err err = {0};
    make_fragile(&bed);
    bed_submit(&bed, "call", NULL);
    const struct job_status job = bed_claim_one(&bed)->status;
    put_refused = true;
    assert_int_equal(settle_one(&bed, &job, &err), REDRIVE_E_IO);
    assert_string_equal(err.message, "another process has changed the same breaker or limit");
    assert_non_null(strstr(err.detail, "tried "));
    assert_true(shared_puts > 1);
    put_refused = false;
    assert_int_equal(settle_one(&bed, &job, NULL), 0);
    bed_release(&bed);
}

static void breaker_forgets_what_was_rolled_back(void **state)
{
    (void)state;
    struct bed bed;
    make_fragile(&bed);
    for (int i = 0; i < 5; i++)
        bed_submit(&bed, "call", NULL);
    assert_int_equal(bed_claim(&bed, 5), 5);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bed_fail(&bed, &bed.claim.jobs[i], "network"), 0);
    struct settlement s = {.seq = bed.claim.jobs[4].status.seq,
                           .token = bed.claim.jobs[4].status.token,
                           .outcome = {.failure = {.status = "network"}}};
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    fail_commit = REDRIVE_E_IO;
    commit_came_first = false;
    assert_int_equal(engine_apply_one(bed.engine, &op.op, NULL), REDRIVE_E_IO);
    assert_int_equal(bed_breaker(&bed, "call"), REDRIVE_BREAKER_CLOSED);
    assert_int_equal(engine_apply_one(bed.engine, &op.op, NULL), 0);
    assert_int_equal(s.ret.code, 0);
    assert_int_equal(bed_breaker(&bed, "call"), REDRIVE_BREAKER_OPEN);
    bed_release(&bed);
}

/* One settlement that comes too late may cost its whole transaction a second try. */
static void settlements_that_are_tried_again_are_not_looked_up_one_by_one(void **state)
{
    (void)state;
    struct bed bed;
    struct settlement s[5] = {{.seq = 0}};
    struct settle_op op;
    make_fragile(&bed);
    for (int i = 0; i < 5; i++)
        bed_submit(&bed, "call", NULL);
    assert_int_equal(bed_claim(&bed, 5), 5);
    for (int i = 0; i < 5; i++)
        s[i] = (struct settlement){.seq = bed.claim.jobs[i].status.seq,
                                   .token = bed.claim.jobs[i].status.token};
    settle_op_init(&op, s, 5);
    fail_commit = REDRIVE_E_CANCELLED;
    commit_came_first = false;
    commits = lists = 0;
    assert_int_equal(engine_apply_one(bed.engine, &op.op, NULL), 0);
    assert_int_equal(commits, 2);
    assert_int_equal(lists, 0);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_COMPLETED), 5);
    /* Then they are forgotten. */
    assert_int_equal(engine_apply_one(bed.engine, &op.op, NULL), 0);
    assert_int_equal(s[4].ret.code, REDRIVE_E_STATE);
    assert_true(lists >= 5);
    bed_release(&bed);
}

/* What a run holds is given back by whoever cancels it, so that the store must know what was seen
 * of it. */
static void a_cancel_says_whether_the_job_was_seen_to_run(void **state)
{
    (void)state;
    struct bed bed;
    make_fragile(&bed);
    bed_submit(&bed, "t", "{}");
    const struct job *job = bed_claim_one(&bed);
    const uint64_t token = job->status.token;
    assert_int_equal(bed_change(&bed, MOVE_CANCEL, job->status.seq), 0);
    assert_int_equal(seen_token, token);
    assert_int_equal(bed_change(&bed, MOVE_CANCEL, bed_submit(&bed, "t", "{}")), 0);
    assert_int_equal(seen_token, 0);
    bed_release(&bed);
}

static void store_that_is_away_is_logged_once_and_so_is_its_return(void **state)
{
    (void)state;
    struct bed bed;
    int64_t next_ms;
    make_fragile(&bed);
    begins_left = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(engine_tick(bed.engine, &next_ms, NULL), REDRIVE_E_IO);
    assert_int_equal(count_partitions("store_failed"), 1);
    assert_int_equal(count_partitions("store_works_again"), 0);
    begins_left = UINT_MAX;
    for (int i = 0; i < 3; i++)
        assert_int_equal(engine_tick(bed.engine, &next_ms, NULL), 0);
    assert_int_equal(count_partitions("store_works_again"), 1);
    begins = 0;
    begins_left = 0;
    assert_int_equal(engine_tick(bed.engine, &next_ms, NULL), REDRIVE_E_IO);
    assert_int_equal(count_partitions("store_failed"), 2);
    bed_release(&bed);
}

static void failed_commit_that_did_nothing_is_not_called_unclear(void **state)
{
    (void)state;
    static const char *const TASKS[] = {"a", "b", "c"};
    struct bed bed;
    struct submit_op ops[3];
    make_fragile(&bed);
    fail_commit = REDRIVE_E_IO;
    commit_came_first = false;
    commit_is_rolled_back = true;
    submit_three(&bed, TASKS, ops);
    commit_is_rolled_back = false;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_null(strstr(ops[i].op.err.hint, "may or may not"));
    }
    release_three(ops);
    bed_release(&bed);
}

static int submit_task(struct bed *bed, const char *task)
{
    struct submit_op op;
    const struct job_spec spec = {.task = str_of(task)};
    assert_int_equal(submit_op_init(&op, bed->engine, &spec, 1, NULL), 0);
    int rc = engine_apply_one(bed->engine, &op.op, NULL);
    submit_op_release(&op);
    return rc;
}

static void store_status_tells_of_writes_that_fail_until_one_goes_well(void **state)
{
    (void)state;
    struct bed bed;
    struct store_status_view store_status;
    int64_t next_ms;
    make_fragile(&bed);
    assert_int_equal(submit_task(&bed, "a"), 0);
    store_status_read(engine_store_status(bed.engine), &store_status);
    assert_false(store_status.is_failing);
    assert_true(store_status.heard_ms > 0 && store_status.since_ms == 0 &&
                store_status.busy_ms == 0);
    fail_commit = REDRIVE_E_IO;
    fail_times = 31;
    for (int i = 0; i < 31; i++)
        assert_int_equal(submit_task(&bed, "a"), REDRIVE_E_IO);
    assert_int_equal(count_partitions("store_failed"), 1);
    assert_non_null(strstr(buf_cstr(&lines), "ERROR"));
    /* A tick that has nothing to write proves nothing. */
    assert_int_equal(engine_tick(bed.engine, &next_ms, NULL), 0);
    store_status_read(engine_store_status(bed.engine), &store_status);
    assert_true(store_status.is_failing && store_status.since_ms > 0);
    assert_false(store_status.is_away);
    assert_string_equal(store_status.err.message, "the commit failed");
    assert_int_equal(store_status.errors[-REDRIVE_E_IO], 31);
    assert_int_equal(submit_task(&bed, "a"), 0);
    store_status_read(engine_store_status(bed.engine), &store_status);
    assert_false(store_status.is_failing);
    assert_int_equal(store_status.errors[-REDRIVE_E_IO], 31);
    assert_int_equal(count_partitions("store_works_again"), 1);
    bed_release(&bed);
}

static void store_of_one_file_is_never_away(void **state)
{
    (void)state;
    struct bed bed;
    struct store_status_view store_status;
    make_fragile(&bed);
    begins_left = 0;
    begins = 0;
    assert_int_equal(submit_task(&bed, "a"), REDRIVE_E_IO);
    store_status_read(engine_store_status(bed.engine), &store_status);
    assert_true(store_status.is_failing);
    assert_false(store_status_is_away(engine_store_status(bed.engine), NULL));
    begins_left = UINT_MAX;
    bed_release(&bed);
}

static void server_that_no_transaction_reaches_is_away_until_one_does(void **state)
{
    (void)state;
    struct redrive_err err = {0}, why = {0};
    struct store_status *store_status = store_status_new(NULL, true, 0);
    (void)err_set(&err, REDRIVE_E_IO, "refused");
    assert_false(store_status_is_away(store_status, &why));
    store_status_begins(store_status);
    store_status_failed(store_status, false, &err);
    assert_true(store_status_is_away(store_status, &why));
    assert_string_equal(why.message, "refused");
    store_status_worked(store_status, false);
    assert_false(store_status_is_away(store_status, &why));
    struct store_status_view seen;
    store_status_read(store_status, &seen);
    assert_false(seen.is_failing);
    (void)err_set(&err, REDRIVE_E_TOO_BIG, "too big");
    store_status_failed(store_status, true, &err);
    store_status_read(store_status, &seen);
    assert_false(seen.is_failing); /* it is the fault of whoever asked */
    assert_int_equal(seen.errors[-REDRIVE_E_TOO_BIG], 1);
    char name[32];
    assert_string_equal(store_status_kind_name(REDRIVE_E_TOO_BIG, name), "too_big");
    store_status_free(store_status);
}

static void transaction_that_moves_nothing_is_not_committed(void **state)
{
    (void)state;
    struct bed bed;
    make_fragile(&bed);
    assert_int_equal(bed_claim(&bed, 10), 0);
    assert_int_equal(commits, 0);
    bed_release(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(operations_share_one_commit),
        T(what_comes_while_a_transaction_waits_goes_with_it),
        T(a_transaction_that_is_tried_again_takes_along_what_came_meanwhile),
        T(others_are_told_what_they_can_make_use_of),
        T(bad_operation_fails_alone),
        T(transaction_that_others_were_in_the_way_of_is_tried_again_though_it_is_alone),
        T(transaction_is_not_given_up_because_others_were_faster_many_times),
        T(operations_are_not_tried_one_by_one_on_a_store_that_is_gone),
        T(failed_commit_that_did_nothing_is_tried_again),
        T(unclear_commit_is_told_to_all_and_not_repeated),
        T(a_store_that_fails_to_write_breakers_is_not_taken_for_a_race),
        T(a_transaction_that_is_given_up_says_what_was_in_its_way),
        T(breaker_forgets_what_was_rolled_back),
        T(settlements_that_are_tried_again_are_not_looked_up_one_by_one),
        T(a_cancel_says_whether_the_job_was_seen_to_run),
        T(store_that_is_away_is_logged_once_and_so_is_its_return),
        T(failed_commit_that_did_nothing_is_not_called_unclear),
        T(store_status_tells_of_writes_that_fail_until_one_goes_well),
        T(store_of_one_file_is_never_away),
        T(server_that_no_transaction_reaches_is_away_until_one_does),
        T(transaction_that_moves_nothing_is_not_committed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_release(&lines);
    return failed;
}
