/* Jobs that wait for others while their tenant is moved, and one of them changes on the old shard
 * between its copy and the moment when it is taken from there. */
#include "tenant_field.h"

/* What the clock of the old shard does when the deadline of a job passes: it ends, and those that
 * wait for its end are released if they are still there. */
static void end_on_old(struct stop *stop, const char *id, bool has_children)
{
    struct store *store;
    const struct job_name name = {STR(TENANT), str_of(id)};
    struct job_page page = {0};
    struct edge_page edges = {0};
    struct move_result result = {0};
    int64_t now_ms, version;
    assert_int_equal(
        store_open(sharded_of(stop->field->reader)->urls.urls[home()], NULL, &store, NULL), 0);
    const struct store_ops *ops = store_ops(store);
    assert_int_equal(ops->begin(store, clock_wall_ms(), &now_ms, &version, NULL), 0);
    assert_int_equal(ops->lookup(store, &name, 1, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    const struct change_move end = {.seq = page.jobs[0].status.seq,
                                    .kind = MOVE_END,
                                    .to = REDRIVE_STATE_DEAD_LETTER,
                                    .reason = REDRIVE_REASON_DEADLINE,
                                    .error = {.class_ = REDRIVE_CLASS_PERMANENT,
                                              .type = STR("Deadline"),
                                              .message = STR("late")},
                                    .fingerprint = 3};
    assert_int_equal(ops->move(store, CHANGES(&end, 1), &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(ops->edges(store, EDGES_TO_CHILDREN, &end.seq, 1, &edges, NULL), 0);
    for (size_t i = 0; i < edges.n && has_children; i++) {
        const struct edge_move release = {edges.edges[i].child, 1};
        edges.edges[i].outcome = AFTER_MET;
        assert_int_equal(ops->edges_put(store, &edges.edges[i], 1, NULL), 0);
        assert_int_equal(ops->move(store, RELEASES(&release, 1), &result, NULL), 0);
    }
    assert_int_equal(ops->commit(store, NULL), 0);
    edge_page_release(&edges);
    job_page_release(&page);
    store_close(store);
}

static void end_parent(struct stop *stop)
{
    end_on_old(stop, "j1", true);
}

static void end_parent_alone(struct stop *stop)
{
    end_on_old(stop, "j1", false);
}

TEST(a_child_does_not_wait_for_a_copy_that_is_gone)
{
    struct field f;
    struct stop stop = {.step = "take", .nth = 0, .before = end_parent, .field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[4] = {0};
    field_init(&f);
    assert_int_equal(submit_id(&f, "j1", NULL), 0);
    submit_after(&f, "j2", "j1", AFTER_END);
    submit_after(&f, "j3", "j2", AFTER_SUCCESS);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), 0);
    assert_int_equal(count_on(&f, other(1)), 3);
    assert_int_equal(state_on(&f, other(1), "j1"), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(state_on(&f, other(1), "j2"), REDRIVE_STATE_QUEUED);
    assert_int_equal(state_on(&f, other(1), "j3"), REDRIVE_STATE_WAITING);
    assert_int_equal(claim_each_once(&f, seen, 4), 1);
    assert_true(seen[2]);
    field_release(&f);
}

/* The same when j2 must be skipped, and has been taken from the old shard before. */
TEST(a_child_of_a_copy_that_is_made_again_is_skipped_with_its_own)
{
    struct field f;
    struct stop stop = {.step = "take", .nth = 0, .before = end_parent_alone, .field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    bool seen[5] = {0};
    field_init(&f);
    assert_int_equal(submit_id(&f, "j1", NULL), 0);
    submit_after(&f, "j2", "j1", AFTER_SUCCESS);
    submit_after(&f, "j3", "j2", AFTER_SUCCESS);
    submit_after(&f, "j4", "j2", AFTER_END);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), 0);
    assert_int_equal(count_on(&f, other(1)), 4);
    assert_int_equal(state_on(&f, other(1), "j1"), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(state_on(&f, other(1), "j2"), REDRIVE_STATE_CANCELLED);
    assert_int_equal(state_on(&f, other(1), "j3"), REDRIVE_STATE_CANCELLED);
    assert_int_equal(claim_each_once(&f, seen, 5), 1);
    assert_true(seen[4]);
    field_release(&f);
}

/* The same when j2 has died before: redriven, it does not wait for a parent that is decided. */
TEST(a_dead_child_of_a_copy_that_is_made_again_waits_no_more)
{
    struct field f;
    struct stop stop = {.step = "take", .nth = 0, .before = end_parent_alone, .field = &f};
    struct tenant_move move;
    struct change_item item = {.tenant = STR(TENANT), .id = STR("j2")};
    struct redrive_err err = {0};
    field_init(&f);
    assert_int_equal(submit_id(&f, "j1", NULL), 0);
    submit_after(&f, "j2", "j1", AFTER_SUCCESS);
    change_all(&f, MOVE_END, &item, 1);
    assert_int_equal(item.ret.code, 0);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), 0);
    assert_int_equal(state_on(&f, other(1), "j1"), REDRIVE_STATE_DEAD_LETTER);
    item = (struct change_item){.tenant = STR(TENANT), .id = STR("j2")};
    change_all(&f, MOVE_REDRIVE, &item, 1);
    assert_int_equal(item.ret.code, 0);
    assert_int_equal(state_on(&f, other(1), "j2"), REDRIVE_STATE_QUEUED);
    field_release(&f);
}

static void end_child(struct stop *stop)
{
    end_on_old(stop, "j251", true);
}

/* The child dies on the old shard when its parent has been taken from there: it must not forget
 * what it waits for. */
TEST(a_child_that_dies_after_its_parent_has_gone_knows_it)
{
    struct field f;
    struct stop stop = {.step = "take", .nth = 1, .before = end_child, .field = &f};
    struct tenant_move move;
    struct redrive_err err = {0};
    struct change_item child = {.tenant = STR(TENANT), .id = STR("j251")};
    struct change_item parent = {.tenant = STR(TENANT), .id = STR("j1")};
    field_init(&f);
    submit_own(&f); /* three batches: the parent is in the first one */
    submit_after(&f, "j251", "j1", AFTER_END);
    assert_int_equal(move_tenant(&f, other(1), &stop, 0, &move, &err), 0);
    assert_int_equal(count_on(&f, other(1)), N_OWN + 1);
    assert_int_equal(count_on(&f, home()), 0);
    if (state_on(&f, other(1), "j251") == REDRIVE_STATE_DEAD_LETTER)
        change_all(&f, MOVE_REDRIVE, &child, 1);
    assert_int_equal(state_on(&f, other(1), "j251"), REDRIVE_STATE_WAITING);
    change_all(&f, MOVE_CANCEL, &parent, 1);
    assert_int_equal(state_on(&f, other(1), "j251"), REDRIVE_STATE_QUEUED);
    field_release(&f);
}
