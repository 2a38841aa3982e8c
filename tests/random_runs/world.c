/* world.c - processes, the store between an engine and its handle that fails, and steps. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"
#include "engine/engine.h"

/* Without faults every job ends in this time, or has to wait for a person. */
#define DRAIN_MS (10 * 60 * 1000)

static void give_up(const char *what, const struct redrive_err *err)
{
    (void)fprintf(stderr, "simulation: %s: %s; %s\n", what, err->message, err->detail);
    exit(2);
}

void world_say(const struct world *world, const char *format, ...)
{
    if (!world->trace)
        return;
    va_list args;
    va_start(args, format);
    (void)printf("%*s", (int)(4 * world->depth), "");
    (void)vprintf(format, args);
    (void)printf("\n");
    va_end(args);
}

/* ---- The store that fails -------------------------------------------------------------------- */

static struct process *process_of(struct store *store)
{
    return (struct process *)(void *)store;
}

static int fail(struct process *p, enum fault_kind kind, struct redrive_err *err)
{
    p->world->met[kind]++;
    world_say(p->world, "  process %d: %s", p->number,
              kind == FAULT_CONFLICT ? "another transaction was in the way" : "a call fails");
    p->wrap.base.is_rolled_back = false;
    return err_set(err, kind == FAULT_CONFLICT ? REDRIVE_E_CANCELLED : REDRIVE_E_IO,
                   "this call was to fail");
}

static int die(struct process *p, enum fault_kind kind, struct redrive_err *err)
{
    p->is_dead = true;
    world_say(p->world, "  process %d is killed", p->number);
    return fail(p, kind, err);
}

/* Mostly some milliseconds, now and then longer than a lease. */
static void take_long(struct process *p)
{
    struct world *w = p->world;
    const int64_t ms = 1 + (int64_t)rng_below(&w->rng, UINT64_C(1) << rng_below(&w->rng, 17));
    w->met[FAULT_SLOW]++;
    world_say(w, "  process %d: a call takes %lld ms", p->number, (long long)ms);
    world_pass(w, ms);
}

static int before(struct wrap *wrap, struct redrive_err *err)
{
    struct process *p = (struct process *)(void *)wrap;
    if (p->is_dead)
        return err_set(err, REDRIVE_E_IO, "the process is dead");
    p->calls++;
    if (p->calls != p->plan.nth)
        return 0;
    switch (p->plan.kind) {
    case FAULT_CALL_FAILS:
    case FAULT_CONFLICT: return fail(p, p->plan.kind, err);
    case FAULT_KILLED: return die(p, FAULT_KILLED, err);
    case FAULT_SLOW: take_long(p); return 0;
    default: return 0;
    }
}

/* One step of another process, before this one's transaction begins. */
static void let_other_go_first(struct process *p)
{
    struct world *w = p->world;
    struct process *other =
        &w->processes[(p->number + 1 + (int)rng_below(&w->rng, PROCESSES - 1)) % PROCESSES];
    w->met[FAULT_OTHER_FIRST]++;
    w->depth++;
    other->plan = (struct plan){0};
    world_act(w, other);
    w->depth--;
}

/* ---- A store that does not ask its server at each begin (store.h) ---------------------------- */

static int64_t passed_ms(const struct world *w)
{
    return w->now_ms - w->ahead_ms;
}

static void told(struct process *p, int64_t version)
{
    p->told_version = version;
    p->told_ms = passed_ms(p->world);
}

/* The shared version for a transaction that has begun at `version`. */
static int64_t begin_unasked(struct process *p, int64_t version)
{
    const int64_t age_ms = passed_ms(p->world) - p->told_ms;
    const bool asks = store_must_ask(&p->wrap.base, age_ms) || p->told_ms == 0;
    const bool is_to_be = p->plan.kind == FAULT_STALE && p->begins == p->plan.nth;
    p->version = version;
    p->is_stale = is_to_be && !asks && p->told_version != version;
    if (!p->is_stale) {
        told(p, version);
        return version;
    }
    p->world->met[FAULT_STALE]++;
    world_say(p->world, "  process %d begins with shared version %lld, which is %lld by now",
              p->number, (long long)p->told_version, (long long)version);
    return p->told_version;
}

