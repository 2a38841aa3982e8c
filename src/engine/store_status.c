#include "engine/store_status.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"

/* When the log is told of it again. */
#define TELL_AGAIN_MS 30000

struct store_status {
    const struct log *log;
    bool has_server;
    pthread_mutex_t mutex; /* guards what follows */
    struct store_status_view state;
    int64_t begun_ms;  /* monotonic, as all below; 0: no transaction is in hand */
    int64_t failed_ms; /* the last failure */
    int64_t told_ms;
    int64_t began_to_fail_ms;
    bool needs_commit; /* what failed was a write */
};

struct store_status *store_status_new(const struct log *log, bool has_server)
{
    struct store_status *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->log = log;
    p->has_server = has_server;
    pthread_mutex_init(&p->mutex, NULL);
    return p;
}

void store_status_free(struct store_status *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

void store_status_begins(struct store_status *p)
{
    pthread_mutex_lock(&p->mutex);
    p->begun_ms = clock_monotonic_ms();
    pthread_mutex_unlock(&p->mutex);
}

static bool is_well_again(const struct store_status *p, bool wrote, int64_t now_ms)
{
    return wrote || !p->needs_commit || now_ms - p->failed_ms >= PULSE_QUIET_MS;
}

void store_status_worked(struct store_status *p, bool wrote)
{
    const int64_t now_ms = clock_monotonic_ms(), wall_ms = clock_wall_ms();
    pthread_mutex_lock(&p->mutex);
    p->begun_ms = 0;
    p->state.heard_ms = wall_ms;
    p->state.is_away = false;
    const bool is_back = p->state.is_failing && is_well_again(p, wrote, now_ms);
    const int64_t after_ms = now_ms - p->began_to_fail_ms;
    if (is_back) {
        p->state.is_failing = false;
        p->state.since_ms = 0;
    }
    pthread_mutex_unlock(&p->mutex);
    if (is_back)
        log_event(p->log, LOG_LEVEL_INFO, wall_ms, "store_works_again",
                  LOG_I("duration_ms", after_ms));
}

/* The first of a row, and then one in a while. */
static bool is_to_be_told(const struct store_status *p, int64_t now_ms)
{
    return !p->state.is_failing || now_ms - p->told_ms >= TELL_AGAIN_MS;
}

static bool is_the_callers(int code)
{
    const int status = redrive_err_http_status(code);
    return status == 400 || status == 413;
}

/* The mutex is held. */
static void note_failure(struct store_status *p, bool began, const struct redrive_err *err,
                         int64_t now_ms, int64_t wall_ms)
{
    if (!p->state.is_failing) {
        p->state.since_ms = wall_ms;
        p->began_to_fail_ms = now_ms;
        p->needs_commit = false;
    }
    p->failed_ms = now_ms;
    p->needs_commit |= began;
    p->state.is_failing = true;
    p->state.is_away = p->has_server && !began;
    p->state.err = *err;
}

void store_status_failed(struct store_status *p, bool began, const struct redrive_err *err)
{
    const int64_t now_ms = clock_monotonic_ms(), wall_ms = clock_wall_ms();
    const int code = err->code < 0 && err->code > -PULSE_KINDS ? err->code : REDRIVE_E_INTERNAL;
    pthread_mutex_lock(&p->mutex);
    p->begun_ms = 0;
    const uint64_t n = ++p->state.errors[-code];
    const bool tells = !is_the_callers(code) && is_to_be_told(p, now_ms);
    if (tells)
        p->told_ms = now_ms;
    if (!is_the_callers(code))
        note_failure(p, began, err, now_ms, wall_ms);
    pthread_mutex_unlock(&p->mutex);
    if (tells)
        log_event(p->log, LOG_LEVEL_ERROR, wall_ms, "store_failed", LOG_S("error", err->message),
                  LOG_S("detail", err->detail), LOG_I("failure_count", (int64_t)n));
}

void store_status_read(struct store_status *p, struct store_status_view *ret)
{
    pthread_mutex_lock(&p->mutex);
    *ret = p->state;
    if (p->begun_ms != 0)
        ret->busy_ms = clock_monotonic_ms() - p->begun_ms;
    pthread_mutex_unlock(&p->mutex);
}

bool store_status_is_away(struct store_status *p, struct redrive_err *err)
{
    pthread_mutex_lock(&p->mutex);
    const bool is_away = p->state.is_away;
    if (is_away && err)
        *err = p->state.err;
    pthread_mutex_unlock(&p->mutex);
    return is_away;
}

const char *store_status_kind_name(int code, char out[32])
{
    (void)snprintf(out, 32, "%s", redrive_err_name(code));
    for (char *c = out; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    return out;
}
