/* view.c - every breaker of a store as it is shown. */
#include "engine/gates/view.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/engine.h"
#include "engine/gates/gate.h"
#include "store/job_json.h"

void breaker_page_release(struct breaker_page *page)
{
    arena_release(&page->arena);
    *page = (struct breaker_page){0};
}

static int read_breaker(const struct shared_row *row, int64_t now_ms, struct arena *arena,
                        struct breaker_info *ret, struct redrive_err *err)
{
    struct gate gate;
    int rc = gate_of_row(row, now_ms, &gate, err);
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
    RELEASED_BY(shared_page_release) struct shared_page rows = {0};
    breaker_page_release(ret);
    int rc = store_ops(store)->shared_list(store, SHARED_BREAKER, tenant, &rows, err);
    if (rc == 0)
        rc = fill(&rows, now_ms, ret, err);
    if (rc < 0)
        breaker_page_release(ret);
    return rc;
}

int breakers_count_parked(struct store *store, struct str tenant, struct breaker_page *page,
                          struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page gates = {0};
    if (page->n == 0)
        return 0;
    int rc = store_ops(store)->counts(store, COUNT_PARKED, tenant, &gates, err);
    if (rc == 0)
        add_parked(page, &gates);
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
