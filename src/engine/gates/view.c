/* view.c - breakers and limits as they are shown. */
#include "engine/gates/view.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "engine/engine.h"
#include "engine/gates/gate.h"
#include "engine/rows.h"
#include "store/job_json.h"

void breaker_page_release(struct breaker_page *page)
{
    arena_release(&page->arena);
    *page = (struct breaker_page){0};
}

static int decode(const struct shared_row *row, struct gate *ret, struct redrive_err *err)
{
    *ret = (struct gate){.kind = row->kind};
    int rc = gate_decode(ret, row->value);
    if (rc != REDRIVE_E_CORRUPT)
        return rc < 0 ? err_nomem(err) : 0;
    return err_set(err, REDRIVE_E_CORRUPT, "the row of %s '%.*s' is damaged",
                   row->kind == SHARED_BREAKER ? "breaker" : "limit", (int)row->key.len,
                   row->key.ptr);
}

static int read_breaker(const struct shared_row *row, int64_t now_ms, struct arena *arena,
                        struct breaker_info *ret, struct redrive_err *err)
{
    struct gate gate;
    int rc = decode(row, &gate, err);
    if (rc < 0)
        return rc;
    *ret = (struct breaker_info){
        .tenant = arena_str(arena, row->tenant),
        .key = arena_str(arena, row->key),
        .release_rate = gate.release.rate,
        .is_idle = gate_is_idle(&gate, now_ms),
    };
    breaker_status(&gate.breaker, &gate.breaker_config, now_ms, &ret->status);
    return 0;
}

/* The one key of all jobs of a task; empty: they may have several. */
static struct str only_key(const struct config_task *task)
{
    const char *key = task->breaker.key ? task->breaker.key : "";
    if (strcmp(key, "{task}") == 0)
        return str_of(task->name);
    return str_of(strchr(key, '{') ? "" : key);
}

const struct config_task *breakers_declared_by(const struct config *config, struct str key)
{
    for (size_t i = 0; config && i < config->n_tasks; i++)
        if (key.len > 0 && str_eq(only_key(&config->tasks[i]), key))
            return &config->tasks[i];
    return NULL;
}

static int by_name(const void *left, const void *right)
{
    const struct breaker_info *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

static bool is_in(const struct breaker_page *page, struct str tenant, struct str key)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->breakers[i].tenant, tenant) && str_eq(page->breakers[i].key, key))
            return true;
    return false;
}

int breakers_add_declared(const struct config *config, struct str tenant, int64_t now_ms,
                          struct breaker_page *page, struct redrive_err *err)
{
    const size_t n_tasks = config ? config->n_tasks : 0;
    const struct str owner = tenant.len > 0 ? tenant : STR(ENGINE_TENANT_DEFAULT);
    struct breaker_info *all = arena_array(&page->arena, page->n + n_tasks, sizeof *all);
    if (n_tasks == 0)
        return 0;
    if (!all)
        return err_nomem(err);
    if (page->n > 0)
        memcpy(all, page->breakers, page->n * sizeof *all);
    page->breakers = all;
    for (size_t i = 0; i < n_tasks; i++) {
        const struct str key = only_key(&config->tasks[i]);
        struct breaker fresh;
        if (key.len == 0 || is_in(page, owner, key))
            continue;
        struct breaker_info *info = &all[page->n++];
        *info = (struct breaker_info){.tenant = arena_str(&page->arena, owner),
                                      .key = arena_str(&page->arena, key)};
        breaker_init(&fresh, 0);
        breaker_status(&fresh, &config->tasks[i].breaker.config, now_ms, &info->status);
    }
    if (page->n > 0)
        qsort(all, page->n, sizeof *all, by_name);
    return page->arena.failed ? err_nomem(err) : 0;
}

static void add_parked(struct breaker_page *page, const struct count_page *gates)
{
    for (size_t i = 0; i < gates->n; i++) {
        uint64_t parked = gates->counts[i].jobs;
        const struct breaker_info *found =
            breakers_find(page, gates->counts[i].tenant, gates->counts[i].gate);
        if (!found)
            continue;
        struct breaker_info *info = &page->breakers[found - page->breakers];
        info->parked = parked;
        info->status.parked = parked > UINT32_MAX ? UINT32_MAX : (uint32_t)parked;
    }
}

static int fill(const struct shared_page *rows, int64_t now_ms, struct breaker_page *ret,
                struct redrive_err *err)
{
    int rc = 0;
    ret->breakers = arena_array(&ret->arena, rows->n, sizeof *ret->breakers);
    for (size_t i = 0; i < rows->n && rc == 0 && ret->breakers; i++) {
        rc = read_breaker(&rows->rows[i], now_ms, &ret->arena, &ret->breakers[i], err);
        ret->n = i + 1;
    }
    return rc == 0 && ret->arena.failed ? err_nomem(err) : rc;
}

