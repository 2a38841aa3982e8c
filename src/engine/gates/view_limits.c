/* view_limits.c - every limit of a store as it is shown, and what holds a parked job. */
#include "engine/gates/view.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "core/state.h"
#include "engine/gates/gate.h"
#include "engine/rows.h"
#include "store/job_json.h"

/* ---- Limits ---------------------------------------------------------------------------------- */

void limit_page_release(struct limit_page *page)
{
    arena_release(&page->arena);
    *page = (struct limit_page){0};
}

static struct budget_info read_budget(const struct gate *gate, int64_t now_ms)
{
    struct budget_info info = {.config = gate->budget_config};
    if (budget_is_set(&info.config))
        budget_status(&gate->budget, &info.config, now_ms, &info.status);
    return info;
}

static int read_limit(const struct shared_row *row, int64_t now_ms, struct arena *arena,
                      struct limit_info *ret, struct redrive_err *err)
{
    struct gate gate;
    int rc = gate_of_row(row, now_ms, &gate, err);
    if (rc < 0)
        return rc;
    *ret = (struct limit_info){
        .tenant = arena_str(arena, row->tenant),
        .key = arena_str(arena, row->key),
        .rate = gate.rate,
        .slots = {.used = (uint32_t)row->sums.used, .max = gate.slots.max},
        .adaptive = gate.adaptive_config,
        .budget = read_budget(&gate, now_ms),
    };
    return 0;
}

static int limits_by_name(const void *left, const void *right)
{
    const struct limit_info *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

int limits_read(struct store *store, struct str tenant, int64_t now_ms, struct limit_page *ret,
                struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page rows = {0};
    limit_page_release(ret);
    int rc = store_ops(store)->shared_list(store, SHARED_LIMIT, tenant, &rows, err);
    ret->limits = rc == 0 ? arena_array(&ret->arena, rows.n, sizeof *ret->limits) : NULL;
    for (size_t i = 0; i < rows.n && rc == 0 && ret->limits; i++) {
        rc = read_limit(&rows.rows[i], now_ms, &ret->arena, &ret->limits[i], err);
        ret->n = i + 1;
    }
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc < 0)
        limit_page_release(ret);
    else if (ret->limits)
        qsort(ret->limits, ret->n, sizeof *ret->limits, limits_by_name);
    return rc;
}

int limits_count_parked(struct store *store, struct str tenant, struct limit_page *page,
                        struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page gates = {0};
    if (page->n == 0)
        return 0;
    int rc = store_ops(store)->counts(store, COUNT_PARKED, tenant, &gates, err);
    for (size_t i = 0; i < gates.n && rc == 0; i++) {
        const struct limit_info wanted = {.tenant = gates.counts[i].tenant,
                                          .key = gates.counts[i].gate};
        struct limit_info *found =
            bsearch(&wanted, page->limits, page->n, sizeof *page->limits, limits_by_name);
        if (found)
            found->parked = gates.counts[i].jobs;
    }
    return rc;
}

const char *rate_text(const struct rate *rate, char out[RATE_TEXT_MAX])
{
    if (rate->count == 0)
        return "";
    (void)snprintf(out, RATE_TEXT_MAX, "%u/%s", (unsigned)rate->count, rate_unit(rate));
    return out;
}

static void write_number(struct json_writer *w, const char *name, uint32_t value)
{
    json_key(w, name);
    if (value == 0)
        json_put_null(w);
    else
        json_put_int(w, value);
}

static void write_limit(struct json_writer *w, const struct rate *rate, const struct slots *slots)
{
    char text[RATE_TEXT_MAX];
    json_field_cstr(w, "rate", rate->count > 0 ? rate_text(rate, text) : NULL);
    write_number(w, "concurrency", slots->max);
    json_field_int(w, "running", slots->used);
}

