/* A tenant is moved from one shard to another: no job is lost, and none is started twice, also if
 * the move is interrupted before any of its steps. */
#include "tenant_field.h"

#include "engine/verbs/control.h"

FIELD_TEST(a_tenant_is_on_its_new_shard_with_all_it_has)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 2] = {0};
    int64_t seq;
    submit_own(f);
    const struct job_spec other_tenant = {.task = STR("t"), .tenant = STR("tenant-0")};
    assert_int_equal(submit_spec(f, &other_tenant, &seq, NULL), 0);
    assert_int_equal(move_tenant(f, other(1), NULL, 0, &move, &err), 0);
    assert_int_equal(move.from, home());
    assert_int_equal(move.moved, N_OWN);
    assert_int_equal(count_on(f, home()), 0);
    assert_int_equal(count_on(f, other(1)), N_OWN);
    /* The router does not know of it, and is told by the shard that it has left. */
    const struct job_spec spec = {.task = STR("t"), .tenant = STR(TENANT), .id = STR("j251")};
    assert_int_equal(submit_spec(f, &spec, &seq, &err), 0);
    assert_int_equal(shard_of_seq(seq), other(1));
    assert_int_equal(claim_each_once(f, seen, N_OWN + 2), N_OWN + 1);
    /* Again is nothing, and back is possible, when its jobs do not run. */
    assert_int_equal(move_tenant(f, other(1), NULL, 0, &move, &err), 0);
    assert_int_equal(move.from, move.to);
    assert_int_equal(move_tenant(f, home(), NULL, 0, &move, &err), REDRIVE_E_STATE);
}

/* By every label, as a new reader counts it, which knows of all moves. */
static int64_t count_received(struct field *f)
{
    struct counter_page page = {0};
    struct store *reader;
    int64_t n = 0;
    assert_int_equal(store_open(f->url, NULL, &reader, NULL), 0);
    assert_int_equal(store_ops(reader)->counters_list(reader, STR(TENANT), &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        n += str_is(page.counters[i].name, "jobs_received") ? page.counters[i].value : 0;
    counter_page_release(&page);
    store_close(reader);
    return n;
}

FIELD_TEST(a_tenant_can_go_on_to_a_third_shard_and_back)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 2] = {0};
    submit_own(f);
    const int64_t received = count_received(f);
    assert_true(received >= N_OWN);
    const size_t way[] = {other(1), other(2), home(), other(2)};
    for (size_t i = 0; i < 4; i++) {
        if (move_tenant(f, way[i], NULL, 0, &move, &err) != 0)
            fail_msg("%s: %s", err.message, err.detail);
        assert_int_equal(move.moved, N_OWN);
        for (size_t k = 0; k < N_SHARDS; k++)
            assert_int_equal(count_on(f, k), k == way[i] ? N_OWN : 0);
        assert_int_equal(submit_id(f, "j1", &err), 0); /* the same again: it is there */
        assert_int_equal(count_on(f, way[i]), N_OWN);
    }
    assert_int_equal(claim_each_once(f, seen, N_OWN + 2), N_OWN);
    /* What was counted on each shard is the tenant's. */
    assert_int_equal(count_received(f), received);
}

/* The same call goes on. The router has engines that know nothing of the move beside. */
static void stopped_before(const char *step, int nth)
{
    struct field f;
    struct stop stop = {.step = step, .nth = nth};
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 2] = {0};
    field_init(&f);
    submit_own(&f);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    const size_t early = claim_each_once(&f, seen, N_OWN + 2);
    const bool is_before = strcmp(step, "leave") == 0, is_after = strcmp(step, "clean") == 0;
    assert_int_equal(early, is_before || is_after ? N_OWN : 0);
    if (!is_before && !is_after) {
        assert_int_equal(submit_id(&f, "j251", &err), REDRIVE_E_IO);
        assert_int_equal(move_tenant(&f, other(2), NULL, 0, &move, &err), REDRIVE_E_STATE);
        assert_int_equal(move_tenant(&f, SIZE_MAX, NULL, 0, &move, &err), 0);
        assert_int_equal(claim_each_once(&f, seen, N_OWN + 2), N_OWN);
        assert_int_equal(count_on(&f, home()), 0);
        assert_int_equal(count_on(&f, other(1)), N_OWN);
    } else if (is_after) {
        assert_int_equal(move_tenant(&f, SIZE_MAX, NULL, 0, &move, &err), 0);
    }
    assert_int_equal(submit_id(&f, "j251", &err), 0);
    assert_int_equal(claim_each_once(&f, seen, N_OWN + 2), 1);
    field_release(&f);
}

