/* transaction.c - transactions: one writer at a time, on a version of its own. */
#include "store/memory/private.h"

#include <time.h>

#include "base/err.h"

void mem_state_init(struct mem_state *state)
{
    *state = (struct mem_state){0};
    mem_table_init(&state->jobs, &MEM_JOB);
    mem_table_init(&state->attempts, &MEM_ATTEMPT);
    mem_table_init(&state->keys, &MEM_KEY);
    mem_table_init(&state->shared, &MEM_SHARED);
    mem_table_init(&state->counters, &MEM_COUNTER);
}

void mem_state_release(struct mem_state *state)
{
    mem_table_release(&state->jobs);
    mem_table_release(&state->attempts);
    mem_table_release(&state->keys);
    mem_table_release(&state->shared);
    mem_table_release(&state->counters);
}

static bool state_share(struct mem_state *to, const struct mem_state *from)
{
    mem_state_init(to);
    to->last_seq = from->last_seq;
    to->shared_version = from->shared_version;
    return mem_table_share(&to->jobs, &from->jobs) &&
           mem_table_share(&to->attempts, &from->attempts) &&
           mem_table_share(&to->keys, &from->keys) && mem_table_share(&to->shared, &from->shared) &&
           mem_table_share(&to->counters, &from->counters);
}

static struct timespec clock_after(int64_t ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* The mutex is held. False: it took too long. */
static bool take_turn(struct memory *m)
{
    struct timespec until = clock_after(m->busy_wait_ms);
    while (m->place->busy)
        if (pthread_cond_timedwait(&m->place->changed, &m->place->mutex, &until) != 0)
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

    pthread_mutex_lock(&m->place->mutex);
    int rc = 0;
    if (!take_turn(m)) {
        rc = err_set(err, REDRIVE_E_IO, "the store is busy");
        err_detail(err, "another transaction was open for %lld ms", (long long)m->busy_wait_ms);
    } else if (!state_share(&m->transaction, &m->place->committed)) {
        mem_state_release(&m->transaction);
        end_transaction(m);
        rc = err_nomem(err);
    } else {
        m->in_transaction = true;
        m->now_ms = now_ms;
        m->seen_commits = m->place->commits;
        *ret_now_ms = now_ms;
        *ret_shared_version = m->transaction.shared_version;
    }
    pthread_mutex_unlock(&m->place->mutex);
    return rc;
}

int memory_commit(struct store *store, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&m->place->mutex);
    mem_state_release(&m->place->committed);
    m->place->committed = m->transaction;
    m->seen_commits = ++m->place->commits;
    end_transaction(m);
    pthread_mutex_unlock(&m->place->mutex);
    return 0;
}

void memory_rollback(struct store *store)
{
    struct memory *m = memory_of(store);
    if (!m->in_transaction)
        return;
    pthread_mutex_lock(&m->place->mutex);
    mem_state_release(&m->transaction);
    end_transaction(m);
    pthread_mutex_unlock(&m->place->mutex);
}

int memory_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    if (m->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is open: waiting would be for ever");
    struct timespec until = clock_after(timeout_ms > 0 ? timeout_ms : 0);
    pthread_mutex_lock(&m->place->mutex);
    while (m->seen_commits == m->place->commits)
        if (pthread_cond_timedwait(&m->place->changed, &m->place->mutex, &until) != 0)
            break;
    if (ret_notification)
        *ret_notification = m->seen_commits == m->place->commits ? 0 : STORE_NOTIFY_ALL;
    m->seen_commits = m->place->commits;
    pthread_mutex_unlock(&m->place->mutex);
    return 0;
}

int memory_need_transaction(const struct memory *m, struct redrive_err *err)
{
    return m->in_transaction ? 0 : err_set(err, REDRIVE_E_STATE, "there is no open transaction");
}

/* A row that was changed is another one: the committed one stays as it was. Nobody else commits
 * while this transaction is open. */
bool memory_is_moved(const struct memory *m, const struct job *job)
{
    const struct mem_state *committed = &m->place->committed;
    size_t i;
    return !memory_find(committed, job->status.seq, &i) || job_at(committed, i) != job;
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
