/* private.h - what the files of this folder share: the state behind requests, and the routes. */
#ifndef SERVER_REST_PRIVATE_H
#define SERVER_REST_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/os/log.h"
#include "server/auth/auth.h"
#include "server/rest/rest.h"
#include "server/timer.h"

struct rest_reader {
    struct rest *rest;
    struct store *store;
    pthread_t thread;
    bool started;
};

struct rest {
    struct committer *committer;
    const struct log *log;
    struct event_hub *hub;
    struct run_times *run_times;
    struct remote_workers *remote;
    const struct tracing *tracing; /* NULL: none */
    uint64_t seed;                 /* of the ids of spans */
    _Atomic uint64_t n_spans;
    const struct rest_route *const *tables;
    bool read_only;
    pthread_mutex_t config_lock; /* guards which configuration it is; each request holds its own */
    struct config *config;
    atomic_bool ready;
    _Atomic int64_t certificate_end_ms;
    atomic_bool simulates;    /* a simulation is under way: one at a time */
    struct log_pace refusals; /* of the server's thread */

    struct timers *timers;
    struct health_check *health_check;
    struct claim_waits *claims;
    struct bulk_runs *bulk_runs;
    struct samples *rates;
    struct samples *latencies;
    struct breaker_history *breakers;
    struct timer rates_timer; /* fires when a reader should sample the counters */

    struct rest_reader *readers;
    unsigned n_readers;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct list waiting; /* calls for the readers */
    bool rates_due;
    bool stopping;
    struct log_pace failed_reads;
};

/* Who asks, and with which scopes. */
enum auth_verdict rest_identify(const struct rest_call *call, struct principal *ret);

/* Answers 401: a reload has ended what the client was allowed to when it came. Any thread. */
void rest_refuse_former(struct rest_call *call);

/* What the audit log says of a call. */
struct audit rest_audit_of(struct rest_call *call);

/* Whether the store is known to be away; then `err` (may be NULL) says why, and is one of 503. */
bool rest_is_away(const struct rest_call *call, struct redrive_err *err);

/* ---- Threads that read (readers.c) ----------------------------------------------------------- */

/* Opens the readers' stores and starts their threads. */
int rest_readers_start(struct rest *rest, const char *store_url, struct redrive_err *err);
/* Ends them; calls that are still queued are answered with 503. Accepts those half started. */
void rest_readers_stop(struct rest *rest);
/* For the timer of rates: the next reader that is free notes the counters. */
void rest_readers_note_rates(struct timer *timer);
void rest_readers_take(struct rest *rest, struct rest_call *call);

/* ---- Routes ---------------------------------------------------------------------------------- */

extern const struct rest_route REST_BULK[];
extern const struct rest_route REST_CONTROL[];
extern const struct rest_route REST_DEAD[];
extern const struct rest_route REST_JOBS[];
extern const struct rest_route REST_SERVICE[];
extern const struct rest_route REST_SIMULATE[];
extern const struct rest_route REST_STATS[];
extern const struct rest_route REST_WORK[];

/* Ends with NULL. */
extern const struct rest_route *const REST_TABLES[];

/* docs/openapi.yaml, embedded when the program is built. */
extern const char *const OPENAPI_TEXTS[];
extern const int OPENAPI_TEXTS_COUNT;

#endif
