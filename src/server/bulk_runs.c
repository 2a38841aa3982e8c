/* bulk_runs.c - hands chunks of bulks to the committer, at a rate or one after the other. */
#include "server/bulk_runs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/job_json.h"

/* A chunk that failed because the store was away is tried again after so long, and for so long. If
 * it was made all the same, its jobs do not match any more, and the next try takes others. */
#define TRY_AGAIN_MS    1000
#define KEEPS_TRYING_MS (5 * 60 * 1000)

enum run_state {
    RUN_RUNNING,
    RUN_FINISHED,
    RUN_STOPPED,
    RUN_FAILED,
};

struct bulk_run {
    struct list link; /* of bulk_runs.list, or .ended_runs */
    struct bulk_runs *all;
    enum bulk_verb verb;
    enum run_state state;
    struct bulk parts[BULK_PARTS_MAX];
    size_t n_parts;
    struct bulk *part; /* the one under way; NULL: all are through */
    struct bulk_pace pace;
    struct bulk_op op;
    struct timer timer;
    struct arena arena; /* the strings of the filter */
    int64_t id;
    struct rate rate;
    uint64_t matched;
    bool is_at_least;
    struct str filter;
    int64_t ended_ms;
    int64_t failing_ms; /* since when its chunks have failed, monotonic; 0: the last one has not */
    bool in_hand;       /* the committer has its chunk */
    bool cancelled;     /* it ends with that chunk */
};

struct bulk_runs {
    struct committer *committer;
    struct timers *timers;
    const struct log *log;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t ended;
    struct list list;
    size_t n;
    struct list ended_runs; /* the oldest first */
    size_t n_ended;
    size_t in_hand; /* runs that another thread works on: a chunk, or the end */
    int64_t last_id;
    bool stopped;
};

static void run_free(struct bulk_run *run)
{
    arena_release(&run->arena);
    free(run);
}

/* It has not been stopped, and has not ended. */
static bool is_under_way(const struct bulk_run *run)
{
    return !run->cancelled && run->state == RUN_RUNNING;
}

static bool has_tenant(const struct bulk_run *run, struct str tenant)
{
    return str_eq(run->parts[0].filter.tenant, tenant);
}

/* From here on it has ended, and is shown as such; it stays where it is until its timer is known to
 * be gone. The mutex is held. */
static void end_run(struct bulk_run *run, enum run_state state)
{
    run->state = state;
    run->ended_ms = clock_wall_ms();
    run->all->n--;
}

/* One that has ended goes to those that are kept, of which the oldest is forgotten when there are
 * too many. Without the mutex: a timer that fires is waited for. */
