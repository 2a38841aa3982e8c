#include "engine/retention.h"

#include "engine/private.h"
#include "engine/worker_row.h"

#define BATCH    500
#define EVERY_MS (60 * 1000)
#define DAY_MS   (INT64_C(24) * 3600 * 1000)

#define IN(state) (1u << REDRIVE_STATE_##state)

struct sweep {
    struct engine *e;
    bool more; /* a batch was full */
};

static int sweep_states(struct sweep *s, uint32_t states, int64_t kept_ms, struct redrive_err *err)
{
    size_t removed = 0;
    int64_t before_ms = s->e->now_ms - kept_ms;
    if (before_ms <= 0)
        return 0;
    int rc = s->e->ops->sweep(s->e->store, states, before_ms, BATCH, &removed, err);
    s->e->touched |= rc == 0 && removed > 0;
    s->more |= removed == BATCH;
    return rc;
}

static int sweep_task(struct sweep *s, const struct config_task *task, struct redrive_err *err)
{
    const struct job_filter filter = {
        .task = str_of(task->name),
        .states = IN(DEAD_LETTER) | IN(FAILED),
        .finished_before_ms = s->e->now_ms - task->retry.dlq_retention_days * DAY_MS,
        .limit = BATCH,
    };
    struct job_page page = {0};
    if (filter.finished_before_ms <= 0)
        return 0;
    int rc = s->e->ops->list(s->e->store, &filter, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct change_move move = {.seq = page.jobs[i].status.seq, .kind = CHANGE_REMOVE};
        struct move_result result;
        rc = s->e->ops->change(s->e->store, &move, 1, &result, err);
        s->e->touched = true;
    }
    s->more |= page.more;
    job_page_release(&page);
    return rc;
}

static int sweep_dead(struct sweep *s, struct redrive_err *err)
{
    const struct config *config = s->e->options.config;
    int32_t longest = engine_task(s->e, (struct str){0})->retry.dlq_retention_days;
    int rc = 0;
    for (size_t i = 0; config && i < config->n_tasks; i++)
        if (config->tasks[i].retry.dlq_retention_days > longest)
            longest = config->tasks[i].retry.dlq_retention_days;
    for (size_t i = 0; config && i < config->n_tasks && rc == 0; i++)
        if (config->tasks[i].retry.dlq_retention_days < longest)
            rc = sweep_task(s, &config->tasks[i], err);
    return rc < 0 ? rc : sweep_states(s, IN(DEAD_LETTER) | IN(FAILED), longest * DAY_MS, err);
}

int retention_sweep(struct engine *e, struct redrive_err *err)
{
    const struct config *config = e->options.config;
    struct sweep s = {.e = e};
    if (e->now_ms >= e->sweep_ms) {
        int64_t completed_ms = config ? config->retention.completed_ms : DAY_MS;
        int64_t cancelled_ms = config ? config->retention.cancelled_ms : DAY_MS;
        int rc = sweep_states(&s, IN(COMPLETED), completed_ms, err);
        if (rc == 0)
            rc = sweep_states(&s, IN(CANCELLED), cancelled_ms, err);
        if (rc == 0)
            rc = sweep_dead(&s, err);
        if (rc == 0)
            rc = workers_sweep(e, err);
        if (rc < 0)
            return rc;
        e->sweep_ms = s.more ? e->now_ms : e->now_ms + EVERY_MS;
    }
    engine_want(e, e->sweep_ms);
    return 0;
}
