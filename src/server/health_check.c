/* health_check.c - a thread that reads the health from the store, and its waiting callers. */
#include "server/health_check.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/report/stats.h"
#include "store/store.h"

struct health_check {
    struct store *store;
    struct timers *timers;
    struct store_status *store_status;
    int64_t (*now_ms)(void *ctx);
    void *now_ctx;
    pthread_t thread;
    bool is_started;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;   /* for the thread, and after its end for health_check_free */
    struct list waiting;
    size_t answering; /* those that a timer answers at the moment, and that are no longer waiting */
    bool stopping;
    int64_t asked_ms;               /* monotonic: when the current read began; 0: there is none */
    int64_t asked_wall_ms;          /* the same moment */
    struct health_check_facts last; /* of the last read, its failure included */
};

const char *health_check_store_name(const struct health_check_facts *facts)
{
    switch (facts->store) {
    case HEALTH_CHECK_FAILING: return "failing";
    case HEALTH_CHECK_SILENT: return "silent";
    case HEALTH_CHECK_UNREACHABLE: return "unreachable";
    case HEALTH_CHECK_OK:
    default: return "ok";
    }
}

/* ---- What is known ------------------------------------------------------------------------- */

/* The mutex is held. */
static bool is_silent(const struct health_check *c)
{
    return c->asked_ms != 0 && clock_monotonic_ms() - c->asked_ms >= HEALTH_CHECK_PATIENCE_MS;
}

/* The result of the last transaction comes before that of the last read, which may be old. */
static struct health_check_facts facts_now(struct health_check *c)
{
    struct store_status_view store_status;
    store_status_read(c->store_status, &store_status);
    pthread_mutex_lock(&c->mutex);
    struct health_check_facts facts = c->last;
    const bool silent = is_silent(c);
    const int64_t asked_wall_ms = c->asked_wall_ms;
    pthread_mutex_unlock(&c->mutex);
    if (store_status.is_away ||
        (store_status.is_failing && facts.store == HEALTH_CHECK_OK && !silent)) {
        facts.store = store_status.is_away ? HEALTH_CHECK_UNREACHABLE : HEALTH_CHECK_FAILING;
        facts.since_ms = store_status.since_ms;
        facts.err = store_status.err;
    } else if (silent) {
        facts.store = HEALTH_CHECK_SILENT;
        facts.since_ms = asked_wall_ms;
        err_set(&facts.err, REDRIVE_E_IO, "the store has not answered yet");
    }
    return facts;
}

