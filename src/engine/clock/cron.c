/* cron.c - periodic tasks: makes their jobs, and lists them. */
#include "engine/clock/cron.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/str.h"
#include "core/cron/cron.h"
#include "engine/clock/cron_entries.h"
#include "engine/state.h"
#include "engine/verbs/submit.h"
#include "store/job_json.h"

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

/* No caller waits for an answer: a tick that made no job is logged. */
static void log_refusal(const struct engine *e, const struct cron_entry *slot,
                        const struct redrive_err *why)
{
    log_event(e->options.log, LOG_LEVEL_WARNING, engine_now_ms(e), "cron_tick_refused",
              LOG_S("cron", slot->name), LOG_S("tenant", slot->tenant),
              LOG_S("error", why->message), LOG_S("detail", why->detail));
}

/* Clocks of processes that share a store differ by less than this. */
#define AHEAD_MAX_MS INT64_C(3600000)

/* The mark is of a clock that was ahead and has been set back: the entry would stand still until
 * that time comes again. */
static bool is_marked_ahead(const struct engine *e, const struct cron_entry *slot)
{
    return cron_entry_config(slot) && slot->last_ms - e->now_ms > AHEAD_MAX_MS;
}

/* The time of the next tick has come, or the schedule is seen for the first time, or the mark is
 * from the future: then it is set to now, and no job is made. */
static int tick_slot(struct engine *e, struct cron_entry *slot, struct redrive_err *err)
{
    const struct config_cron *entry = cron_entry_config(slot);
    const bool is_new = cron_entry_is_unmarked(slot) || is_marked_ahead(e, slot);
    struct made made;
    bool won;
    int64_t at_ms = is_new ? e->now_ms : last_tick(entry, slot->last_ms, e->now_ms);
    int rc = cron_entries_mark(e, slot, at_ms, &won, err);
    if (rc == 0 && won && !is_new) {
        rc = make_job(e, slot, &made, err);
        if (rc == 0 && made.refusal.code < 0)
            log_refusal(e, slot, &made.refusal);
    }
    /* Another process was faster and has moved the mark; the next transaction sees it. */
    if (rc == 0 && !won && cron_next(&entry->cron, entry->tz, e->now_ms, &at_ms) == 0)
        engine_want_own(e, at_ms);
    return rc;
}

