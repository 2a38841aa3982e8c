/* worker.c - workers by wid: connections, beats, states, the drain, and the leases of jobs. */
#include "server/faktory/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "server/remote_workers.h"

/* ---- Draining -------------------------------------------------------------------------------- */

/* Workers are asked to exit, and may settle until then.
 *
 * BEAT answers `quiet` first and `terminate` the next time. The server has drained when no worker
 * is connected any more, or when the time is over.
 */

void faktory_server_quiet(struct faktory_server *server)
{
    if (server->state < FAKTORY_QUIET)
        server->state = FAKTORY_QUIET;
}

void faktory_server_terminate(struct faktory_server *server)
{
    server->state = FAKTORY_TERMINATE;
}

/* On the loop, never within the call of one that asks. */
static void on_drained(uv_timer_t *timer)
{
    struct faktory_server *server = timer->data;
    void (*drained)(void *ctx) = server->drained;
    server->drained = NULL;
    if (drained)
        drained(server->drained_ctx);
}

void faktory_server_drain(struct faktory_server *server, int64_t grace_ms,
                          void (*drained)(void *ctx), void *ctx)
{
    faktory_server_quiet(server);
    server->is_draining = true;
    server->drained = drained;
    server->drained_ctx = ctx;
    const bool waits = grace_ms > 0 && !list_empty(&server->worker_list);
    (void)uv_timer_start(&server->drain_timer, on_drained, waits ? (uint64_t)grace_ms : 0, 0);
}

/* A worker has left. */
static void faktory_drain_look(struct faktory_server *server)
{
    if (server->drained && list_empty(&server->worker_list) && !server->is_closing_handles)
        (void)uv_timer_start(&server->drain_timer, on_drained, 0, 0);
}

enum faktory_state faktory_drain_state(const struct faktory_server *server,
                                       struct faktory_worker *worker)
{
    enum faktory_state state = worker->state > server->state ? worker->state : server->state;
    if (!server->is_draining || state != FAKTORY_QUIET)
        return state;
    if (worker->has_heard_quiet)
        return FAKTORY_TERMINATE;
    worker->has_heard_quiet = true;
    return FAKTORY_QUIET;
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* The clock of jobs and of workers' rows. */
static int64_t jobs_now_ms(const struct faktory_server *server)
{
    return engine_now_ms(committer_engine(server->options.committer));
}

struct faktory_worker *faktory_worker_find(struct faktory_server *server, struct str tenant,
                                           struct str wid)
{
    return map_get(&server->workers, faktory_key(server, tenant, wid));
}

/* What the worker with this wid is called in leases. */
static void faktory_name_worker(char out[FAKTORY_WORKER_NAME], struct str wid)
{
    (void)snprintf(out, FAKTORY_WORKER_NAME, NAME_FAKTORY_WORKER "%.*s", (int)wid.len, wid.ptr);
}

static struct faktory_worker *add(struct faktory_server *server, struct str tenant, struct str wid)
{
    struct faktory_worker *worker = calloc(1, sizeof *worker);
    if (!worker || !str_copy(worker->wid, sizeof worker->wid, wid) ||
        map_put(&server->workers, faktory_key(server, tenant, wid), worker) < 0) {
        free(worker);
        return NULL;
    }
    worker->tenant = tenant;
    faktory_name_worker(worker->name, wid);
    worker->beat_ms = clock_monotonic_ms();
    list_insert(&server->worker_list, &worker->link);
    remote_workers_seen(server->options.remote, tenant, str_of(worker->name), jobs_now_ms(server),
                        0);
    log_event(server->options.log, LOG_LEVEL_INFO, clock_wall_ms(), "faktory_worker_came",
              LOG_S("worker", worker->name), LOG_STR("tenant", tenant));
    return worker;
}

struct faktory_worker *faktory_worker_enter(struct faktory_server *server, struct str tenant,
                                            struct str wid)
{
    struct faktory_worker *worker = faktory_worker_find(server, tenant, wid);
    if (!worker)
        worker = add(server, tenant, wid);
    if (!worker)
        return NULL;
    if (worker->is_reaped) { /* it is back before all of its former connections have gone */
        worker->is_reaped = false;
        worker->beat_ms = clock_monotonic_ms();
    }
    worker->n_conns++;
    return worker;
}

void faktory_worker_leave(struct faktory_server *server, struct faktory_worker *worker)
{
    if (!worker || --worker->n_conns > 0)
        return;
    (void)map_remove(&server->workers, faktory_key(server, worker->tenant, str_of(worker->wid)));
    list_remove(&worker->link);
    remote_workers_gone(server->options.remote, worker->tenant, str_of(worker->name));
    log_event(server->options.log, LOG_LEVEL_INFO, clock_wall_ms(), "faktory_worker_left",
              LOG_S("worker", worker->name), LOG_STR("tenant", worker->tenant));
    free(worker);
    faktory_drain_look(server);
}

/* running → quiet → terminate, and never back. */
void faktory_worker_beat(struct faktory_server *server, struct faktory_worker *worker,
                         struct str state, int64_t now_ms)
{
    enum faktory_state seen = str_is(state, "terminate") ? FAKTORY_TERMINATE
                              : str_is(state, "quiet")   ? FAKTORY_QUIET
                                                         : FAKTORY_RUNNING;
    worker->beat_ms = now_ms;
    remote_workers_seen(server->options.remote, worker->tenant, str_of(worker->name),
                        jobs_now_ms(server), 0);
    if (seen > worker->state)
        worker->state = seen;
}

/* Commands that wait are answered, and what has an answer is sent before the end: it may be a job.
 */
void faktory_workers_reap(struct faktory_server *server, int64_t now_ms)
{
    LIST_FOREACH (&server->conns, link) {
        struct faktory_conn *conn = LIST_ENTRY(link, struct faktory_conn, link);
        struct faktory_worker *worker = conn->worker;
        if (!worker || conn->is_ending ||
            now_ms - worker->beat_ms < server->options.beat_timeout_ms)
            continue;
        server->n_reaped += !worker->is_reaped;
        worker->is_reaped = true;
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_worker_silent",
                  LOG_S("worker", worker->name), LOG_STR("tenant", worker->tenant));
        conn->has_left = true; /* a job that is on its way to it is given back */
        faktory_conn_end(conn);
    }
}

