/* router.c - opens, starts and stops the engines of all shards; who is told what they do. */
#include "engine/shards/router.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/mem/map.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "engine/tasks.h"
#include "store/shards/record.h"
#include "store/shards/shards.h"

/* A shard whose transaction has taken so long is passed over by claims. */
#define SLOW_MS 500

/* How often the guard looks. */
#define GUARD_MS 250

#define NAME_MAX_BYTES 32

struct router {
    struct router_options options;
    struct shard_urls urls;
    struct lane lanes[SHARDS_MAX];
    struct shard_set set; /* what shards that come back are compared with */
    struct late_shard late[SHARDS_MAX];
    uint32_t away; /* shards that could not be opened at first, by bit */
    struct store_status *states[SHARDS_MAX];
    char name_texts[SHARDS_MAX][NAME_MAX_BYTES];
    const char *names[SHARDS_MAX];
    struct store_status *store_status;
    struct router_start start;
    atomic_size_t turn;
    /* Callbacks are called one at a time. One may hand in operations that are refused at once, and
     * so be called again by the same thread. */
    pthread_mutex_t calls;
    struct open_claims claims;

    pthread_mutex_t homes_mutex;
    struct map homes; /* lanes of tenants that have been moved, from 1 */
    _Atomic bool has_homes;

    /* A thread that sees to what waits for a shard that does not answer. */
    pthread_t guard;
    bool has_guard;
    bool is_stopping; /* guarded by claims.mutex */
    pthread_cond_t wake;
};

_Static_assert(SHARDS_MAX == sizeof((struct sending *)0)->ops / sizeof(struct list),
               "a list for each shard");

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void on_event(const struct engine_event *event, void *ctx)
{
    struct lane *lane = ctx;
    struct router *r = lane->router;
    struct engine_event named = *event;
    if (named.seq > 0)
        named.seq = shard_seq(named.seq, lane->index);
    pthread_mutex_lock(&r->calls);
    r->options.engine.on_event(&named, r->options.engine.event_ctx);
    pthread_mutex_unlock(&r->calls);
}

static void on_alert(const struct alert_event *event, void *ctx)
{
    struct router *r = ((struct lane *)ctx)->router;
    pthread_mutex_lock(&r->calls);
    r->options.engine.on_alert(event, r->options.engine.alert_ctx);
    pthread_mutex_unlock(&r->calls);
}

static void on_ready(void *ctx)
{
    struct lane *lane = ctx;
    struct router *r = lane->router;
    lane->is_ready = true;
    if (!r->start.on_ready)
        return;
    pthread_mutex_lock(&r->calls);
    r->start.on_ready(r->start.ready_ctx);
    pthread_mutex_unlock(&r->calls);
}

