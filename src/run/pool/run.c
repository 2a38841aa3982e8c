/* run.c - hands claimed jobs to their runners, at once or when there is a slot, and takes what
 * comes of them; tells handlers that cannot run from jobs that break them. */
#include "run/pool/private.h"

#include "base/err.h"
#include "base/time/clock.h"

#define PAUSE_FIRST_MS 100
#define PAUSE_MOST_MS  30000
/* A job that was given back waits for at least so long, so that others are tried before it. */
#define GIVEN_BACK_MIN_MS 1000
/* A pool that is to end when it is idle stops trying after so many starts in a row. */
#define GIVE_UP_AFTER 3

/* ---- Handlers that cannot run: suspects ------------------------------------------------------ */

void suspects_worked(struct suspects *s)
{
    s->n_worked++;
}

static struct suspect *find_or_add(struct suspects *s, int64_t seq)
{
    for (size_t i = 0; i < SUSPECTS_MAX; i++)
        if (s->items[i].seq == seq)
            return &s->items[i];
    struct suspect *added = &s->items[s->next];
    s->next = (s->next + 1) % SUSPECTS_MAX;
    *added = (struct suspect){.seq = seq, .n_worked = s->n_worked};
    return added;
}

bool suspects_blame_job(struct suspects *s, int64_t seq)
{
    struct suspect *suspect = find_or_add(s, seq);
    const bool others_went_well = s->n_worked > suspect->n_worked;
    const bool was_given_back_enough = s->n_worked > 0 && suspect->times >= SUSPECTS_PATIENCE;
    suspect->times++;
    return others_went_well || was_given_back_enough;
}

/* ---- Handlers that cannot run: pauses -------------------------------------------------------- */

static bool is_fault(struct pool_task *task, int64_t seq, enum run_fault fault)
{
    if (fault == RUN_FAULT_NONE)
        return false;
    return fault == RUN_FAULT_CERTAIN || !suspects_blame_job(&task->fault.suspects, seq);
}

static void on_pause_over(uv_timer_t *timer)
{
    (void)timer; /* the turn that this begins ends with another claim */
}

static int64_t longer(int64_t pause_ms)
{
    if (pause_ms < PAUSE_FIRST_MS)
        return PAUSE_FIRST_MS;
    return pause_ms < PAUSE_MOST_MS / 2 ? pause_ms * 2 : PAUSE_MOST_MS;
}

static void pause_task(struct pool_task *task, const char *message)
{
    struct pool_fault *fault = &task->fault;
    const bool is_first = fault->n_in_a_row == 1;
    fault->pause_ms = longer(fault->pause_ms);
    str_copy(fault->message, sizeof fault->message,
             str_of(message ? message : "its program died before its first answer"));
    uv_update_time(task->pool->options.loop);
    uv_timer_start(&fault->pause, on_pause_over, (uint64_t)fault->pause_ms, 0);
    log_event(task->pool->options.log, is_first ? LOG_LEVEL_ERROR : LOG_LEVEL_DEBUG,
              clock_wall_ms(), "handler_cannot_run", LOG_S("task", task->config->name),
              LOG_S("error", fault->message), LOG_I("delay_ms", fault->pause_ms));
}

static void note_worked(struct pool_task *task)
{
    struct pool_fault *fault = &task->fault;
    suspects_worked(&fault->suspects);
    if (fault->n_in_a_row > 0)
        log_event(task->pool->options.log, LOG_LEVEL_INFO, clock_wall_ms(), "handler_runs_again",
                  LOG_S("task", task->config->name));
    fault->n_in_a_row = 0;
    fault->pause_ms = 0;
    uv_timer_stop(&fault->pause);
}

void pool_fault_init(struct pool_task *task)
{
    uv_timer_init(task->pool->options.loop, &task->fault.pause);
    task->fault.pause.data = task->pool;
}

/* A start for which this machine had no process or memory (errnum) shows nothing. */
static bool has_worked(const struct run_outcome *ran)
{
    const bool has_answered =
        ran->outcome.ending == ENDING_RAN || ran->outcome.ending == ENDING_SNOOZED;
    return has_answered && ran->fault == RUN_FAULT_NONE && ran->outcome.failure.errnum == 0;
}

/* To be called for each run that has ended. True: the handler is at fault and not the job; `ret` is
 * how the job ends instead, without losing an attempt, and the task pauses. */
static bool fault_takes(struct pool_task *task, int64_t seq, const struct run_outcome *ran,
                        struct run_outcome *ret)
{
    struct pool_fault *fault = &task->fault;
    if (!is_fault(task, seq, ran->fault)) {
        if (has_worked(ran))
            note_worked(task);
        return false;
    }
    /* Several runs that die together are one start of the handler. */
    if (!uv_is_active((uv_handle_t *)&fault->pause)) {
        fault->n_in_a_row++;
        pause_task(task, ran->outcome.failure.message);
        pool_ahead_give_back(task);
    }
    const int64_t twice_ms = fault->pause_ms * 2;
    *ret = (struct run_outcome){
        .outcome = {.ending = ENDING_SNOOZED,
                    .snooze_ms = twice_ms > GIVEN_BACK_MIN_MS ? twice_ms : GIVEN_BACK_MIN_MS}};
    return true;
}

