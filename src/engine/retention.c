#include "engine/retention.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/private.h"
#include "engine/tasks.h"
#include "engine/worker_row.h"

#define BATCH 500
/* With each unit that takes some away all processes read all lanes again: rather few large ones. */
#define LANE_BATCH 2000
#define EVERY_MS   (60 * 1000)
/* Whoever runs a job says when it ended, and says so a little later. */
#define LATE_MS (10 * 60 * 1000)
#define DAY_MS  (INT64_C(24) * 3600 * 1000)

#define FOR_EVER INT32_MAX

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
    int32_t days;     /* 0: of the jobs with a policy of their own */
    bool at_end;      /* nothing further was there to be looked at */
    int64_t since_ms; /* when the walk was begun */
    int64_t at_ms;
    int64_t at_seq;
    int64_t before_ms; /* where it was when the last unit was committed */
    int64_t before_seq;
};

void retention_forget(struct engine *e)
{
    e->n_sweep_marks = 0;
}

void retention_undo(struct engine *e)
{
    for (size_t i = 0; i < e->n_sweep_marks; i++) {
        struct sweep_mark *mark = &e->sweep_marks[i];
        mark->at_ms = mark->before_ms;
        mark->at_seq = mark->before_seq;
    }
    e->sweep_ms = e->sweep_kept_ms;
}

void retention_keep(struct engine *e)
{
    for (size_t i = 0; i < e->n_sweep_marks; i++) {
        struct sweep_mark *mark = &e->sweep_marks[i];
        mark->before_ms = mark->at_ms;
        mark->before_seq = mark->at_seq;
    }
    e->sweep_kept_ms = e->sweep_ms;
}

static struct sweep_mark *mark_for(struct engine *e, int32_t days)
{
    struct sweep_mark *mark = NULL;
    for (size_t i = 0; i < e->n_sweep_marks && !mark; i++)
        if (e->sweep_marks[i].days == days)
            mark = &e->sweep_marks[i];
    const bool is_new = !mark || (e->now_ms - mark->since_ms >= DAY_MS && (days || mark->at_end));
    if (!mark) {
        struct sweep_mark *grown =
            realloc(e->sweep_marks, (e->n_sweep_marks + 1) * sizeof *e->sweep_marks);
        if (!grown)
            return NULL;
        e->sweep_marks = grown;
        mark = &grown[e->n_sweep_marks++];
    }
    if (is_new)
        *mark = (struct sweep_mark){.days = days, .since_ms = e->now_ms};
    mark->before_ms = mark->at_ms;
    mark->before_seq = mark->at_seq;
    return mark;
}

/* Walks on from the mark, and moves it. */
static int walk_on(struct engine *e, struct sweep_mark *mark, struct sweep_walk *walk,
                   struct redrive_err *err)
{
    walk->states = IN(DEAD_LETTER) | IN(FAILED);
    walk->limit = BATCH;
    walk->at_ms = mark->at_ms;
    walk->at_seq = mark->at_seq;
    if (walk->finished_before_ms <= 0)
        return 0;
    int rc = e->ops->sweep_tasks(e->store, walk, err);
    if (rc < 0)
        return rc;
    mark->at_ms = walk->at_ms;
    mark->at_seq = walk->at_seq;
    mark->at_end = !walk->more;
    if (!walk->more && mark->at_ms > walk->finished_before_ms - LATE_MS) {
        mark->at_ms = walk->finished_before_ms - LATE_MS;
        mark->at_seq = 0;
    }
    e->touched |= walk->removed > 0;
    return 0;
}

/* The dead of tasks that keep theirs equally long; without names those of all tasks. */
static int sweep_tasks(struct sweep *s, int32_t days, const struct str *names, size_t n,
                       struct redrive_err *err)
{
    struct sweep_mark *mark = mark_for(s->e, days);
    if (!mark)
        return err_nomem(err);
    struct sweep_walk walk = {
        .finished_before_ms = s->e->now_ms - days * DAY_MS,
        .tasks = names,
        .n_tasks = n,
        .all_tasks = !names,
    };
    int rc = walk_on(s->e, mark, &walk, err);
    s->more |= walk.more;
    return rc;
}

/* ---- How long each is kept ------------------------------------------------------------------- */

/* Days as they compare. */
static int32_t length_of(const struct config_task *task)
{
    return task->retry.dlq_retention_days == 0 ? FOR_EVER : task->retry.dlq_retention_days;
}

