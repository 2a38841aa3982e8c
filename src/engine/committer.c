/* committer.c - one thread that owns an engine, and many that hand it operations. */
#include "engine/committer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "engine/shards/router.h"
#include "engine/waits/aside.h"
#include "engine/waits/batch_wait.h"
#include "engine/watcher.h"
#include "store/shards/shards.h"

/* The longest sleep, so that a wall clock that was set is noticed. */
#define SLEEP_MAX_MS 60000

/* A committer that has been at the same work for so long hangs, it seems, and must not stay the
 * leader. */
#define HANGS_MS 3000

/* A committer that has had nothing to do for so long is idle. */
#define IDLE_MS 200

struct committer {
    struct router *router; /* to which everything is handed, and nothing below is used; or NULL */
    struct engine *engine;
    struct watcher *watcher; /* NULL: no other process uses the store */
    void (*on_ready)(void *ctx);
    void *ready_ctx;
    bool no_ticks;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct list waiting;
    size_t n_waiting;
    struct aside aside; /* operations that wait for locks */
    size_t enough;      /* the thread is woken when so many wait */
    bool stopping;
    uint32_t notification; /* from outside, bits of enum store_notification */
    bool is_leader;        /* for all processes */
    int64_t busy_since_ms; /* monotonic: with operations or a tick; 0: it is not */

    struct batch_wait wait; /* the thread's own */
    int64_t used_ms;        /* likewise, monotonic: when the store last had something to do */
    int64_t ticked_ms;      /* likewise, by the engine's clock: the last tick, at the latest */
};

/* By so much a clock moves by itself: that of a server is computed from its answers. */
#define BACK_MS 1000

/* ---- The thread ------------------------------------------------------------------------------ */

static int64_t monotonic_us(void)
{
    return clock_monotonic_ns() / 1000;
}

/* The mutex is held. */
static void sleep_until_us(struct committer *c, int64_t until_us)
{
    const struct timespec at = {.tv_sec = until_us / 1000000,
                                .tv_nsec = (long)(until_us % 1000000) * 1000};
    (void)pthread_cond_timedwait(&c->wake, &c->mutex, &at);
}

static void sleep_for_ms(struct committer *c, int64_t wait_ms)
{
    sleep_until_us(c, monotonic_us() + (wait_ms < SLEEP_MAX_MS ? wait_ms : SLEEP_MAX_MS) * 1000);
}

/* Waits for operations that are about to come. The mutex is held. */
static void wait_for_more(struct committer *c)
{
    const size_t enough = batch_wait_enough(&c->wait, monotonic_us());
    if (c->n_waiting == 0 || enough == 0)
        return;
    c->enough = enough;
    while (c->n_waiting < enough && !c->stopping && monotonic_us() < c->wait.until_us)
        sleep_until_us(c, c->wait.until_us);
    c->enough = 1;
    batch_wait_learn(&c->wait, c->n_waiting);
}

/* Takes what has gathered, up to a transaction's worth. The mutex is held. */
static void take(struct committer *c, struct op_batch *batch)
{
    size_t jobs = 0, bytes = 0;
    for (size_t i = 0; i < batch->n; i++) {
        jobs += batch->ops[i]->weight;
        bytes += batch->ops[i]->bytes;
    }
    while (!list_empty(&c->waiting) && batch->n < COMMITTER_MAX_OPS) {
        struct op *op = LIST_ENTRY(c->waiting.next, struct op, link);
        if (batch->n > 0 &&
            (jobs + op->weight > COMMITTER_MAX_JOBS || bytes + op->bytes > COMMITTER_MAX_BYTES))
            break;
        list_remove(&op->link);
        c->n_waiting--;
        op->is_blocked = false;
        if (aside_join(&c->aside, op, clock_monotonic_ms()))
            continue;
        jobs += op->weight;
        bytes += op->bytes;
        batch->ops[batch->n++] = op;
    }
}

/* On a store with one writer a transaction may have waited for other processes; operations that
 * have come meanwhile join it. */
