/* reader.c - the threads that read from the store for routes. */
#include "server/rest/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "server/dashboard/rate_samples.h"
#include "store/store.h"

/* What a reader is to do next: a call; or none, and `ret_rates` says whether to note the counters.
 */
static struct rest_call *next_call(struct rest *rest, bool *ret_rates)
{
    struct rest_call *call = NULL;
    pthread_mutex_lock(&rest->lock);
    while (list_empty(&rest->waiting) && !rest->rates_due && !rest->stopping)
        pthread_cond_wait(&rest->wake, &rest->lock);
    *ret_rates = rest->rates_due && !rest->stopping;
    if (*ret_rates) {
        rest->rates_due = false;
    } else if (!rest->stopping) {
        call = LIST_ENTRY(rest->waiting.next, struct rest_call, link);
        list_remove(&call->link);
    }
    pthread_mutex_unlock(&rest->lock);
    return call;
}

static void note_rates(struct rest_reader *reader)
{
    struct rest *rest = reader->rest;
    const struct engine *engine = committer_engine(rest->committer);
    int64_t wait_ms = RATE_STEP_MS;
    if (!store_status_is_away(engine_store_status(engine), NULL))
        wait_ms = rate_samples_take(rest->rates, reader->store, engine_now_ms(engine));
    timer_set(rest->timers, &rest->rates_timer, clock_monotonic_ms() + wait_ms);
}

void rest_readers_note_rates(struct timer *timer)
{
    struct rest *rest = LIST_ENTRY(timer, struct rest, rates_timer);
    pthread_mutex_lock(&rest->lock);
    rest->rates_due = true;
    pthread_cond_signal(&rest->wake);
    pthread_mutex_unlock(&rest->lock);
}

static void answer_call(struct rest_reader *reader, struct rest_call *call)
{
    struct redrive_err err;
    call->store = reader->store;
    if (!call->route->outlives_store && rest_is_away(call, &err))
        rest_fail(call, &err, NULL);
    else
        call->route->run(call);
}

static void *read_calls(void *ctx)
{
    struct rest_reader *reader = ctx;
    for (;;) {
        bool rates;
        struct rest_call *call = next_call(reader->rest, &rates);
        if (rates)
            note_rates(reader);
        else if (call)
            answer_call(reader, call);
        else
            return NULL;
    }
}

int rest_readers_start(struct rest *rest, const char *store_url, struct redrive_err *err)
{
    const struct store_options options = {.create = true};
    rest->readers = calloc(rest->n_readers, sizeof *rest->readers);
    if (!rest->readers)
        return err_nomem(err);
    for (unsigned i = 0; i < rest->n_readers; i++) {
        struct rest_reader *reader = &rest->readers[i];
        reader->rest = rest;
        int rc = store_open(store_url, &options, &reader->store, err);
        if (rc < 0)
            return rc;
        if (pthread_create(&reader->thread, NULL, read_calls, reader) != 0)
            return err_set(err, REDRIVE_E_IO, "cannot start a thread");
        reader->started = true;
    }
    return 0;
}

void rest_readers_stop(struct rest *rest)
{
    struct redrive_err err;
    pthread_mutex_lock(&rest->lock);
    rest->stopping = true;
    pthread_cond_broadcast(&rest->wake);
    pthread_mutex_unlock(&rest->lock);
    for (unsigned i = 0; rest->readers && i < rest->n_readers; i++) {
        if (rest->readers[i].started)
            (void)pthread_join(rest->readers[i].thread, NULL);
        store_close(rest->readers[i].store);
    }
    free(rest->readers);
    rest->readers = NULL;
    err_set(&err, REDRIVE_E_STOPPING, "%s", redrive_err_text(REDRIVE_E_STOPPING));
    LIST_FOREACH (&rest->waiting, link) {
        list_remove(link);
        rest_fail(LIST_ENTRY(link, struct rest_call, link), &err, NULL);
    }
}

void rest_readers_take(struct rest *rest, struct rest_call *call)
{
    pthread_mutex_lock(&rest->lock);
    list_insert(&rest->waiting, &call->link);
    pthread_cond_signal(&rest->wake);
    pthread_mutex_unlock(&rest->lock);
}
