/* server.c - one look at a server, for `redrive top`. */
#include "cli/commands/top/view.h"

#include "cli/remote/figures.h"
#include "cli/remote/jobs.h"

/* The server has counted everything; the look takes over the memory that the figures live in, as
 * that of its partitions. A queue without jobs, which is paused, is not drawn. */
static void take_figures(struct top_look *look, struct stats *stats)
{
    size_t n = 0;
    count_page_release(&look->partitions);
    worker_page_release(&look->workers);
    for (size_t i = 0; i < stats->queues.n; i++) {
        uint64_t jobs = 0;
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            jobs += stats->queues.counts[i].by_state[state];
        if (jobs > 0)
            stats->queues.counts[n++] = stats->queues.counts[i];
    }
    look->partitions.counts = stats->queues.counts;
    look->partitions.n = n;
    look->partitions.arena = stats->arena;
    look->workers.workers = stats->workers.workers;
    look->workers.n = stats->workers.n;
    look->health = stats->health;
    top_count(look, (double)stats->counts[ENGINE_EVENT_COMPLETED],
              (double)stats->counts[ENGINE_EVENT_RETRYING],
              (double)(stats->counts[ENGINE_EVENT_DEAD] + stats->counts[ENGINE_EVENT_FAILED]));
    *stats = (struct stats){0};
}

static int look_at_dead(struct top_look *look, struct remote *remote, struct redrive_err *err)
{
    struct buf query;
    struct str next;
    job_page_release(&look->dead);
    buf_init(&query, REMOTE_PATH_MAX);
    buf_puts(&query, "/jobs?state=dead_letter&order=finished");
    int rc = remote_jobs(remote, &query, TOP_DEAD_LETTERS, NULL, &look->dead, &next, err);
    buf_release(&query);
    return rc;
}

int top_look_at_server(struct top_look *look, struct remote *remote, struct redrive_err *err)
{
    struct http_answer document;
    struct stats stats = {0};
    http_answer_init(&document);
    look->at_ms = remote_now_ms(remote);
    int rc = remote_stats(remote, &document, &stats, err);
    if (rc == 0)
        take_figures(look, &stats);
    if (rc == 0)
        rc = remote_breakers(remote, &look->breakers, err);
    if (rc == 0)
        rc = look_at_dead(look, remote, err);
    stats_release(&stats);
    http_answer_release(&document);
    return rc;
}
