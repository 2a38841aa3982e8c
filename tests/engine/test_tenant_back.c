/* A move of a tenant that has not come to its end is taken back: no job is lost, and none is
 * started twice, also if the way back is interrupted before any of its steps, or the move still
 * goes on in another process. */
#include "tenant_field.h"

/* Everything is as if the tenant had never been moved, and it may be moved once more. */
static void check_back(struct field *f)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 2] = {0};
    for (size_t k = 0; k < N_SHARDS; k++)
        assert_int_equal(count_on(f, k), k == home() ? N_OWN : 0);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "no move"));
    assert_int_equal(move_tenant(f, other(2), NULL, 0, &move, &err), 0);
    assert_int_equal(move.moved, N_OWN);
    assert_int_equal(move_tenant(f, home(), NULL, 0, &move, &err), 0);
    assert_int_equal(claim_each_once(f, seen, N_OWN + 2), N_OWN);
    assert_int_equal(submit_id(f, "j251", &err), 0);
    assert_int_equal(claim_each_once(f, seen, N_OWN + 2), 1);
}

/* Stops a move before a step, and the way back before another. */
static void back_from(const char *step, int nth, const char *back_step, int back_nth)
{
    struct field f;
    struct stop stop = {.step = step, .nth = nth}, again = {.step = back_step, .nth = back_nth};
    struct tenant_move move;
    struct redrive_err err = {0};
    field_init(&f);
    submit_own(&f);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    assert_non_null(strstr(err.hint, "--back"));
    if (back_step) {
        assert_int_equal(move_tenant(&f, BACK, &again, 0, &move, &err), REDRIVE_E_CANCELLED);
        assert_int_equal(submit_id(&f, "j251", &err), REDRIVE_E_IO);
        /* The move does not go on from here. */
        if (strcmp(back_step, "return") != 0) {
            assert_int_equal(move_tenant(&f, other(1), NULL, 0, &move, &err), REDRIVE_E_STATE);
            assert_non_null(strstr(err.hint, "--back"));
            assert_int_equal(move_tenant(&f, other(2), NULL, 0, &move, &err), REDRIVE_E_STATE);
        }
    }
    if (move_tenant(&f, BACK, NULL, 0, &move, &err) != 0)
        fail_msg("%s %d: %s: %s", step, nth, err.message, err.detail);
    assert_int_equal(move.from, home());
    assert_int_equal(move.to, other(1));
    assert_int_equal(move.kept, 0);
    check_back(&f);
    field_release(&f);
}

TEST(a_move_that_was_stopped_before_any_step_is_taken_back)
{
    static const struct {
        const char *step;
        int nth;
    } STOPS[] = {{"arrive", 0}, {"wait", 0}, {"copy", 0}, {"copy", 1}, {"take", 0},
                 {"take", 1},   {"take", 2}, {"keys", 0}, {"left", 0}};
    for (size_t i = 0; i < sizeof STOPS / sizeof STOPS[0]; i += fault_step())
        back_from(STOPS[i].step, STOPS[i].nth, NULL, 0);
}

TEST(the_way_back_that_was_stopped_before_any_step_goes_on)
{
    static const struct {
        const char *step;
        int nth;
    } STOPS[] = {{"return", 0}, {"close", 0}, {"copy", 0},  {"copy", 2},
                 {"take", 0},   {"take", 2},  {"clean", 0}, {"release", 0}};
    for (size_t i = 0; i < sizeof STOPS / sizeof STOPS[0]; i += fault_step())
        back_from("take", 2, STOPS[i].step, STOPS[i].nth);
}

FIELD_TEST(a_tenant_that_the_new_shard_has_is_not_taken_back)
{
    struct stop stop = {.step = "here"};
    struct tenant_move move;
    struct redrive_err err = {0};
    submit_own(f);
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "has taken over"));
    assert_int_equal(move_tenant(f, SIZE_MAX, NULL, 0, &move, &err), 0);
    assert_int_equal(count_on(f, other(1)), N_OWN);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "no move"));
}

/* Another process takes the move back while this one is at it: this one must not go on. */
static void take_back(struct stop *stop)
{
    struct tenant_move move;
    assert_int_equal(move_tenant(stop->field, BACK, NULL, 0, &move, NULL), 0);
}