static void gather(struct op_batch *batch)
{
    struct committer *c = batch->ctx;
    HOLD(&c->mutex);
    take(c, batch);
}

/* An operation may be gone once it has been answered. Those that are blocked go to a list. */
static void answer(struct op *const *ops, size_t n, struct list *ret_blocked)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->is_blocked)
            list_insert(ret_blocked, &ops[i]->link);
        else
            ops[i]->done(ops[i], ops[i]->done_ctx);
    }
}

/* ---- Operations that are set aside ----------------------------------------------------------- */

/* A fence is answered when all that was handed in before it has been answered. */
static bool has_fence(const struct op_batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->ops[i]->route && batch->ops[i]->route->to == ROUTE_FENCE)
            return true;
    return false;
}

/* Answers those whose time is over; INT64_MAX: all. */
static void give_up_aside(struct committer *c, int64_t until_ms)
{
    struct list over;
    list_init(&over);
    pthread_mutex_lock(&c->mutex);
    aside_expire(&c->aside, until_ms, &over);
    pthread_mutex_unlock(&c->mutex);
    const int64_t now_ms = clock_monotonic_ms();
    LIST_FOREACH (&over, link) {
        struct op *op = LIST_ENTRY(link, struct op, link);
        list_remove(link);
        aside_give_up(op, now_ms);
        op->done(op, op->done_ctx);
    }
}

/* Operations that stood behind one that has its answer are the next to be taken. The mutex is held.
 */
static void take_back(struct committer *c, struct list *ops)
{
    struct list *front = c->waiting.next;
    LIST_FOREACH (ops, link) {
        list_remove(link);
        list_insert(front, link);
        c->n_waiting++;
    }
}

/* Tries one of those that are set aside. */
static void try_aside(struct committer *c)
{
    struct list behind;
    const int64_t since_ms = clock_monotonic_ms();
    pthread_mutex_lock(&c->mutex);
    struct op *op = aside_take(&c->aside, since_ms);
    pthread_mutex_unlock(&c->mutex);
    if (!op)
        return;
    op->is_blocked = false;
    engine_apply_batch(c->engine, &(struct op_batch){.ops = &op, .n = 1, .sets_aside = true});
    list_init(&behind);
    const int64_t now_ms = clock_monotonic_ms();
    pthread_mutex_lock(&c->mutex);
    if (op->is_blocked) {
        aside_put(&c->aside, op, now_ms);
        aside_rest(&c->aside, now_ms - since_ms, now_ms);
    } else {
        aside_let_go(op, &behind);
        take_back(c, &behind);
    }
    pthread_mutex_unlock(&c->mutex);
    if (!op->is_blocked)
        op->done(op, op->done_ctx);
}

/* Sets operations aside, and looks after those that are. `gives_up`: they are answered now. */
static void look_after_aside(struct committer *c, struct list *blocked, bool gives_up)
{
    const int64_t now_ms = clock_monotonic_ms();
    pthread_mutex_lock(&c->mutex);
    LIST_FOREACH (blocked, link) {
        list_remove(link);
        aside_put(&c->aside, LIST_ENTRY(link, struct op, link), now_ms);
        aside_rest(&c->aside, 0, now_ms);
    }
    const bool is_empty = aside_is_empty(&c->aside);
    pthread_mutex_unlock(&c->mutex);
    if (is_empty)
        return;
    if (!gives_up)
        try_aside(c);
    give_up_aside(c, gives_up ? INT64_MAX : now_ms);
}

/* When a tick is due: at once if the clock was set back since the last one, as what was to be done
 * then must be found anew. */
static int64_t next_tick_ms(const struct committer *c, int64_t now_ms)
{
    if (c->no_ticks)
        return INT64_MAX;
    return c->ticked_ms - now_ms > BACK_MS ? now_ms : engine_next_ms(c->engine);
}

/* By the clock, or because other processes have notified of something. */
static bool wants_tick(const struct committer *c)
{
    const int64_t now_ms = engine_now_ms(c->engine);
    return next_tick_ms(c, now_ms) <= now_ms ||
           (c->notification & STORE_NOTIFY_TIME && !c->no_ticks);
}