int breakers_read(struct store *store, struct str tenant, int64_t now_ms, struct breaker_page *ret,
                  struct redrive_err *err)
{
    struct shared_page rows = {0};
    breaker_page_release(ret);
    int rc = store_ops(store)->shared_list(store, SHARED_BREAKER, tenant, &rows, err);
    if (rc == 0)
        rc = fill(&rows, now_ms, ret, err);
    if (rc < 0)
        breaker_page_release(ret);
    shared_page_release(&rows);
    return rc;
}

int breakers_count_parked(struct store *store, struct str tenant, struct breaker_page *page,
                          struct redrive_err *err)
{
    struct count_page gates = {0};
    if (page->n == 0)
        return 0;
    int rc = store_ops(store)->counts(store, COUNT_PARKED, tenant, &gates, err);
    if (rc == 0)
        add_parked(page, &gates);
    count_page_release(&gates);
    return rc;
}

const struct breaker_info *breakers_find(const struct breaker_page *page, struct str tenant,
                                         struct str key)
{
    const struct breaker_info wanted = {.tenant = tenant, .key = key};
    return page->n == 0
               ? NULL
               : bsearch(&wanted, page->breakers, page->n, sizeof *page->breakers, by_name);
}

uint32_t breakers_open(const struct breaker_page *page)
{
    uint32_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        n += breaker_is_open(page->breakers[i].status.state) && !page->breakers[i].is_idle;
    return n;
}

static void write_config(struct json_writer *w, const struct redrive_breaker_config *c)
{
    json_key(w, "thresholds");
    json_begin_object(w);
    json_field_int(w, "failure_threshold", c->failure_threshold);
    json_field_double(w, "failure_rate", c->failure_rate);
    json_field_int(w, "min_calls", c->min_calls);
    json_field_double(w, "window", (double)c->window_ms / 1000);
    json_field_int(w, "window_calls", c->window_calls);
    json_field_double(w, "slow_call", (double)c->slow_call_ms / 1000);
    json_field_double(w, "slow_rate", c->slow_rate);
    json_field_double(w, "recovery_timeout", (double)c->recovery_timeout_ms / 1000);
    json_field_int(w, "half_open_max", c->half_open_max);
    json_field_int(w, "success_threshold", c->success_threshold);
    json_field_double(w, "half_open_rate", c->half_open_rate);
    json_field_double(w, "probe_lease", (double)c->probe_lease_ms / 1000);
    json_field_cstr(w, "on_open", redrive_on_open_name(c->on_open));
    json_end_object(w);
}

/* Below 0: it is not known. */
static void write_share(struct json_writer *w, const char *key, double share)
{
    json_key(w, key);
    if (share < 0)
        json_put_null(w);
    else
        json_put_double(w, share);
}

void breaker_write_json(struct json_writer *w, const struct breaker_info *info)
{
    const struct redrive_breaker_status *s = &info->status;
    json_begin_object(w);
    json_field_string(w, "key", info->key);
    json_field_string(w, "tenant", info->tenant);
    json_field_cstr(w, "state", redrive_breaker_state_name(s->state));
    json_field_int(w, "failure_count", s->failure_count);
    json_field_int(w, "success_count", s->success_count);
    write_share(w, "failure_rate", s->rate);
    write_share(w, "slow_rate", s->slow_rate);
    job_write_time(w, "opened_at", s->opened_at_ms);
    job_write_time(w, "next_probe_at", s->next_probe_ms);
    json_field_int(w, "parked", (int64_t)info->parked);
    json_field_bool(w, "idle", info->is_idle);
    json_field_double(w, "release_rate", info->release_rate);
    write_config(w, &s->config);
    json_end_object(w);
}

/* ---- What holds a parked job ----------------------------------------------------------------- */

static int64_t later_ms(int64_t at_ms, int64_t now_ms)
{
    return at_ms > now_ms ? at_ms : now_ms;
}

static int64_t breaker_lets_go_ms(const struct gate *gate, int64_t now_ms)
{
    const struct breaker *b = &gate->breaker;
    switch (b->state) {
    case REDRIVE_BREAKER_OPEN: return later_ms(b->retry_at_ms, now_ms);
    case REDRIVE_BREAKER_HALF_OPEN: {
        const int64_t then_ms = later_ms(b->retry_at_ms, now_ms);
        return breaker_probe_room(b, &gate->breaker_config, then_ms) > 0 ? then_ms : 0;
    }
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_DISABLED:
        return gate->release.rate > 0 ? later_ms(release_next_ms(&gate->release), now_ms) : now_ms;
    case REDRIVE_BREAKER_FORCED_OPEN:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return 0;
    }
}

