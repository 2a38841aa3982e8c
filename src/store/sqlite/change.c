#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

#define FROM(state) (1u << REDRIVE_STATE_##state)
#define WAITING     (FROM(SCHEDULED) | FROM(RETRYING) | FROM(QUEUED) | FROM(PARKED))
#define ENDED       (FROM(COMPLETED) | FROM(FAILED) | FROM(DEAD_LETTER) | FROM(CANCELLED))

static const uint32_t ALLOWED_FROM[] = {
    [CHANGE_CANCEL] = WAITING | FROM(RUNNING),
    [CHANGE_RUN_NOW] = FROM(SCHEDULED) | FROM(RETRYING),
    [CHANGE_REDRIVE] = FROM(DEAD_LETTER) | FROM(FAILED),
    [CHANGE_END] = WAITING,
    [CHANGE_REMOVE] = ENDED,
    [CHANGE_EDIT] = FROM(DEAD_LETTER),
};

static int cancel(struct store *store, struct row *row, struct redrive_err *err)
{
    if (row->was == REDRIVE_STATE_RUNNING) {
        static const struct job_error NONE = {0};
        const struct attempt_end end = {
            .number = row->s.attempts,
            .ended_ms = store->now_ms,
            .outcome = REDRIVE_STATE_CANCELLED,
            .error = &NONE,
            .why = delay_why_name(DELAY_NONE),
        };
        int64_t id;
        int rc = history_add(store, row, &end, &id, err);
        if (rc != 0)
            return rc;
    }
    row->s.state = REDRIVE_STATE_CANCELLED;
    row->s.finished_ms = store->now_ms;
    return 0;
}

/* An error needs a row to stand in; that it never started shows there. */
static int end_waiting(struct store *store, const struct change_move *move, struct row *row,
                       struct redrive_err *err)
{
    row->s.state = move->to;
    row->s.reason = move->reason;
    row->s.finished_ms = store->now_ms;
    if (move->error.class_ == REDRIVE_CLASS_SUCCESS)
        return 0;
    struct row unstarted = *row;
    unstarted.s.started_ms = 0;
    const struct attempt_end end = {
        .ended_ms = store->now_ms,
        .outcome = move->to,
        .error = &move->error,
        .why = delay_why_name(DELAY_NONE),
    };
    row->error_class = move->error.class_;
    row->fingerprint = move->fingerprint;
    return history_add(store, &unstarted, &end, &row->error_at, err);
}

/* 1: it may, and holds its key again; 0: another live job holds it. */
static int may_come_back(struct store *store, const struct row *row, struct redrive_err *err)
{
    if (!row->has_key)
        return 1;
    sqlite3_stmt *st = sql_use(store, STATEMENT_KEY_TAKE, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, row->seq);
    int rc = sql_run(store, st, err);
    return rc < 0 ? rc : sqlite3_changes(store->db) > 0;
}

static void redrive(struct store *store, struct row *row)
{
    struct job_status *s = &row->s;
    s->state = REDRIVE_STATE_QUEUED;
    s->reason = REDRIVE_REASON_NONE;
    s->epoch++;
    s->attempts = 0;
    s->crashes = 0;
    s->process_after_ms = store->now_ms;
    s->first_started_ms = 0;
    s->held_ms = 0;
    s->finished_ms = 0;
}

/* Its row may have gone while the job had ended. */
static int renew_deadline(struct store *store, int64_t seq, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_DEADLINE_RENEW, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    return sql_run(store, st, err);
}

/* Another payload needs another sum over the whole. */
static int edit(struct store *store, const struct row *row, struct str payload,
                struct redrive_err *err)
{
    struct arena arena;
    struct job job;
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    arena_init(&arena);
    bind_int(st, 1, row->seq);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        rc = job_read(store, st, &arena, &job, err);
    sqlite3_reset(st);
    if (rc != 0)
        goto out;
    job.spec.payload = payload;
    st = sql_use(store, STATEMENT_PAYLOAD_WRITE, err);
    rc = store->last_error;
    if (!st)
        goto out;
    bind_int(st, 1, row->seq);
    bind_str(st, 2, payload);
    bind_int(st, 3, (int64_t)spec_sum(row->seq, &job.spec));
    rc = sql_run(store, st, err);
out:
    arena_release(&arena);
    return rc;
}

/* Changes the row as the move says. 1: write it; 0: refused; or a negative code. */
static int apply(struct store *store, const struct change_move *move, struct row *row,
                 struct move_result *ret, struct redrive_err *err)
{
    int rc = 0;
    row_leave(store, row);
    switch (move->kind) {
    case CHANGE_CANCEL: rc = cancel(store, row, err); break;
    case CHANGE_RUN_NOW:
        row->s.state = REDRIVE_STATE_QUEUED;
        row->s.process_after_ms = store->now_ms;
        break;
    case CHANGE_REDRIVE:
        rc = may_come_back(store, row, err);
        if (rc <= 0) {
            *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = row->was};
            return rc;
        }
        redrive(store, row);
        rc = renew_deadline(store, row->seq, err);
        break;
    case CHANGE_END: rc = end_waiting(store, move, row, err); break;
    case CHANGE_EDIT: rc = edit(store, row, move->payload, err); break;
    case CHANGE_REMOVE:
    default: break;
    }
    return rc == 0 ? 1 : rc;
}

