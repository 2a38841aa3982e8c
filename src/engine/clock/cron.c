#include "engine/clock/cron.h"

#include <stdio.h>

#include "base/err.h"
#include "core/cron/cron.h"
#include "engine/private.h"
#include "engine/verbs/submit.h"

/* ---- The job --------------------------------------------------------------------------------- */

/* What became of a tick: a new job, or none because of the one that is named, or a refusal. */
struct made {
    bool is_new;
    struct redrive_err refusal; /* its code is 0: none */
    char id[CRON_ID_MAX];
    enum redrive_state state;
};

static int submit_tick(struct engine *e, const struct cron_entry *slot, const char *unique_key,
                       const char *limit_key, struct made *ret, struct redrive_err *err)
{
    const struct config_cron *entry = cron_entry_config(slot);
    const struct job_spec spec = {
        .tenant = str_of(slot->tenant),
        .task = str_of(entry->task),
        .payload = str_of(entry->payload),
        .unique_key = str_of(unique_key),
        .limit_key = str_of(limit_key),
    };
    struct submit_op op;
    int rc = submit_op_init(&op, e, &spec, 1, err);
    if (rc < 0)
        return rc;
    rc = op.op.apply(e, &op.op, err);
    const struct submit_answer *a = &op.answers[0];
    ret->is_new = rc == 0 && a->code == 0 && !a->existed;
    ret->state = a->state;
    if (a->code < 0)
        ret->refusal = *a->err;
    (void)str_copy(ret->id, sizeof ret->id, a->id);
    submit_op_release(&op);
    return rc;
}

static int find_waiting(struct engine *e, const struct cron_entry *slot, const char *unique_key,
                        bool *ret_found, struct made *ret, struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = str_of(slot->tenant),
        .unique_key = str_of(unique_key),
        .states = 1u << REDRIVE_STATE_QUEUED | 1u << REDRIVE_STATE_PARKED |
                  1u << REDRIVE_STATE_SCHEDULED | 1u << REDRIVE_STATE_RETRYING,
        .limit = 1,
    };
    struct job_page page = {0};
    int rc = e->ops->list(e->store, &filter, &page, err);
    *ret_found = page.n > 0;
    if (page.n > 0) {
        ret->state = page.jobs[0].status.state;
        (void)str_copy(ret->id, sizeof ret->id, page.jobs[0].spec.id);
    }
    job_page_release(&page);
    return rc;
}

/* One runs and one waits: two keys are enough for the two. */
static int queue_one(struct engine *e, const struct cron_entry *slot, const char *key,
                     struct made *ret, struct redrive_err *err)
{
    char other[300], limit[300];
    bool waits = false;
    (void)snprintf(other, sizeof other, "%s:next", key);
    (void)snprintf(limit, sizeof limit, "limit:%s", key);
    int rc = find_waiting(e, slot, key, &waits, ret, err);
    if (rc == 0 && !waits)
        rc = find_waiting(e, slot, other, &waits, ret, err);
    if (rc < 0 || waits)
        return rc;
    rc = submit_tick(e, slot, key, limit, ret, err);
    if (rc == 0 && !ret->is_new)
        rc = submit_tick(e, slot, other, limit, ret, err);
    return rc;
}

static int make_job(struct engine *e, const struct cron_entry *slot, struct made *ret,
                    struct redrive_err *err)
{
    char key[270];
    *ret = (struct made){0};
    (void)snprintf(key, sizeof key, "cron:%.240s", slot->name);
    switch (cron_entry_config(slot)->overlap) {
    case CONFIG_OVERLAP_SKIP: return submit_tick(e, slot, key, NULL, ret, err);
    case CONFIG_OVERLAP_QUEUE_ONE: return queue_one(e, slot, key, ret, err);
    case CONFIG_OVERLAP_ALLOW:
    default: return submit_tick(e, slot, NULL, NULL, ret, err);
    }
}

/* ---- The ticks ------------------------------------------------------------------------------- */

/* The last tick after `after_ms` and not later than now; 0: there is none. Looks back in steps that
 * grow, so that a year of missed minutes is not walked through. */