bool pool_fault_is_final(const struct pool_task *task)
{
    return task->pool->options.until_idle && task->fault.n_in_a_row >= GIVE_UP_AFTER;
}

bool pool_fault_pauses(const struct pool_task *task)
{
    return uv_is_active((const uv_handle_t *)&task->fault.pause) || pool_fault_is_final(task);
}

/* One start that failed after others had worked says little: the job may be the reason. */
static bool is_broken(const struct pool_fault *fault)
{
    return fault->n_in_a_row >= GIVE_UP_AFTER ||
           (fault->n_in_a_row > 0 && fault->suspects.n_worked == 0);
}

int pool_fault(const struct pool *pool, struct redrive_err *err)
{
    for (size_t i = 0; i < pool->n_tasks; i++) {
        const struct pool_task *task = &pool->tasks[i];
        if (!is_broken(&task->fault))
            continue;
        int rc =
            err_set(err, REDRIVE_E_IO, "the handler of task '%s' cannot run", task->config->name);
        err_detail(err, "%s", task->fault.message);
        err_hint(err, "its jobs wait unharmed; mend the handler and run this again");
        return rc;
    }
    return 0;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void on_done(const struct run_outcome *ran, void *ctx)
{
    struct pool_job *job = ctx;
    struct pool *pool = job->task->pool;
    job->run = NULL;
    job->task->running--;
    pool->running--;
    pool->n_ended++;
    claim_pace_run(&job->task->pace, (int64_t)((uv_hrtime() - job->since_ns) / 1000));
    if (job->is_lost) {
        pool_job_end(job);
        return;
    }
    /* One that had ended by itself in that moment counts, if the store takes it. */
    if (job->is_told && ran->outcome.ending == ENDING_CANCELLED) {
        pool_job_give_back(job);
        return;
    }
    struct run_outcome given_back;
    pool_job_keep(job, fault_takes(job->task, job->seq, ran, &given_back) ? &given_back : ran);
    job->is_doubtful = job->outcome.ending == ENDING_RAN && job->outcome.failure.failed;
    job->task->n_doubtful[job->shard] += job->is_doubtful;
    pool->has_failed |= job->is_doubtful;
    list_insert(&pool->to_settle, &job->queue);
}

/* A runner that takes no job because it stops costs nothing; one that cannot has failed it. */
static void not_started(struct pool_job *job, int code, const struct redrive_err *err)
{
    if (code == REDRIVE_E_STOPPING) {
        pool_job_give_back(job);
        return;
    }
    pool_job_keep(
        job, &(struct run_outcome){
                 .outcome.failure = {.failed = true, .status = "system", .message = err->message}});
    list_insert(&job->task->pool->to_settle, &job->queue);
}

static void start_job(struct pool_job *job)
{
    struct pool_task *task = job->task;
    struct redrive_err err;
    int rc = REDRIVE_E_STOPPING;
    job->since_ns = uv_hrtime();
    if (task->runner)
        rc = runner_start(task->runner, &job->request, on_done, job, &job->run, &err);
    if (rc < 0) {
        not_started(job, rc, &err);
        return;
    }
    task->running++;
    task->pool->running++;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static bool has_slot(const struct pool_task *task)
{
    return task->running < task->slots && task->pool->running < task->pool->slots;
}

void pool_run_take(struct pool_job *job)
{
    struct pool_task *task = job->task;
    /* By a definition of another process, perhaps, a cron entry, or a policy of its own. */
    task->may_go_ahead &= !job->has_limit && job->request.max_attempts > 1;
    const bool is_in_doubt = task->n_doubtful[job->shard] > 0;
    const bool must_wait = task->n_ahead > 0 || (task->may_go_ahead && is_in_doubt);
    if (task->pool->is_stopping || (!must_wait && has_slot(task)))
        start_job(job);
    else if (!task->may_go_ahead || pool_fault_pauses(task))
        pool_job_give_back(job);
    else
        pool_ahead_wait(job);
}

/* The first job that waits and may start; NULL: none. */
static struct pool_job *next_waiting(const struct pool_task *task)
{
    LIST_FOREACH (&task->ahead, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        if (task->n_doubtful[job->shard] == 0)
            return job;
    }
    return NULL;
}

static void start_waiting(struct pool_task *task)
{
    const uint64_t now_ns = uv_hrtime();
    struct pool_job *job;
    if (task->n_ahead == 0 || !has_slot(task))
        return;
    runner_cork(task->runner);
    while (has_slot(task) && (job = next_waiting(task))) {
        pool_ahead_remove(job);
        job->waited_ms = (int64_t)((now_ns - job->since_ns) / 1000000);
        start_job(job);
    }
    runner_uncork(task->runner);
}

void pool_run_waiting(struct pool *pool)
{
    /* A store in trouble is given no more work than it has. */
    if (pool->n_ahead == 0 || pool->pause_ms > 0)
        return;
    for (size_t i = 0; i < pool->n_tasks; i++)
        start_waiting(&pool->tasks[i]);
}