enum faktory_state faktory_state_of(const struct faktory_conn *conn)
{
    enum faktory_state own = conn->worker ? conn->worker->state : FAKTORY_RUNNING;
    return own > conn->server->state ? own : conn->server->state;
}

struct str faktory_worker_name(const struct faktory_conn *conn)
{
    return str_of(conn->worker ? conn->worker->name : conn->name);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

/* Of jobs that were handed out here, so that an ACK need not look for its job in the store. */

/* When there are more, all are forgotten, and the store is asked instead. */
#define HELD_MAX 65536

struct held_job {
    int64_t seq;
    uint64_t token;
    size_t worker_len;
    char worker[];
};

void faktory_held_release(struct faktory_server *server)
{
    MAP_FOREACH (&server->held, slot)
        free(slot->value);
    const uint64_t seed = server->held.seed;
    map_release(&server->held);
    map_init(&server->held, seed);
}

void faktory_held_add(struct faktory_server *server, const struct job *job)
{
    const struct str worker = job->status.worker;
    struct held_job *held = malloc(sizeof *held + worker.len);
    if (!held)
        return;
    held->seq = job->status.seq;
    held->token = job->status.token;
    held->worker_len = worker.len;
    memcpy(held->worker, worker.ptr, worker.len);
    if (server->held.count >= HELD_MAX)
        faktory_held_release(server);
    const struct str key = faktory_key(server, job->spec.tenant, job->spec.id);
    free(map_get(&server->held, key));
    if (map_put(&server->held, key, held) < 0) {
        (void)map_remove(&server->held, key);
        free(held);
    }
}

bool faktory_held_take(struct faktory_server *server, struct str tenant, struct str jid,
                       struct str worker, int64_t *ret_seq, uint64_t *ret_token)
{
    const struct str key = faktory_key(server, tenant, jid);
    struct held_job *held = map_get(&server->held, key);
    if (!held || !str_eq((struct str){held->worker, held->worker_len}, worker))
        return false;
    *ret_seq = held->seq;
    *ret_token = held->token;
    (void)map_remove(&server->held, key);
    free(held);
    return true;
}