static void answer(struct health_check *c, struct health_check_wait *wait)
{
    const struct health_check_facts facts = facts_now(c);
    wait->done(wait, &facts);
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* A failure leaves the values as they were. */
static void note(struct health_check *c, int rc, const struct health_check_facts *read)
{
    struct health_check_facts *last = &c->last;
    if (rc == 0) {
        *last = *read;
        return;
    }
    if (last->store != HEALTH_CHECK_UNREACHABLE)
        last->since_ms = c->asked_wall_ms;
    last->store = HEALTH_CHECK_UNREACHABLE;
    last->err = read->err;
}

static int read_figures(struct health_check *c, const struct health_thresholds *thresholds,
                        struct health_check_facts *ret)
{
    struct worker_page workers = {0};
    int rc = stats_health(c->store, thresholds, c->now_ms(c->now_ctx), &ret->health, &workers,
                          &ret->err);
    ret->workers = workers.n;
    ret->read_ms = clock_wall_ms();
    worker_page_release(&workers);
    return rc;
}

/* Takes all waiting calls; only the caller answers them from then on. The mutex is held. */
static void take_all(struct health_check *c, struct list *ret)
{
    list_init(ret);
    LIST_FOREACH (&c->waiting, link) {
        struct health_check_wait *wait = LIST_ENTRY(link, struct health_check_wait, link);
        list_remove(link);
        list_insert(ret, link);
        wait->is_taken = true;
    }
}

static void answer_all(struct health_check *c, struct list *waits)
{
    LIST_FOREACH (waits, link) {
        struct health_check_wait *wait = LIST_ENTRY(link, struct health_check_wait, link);
        list_remove(link);
        timer_unset(c->timers, &wait->timer);
        answer(c, wait);
    }
}

static void *run(void *arg)
{
    struct health_check *c = arg;
    struct list waits;
    pthread_mutex_lock(&c->mutex);
    while (!c->stopping) {
        if (list_empty(&c->waiting)) {
            pthread_cond_wait(&c->wake, &c->mutex);
            continue;
        }
        const struct health_thresholds thresholds =
            LIST_ENTRY(c->waiting.next, struct health_check_wait, link)->thresholds;
        c->asked_ms = clock_monotonic_ms();
        c->asked_wall_ms = clock_wall_ms();
        pthread_mutex_unlock(&c->mutex);
        struct health_check_facts read = {0};
        int rc = read_figures(c, &thresholds, &read);
        pthread_mutex_lock(&c->mutex);
        note(c, rc, &read);
        c->asked_ms = 0;
        take_all(c, &waits);
        pthread_mutex_unlock(&c->mutex);
        answer_all(c, &waits);
        pthread_mutex_lock(&c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* ---- Asking -------------------------------------------------------------------------------- */

static void on_patience_over(struct timer *timer)
{
    struct health_check_wait *wait =
        (struct health_check_wait *)(void *)((char *)timer -
                                             offsetof(struct health_check_wait, timer));
    struct health_check *c = wait->health_check;
    pthread_mutex_lock(&c->mutex);
    const bool is_ours = !wait->is_taken;
    if (is_ours) {
        list_remove(&wait->link);
        wait->is_taken = true;
        c->answering++;
    }
    pthread_mutex_unlock(&c->mutex);
    if (!is_ours)
        return;
    answer(c, wait);
    pthread_mutex_lock(&c->mutex);
    c->answering--;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
}

void health_check_ask(struct health_check *c, struct health_check_wait *wait)
{
    const bool is_away = store_status_is_away(c->store_status, NULL);
    wait->health_check = c;
    timer_init(&wait->timer, on_patience_over);
    pthread_mutex_lock(&c->mutex);
    wait->is_taken = is_away || c->stopping || is_silent(c);
    if (!wait->is_taken) {
        list_insert(&c->waiting, &wait->link);
        timer_set(c->timers, &wait->timer, clock_monotonic_ms() + HEALTH_CHECK_PATIENCE_MS);
        pthread_cond_signal(&c->wake);
    }
    const bool is_ours = wait->is_taken;
    pthread_mutex_unlock(&c->mutex);
    if (is_ours)
        answer(c, wait);
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

int health_check_new(const char *store_url, struct timers *timers,
                     struct store_status *store_status, int64_t (*now_ms)(void *ctx), void *ctx,
                     struct health_check **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = true};
    *ret = NULL;
    struct health_check *c = calloc(1, sizeof *c);
    if (!c)
        return err_nomem(err);
    c->timers = timers;
    c->store_status = store_status;
    c->now_ms = now_ms;
    c->now_ctx = ctx;
    list_init(&c->waiting);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->wake, NULL);
    int rc = store_open(store_url, &options, &c->store, err);
    if (rc == 0 && pthread_create(&c->thread, NULL, run, c) != 0)
        rc = err_set(err, REDRIVE_E_IO, "cannot start a thread");
    c->is_started = rc == 0;
    if (rc < 0) {
        health_check_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static void await_timers(struct health_check *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->answering > 0)
        pthread_cond_wait(&c->wake, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

void health_check_free(struct health_check *c)
{
    struct list waits;
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    c->stopping = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    if (c->is_started)
        (void)pthread_join(c->thread, NULL);
    pthread_mutex_lock(&c->mutex);
    take_all(c, &waits);
    pthread_mutex_unlock(&c->mutex);
    answer_all(c, &waits);
    await_timers(c);
    store_close(c->store);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