TEST(a_move_that_was_stopped_before_any_step_goes_on)
{
    static const struct {
        const char *step;
        int nth;
    } STOPS[] = {{"leave", 0}, {"arrive", 0}, {"wait", 0}, {"copy", 0}, {"copy", 1},
                 {"copy", 2},  {"take", 0},   {"take", 1}, {"take", 2}, {"keys", 0},
                 {"left", 0},  {"here", 0},   {"clean", 0}};
    for (size_t i = 0; i < sizeof STOPS / sizeof STOPS[0]; i += fault_step())
        stopped_before(STOPS[i].step, STOPS[i].nth);
}

TEST(jobs_that_run_are_waited_for)
{
    struct field f;
    struct stop stop = {.step = "wait", .nth = 3, .before = settle_now, .field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    const struct claim_filter filter = {.limit = 1, .tenant = STR(TENANT)};
    struct claim_op claim;
    field_init(&f);
    assert_int_equal(submit_id(&f, "j1", NULL), 0);
    assert_int_equal(submit_id(&f, "j2", NULL), 0);
    claim_op_init(&claim, &filter, STR("w"), 60000);
    assert_int_equal(committer_run(f.committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    stop.seq = claim.jobs[0].status.seq;
    stop.token = claim.jobs[0].status.token;
    claim_op_release(&claim);
    /* Too long: the tenant goes on where it is. */
    assert_int_equal(move_tenant(&f, other(1), NULL, 100, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "still run: 1"));
    assert_int_equal(submit_id(&f, "j3", &err), 0);
    assert_int_equal(count_on(&f, home()), 3);
    assert_int_equal(move_tenant(&f, other(1), &stop, 10000, &move, &err), 0);
    assert_int_equal(move.moved, 3);
    /* A claim by tenant is sent after it as well. */
    claim_op_init(&claim, &filter, STR("w"), 60000);
    assert_int_equal(committer_run(f.committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    assert_int_equal(shard_of_seq(claim.jobs[0].status.seq), other(1));
    claim_op_release(&claim);
    field_release(&f);
}

FIELD_TEST(a_move_that_goes_on_waits_no_longer_than_it_may)
{
    struct stop stop = {.step = "wait"};
    struct tenant_move move;
    struct redrive_err err = {0};
    const struct claim_filter filter = {.limit = 1, .tenant = STR(TENANT)};
    struct claim_op claim;
    assert_int_equal(submit_id(f, "j1", NULL), 0);
    claim_op_init(&claim, &filter, STR("w9"), 60000);
    assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    struct stop end = {
        .field = f, .seq = claim.jobs[0].status.seq, .token = claim.jobs[0].status.token};
    claim_op_release(&claim);
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    assert_int_equal(move_tenant(f, SIZE_MAX, NULL, 300, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "still run: 1"));
    assert_non_null(strstr(err.detail, "j1"));
    assert_non_null(strstr(err.detail, "w9"));
    assert_non_null(strstr(err.hint, "--back"));
    assert_non_null(strstr(err.hint, "--wait"));
    assert_int_equal(submit_id(f, "j2", &err), REDRIVE_E_IO); /* it is held */
    settle_now(&end);
    assert_int_equal(move_tenant(f, SIZE_MAX, NULL, 300, &move, &err), 0);
    assert_int_equal(count_on(f, other(1)), 1);
}

/* What a tenant has beside queued jobs: jobs that wait for others, dead letters, pauses, and a
 * queue that was paused by hand stays so. */
FIELD_TEST(workflows_and_pauses_go_with_the_tenant)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    struct pause_op pause;
    int64_t seq;
    const struct job_after after = {.id = STR("j1")};
    const struct job_spec parent = {.task = STR("t"), .tenant = STR(TENANT), .id = STR("j1")};
    const struct job_spec child = {
        .task = STR("t"), .tenant = STR(TENANT), .id = STR("j2"), .after = &after, .n_after = 1};
    const struct job_spec paused = {
        .task = STR("t"), .tenant = STR(TENANT), .id = STR("j3"), .queue = STR("still")};
    assert_int_equal(submit_spec(f, &parent, &seq, NULL), 0);
    assert_int_equal(submit_spec(f, &child, &seq, NULL), 0);
    assert_int_equal(submit_spec(f, &paused, &seq, NULL), 0);
    pause_op_init(&pause, STR(TENANT), STR("still"), true);
    assert_int_equal(committer_run(f->committer, &pause.op, NULL), 0);
    assert_int_equal(move_tenant(f, other(3), NULL, 0, &move, &err), 0);
    assert_int_equal(move.moved, 3);

    const char *const order[] = {"j1", "j2"};
    for (size_t i = 0; i < 3; i++) {
        const struct claim_filter filter = {.limit = 10, .tenant = STR(TENANT)};
        struct claim_op claim;
        claim_op_init(&claim, &filter, STR("w"), 60000);
        assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
        assert_int_equal(claim.n, i < 2 ? 1 : 0);
        if (claim.n > 0) {
            assert_true(str_is(claim.jobs[0].spec.id, order[i]));
            struct stop stop = {
                .field = f, .seq = claim.jobs[0].status.seq, .token = claim.jobs[0].status.token};
            settle_now(&stop);
        }
        claim_op_release(&claim);
    }
    pause_op_init(&pause, STR(TENANT), STR("still"), false);
    assert_int_equal(committer_run(f->committer, &pause.op, NULL), 0);
    bool seen[4] = {0};
    assert_int_equal(claim_each_once(f, seen, 4), 1);
    assert_true(seen[3]);
    /* By its name, as people name it, a job is found where it is. */
    struct change_item item = {.tenant = STR(TENANT), .id = STR("j2")};
    struct change_op change;
    change_op_init(&change, MOVE_REMOVE, &item, 1);
    assert_int_equal(committer_run(f->committer, &change.op, &err), 0);
    assert_int_equal(item.ret.code, 0);
}

/* After the move, the number that j1 had is that of j2, within the new shard. */
FIELD_TEST(a_number_from_before_the_move_names_no_other_job)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    int64_t seqs[4];
    for (int i = 0; i < 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "j%d", i);
        const struct job_spec spec = {.task = STR("t"), .tenant = STR(TENANT), .id = str_of(id)};
        assert_int_equal(submit_spec(f, &spec, &seqs[i], NULL), 0);
    }
    struct change_item item = {.seq = seqs[0], .tenant = STR(TENANT)};
    change_all(f, MOVE_CANCEL, &item, 1);
    change_all(f, MOVE_REMOVE, &item, 1);
    assert_int_equal(item.ret.code, 0);
    assert_int_equal(move_tenant(f, other(1), NULL, 0, &move, &err), 0);
    /* Together with one that is named by its id: that one may be tried again. */
    struct change_item both[] = {{.seq = seqs[1], .tenant = STR(TENANT)},
                                 {.tenant = STR(TENANT), .id = STR("j3")}};
    change_all(f, MOVE_CANCEL, both, 2);
    assert_int_equal(both[1].ret.code, REDRIVE_E_IO);
    change_all(f, MOVE_CANCEL, both, 2);
    assert_int_equal(both[0].ret.code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(both[1].ret.code, 0);
    item = (struct change_item){.seq = seqs[1], .tenant = STR(TENANT)};
    change_all(f, MOVE_CANCEL, &item, 1);
    assert_int_equal(item.ret.code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(state_on(f, other(1), "j1"), REDRIVE_STATE_QUEUED);
    assert_int_equal(state_on(f, other(1), "j2"), REDRIVE_STATE_QUEUED);
    assert_int_equal(state_on(f, other(1), "j3"), REDRIVE_STATE_CANCELLED);
}

/* What a process that was frozen has left on the other shard. */
FIELD_TEST(a_job_that_the_new_shard_refuses_is_named)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    submit_unique(f, "j1", "K");
    put_there(f, other(1), "j2", "K", NULL);
    struct stop stop = {.step = "copy", .nth = 20}; /* else it would go on for ever */
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "refuses job 'j1'"));
    assert_non_null(strstr(err.detail, "K"));
    assert_non_null(strstr(err.hint, "--back"));
    /* The way out: the tenant has its job, and what was not copied stays where it was. */
    assert_int_equal(submit_id(f, "j3", &err), REDRIVE_E_IO);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), 0);
    assert_int_equal(move.kept, 1);
    assert_non_null(strstr(move.refusal.message, "refuses job 'j2'"));
    assert_int_equal(count_on(f, home()), 1);
    assert_int_equal(count_on(f, other(1)), 1);
    assert_int_equal(submit_id(f, "j3", &err), 0);
    assert_int_equal(state_on(f, home(), "j1"), REDRIVE_STATE_QUEUED);
}

