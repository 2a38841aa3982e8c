/* health_check.h - the health of the queue, told without waiting for the store.
 *
 * One thread with a store handle of its own reads the figures when somebody asks. Whoever asks is
 * answered with them, or after CHECKUP_PATIENCE_MS with those that were read last; and at once with
 * those while a read takes longer than that, or while units have shown that the store is away
 * (engine/store_status.h). So the answer comes in time whatever has become of the store, and says
 * so.
 */
#ifndef SERVER_HEALTH_CHECK_H
#define SERVER_HEALTH_CHECK_H

#include "core/breaker/health.h"
#include "engine/store_status.h"
#include "server/timer.h"

#define CHECKUP_PATIENCE_MS 250

struct checkup;

/* What is known; all of it is the receiver's. */
struct checkup_facts {
    struct redrive_health health; /* as of read_ms */
    size_t workers;
    int64_t read_ms; /* wall time; 0: the figures have never been read */
    enum {
        CHECKUP_OK,
        CHECKUP_FAILING,     /* it can be read, and units fail */
        CHECKUP_SILENT,      /* it does not answer a read */
        CHECKUP_UNREACHABLE, /* it cannot be read */
    } store;
    int64_t since_ms;       /* wall time; 0: it is OK */
    struct redrive_err err; /* why it is not OK; of a silent one nothing is known */
};

/* One question; embedded in what belongs to whoever asks, until `done` is called. */
struct checkup_wait {
    struct list link;
    struct bell bell;
    struct checkup *checkup;
    struct health_thresholds thresholds;
    bool is_taken;
    /* On any thread, also from inside checkup_ask; must not wait. */
    void (*done)(struct checkup_wait *wait, const struct checkup_facts *facts);
};

/* Opens the store; bells and pulse are borrowed. The store's figures are read for the time that
 * `now_ms` gives. */
int checkup_new(const char *store_url, struct bells *bells, struct pulse *pulse,
                int64_t (*now_ms)(void *ctx), void *ctx, struct checkup **ret,
                struct redrive_err *err);
/* Ends the thread; who still waits is answered, and every `done` has returned. Not from a bell.
 * NULL does nothing. */
void checkup_free(struct checkup *checkup);

/* `thresholds` and `done` are set. */
void checkup_ask(struct checkup *checkup, struct checkup_wait *wait);

const char *checkup_store_name(const struct checkup_facts *facts);

#endif