void router_answer(struct router *r, struct op *op)
{
    pthread_mutex_lock(&r->calls);
    op->done(op, op->done_ctx);
    pthread_mutex_unlock(&r->calls);
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

size_t router_count(const struct router *r)
{
    return r->urls.n;
}

struct lane *router_lane(struct router *r, size_t i)
{
    return &r->lanes[i];
}

bool lane_is_slow(const struct lane *lane)
{
    struct store_status *status = lane->router->states[lane->index];
    return store_status_busy_ms(status) >= SLOW_MS || store_status_is_away(status, NULL);
}

bool lane_hangs(const struct lane *lane, struct redrive_err *err)
{
    return store_status_hangs(lane->router->states[lane->index], err);
}

bool lane_is_away(const struct lane *lane, struct redrive_err *err)
{
    return lane_hangs(lane, err) || store_status_is_away(lane->router->states[lane->index], err);
}

size_t router_lane_of(struct router *r, struct str tenant)
{
    int64_t home = 0;
    if (r->has_homes) {
        pthread_mutex_lock(&r->homes_mutex);
        home = map_get_number(&r->homes, tenant.len > 0 ? tenant : str_of(ENGINE_TENANT_DEFAULT));
        pthread_mutex_unlock(&r->homes_mutex);
    }
    return home > 0 ? (size_t)home - 1 : shard_of_tenant(tenant, r->set.hashed);
}

bool router_learn(struct router *r, const struct op *op, size_t *ret_lane)
{
    if (op->code == 0 || op->moved_to == 0 || op->moved_to > r->urls.n)
        return false;
    pthread_mutex_lock(&r->homes_mutex);
    (void)map_put_number(&r->homes, op->moved.len > 0 ? op->moved : str_of(ENGINE_TENANT_DEFAULT),
                         (int64_t)op->moved_to);
    pthread_mutex_unlock(&r->homes_mutex);
    r->has_homes = true;
    *ret_lane = op->moved_to - 1;
    return true;
}

size_t router_turn(struct router *r)
{
    return atomic_fetch_add(&r->turn, 1) % r->urls.n;
}

void lane_name(const struct lane *lane, struct redrive_err *err)
{
    shard_err(err, lane->index, lane->router->urls.urls[lane->index]);
}

void log_kept_reload(const struct lane *lane, const struct redrive_err *err)
{
    const struct router *r = lane->router;
    log_event(r->options.engine.log, LOG_LEVEL_ERROR, clock_wall_ms(), "reload_kept",
              LOG_S("shard", r->names[lane->index]), LOG_S("error", err->message),
              LOG_S("hint", "reload again when all shards answer"));
}

struct open_claims *router_open_claims(struct router *r)
{
    return &r->claims;
}

/* One whose time is that of its store. */
const struct engine *router_engine(const struct router *r)
{
    size_t i = 0;
    while (i + 1 < r->urls.n && r->away >> i & 1)
        i++;
    return r->lanes[i].committer ? committer_engine(r->lanes[i].committer) : r->lanes[i].engine;
}

uint32_t router_away(const struct router *r)
{
    return r->away;
}

struct store_status *router_store_status(const struct router *r)
{
    return r->store_status;
}

void router_submit_all(struct router *r, struct list *ops)
{
    struct sending sending = {.router = r};
    for (size_t i = 0; i < r->urls.n; i++)
        list_init(&sending.ops[i]);
    LIST_FOREACH (ops, link) {
        list_remove(link);
        route_begin(&sending, LIST_ENTRY(link, struct op, link));
    }
    for (size_t i = 0; i < r->urls.n; i++)
        if (!list_empty(&sending.ops[i]))
            committer_submit_all(r->lanes[i].committer, &sending.ops[i]);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* A shard that is away has a handle that opens it when it is back; `why`: it was just tried. */
static int open_store_late(struct router *r, size_t i, const struct redrive_err *why,
                           struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = r->options.create, .origin = r->options.origin};
    r->late[i] = (struct late_shard){&r->urls, i, r->options.create, &r->set};
    return shard_open_late(&r->late[i], &options, why, ret, err);
}

static int open_store(const struct router *r, size_t i, struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = r->options.create, .origin = r->options.origin};
    return store_open(r->urls.urls[i], &options, ret, err);
}

static int open_engine(struct router *r, size_t i, struct store *store, struct redrive_err *err)
{
    struct lane *lane = &r->lanes[i];
    struct engine_options options = r->options.engine;
    *lane = (struct lane){.router = r, .index = i, .is_ready = true};
    options.store = store;
    options.shard = i;
    options.n_shards = r->urls.n;
    options.n_hashed = r->set.hashed;
    options.on_event = options.on_event ? on_event : NULL;
    options.event_ctx = lane;
    options.on_alert = options.on_alert ? on_alert : NULL;
    options.alert_ctx = lane;
    int rc = engine_open(&options, &lane->engine, err);
    if (rc == 0)
        r->states[i] = engine_store_status(lane->engine);
    return rc;
}

static void name_shard(struct router *r, size_t i)
{
    (void)snprintf(r->name_texts[i], NAME_MAX_BYTES, "shard %zu", i + 1);
    r->names[i] = r->name_texts[i];
}

/* Shards that are away stay NULL, and `why` says of the first what is wrong. */
static int open_stores(struct router *r, struct store **stores, struct redrive_err whys[],
                       struct redrive_err *err)
{
    for (size_t i = 0; i < r->urls.n; i++) {
        name_shard(r, i);
        int rc = open_store(r, i, &stores[i], &whys[i]);
        if (rc == REDRIVE_E_IO && !r->options.needs_all) {
            r->away |= UINT32_C(1) << i;
        } else if (rc < 0) {
            *err = whys[i];
            shard_err(err, i, r->urls.urls[i]);
            return rc;
        }
    }
    return 0;
}

