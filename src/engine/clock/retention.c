/* retention.c - ended jobs are kept for a while and then removed, in small batches. */
#include "engine/clock/retention.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/gates/gates.h"
#include "engine/report/worker_row.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/tasks.h"
#include "engine/verbs/after.h"

/* Jobs of a step; more, up to the maximum, where full steps that follow each other do not keep up.
 */
#define BATCH     500
#define BATCH_MAX 2000
/* With each transaction that takes some away all processes read all gates again: rather few large
 * ones. */
#define GATE_BATCH 2000
/* Between two steps: when there is nothing to remove, the same of jobs that are kept for seconds
 * only, when there begins to be something, and at least. */
#define EVERY_MAX_MS   RETENTION_EVERY_MS
#define EVERY_BRIEF_MS 1000
#define EVERY_BUSY_MS  64
#define EVERY_MIN_MS   4
/* Steps take no more than a third of the time. */
#define REST_TIMES 2
/* Transactions of different processes do not commit in quite the order of their times. */
#define LATE_MS (10 * 60 * 1000)
#define DAY_MS  (INT64_C(24) * 3600 * 1000)

#define FOR_EVER INT32_MAX

#define IN(state) (1u << REDRIVE_STATE_##state)

/* A step, and what it has found. */
struct sweep {
    struct engine *e;
    size_t batch;         /* so many are looked at */
    int64_t every_max_ms; /* the next step is no later */
    size_t moved;
    bool more; /* a batch was full */
};

static int64_t at_least(int64_t ms, int64_t least_ms)
{
    return ms < least_ms ? least_ms : ms;
}

/* What the last step has taken, and the time that it leaves to others. It has taken hours if the
 * clock was set forward meanwhile. */
static int64_t turn_ms(const struct engine *e)
{
    const int64_t ms = (1 + REST_TIMES) * e->sweep_took_ms;
    return ms < EVERY_MAX_MS ? ms : EVERY_MAX_MS;
}

/* The next step is never further away than that, unless the clock was set back since. */
static bool is_due(const struct sweep_pace *pace, int64_t now_ms)
{
    return now_ms >= pace->next_ms || pace->next_ms - now_ms > EVERY_MAX_MS;
}

/* Sets when the next step is. As long as steps are full they come closer together, and then get
 * larger; one that is not even a quarter full makes the next one smaller, and then later. So a step
 * removes about what has become old since the one before, and the work is spread evenly. */
static void set_pace(struct sweep_pace *pace, const struct sweep *s)
{
    int64_t every_ms = pace->every_ms > 0 ? pace->every_ms : s->every_max_ms;
    size_t batch = s->batch;
    if (s->more && every_ms <= EVERY_MIN_MS)
        batch *= 2;
    else if (s->more)
        every_ms = every_ms > EVERY_BUSY_MS ? EVERY_BUSY_MS : every_ms / 2;
    else if (s->moved < batch / 4 && batch > BATCH)
        batch /= 2;
    else if (s->moved < batch / 4)
        every_ms *= 2;
    every_ms = at_least(every_ms, EVERY_MIN_MS);
    pace->every_ms = every_ms < s->every_max_ms ? every_ms : s->every_max_ms;
    pace->next_ms = s->e->now_ms + at_least(pace->every_ms, turn_ms(s->e));
    pace->batch = batch < BATCH_MAX ? batch : BATCH_MAX;
}

/* ---- Removal --------------------------------------------------------------------------------- */

/* What has become of a scan of finished jobs. */
struct removal {
    size_t moved;
    size_t kept; /* because a live job waits for them, or for their results, or because their rows
                  * are damaged */
    bool more;   /* there are further ones */
};

static void keep_some(struct job_page *page, bool (*goes)(void *ctx, const struct job *job),
                      void *ctx)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        if (!goes || goes(ctx, &page->jobs[i]))
            page->jobs[n++] = page->jobs[i];
    page->n = n;
}

