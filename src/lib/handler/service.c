/* service.c - a service's breaker, the runs that it holds back, and the functions of the API that
 * read and move breakers.
 *
 * Parked runs sleep without a time of their own, except the first: it keeps the time for all of
 * its service. Whatever changes the breaker or the line ends in service_pump, which lets runs go
 * and wakes the timekeeper when it has to look earlier than it meant to. So a thousand parked
 * threads cost one timer.
 */
#include "lib/handler/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/str.h"
#include "core/breaker/breaker.h"

static struct redrive_run *run_of(struct list *link)
{
    return LIST_ENTRY(link, struct redrive_run, link);
}

static bool passes_all(const struct service *s)
{
    return s->breaker.state == REDRIVE_BREAKER_CLOSED ||
           s->breaker.state == REDRIVE_BREAKER_DISABLED;
}

static struct service *find_service(struct redrive_handler *h, const char *name)
{
    return map_get(&h->services_by_name, str_of(name));
}

struct service *service_get(struct redrive_handler *h, const char *name)
{
    struct service *s = find_service(h, name);
    if (s)
        return s;
    struct str text = str_of(name);
    s = calloc(1, sizeof *s + text.len + 1);
    if (!s)
        return NULL;
    memcpy(s->name, name, text.len + 1);
    if (map_put(&h->services_by_name, text, s) < 0) {
        free(s);
        return NULL;
    }
    breaker_init(&s->breaker, rng_hash(name, text.len, h->seed));
    s->config = h->breaker;
    list_init(&s->parked);
    s->next_ms = NEVER;
    list_insert(&h->services, &s->link);
    h->n_services++;
    return s;
}

void services_free(struct redrive_handler *h)
{
    LIST_FOREACH (&h->services, link) {
        free(LIST_ENTRY(link, struct service, link));
    }
    map_release(&h->services_by_name);
}

/* A breaker that has begun to probe is not reported as a warning. */
static enum redrive_severity severity_of(enum redrive_breaker_state state)
{
    return breaker_is_open(state) && state != REDRIVE_BREAKER_HALF_OPEN ? REDRIVE_SEVERITY_ERROR
                                                                        : REDRIVE_SEVERITY_INFO;
}

/* What the breaker was before something was done to it, and what follows from the difference:
 * an event, the count of open ones, the pace of release. */
struct service_before {
    uint64_t generation;
    enum redrive_breaker_state state;
};

static struct service_before service_before(const struct service *s)
{
    return (struct service_before){s->breaker.generation, s->breaker.state};
}

static void note_change(struct redrive_handler *h, struct service *s, struct service_before before,
                        int64_t now_ms, struct events *events)
{
    if (s->breaker.generation == before.generation)
        return;
    h->n_open +=
        (uint32_t)breaker_is_open(s->breaker.state) - (uint32_t)breaker_is_open(before.state);
    if (passes_all(s))
        release_start(&s->release, &s->config, now_ms);
    events_add(h, events,
               (struct redrive_event){
                   .type = REDRIVE_EVENT_BREAKER,
                   .service = s->name,
                   .breaker = s->breaker.state,
                   .severity = severity_of(s->breaker.state),
               });
}

static void tick(struct redrive_handler *h, struct service *s, int64_t now_ms,
                 struct events *events)
{
    struct service_before before = service_before(s);
    breaker_tick(&s->breaker, &s->config, now_ms);
    note_change(h, s, before, now_ms, events);
}

/* How many probes could be sent now, including those that have been woken and have not asked
 * yet. */
static uint32_t probe_room(const struct service *s, int64_t now_ms)
{
    return breaker_probe_room(&s->breaker, &s->config, now_ms);
}

void service_tick(struct redrive_run *run, int64_t now_ms)
{
    tick(run->handler, run->service, now_ms, &run->events);
}

bool service_would_pass(const struct service *s, int64_t now_ms)
{
    return passes_all(s) || (s->n_parked == 0 && probe_room(s, now_ms) > s->candidates);
}

bool service_permit(struct redrive_run *run, int64_t now_ms)
{
    struct service *s = run->service;
    if (s->breaker.state == REDRIVE_BREAKER_CLOSED)
        return breaker_allow(&s->breaker, &s->config, now_ms, &run->permit);
    tick(run->handler, s, now_ms, &run->events);
    if (!run->is_candidate && !service_would_pass(s, now_ms))
        return false;
    struct service_before before = service_before(s);
    bool allowed = breaker_allow(&s->breaker, &s->config, now_ms, &run->permit);
    note_change(run->handler, s, before, now_ms, &run->events);
    return allowed;
}