static size_t first_away(const struct router *r)
{
    size_t i = 0;
    while (!(r->away >> i & 1))
        i++;
    return i;
}

/* Which shards there are must be known before any tenant is served: by one shard at least, and by
 * all if they are new. */
static int check_records(struct router *r, struct store *const *stores,
                         const struct redrive_err whys[], struct redrive_err *err)
{
    const bool are_all_away = r->away == (UINT32_C(1) << r->urls.n) - 1;
    int rc = are_all_away ? REDRIVE_E_NOT_FOUND
                          : shard_record_check(stores, &r->urls, r->options.create, &r->set, err);
    if (rc != REDRIVE_E_NOT_FOUND || r->away == 0)
        return rc;
    const size_t i = first_away(r);
    *err = whys[i];
    shard_err(err, i, r->urls.urls[i]);
    if (!are_all_away)
        err_hint(err, "the store is not set up yet: for that all shards must answer");
    return REDRIVE_E_IO;
}

static int open_lanes(struct router *r, struct store **stores, const struct redrive_err whys[],
                      struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->urls.n && rc == 0; i++) {
        if (!stores[i])
            rc = open_store_late(r, i, &whys[i], &stores[i], err);
        if (rc == 0)
            rc = open_engine(r, i, stores[i], err);
        stores[i] = NULL; /* the engine's, also when that failed */
    }
    return rc;
}

static int open_shards(struct router *r, struct redrive_err *err)
{
    struct store *stores[SHARDS_MAX] = {0};
    struct redrive_err *whys = calloc(SHARDS_MAX, sizeof *whys), own = {0};
    if (!whys)
        return err_nomem(err);
    int rc = shard_urls_init(&r->urls, r->options.url, &own);
    if (rc == 0)
        rc = open_stores(r, stores, whys, &own);
    if (rc == 0)
        rc = check_records(r, stores, whys, &own);
    if (rc == 0)
        rc = open_lanes(r, stores, whys, &own);
    for (size_t i = 0; i < SHARDS_MAX; i++)
        store_close(stores[i]);
    free(whys);
    if (rc < 0 && err)
        *err = own;
    return rc;
}

int router_open(const struct router_options *options, struct router **ret, struct redrive_err *err)
{
    pthread_mutexattr_t attributes;
    *ret = NULL;
    struct router *r = calloc(1, sizeof *r);
    if (!r)
        return err_nomem(err);
    r->options = *options;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&r->calls, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_init(&r->claims.mutex, NULL);
    list_init(&r->claims.questions);
    list_init(&r->claims.trips);
    list_init(&r->claims.items);
    thread_cond_init(&r->wake);
    pthread_mutex_init(&r->homes_mutex, NULL);
    map_init(&r->homes, rng_system_seed());
    shard_set_init(&r->set);
    int rc = open_shards(r, err);
    if (rc == 0) {
        r->store_status = store_status_join(r->states, r->names, r->urls.n);
        rc = r->store_status ? 0 : err_nomem(err);
    }
    if (rc < 0) {
        router_close(r);
        return rc;
    }
    *ret = r;
    return 0;
}

static void free_router(struct router *r)
{
    store_status_free(r->store_status);
    map_release(&r->homes);
    pthread_mutex_destroy(&r->homes_mutex);
    shard_set_release(&r->set);
    shard_urls_release(&r->urls);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->claims.mutex);
    pthread_mutex_destroy(&r->calls);
    free(r);
}

void router_close(struct router *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->urls.n; i++)
        engine_close(r->lanes[i].engine);
    free_router(r);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

/* The tasks of the configuration go to a shard that is away when it is back. */
static int publish(struct lane *lane, struct redrive_err *err)
{
    struct publish_op op;
    publish_op_init(&op);
    int rc = engine_apply_one(lane->engine, &op.op, err);
    lane->owes_tasks = rc == REDRIVE_E_IO;
    return lane->owes_tasks ? 0 : rc;
}

static void on_published(struct op *op, void *ctx)
{
    ((struct lane *)ctx)->owes_tasks = op->code == REDRIVE_E_IO;
    free(op);
}

static void publish_later(struct lane *lane)
{
    struct publish_op *op = malloc(sizeof *op);
    if (!op)
        return;
    lane->owes_tasks = false;
    publish_op_init(op);
    op->op.done = on_published;
    op->op.done_ctx = lane;
    committer_submit(lane->committer, &op->op);
}