static int change_one(struct store *store, const struct change_move *move, struct move_result *ret,
                      struct redrive_err *err)
{
    struct row row;
    if (move->kind > CHANGE_EDIT)
        return err_set(err, REDRIVE_E_INVALID, "no such change");
    int rc = row_for_move(store, move->seq, ALLOWED_FROM[move->kind], &row, ret, err);
    if (rc <= 0)
        return rc;
    if (move->kind == CHANGE_END && move->to != REDRIVE_STATE_DEAD_LETTER &&
        move->to != REDRIVE_STATE_FAILED) {
        *ret = (struct move_result){.code = REDRIVE_E_INVALID, .state = row.was};
        return 0;
    }
    if (move->kind == CHANGE_REMOVE) {
        *ret = (struct move_result){.code = 0, .state = row.was};
        return row_remove(store, &row, err);
    }
    rc = apply(store, move, &row, ret, err);
    return rc <= 0 ? rc : row_write(store, &row, ret, err);
}

int sqlite_change(struct store *store, const struct change_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = change_one(store, &moves[i], &ret[i], err);
    return rc;
}

/* The job of these states that ended first; 1, 0 for none, or a negative code. */
static int first_ended(struct store *store, uint32_t states, int64_t before_ms, int64_t *ret_seq,
                       struct redrive_err *err)
{
    int64_t first_ms = INT64_MAX;
    int found = 0;
    for (int state = REDRIVE_STATE_COMPLETED; state < REDRIVE_STATE_COUNT; state++) {
        if (!(states >> state & 1))
            continue;
        sqlite3_stmt *st = sql_use(store, STATEMENT_ENDED, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, state);
        bind_int(st, 2, before_ms);
        bind_int(st, 3, 1);
        int rc = sql_step(store, st, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        int64_t seq = sqlite3_column_int64(st, 0), ms = sqlite3_column_int64(st, 1);
        sqlite3_reset(st);
        if (!found || ms < first_ms || (ms == first_ms && seq < *ret_seq)) {
            *ret_seq = seq;
            first_ms = ms;
        }
        found = 1;
    }
    return found;
}

int sqlite_sweep(struct store *store, uint32_t states, int64_t finished_before_ms, size_t limit,
                 size_t *ret_removed, struct redrive_err *err)
{
    *ret_removed = 0;
    int rc = unit_needed(store, err);
    while (rc == 0 && *ret_removed < limit) {
        int64_t seq = 0;
        struct row row;
        rc = first_ended(store, states, finished_before_ms, &seq, err);
        if (rc <= 0)
            return rc;
        rc = row_read(store, seq, &row, err);
        if (rc <= 0)
            return rc < 0 ? rc : sql_damaged(store, seq, "the index of ended jobs is wrong", err);
        rc = row_remove(store, &row, err);
        if (rc == 0)
            ++*ret_removed;
    }
    return rc;
}

/* A job that a walk stands on. */
struct step {
    int64_t ms;
    int64_t seq;
    int64_t line_id;
};

/* The first of these states after the place that the walk has come to; 1, 0 for none, or a negative
 * code. */
static int step_on(struct store *store, const struct sweep_walk *walk, struct step *ret,
                   struct redrive_err *err)
{
    int found = 0;
    for (int state = REDRIVE_STATE_COMPLETED; state < REDRIVE_STATE_COUNT; state++) {
        if (!(walk->states >> state & 1))
            continue;
        sqlite3_stmt *st = sql_use(store, STATEMENT_ENDED_AFTER, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, state);
        bind_int(st, 2, walk->finished_before_ms);
        bind_int(st, 3, walk->at_ms);
        bind_int(st, 4, walk->at_seq);
        int rc = sql_step(store, st, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        const struct step step = {.seq = sqlite3_column_int64(st, 0),
                                  .ms = sqlite3_column_int64(st, 1),
                                  .line_id = sqlite3_column_int64(st, 2)};
        sqlite3_reset(st);
        if (!found || step.ms < ret->ms || (step.ms == ret->ms && step.seq < ret->seq))
            *ret = step;
        found = 1;
    }
    return found;
}

/* 1 when the job that the walk stands on has a policy of its own, of which the walk then tells. */
static int tell_of_own(struct store *store, struct sweep_walk *walk, struct str task,
                       struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_OWN_POLICY, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, walk->at_seq);
    int rc = sql_step(store, st, err);
    const struct sweep_own own = {walk->at_seq, walk->at_ms, task,
                                  rc > 0 ? column_str(st, 0) : (struct str){0}};
    const bool has_own = own.policy.len > 0;
    if (has_own)
        rc = sweep_walk_tell(walk, &own, err);
    sqlite3_reset(st);
    return rc < 0 ? rc : has_own;
}

static int sweep_step(struct store *store, struct sweep_walk *walk, const struct step *step,
                      struct redrive_err *err)
{
    struct line *line;
    struct row row;
    int rc = line_numbered(store, step->line_id, &line, err);
    if (rc != 0)
        return rc;
    walk->at_ms = step->ms;
    walk->at_seq = step->seq;
    const bool is_meant = sweep_walk_has(walk, line->task);
    if (!is_meant && !walk->arena)
        return 0;
    rc = tell_of_own(store, walk, line->task, err);
    if (rc != 0 || !is_meant)
        return rc < 0 ? rc : 0;
    rc = row_read(store, step->seq, &row, err);
    if (rc <= 0)
        return rc < 0 ? rc : sql_damaged(store, step->seq, "the index of ended jobs is wrong", err);
    rc = row_remove(store, &row, err);
    walk->removed += rc == 0;
    return rc;
}

int sqlite_sweep_tasks(struct store *store, struct sweep_walk *walk, struct redrive_err *err)
{
    struct step step = {0};
    sweep_walk_begin(walk);
    int rc = unit_needed(store, err);
    for (size_t looked = 0; rc == 0; looked++) {
        if (looked == walk->limit) {
            walk->more = true;
            return 0;
        }
        rc = step_on(store, walk, &step, err);
        if (rc <= 0)
            return rc;
        rc = sweep_step(store, walk, &step, err);
    }
    return rc;
}
