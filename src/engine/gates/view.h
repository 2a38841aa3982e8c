/* view.h - breakers and limits as they are shown: every one of a store, and what holds a parked
 * job.
 *
 * Reads what processes share, through any store handle and outside of a transaction: no engine is
 * needed, and nothing is changed. What is shown is what the store has: the sums over a breaker's
 * window may lag by a second, and an open breaker whose recovery time has passed stays open until a
 * job comes; without a job it is idle.
 */
#ifndef ENGINE_GATES_VIEW_H
#define ENGINE_GATES_VIEW_H

#include <stdint.h>

#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "config/config.h"
#include "core/limit/budget.h"
#include "core/limit/limit.h"
#include "redrive.h"
#include "store/store.h"

struct breaker_info {
    struct str tenant;
    struct str key;
    struct redrive_breaker_status status; /* its name is NULL */
    uint64_t parked;                      /* jobs that wait for it, once they have been counted */
    double release_rate; /* jobs a second that it lets go after it has closed; 0: none wait */
    bool is_idle;        /* it would let the next job probe, but none has come; see gate_is_idle */
};

struct breaker_page {
    struct breaker_info *breakers; /* by tenant, then key, as bytes */
    size_t n;
    struct arena arena;
};

/* An absent tenant: all of them. REDRIVE_E_CORRUPT names a row that cannot be read. What the page
 * held is released first; after a failure it is empty. */
int breakers_read(struct store *store, struct str tenant, int64_t now_ms, struct breaker_page *ret,
                  struct redrive_err *err);
void breaker_page_release(struct breaker_page *page);

/* The task of the configuration that declares the breaker of a key, as below; NULL: none does. */
const struct config_task *breakers_declared_by(const struct config *config, struct str key);

/* Adds those that have no row yet, closed and without counts, as the tasks of a configuration
 * declare them: for each task whose breaker has one key for all of its jobs, `{task}` or a plain
 * word. An absent tenant: the default one. */
int breakers_add_declared(const struct config *config, struct str tenant, int64_t now_ms,
                          struct breaker_page *page, struct redrive_err *err);

/* Counts the parked jobs of each, which costs as many rows as are parked. The same tenant. */
int breakers_count_parked(struct store *store, struct str tenant, struct breaker_page *page,
                          struct redrive_err *err);

/* NULL when there is none of that key in the tenant. */
const struct breaker_info *breakers_find(const struct breaker_page *page, struct str tenant,
                                         struct str key);

/* How many hold work back: see breaker_is_open. Those that are idle hold back nothing, and are not
 * counted. */
uint32_t breakers_open(const struct breaker_page *page);

/* One object; times are text. */
void breaker_write_json(struct json_writer *w, const struct breaker_info *info);

/* ---- Limits ---------------------------------------------------------------------------------- */

struct budget_info {
    struct budget_config config;
    struct budget_status status; /* if it is set */
};

struct limit_info {
    struct str tenant;
    struct str key;
    struct rate rate;                /* count 0: none */
    struct slots slots;              /* max 0: none; used is counted all the same */
    struct adaptive_config adaptive; /* if set, slots.max is what it is now */
    struct budget_info budget;
    uint64_t parked; /* jobs that wait for it, once they have been counted */
};

struct limit_page {
    struct limit_info *limits; /* by tenant, then key, as bytes */
    size_t n;
    struct arena arena;
};

/* As breakers_read: those that a job has met. */
int limits_read(struct store *store, struct str tenant, int64_t now_ms, struct limit_page *ret,
                struct redrive_err *err);
void limit_page_release(struct limit_page *page);
int limits_count_parked(struct store *store, struct str tenant, struct limit_page *page,
                        struct redrive_err *err);

/* One object: rate, concurrency, min_concurrency and max_concurrency if it is adaptive, running,
 * parked, and retry_budget or null. */
void limit_write_json(struct json_writer *w, const struct limit_info *info);
/* The rate, as `60/min`; empty: there is none. Static text, or `out`. */
#define RATE_TEXT_MAX 24
const char *rate_text(const struct rate *rate, char out[RATE_TEXT_MAX]);

/* ---- What holds a parked job ----------------------------------------------------------------- */

/* A breaker or a limit, and when it may let the job go. The time is the earliest one: other jobs
 * may be before it, and what happens until then may move it. */
struct gate_info {
    bool is_held; /* the job is parked, and the row of what holds it was found */
    bool is_limit;
    struct str key;                   /* the job's own */
    enum redrive_breaker_state state; /* of a breaker */
    struct rate rate;                 /* of a limit; count 0: none */
    struct slots slots;               /* likewise; max 0: none */
    bool is_budget;                   /* of a limit: its retry budget holds the job */
    struct budget_info budget;
    int64_t may_go_ms; /* 0: not known beforehand */
};

/* A job that is not parked is held by nothing. REDRIVE_E_CORRUPT names a row that cannot be read.
 */
int gate_read(struct store *store, const struct job *job, int64_t now_ms, struct gate_info *ret,
              struct redrive_err *err);

/* Whether the job waits, and its queue is paused. */
int pause_read(struct store *store, const struct job *job, bool *ret, struct redrive_err *err);

/* The member "held_by": {"kind":"breaker","key":…,"state":…,"may_go_at":…}, or "kind":"limit" with
 * rate, concurrency and running, or "kind":"budget" with those and retry_budget; null when nothing
 * holds the job. */
void gate_write_json(struct json_writer *w, const struct gate_info *gate);

#endif