TEST(a_move_that_is_taken_back_meanwhile_ends)
{
    static const char *const STEPS[] = {"arrive", "wait", "copy", "take", "keys", "left"};
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i += fault_step()) {
        struct field f;
        struct stop stop = {.step = STEPS[i], .before = take_back, .field = &f};
        struct tenant_move move;
        struct redrive_err err = {0};
        field_init(&f);
        submit_own(&f);
        assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), REDRIVE_E_STATE);
        assert_non_null(strstr(err.message, "another process"));
        check_back(&f);
        field_release(&f);
    }
}

/* The shard of the name is asked first, and has to lead to the other one all the time. */
TEST(a_move_to_the_shard_of_the_name_is_taken_back)
{
    static const char *const STEPS[] = {"arrive", "wait", "copy", "take", "keys", "left"};
    static const char *const BACKS[] = {"close", "copy", "take", "clean", "release"};
    for (size_t i = 0; i < 6 * 5; i += fault_step()) {
        struct field f;
        struct stop stop = {.step = STEPS[i % 6]}, back = {.step = BACKS[i / 6]};
        struct tenant_move move;
        struct redrive_err err = {0};
        bool seen[N_OWN + 2] = {0};
        field_init(&f);
        submit_own(&f);
        assert_int_equal(move_tenant(&f, other(1), NULL, 0, &move, &err), 0);
        assert_int_equal(move_tenant(&f, home(), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
        assert_int_equal(move_tenant(&f, BACK, &back, 0, &move, &err), REDRIVE_E_CANCELLED);
        assert_int_equal(move_tenant(&f, BACK, NULL, 0, &move, &err), 0);
        assert_int_equal(count_on(&f, other(1)), N_OWN);
        assert_int_equal(count_on(&f, home()), 0);
        assert_int_equal(submit_id(&f, "j251", &err), 0);
        assert_int_equal(claim_each_once(&f, seen, N_OWN + 2), N_OWN + 1);
        field_release(&f);
    }
}

/* The process was frozen between the rows of both shards. That of the name is asked first: if it
 * said that the tenant arrives there, the tenant would be held for ever. */
TEST(a_move_that_slept_during_the_way_back_leaves_no_row)
{
    struct field f;
    struct stop stop = {.step = "arrive", .before = take_back, .field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 2] = {0};
    field_init(&f);
    submit_own(&f);
    assert_int_equal(move_tenant(&f, other(1), NULL, 0, &move, &err), 0);
    assert_int_equal(move_tenant(&f, home(), &stop, 0, &move, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "another process"));
    assert_int_equal(submit_id(&f, "j251", &err), 0);
    assert_int_equal(count_on(&f, other(1)), N_OWN + 1);
    assert_int_equal(count_on(&f, home()), 0);
    assert_int_equal(claim_each_once(&f, seen, N_OWN + 2), N_OWN + 1);
    field_release(&f);
}

/* The parent has been taken from the old shard, the child not yet. */
FIELD_TEST(a_child_waits_for_its_parent_after_the_way_back)
{
    struct stop stop = {.step = "take", .nth = 1};
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[N_OWN + 4] = {0};
    submit_own(f); /* three batches: the parent is in the first one */
    submit_after(f, "j251", "j1", AFTER_END);
    submit_after(f, "j252", "j251", AFTER_END);
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    assert_int_equal(count_on(f, home()), N_OWN + 2 - 100);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), 0);
    assert_int_equal(count_on(f, home()), N_OWN + 2);
    assert_int_equal(count_on(f, other(1)), 0);
    assert_int_equal(state_on(f, home(), "j251"), REDRIVE_STATE_WAITING);
    assert_int_equal(state_on(f, home(), "j252"), REDRIVE_STATE_WAITING);
    for (size_t n = 0; n < 3; n++) {
        static const char *const IDS[] = {"j1", "j251", "j252"};
        struct change_item item = {.tenant = STR(TENANT), .id = str_of(IDS[n])};
        assert_int_equal(state_on(f, home(), IDS[n]), REDRIVE_STATE_QUEUED);
        change_all(f, MOVE_CANCEL, &item, 1);
        assert_int_equal(item.ret.code, 0);
    }
    assert_int_equal(claim_each_once(f, seen, N_OWN + 4), N_OWN - 1);
}

