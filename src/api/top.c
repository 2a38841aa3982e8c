/* top.c - what `redrive top` shows: a few rows for each queue, breaker and worker, however many
 * jobs there are, so that it can be asked for every second. */
#include "api/api.h"
#include "engine/event.h"
#include "engine/gates/view.h"
#include "engine/report/stats.h"
#include "fields/query.h"
#include "store/job_json.h"

/* ---- Reading --------------------------------------------------------------------------------- */

struct look {
    bool breakers; /* the parameter */
    uint64_t counts[ENGINE_EVENT_COUNT];
    struct count_page partitions;
    struct shared_page pauses;
    struct breaker_page gates;
    struct worker_page workers;
    struct redrive_health health;
    struct field_reader reader;
    uint64_t given;
    int rc;
};

static const struct field PARAMETERS[] = {
    {"breakers", &FIELD_BOOL, offsetof(struct look, breakers)}, {0}};

static bool add_parameter(struct str name, struct str value, void *ctx)
{
    struct look *look = ctx;
    look->rc = fields_query_add(&look->reader, PARAMETERS, name, value, look, &look->given);
    return look->rc == 0;
}

static int read_parameters(const struct api_context *c, struct look *look, struct redrive_err *err)
{
    fields_query_open(&look->reader, 0, c->arena, c->now_ms, err);
    api_each(c, add_parameter, look);
    return api_note_fault(c, look->rc, look->reader.place);
}

/* Counters without a label are those of all jobs of a tenant. */
static int read_counters(const struct api_context *c, struct look *look, struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page page = {0};
    int rc = store_ops(c->store)->counters_list(c->store, c->tenant, &page, err);
    for (size_t i = 0; i < page.n; i++) {
        const struct counter *counter = &page.counters[i];
        const int kind = counter->label.len == 0 ? engine_event_counted(counter->name) : -1;
        if (kind >= 0 && counter->value > 0)
            look->counts[kind] += (uint64_t)counter->value;
    }
    return rc;
}

/* Parked jobs are counted one by one. */
static int read_gates(const struct api_context *c, struct look *look, struct redrive_err *err)
{
    size_t n_closed = 0;
    int rc = breakers_read(c->store, c->tenant, c->now_ms, &look->gates, err);
    for (size_t i = 0; i < look->gates.n; i++)
        n_closed += look->gates.breakers[i].status.state == REDRIVE_BREAKER_CLOSED;
    return rc == 0 && look->breakers && n_closed < look->gates.n
               ? breakers_count_parked(c->store, c->tenant, &look->gates, err)
               : rc;
}

static int read_look(const struct api_context *c, struct look *look, struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(c->store);
    int rc = read_counters(c, look, err);
    if (rc == 0)
        rc = ops->counts(c->store, COUNT_PARTITIONS, c->tenant, &look->partitions, err);
    if (rc == 0)
        rc = ops->shared_list(c->store, SHARED_PAUSE, c->tenant, &look->pauses, err);
    if (rc == 0)
        rc = read_gates(c, look, err);
    if (rc == 0)
        rc = workers_read(c->store, c->tenant, c->now_ms, &look->workers, err);
    if (rc == 0)
        workers_health(&look->workers, &c->config->health, (uint32_t)look->gates.n,
                       breakers_open(&look->gates), c->now_ms, &look->health);
    return rc;
}

static void release_look(struct look *look)
{
    count_page_release(&look->partitions);
    shared_page_release(&look->pauses);
    breaker_page_release(&look->gates);
    worker_page_release(&look->workers);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_counters(struct json_writer *w, const struct look *look)
{
    static const enum engine_event_kind SHOWN[] = {ENGINE_EVENT_COMPLETED, ENGINE_EVENT_RETRYING,
                                                   ENGINE_EVENT_DEAD, ENGINE_EVENT_FAILED};
    json_open_object(w, "counters");
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++)
        json_field_int(w, engine_event_counter(SHOWN[i]), (int64_t)look->counts[SHOWN[i]]);
    json_end_object(w);
}

static bool is_paused(const struct look *look, const struct job_count *queue)
{
    for (size_t i = 0; i < look->pauses.n; i++)
        if (str_eq(look->pauses.rows[i].key, queue->queue) &&
            str_eq(look->pauses.rows[i].tenant, queue->tenant))
            return true;
    return queue->paused;
}

static void write_queue(struct json_writer *w, const struct look *look,
                        const struct job_count *queue)
{
    json_begin_object(w);
    json_field_string(w, "queue", queue->queue);
    json_field_string(w, "tenant", queue->tenant);
    json_field_bool(w, "paused", is_paused(look, queue));
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        json_field_int(w, redrive_state_name((enum redrive_state)state),
                       (int64_t)queue->by_state[state]);
    json_end_object(w);
}

/* Partitions come by tenant, queue and task: those of a queue are next to each other. */
static void write_queues(struct json_writer *w, const struct look *look)
{
    const struct count_page *all = &look->partitions;
    json_open_array(w, "queues");
    for (size_t i = 0, j; i < all->n; i = j) {
        struct job_count queue = all->counts[i];
        for (j = i + 1; j < all->n && str_eq(all->counts[j].queue, queue.queue) &&
                        str_eq(all->counts[j].tenant, queue.tenant);
             j++)
            for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
                queue.by_state[state] += all->counts[j].by_state[state];
        write_queue(w, look, &queue);
    }
    json_end_array(w);
}

static void write_breakers(struct json_writer *w, const struct look *look)
{
    json_open_array(w, "breakers");
    for (size_t i = 0; i < look->gates.n; i++)
        if (look->gates.breakers[i].status.state != REDRIVE_BREAKER_CLOSED)
            breaker_write_json(w, &look->gates.breakers[i]);
    json_end_array(w);
}

static void write_look(struct json_writer *w, const struct api_context *c, const struct look *look)
{
    json_begin_object(w);
    job_write_time(w, "at", c->now_ms);
    write_counters(w, look);
    write_queues(w, look);
    if (look->breakers)
        write_breakers(w, look);
    json_open_array(w, "workers");
    for (size_t i = 0; i < look->workers.n; i++)
        worker_write_json(w, &look->workers.workers[i]);
    json_end_array(w);
    json_open_object(w, "health");
    health_write_members(w, &look->health, look->workers.n_working);
    json_end_object(w);
    json_end_object(w);
}

static int read_top(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(release_look) struct look look = {0};
    int rc = read_parameters(c, &look, err);
    if (rc == 0)
        rc = read_look(c, &look, err);
    if (rc == 0)
        write_look(w, c, &look);
    return rc;
}

const struct operation API_TOP = {
    .path = "/top",
    .summary = "What redrive top shows, cheap enough to be asked for every second",
    .scope = CONFIG_SCOPE_READ,
    .read = read_top,
    .parameters = {PARAMETERS, 0}};