static int64_t limit_lets_go_ms(const struct gate *gate, int64_t now_ms)
{
    if (!gate_has_slots(gate))
        return 0;
    return now_ms + (gate->rate.count ? bucket_wait_ms(&gate->bucket, &gate->rate, now_ms) : 0);
}

static int read_holder(const struct shared_row *row, int64_t now_ms, struct gate_info *ret,
                       struct redrive_err *err)
{
    struct gate gate;
    int rc = decode(row, &gate, err);
    if (rc < 0)
        return rc;
    ret->is_held = true;
    if (ret->is_limit) {
        gate.slots.used = (uint32_t)row->sums.used;
        ret->rate = gate.rate;
        ret->slots = gate.slots;
        ret->may_go_ms = limit_lets_go_ms(&gate, now_ms);
    } else {
        ret->state = gate.breaker.state;
        ret->may_go_ms = breaker_lets_go_ms(&gate, now_ms);
    }
    return 0;
}

int gate_read(struct store *store, const struct job *job, int64_t now_ms, struct gate_info *ret,
              struct redrive_err *err)
{
    const bool is_limit = job->status.parked_by_limit;
    struct shared_page page = {0};
    *ret = (struct gate_info){.is_limit = is_limit,
                              .key = is_limit ? job->spec.limit_key : job->spec.breaker_key};
    if (job->status.state != REDRIVE_STATE_PARKED)
        return 0;
    int rc = store_ops(store)->shared_list(store, is_limit ? SHARED_BUCKET : SHARED_BREAKER,
                                           job->spec.tenant, &page, err);
    const struct shared_row *row = rc == 0 ? shared_row_find(&page, ret->key) : NULL;
    if (row)
        rc = read_holder(row, now_ms, ret, err);
    shared_page_release(&page);
    return rc;
}

int pause_read(struct store *store, const struct job *job, bool *ret, struct redrive_err *err)
{
    struct shared_page page = {0};
    *ret = false;
    if (state_has_ended(job->status.state) || job->status.state == REDRIVE_STATE_RUNNING)
        return 0;
    int rc = store_ops(store)->shared_list(store, SHARED_PAUSE, job->spec.tenant, &page, err);
    *ret = rc == 0 && shared_row_find(&page, job->spec.queue);
    shared_page_release(&page);
    return rc;
}

const char *gate_wait_text(const struct gate_info *gate)
{
    if (gate->is_limit)
        return gate->may_go_ms == 0 ? "when a running job ends" : "when the rate allows it";
    switch (gate->state) {
    case REDRIVE_BREAKER_OPEN: return "the next probe";
    case REDRIVE_BREAKER_HALF_OPEN:
        return gate->may_go_ms == 0 ? "when the probes that are out have succeeded"
                                    : "the next probe";
    case REDRIVE_BREAKER_FORCED_OPEN: return "when it is reset by hand";
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_DISABLED:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return "parked jobs are let go one after another";
    }
}

static void write_limit(struct json_writer *w, const struct gate_info *gate)
{
    char rate[32];
    (void)snprintf(rate, sizeof rate, "%u/%s", (unsigned)gate->rate.count, rate_unit(&gate->rate));
    json_field_cstr(w, "rate", gate->rate.count > 0 ? rate : NULL);
    json_key(w, "concurrency");
    if (gate->slots.max == 0)
        json_put_null(w);
    else
        json_put_int(w, gate->slots.max);
    json_field_int(w, "running", gate->slots.used);
}

void gate_write_json(struct json_writer *w, const struct gate_info *gate)
{
    json_key(w, "held_by");
    if (!gate->is_held) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    json_field_cstr(w, "kind", gate->is_limit ? "limit" : "breaker");
    json_field_string(w, "key", gate->key);
    if (gate->is_limit)
        write_limit(w, gate);
    else
        json_field_cstr(w, "state", redrive_breaker_state_name(gate->state));
    job_write_time(w, "may_go_at", gate->may_go_ms);
    json_end_object(w);
}

void gate_write_text(struct buf *out, const struct gate_info *gate)
{
    buf_printf(out, "%s ", gate->is_limit ? "limit" : "breaker");
    (void)buf_add_str(out, gate->key);
    if (!gate->is_limit)
        buf_printf(out, " (%s)", redrive_breaker_state_name(gate->state));
    else if (gate->slots.max > 0)
        buf_printf(out, " (%u of %u run)", gate->slots.used, gate->slots.max);
    else
        buf_printf(out, " (%u/%s)", (unsigned)gate->rate.count, rate_unit(&gate->rate));
}