/* A child that has died while it waited waits again when it is redriven. */
FIELD_TEST(a_dead_child_knows_its_parent_after_the_way_back)
{
    struct stop stop = {.step = "take", .nth = 1};
    struct tenant_move move;
    struct redrive_err err = {0};
    struct change_item child = {.tenant = STR(TENANT), .id = STR("j251")};
    struct change_item parent = {.tenant = STR(TENANT), .id = STR("j1")};
    submit_own(f);
    submit_after(f, "j251", "j1", AFTER_END);
    change_all(f, MOVE_END, &child, 1);
    assert_int_equal(state_on(f, home(), "j251"), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), 0);
    change_all(f, MOVE_REDRIVE, &child, 1);
    assert_int_equal(state_on(f, home(), "j251"), REDRIVE_STATE_WAITING);
    change_all(f, MOVE_CANCEL, &parent, 1);
    assert_int_equal(state_on(f, home(), "j251"), REDRIVE_STATE_QUEUED);
}

/* They were never on the old shard: the tenant is free without them. */
FIELD_TEST(a_job_that_the_old_shard_refuses_stays_with_those_that_wait_for_it)
{
    struct tenant_move move;
    struct redrive_err err = {0};
    submit_unique(f, "j1", "K");
    put_there(f, other(1), "j2", "K", "j6");
    assert_int_equal(move_tenant(f, other(1), NULL, 0, &move, &err), REDRIVE_E_STATE);
    if (move_tenant(f, BACK, NULL, 0, &move, &err) != 0)
        fail_msg("%s: %s", err.message, err.detail);
    assert_int_equal(move.kept, 2);
    assert_non_null(strstr(move.refusal.message, "the old shard refuses job 'j2'"));
    assert_int_equal(count_on(f, home()), 1);
    assert_int_equal(count_on(f, other(1)), 2);
    assert_int_equal(submit_id(f, "j3", &err), 0);
}

/* The parent has gone to the new shard, and its unique key is taken on the old one meanwhile. A
 * child that was still on both would wait on the old one for ever. */
FIELD_TEST(a_child_stays_with_a_parent_that_the_old_shard_refuses)
{
    struct stop stop = {.step = "take", .nth = 1};
    struct tenant_move move;
    struct redrive_err err = {0};
    submit_unique(f, "j0", "K");
    submit_own(f); /* three batches: the parent is in the first one */
    submit_after(f, "j251", "j0", AFTER_END);
    submit_after(f, "j252", "j251", AFTER_END);
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    put_there(f, home(), "j300", "K", NULL);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), 0);
    assert_int_equal(move.kept, 3);
    assert_non_null(strstr(move.refusal.message, "the old shard refuses job 'j0'"));
    assert_int_equal(count_on(f, home()), N_OWN + 1); /* with j300 */
    assert_int_equal(count_on(f, other(1)), 3);
    assert_int_equal(state_on(f, other(1), "j0"), REDRIVE_STATE_QUEUED);
    assert_int_equal(state_on(f, other(1), "j251"), REDRIVE_STATE_WAITING);
    assert_int_equal(state_on(f, other(1), "j252"), REDRIVE_STATE_WAITING);
}

/* The old shard keeps it, and it is settled there. */
FIELD_TEST(a_job_that_runs_is_no_obstacle_on_the_way_back)
{
    struct stop stop = {.step = "wait"};
    struct tenant_move move;
    struct redrive_err err = {0};
    const struct claim_filter filter = {.limit = 1, .tenant = STR(TENANT)};
    struct claim_op claim;
    assert_int_equal(submit_id(f, "j1", NULL), 0);
    claim_op_init(&claim, &filter, STR("w"), 60000);
    assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
    struct stop end = {
        .field = f, .seq = claim.jobs[0].status.seq, .token = claim.jobs[0].status.token};
    claim_op_release(&claim);
    assert_int_equal(move_tenant(f, other(1), &stop, 0, &move, &err), REDRIVE_E_CANCELLED);
    struct stop middle = {.step = "copy"};
    assert_int_equal(move_tenant(f, BACK, &middle, 0, &move, &err), REDRIVE_E_CANCELLED);
    settle_now(&end);
    assert_int_equal(move_tenant(f, BACK, NULL, 0, &move, &err), 0);
    assert_int_equal(state_on(f, home(), "j1"), REDRIVE_STATE_COMPLETED);
}
