/* store_status.c - how the store is doing, and when a transaction that failed is tried again. */
#include "engine/store_status.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/store.h"

/* When the log is told of it again. */
#define TELL_AGAIN_MS 30000

struct store_status {
    const struct log *log;
    bool has_server;
    char shard[32];                    /* its name in the log; empty: it is none */
    struct store_status *const *parts; /* of several stores together, else NULL */
    const char *const *names;
    size_t n_parts;
    pthread_mutex_t mutex; /* guards what follows */
    struct store_status_view state;
    int64_t begun_ms;  /* monotonic, as all below; 0: no transaction is in hand */
    int64_t failed_ms; /* the last failure */
    int64_t told_ms;
    int64_t began_to_fail_ms;
    bool needs_commit; /* what failed was a write */
    int64_t full_until_ms;
};

struct store_status *store_status_new(const struct log *log, bool has_server, size_t shard)
{
    struct store_status *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->log = log;
    s->has_server = has_server;
    if (shard > 0)
        (void)snprintf(s->shard, sizeof s->shard, "shard %zu", shard);
    pthread_mutex_init(&s->mutex, NULL);
    return s;
}

struct store_status *store_status_join(struct store_status *const *parts, const char *const *names,
                                       size_t n)
{
    struct store_status *s = store_status_new(NULL, true, 0);
    if (!s)
        return NULL;
    s->parts = parts;
    s->names = names;
    s->n_parts = n;
    return s;
}

