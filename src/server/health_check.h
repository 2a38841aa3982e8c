/* health_check.h - the health of the queue, without waiting for the store.
 *
 * One thread with a store handle of its own reads the health when it is asked for. The caller gets
 * the result, or after HEALTH_CHECK_PATIENCE_MS the last one that was read. It gets the last one at
 * once while a read takes longer than that, or while transactions have shown that the store is away
 * (engine/store_status.h). So the answer comes in time whatever the state of the store, and says
 * what that is.
 */
#ifndef SERVER_HEALTH_CHECK_H
#define SERVER_HEALTH_CHECK_H

#include "core/breaker/health.h"
#include "engine/store_status.h"
#include "server/timer.h"

#define HEALTH_CHECK_PATIENCE_MS 250

struct health_check;

/* What is known; the receiver owns all of it. */
struct health_check_facts {
    struct redrive_health health; /* as of read_ms */
    size_t workers;
    int64_t read_ms; /* wall time; 0: never read */
    enum {
        HEALTH_CHECK_OK,
        HEALTH_CHECK_FAILING,     /* it can be read, and transactions fail */
        HEALTH_CHECK_SILENT,      /* it does not answer a read */
        HEALTH_CHECK_UNREACHABLE, /* it cannot be read */
    } store;
    int64_t since_ms;       /* wall time; 0: it is OK */
    struct redrive_err err; /* why it is not OK; of a silent one nothing is known */
};

/* One question; embedded in an object of the caller, valid until `done` is called. */
struct health_check_wait {
    struct list link;
    struct timer timer;
    struct health_check *health_check;
    struct health_thresholds thresholds;
    bool is_taken;
    /* On any thread, also from inside health_check_ask; must not wait. */
    void (*done)(struct health_check_wait *wait, const struct health_check_facts *facts);
};

/* Opens the store; timers and store_status are borrowed. The store is read for the time that
 * `now_ms` gives. */
int health_check_new(const char *store_url, struct timers *timers,
                     struct store_status *store_status, int64_t (*now_ms)(void *ctx), void *ctx,
                     struct health_check **ret, struct redrive_err *err);
/* Ends the thread; calls that still wait are answered, and every `done` has returned. Not from a
 * timer. NULL does nothing. */
void health_check_free(struct health_check *health_check);

/* `thresholds` and `done` are set. */
void health_check_ask(struct health_check *health_check, struct health_check_wait *wait);

const char *health_check_store_name(const struct health_check_facts *facts);

#endif