static int remove_jobs(struct engine *e, const struct job_page *page, bool if_childless,
                       struct move_result *results, size_t *ret_removed, struct redrive_err *err)
{
    struct change_move *moves = arena_array(&e->arena, page->n, sizeof *moves);
    if (!moves)
        return err_nomem(err);
    for (size_t i = 0; i < page->n; i++)
        moves[i] = (struct change_move){.seq = page->jobs[i].status.seq,
                                        .kind = MOVE_REMOVE,
                                        .finished_ms = page->jobs[i].status.finished_ms,
                                        .if_childless = if_childless};
    const int rc = e->ops->move(e->store, CHANGES(moves, page->n), results, err);
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        *ret_removed += results[i].code == 0;
    e->touched |= *ret_removed > 0;
    return rc;
}

/* Jobs that others wait for, or have waited for. Those that were ended while they waited are not to
 * wait for what is gone when they are redriven. */
static int remove_parents(struct engine *e, const struct job_page *page,
                          struct move_result *results, size_t *ret_removed, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        rc = after_removed(e, &page->jobs[i], err);
    if (rc == 0)
        rc = remove_jobs(e, page, false, results, ret_removed, err);
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        rc = after_was_removed(&page->jobs[i], &results[i], err);
    return rc;
}

/* Leaves those jobs in the page that were not removed because they have children. Returns how many
 * are damaged. */
static size_t keep_parents(struct job_page *page, const struct move_result *results)
{
    size_t n = 0, damaged = 0;
    for (size_t i = 0; i < page->n; i++) {
        damaged += results[i].code == REDRIVE_E_CORRUPT;
        if (results[i].code != REDRIVE_E_EXISTS)
            continue;
        page->jobs[n] = page->jobs[i];
        page->jobs[n++].status.children = results[i].children;
    }
    page->n = n;
    return damaged;
}

static int remove_page(struct engine *e, struct job_page *page, struct removal *ret,
                       struct redrive_err *err)
{
    struct move_result *results = arena_array(&e->arena, page->n, sizeof *results);
    if (page->n == 0)
        return 0;
    if (!results)
        return err_nomem(err);
    int rc = remove_jobs(e, page, true, results, &ret->moved, err);
    if (rc < 0)
        return rc;
    ret->kept = keep_parents(page, results);
    const size_t parents = page->n;
    rc = after_leave_needed(e, page, err);
    ret->kept += parents - page->n;
    return rc == 0 && page->n > 0 ? remove_parents(e, page, results, &ret->moved, err) : rc;
}

/* Removes those jobs of a scan that `goes` says, or all of them if it is NULL, but for those that
 * live jobs need. */
