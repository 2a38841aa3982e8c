/* handler.c - makes, stops and frees a handler. */
#include "lib/handler/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/str.h"
#include "base/time/clock.h"
#include "core/retry/policy.h"

#define DEFAULT_NAME             "redrive"
#define DEFAULT_MAX_DEAD_LETTERS 10000

const char *redrive_version(void)
{
    return REDRIVE_VERSION;
}

static int check_options(const struct redrive_handler_options *options, struct redrive_err *err)
{
    if (!options->clock.now_ms != !options->clock.wait_ms) {
        err_set(err, REDRIVE_E_INVALID, "clock has one function, but not the other");
        err_hint(err, "set both now_ms and wait_ms, or neither");
        return REDRIVE_E_INVALID;
    }
    if (options->n_classify > 0 && !options->classify)
        return err_set(err, REDRIVE_E_INVALID, "classify is NULL, but n_classify is not 0");
    if (!(options->healthy_from >= 0 && options->healthy_from <= 1 && options->degraded_from >= 0 &&
          options->degraded_from <= 1))
        return err_set(err, REDRIVE_E_RANGE, "health thresholds are not between 0 and 1");
    int rc = options->policy ? redrive_policy_check(options->policy, err) : 0;
    if (rc == 0 && options->breaker)
        rc = redrive_breaker_config_check(options->breaker, err);
    return rc;
}

static void init_threads(struct redrive_handler *h)
{
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->left, NULL);
    list_init(&h->waiters);
    list_init(&h->to_wake);
    list_init(&h->wakes);
}

static void init_clock(struct redrive_handler *h, const struct redrive_clock *clock)
{
    h->clock = *clock;
    h->is_virtual = clock->now_ms != NULL;
    if (h->is_virtual)
        h->origin_ms = clock->now_ms(clock->ctx);
    else
        h->origin_ns = clock_monotonic_ns();
}

/* Each table and generator has its own seed. */
static void init_seeded(struct redrive_handler *h, const struct redrive_handler_options *options)
{
    h->seed = options->seed ? options->seed : rng_system_seed();
    id_gen_init(&h->ids, h->seed);
    map_init(&h->runs, rng_mix(h->seed + 1));
    map_init(&h->services_by_name, rng_mix(h->seed + 2));
    dlq_init(&h->dlq,
             options->max_dead_letters ? options->max_dead_letters : DEFAULT_MAX_DEAD_LETTERS,
             rng_mix(h->seed + 3));
}

static int copy_options(struct redrive_handler *h, const struct redrive_handler_options *options,
                        struct redrive_err *err)
{
    struct redrive_policy defaults;
    redrive_policy_init(&defaults);
    redrive_breaker_config_init(&h->breaker);
    if (options->breaker)
        h->breaker = *options->breaker;
    h->concurrency = options->concurrency;
    h->thresholds = HEALTH_THRESHOLDS_DEFAULT;
    if (options->healthy_from > 0)
        h->thresholds.healthy = options->healthy_from;
    if (options->degraded_from > 0)
        h->thresholds.degraded = options->degraded_from;
    h->monitor = options->monitor;
    h->monitor_ctx = options->monitor_ctx;
    h->name = str_dup(str_of(options->name ? options->name : DEFAULT_NAME));
    h->policy = policy_copy(options->policy ? options->policy : &defaults);
    if (!h->name || !h->policy)
        return err_nomem(err);
    return classifier_new(options->classify, options->n_classify, &h->classifier, err);
}

struct redrive_handler *redrive_handler_new(const struct redrive_handler_options *options,
                                            struct redrive_err *err)
{
    static const struct redrive_handler_options all_defaults = {0};
    if (!options)
        options = &all_defaults;
    if (check_options(options, err) < 0)
        return NULL;
    struct redrive_handler *h = calloc(1, sizeof *h);
    if (!h) {
        err_nomem(err);
        return NULL;
    }
    init_threads(h);
    init_clock(h, &options->clock);
    init_seeded(h, options);
    list_init(&h->queue);
    list_init(&h->services);
    metrics_init(h);
    if (copy_options(h, options, err) < 0) {
        redrive_handler_free(h);
        return NULL;
    }
    return h;
}

void redrive_handler_free(struct redrive_handler *h)
{
    if (!h)
        return;
    dlq_release(&h->dlq);
    services_free(h);
    map_release(&h->runs);
    classifier_free(h->classifier);
    free(h->policy);
    free(h->name);
    pthread_cond_destroy(&h->left);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* redrive_run_cancelled looks at `stopping` itself, so that waking all waiters is enough. */
void redrive_handler_stop(struct redrive_handler *h)
{
    if (!h)
        return;
    bool may_wait = !caller_is_inside(h);
    handler_lock(h);
    atomic_store(&h->stopping, true);
    LIST_FOREACH (&h->waiters, link) {
        caller_wake(LIST_ENTRY(link, struct caller, link));
    }
    handler_make_wakes(h);
    while (may_wait && h->inside > 0)
        pthread_cond_wait(&h->left, &h->lock);
    handler_unlock(h);
}

const char *redrive_handler_name(const struct redrive_handler *h)
{
    return h ? h->name : NULL;
}