static bool wants_flush(const struct committer *c)
{
    return engine_flush_ms(c->engine) <= engine_now_ms(c->engine);
}

/* Until a tick or a flush. */
static int64_t wait_ms(const struct committer *c)
{
    const int64_t now_ms = engine_now_ms(c->engine);
    const int64_t flush_ms = engine_flush_ms(c->engine);
    const int64_t tick_ms = next_tick_ms(c, now_ms);
    return (tick_ms < flush_ms ? tick_ms : flush_ms) - now_ms;
}

static void tick(struct committer *c)
{
    int64_t next_ms;
    const int64_t before_ms = engine_now_ms(c->engine);
    /* A failure has been logged; this process or another tries again soon. */
    if (engine_tick(c->engine, &next_ms, NULL) < 0)
        watcher_give_up_lead(c->watcher);
    const int64_t after_ms = engine_now_ms(c->engine);
    c->ticked_ms = before_ms > after_ms ? before_ms : after_ms; /* it may be set meanwhile */
}

/* The mutex is held. True when there is something to do. */
static bool has_work(const struct committer *c)
{
    return c->stopping || c->notification & (STORE_NOTIFY_READY | STORE_NOTIFY_TIME) ||
           !list_empty(&c->waiting);
}

/* In how many ms the store is to get its upkeep: so long after it was last used, whatever other
 * processes notify of. INT64_MAX: it wants none. */
static int64_t upkeep_in_ms(const struct committer *c)
{
    const struct store_base *base = store_base(engine_store(c->engine));
    if (!base->wants_upkeep)
        return INT64_MAX;
    return c->used_ms + (base->idle_ms ? base->idle_ms : IDLE_MS) - clock_monotonic_ms();
}

/* Sleeps until there is something to do, a tick is due, or the store wants its upkeep. The mutex is
 * held. */
static void rest(struct committer *c, int64_t wait_ms)
{
    const int64_t upkeep_ms = upkeep_in_ms(c);
    if (upkeep_ms <= 0 && list_empty(&c->waiting) && !c->stopping) {
        struct store *store = engine_store(c->engine);
        pthread_mutex_unlock(&c->mutex);
        store_ops(store)->upkeep(store);
        c->used_ms = clock_monotonic_ms();
        pthread_mutex_lock(&c->mutex);
    } else if (wait_ms > 0 && !has_work(c)) {
        sleep_for_ms(c, wait_ms < upkeep_ms ? wait_ms : upkeep_ms);
    }
}

/* Upkeep that a store does when idle, and that other processes wait for: there is no idle time at
 * the end. */
static void last_upkeep(const struct committer *c)
{
    struct store *store = engine_store(c->engine);
    if (store_base(store)->wants_upkeep && store_base(store)->idle_ms > 0)
        store_ops(store)->upkeep(store);
}

static void apply(struct committer *c, struct op_batch *batch)
{
    const int64_t since_us = monotonic_us();
    if (batch->n == 0)
        return;
    engine_expect(c->engine, c->wait.n_back > 0);
    engine_apply_batch(c->engine, batch);
    const int64_t now_us = monotonic_us();
    HOLD(&c->mutex);
    batch_wait_answered(&c->wait, c->n_waiting, batch->n, now_us - since_us, now_us);
}