static int by_length(const void *left, const void *right)
{
    const int32_t a = length_of(*(const struct config_task *const *)left),
                  b = length_of(*(const struct config_task *const *)right);
    return (a > b) - (a < b);
}

/* How long a job is kept that has a policy of its own. */
static int32_t own_length(const struct engine *e, const struct sweep_own *job, int32_t longest)
{
    const struct config_task *task = task_in_force(e, job->task);
    struct redrive_policy policy = task->retry;
    struct policy_box *box = NULL;
    if (!*task->name)
        policy.dlq_retention_days = longest == FOR_EVER ? 0 : longest;
    int32_t days = policy.dlq_retention_days;
    if (policy_parse_json(job->policy, &policy, &box, NULL) == 0)
        days = policy_box_get(box)->dlq_retention_days;
    policy_box_free(box);
    return days == 0 ? FOR_EVER : days;
}

/* Many jobs of a task bring the same policy. */
static bool is_like(const struct sweep_own *a, const struct sweep_own *b)
{
    return str_eq(a->policy, b->policy) && str_eq(a->task, b->task);
}

static size_t find_expired(const struct engine *e, const struct sweep_walk *walk, int32_t longest,
                           struct change_move *moves)
{
    int32_t length = FOR_EVER;
    size_t n = 0;
    for (size_t i = 0; i < walk->n_own; i++) {
        const struct sweep_own *job = &walk->own[i];
        if (i == 0 || !is_like(job, &walk->own[i - 1]))
            length = own_length(e, job, longest);
        if (length != FOR_EVER && job->finished_ms < e->now_ms - length * DAY_MS)
            moves[n++] = (struct change_move){.seq = job->seq, .kind = MOVE_REMOVE};
    }
    return n;
}

/* The dead that have a policy of their own. */
static int sweep_own(struct sweep *s, int32_t longest, struct redrive_err *err)
{
    struct engine *e = s->e;
    struct sweep_mark *mark = mark_for(e, 0);
    struct sweep_walk walk = {.finished_before_ms = e->now_ms - DAY_MS, .arena = &e->arena};
    int rc = mark ? walk_on(e, mark, &walk, err) : err_nomem(err);
    if (rc < 0 || walk.n_own == 0)
        return rc;
    struct change_move *moves = arena_array(&e->arena, walk.n_own, sizeof *moves);
    struct move_result *results = arena_array(&e->arena, walk.n_own, sizeof *results);
    if (!moves || !results)
        return err_nomem(err);
    const size_t n = find_expired(e, &walk, longest, moves);
    if (n == 0)
        return 0;
    e->touched = true;
    s->more |= walk.more;
    return e->ops->move(e->store, CHANGES(moves, n), results, err);
}

static int sweep_dead(struct sweep *s, struct redrive_err *err)
{
    size_t n, n_names = 0;
    const struct config_task **tasks = tasks_in_force(s->e, &n);
    struct str *names = arena_array(&s->e->arena, n + 1, sizeof *names);
    if (!tasks || !names)
        return err_nomem(err);
    if (n > 0)
        qsort(tasks, n, sizeof(const struct config_task *), by_length);
    int32_t longest = length_of(engine_task(s->e, (struct str){0}));
    if (n > 0 && length_of(tasks[n - 1]) > longest)
        longest = length_of(tasks[n - 1]);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const int32_t length = length_of(tasks[i]);
        if (length == longest)
            break;
        names[n_names++] = str_of(tasks[i]->name);
        if (i + 1 < n && length_of(tasks[i + 1]) == length)
            continue;
        rc = sweep_tasks(s, length, names, n_names, err);
        n_names = 0;
    }
    if (rc == 0 && longest != FOR_EVER)
        rc = sweep_tasks(s, longest, NULL, 0, err);
    return rc < 0 ? rc : sweep_own(s, longest, err);
}

int retention_sweep(struct engine *e, struct redrive_err *err)
{
    const struct config *config = e->options.config;
    struct sweep s = {.e = e};
    size_t n_lanes = 0;
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
        if (rc == 0)
            rc = lanes_sweep(e, LANE_BATCH, &n_lanes, err);
        if (rc < 0)
            return rc;
        s.more |= n_lanes == LANE_BATCH;
        e->sweep_ms = s.more ? e->now_ms : e->now_ms + EVERY_MS;
    }
    engine_want_own(e, e->sweep_ms);
    return 0;
}
