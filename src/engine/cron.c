#include "engine/cron.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "core/cron.h"
#include "engine/private.h"
#include "engine/submit.h"

#define ROW_MAX_BYTES (64u * 1024)

/* ---- The row --------------------------------------------------------------------------------- */

bool cron_row_last(struct str json, int64_t *ret)
{
    struct json_reader r;
    struct json_string key;
    bool found = false;
    json_reader_init(&r, json, NULL);
    if (json_enter_object(&r) == 0) {
        while (json_next_key(&r, &key) > 0) {
            if (json_string_is(key, "last_tick_ms"))
                found = json_read_int(&r, ret) == 0;
            else if (json_skip(&r, NULL) < 0)
                break;
        }
    }
    json_reader_release(&r);
    return found;
}

static int write_row(const struct config_cron *entry, int64_t last_ms, struct buf *out,
                     struct redrive_err *err)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "task", entry->task);
    json_field_cstr(&w, "schedule", entry->schedule);
    json_field_cstr(&w, "timezone", entry->timezone);
    json_field_int(&w, "last_tick_ms", last_ms);
    json_end_object(&w);
    return buf_failed(out) ? err_nomem(err) : 0;
}

static size_t n_entries(const struct engine *e)
{
    return e->options.config ? e->options.config->n_cron : 0;
}

int cron_load(struct engine *e, struct redrive_err *err)
{
    struct shared_page page = {0};
    if (n_entries(e) == 0)
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_CRON, STR(ENGINE_TENANT_DEFAULT), &page, err);
    for (size_t i = 0; i < n_entries(e) && rc == 0; i++) {
        e->cron[i] = (struct cron_mark){0};
        for (size_t j = 0; j < page.n && rc == 0; j++) {
            if (!str_is(page.rows[j].key, e->options.config->cron[i].name))
                continue;
            e->cron[i].version = page.rows[j].version;
            if (!cron_row_last(page.rows[j].value, &e->cron[i].last_ms))
                rc = err_set(err, REDRIVE_E_CORRUPT, "the row of the periodic task '%s' is damaged",
                             e->options.config->cron[i].name);
        }
    }
    shared_page_release(&page);
    return rc;
}

/* Moves the mark. 0 in `ret_won`: another process has done it. */
static int move_mark(struct engine *e, size_t i, int64_t last_ms, bool *ret_won,
                     struct redrive_err *err)
{
    const struct config_cron *entry = &e->options.config->cron[i];
    struct move_result result = {0};
    struct buf value;
    buf_init(&value, ROW_MAX_BYTES);
    int rc = write_row(entry, last_ms, &value, err);
    if (rc == 0) {
        const struct shared_row row = {
            .kind = SHARED_CRON,
            .tenant = STR(ENGINE_TENANT_DEFAULT),
            .key = str_of(entry->name),
            .value = buf_str(&value),
            .version = e->cron[i].version,
        };
        rc = e->ops->shared_put(e->store, &row, 1, &result, err);
    }
    buf_release(&value);
    *ret_won = rc == 0 && result.code == 0;
    if (*ret_won) {
        e->cron[i] = (struct cron_mark){.version = e->cron[i].version + 1, .last_ms = last_ms};
        e->puts++;
        e->touched = true;
    }
    return rc;
}

/* ---- The job --------------------------------------------------------------------------------- */

/* What became of a tick: a new job, or none because of the one that is named, or a refusal. */
struct made {
    bool is_new;
    struct redrive_err refusal; /* its code is 0: none */
    char id[CRON_ID_MAX];
    enum redrive_state state;
};

static int submit_tick(struct engine *e, const struct config_cron *entry, const char *unique_key,
                       const char *limit_key, struct made *ret, struct redrive_err *err)
{
    const struct job_spec spec = {
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
        ret->refusal = a->err;
    (void)str_copy(ret->id, sizeof ret->id, a->id);
    submit_op_release(&op);
    return rc;
}

static int find_waiting(struct engine *e, const char *unique_key, bool *ret_found, struct made *ret,
                        struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = STR(ENGINE_TENANT_DEFAULT),
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
static int queue_one(struct engine *e, const struct config_cron *entry, const char *key,
                     struct made *ret, struct redrive_err *err)
{
    char other[300], limit[300];
    bool waits = false;
    (void)snprintf(other, sizeof other, "%s:next", key);
    (void)snprintf(limit, sizeof limit, "limit:%s", key);
    int rc = find_waiting(e, key, &waits, ret, err);
    if (rc == 0 && !waits)
        rc = find_waiting(e, other, &waits, ret, err);
    if (rc < 0 || waits)
        return rc;
    rc = submit_tick(e, entry, key, limit, ret, err);
    if (rc == 0 && !ret->is_new)
        rc = submit_tick(e, entry, other, limit, ret, err);
    return rc;
}

static int make_job(struct engine *e, const struct config_cron *entry, struct made *ret,
                    struct redrive_err *err)
{
    char key[270];
    *ret = (struct made){0};
    (void)snprintf(key, sizeof key, "cron:%.240s", entry->name);
    switch (entry->overlap) {
    case CONFIG_OVERLAP_SKIP: return submit_tick(e, entry, key, NULL, ret, err);
    case CONFIG_OVERLAP_QUEUE_ONE: return queue_one(e, entry, key, ret, err);
    case CONFIG_OVERLAP_ALLOW:
    default: return submit_tick(e, entry, NULL, NULL, ret, err);
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

static int tick_entry(struct engine *e, size_t i, struct redrive_err *err)
{
    const struct config_cron *entry = &e->options.config->cron[i];
    struct made made;
    int64_t next_ms;
    bool won;
    int rc = 0;
    if (e->cron[i].version == 0) {
        rc = move_mark(e, i, e->now_ms, &won, err);
    } else {
        int64_t at_ms = last_tick(entry, e->cron[i].last_ms, e->now_ms);
        if (at_ms != 0) {
            rc = move_mark(e, i, at_ms, &won, err);
            if (rc == 0 && won)
                rc = make_job(e, entry, &made, err);
        }
    }
    if (rc == 0 && cron_next(&entry->cron, entry->tz, e->now_ms, &next_ms) == 0)
        engine_want(e, next_ms);
    return rc;
}

int cron_ticks(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n_entries(e) && rc == 0; i++)
        rc = tick_entry(e, i, err);
    return rc;
}

/* ---- By hand --------------------------------------------------------------------------------- */

static int apply_by_hand(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct cron_op *op = (struct cron_op *)base;
    const struct config_cron *entry = NULL;
    struct made made;
    for (size_t i = 0; i < n_entries(e) && !entry; i++)
        if (strcmp(e->options.config->cron[i].name, op->name) == 0)
            entry = &e->options.config->cron[i];
    if (!entry) {
        base->code = err_set(&base->err, REDRIVE_E_NOT_FOUND,
                             "the configuration has no periodic task '%s'", op->name);
        return 0;
    }
    int rc = make_job(e, entry, &made, err);
    if (rc < 0)
        return rc;
    op->state = made.state;
    (void)str_copy(op->id, sizeof op->id, str_of(made.id));
    if (made.is_new)
        return 0;
    base->code =
        err_set(&base->err, REDRIVE_E_STATE, "'%s' has a job that has not ended", entry->name);
    err_detail(&base->err, "job %s is %s", made.id, redrive_state_name(made.state));
    return 0;
}

void cron_op_init(struct cron_op *op, const char *name)
{
    *op = (struct cron_op){.op = {.apply = apply_by_hand, .weight = 1}, .name = name};
}
