/* bulk_runs.c - hands chunks of redrives to the committer at a rate. */
#include "server/bulk_runs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/job_json.h"

struct bulk_run {
    struct list link; /* of bulk_runs.list */
    struct bulk_runs *all;
    struct bulk bulk;
    struct bulk_pace pace;
    struct bulk_op op;
    struct timer timer;
    struct arena arena; /* the strings of the filter */
    int64_t id;
    struct rate rate;
    uint64_t matched;
    struct str filter;
    bool in_hand;   /* the committer has its chunk */
    bool cancelled; /* it ends with that chunk */
};

struct bulk_runs {
    struct committer *committer;
    struct timers *timers;
    const struct log *log;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t ended;
    struct list list;
    size_t n;
    size_t in_hand; /* chunks that the committer has */
    int64_t last_id;
    bool stopped;
};

static void run_free(struct bulk_run *run)
{
    arena_release(&run->arena);
    free(run);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* The next chunk is due at its time, unless everything is to stop. */
static void go_on(struct bulk_run *run)
{
    struct bulk_runs *all = run->all;
    int64_t now_ms = clock_monotonic_ms(), wait_ms;
    (void)bulk_pace_due(&run->pace, now_ms, &wait_ms);
    timer_set(all->timers, &run->timer, now_ms + wait_ms);
}

static void tell(const struct bulk_run *run)
{
    log_event(run->all->log, run->op.op.code < 0 ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
              clock_wall_ms(), run->op.op.code < 0 ? "redrive_failed" : "redrive_finished",
              LOG_I("redriven", (int64_t)run->bulk.changed),
              LOG_I("refused", (int64_t)run->bulk.refused), LOG_S("error", run->op.op.err.message));
}

static void on_chunk(struct op *op, void *ctx)
{
    struct bulk_run *run = ctx;
    struct bulk_runs *all = run->all;
    pthread_mutex_lock(&all->mutex);
    if (op->code == 0) {
        bulk_add(&run->bulk, &run->op);
        bulk_pace_took(&run->pace, run->op.changed, clock_monotonic_ms());
    }
    const bool has_ended = op->code < 0 || run->bulk.finished;
    const bool is_over = has_ended || all->stopped || run->cancelled;
    all->in_hand--;
    run->in_hand = false;
    if (is_over) {
        list_remove(&run->link);
        all->n--;
    } else {
        go_on(run);
    }
    pthread_cond_broadcast(&all->ended);
    pthread_mutex_unlock(&all->mutex);
    if (!is_over)
        return;
    if (has_ended)
        tell(run);
    timer_unset(all->timers, &run->timer);
    run_free(run);
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
    bulk_op_init(&run->op, &run->bulk, n);
    run->op.op.done = on_chunk;
    run->op.op.done_ctx = run;
    committer_submit(all->committer, &run->op.op);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static void own_strings(struct bulk_run *run)
{
    struct job_filter *f = &run->bulk.filter;
    struct str *const strings[] = {&f->tenant, &f->id,         &f->task,       &f->queue,
                                   &f->user,   &f->unique_key, &f->error_type, &f->text};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        if (strings[i]->ptr)
            *strings[i] = arena_str(&run->arena, *strings[i]);
}

int bulk_runs_start(struct bulk_runs *all, const struct bulk_run_spec *spec, int64_t *ret_id,
                    struct redrive_err *err)
{
    struct bulk_run *run = calloc(1, sizeof *run);
    if (!run)
        return err_nomem(err);
    run->all = all;
    run->bulk = *spec->bulk;
    run->rate = *spec->rate;
    run->matched = spec->matched;
    arena_init(&run->arena);
    if (spec->filter.ptr)
        run->filter = arena_str(&run->arena, spec->filter);
    own_strings(run);
    if (run->arena.failed) {
        run_free(run);
        return err_nomem(err);
    }
    bulk_pace_init(&run->pace, spec->rate, clock_monotonic_ms());
    timer_init(&run->timer, on_timer);
    pthread_mutex_lock(&all->mutex);
    const bool refused = all->stopped || all->n == BULK_RUNS_MAX;
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
    (void)err_set(err, REDRIVE_E_STATE, "%d redrives at a rate go on already", BULK_RUNS_MAX);
    err_hint(err, "wait until one of them has ended, or stop one");
    return REDRIVE_E_STATE;
}

static void write_run(struct json_writer *w, const struct bulk_run *run)
{
    char text[48];
    json_begin_object(w);
    (void)snprintf(text, sizeof text, "%" PRId64, run->id);
    json_field_cstr(w, "id", text);
    job_write_time(w, "started_at", run->bulk.started_ms);
    (void)snprintf(text, sizeof text, "%" PRIu32 "/%s", run->rate.count, rate_unit(&run->rate));
    json_field_cstr(w, "rate", text);
    json_key(w, "filter");
    json_put_raw(w, run->filter.len > 0 ? run->filter : STR("null"));
    json_field_int(w, "matched", (int64_t)run->matched);
    json_field_int(w, "redriven", (int64_t)run->bulk.changed);
    json_field_int(w, "refused", (int64_t)run->bulk.refused);
    json_end_object(w);
}

void bulk_runs_write(struct bulk_runs *all, struct str tenant, struct json_writer *w)
{
    pthread_mutex_lock(&all->mutex);
    LIST_FOREACH (&all->list, link) {
        const struct bulk_run *run = LIST_ENTRY(link, struct bulk_run, link);
        if (str_eq(run->bulk.filter.tenant, tenant) && !run->cancelled)
            write_run(w, run);
    }
    pthread_mutex_unlock(&all->mutex);
}

static struct bulk_run *find(struct bulk_runs *all, struct str tenant, int64_t id)
{
    LIST_FOREACH (&all->list, link) {
        struct bulk_run *run = LIST_ENTRY(link, struct bulk_run, link);
        if (run->id == id && str_eq(run->bulk.filter.tenant, tenant) && !run->cancelled)
            return run;
    }
    return NULL;
}

bool bulk_runs_cancel(struct bulk_runs *all, struct str tenant, int64_t id)
{
    pthread_mutex_lock(&all->mutex);
    struct bulk_run *run = find(all, tenant, id);
    const bool is_ours = run && !run->in_hand;
    if (run) {
        run->cancelled = true;
        log_event(all->log, LOG_LEVEL_INFO, clock_wall_ms(), "redrive_stopped",
                  LOG_I("redriven", (int64_t)run->bulk.changed),
                  LOG_I("refused", (int64_t)run->bulk.refused));
    }
    if (is_ours) {
        list_remove(&run->link);
        all->n--;
    }
    pthread_mutex_unlock(&all->mutex);
    if (is_ours) {
        timer_unset(all->timers, &run->timer);
        run_free(run);
    }
    return run != NULL;
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
    pthread_cond_destroy(&all->ended);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}