static void keep_ended(struct bulk_run *run)
{
    struct bulk_runs *all = run->all;
    struct bulk_run *oldest = NULL;
    timer_unset(all->timers, &run->timer);
    pthread_mutex_lock(&all->mutex);
    list_remove(&run->link);
    list_insert(&all->ended_runs, &run->link);
    if (++all->n_ended > BULK_RUNS_KEPT) {
        oldest = LIST_ENTRY(all->ended_runs.next, struct bulk_run, link);
        list_remove(&oldest->link);
        all->n_ended--;
    }
    all->in_hand--;
    pthread_cond_broadcast(&all->ended);
    pthread_mutex_unlock(&all->mutex);
    if (oldest)
        run_free(oldest);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* The next chunk is due at its time, unless everything is to stop. */
static void go_on(struct bulk_run *run)
{
    struct bulk_runs *all = run->all;
    int64_t now_ms = clock_monotonic_ms(), wait_ms = TRY_AGAIN_MS;
    if (run->failing_ms == 0)
        (void)bulk_pace_due(&run->pace, now_ms, &wait_ms);
    timer_set(all->timers, &run->timer, now_ms + wait_ms);
}

static void tell(const struct bulk_run *run, enum run_state state)
{
    const enum log_level level = state == RUN_FAILED ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO;
    const int64_t changed = (int64_t)bulk_changed(run->parts, run->n_parts),
                  refused = (int64_t)bulk_refused(run->parts, run->n_parts);
    const char *error = state == RUN_FAILED ? run->op.op.err.message : "";
    if (run->verb == BULK_REDRIVE)
        log_event(run->all->log, level, clock_wall_ms(),
                  state == RUN_FAILED    ? "redrive_failed"
                  : state == RUN_STOPPED ? "redrive_stopped"
                                         : "redrive_finished",
                  LOG_I("redriven", changed), LOG_I("refused", refused), LOG_S("error", error));
    else
        log_event(run->all->log, level, clock_wall_ms(),
                  state == RUN_FAILED    ? "bulk_failed"
                  : state == RUN_STOPPED ? "bulk_stopped"
                                         : "bulk_finished",
                  LOG_S("verb", bulk_verb_name(run->verb)), LOG_I("changed", changed),
                  LOG_I("refused", refused), LOG_S("error", error));
}

/* Goes on to the next part when one is through. */
static bool is_through(struct bulk_run *run)
{
    run->part = bulk_part(run->parts, run->n_parts);
    return !run->part;
}

static void take_chunk(struct bulk_run *run)
{
    bulk_add(run->part, &run->op);
    bulk_pace_took(&run->pace, run->op.changed, clock_monotonic_ms());
    run->failing_ms = 0;
}

/* Whether the chunk that failed may succeed later. */
static bool is_tried_again(struct bulk_run *run, int code)
{
    const int64_t now_ms = clock_monotonic_ms();
    if (code == 0 || !redrive_err_retryable(code) || code == REDRIVE_E_STOPPING)
        return false;
    if (run->failing_ms == 0)
        run->failing_ms = now_ms;
    return now_ms - run->failing_ms < KEEPS_TRYING_MS;
}

static void on_chunk(struct op *op, void *ctx)
{
    struct bulk_run *run = ctx;
    struct bulk_runs *all = run->all;
    pthread_mutex_lock(&all->mutex);
    if (op->code == 0)
        take_chunk(run);
    const bool is_again = is_tried_again(run, op->code);
    const bool has_failed = op->code < 0 && !is_again;
    const bool has_ended = has_failed || (!is_again && is_through(run));
    const bool is_over = has_ended || all->stopped || run->cancelled;
    const enum run_state state = has_failed ? RUN_FAILED : has_ended ? RUN_FINISHED : RUN_STOPPED;
    run->in_hand = false;
    if (is_over) {
        end_run(run, state);
    } else {
        go_on(run);
        all->in_hand--;
        pthread_cond_broadcast(&all->ended);
    }
    pthread_mutex_unlock(&all->mutex);
    if (has_ended)
        tell(run, state);
    if (is_over)
        keep_ended(run);
}

static void on_timer(struct timer *timer)
{
    struct bulk_run *run = LIST_ENTRY(timer, struct bulk_run, timer);
    struct bulk_runs *all = run->all;
    int64_t wait_ms;
    pthread_mutex_lock(&all->mutex);
    const bool stopped = all->stopped || run->cancelled;
    size_t n = stopped ? 0 : bulk_pace_due(&run->pace, clock_monotonic_ms(), &wait_ms);
    run->in_hand = n > 0;
    if (n > 0)
        all->in_hand++;
    else if (!stopped)
        go_on(run);
    pthread_mutex_unlock(&all->mutex);
    if (n == 0)
        return;
    bulk_op_init(&run->op, run->part, n);
    run->op.op.done = on_chunk;
    run->op.op.done_ctx = run;
    committer_submit(all->committer, &run->op.op);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static void own_strings(struct bulk_run *run, struct job_filter *f)
{
    struct str *const strings[] = {&f->tenant, &f->id,         &f->task,       &f->queue,
                                   &f->user,   &f->unique_key, &f->error_type, &f->text};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        if (strings[i]->ptr)
            *strings[i] = arena_str(&run->arena, *strings[i]);
}

int bulk_runs_start(struct bulk_runs *all, const struct bulk_plan *plan, int64_t *ret_id,
                    struct redrive_err *err)
{
    struct bulk_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_nomem(err);
    run->all = all;
    run->verb = plan->verb;
    run->rate = plan->rate;
    run->matched = plan->matched;
    run->is_at_least = plan->is_at_least;
    arena_init(&run->arena);
    for (; run->n_parts < plan->n_parts; run->n_parts++) {
        run->parts[run->n_parts] = plan->parts[run->n_parts];
        own_strings(run, &run->parts[run->n_parts].filter);
    }
    if (plan->filter.ptr)
        run->filter = arena_str(&run->arena, plan->filter);
    (void)is_through(run);
    if (run->arena.failed) {
        run_free(run);
        return err_nomem(err);
    }
    bulk_pace_init(&run->pace, &plan->rate, clock_monotonic_ms());
    timer_init(&run->timer, on_timer);
    pthread_mutex_lock(&all->mutex);
    const bool is_stopping = all->stopped;
    const bool refused = is_stopping || all->n == BULK_RUNS_MAX;
    if (!refused) {
        list_insert(&all->list, &run->link);
        all->n++;
        *ret_id = run->id = ++all->last_id;
        go_on(run);
    }
    pthread_mutex_unlock(&all->mutex);
    if (!refused)
        return 0;
    run_free(run);
    if (is_stopping)
        return err_set(err, REDRIVE_E_STOPPING, "shutting down");
    (void)err_set(err, REDRIVE_E_STATE, "%d such runs go on already", BULK_RUNS_MAX);
    err_hint(err, "wait until one of them has ended, or stop one");
    return REDRIVE_E_STATE;
}

/* Rate, null: none; and what was asked for. */
static void write_request(struct json_writer *w, const struct bulk_run *run, bool hides_filter)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%" PRId64, run->id);
    json_field_cstr(w, "id", text);
    job_write_time(w, "started_at", run->parts[0].started_ms);
    (void)snprintf(text, sizeof text, "%" PRIu32 "/%s", run->rate.count,
                   run->rate.count > 0 ? rate_unit(&run->rate) : "");
    json_field_cstr(w, "rate", run->rate.count > 0 ? text : NULL);
    json_key(w, "filter");
    json_put_raw(w, run->filter.len > 0 && !hides_filter ? run->filter : STR("null"));
    json_field_int(w, "matched", (int64_t)run->matched);
    json_field_bool(w, "at_least", run->is_at_least);
}

static void write_redrive(struct json_writer *w, const struct bulk_run *run, bool hides_filter)
{
    json_begin_object(w);
    write_request(w, run, hides_filter);
    json_field_int(w, "redriven", (int64_t)bulk_changed(run->parts, run->n_parts));
    json_field_int(w, "refused", (int64_t)bulk_refused(run->parts, run->n_parts));
    json_end_object(w);
}

static void write_run(struct json_writer *w, const struct bulk_run *run, bool hides_filter)
{
    static const char *const STATES[] = {"running", "finished", "stopped", "failed"};
    json_begin_object(w);
    write_request(w, run, hides_filter);
    json_field_cstr(w, "verb", bulk_verb_name(run->verb));
    json_field_cstr(w, "state", STATES[run->state]);
    json_field_int(w, "changed", (int64_t)bulk_changed(run->parts, run->n_parts));
    json_field_int(w, "refused", (int64_t)bulk_refused(run->parts, run->n_parts));
    job_write_time(w, "ended_at", run->ended_ms);
    json_field_cstr(w, "error", run->state == RUN_FAILED ? run->op.op.err.message : NULL);
    json_end_object(w);
}

void bulk_runs_write_redrives(struct bulk_runs *all, struct str tenant, bool hides_filter,
                              struct json_writer *w)
{
    HOLD(&all->mutex);
    LIST_FOREACH (&all->list, link) {
        const struct bulk_run *run = LIST_ENTRY(link, struct bulk_run, link);
        if (has_tenant(run, tenant) && is_under_way(run) && run->verb == BULK_REDRIVE)
            write_redrive(w, run, hides_filter);
    }
}

void bulk_runs_write(struct bulk_runs *all, struct str tenant, bool hides_filter,
                     struct json_writer *w)
{
    struct list *const lists[] = {&all->list, &all->ended_runs};
    HOLD(&all->mutex);
    for (size_t i = 0; i < 2; i++)
        LIST_FOREACH (lists[i], link) {
            const struct bulk_run *run = LIST_ENTRY(link, struct bulk_run, link);
            if (has_tenant(run, tenant))
                write_run(w, run, hides_filter);
        }
}

static struct bulk_run *find(struct list *list, struct str tenant, int64_t id)
{
    LIST_FOREACH (list, link) {
        struct bulk_run *run = LIST_ENTRY(link, struct bulk_run, link);
        if (run->id == id && has_tenant(run, tenant))
            return run;
    }
    return NULL;
}

bool bulk_runs_write_one(struct bulk_runs *all, struct str tenant, int64_t id, bool hides_filter,
                         struct json_writer *w)
{
    HOLD(&all->mutex);
    const struct bulk_run *run = find(&all->list, tenant, id);
    if (!run)
        run = find(&all->ended_runs, tenant, id);
    if (run)
        write_run(w, run, hides_filter);
    return run != NULL;
}

bool bulk_runs_cancel(struct bulk_runs *all, struct str tenant, int64_t id)
{
    pthread_mutex_lock(&all->mutex);
    struct bulk_run *run = find(&all->list, tenant, id);
    if (run && !is_under_way(run))
        run = NULL;
    const bool is_ours = run && !run->in_hand;
    if (run) {
        run->cancelled = true;
        tell(run, RUN_STOPPED);
    }
    if (is_ours) {
        end_run(run, RUN_STOPPED);
        all->in_hand++;
    }
    pthread_mutex_unlock(&all->mutex);
    if (is_ours)
        keep_ended(run);
    return run != NULL;
}

void bulk_runs_close(struct bulk_runs *all)
{
    HOLD(&all->mutex);
    all->stopped = true;
}

void bulk_runs_stop(struct bulk_runs *all)
{
    pthread_mutex_lock(&all->mutex);
    all->stopped = true;
    while (all->in_hand > 0)
        pthread_cond_wait(&all->ended, &all->mutex);
    struct list rest;
    list_init(&rest);
    LIST_FOREACH (&all->list, link) {
        list_remove(link);
        list_insert(&rest, link);
    }
    all->n = 0;
    pthread_mutex_unlock(&all->mutex);
    LIST_FOREACH (&rest, link) {
        struct bulk_run *run = LIST_ENTRY(link, struct bulk_run, link);
        timer_unset(all->timers, &run->timer);
        run_free(run);
    }
}

int bulk_runs_new(struct committer *committer, struct timers *timers, const struct log *log,
                  struct bulk_runs **ret, struct redrive_err *err)
{
    struct bulk_runs *all = calloc(1, sizeof *all);
    *ret = all;
    if (!all)
        return err_nomem(err);
    all->committer = committer;
    all->timers = timers;
    all->log = log;
    all->last_id = clock_wall_ms();
    list_init(&all->list);
    list_init(&all->ended_runs);
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->ended, NULL);
    return 0;
}

void bulk_runs_free(struct bulk_runs *all)
{
    if (!all)
        return;
    LIST_FOREACH (&all->list, link)
        run_free(LIST_ENTRY(link, struct bulk_run, link));
    LIST_FOREACH (&all->ended_runs, link)
        run_free(LIST_ENTRY(link, struct bulk_run, link));
    pthread_cond_destroy(&all->ended);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}
