#include "engine/gates/holder.h"

#include <stdio.h>

#include "base/err.h"
#include "engine/gates/gates.h"
#include "store/job_json.h"

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

static int read_row(const struct shared_row *row, int64_t now_ms, struct gate_info *ret,
                    struct redrive_err *err)
{
    struct gate gate = {.kind = row->kind};
    if (!gate_decode(&gate, row->value))
        return err_set(err, REDRIVE_E_CORRUPT, "the row of breaker or limit '%.*s' is damaged",
                       (int)row->key.len, row->key.ptr);
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
    for (size_t i = 0; i < page.n && rc == 0; i++)
        if (str_eq(page.rows[i].key, ret->key))
            rc = read_row(&page.rows[i], now_ms, ret, err);
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
