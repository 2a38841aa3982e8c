/* breakers.c - the breakers of a handler: configure them, read them, move them by hand. */
#include "lib/handler/private.h"

#include "base/err.h"
#include "base/text/str.h"

int redrive_breaker_configure(struct redrive_handler *h, const char *service,
                              const struct redrive_breaker_config *config, struct redrive_err *err)
{
    if (!h || !service || !*service || !config)
        return err_set(err, REDRIVE_E_INVALID, "handler, service and config are required");
    int rc = redrive_breaker_config_check(config, err);
    if (rc < 0)
        return rc;
    handler_lock(h);
    struct service *s = service_get(h, service);
    if (!s) {
        rc = err_nomem(err);
    } else if (s->used) {
        rc = err_set(err, REDRIVE_E_STATE, "breaker %s is in use", service);
        err_hint(err, "configure a service before its first job");
    } else {
        s->config = *config;
    }
    handler_unlock(h);
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
    handler_lock(h);
    struct service *s = service_find(h, service);
    if (s)
        read_status(h, s, handler_now(h), ret);
    handler_unlock(h);
    return s ? 0 : REDRIVE_E_NOT_FOUND;
}

size_t redrive_breaker_list(struct redrive_handler *h, struct redrive_breaker_status *ret,
                            size_t max)
{
    if (!h)
        return 0;
    handler_lock(h);
    int64_t now_ms = handler_now(h);
    size_t n = 0;
    LIST_FOREACH (&h->services, link) {
        if (n < max)
            read_status(h, LIST_ENTRY(link, struct service, link), now_ms, &ret[n]);
        n++;
    }
    handler_unlock(h);
    return n;
}

typedef void (*by_hand_fn)(struct service *s, int64_t now_ms);

static int by_hand(struct redrive_handler *h, const char *service, by_hand_fn change)
{
    if (!h || !service)
        return REDRIVE_E_INVALID;
    struct events events = {.n = 0};
    handler_lock(h);
    struct service *s = service_find(h, service);
    if (s) {
        int64_t now_ms = handler_now(h);
        struct service_before before = service_before(s);
        change(s, now_ms);
        service_note_change(h, s, before, now_ms, &events);
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