static void write_budget(struct json_writer *w, const struct budget_info *budget)
{
    const struct budget_config *config = &budget->config;
    const struct budget_status *status = &budget->status;
    json_key(w, "retry_budget");
    if (!budget_is_set(config)) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    if (config->max_tokens > 0) {
        json_field_double(w, "max_tokens", config->max_tokens);
        json_field_double(w, "token_ratio", config->token_ratio);
        json_field_double(w, "tokens", status->tokens);
    } else {
        json_field_double(w, "ratio", config->ratio);
        json_field_double(w, "window", (double)config->window_ms / 1000);
        json_field_int(w, "first_attempts", status->firsts);
        json_field_int(w, "retries", status->retries);
    }
    json_field_double(w, "min_per_second", config->min_per_second);
    json_field_int(w, "room", status->room);
    json_end_object(w);
}

void limit_write_json(struct json_writer *w, const struct limit_info *info)
{
    json_begin_object(w);
    json_field_string(w, "key", info->key);
    json_field_string(w, "tenant", info->tenant);
    write_limit(w, &info->rate, &info->slots);
    write_number(w, "min_concurrency", info->adaptive.floor);
    write_number(w, "max_concurrency", info->adaptive.ceiling);
    json_field_int(w, "parked", (int64_t)info->parked);
    write_budget(w, &info->budget);
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

/* Whether it is the budget that a retry waits for: nothing else holds it, or not as long. */
static bool budget_holds(const struct gate *gate, int64_t now_ms)
{
    if (!budget_is_set(&gate->budget_config) || !gate_has_slots(gate))
        return false;
    const bool is_alone = gate->rate.count == 0 && gate->slots.max == 0;
    return is_alone || gate_wait_ms(gate, true, now_ms) > gate_wait_ms(gate, false, now_ms);
}

static void read_limit_holder(const struct gate *gate, bool is_retry, int64_t now_ms,
                              struct gate_info *ret)
{
    ret->rate = gate->rate;
    ret->slots = gate->slots;
    ret->may_go_ms = gate_has_slots(gate) ? now_ms + gate_wait_ms(gate, is_retry, now_ms) : 0;
    ret->is_budget = is_retry && budget_holds(gate, now_ms);
    ret->budget = read_budget(gate, now_ms);
}

static int read_holder(const struct shared_row *row, const struct job *job, int64_t now_ms,
                       struct gate_info *ret, struct redrive_err *err)
{
    struct gate gate;
    int rc = gate_of_row(row, now_ms, &gate, err);
    if (rc < 0)
        return rc;
    ret->is_held = true;
    if (ret->is_limit) {
        gate.slots.used = (uint32_t)row->sums.used;
        read_limit_holder(&gate, job->status.attempts > 0, now_ms, ret);
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
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    *ret = (struct gate_info){.is_limit = is_limit,
                              .key = is_limit ? job->spec.limit_key : job->spec.breaker_key};
    if (job->status.state != REDRIVE_STATE_PARKED)
        return 0;
    int rc = store_ops(store)->shared_list(store, is_limit ? SHARED_LIMIT : SHARED_BREAKER,
                                           job->spec.tenant, &page, err);
    const struct shared_row *row = rc == 0 ? shared_row_find(&page, ret->key) : NULL;
    if (row)
        rc = read_holder(row, job, now_ms, ret, err);
    return rc;
}

int pause_read(struct store *store, const struct job *job, bool *ret, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    *ret = false;
    if (state_has_ended(job->status.state) || job->status.state == REDRIVE_STATE_RUNNING)
        return 0;
    int rc = store_ops(store)->shared_list(store, SHARED_PAUSE, job->spec.tenant, &page, err);
    *ret = rc == 0 && shared_row_find(&page, job->spec.queue);
    return rc;
}

static const char *kind_of(const struct gate_info *gate)
{
    if (!gate->is_limit)
        return "breaker";
    return gate->is_budget ? "budget" : "limit";
}

void gate_write_json(struct json_writer *w, const struct gate_info *gate)
{
    json_key(w, "held_by");
    if (!gate->is_held) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    json_field_cstr(w, "kind", kind_of(gate));
    json_field_string(w, "key", gate->key);
    if (gate->is_limit)
        write_limit(w, &gate->rate, &gate->slots);
    if (gate->is_budget)
        write_budget(w, &gate->budget);
    if (!gate->is_limit)
        json_field_cstr(w, "state", redrive_breaker_state_name(gate->state));
    job_write_time(w, "may_go_at", gate->may_go_ms);
    json_end_object(w);
}
