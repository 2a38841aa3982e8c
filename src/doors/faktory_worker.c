#include "doors/faktory_int.h"

#include <stdlib.h>

#include "base/clock.h"
#include "doors/remote_workers.h"

/* The time that jobs and rows of workers go by. */
static int64_t jobs_now_ms(const struct faktory_server *server)
{
    return engine_now_ms(committer_engine(server->options.committer));
}

struct faktory_worker *faktory_worker_find(struct faktory_server *server, struct str tenant,
                                           struct str wid)
{
    return map_get(&server->workers, faktory_key(server, tenant, wid));
}

static struct faktory_worker *add(struct faktory_server *server, struct str tenant, struct str wid)
{
    struct faktory_worker *worker = calloc(1, sizeof *worker);
    char *copy = str_dup(wid);
    if (!worker || !copy ||
        map_put(&server->workers, faktory_key(server, tenant, wid), worker) < 0) {
        free(worker);
        free(copy);
        return NULL;
    }
    worker->tenant = tenant;
    worker->owned = copy;
    worker->wid = (struct str){copy, wid.len};
    worker->beat_ms = clock_monotonic_ms();
    list_insert(&server->worker_list, &worker->link);
    remote_workers_seen(server->options.remote, tenant, worker->wid, jobs_now_ms(server), 0);
    log_event(server->options.log, LOG_LEVEL_INFO, clock_wall_ms(), "faktory_worker_came",
              LOG_STR("worker", wid), LOG_STR("tenant", tenant));
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
    (void)map_remove(&server->workers, faktory_key(server, worker->tenant, worker->wid));
    list_remove(&worker->link);
    remote_workers_gone(server->options.remote, worker->tenant, worker->wid);
    log_event(server->options.log, LOG_LEVEL_INFO, clock_wall_ms(), "faktory_worker_left",
              LOG_STR("worker", worker->wid), LOG_STR("tenant", worker->tenant));
    free(worker->owned);
    free(worker);
}

/* running → quiet → terminate, and never back. */
void faktory_worker_beat(struct faktory_server *server, struct faktory_worker *worker,
                         struct str state, int64_t now_ms)
{
    enum faktory_state seen = str_is(state, "terminate") ? FAKTORY_TERMINATE
                              : str_is(state, "quiet")   ? FAKTORY_QUIET
                                                         : FAKTORY_RUNNING;
    worker->beat_ms = now_ms;
    remote_workers_seen(server->options.remote, worker->tenant, worker->wid, jobs_now_ms(server),
                        0);
    if (seen > worker->state)
        worker->state = seen;
}

void faktory_workers_reap(struct faktory_server *server, int64_t now_ms)
{
    LIST_FOREACH (&server->conns, link) {
        struct faktory_conn *conn = LIST_ENTRY(link, struct faktory_conn, link);
        const struct faktory_worker *worker = conn->worker;
        if (!worker || conn->is_closing ||
            now_ms - worker->beat_ms < server->options.beat_timeout_ms)
            continue;
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_worker_silent",
                  LOG_STR("worker", worker->wid), LOG_STR("tenant", worker->tenant));
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
    return conn->worker ? conn->worker->wid : STR("faktory");
}