/* A job that cannot come since another one is refused is not what a person must look at. */
FIELD_TEST(a_job_that_is_refused_is_named_rather_than_those_that_wait_for_it)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    submit_unique(f, "j1", "K");
    submit_after(f, "j5", "j1", AFTER_END);
    submit_after(f, "j6", "j5", AFTER_END);
    put_there(f, other(1), "j2", "K", NULL);
    assert_int_equal(move_tenant(f, other(1), NULL, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "refuses job 'j1'"));
    assert_non_null(strstr(err.detail, "K"));
    assert_non_null(strstr(err.hint, "--back"));
    assert_int_equal(count_on(f, other(1)), 1);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), 0);
    assert_int_equal(move.kept, 1);
    assert_int_equal(count_on(f, home()), 3);
    assert_int_equal(state_on(f, home(), "j6"), REDRIVE_STATE_WAITING);
    assert_int_equal(submit_id(f, "j3", &err), 0);
}

static void redrive_on_old(struct stop *stop)
{
    struct change_item item = {.seq = stop->seq};
    change_all(stop->field, MOVE_REDRIVE, &item, 1);
    assert_int_equal(item.ret.code, 0);
}

/* A parent that was made again on the new shard has a higher number there than its child, which is
 * read in an earlier batch of the next move, or of the way back. */
