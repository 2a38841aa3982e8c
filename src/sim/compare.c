/* compare.c - the table of strategies; runs every one and measures it. */
#include "sim/compare.h"

#include "base/err.h"
#include "core/check.h"
#include "core/retry/policy.h"

/* ---- Strategies ------------------------------------------------------------------------------ */

#define LONGEST_MS (INT64_C(7) * 24 * 3600 * 1000)

#define EXPONENTIAL(jitter_mode)                                                       \
    {                                                                                  \
        .strategy = REDRIVE_STRATEGY_EXPONENTIAL, .initial_delay_ms = 1000,            \
        .max_delay_ms = 60 * 1000, .multiplier = 2, .jitter = {.mode = (jitter_mode)}, \
    }

static const struct budget_config BUDGET = {
    .ratio = BUDGET_RATIO, .window_ms = BUDGET_WINDOW_MS, .min_per_second = BUDGET_MIN_PER_SECOND};
static const struct adaptive_config ADAPTIVE = {ADAPTIVE_FLOOR, ADAPTIVE_CEILING};

static const struct strategy TABLE[] = {
    {.name = "none",
     .title = "no delay",
     .backoff = {.strategy = REDRIVE_STRATEGY_IMMEDIATE, .multiplier = 1}},
    {.name = "exponential", .title = "exponential", .backoff = EXPONENTIAL(REDRIVE_JITTER_NONE)},
    {.name = "full-jitter",
     .title = "exponential, full jitter",
     .backoff = EXPONENTIAL(REDRIVE_JITTER_FULL)},
    /* c^4 + 15 + rand(10)·(c + 1) seconds with c = n − 1; Faktory draws rand(30). */
    {.name = "sidekiq",
     .title = "sidekiq/faktory curve",
     .backoff = {.strategy = REDRIVE_STRATEGY_POLYNOMIAL,
                 .initial_delay_ms = 15 * 1000,
                 .max_delay_ms = LONGEST_MS,
                 .multiplier = 1,
                 .exponent = 4,
                 .jitter = {.mode = REDRIVE_JITTER_STEP, .step_ms = 10 * 1000}}},
    {.name = "breaker-burns",
     .title = "breaker that burns attempts",
     .backoff = EXPONENTIAL(REDRIVE_JITTER_FULL),
     .breaker = SIM_BREAKER_BURNS},
    {.name = "breaker-parks",
     .title = "breaker that parks",
     .backoff = EXPONENTIAL(REDRIVE_JITTER_FULL),
     .breaker = SIM_BREAKER_OBEYS},
    {.name = "retry-budget",
     .title = "full jitter, retry budget",
     .backoff = EXPONENTIAL(REDRIVE_JITTER_FULL),
     .budget = &BUDGET},
    {.name = "adaptive",
     .title = "full jitter, adaptive concurrency",
     .backoff = EXPONENTIAL(REDRIVE_JITTER_FULL),
     .adaptive = &ADAPTIVE},
};
_Static_assert(sizeof TABLE / sizeof TABLE[0] > STRATEGIES_USUAL, "the rest is on request");

const struct strategy *strategies(size_t *ret_n)
{
    *ret_n = sizeof TABLE / sizeof TABLE[0];
    return TABLE;
}

const struct strategy *strategy_find(struct str name)
{
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++)
        if (str_is(name, TABLE[i].name))
            return &TABLE[i];
    return NULL;
}

_Static_assert(sizeof TABLE / sizeof TABLE[0] < STRATEGY_NAMES_MAX, "with the configured one");

size_t strategy_names(const char *ret[STRATEGY_NAMES_MAX])
{
    size_t n = 0;
    for (; n < sizeof TABLE / sizeof TABLE[0]; n++)
        ret[n] = TABLE[n].name;
    ret[n++] = STRATEGY_CONFIGURED;
    return n;
}

struct strategy strategy_of_config(const struct strategy_config *configured)
{
    return (struct strategy){
        .name = STRATEGY_CONFIGURED,
        .title = "your policy",
        .breaker = SIM_BREAKER_OBEYS,
        .budget = configured->budget,
        .adaptive = configured->adaptive,
        .configured = configured,
    };
}

_Static_assert(EXPERIMENT_ARMS_MAX <= COMPARE_MAX_STRATEGIES, "an arm is a strategy");

void compare_choose_arms(struct compare_options *options, const struct experiment *experiment,
                         const struct strategy_config *task, struct compare_arms *arms)
{
    options->experiment = experiment;
    options->n_strategies = experiment->n_arms;
    for (size_t i = 0; i < experiment->n_arms; i++) {
        arms->configured[i] = *task;
        arms->configured[i].policy = &experiment->arms[i].policy;
        arms->strategies[i] = strategy_of_config(&arms->configured[i]);
        arms->strategies[i].name = arms->strategies[i].title = experiment->arms[i].name;
        options->strategies[i] = &arms->strategies[i];
    }
}