void service_record(struct redrive_run *run, enum breaker_result result, int64_t now_ms)
{
    struct service *s = run->service;
    tick(run->handler, s, now_ms, &run->events);
    struct service_before before = service_before(s);
    breaker_record(&s->breaker, &s->config, run->permit, result, now_ms - run->started_ms, now_ms);
    note_change(run->handler, s, before, now_ms, &run->events);
    if (result == BREAKER_FAILURE && s->n_parked > 0 && passes_all(s))
        release_failed(&s->release, &s->config, now_ms);
    service_pump(run->handler, s, now_ms, &run->events);
}

void service_park(struct redrive_run *run, int64_t now_ms)
{
    struct service *s = run->service;
    struct list *before = &s->parked;
    while (before->prev != &s->parked && run_of(before->prev)->age > run->age)
        before = before->prev;
    list_insert(before, &run->link);
    s->n_parked++;
    run_set_state(run, REDRIVE_STATE_PARKED);
    service_pump(run->handler, s, now_ms, &run->events);
}

/* The first parked run must look when the pump is due, even if it is another run by now. */
static void wake_timekeeper(struct service *s)
{
    if (list_empty(&s->parked))
        return;
    struct caller *first = &run_of(s->parked.next)->caller;
    if (s->next_ms < first->wake_ms)
        caller_wake(first);
}

void service_unpark(struct redrive_run *run)
{
    struct service *s = run->service;
    list_remove(&run->link);
    s->n_parked--;
    wake_timekeeper(s);
}

static struct probe_candidate as_candidate(const struct redrive_run *run, bool takes_newest)
{
    return (struct probe_candidate){run->attempts, run->max_attempts,
                                    probe_age(run->age, takes_newest)};
}

/* As a probe, the run with the most attempts left; otherwise the order of every other wait. */
static struct redrive_run *next_to_go(struct service *s, bool to_probe)
{
    const bool newest = probe_takes_newest(s->breaker.reopened);
    struct redrive_run *best = NULL;
    LIST_FOREACH (&s->parked, link) {
        struct redrive_run *run = run_of(link);
        if (!best ||
            (to_probe ? probe_precedes(as_candidate(run, newest), as_candidate(best, newest))
                      : run->job.priority > best->job.priority))
            best = run;
    }
    return best;
}

static void let_go(struct service *s, struct redrive_run *run, bool to_probe)
{
    list_remove(&run->link);
    s->n_parked--;
    run->is_candidate = to_probe;
    s->candidates += to_probe;
    run_set_state(run, REDRIVE_STATE_QUEUED);
    caller_wake(&run->caller);
}

/* A job that was submitted from within a run has its slot already. It must not wait behind a
 * candidate that waits for that very slot, or neither would ever go. */
static struct redrive_run *nested_in_slot(struct service *s)
{
    LIST_FOREACH (&s->parked, link)
        if (caller_has_slot(&run_of(link)->caller))
            return run_of(link);
    return NULL;
}

static int64_t next_look_ms(struct service *s, int64_t now_ms)
{
    if (s->n_parked == 0)
        return NEVER;
    int64_t next_ms =
        passes_all(s) ? release_next_ms(&s->release) : breaker_next_ms(&s->breaker, &s->config);
    if (next_ms == 0)
        return NEVER;
    if (next_ms > now_ms)
        return next_ms;
    /* All probes have been woken; the pump runs again when they have asked. */
    return s->candidates > 0 && !nested_in_slot(s) ? NEVER : now_ms + 1;
}

void service_pump(struct redrive_handler *h, struct service *s, int64_t now_ms,
                  struct events *events)
{
    if (s->n_parked == 0)
        return;
    tick(h, s, now_ms, events);
    bool to_probe = !passes_all(s);
    uint32_t room = probe_room(s, now_ms);
    uint32_t n = 0;
    if (!to_probe)
        n = release_take(&s->release, &s->config, now_ms, s->n_parked);
    else if (room > s->candidates)
        n = room - s->candidates;
    while (n-- > 0 && s->n_parked > 0)
        let_go(s, next_to_go(s, to_probe), to_probe);
    struct redrive_run *nested = to_probe && room > 0 ? nested_in_slot(s) : NULL;
    if (nested)
        let_go(s, nested, to_probe);
    s->next_ms = next_look_ms(s, now_ms);
    wake_timekeeper(s);
}