static void *run(void *arg)
{
    struct committer *c = arg;
    struct op *ops[COMMITTER_MAX_OPS];
    pthread_mutex_lock(&c->mutex);
    while (!c->stopping || !list_empty(&c->waiting) || !aside_is_empty(&c->aside)) {
        engine_set_leader(c->engine, c->is_leader);
        /* One that stops makes no more ticks. */
        bool is_time = wants_tick(c) && !c->stopping;
        bool outside = c->notification & (STORE_NOTIFY_READY | STORE_NOTIFY_TIME);
        c->notification = 0;
        struct op_batch batch = {.ops = ops, .gather = gather, .ctx = c, .sets_aside = true};
        wait_for_more(c);
        take(c, &batch);
        c->busy_since_ms = clock_monotonic_ms();
        const bool is_stopping = c->stopping;
        pthread_mutex_unlock(&c->mutex);
        if (is_time)
            tick(c);
        apply(c, &batch);
        const bool is_flush = wants_flush(c);
        if (is_flush)
            engine_flush(c->engine);
        if (is_time || is_flush || batch.n > 0)
            c->used_ms = clock_monotonic_ms();
        if (engine_has_claimed(c->engine))
            watcher_claims(c->watcher);
        bool made_ready = engine_made_ready(c->engine);
        struct list blocked;
        list_init(&blocked);
        const bool ends = has_fence(&batch);
        if (ends)
            give_up_aside(c, INT64_MAX);
        answer(batch.ops, batch.n, &blocked);
        if (c->on_ready && (made_ready || outside))
            c->on_ready(c->ready_ctx);
        look_after_aside(c, &blocked, ends || is_stopping);
        const int64_t until_due_ms = wait_ms(c);
        pthread_mutex_lock(&c->mutex);
        c->busy_since_ms = 0;
        const int64_t until_aside_ms = aside_in_ms(&c->aside, clock_monotonic_ms());
        rest(c, until_due_ms < until_aside_ms ? until_due_ms : until_aside_ms);
    }
    pthread_mutex_unlock(&c->mutex);
    engine_flush(c->engine);
    last_upkeep(c);
    return NULL;
}

/* On the watcher's thread. */
static void hear(void *ctx, uint32_t notification, bool is_leader)
{
    struct committer *c = ctx;
    HOLD(&c->mutex);
    const bool is_new = is_leader != c->is_leader;
    c->is_leader = is_leader;
    c->notification |= notification;
    if (is_new || has_work(c))
        pthread_cond_broadcast(&c->wake);
}

/* Likewise. A committer that stops makes no more ticks; one whose connection hangs can make none
 * until its store times out. Then another process must be able to lead. */
static bool can_lead(void *ctx)
{
    struct committer *c = ctx;
    HOLD(&c->mutex);
    const int64_t since_ms = c->busy_since_ms;
    const bool hangs = since_ms != 0 && clock_monotonic_ms() - since_ms >= HANGS_MS;
    return !c->stopping && !hangs;
}

/* ---- The callers ----------------------------------------------------------------------------- */

void committer_submit_all(struct committer *c, struct list *ops)
{
    if (c->router) {
        router_submit_all(c->router, ops);
        return;
    }
    pthread_mutex_lock(&c->mutex);
    bool refused = c->stopping;
    LIST_FOREACH (ops, link) {
        if (refused)
            break;
        list_remove(link);
        list_insert(&c->waiting, link);
        c->n_waiting++;
    }
    if (!refused && c->n_waiting >= c->enough)
        pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    LIST_FOREACH (ops, link) {
        struct op *op = LIST_ENTRY(link, struct op, link);
        list_remove(link);
        op->code = err_set(&op->err, REDRIVE_E_STOPPING, "shutting down");
        op->done(op, op->done_ctx);
    }
}

void committer_submit(struct committer *c, struct op *op)
{
    struct list one;
    list_init(&one);
    list_insert(&one, &op->link);
    committer_submit_all(c, &one);
}

/* An operation whose answer a thread waits for. */
struct awaited {
    pthread_mutex_t mutex;
    pthread_cond_t is_there;
    bool is_answered;
};

static void note_answer(struct op *op, void *ctx)
{
    struct awaited *awaited = ctx;
    (void)op;
    HOLD(&awaited->mutex);
    awaited->is_answered = true;
    pthread_cond_signal(&awaited->is_there);
}

void committer_run_with(struct committer *c, struct list *ops, struct op *op)
{
    struct awaited awaited = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    op->done = note_answer;
    /* It stays until the answer is there. */
    /* cppcheck-suppress autoVariables */
    op->done_ctx = &awaited;
    list_insert(ops, &op->link);
    committer_submit_all(c, ops);
    pthread_mutex_lock(&awaited.mutex);
    while (!awaited.is_answered)
        pthread_cond_wait(&awaited.is_there, &awaited.mutex);
    pthread_mutex_unlock(&awaited.mutex);
    pthread_cond_destroy(&awaited.is_there);
    pthread_mutex_destroy(&awaited.mutex);
}