static int scan_and_remove(struct engine *e, struct scan *scan,
                           bool (*goes)(void *ctx, const struct job *job), void *ctx,
                           struct removal *ret, struct redrive_err *err)
{
    struct job_page page = {0};
    *ret = (struct removal){0};
    scan->brief = !goes;
    int rc = engine_scan(e, scan, &page, err);
    keep_some(&page, goes, ctx);
    if (rc == 0)
        rc = remove_page(e, &page, ret, err);
    ret->kept += page.n_unreadable;
    ret->more = page.more;
    job_page_release(&page);
    return rc;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* How far the dead of the tasks that keep theirs for so many days have been looked at. */
struct sweep_mark {
    int32_t days;     /* 0: of the jobs with a policy of their own; below 0: see sweep_state */
    bool at_end;      /* nothing further was there to be looked at */
    int64_t since_ms; /* when the walk was begun */
    int64_t at_ms;
    int64_t at_seq;
    int64_t before_ms; /* where it was when the last transaction was committed */
    int64_t before_seq;
};

void retention_undo(struct engine *e)
{
    for (size_t i = 0; i < e->n_sweep_marks; i++) {
        struct sweep_mark *mark = &e->sweep_marks[i];
        mark->at_ms = mark->before_ms;
        mark->at_seq = mark->before_seq;
    }
    memcpy(e->sweep, e->sweep_before, sizeof e->sweep);
    e->is_sweeping = false;
}

void retention_keep(struct engine *e)
{
    for (size_t i = 0; i < e->n_sweep_marks; i++) {
        struct sweep_mark *mark = &e->sweep_marks[i];
        mark->before_ms = mark->at_ms;
        mark->before_seq = mark->at_seq;
    }
    memcpy(e->sweep_before, e->sweep, sizeof e->sweep);
    if (e->is_sweeping)
        e->sweep_took_ms = engine_now_ms(e) - e->now_ms;
    e->is_sweeping = false;
}

static struct sweep_mark *mark_for(struct engine *e, int32_t days)
{
    struct sweep_mark *mark = NULL;
    for (size_t i = 0; i < e->n_sweep_marks && !mark; i++)
        if (e->sweep_marks[i].days == days)
            mark = &e->sweep_marks[i];
    const bool is_new = !mark || e->now_ms < mark->since_ms /* the clock was set */ ||
                        (e->now_ms - mark->since_ms >= DAY_MS && (days || mark->at_end));
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

/* Walks on from the mark over the dead that ended before a time, removes those that go, and moves
 * the mark. */
static int walk_on(struct engine *e, struct sweep_mark *mark, int64_t before_ms,
                   bool (*goes)(void *ctx, const struct job *job), void *ctx, struct removal *ret,
                   struct redrive_err *err)
{
    struct scan scan = {.index = SCAN_FINISHED,
                        .limit = BATCH,
                        .states = IN(DEAD_LETTER) | IN(FAILED),
                        .before_ms = before_ms,
                        .after = {.ms = mark->at_ms, .seq = mark->at_seq}};
    *ret = (struct removal){0};
    if (before_ms <= 0)
        return 0;
    int rc = scan_and_remove(e, &scan, goes, ctx, ret, err);
    if (rc < 0)
        return rc;
    mark->at_ms = scan.after.ms;
    mark->at_seq = scan.after.seq;
    mark->at_end = !ret->more;
    if (!ret->more && mark->at_ms > before_ms - LATE_MS) {
        mark->at_ms = before_ms - LATE_MS;
        mark->at_seq = 0;
    }
    return 0;
}

/* The jobs of a state that is kept equally long for all tasks. Only a batch of which all jobs are
 * kept is passed, until the walk begins anew, after a day. */
static int sweep_state(struct sweep *s, enum redrive_state state, int64_t kept_ms,
                       struct redrive_err *err)
{
    struct sweep_mark *mark = mark_for(s->e, -(int32_t)state);
    struct removal outcome;
    if (!mark)
        return err_nomem(err);
    struct scan scan = {.index = SCAN_FINISHED,
                        .limit = s->batch,
                        .states = 1u << state,
                        .before_ms = s->e->now_ms - kept_ms,
                        .after = {.ms = mark->at_ms, .seq = mark->at_seq}};
    if (kept_ms / RETENTION_LATE_PART < s->every_max_ms)
        s->every_max_ms = at_least(kept_ms / RETENTION_LATE_PART, EVERY_BRIEF_MS);
    if (scan.before_ms <= 0)
        return 0;
    int rc = scan_and_remove(s->e, &scan, NULL, NULL, &outcome, err);
    const bool passes = rc == 0 && outcome.more && outcome.kept >= s->batch;
    if (passes) {
        mark->at_ms = scan.after.ms;
        mark->at_seq = scan.after.seq;
    }
    s->moved += outcome.moved;
    s->more |= outcome.more && (outcome.moved > 0 || passes);
    return rc;
}

/* Tasks that keep their dead equally long; none are named: all of them. */
struct task_names {
    const struct str *names;
    size_t n;
};

/* Jobs with a policy of their own are left to sweep_own. */
static bool is_of_tasks(void *ctx, const struct job *job)
{
    const struct task_names *tasks = ctx;
    return !trace_has_policy(job->spec.policy) &&
           (!tasks->names || claim_find(tasks->names, tasks->n, job->spec.task) < tasks->n);
}

static int sweep_tasks(struct sweep *s, int32_t days, struct task_names tasks,
                       struct redrive_err *err)
{
    struct sweep_mark *mark = mark_for(s->e, days);
    struct removal outcome;
    if (!mark)
        return err_nomem(err);
    int rc = walk_on(s->e, mark, s->e->now_ms - days * DAY_MS, is_of_tasks, &tasks, &outcome, err);
    s->moved += outcome.moved;
    s->more |= outcome.more;
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

/* The jobs that have a policy of their own. Many of a task bring the same one. */
struct own_policies {
    const struct engine *e;
    int32_t longest;         /* of all tasks */
    struct str policy, task; /* of the job before, and how long it is kept */
    int32_t length;
};

/* How long a job is kept that has a policy of its own. */
static int32_t own_length(const struct own_policies *own, const struct job_spec *spec)
{
    const struct config_task *task = task_in_force(own->e, spec->task);
    struct redrive_policy policy = task->retry;
    struct config_part *box = NULL;
    if (!*task->name)
        policy.dlq_retention_days = own->longest == FOR_EVER ? 0 : own->longest;
    int32_t days = policy.dlq_retention_days;
    if (policy_parse_kept(spec->policy, &policy, &box, NULL) == 0)
        days = box->policy.dlq_retention_days;
    config_part_free(box);
    return days == 0 ? FOR_EVER : days;
}

static bool has_outlived_its_policy(void *ctx, const struct job *job)
{
    struct own_policies *own = ctx;
    const struct job_spec *spec = &job->spec;
    if (!trace_has_policy(spec->policy))
        return false;
    if (!str_eq(spec->policy, own->policy) || !str_eq(spec->task, own->task))
        own->length = own_length(own, spec);
    own->policy = spec->policy;
    own->task = spec->task;
    return own->length != FOR_EVER &&
           job->status.finished_ms < own->e->now_ms - own->length * DAY_MS;
}

/* The dead that have a policy of their own. */
static int sweep_own(struct sweep *s, int32_t longest, struct redrive_err *err)
{
    struct own_policies own = {.e = s->e, .longest = longest};
    struct sweep_mark *mark = mark_for(s->e, 0);
    struct removal outcome;
    if (!mark)
        return err_nomem(err);
    int rc =
        walk_on(s->e, mark, s->e->now_ms - DAY_MS, has_outlived_its_policy, &own, &outcome, err);
    s->moved += outcome.moved;
    s->more |= outcome.moved > 0 && outcome.more;
    return rc;
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
        rc = sweep_tasks(s, length, (struct task_names){names, n_names}, err);
        n_names = 0;
    }
    if (rc == 0 && longest != FOR_EVER)
        rc = sweep_tasks(s, longest, (struct task_names){0}, err);
    return rc < 0 ? rc : sweep_own(s, longest, err);
}

static int sweep_completed(struct sweep *s, struct redrive_err *err)
{
    const struct config *config = s->e->options.config;
    return sweep_state(s, REDRIVE_STATE_COMPLETED, config ? config->retention.completed_ms : DAY_MS,
                       err);
}

static int sweep_cancelled(struct sweep *s, struct redrive_err *err)
{
    const struct config *config = s->e->options.config;
    return sweep_state(s, REDRIVE_STATE_CANCELLED, config ? config->retention.cancelled_ms : DAY_MS,
                       err);
}

/* Dead letters, rows of workers, breakers and limits. */
static int sweep_others(struct sweep *s, struct redrive_err *err)
{
    size_t n_gates = 0;
    int rc = sweep_dead(s, err);
    if (rc == 0)
        rc = workers_sweep(s->e, err);
    if (rc == 0)
        rc = gates_sweep(s->e, GATE_BATCH, &n_gates, err);
    s->more |= n_gates == GATE_BATCH;
    return rc;
}

int retention_sweep(struct engine *e, struct redrive_err *err)
{
    static int (*const SWEEPS[SWEEP_KINDS])(struct sweep * s, struct redrive_err * err) = {
        sweep_completed,
        sweep_cancelled,
        sweep_others,
    };
    int rc = 0;
    for (size_t i = 0; i < SWEEP_KINDS && rc == 0; i++) {
        struct sweep s = {.e = e, .batch = e->sweep[i].batch, .every_max_ms = EVERY_MAX_MS};
        if (s.batch == 0)
            s.batch = BATCH;
        if (is_due(&e->sweep[i], e->now_ms)) {
            e->is_sweeping = true;
            rc = SWEEPS[i](&s, err);
            set_pace(&e->sweep[i], &s);
        }
        engine_want_own(e, e->sweep[i].next_ms);
    }
    return rc;
}
