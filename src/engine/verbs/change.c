#include "engine/verbs/change.h"

#include "base/json/json.h"
#include "engine/private.h"
#include "engine/verbs/settle.h"

static void tell(struct engine *e, const struct job *job, enum move_kind kind)
{
    struct engine_event event;
    e->touched = true;
    if (kind == MOVE_REDRIVE || kind == MOVE_RUN_NOW)
        engine_made_some_ready(e);
    switch (kind) {
    case MOVE_CANCEL: event = event_of(e, ENGINE_EVENT_CANCELLED, job); break;
    case MOVE_REDRIVE: event = event_of(e, ENGINE_EVENT_REDRIVEN, job); break;
    case MOVE_END:
        event = event_of(e, ENGINE_EVENT_DEAD, job);
        event.reason = REDRIVE_REASON_MANUAL;
        break;
    case MOVE_RUN_NOW:
    case MOVE_REMOVE:
    case MOVE_EDIT:
    default: return;
    }
    event_add(e, &event);
}

int change_job(struct engine *e, enum move_kind kind, const struct job *job,
               struct change_item *item, struct redrive_err *err)
{
    const struct change_move move = {
        .seq = job->status.seq,
        .kind = kind,
        .to = REDRIVE_STATE_DEAD_LETTER,
        .reason = REDRIVE_REASON_MANUAL,
        .payload = item->payload,
        /* A run that is cancelled gives back what it holds. */
        .seen = kind == MOVE_CANCEL ? &job->status : NULL,
    };
    /* It would die again at the next tick. */
    if (kind == MOVE_REDRIVE && job->spec.deadline_ms != 0 && job->spec.deadline_ms <= e->now_ms) {
        item->ret = (struct move_result){REDRIVE_E_DEADLINE, job->status.state};
        return 0;
    }
    int rc = e->ops->move(e->store, CHANGES(&move, 1), &item->ret, err);
    if (rc < 0 || item->ret.code < 0)
        return rc;
    tell(e, job, kind);
    /* The run goes on until its worker hears of it, but nobody waits for its result. */
    if (kind == MOVE_CANCEL && job->status.state == REDRIVE_STATE_RUNNING)
        return settle_gates(e, job, BREAKER_RETURNED, err);
    return 0;
}

static int change_one(struct engine *e, enum move_kind kind, struct change_item *item,
                      struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = e->options.payload_max_bytes};
    item->ret = (struct move_result){0};
    if (kind == MOVE_EDIT) {
        item->ret.code = json_check(item->payload, &limits, NULL);
        if (item->ret.code < 0)
            return 0;
    }
    struct job_page page = {0};
    int rc = engine_find(e, item->tenant, item->id, item->seq, &page, err);
    if (rc == 0)
        item->ret.code = REDRIVE_E_NOT_FOUND;
    else if (rc > 0)
        rc = change_job(e, kind, &page.jobs[0], item, err);
    job_page_release(&page);
    return rc;
}

static int apply_change(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct change_op *op = (struct change_op *)base;
    int rc = 0;
    for (size_t i = 0; i < op->n && rc == 0; i++)
        rc = change_one(e, op->kind, &op->items[i], err);
    return rc;
}

void change_op_init(struct change_op *op, enum move_kind kind, struct change_item *items, size_t n)
{
    *op = (struct change_op){
        .op = {.apply = apply_change, .weight = n}, .kind = kind, .items = items, .n = n};
}
