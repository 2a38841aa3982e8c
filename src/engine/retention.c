#include "engine/retention.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/private.h"
#include "engine/tasks.h"
#include "engine/worker_row.h"

#define BATCH    500
#define EVERY_MS (60 * 1000)
/* Whoever runs a job says when it ended, and says so a little later. */
#define LATE_MS (10 * 60 * 1000)
#define DAY_MS  (INT64_C(24) * 3600 * 1000)

#define IN(state) (1u << REDRIVE_STATE_##state)

struct sweep {
    struct engine *e;
    bool more; /* a batch was full */
};

static int sweep_states(struct sweep *s, uint32_t states, int64_t kept_ms, struct redrive_err *err)
{
    size_t removed = 0;
    int64_t before_ms = s->e->now_ms - kept_ms;
    if (before_ms <= 0)
        return 0;
    int rc = s->e->ops->sweep(s->e->store, states, before_ms, BATCH, &removed, err);
    s->e->touched |= rc == 0 && removed > 0;
    s->more |= removed == BATCH;
    return rc;
}

/* How far the dead of the tasks that keep theirs for so many days have been looked at. */
struct sweep_mark {
    int32_t days;
    int64_t since_ms; /* when the walk was begun */
    int64_t at_ms;
    int64_t at_seq;
};

void retention_forget(struct engine *e)
{
    e->n_sweep_marks = 0;
}

static struct sweep_mark *mark_for(struct engine *e, int32_t days)
{
    struct sweep_mark *mark = NULL;
    for (size_t i = 0; i < e->n_sweep_marks && !mark; i++)
        if (e->sweep_marks[i].days == days)
            mark = &e->sweep_marks[i];
    if (mark && e->now_ms - mark->since_ms < DAY_MS)
        return mark;
    if (!mark) {
        struct sweep_mark *grown =
            realloc(e->sweep_marks, (e->n_sweep_marks + 1) * sizeof *e->sweep_marks);
        if (!grown)
            return NULL;
        e->sweep_marks = grown;
        mark = &grown[e->n_sweep_marks++];
    }
    *mark = (struct sweep_mark){.days = days, .since_ms = e->now_ms};
    return mark;
}

/* The dead of tasks that keep theirs equally long. */
static int sweep_tasks(struct sweep *s, int32_t days, const struct str *names, size_t n,
                       struct redrive_err *err)
{
    struct engine *e = s->e;
    struct sweep_mark *mark = mark_for(e, days);
    if (!mark)
        return err_nomem(err);
    struct sweep_walk walk = {
        .states = IN(DEAD_LETTER) | IN(FAILED),
        .finished_before_ms = e->now_ms - days * DAY_MS,
        .tasks = names,
        .n_tasks = n,
        .limit = BATCH,
        .at_ms = mark->at_ms,
        .at_seq = mark->at_seq,
    };
    int rc = e->ops->sweep_tasks(e->store, &walk, err);
    if (rc < 0)
        return rc;
    mark->at_ms = walk.at_ms;
    mark->at_seq = walk.at_seq;
    if (!walk.more && mark->at_ms > walk.finished_before_ms - LATE_MS) {
        mark->at_ms = walk.finished_before_ms - LATE_MS;
        mark->at_seq = 0;
    }
    e->touched |= walk.removed > 0;
    s->more |= walk.more;
    return 0;
}

static int by_days(const void *left, const void *right)
{
    const struct config_task *a = *(const struct config_task *const *)left,
                             *b = *(const struct config_task *const *)right;
    return (a->retry.dlq_retention_days > b->retry.dlq_retention_days) -
           (a->retry.dlq_retention_days < b->retry.dlq_retention_days);
}

static int sweep_dead(struct sweep *s, struct redrive_err *err)
{
    size_t n, n_names = 0;
    const struct config_task **tasks = tasks_in_force(s->e, &n);
    struct str *names = arena_array(&s->e->arena, n + 1, sizeof *names);
    if (!tasks || !names)
        return err_nomem(err);
    if (n > 0)
        qsort(tasks, n, sizeof(const struct config_task *), by_days);
    int32_t longest = engine_task(s->e, (struct str){0})->retry.dlq_retention_days;
    if (n > 0 && tasks[n - 1]->retry.dlq_retention_days > longest)
        longest = tasks[n - 1]->retry.dlq_retention_days;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const int32_t days = tasks[i]->retry.dlq_retention_days;
        if (days == longest)
            break;
        names[n_names++] = str_of(tasks[i]->name);
        if (i + 1 < n && tasks[i + 1]->retry.dlq_retention_days == days)
            continue;
        rc = sweep_tasks(s, days, names, n_names, err);
        n_names = 0;
    }
    return rc < 0 ? rc : sweep_states(s, IN(DEAD_LETTER) | IN(FAILED), longest * DAY_MS, err);
}

int retention_sweep(struct engine *e, struct redrive_err *err)
{
    const struct config *config = e->options.config;
    struct sweep s = {.e = e};
    if (e->now_ms >= e->sweep_ms) {
        int64_t completed_ms = config ? config->retention.completed_ms : DAY_MS;
        int64_t cancelled_ms = config ? config->retention.cancelled_ms : DAY_MS;
        int rc = sweep_states(&s, IN(COMPLETED), completed_ms, err);
        if (rc == 0)
            rc = sweep_states(&s, IN(CANCELLED), cancelled_ms, err);
        if (rc == 0)
            rc = sweep_dead(&s, err);
        if (rc == 0)
            rc = workers_sweep(e, err);
        if (rc < 0)
            return rc;
        e->sweep_ms = s.more ? e->now_ms : e->now_ms + EVERY_MS;
    }
    engine_want(e, e->sweep_ms);
    return 0;
}