int cron_ticks(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < e->cron_entries.n && rc == 0; i++) {
        struct cron_entry *slot = &e->cron_entries.slots[i];
        if (slot->next_ms > e->now_ms && !is_marked_ahead(e, slot)) {
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

void cron_answer_unknown(const struct engine *e, struct op *op, struct str tenant, struct str name)
{
    const char **names = calloc(e->cron_entries.n + 1, sizeof *names);
    size_t n = 0;
    op->code = err_set(&op->err, REDRIVE_E_NOT_FOUND, "there is no periodic task '%.*s'",
                       (int)(name.len < 128 ? name.len : 128), name.ptr);
    for (size_t i = 0; names && i < e->cron_entries.n; i++)
        if (str_is(tenant, e->cron_entries.slots[i].tenant))
            names[n++] = e->cron_entries.slots[i].name;
    err_suggest(&op->err, names ? suggest(name, names, n) : NULL);
    free(names);
}

static int apply_by_hand(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct cron_op *op = (struct cron_op *)base;
    const struct cron_entry *slot = cron_entries_find(&e->cron_entries, op->tenant, op->name);
    struct made made;
    if (!slot || !cron_entry_config(slot)) {
        cron_answer_unknown(e, base, op->tenant, op->name);
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
    err_hint(&base->err, "`overlap: allow` in its entry would make a second one");
    return 0;
}

static const struct op_route HAND_ROUTE = {.to = ROUTE_TENANT,
                                           .tenant_at = offsetof(struct cron_op, tenant)};

void cron_op_init(struct cron_op *op, struct str tenant, struct str name)
{
    *op = (struct cron_op){.op = {.apply = apply_by_hand, .route = &HAND_ROUTE, .weight = 1},
                           .tenant = tenant,
                           .name = name};
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* The mark of an entry that has not ticked is when it was first seen, which is no time of its
 * schedule. */
static int64_t shown_tick(const struct config_cron *entry, int64_t mark_ms)
{
    int64_t at_ms;
    bool is_tick = cron_next(&entry->cron, entry->tz, mark_ms - 1, &at_ms) == 0 && at_ms == mark_ms;
    return is_tick ? mark_ms : 0;
}

struct cron_item cron_item_of(const struct config_cron *entry, bool is_stored, int64_t mark_ms,
                              int64_t now_ms)
{
    struct cron_item item = {.entry = entry, .is_stored = is_stored};
    if (mark_ms != 0)
        item.last_ms = shown_tick(entry, mark_ms);
    if (cron_next(&entry->cron, entry->tz, now_ms, &item.next_ms) < 0)
        item.next_ms = 0;
    return item;
}

static void add_own(const struct config *config, const struct shared_page *rows, int64_t now_ms,
                    struct cron_page *page)
{
    for (size_t i = 0; i < config->n_cron; i++) {
        const struct config_cron *entry = &config->cron[i];
        struct cron_entry_row says = {0};
        for (size_t j = 0; j < rows->n; j++)
            if (str_is(rows->rows[j].key, entry->name) &&
                !cron_entry_row_read(rows->rows[j].value, &says))
                says.last_ms = 0;
        page->items[page->n++] = cron_item_of(entry, false, says.last_ms, now_ms);
    }
}

static int add_stored(const struct config *config, const struct shared_row *row, int64_t now_ms,
                      struct cron_page *page, struct redrive_err *err)
{
    struct cron_entry_row says;
    struct config_part *box = NULL;
    if (cron_entries_own(config, row->tenant, row->key) ||
        !cron_entry_row_read(row->value, &says) || says.definition.len == 0)
        return 0;
    int rc = cron_parse_json(config, false, row->key, says.definition, &box, NULL, NULL);
    if (rc < 0)
        return rc == REDRIVE_E_NOMEM ? err_nomem(err) : 0;
    page->boxes[page->n_boxes++] = box;
    struct cron_item *item = &page->items[page->n++];
    *item = cron_item_of(&box->cron, true, says.last_ms, now_ms);
    if (says.declared_by.len > 0)
        item->declared_by = arena_dup(&box->arena, says.declared_by);
    return 0;
}

int cron_page_read(struct store *store, const struct config *config, struct str tenant,
                   int64_t now_ms, struct cron_page *ret, struct redrive_err *err)
{
    const bool has_own = config && str_is(tenant, ENGINE_TENANT_DEFAULT);
    struct shared_page rows = {0};
    *ret = (struct cron_page){0};
    int rc = store_ops(store)->shared_list(store, SHARED_CRON, tenant, &rows, err);
    if (rc < 0)
        return rc;
    ret->items = calloc(rows.n + (has_own ? config->n_cron : 0) + 1, sizeof *ret->items);
    ret->boxes = calloc(rows.n + 1, sizeof(struct config_part *));
    if (!ret->items || !ret->boxes) {
        shared_page_release(&rows);
        cron_page_release(ret);
        return err_nomem(err);
    }
    if (has_own)
        add_own(config, &rows, now_ms, ret);
    for (size_t i = 0; i < rows.n && rc == 0; i++)
        rc = add_stored(config, &rows.rows[i], now_ms, ret, err);
    shared_page_release(&rows);
    if (rc < 0)
        cron_page_release(ret);
    return rc;
}

void cron_page_release(struct cron_page *page)
{
    for (size_t i = 0; page->boxes && i < page->n_boxes; i++)
        config_part_free(page->boxes[i]);
    free(page->boxes);
    free(page->items);
    *page = (struct cron_page){0};
}

void cron_item_write_json(struct json_writer *w, const struct cron_item *item)
{
    json_begin_object(w);
    json_field_cstr(w, "name", item->entry->name);
    json_field_cstr(w, "task", item->entry->task);
    json_field_cstr(w, "schedule", item->entry->schedule);
    json_field_cstr(w, "timezone", item->entry->timezone);
    json_field_cstr(w, "overlap", config_overlap_name(item->entry->overlap));
    job_write_value(w, "payload", str_of(item->entry->payload));
    json_field_cstr(w, "source", item->is_stored ? "stored" : "configuration");
    json_field_cstr(w, "declared_by", item->declared_by);
    job_write_time(w, "last_tick", item->last_ms);
    job_write_time(w, "next_tick", item->next_ms);
    json_end_object(w);
}