void service_drop_candidate(struct redrive_run *run, int64_t now_ms)
{
    if (!run->is_candidate)
        return;
    run->is_candidate = false;
    run->service->candidates--;
    service_pump(run->handler, run->service, now_ms, &run->events);
}

/* ---- Breakers by hand ------------------------------------------------------------------------ */

int redrive_breaker_configure(struct redrive_handler *h, const char *service,
                              const struct redrive_breaker_config *config, struct redrive_err *err)
{
    if (!h || !service || !*service || !config)
        return err_set(err, REDRIVE_E_INVALID, "handler, service and config are required");
    int rc = redrive_breaker_config_check(config, err);
    if (rc < 0)
        return rc;
    HOLD(&h->lock);
    struct service *s = service_get(h, service);
    if (!s) {
        rc = err_nomem(err);
    } else if (s->used) {
        rc = err_set(err, REDRIVE_E_STATE, "breaker %s is in use", service);
        err_hint(err, "configure a service before its first job");
    } else {
        s->config = *config;
    }
    return rc;
}

/* Lock held. */
static void read_status(struct redrive_handler *h, struct service *s, int64_t now_ms,
                        struct redrive_breaker_status *ret)
{
    *ret = (struct redrive_breaker_status){0};
    struct breaker seen = s->breaker; /* looking changes nothing */
    breaker_tick(&seen, &s->config, now_ms);
    breaker_status(&seen, &s->config, now_ms, ret);
    ret->name = s->name;
    ret->parked = s->n_parked;
    if (ret->opened_at_ms != 0)
        ret->opened_at_ms = handler_wall(h, ret->opened_at_ms);
    if (ret->next_probe_ms != 0)
        ret->next_probe_ms = handler_wall(h, ret->next_probe_ms);
}

int redrive_breaker_get(struct redrive_handler *h, const char *service,
                        struct redrive_breaker_status *ret)
{
    if (!h || !service || !ret)
        return REDRIVE_E_INVALID;
    HOLD(&h->lock);
    struct service *s = find_service(h, service);
    if (s)
        read_status(h, s, handler_now(h), ret);
    return s ? 0 : REDRIVE_E_NOT_FOUND;
}

size_t redrive_breaker_list(struct redrive_handler *h, struct redrive_breaker_status *ret,
                            size_t max)
{
    if (!h)
        return 0;
    HOLD(&h->lock);
    int64_t now_ms = handler_now(h);
    size_t n = 0;
    LIST_FOREACH (&h->services, link) {
        if (n < max)
            read_status(h, LIST_ENTRY(link, struct service, link), now_ms, &ret[n]);
        n++;
    }
    return n;
}

typedef void (*by_hand_fn)(struct service *s, int64_t now_ms);

static int by_hand(struct redrive_handler *h, const char *service, by_hand_fn change)
{
    if (!h || !service)
        return REDRIVE_E_INVALID;
    struct events events = {.n = 0};
    handler_lock(h);
    struct service *s = find_service(h, service);
    if (s) {
        int64_t now_ms = handler_now(h);
        struct service_before before = service_before(s);
        change(s, now_ms);
        note_change(h, s, before, now_ms, &events);
        service_pump(h, s, now_ms, &events);
    }
    handler_unlock(h);
    events_tell(h, &events);
    return s ? 0 : REDRIVE_E_NOT_FOUND;
}

static void reset(struct service *s, int64_t now_ms)
{
    (void)now_ms;
    breaker_reset(&s->breaker);
}

static void trip(struct service *s, int64_t now_ms)
{
    breaker_trip(&s->breaker, now_ms);
}

static void disable(struct service *s, int64_t now_ms)
{
    (void)now_ms;
    breaker_disable(&s->breaker);
}

static void simulate_failure(struct service *s, int64_t now_ms)
{
    breaker_simulate_failure(&s->breaker, &s->config, now_ms);
}

int redrive_breaker_reset(struct redrive_handler *h, const char *service)
{
    return by_hand(h, service, reset);
}

int redrive_breaker_trip(struct redrive_handler *h, const char *service)
{
    return by_hand(h, service, trip);
}

int redrive_breaker_disable(struct redrive_handler *h, const char *service)
{
    return by_hand(h, service, disable);
}

int redrive_breaker_simulate_failure(struct redrive_handler *h, const char *service)
{
    return by_hand(h, service, simulate_failure);
}