void store_status_free(struct store_status *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* How many of these fields are written: the last one is for shards only. */
static size_t fields_of(const struct store_status *s, size_t n)
{
    return s->shard[0] ? n : n - 1;
}

void store_status_begins(struct store_status *s)
{
    HOLD(&s->mutex);
    s->begun_ms = clock_monotonic_ms();
}

static bool is_well_again(const struct store_status *s, bool wrote, int64_t now_ms)
{
    return wrote || !s->needs_commit || now_ms - s->failed_ms >= STORE_STATUS_QUIET_MS;
}

void store_status_worked(struct store_status *s, bool wrote)
{
    const int64_t now_ms = clock_monotonic_ms(), wall_ms = clock_wall_ms();
    pthread_mutex_lock(&s->mutex);
    s->begun_ms = 0;
    s->state.heard_ms = wall_ms;
    s->state.is_away = false;
    const bool is_back = s->state.is_failing && is_well_again(s, wrote, now_ms);
    const int64_t after_ms = now_ms - s->began_to_fail_ms;
    if (is_back) {
        s->state.is_failing = false;
        s->state.since_ms = 0;
    }
    pthread_mutex_unlock(&s->mutex);
    if (is_back && log_wants(s->log, LOG_LEVEL_INFO)) {
        const struct log_field fields[] = {LOG_I("duration_ms", after_ms),
                                           LOG_S("shard", s->shard)};
        log_write(s->log, LOG_LEVEL_INFO, wall_ms, "store_works_again", fields, fields_of(s, 2));
    }
}

/* The first of a row, and then one in a while. On a full disk a small write may fit in between. */
static bool is_to_be_told(const struct store_status *s, int64_t now_ms)
{
    const bool is_first = !s->state.is_failing && now_ms >= s->full_until_ms;
    return is_first || now_ms - s->told_ms >= TELL_AGAIN_MS;
}

static bool is_the_callers(int code)
{
    const int status = redrive_err_http_status(code);
    return status == 400 || status == 413;
}

/* The mutex is held. */
static void note_failure(struct store_status *s, bool began, const struct redrive_err *err,
                         int64_t now_ms, int64_t wall_ms)
{
    if (!s->state.is_failing) {
        s->state.since_ms = wall_ms;
        s->began_to_fail_ms = now_ms;
        s->needs_commit = false;
    }
    s->failed_ms = now_ms;
    s->needs_commit |= began;
    s->state.is_failing = true;
    if (strcmp(err->hint, STORE_FULL_HINT) == 0)
        s->full_until_ms = now_ms + STORE_STATUS_FULL_MS;
    s->state.is_away = s->has_server && !began;
    s->state.err = *err;
}

void store_status_failed(struct store_status *s, bool began, const struct redrive_err *err)
{
    const int64_t now_ms = clock_monotonic_ms(), wall_ms = clock_wall_ms();
    const int code =
        err->code < 0 && err->code > -STORE_STATUS_KINDS ? err->code : REDRIVE_E_INTERNAL;
    pthread_mutex_lock(&s->mutex);
    s->begun_ms = 0;
    const uint64_t n = ++s->state.errors[-code];
    const bool tells = !is_the_callers(code) && is_to_be_told(s, now_ms);
    if (tells)
        s->told_ms = now_ms;
    if (!is_the_callers(code))
        note_failure(s, began, err, now_ms, wall_ms);
    pthread_mutex_unlock(&s->mutex);
    if (tells && log_wants(s->log, LOG_LEVEL_ERROR)) {
        const struct log_field fields[] = {
            LOG_S("error", err->message), LOG_S("detail", err->detail),
            LOG_I("failure_count", (int64_t)n), LOG_S("shard", s->shard)};
        log_write(s->log, LOG_LEVEL_ERROR, wall_ms, "store_failed", fields, fields_of(s, 4));
    }
}

static void name_part(struct store_status_view *view, const char *name)
{
    const struct redrive_err err = view->err;
    err_set(&view->err, err.code, "%s: %s", name, err.message);
    err_detail(&view->err, "%s", err.detail);
    err_hint(&view->err, "%s", err.hint);
}

/* The error is that of the first part that is away, or else fails. */
static void add_part(struct store_status_view *all, struct store_status_view *part,
                     const char *name)
{
    if (part->is_failing && (!all->is_failing || (part->is_away && !all->is_partly_away))) {
        name_part(part, name);
        all->err = part->err;
        all->since_ms = part->since_ms;
    }
    all->is_failing |= part->is_failing;
    all->is_partly_away |= part->is_away;
    all->is_away &= part->is_away;
    all->is_full &= part->is_full;
    if (part->heard_ms > all->heard_ms)
        all->heard_ms = part->heard_ms;
    if (part->busy_ms > all->busy_ms)
        all->busy_ms = part->busy_ms;
    for (size_t i = 0; i < STORE_STATUS_KINDS; i++)
        all->errors[i] += part->errors[i];
}

static bool is_hanging(int64_t busy_ms, struct redrive_err *err)
{
    if (busy_ms < STORE_STATUS_HANGS_MS)
        return false;
    err_set(err, REDRIVE_E_IO, "the server does not answer");
    err_detail(err, "for %lld s", (long long)(busy_ms / 1000));
    return true;
}

static void note_hanging(struct store_status_view *part)
{
    if (!is_hanging(part->busy_ms, &part->err))
        return;
    if (!part->is_failing)
        part->since_ms = clock_wall_ms() - part->busy_ms;
    part->is_failing = part->is_away = true;
}

static void read_parts(struct store_status *s, struct store_status_view *ret)
{
    struct store_status_view part;
    *ret = (struct store_status_view){.is_away = true, .is_full = true};
    for (size_t i = 0; i < s->n_parts; i++) {
        store_status_read(s->parts[i], &part);
        note_hanging(&part);
        add_part(ret, &part, s->names[i]);
    }
    ret->is_partly_away &= !ret->is_away;
}

void store_status_read(struct store_status *s, struct store_status_view *ret)
{
    if (s->parts) {
        read_parts(s, ret);
        return;
    }
    HOLD(&s->mutex);
    const int64_t now_ms = clock_monotonic_ms();
    *ret = s->state;
    ret->is_full = now_ms < s->full_until_ms;
    if (s->begun_ms != 0)
        ret->busy_ms = now_ms - s->begun_ms;
}

bool store_status_is_away(struct store_status *s, struct redrive_err *err)
{
    if (s->parts) {
        struct store_status_view all;
        read_parts(s, &all);
        if (all.is_away && err)
            *err = all.err;
        return all.is_away;
    }
    HOLD(&s->mutex);
    const bool is_away = s->state.is_away;
    if (is_away && err)
        *err = s->state.err;
    return is_away;
}

uint32_t store_status_away_parts(struct store_status *s)
{
    uint32_t away = 0;
    for (size_t i = 0; i < s->n_parts; i++)
        if (store_status_is_away(s->parts[i], NULL) || store_status_hangs(s->parts[i], NULL))
            away |= UINT32_C(1) << i;
    return away;
}

int64_t store_status_busy_ms(struct store_status *s)
{
    pthread_mutex_lock(&s->mutex);
    const int64_t begun_ms = s->begun_ms;
    pthread_mutex_unlock(&s->mutex);
    return begun_ms == 0 ? 0 : clock_monotonic_ms() - begun_ms;
}

bool store_status_hangs(struct store_status *s, struct redrive_err *err)
{
    return is_hanging(store_status_busy_ms(s), err);
}

const char *store_status_kind_name(int code, char out[32])
{
    (void)snprintf(out, 32, "%s", redrive_err_name(code));
    for (char *c = out; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    return out;
}

/* ---- Trying again ---------------------------------------------------------------------------- */

#define MOST_TRIES      50
#define MOST_MS         5000
#define SLEEP_MAX_MS    32
#define NANOS_IN_MILLIS 1000000

static void sleep_before_try(const struct conflict *c)
{
    if (c->tries < 2)
        return;
    const uint64_t most_ms = c->tries < 5 ? UINT64_C(1) << c->tries : SLEEP_MAX_MS;
    const struct timespec sleep = {.tv_nsec = (long)rng_below(c->rng, most_ms * NANOS_IN_MILLIS)};
    nanosleep(&sleep, NULL);
}

void conflict_init(struct conflict *c, struct rng *rng)
{
    *c = (struct conflict){.rng = rng, .started_ms = clock_monotonic_ms()};
}

bool conflict_try(struct conflict *c)
{
    if (c->tries == MOST_TRIES || (c->tries > 0 && clock_monotonic_ms() - c->started_ms >= MOST_MS))
        return false;
    sleep_before_try(c);
    c->tries++;
    return true;
}

int64_t store_wait_after_ms(int64_t last_ms)
{
    if (last_ms >= STORE_WAIT_MAX_MS / 2)
        return STORE_WAIT_MAX_MS;
    return last_ms * 2 > STORE_WAIT_MIN_MS ? last_ms * 2 : STORE_WAIT_MIN_MS;
}
