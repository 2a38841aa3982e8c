#include "server/health_check.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/report/stats.h"
#include "store/store.h"

struct checkup {
    struct store *store;
    struct bells *bells;
    struct pulse *pulse;
    int64_t (*now_ms)(void *ctx);
    void *now_ctx;
    pthread_t thread;
    bool is_started;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;   /* for the thread, and after its end for whoever ended it */
    struct list waiting;
    size_t ringing; /* those that a bell answers at the moment, and that are no longer waiting */
    bool stopping;
    int64_t asked_ms;          /* monotonic: when the read in hand began; 0: there is none */
    int64_t asked_wall_ms;     /* the same moment */
    struct checkup_facts last; /* of the last read, its failure included */
};

const char *checkup_store_name(const struct checkup_facts *facts)
{
    switch (facts->store) {
    case CHECKUP_FAILING: return "failing";
    case CHECKUP_SILENT: return "silent";
    case CHECKUP_UNREACHABLE: return "unreachable";
    case CHECKUP_OK:
    default: return "ok";
    }
}

/* ---- What is known ----------------------------------------------------------------------------
 */

/* The mutex is held. */
static bool is_silent(const struct checkup *c)
{
    return c->asked_ms != 0 && clock_monotonic_ms() - c->asked_ms >= CHECKUP_PATIENCE_MS;
}

/* What units have shown counts for more than what a read has, which may be old. */
static struct checkup_facts facts_now(struct checkup *c)
{
    struct pulse_state pulse;
    pulse_read(c->pulse, &pulse);
    pthread_mutex_lock(&c->mutex);
    struct checkup_facts facts = c->last;
    const bool silent = is_silent(c);
    const int64_t asked_wall_ms = c->asked_wall_ms;
    pthread_mutex_unlock(&c->mutex);
    if (pulse.is_away || (pulse.is_failing && facts.store == CHECKUP_OK && !silent)) {
        facts.store = pulse.is_away ? CHECKUP_UNREACHABLE : CHECKUP_FAILING;
        facts.since_ms = pulse.since_ms;
        facts.err = pulse.err;
    } else if (silent) {
        facts.store = CHECKUP_SILENT;
        facts.since_ms = asked_wall_ms;
        err_set(&facts.err, REDRIVE_E_IO, "the store has not answered yet");
    }
    return facts;
}

static void answer(struct checkup *c, struct checkup_wait *wait)
{
    const struct checkup_facts facts = facts_now(c);
    wait->done(wait, &facts);
}

/* ---- The thread --------------------------------------------------------------------------------
 */

/* A failure leaves the figures as they were. */
static void note(struct checkup *c, int rc, const struct checkup_facts *read)
{
    struct checkup_facts *last = &c->last;
    if (rc == 0) {
        *last = *read;
        return;
    }
    if (last->store != CHECKUP_UNREACHABLE)
        last->since_ms = c->asked_wall_ms;
    last->store = CHECKUP_UNREACHABLE;
    last->err = read->err;
}

static int read_figures(struct checkup *c, const struct health_thresholds *thresholds,
                        struct checkup_facts *ret)
{
    struct worker_page workers = {0};
    int rc = stats_health(c->store, thresholds, c->now_ms(c->now_ctx), &ret->health, &workers,
                          &ret->err);
    ret->workers = workers.n;
    ret->read_ms = clock_wall_ms();
    worker_page_release(&workers);
    return rc;
}

/* Takes all who wait; nobody else answers them from then on. The mutex is held. */
static void take_all(struct checkup *c, struct list *ret)
{
    list_init(ret);
    LIST_FOREACH (&c->waiting, link) {
        struct checkup_wait *wait = LIST_ENTRY(link, struct checkup_wait, link);
        list_remove(link);
        list_insert(ret, link);
        wait->is_taken = true;
    }
}

static void answer_all(struct checkup *c, struct list *waits)
{
    LIST_FOREACH (waits, link) {
        struct checkup_wait *wait = LIST_ENTRY(link, struct checkup_wait, link);
        list_remove(link);
        bell_unset(c->bells, &wait->bell);
        answer(c, wait);
    }
}

static void *run(void *arg)
{
    struct checkup *c = arg;
    struct list waits;
    pthread_mutex_lock(&c->mutex);
    while (!c->stopping) {
        if (list_empty(&c->waiting)) {
            pthread_cond_wait(&c->wake, &c->mutex);
            continue;
        }
        const struct health_thresholds thresholds =
            LIST_ENTRY(c->waiting.next, struct checkup_wait, link)->thresholds;
        c->asked_ms = clock_monotonic_ms();
        c->asked_wall_ms = clock_wall_ms();
        pthread_mutex_unlock(&c->mutex);
        struct checkup_facts read = {0};
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

/* ---- Whoever asks ------------------------------------------------------------------------------
 */

static void on_patience_over(struct bell *bell)
{
    struct checkup_wait *wait =
        (struct checkup_wait *)(void *)((char *)bell - offsetof(struct checkup_wait, bell));
    struct checkup *c = wait->checkup;
    pthread_mutex_lock(&c->mutex);
    const bool is_ours = !wait->is_taken;
    if (is_ours) {
        list_remove(&wait->link);
        wait->is_taken = true;
        c->ringing++;
    }
    pthread_mutex_unlock(&c->mutex);
    if (!is_ours)
        return;
    answer(c, wait);
    pthread_mutex_lock(&c->mutex);
    c->ringing--;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
}

void checkup_ask(struct checkup *c, struct checkup_wait *wait)
{
    const bool is_away = pulse_is_away(c->pulse, NULL);
    wait->checkup = c;
    bell_init(&wait->bell, on_patience_over);
    pthread_mutex_lock(&c->mutex);
    wait->is_taken = is_away || c->stopping || is_silent(c);
    if (!wait->is_taken) {
        list_insert(&c->waiting, &wait->link);
        bell_set(c->bells, &wait->bell, clock_monotonic_ms() + CHECKUP_PATIENCE_MS);
        pthread_cond_signal(&c->wake);
    }
    const bool is_ours = wait->is_taken;
    pthread_mutex_unlock(&c->mutex);
    if (is_ours)
        answer(c, wait);
}

/* ---- Life cycle --------------------------------------------------------------------------------
 */

int checkup_new(const char *store_url, struct bells *bells, struct pulse *pulse,
                int64_t (*now_ms)(void *ctx), void *ctx, struct checkup **ret,
                struct redrive_err *err)
{
    const struct store_options options = {.create = true};
    *ret = NULL;
    struct checkup *c = calloc(1, sizeof *c);
    if (!c)
        return err_nomem(err);
    c->bells = bells;
    c->pulse = pulse;
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
        checkup_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static void await_bells(struct checkup *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->ringing > 0)
        pthread_cond_wait(&c->wake, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

void checkup_free(struct checkup *c)
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
    await_bells(c);
    store_close(c->store);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
