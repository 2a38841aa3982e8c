/* worker.c - workers by wid: their connections, beats and states. */
#include "server/faktory/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "server/remote_workers.h"

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

void faktory_name_worker(char out[FAKTORY_WORKER_NAME], struct str wid)
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
    if (worker)
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

void faktory_workers_reap(struct faktory_server *server, int64_t now_ms)
{
    LIST_FOREACH (&server->conns, link) {
        struct faktory_conn *conn = LIST_ENTRY(link, struct faktory_conn, link);
        struct faktory_worker *worker = conn->worker;
        if (!worker || conn->is_closing ||
            now_ms - worker->beat_ms < server->options.beat_timeout_ms)
            continue;
        server->n_reaped += !worker->is_reaped;
        worker->is_reaped = true;
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_worker_silent",
                  LOG_S("worker", worker->name), LOG_STR("tenant", worker->tenant));
        faktory_conn_close(conn);
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
