/* readers.c - the threads that read from the store, each with a handle of its own. */
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "server/dashboard/breaker_history.h"
#include "server/dashboard/samples.h"
#include "server/rest/private.h"
#include "store/store.h"

/* What a reader is to do next: a call; or none, and `ret_rates` says whether to note the counters.
 */
static struct rest_call *next_call(struct rest *rest, bool *ret_rates)
{
    struct rest_call *call = NULL;
    HOLD(&rest->lock);
    while (list_empty(&rest->waiting) && !rest->rates_due && !rest->stopping)
        pthread_cond_wait(&rest->wake, &rest->lock);
    *ret_rates = rest->rates_due && !rest->stopping;
    if (*ret_rates) {
        rest->rates_due = false;
    } else if (!rest->stopping) {
        call = LIST_ENTRY(rest->waiting.next, struct rest_call, link);
        list_remove(&call->link);
    }
    return call;
}

static void note_rates(struct rest_reader *reader)
{
    struct rest *rest = reader->rest;
    const struct engine *engine = committer_engine(rest->committer);
    const int64_t now_ms = engine_now_ms(engine);
    int64_t wait_ms = SAMPLES_STEP_MS;
    if (rest->run_times)
        samples_take_latencies(rest->latencies, rest->run_times, now_ms);
    if (!store_status_is_away(committer_store_status(rest->committer), NULL)) {
        wait_ms = samples_take_rates(rest->rates, reader->store, now_ms);
        (void)breaker_history_take(rest->breakers, reader->store, now_ms, NULL);
    }
    timer_set(rest->timers, &rest->rates_timer, clock_monotonic_ms() + wait_ms);
}

void rest_readers_note_rates(struct timer *timer)
{
    struct rest *rest = LIST_ENTRY(timer, struct rest, rates_timer);
    HOLD(&rest->lock);
    rest->rates_due = true;
    pthread_cond_signal(&rest->wake);
}

static void answer_call(struct rest_reader *reader, struct rest_call *call)
{
    struct redrive_err err;
    call->store = reader->store;
    if (!call->route->outlives_store && rest_is_away(call, &err))
        rest_fail(call, &err, NULL);
    else
        rest_route_run(call);
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
    struct store_status *status = committer_store_status(rest->committer);
    const struct store_options options = {
        .create = true, .late = true, .away = store_status_away_parts(status)};
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
    HOLD(&rest->lock);
    list_insert(&rest->waiting, &call->link);
    pthread_cond_signal(&rest->wake);
}