static int64_t last_tick(const struct config_cron *entry, int64_t after_ms, int64_t now_ms)
{
    static const int64_t STEPS_MS[] = {INT64_C(60000), INT64_C(3600000), INT64_C(86400000),
                                       INT64_C(2678400000), INT64_MAX};
    int64_t found = 0;
    for (size_t i = 0; i < sizeof STEPS_MS / sizeof STEPS_MS[0] && found == 0; i++) {
        bool is_far = STEPS_MS[i] >= now_ms - after_ms;
        int64_t from = is_far ? after_ms : now_ms - STEPS_MS[i];
        int64_t at;
        while (cron_next(&entry->cron, entry->tz, from, &at) == 0 && at <= now_ms)
            found = from = at;
        if (is_far)
            break;
    }
    return found;
}

/* Nobody waits for an answer: that a tick was for nothing is told in the log. */
static void log_refusal(const struct engine *e, const struct cron_entry *slot,
                        const struct redrive_err *why)
{
    log_event(e->options.log, LOG_LEVEL_WARNING, engine_now_ms(e), "cron_tick_refused",
              LOG_S("cron", slot->name), LOG_S("tenant", slot->tenant),
              LOG_S("error", why->message), LOG_S("detail", why->detail));
}

/* The time of the next tick has come, or the entry is seen for the first time. */
static int tick_slot(struct engine *e, struct cron_entry *slot, struct redrive_err *err)
{
    const struct config_cron *entry = cron_entry_config(slot);
    const bool is_new = slot->version == 0;
    struct made made;
    bool won;
    int64_t at_ms = is_new ? e->now_ms : last_tick(entry, slot->last_ms, e->now_ms);
    int rc = cron_entries_mark(e, slot, at_ms, &won, err);
    if (rc == 0 && won && !is_new) {
        rc = make_job(e, slot, &made, err);
        if (rc == 0 && made.refusal.code < 0)
            log_refusal(e, slot, &made.refusal);
    }
    /* Whoever was faster has moved the mark; the next transaction sees it. */
    if (rc == 0 && !won && cron_next(&entry->cron, entry->tz, e->now_ms, &at_ms) == 0)
        engine_want_own(e, at_ms);
    return rc;
}

int cron_ticks(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < e->cron_entries.n && rc == 0; i++) {
        struct cron_entry *slot = &e->cron_entries.slots[i];
        if (slot->next_ms > e->now_ms) {
            engine_want_own(e, slot->next_ms);
            continue;
        }
        rc = tick_slot(e, slot, err);
        if (slot->next_ms > e->now_ms)
            engine_want_own(e, slot->next_ms);
    }
    return rc;
}

/* ---- By hand --------------------------------------------------------------------------------- */

static int apply_by_hand(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct cron_op *op = (struct cron_op *)base;
    const struct cron_entry *slot = cron_entries_find(&e->cron_entries, op->tenant, op->name);
    struct made made;
    if (!slot || !cron_entry_config(slot)) {
        base->code = err_set(&base->err, REDRIVE_E_NOT_FOUND, "there is no periodic task '%.*s'",
                             (int)op->name.len, op->name.ptr);
        return 0;
    }
    int rc = make_job(e, slot, &made, err);
    if (rc < 0)
        return rc;
    op->state = made.state;
    (void)str_copy(op->id, sizeof op->id, str_of(made.id));
    if (made.is_new)
        return 0;
    if (made.refusal.code < 0) {
        base->err = made.refusal;
        base->code = made.refusal.code;
        return 0;
    }
    base->code =
        err_set(&base->err, REDRIVE_E_STATE, "'%s' has a job that has not ended", slot->name);
    err_detail(&base->err, "job %s is %s", made.id, redrive_state_name(made.state));
    return 0;
}

void cron_op_init(struct cron_op *op, struct str tenant, struct str name)
{
    *op = (struct cron_op){
        .op = {.apply = apply_by_hand, .weight = 1}, .tenant = tenant, .name = name};
}
