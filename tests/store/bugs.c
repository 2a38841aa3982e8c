#include "bugs.h"

#include "check.h"

#define INNER(b, slot, ...) store_ops((b)->wrap.inner)->slot((b)->wrap.inner, __VA_ARGS__, NULL)

static struct buggy *buggy_of(struct store *store)
{
    return (struct buggy *)(void *)store;
}

static uint64_t token_of(struct buggy *b, int64_t seq)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct job_page page = {0};
    assert_int_equal(INNER(b, list, &filter, &page), 0);
    uint64_t token = page.n > 0 ? page.jobs[0].status.token : 0;
    job_page_release(&page);
    return token;
}

/* Makes a change to the first job of a state. */
static void change_first(struct buggy *b, enum redrive_state state, enum move_kind kind)
{
    const struct job_filter filter = {.states = 1u << state, .limit = 1};
    struct job_page page = {0};
    struct move_result r;
    assert_int_equal(INNER(b, list, &filter, &page), 0);
    if (page.n > 0) {
        struct change_move move = {.seq = page.jobs[0].status.seq, .kind = kind};
        assert_int_equal(INNER(b, move, CHANGES(&move, 1), &r), 0);
    }
    job_page_release(&page);
}

static int ack_without_commit(struct store *store, struct redrive_err *err)
{
    (void)err;
    struct buggy *b = buggy_of(store);
    store_ops(b->wrap.inner)->rollback(b->wrap.inner);
    return 0;
}

static int revive(struct store *store, struct redrive_err *err)
{
    struct buggy *b = buggy_of(store);
    change_first(b, REDRIVE_STATE_DEAD_LETTER, MOVE_REDRIVE);
    return store_ops(b->wrap.inner)->commit(b->wrap.inner, err);
}

static void lose(struct store *store)
{
    struct buggy *b = buggy_of(store);
    int64_t now_ms, version;
    store_ops(b->wrap.inner)->rollback(b->wrap.inner);
    for (int i = 0; i < 2; i++) { /* a list need not show what its own transaction has moved */
        assert_int_equal(INNER(b, begin, 1, &now_ms, &version), 0);
        change_first(b, i == 0 ? REDRIVE_STATE_QUEUED : REDRIVE_STATE_CANCELLED,
                     i == 0 ? MOVE_CANCEL : MOVE_REMOVE);
        assert_int_equal(store_ops(b->wrap.inner)->commit(b->wrap.inner, NULL), 0);
    }
}

static int submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct buggy *b = buggy_of(store);
    for (size_t i = 0; i < n; i++) {
        struct job_spec spec = specs[i];
        if (b->bug == BUG_IGNORES_KEYS)
            spec.unique_key = (struct str){0};
        if (b->bug == BUG_ALTERS_PAYLOAD)
            spec.payload =
                str_of(arena_printf(arena, "%.*s ", (int)spec.payload.len, spec.payload.ptr));
        int rc = store_ops(b->wrap.inner)->submit(b->wrap.inner, &spec, 1, &ret[i], arena, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void give_back(struct buggy *b, int64_t seq, bool uses_attempt)
{
    struct decision d = {.state = REDRIVE_STATE_QUEUED, .uses_attempt = uses_attempt};
    struct settle_move move = {.seq = seq, .token = token_of(b, seq), .decision = &d};
    struct move_result r;
    assert_int_equal(INNER(b, move, SETTLES(&move, 1), &r), 0);
}

static int start(struct buggy *b, const struct start_move *moves, size_t n, struct move_result *ret,
                 struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(b->wrap.inner);
    for (size_t i = 0; i < n; i++) {
        if (b->bug == BUG_LEASES_TWICE && token_of(b, moves[i].seq) != 0)
            give_back(b, moves[i].seq, false);
        int rc = ops->move(b->wrap.inner, STARTS(&moves[i], 1), &ret[i], err);
        if (rc == 0 && ret[i].code == 0 && b->bug == BUG_COUNTS_TWICE) {
            give_back(b, moves[i].seq, true);
            rc = ops->move(b->wrap.inner, STARTS(&moves[i], 1), &ret[i], err);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A claim finds what others hold. */
static int ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    (void)filter;
    struct buggy *b = buggy_of(store);
    const struct job_filter any = {
        .states = 1u << REDRIVE_STATE_QUEUED | 1u << REDRIVE_STATE_RUNNING, .limit = 3};
    return store_ops(b->wrap.inner)->list(b->wrap.inner, &any, ret, err);
}

static int settle(struct buggy *b, const struct settle_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct settle_move move = moves[i];
        struct decision decision = *move.decision;
        move.decision = &decision;
        if (b->bug == BUG_ACCEPTS_STALE)
            move.token = token_of(b, move.seq);
        if (b->bug == BUG_KEEPS_RELEASED)
            decision.uses_attempt = true;
        if (b->bug == BUG_HIDES_THE_DEAD && decision.state == REDRIVE_STATE_DEAD_LETTER)
            decision.state = REDRIVE_STATE_FAILED;
        int rc = store_ops(b->wrap.inner)->move(b->wrap.inner, SETTLES(&move, 1), &ret[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err)
{
    struct buggy *b = buggy_of(store);
    switch (list->kind) {
    case MOVE_START: return start(b, list->starts, list->n, ret, err);
    case MOVE_SETTLE: return settle(b, list->settles, list->n, ret, err);
    default: return store_ops(b->wrap.inner)->move(b->wrap.inner, list, ret, err);
    }
}

void buggy_init(struct buggy *buggy, struct store *inner, enum bug bug)
{
    wrap_init(&buggy->wrap, inner);
    buggy->bug = bug;
    switch (bug) {
    case BUG_ACKS_WITHOUT_COMMIT: buggy->wrap.ops.commit = ack_without_commit; break;
    case BUG_LOSES_ON_ROLLBACK: buggy->wrap.ops.rollback = lose; break;
    case BUG_REVIVES_THE_DEAD: buggy->wrap.ops.commit = revive; break;
    case BUG_IGNORES_KEYS:
    case BUG_ALTERS_PAYLOAD: buggy->wrap.ops.submit = submit; break;
    case BUG_LEASES_TWICE:
        buggy->wrap.ops.ready = ready;
        buggy->wrap.ops.move = move;
        break;
    case BUG_COUNTS_TWICE:
    case BUG_KEEPS_RELEASED:
    case BUG_ACCEPTS_STALE:
    case BUG_HIDES_THE_DEAD: buggy->wrap.ops.move = move; break;
    case BUG_COUNT: break;
    }
}
