#include "base/err.h"
#include "store/sqlite/private.h"

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