/* What asks the server for jobs notices it. */
static int notice(struct process *p, struct redrive_err *err)
{
    told(p, p->version);
    if (!p->is_stale || p->world->bug == BUG_UNNOTICED)
        return 0;
    p->is_stale = false;
    return err_set(err, REDRIVE_E_CANCELLED, "something that processes share has changed");
}

static int ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    struct process *p = process_of(store);
    int rc = before(&p->wrap, err);
    if (rc == 0)
        rc = notice(p, err);
    return rc == 0 ? store_ops(p->wrap.inner)->ready(p->wrap.inner, filter, ret, err) : rc;
}

static int scan(struct store *store, struct scan *scan, struct job_page *ret,
                struct redrive_err *err)
{
    struct process *p = process_of(store);
    int rc = before(&p->wrap, err);
    if (rc == 0 && scan->index <= SCAN_DEADLINES)
        rc = notice(p, err);
    return rc == 0 ? store_ops(p->wrap.inner)->scan(p->wrap.inner, scan, ret, err) : rc;
}

/* The answer to a commit has the shared version after it. */
static void learn_from_commit(struct process *p)
{
    struct store *inner = p->wrap.inner;
    int64_t now_ms, version;
    if (store_ops(inner)->begin(inner, p->transaction_ms, &now_ms, &version, NULL) != 0)
        return;
    store_ops(inner)->rollback(inner);
    told(p, version);
}

/* ---- Transactions ---------------------------------------------------------------------------- */

static int begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err)
{
    struct process *p = process_of(store);
    p->begins++;
    if (p->plan.kind == FAULT_OTHER_FIRST && p->begins == p->plan.nth && p->world->depth == 0)
        let_other_go_first(p);
    int rc = before(&p->wrap, err);
    if (rc == 0)
        rc = store_ops(p->wrap.inner)
                 ->begin(p->wrap.inner, now_ms, ret_now_ms, ret_shared_version, err);
    if (rc == 0)
        *ret_shared_version = begin_unasked(p, *ret_shared_version);
    return rc;
}

static int64_t set_time(struct store *store, int64_t now_ms)
{
    struct process *p = process_of(store);
    p->transaction_ms = store_ops(p->wrap.inner)->set_time(p->wrap.inner, now_ms);
    return p->transaction_ms;
}

static int commit(struct store *store, struct redrive_err *err)
{
    struct process *p = process_of(store);
    int rc = before(&p->wrap, err);
    if (rc == 0)
        rc = store_ops(p->wrap.inner)->commit(p->wrap.inner, err);
    if (rc == 0)
        learn_from_commit(p);
    if (rc != 0 || ++p->commits != p->plan.nth)
        return rc;
    if (p->plan.kind == FAULT_ANSWER_LOST)
        return fail(p, FAULT_ANSWER_LOST, err);
    return p->plan.kind == FAULT_KILLED_COMMITTED ? die(p, FAULT_KILLED_COMMITTED, err) : 0;
}

/* ---- Processes ------------------------------------------------------------------------------- */

static int64_t clock_of(void *ctx)
{
    return ((const struct world *)ctx)->now_ms;
}

static struct store *open_handle(const struct world *world)
{
    const struct store_options options = {
        .create = true, .caller_time = true, .busy_wait_ms = 1000};
    struct redrive_err err = {0};
    struct store *store;
    if (store_open(world->url, &options, &store, &err) < 0)
        give_up("the store cannot be opened", &err);
    return store;
}