TEST(a_child_that_is_read_before_its_parent_goes_with_it)
{
    for (int is_back = 0; is_back < 2; is_back++) {
        struct field f;
        struct stop stop = {.step = "take", .before = redrive_on_old, .field = &f};
        struct tenant_move move;
        struct redrive_err err = {0};
        const struct job_after after = {.id = STR("j251"),
                                        .rule = {AFTER_SUCCESS, AFTER_DEAD_WAIT}};
        const struct job_spec parent = {.task = STR("t"), .tenant = STR(TENANT), .id = STR("j251")};
        const struct job_spec child = {.task = STR("t"),
                                       .tenant = STR(TENANT),
                                       .id = STR("j252"),
                                       .after = &after,
                                       .n_after = 1};
        struct change_item dead = {.tenant = STR(TENANT), .id = STR("j251")};
        int64_t seq;
        field_init(&f);
        assert_int_equal(submit_spec(&f, &parent, &stop.seq, NULL), 0);
        assert_int_equal(submit_spec(&f, &child, &seq, NULL), 0);
        submit_own(&f);
        change_all(&f, MOVE_END, &dead, 1);
        stop.then = is_back ? "left" : NULL;
        const int rc = move_tenant(&f, other(1), &stop, 0, &move, &err);
        assert_int_equal(rc, is_back ? REDRIVE_E_CANCELLED : 0);
        const size_t to = is_back ? home() : other(2);
        if (move_tenant(&f, is_back ? BACK : to, NULL, 0, &move, &err) != 0)
            fail_msg("%s: %s", err.message, err.detail);
        assert_int_equal(move.kept, 0);
        assert_int_equal(count_on(&f, to), N_OWN + 2);
        assert_int_equal(count_on(&f, other(1)), 0);
        assert_int_equal(state_on(&f, to, "j252"), REDRIVE_STATE_WAITING);
        dead = (struct change_item){.tenant = STR(TENANT), .id = STR("j251")};
        change_all(&f, MOVE_CANCEL, &dead, 1);
        assert_int_equal(state_on(&f, to, "j252"), REDRIVE_STATE_CANCELLED);
        field_release(&f);
    }
}

