/* store.c - transactions, and stores that are shared by name. */
#include <stdlib.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "store/memory/private.h"

/* ---- Transactions ---------------------------------------------------------------------------- */

/* One writer at a time, on a version of its own. */

static void state_init(struct mem_state *state)
{
    *state = (struct mem_state){0};
    mem_table_init(&state->jobs, &MEM_JOB);
    mem_table_init(&state->attempts, &MEM_ATTEMPT);
    mem_table_init(&state->keys, &MEM_KEY);
    mem_table_init(&state->edges, &MEM_EDGE);
    mem_table_init(&state->shared, &MEM_SHARED);
    mem_table_init(&state->counters, &MEM_COUNTER);
}

static void state_release(struct mem_state *state)
{
    mem_table_release(&state->jobs);
    mem_table_release(&state->attempts);
    mem_table_release(&state->keys);
    mem_table_release(&state->edges);
    mem_table_release(&state->shared);
    mem_table_release(&state->counters);
}

static bool state_share(struct mem_state *to, const struct mem_state *from)
{
    state_init(to);
    to->last_seq = from->last_seq;
    to->shared_version = from->shared_version;
    return mem_table_share(&to->jobs, &from->jobs) &&
           mem_table_share(&to->attempts, &from->attempts) &&
           mem_table_share(&to->keys, &from->keys) && mem_table_share(&to->edges, &from->edges) &&
           mem_table_share(&to->shared, &from->shared) &&
           mem_table_share(&to->counters, &from->counters);
}

/* The mutex is held. False: it took too long. */
static bool take_turn(struct memory *m)
{
    const int64_t until_ms = clock_monotonic_ms() + m->busy_wait_ms;
    while (m->place->busy)
        if (!thread_cond_wait_until(&m->place->changed, &m->place->mutex, until_ms))
            return false;
    m->place->busy = true;
    return true;
}

/* The mutex is held. */
static void end_transaction(struct memory *m)
{
    m->in_transaction = false;
    m->place->busy = false;
    pthread_cond_broadcast(&m->place->changed);
}

int memory_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    if (m->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is open already");

    HOLD(&m->place->mutex);
    int rc = 0;
    if (!take_turn(m)) {
        rc = err_set(err, REDRIVE_E_IO, "the store is busy");
        err_detail(err, "another transaction was open for %lld ms", (long long)m->busy_wait_ms);
    } else if (!state_share(&m->transaction, &m->place->committed)) {
        state_release(&m->transaction);
        end_transaction(m);
        rc = err_nomem(err);
    } else {
        m->in_transaction = true;
        m->now_ms = now_ms;
        m->seen_commits = m->place->commits;
        *ret_now_ms = now_ms;
        *ret_shared_version = m->transaction.shared_version;
    }
    return rc;
}

int64_t memory_set_time(struct store *store, int64_t now_ms)
{
    struct memory *m = memory_of(store);
    if (m->in_transaction)
        m->now_ms = now_ms;
    return now_ms;
}

int memory_commit(struct store *store, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    if (rc < 0)
        return rc;
    HOLD(&m->place->mutex);
    state_release(&m->place->committed);
    m->place->committed = m->transaction;
    m->seen_commits = ++m->place->commits;
    end_transaction(m);
    return 0;
}

void memory_rollback(struct store *store)
{
    struct memory *m = memory_of(store);
    if (!m->in_transaction)
        return;
    HOLD(&m->place->mutex);
    state_release(&m->transaction);
    end_transaction(m);
}

int memory_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    if (m->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is open: waiting would be for ever");
    const int64_t until_ms = clock_monotonic_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    HOLD(&m->place->mutex);
    while (m->seen_commits == m->place->commits)
        if (!thread_cond_wait_until(&m->place->changed, &m->place->mutex, until_ms))
            break;
    if (ret_notification)
        *ret_notification = m->seen_commits == m->place->commits ? 0 : STORE_NOTIFY_ALL;
    m->seen_commits = m->place->commits;
    return 0;
}

int memory_need_transaction(const struct memory *m, struct redrive_err *err)
{
    return m->in_transaction ? 0 : err_set(err, REDRIVE_E_STATE, "there is no open transaction");
}