static void start_process(struct world *world, int number)
{
    struct process *p = &world->processes[number];
    struct redrive_err err = {0};
    *p = (struct process){.handle = open_handle(world), .world = world, .number = number};
    buggy_init(&p->buggy, p->handle, world->bug);
    wrap_init(&p->wrap, wrap_store(&p->buggy.wrap));
    p->wrap.before = before;
    p->wrap.ops.begin = begin;
    p->wrap.ops.set_time = set_time;
    p->wrap.ops.commit = commit;
    p->wrap.ops.ready = ready;
    p->wrap.ops.scan = scan;
    const struct engine_options options = {
        .store = wrap_store(&p->wrap),
        .config = world->config,
        .clock = clock_of,
        .clock_ctx = world,
        .seed = rng_mix(world->seed ^ rng_mix((uint64_t)number + PROCESSES * world->killed)) | 1,
        .after_max = world->seed % 3, /* skipped jobs are many at once */
    };
    if (engine_open(&options, &p->engine, &err) < 0)
        give_up("an engine cannot be opened", &err);
}

static void stop_process(struct process *p)
{
    p->is_dead = true; /* nothing that closing does reaches the store */
    engine_close(p->engine);
    store_close(p->handle);
}

static void load_config(struct world *world)
{
    char path[] = "/tmp/simulation-XXXXXX";
    struct config_report report;
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, JUDGE_CONFIG, strlen(JUDGE_CONFIG)) != (ssize_t)strlen(JUDGE_CONFIG))
        abort();
    const struct config_sources sources = {.path = path, .path_required = true};
    if (config_load(&sources, &world->config, &report) < 0)
        give_up("the configuration", &report.errors[0]);
    (void)close(fd);
    (void)unlink(path);
}

void world_open(struct world *world, uint64_t seed, const char *store_name, enum bug bug)
{
    *world = (struct world){
        .seed = seed, .now_ms = WORLD_START_MS, .latest_ms = WORLD_START_MS, .bug = bug};
    stores_empty_url(store_name, world->url);
    load_config(world);
    judge_init(&world->judge);
    judge_time(&world->judge, world->now_ms);
    world->eye = open_handle(world);
    for (int i = 0; i < PROCESSES; i++)
        start_process(world, i);
}

void world_close(struct world *world)
{
    for (int i = 0; i < PROCESSES; i++)
        stop_process(&world->processes[i]);
    store_close(world->eye);
    judge_release(&world->judge);
    config_free(world->config);
    stores_remove(world->url);
}

/* ---- Time ------------------------------------------------------------------------------------ */

void world_pass(struct world *world, int64_t ms)
{
    world->now_ms += ms;
    if (world->now_ms > world->latest_ms)
        world->latest_ms = world->now_ms;
    judge_time(&world->judge, world->now_ms);
}

