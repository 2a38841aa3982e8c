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

/* ---- What is known --------------------------------------------------------------------------- */

/* The mutex is held. */
static bool is_silent(const struct health_check *h)
{
    return h->asked_ms != 0 && clock_monotonic_ms() - h->asked_ms >= HEALTH_CHECK_PATIENCE_MS;
}

/* The result of the last transaction comes before that of the last read, which may be old. */
static struct health_check_facts facts_now(struct health_check *h)
{
    struct store_status_view store_status;
    store_status_read(h->store_status, &store_status);
    pthread_mutex_lock(&h->mutex);
    struct health_check_facts facts = h->last;
    const bool silent = is_silent(h);
    const int64_t asked_wall_ms = h->asked_wall_ms;
    pthread_mutex_unlock(&h->mutex);
    if (store_status.is_away || store_status.is_partly_away ||
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

static void answer(struct health_check *h, struct health_check_wait *wait)
{
    const struct health_check_facts facts = facts_now(h);
    wait->done(wait, &facts);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* A failure leaves the values as they were. */
static void note(struct health_check *h, int rc, const struct health_check_facts *read)
{
    struct health_check_facts *last = &h->last;
    if (rc == 0) {
        *last = *read;
        return;
    }
    if (last->store != HEALTH_CHECK_UNREACHABLE)
        last->since_ms = h->asked_wall_ms;
    last->store = HEALTH_CHECK_UNREACHABLE;
    last->err = read->err;
}

static int read_figures(struct health_check *h, const struct health_thresholds *thresholds,
                        struct health_check_facts *ret)
{
    RELEASED_BY(worker_page_release) struct worker_page workers = {0};
    int rc = stats_health(h->store, thresholds, h->now_ms(h->now_ctx), &ret->health, &workers,
                          &ret->err);
    ret->workers = workers.n_working;
    ret->read_ms = clock_wall_ms();
    return rc;
}

/* Takes all waiting calls; only the caller answers them from then on. The mutex is held. */
static void take_all(struct health_check *h, struct list *ret)
{
    list_init(ret);
    LIST_FOREACH (&h->waiting, link) {
        struct health_check_wait *wait = LIST_ENTRY(link, struct health_check_wait, link);
        list_remove(link);
        list_insert(ret, link);
        wait->is_taken = true;
    }
}

static void answer_all(struct health_check *h, struct list *waits)
{
    LIST_FOREACH (waits, link) {
        struct health_check_wait *wait = LIST_ENTRY(link, struct health_check_wait, link);
        list_remove(link);
        timer_unset(h->timers, &wait->timer);
        answer(h, wait);
    }
}

static void *run(void *arg)
{
    struct health_check *h = arg;
    struct list waits;
    pthread_mutex_lock(&h->mutex);
    while (!h->stopping) {
        if (list_empty(&h->waiting)) {
            pthread_cond_wait(&h->wake, &h->mutex);
            continue;
        }
        const struct health_thresholds thresholds =
            LIST_ENTRY(h->waiting.next, struct health_check_wait, link)->thresholds;
        h->asked_ms = clock_monotonic_ms();
        h->asked_wall_ms = clock_wall_ms();
        pthread_mutex_unlock(&h->mutex);
        struct health_check_facts read = {0};
        int rc = read_figures(h, &thresholds, &read);
        pthread_mutex_lock(&h->mutex);
        note(h, rc, &read);
        h->asked_ms = 0;
        take_all(h, &waits);
        pthread_mutex_unlock(&h->mutex);
        answer_all(h, &waits);
        pthread_mutex_lock(&h->mutex);
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void on_patience_over(struct timer *timer)
{
    struct health_check_wait *wait =
        (struct health_check_wait *)(void *)((char *)timer -
                                             offsetof(struct health_check_wait, timer));
    struct health_check *h = wait->health_check;
    pthread_mutex_lock(&h->mutex);
    const bool is_ours = !wait->is_taken;
    if (is_ours) {
        list_remove(&wait->link);
        wait->is_taken = true;
        h->answering++;
    }
    pthread_mutex_unlock(&h->mutex);
    if (!is_ours)
        return;
    answer(h, wait);
    pthread_mutex_lock(&h->mutex);
    h->answering--;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->mutex);
}

void health_check_ask(struct health_check *h, struct health_check_wait *wait)
{
    const bool is_away = store_status_is_away(h->store_status, NULL);
    wait->health_check = h;
    timer_init(&wait->timer, on_patience_over);
    pthread_mutex_lock(&h->mutex);
    wait->is_taken = is_away || h->stopping || is_silent(h);
    if (!wait->is_taken) {
        list_insert(&h->waiting, &wait->link);
        timer_set(h->timers, &wait->timer, clock_monotonic_ms() + HEALTH_CHECK_PATIENCE_MS);
        pthread_cond_signal(&h->wake);
    }
    const bool is_ours = wait->is_taken;
    pthread_mutex_unlock(&h->mutex);
    if (is_ours)
        answer(h, wait);
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

int health_check_new(const char *store_url, struct timers *timers,
                     struct store_status *store_status, int64_t (*now_ms)(void *ctx), void *ctx,
                     struct health_check **ret, struct redrive_err *err)
{
    const struct store_options options = {
        .create = true, .late = true, .away = store_status_away_parts(store_status)};
    *ret = NULL;
    struct health_check *h = calloc(1, sizeof *h);
    if (!h)
        return err_nomem(err);
    h->timers = timers;
    h->store_status = store_status;
    h->now_ms = now_ms;
    h->now_ctx = ctx;
    list_init(&h->waiting);
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->wake, NULL);
    int rc = store_open(store_url, &options, &h->store, err);
    if (rc == 0 && pthread_create(&h->thread, NULL, run, h) != 0)
        rc = err_set(err, REDRIVE_E_IO, "cannot start a thread");
    h->is_started = rc == 0;
    if (rc < 0) {
        health_check_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

static void await_timers(struct health_check *h)
{
    HOLD(&h->mutex);
    while (h->answering > 0)
        pthread_cond_wait(&h->wake, &h->mutex);
}

void health_check_free(struct health_check *h)
{
    struct list waits;
    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    h->stopping = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->mutex);
    if (h->is_started)
        (void)pthread_join(h->thread, NULL);
    pthread_mutex_lock(&h->mutex);
    take_all(h, &waits);
    pthread_mutex_unlock(&h->mutex);
    answer_all(h, &waits);
    await_timers(h);
    store_close(h->store);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}