/* A row that was changed is another one: the committed one stays as it was. No other handle commits
 * while this transaction is open. */
bool memory_is_moved(const struct memory *m, const struct job *job)
{
    const struct mem_state *committed = &m->place->committed;
    size_t i;
    return !memory_seek(committed, job->status.seq, &i) || job_at(committed, i) != job;
}

const struct mem_state *memory_look(struct memory *m)
{
    if (m->in_transaction)
        return &m->transaction;
    pthread_mutex_lock(&m->place->mutex);
    return &m->place->committed;
}

void memory_unlook(struct memory *m)
{
    if (!m->in_transaction)
        pthread_mutex_unlock(&m->place->mutex);
}

/* ---- Opening --------------------------------------------------------------------------------- */

#define DEFAULT_BUSY_WAIT_MS 5000

/* Places that have a name, for the next handle that asks for it. */
static pthread_mutex_t places_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mem_place *places;

static void place_free(struct mem_place *place)
{
    if (!place)
        return;
    state_release(&place->committed);
    pthread_cond_destroy(&place->changed);
    pthread_mutex_destroy(&place->mutex);
    free(place->name);
    free(place);
}

static struct mem_place *place_new(struct str name)
{
    struct mem_place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    state_init(&place->committed);
    pthread_mutex_init(&place->mutex, NULL);
    thread_cond_init(&place->changed);
    if (name.len == 0)
        return place;

    place->name = str_dup(name);
    if (!place->name) {
        place_free(place);
        return NULL;
    }
    place->next = places;
    places = place;
    return place;
}

/* The mutex of places is held. */
static struct mem_place *place_find(struct str name)
{
    for (struct mem_place *place = places; place; place = place->next)
        if (str_is(name, place->name))
            return place;
    return NULL;
}

static int place_enter(struct str name, bool create, struct mem_place **ret,
                       struct redrive_err *err)
{
    pthread_mutex_lock(&places_mutex);
    int rc = 0;
    struct mem_place *place = name.len > 0 ? place_find(name) : NULL;
    if (!place && !create) {
        rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is nothing in memory:%.*s", (int)name.len,
                     name.ptr);
        err_detail(err, "memory is empty until a process sets a store up in it");
    } else if (!place) {
        place = place_new(name);
        if (!place)
            rc = err_nomem(err);
    }
    if (place)
        place->handles++;
    pthread_mutex_unlock(&places_mutex);
    *ret = place;
    return rc;
}

static void place_leave(struct mem_place *place)
{
    pthread_mutex_lock(&places_mutex);
    bool last = --place->handles == 0;
    for (struct mem_place **at = &places; last && *at; at = &(*at)->next) {
        if (*at == place) {
            *at = place->next;
            break;
        }
    }
    pthread_mutex_unlock(&places_mutex);
    if (last)
        place_free(place);
}

int memory_open(struct str place, const struct store_options *options, struct store **ret,
                struct redrive_err *err)
{
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return err_nomem(err);
    m->base = (struct store_base){.ops = &STORE_MEMORY, .durability = STORE_FORGETS};
    m->busy_wait_ms = options->busy_wait_ms > 0 ? options->busy_wait_ms : DEFAULT_BUSY_WAIT_MS;
    /* Memory without a name is new for every handle, also for one that only looks. */
    const bool create = options->create || (options->as_is && place.len == 0);
    int rc = place_enter(place, create, &m->place, err);
    if (rc < 0) {
        free(m);
        return rc;
    }
    *ret = (struct store *)(void *)m;
    return 0;
}

void memory_close(struct store *store)
{
    if (!store)
        return;
    struct memory *m = memory_of(store);
    memory_rollback(store);
    place_leave(m->place);
    free(m->turn);
    free(m);
}

int memory_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    (void)store;
    (void)err;
    *ret = (struct store_facts){.version_found = 1, .version_newest = 1};
    return 0;
}

int memory_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                  struct redrive_err *err)
{
    (void)store;
    (void)err;
    if (progress)
        progress(ctx);
    return 0;
}

const struct store_ops STORE_MEMORY = {
    STORE_SLOTS(memory),

    .capabilities = STORE_NOTIFIES,
    .backup_hint = "it ends with its process; a store that is to last is a file: sqlite:FILE",
};
