/* info.c - writes the answers of INFO and QUEUE LATENCY. */
#include "server/faktory/admin/admin.h"

#include <stdio.h>

#include "base/json/writer.h"
#include "base/time/clock.h"
#include "engine/engine.h"

/* The Faktory server whose answers these are, for clients that look. */
#define SPEAKS_LIKE "1.9.0"

int faktory_write_latency(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct count_page page = {0};
    struct json_writer w;
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, a->tenant, &page, err);
    json_writer_init(&w, &a->text);
    json_begin_object(&w);
    for (size_t i = 0; i < a->n_names; i++) {
        double seconds = 0;
        for (size_t q = 0; q < page.n; q++)
            if (str_eq(page.counts[q].queue, a->names[i]) && page.counts[q].oldest_ready_ms > 0)
                seconds = (double)(engine_now_ms(e) - page.counts[q].oldest_ready_ms) / 1000;
        json_key_str(&w, a->names[i]);
        json_put_double(&w, seconds > 0 ? seconds : 0);
    }
    json_end_object(&w);
    count_page_release(&page);
    return rc;
}

static int64_t counter_of(const struct counter_page *page, enum engine_event_kind kind)
{
    int64_t sum = 0;
    for (size_t i = 0; i < page->n; i++)
        if (page->counters[i].label.len == 0 &&
            str_is(page->counters[i].name, engine_event_counter(kind)))
            sum += page->counters[i].value;
    return sum;
}

struct sizes {
    uint64_t by_state[REDRIVE_STATE_COUNT];
    uint64_t enqueued;
    size_t queues;
};

static uint64_t size_of(const struct job_count *q)
{
    return q->by_state[REDRIVE_STATE_QUEUED] + q->by_state[REDRIVE_STATE_PARKED];
}

/* A queue that was removed has nothing but what was cancelled then, or had ended before. */
static bool is_removed(const struct job_count *q)
{
    return q->by_state[REDRIVE_STATE_CANCELLED] > 0 && !q->paused && size_of(q) == 0 &&
           q->by_state[REDRIVE_STATE_RUNNING] == 0 && q->by_state[REDRIVE_STATE_SCHEDULED] == 0 &&
           q->by_state[REDRIVE_STATE_RETRYING] == 0;
}

static void write_queues(struct json_writer *w, const struct count_page *page, struct sizes *sizes)
{
    json_open_object(w, "queues");
    for (size_t i = 0; i < page->n; i++) {
        const struct job_count *q = &page->counts[i];
        if (!is_removed(q)) {
            json_key_str(w, q->queue);
            json_put_uint(w, size_of(q));
            sizes->queues++;
        }
        sizes->enqueued += size_of(q);
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            sizes->by_state[s] += q->by_state[s];
    }
    json_end_object(w);
}

static void write_sets(struct json_writer *w, const struct sizes *sizes,
                       const struct faktory_server_facts *facts)
{
    static const struct {
        const char *set;
        const char *task; /* under which older clients look for it */
        enum redrive_state state;
    } SETS[] = {
        {"scheduled", "Scheduled", REDRIVE_STATE_SCHEDULED},
        {"retries", "Retries", REDRIVE_STATE_RETRYING},
        {"dead", "Dead", REDRIVE_STATE_DEAD_LETTER},
        {"working", "Busy", REDRIVE_STATE_RUNNING},
    };
    const size_t n = sizeof SETS / sizeof SETS[0];
    json_open_object(w, "sets");
    for (size_t i = 0; i < n; i++)
        json_field_int(w, SETS[i].set, (int64_t)sizes->by_state[SETS[i].state]);
    json_end_object(w);
    json_open_object(w, "tasks");
    for (size_t i = 0; i < n; i++) {
        json_open_object(w, SETS[i].task);
        json_field_int(w, "size", (int64_t)sizes->by_state[SETS[i].state]);
        json_end_object(w);
    }
    json_open_object(w, "Workers");
    json_field_int(w, "size", (int64_t)facts->workers);
    json_field_int(w, "reaped", (int64_t)facts->reaped);
    json_end_object(w);
    json_end_object(w);
}

static void write_server(struct json_writer *w, const struct faktory_server_facts *facts)
{
    json_open_object(w, "server");
    json_field_cstr(w, "description", "Redrive");
    json_field_cstr(w, "faktory_version", SPEAKS_LIKE);
    json_field_cstr(w, "redrive_version", REDRIVE_VERSION);
    json_field_int(w, "uptime", facts->uptime_s);
    json_field_int(w, "connections", (int64_t)facts->connections);
    json_field_int(w, "command_count", (int64_t)facts->commands);
    json_field_int(w, "used_memory_mb", (int64_t)facts->memory_mb);
    json_end_object(w);
}

static void write_times(struct json_writer *w, int64_t now_ms)
{
    char text[CLOCK_TEXT_MAX];
    char clock[CLOCK_TEXT_MAX];
    json_field_cstr(w, "now", clock_format(now_ms, text));
    /* The time of day without decimals: 12:00:00 of 2026-05-01T12:00:00.000Z. */
    (void)snprintf(clock, sizeof clock, "%.8s UTC", strlen(text) > 19 ? text + 11 : "");
    json_field_cstr(w, "server_utc_time", clock);
}

int faktory_write_info(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct count_page queues = {0};
    struct counter_page counters = {0};
    struct sizes sizes = {0};
    struct json_writer w;
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, a->tenant, &queues, err);
    if (rc == 0)
        rc = store_ops(store)->counters_list(store, a->tenant, &counters, err);
    int64_t failures = counter_of(&counters, ENGINE_EVENT_RETRYING) +
                       counter_of(&counters, ENGINE_EVENT_DEAD) +
                       counter_of(&counters, ENGINE_EVENT_FAILED);
    json_writer_init(&w, &a->text);
    json_begin_object(&w);
    write_times(&w, engine_now_ms(e));
    json_open_object(&w, "faktory");
    write_queues(&w, &queues, &sizes);
    write_sets(&w, &sizes, &a->facts);
    json_field_int(&w, "total_failures", failures);
    json_field_int(&w, "total_processed", counter_of(&counters, ENGINE_EVENT_COMPLETED) + failures);
    json_field_int(&w, "total_enqueued", (int64_t)sizes.enqueued);
    json_field_int(&w, "total_queues", (int64_t)sizes.queues);
    json_end_object(&w);
    write_server(&w, &a->facts);
    json_end_object(&w);
    count_page_release(&queues);
    counter_page_release(&counters);
    return rc;
}