void world_set_clock(struct world *world, int64_t ahead_ms)
{
    const int64_t by_ms = ahead_ms - world->ahead_ms;
    world->ahead_ms = ahead_ms;
    world->clock_sets++;
    /* Breakers that opened by the former clock begin anew: when they let calls through is not
     * known. */
    world->judge.breaker.open_until_ms = 0;
    world_pass(world, by_ms);
    world_say(world, "  the clock is set %s by %lld ms", by_ms < 0 ? "back" : "forward",
              (long long)(by_ms < 0 ? -by_ms : by_ms));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void replace_dead(struct world *world)
{
    for (int i = 0; i < PROCESSES; i++)
        if (world->processes[i].is_dead) {
            stop_process(&world->processes[i]);
            world->killed++;
            start_process(world, i);
        }
}

static struct plan draw_plan(struct world *world)
{
    const uint64_t kind = rng_below(&world->rng, FAULT_COUNT * 4);
    /* A request makes few calls; several in one transaction, or a tick, make more. */
    const uint64_t calls = rng_below(&world->rng, 3) == 0 ? 30 : 9;
    return kind == FAULT_NONE || kind >= FAULT_COUNT
               ? (struct plan){0}
               : (struct plan){(enum fault_kind)kind, 1 + (unsigned)rng_below(&world->rng, calls)};
}

static void begin_step(struct process *p, struct plan plan)
{
    p->plan = plan;
    p->calls = p->commits = p->begins = 0;
}

bool world_step(struct world *world, unsigned long n)
{
    world->step = n;
    rng_seed(&world->rng, rng_mix(world->seed) ^ rng_mix(n));
    struct process *p = &world->processes[rng_below(&world->rng, PROCESSES)];
    struct plan plan = draw_plan(world);
    /* Commits and begins are few in a step. */
    if (plan.kind == FAULT_ANSWER_LOST || plan.kind == FAULT_KILLED_COMMITTED ||
        plan.kind == FAULT_OTHER_FIRST || plan.kind == FAULT_STALE)
        plan.nth = plan.nth > 6 ? 2 : 1;
    begin_step(p, world->is_calm ? (struct plan){0} : plan);
    world_say(world, "step %lu, process %d", n, p->number);
    world_act(world, p);
    replace_dead(world);
    judge_look(&world->judge, world->eye, world->now_ms, n % 16 == 0);
    return world->judge.complaint[0] == '\0';
}

/* Those that come to an end by themselves. */
static size_t live_jobs(struct judge *judge)
{
    size_t n = 0;
    for (size_t i = 0; i < judge->n; i++)
        n += judge->jobs[i].state != REDRIVE_STATE_COMPLETED &&
             judge->jobs[i].state != REDRIVE_STATE_FAILED &&
             judge->jobs[i].state != REDRIVE_STATE_DEAD_LETTER &&
             judge->jobs[i].state != REDRIVE_STATE_CANCELLED &&
             !judge_is_held_up(judge, &judge->jobs[i]);
    return n;
}

/* False: the judge has a complaint, or some job has not come to an end in time. A clock that was
 * set back may delay what was to happen by as much, and by no more. */
static bool work_all_off(struct world *world)
{
    const int64_t end_ms = world->latest_ms + DRAIN_MS;
    for (size_t round = 0; live_jobs(&world->judge) > 0 && world->now_ms < end_ms; round++) {
        world_work_off(world, &world->processes[round % PROCESSES]);
        judge_look(&world->judge, world->eye, world->now_ms, true);
        if (world->judge.complaint[0] != '\0')
            return false;
        world_pass(world, world->now_ms < world->latest_ms ? 20000 : 1000);
    }
    return live_jobs(&world->judge) == 0;
}

static bool one_waits(const struct judge *judge)
{
    for (size_t i = 0; i < judge->n; i++)
        if (judge->jobs[i].state == REDRIVE_STATE_WAITING)
            return true;
    return false;
}

bool world_drain(struct world *world)
{
    struct redrive_err err = {0};
    world->is_calm = true;
    world_say(world, "no more faults");
    for (int i = 0; i < PROCESSES; i++)
        begin_step(&world->processes[i], (struct plan){0});
    bool goes_on = work_all_off(world);
    /* What still waits does so for the dead: a person redrives them, as often as there are
     * generations of jobs that wait. */
    for (size_t i = 0; goes_on && one_waits(&world->judge) && i <= JUDGE_JOBS_MAX; i++) {
        world_clear_up(world, &world->processes[i % PROCESSES]);
        judge_look(&world->judge, world->eye, world->now_ms, true);
        goes_on = work_all_off(world);
    }
    for (size_t i = 0; i < world->judge.n; i++)
        if (world->judge.jobs[i].finished_ms == 0)
            judge_complain(&world->judge,
                           world->judge.jobs[i].state == REDRIVE_STATE_WAITING ? 15 : 12,
                           "%s is still %s when it must have ended", world->judge.jobs[i].id,
                           redrive_state_name(world->judge.jobs[i].state));
    if (store_ops(world->eye)->verify(world->eye, NULL, NULL, &err) < 0)
        judge_complain(&world->judge, 12, "the store is not whole: %s", err.message);
    return world->judge.complaint[0] == '\0';
}