uint32_t strategy_attempts(const struct strategy *strategy, uint32_t attempts)
{
    if (strategy->configured)
        return policy_max_attempts(strategy->configured->policy);
    return attempts;
}

void strategy_policy(const struct strategy *strategy, uint32_t attempts, struct redrive_policy *ret)
{
    if (strategy->configured) {
        *ret = *strategy->configured->policy;
        return;
    }
    redrive_policy_init(ret);
    ret->backoff = strategy->backoff;
    ret->max_retries = (int32_t)attempts - 1;
    ret->total_timeout_ms = 0;
}

/* ---- The comparison ------------------------------------------------------------------------- */

#define EVENTS_PER_PROGRESS 256

void compare_options_init(struct compare_options *options)
{
    *options = (struct compare_options){
        .outage_ms = 180 * 1000,
        .latency_ms = 50,
        .jobs_per_s = 20,
        .capacity_per_s = 80,
        .attempts = 8,
        .workers = 100,
        .seed = 1,
    };
    options->n_strategies = STRATEGIES_USUAL;
    for (size_t i = 0; i < STRATEGIES_USUAL; i++)
        options->strategies[i] = &TABLE[i];
}

bool compare_is_chosen(const struct compare_options *options, const struct strategy *strategy)
{
    for (size_t i = 0; i < options->n_strategies; i++)
        if (options->strategies[i] == strategy)
            return true;
    return false;
}

void compare_choose(struct compare_options *options, const struct strategy *strategy)
{
    if (!compare_is_chosen(options, strategy))
        options->strategies[options->n_strategies++] = strategy;
}

bool compare_choose_list(struct compare_options *options, struct str list,
                         const struct strategy *own, struct str *ret_unknown)
{
    options->n_strategies = 0;
    *ret_unknown = STR("");
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        const size_t len = comma ? (size_t)(comma - list.ptr) : list.len;
        const struct str name = str_trim((struct str){list.ptr, len});
        const struct strategy *found =
            str_is(name, STRATEGY_CONFIGURED) ? own : strategy_find(name);
        if (!found) {
            *ret_unknown = name;
            return false;
        }
        compare_choose(options, found);
        const size_t skip = len + (comma != NULL);
        list = (struct str){list.ptr + skip, list.len - skip};
    }
    return options->n_strategies > 0;
}

/* Long enough for the slowest strategy to drain among new arrivals. */
static int64_t duration_ms(const struct compare_options *options)
{
    if (options->duration_ms > 0)
        return options->duration_ms;
    return COMPARE_OUTAGE_START_MS + 4 * options->outage_ms;
}

int compare_options_check(const struct compare_options *o, struct redrive_err *err)
{
    const double day_ms = 24.0 * 3600 * 1000;
    int r = RANGES_CHECK(
        "", err, {"outage (ms)", (double)o->outage_ms, 0, day_ms},
        {"duration (ms)", (double)o->duration_ms, 0, 7 * day_ms},
        {"latency (ms)", (double)o->latency_ms, 0, day_ms}, {"rate", o->jobs_per_s, 0.001, 100000},
        {"capacity", o->capacity_per_s, 0, 1e9}, {"rate_limit", o->rate_limit_per_s, 0, 1e9},
        {"error_rate", o->error_rate, 0, 1}, {"brownout", o->brownout, 0, 1},
        {"timeout (ms)", (double)o->timeout_ms, 0, day_ms}, {"attempts", o->attempts, 1, 1000},
        {"workers", o->workers, 1, 1e6});
    if (r < 0)
        return r;
    int64_t duration = duration_ms(o);
    if (o->outage_ms > 0 && duration <= COMPARE_OUTAGE_START_MS + o->outage_ms) {
        err_set(err, REDRIVE_E_RANGE, "the run ends before the outage does");
        err_detail(err, "the outage begins after %d s and lasts %g s",
                   COMPARE_OUTAGE_START_MS / 1000, (double)o->outage_ms / 1000);
        err_hint(err, "make the duration longer, or leave it out");
        return REDRIVE_E_RANGE;
    }
    double jobs = o->jobs_per_s * (double)duration / 1000;
    if (jobs > COMPARE_MAX_JOBS) {
        err_set(err, REDRIVE_E_RANGE, "too many jobs to simulate");
        err_detail(err, "%.0f jobs, at most %d", jobs, COMPARE_MAX_JOBS);
        err_hint(err, "lower the rate, the outage or the duration");
        return REDRIVE_E_RANGE;
    }
    return 0;
}

/* Measures, and reports the progress. */
struct watch {
    const struct compare_options *options;
    struct measure *measure; /* of the strategy, or of the first arm */
    size_t n_measures;
    uint64_t expected; /* jobs of one run, about */
    uint64_t before;   /* jobs of the strategies that are through */
    uint64_t events;
    uint64_t events_left; /* that the simulator may take; 0: no limit */
};

static size_t n_runs(const struct compare_options *options)
{
    return options->experiment ? 1 : options->n_strategies;
}