static void cancel_there(struct field *f, size_t shard, const char *id)
{
    struct store *store = sharded_of(f->reader)->stores[shard];
    const struct job_name name = {STR(TENANT), str_of(id)};
    struct job_page page = {0};
    struct move_result result = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->lookup(store, &name, 1, &page, NULL), 0);
    const struct change_move cancel = {.seq = page.jobs[0].status.seq, .kind = MOVE_CANCEL};
    assert_int_equal(store_ops(store)->begin(store, clock_wall_ms(), &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, CHANGES(&cancel, 1), &result, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    job_page_release(&page);
}

/* The copy of a job that is refused stays: another job waits for it there. */
TEST(a_child_waits_for_a_copy_that_could_not_be_made_again)
{
    struct field f;
    struct stop take = {.step = "take"}, old = {.field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    struct change_item item = {.tenant = STR(TENANT), .id = STR("j1")};
    const struct job_after after = {.id = STR("j1"), .rule = {AFTER_SUCCESS, AFTER_DEAD_WAIT}};
    const struct job_spec parent = {
        .task = STR("t"), .tenant = STR(TENANT), .id = STR("j1"), .unique_key = STR("K")};
    const struct job_spec child = {
        .task = STR("t"), .tenant = STR(TENANT), .id = STR("j5"), .after = &after, .n_after = 1};
    int64_t seq;
    field_init(&f);
    assert_int_equal(submit_spec(&f, &parent, &old.seq, NULL), 0);
    assert_int_equal(submit_spec(&f, &child, &seq, NULL), 0);
    change_all(&f, MOVE_END, &item, 1);
    assert_int_equal(move_tenant(&f, other(1), &take, 0, &move, &err), REDRIVE_E_CANCELLED);
    put_there(&f, other(1), "j2", "K", NULL);
    redrive_on_old(&old);
    assert_int_equal(move_tenant(&f, other(1), NULL, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "refuses job 'j1'"));
    cancel_there(&f, other(1), "j2");
    assert_int_equal(move_tenant(&f, other(1), NULL, 0, &move, &err), 0);
    assert_int_equal(state_on(&f, other(1), "j5"), REDRIVE_STATE_WAITING);
    item = (struct change_item){.tenant = STR(TENANT), .id = STR("j1")};
    change_all(&f, MOVE_CANCEL, &item, 1);
    assert_int_equal(state_on(&f, other(1), "j5"), REDRIVE_STATE_CANCELLED);
    field_release(&f);
}

static void begin_another(struct stop *stop)
{
    struct stop middle = {.step = "take"};
    struct tenant_move move;
    assert_int_equal(move_tenant(stop->field, other(2), &middle, 0, &move, NULL),
                     REDRIVE_E_CANCELLED);
}

/* Both have found the tenant where it was: the later one must not lead the first one elsewhere. */
TEST(a_tenant_that_another_process_begins_to_move_is_left_to_it)
{
    struct field f;
    struct stop stop = {.step = "leave", .before = begin_another, .field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 1] = {0};
    field_init(&f);
    submit_own(&f);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "another process"));
    assert_int_equal(move_tenant(&f, other(2), NULL, 0, &move, &err), 0);
    assert_int_equal(move.moved, N_OWN);
    assert_int_equal(count_on(&f, other(1)), 0);
    assert_int_equal(count_on(&f, other(2)), N_OWN);
    assert_int_equal(claim_each_once(&f, seen, N_OWN + 1), N_OWN);
    field_release(&f);
}