/* The second handle, for what other processes do. */
static int open_watch(struct router *r, size_t i, struct store **ret, struct redrive_err *err)
{
    struct redrive_err why = {0};
    const bool is_away = r->away >> i & 1;
    int rc = is_away ? REDRIVE_E_IO : open_store(r, i, ret, &why);
    if (rc == REDRIVE_E_IO)
        return open_store_late(r, i, is_away ? NULL : &why, ret, err);
    if (rc < 0 && err) {
        *err = why;
        shard_err(err, i, r->urls.urls[i]);
    }
    return rc;
}

static int start_lane(struct router *r, size_t i, struct redrive_err *err)
{
    struct lane *lane = &r->lanes[i];
    struct committer_options options = {
        .on_ready = on_ready,
        .ready_ctx = lane,
        .no_ticks = !r->start.watches,
    };
    int rc = r->start.publishes ? publish(lane, err) : 0;
    if (rc == 0 && r->start.watches)
        rc = open_watch(r, i, &options.watch, err);
    if (rc < 0)
        return rc;
    options.engine = lane->engine;
    lane->engine = NULL;
    return committer_start(&options, &lane->committer, err);
}

/* What waits behind a transaction that hangs is answered. */
static void free_from_hanging(struct router *r)
{
    for (size_t i = 0; i < r->urls.n; i++) {
        struct redrive_err err = {0};
        if (lane_hangs(&r->lanes[i], &err))
            committer_fail_waiting(r->lanes[i].committer, &err);
    }
}

/* Claims have passed over a shard that answers again: there may be jobs. */
static void tell_of_missed(struct router *r)
{
    for (size_t i = 0; i < r->urls.n; i++) {
        struct lane *lane = &r->lanes[i];
        if (lane->owes_tasks && !lane_is_away(lane, NULL))
            publish_later(lane);
        if (lane->is_missed && !lane_is_slow(lane)) {
            lane->is_missed = false;
            on_ready(lane);
        }
    }
}

static void *run_guard(void *arg)
{
    struct router *r = arg;
    pthread_mutex_lock(&r->claims.mutex);
    while (!r->is_stopping) {
        (void)thread_cond_wait_until(&r->wake, &r->claims.mutex, clock_monotonic_ms() + GUARD_MS);
        pthread_mutex_unlock(&r->claims.mutex);
        route_claims_expire(r, clock_monotonic_ms());
        route_items_expire(r, clock_monotonic_ms());
        free_from_hanging(r);
        tell_of_missed(r);
        pthread_mutex_lock(&r->claims.mutex);
    }
    pthread_mutex_unlock(&r->claims.mutex);
    return NULL;
}

static int start_guard(struct router *r, struct redrive_err *err)
{
    r->has_guard = thread_start(&r->guard, run_guard, r);
    return r->has_guard ? 0 : err_set(err, REDRIVE_E_NOMEM, "cannot start the router's thread");
}

static void stop_guard(struct router *r)
{
    if (!r->has_guard)
        return;
    pthread_mutex_lock(&r->claims.mutex);
    r->is_stopping = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->claims.mutex);
    pthread_join(r->guard, NULL);
}

/* The guard hands operations on from shard to shard, so it ends first. */
void router_stop(struct router *r)
{
    stop_guard(r);
    for (size_t i = 0; i < r->urls.n; i++)
        committer_end(r->lanes[i].committer);
    for (size_t i = 0; i < r->urls.n; i++) {
        committer_free(r->lanes[i].committer);
        engine_close(r->lanes[i].engine);
    }
    free_router(r);
}

int router_start(struct router *r, const struct router_start *start, struct committer **ret,
                 struct redrive_err *err)
{
    int rc = 0;
    *ret = NULL;
    r->start = *start;
    for (size_t i = 0; i < r->urls.n && rc == 0; i++)
        rc = start_lane(r, i, err);
    if (rc == 0)
        rc = start_guard(r, err);
    struct committer *front = rc == 0 ? committer_of_router(r) : NULL;
    if (rc == 0 && !front)
        rc = err_nomem(err);
    if (rc < 0) {
        router_stop(r);
        return rc;
    }
    *ret = front;
    return 0;
}