/* A job counts half when it has come and half when it has ended, so that neither a long backlog
 * nor a long end looks like a standstill. */
static void watch(const struct sim_event *event, void *ctx)
{
    struct watch *w = ctx;
    uint64_t done = 0;
    measure_observe(event, &w->measure[event->arm]);
    if (!w->options->progress || w->events++ % EVENTS_PER_PROGRESS != 0)
        return;
    for (size_t i = 0; i < w->n_measures; i++) {
        const struct figures *f = &w->measure[i].figures;
        done += (f->submitted + f->completed + f->dead) / 2 + f->rejected;
    }
    if (done > w->expected)
        done = w->expected;
    w->options->progress(w->before + done, w->expected * n_runs(w->options),
                         w->options->progress_ctx);
}

static int refuse_work(struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_RANGE, "too much to simulate");
    err_detail(err, "the calls of these jobs are more than may be simulated here");
    err_hint(err, "lower the rate, the outage, the attempts or the number of strategies");
    return REDRIVE_E_RANGE;
}

/* Takes what the run has used from the events that are left; at least one stays, as 0 is no limit.
 */
static int run_bounded(const struct sim_config *config, struct watch *watcher,
                       struct redrive_err *err)
{
    struct sim_totals totals;
    const int r = sim_run(config, &totals, err);
    const bool is_used_up = config->max_events > 0 && totals.events >= config->max_events;
    if (r == REDRIVE_E_INTERNAL && is_used_up)
        return refuse_work(err);
    if (config->max_events > 0)
        watcher->events_left = is_used_up ? 1 : config->max_events - totals.events;
    return r;
}

static int run_one(const struct compare_options *options, const struct strategy *strategy,
                   const struct service_config *service, struct watch *watcher,
                   struct redrive_err *err)
{
    const struct strategy_config *configured = strategy->configured;
    struct redrive_policy policy;
    struct redrive_breaker_config breaker;

    strategy_policy(strategy, options->attempts, &policy);
    redrive_breaker_config_init(&breaker);
    if (configured)
        breaker = *configured->breaker;
    struct sim_config config = {
        .seed = options->seed,
        .arrivals_per_s = options->jobs_per_s,
        .arrivals_until_ms = options->duration_ms,
        .max_jobs = UINT32_MAX,
        .workers = options->workers,
        .lease_ms = 30 * 1000,
        .policy = &policy,
        .experiment = options->experiment,
        .classifier = configured ? configured->classifier : NULL,
        .names = configured ? configured->names : (struct classify_context){.task = "simulated"},
        .breaker_mode = strategy->breaker,
        .breaker = &breaker,
        .budget = strategy->budget,
        .adaptive = strategy->adaptive,
        .service = service,
        .max_events = watcher->events_left,
        .observe = watch,
        .observe_ctx = watcher,
    };
    int r = redrive_policy_check(&policy, err);
    if (r < 0)
        return r;
    r = run_bounded(&config, watcher, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < watcher->n_measures; i++)
        if (measure_finish(&watcher->measure[i]) < 0)
            return err_nomem(err);
    return 0;
}

int compare_run(const struct compare_options *options, struct comparison *ret,
                struct redrive_err *err)
{
    *ret = (struct comparison){
        .options = *options,
        .outage_start_ms = COMPARE_OUTAGE_START_MS,
        .outage_end_ms = COMPARE_OUTAGE_START_MS + options->outage_ms,
    };
    ret->options.duration_ms = duration_ms(options);

    struct service_outage outage = {COMPARE_OUTAGE_START_MS, options->outage_ms};
    struct service_config service = {
        .outages = &outage,
        .n_outages = 1,
        .latency_ms = options->latency_ms,
        .error_rate = options->error_rate,
        .capacity = options->capacity_per_s,
        .rate_limit = options->rate_limit_per_s,
        .brownout = options->brownout,
        .timeout_ms = options->timeout_ms,
        .outage_hangs = options->timeout_ms > 0,
        .overload_waits = options->overload_waits,
    };
    uint64_t expected = 1 + (uint64_t)(options->jobs_per_s * (double)duration_ms(options) / 1000);
    uint64_t events_left = options->max_events;
    for (size_t i = 0; i < options->n_strategies; i++)
        measure_init(&ret->rows[i], ret->outage_start_ms, ret->outage_end_ms,
                     ret->options.duration_ms);
    for (size_t i = 0; i < n_runs(options); i++) {
        struct watch watcher = {.options = &ret->options,
                                .measure = &ret->rows[i],
                                .n_measures = options->experiment ? options->n_strategies : 1,
                                .expected = expected,
                                .before = i * expected,
                                .events_left = events_left};
        int r = run_one(&ret->options, options->strategies[i], &service, &watcher, err);
        if (r < 0) {
            comparison_release(ret);
            return r;
        }
        events_left = watcher.events_left;
    }
    return 0;
}

void comparison_release(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->options.n_strategies; i++)
        measure_release(&comparison->rows[i]);
}