int committer_run(struct committer *c, struct op *op, struct redrive_err *err)
{
    struct list none;
    list_init(&none);
    committer_run_with(c, &none, op);
    if (op->code < 0 && err)
        *err = op->err;
    return op->code;
}

const struct engine *committer_engine(const struct committer *c)
{
    return c->router ? router_engine(c->router) : c->engine;
}

struct store_status *committer_store_status(const struct committer *c)
{
    return c->router ? router_store_status(c->router) : engine_store_status(c->engine);
}

size_t committer_n_shards(const struct committer *c)
{
    return c->router ? router_count(c->router) : 1;
}

size_t committer_shard_of(const struct committer *c, int64_t seq)
{
    return c->router ? shard_of_seq(seq) : 0;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void destroy(struct committer *c)
{
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->mutex);
    engine_close(c->engine);
    free(c);
}

static void begin_stop(struct committer *c)
{
    HOLD(&c->mutex);
    c->stopping = true;
    pthread_cond_broadcast(&c->wake);
}

static int watch(struct committer *c, struct store *store, struct redrive_err *err)
{
    const struct watcher_options options = {
        .store = store, .tell = hear, .can_lead = can_lead, .ctx = c};
    return watcher_start(&options, &c->watcher, err);
}

int committer_start(const struct committer_options *options, struct committer **ret,
                    struct redrive_err *err)
{
    *ret = NULL;
    struct committer *c = calloc(1, sizeof *c);
    if (!c) {
        store_close(options->watch);
        engine_close(options->engine);
        return err_nomem(err);
    }
    c->engine = options->engine;
    c->is_leader = !options->watch || watcher_leads_at_first(options->watch);
    c->on_ready = options->on_ready;
    c->ready_ctx = options->ready_ctx;
    c->no_ticks = options->no_ticks;
    c->enough = 1;
    list_init(&c->waiting);
    aside_init(&c->aside);
    engine_wait_briefly(c->engine);
    pthread_mutex_init(&c->mutex, NULL);
    thread_cond_init(&c->wake);
    int rc = options->watch ? watch(c, options->watch, err) : 0;
    if (rc == 0 && !thread_start(&c->thread, run, c)) {
        watcher_stop(c->watcher);
        rc = err_set(err, REDRIVE_E_NOMEM, "cannot start the committer's thread");
    }
    if (rc < 0) {
        destroy(c);
        return rc;
    }
    *ret = c;
    return 0;
}

struct committer *committer_of_router(struct router *router)
{
    struct committer *c = calloc(1, sizeof *c);
    if (c)
        c->router = router;
    return c;
}

void committer_end(struct committer *c)
{
    if (!c)
        return;
    begin_stop(c);
    pthread_join(c->thread, NULL);
    watcher_stop(c->watcher);
}

void committer_fail_waiting(struct committer *c, const struct redrive_err *err)
{
    struct list failed;
    list_init(&failed);
    pthread_mutex_lock(&c->mutex);
    LIST_FOREACH (&c->waiting, link) {
        list_remove(link);
        list_insert(&failed, link);
    }
    c->n_waiting = 0;
    aside_expire(&c->aside, INT64_MAX, &failed);
    pthread_mutex_unlock(&c->mutex);
    LIST_FOREACH (&failed, link) {
        struct op *op = LIST_ENTRY(link, struct op, link);
        list_remove(link);
        op->code = err->code;
        op->err = *err;
        op->done(op, op->done_ctx);
    }
}

void committer_free(struct committer *c)
{
    if (c)
        destroy(c);
}

void committer_stop(struct committer *c)
{
    if (!c)
        return;
    if (c->router) {
        router_stop(c->router);
        free(c);
        return;
    }
    committer_end(c);
    committer_free(c);
}
