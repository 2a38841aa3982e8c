#include "doors/faktory_admin.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_writer.h"
#include "engine/change.h"
#include "engine/control.h"
#include "engine/engine.h"

#define TEXT_MAX_BYTES (8u * 1024 * 1024)
#define BIT(state)     (1u << (state))
#define IN_QUEUE       (BIT(REDRIVE_STATE_QUEUED) | BIT(REDRIVE_STATE_PARKED))
#define LIVE                                                                 \
    (IN_QUEUE | BIT(REDRIVE_STATE_SCHEDULED) | BIT(REDRIVE_STATE_RETRYING) | \
     BIT(REDRIVE_STATE_RUNNING))

/* The Faktory server whose answers these are, for clients that look. */
#define SPEAKS_LIKE "1.9.0"

/* ---- One job -------------------------------------------------------------------------------- */

/* An operation within an operation: the same unit, the same rules. */
static int change(struct engine *e, enum change_kind kind, int64_t seq, struct redrive_err *err)
{
    struct change_item item = {.seq = seq};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    return op.op.apply(e, &op.op, err);
}

static bool is_live(enum redrive_state state)
{
    return (BIT(state) & LIVE) != 0;
}

static int erase(struct engine *e, const struct job *job, struct redrive_err *err)
{
    int rc = is_live(job->status.state) ? change(e, CHANGE_CANCEL, job->status.seq, err) : 0;
    return rc == 0 ? change(e, CHANGE_REMOVE, job->status.seq, err) : rc;
}

static int discard(struct engine *e, const struct job *job, struct redrive_err *err)
{
    return change(e, is_live(job->status.state) ? CHANGE_CANCEL : CHANGE_REMOVE, job->status.seq,
                  err);
}

static int mutate_job(struct engine *e, const struct faktory_mutation *m, const struct job *job,
                      struct redrive_err *err)
{
    bool is_dead = job->status.state == REDRIVE_STATE_DEAD_LETTER;
    if (str_is(m->command, "requeue"))
        return change(e, is_dead ? CHANGE_REDRIVE : CHANGE_RUN_NOW, job->status.seq, err);
    if (str_is(m->command, "kill"))
        return is_dead ? 0 : change(e, CHANGE_END, job->status.seq, err);
    return discard(e, job, err);
}

/* ---- MUTATE --------------------------------------------------------------------------------- */

static uint32_t states_of(struct str target)
{
    if (str_is(target, "scheduled"))
        return BIT(REDRIVE_STATE_SCHEDULED);
    if (str_is(target, "retries"))
        return BIT(REDRIVE_STATE_RETRYING);
    return str_is(target, "dead") ? BIT(REDRIVE_STATE_DEAD_LETTER) : 0;
}

int faktory_mutation_check(const struct faktory_mutation *m, struct redrive_err *err)
{
    static const char *const COMMANDS[] = {"clear", "kill", "discard", "requeue"};
    bool is_known = false;
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++)
        is_known |= str_is(m->command, COMMANDS[i]);
    if (!is_known)
        return err_set(err, REDRIVE_E_INVALID, "unknown mutate operation");
    if (states_of(m->target) == 0)
        return err_set(err, REDRIVE_E_INVALID, "invalid target for mutation command");
    return 0;
}

static bool matches(const struct faktory_mutation *m, const struct job *job)
{
    if (str_is(m->command, "clear") || m->n_jids > 0 || !m->pattern)
        return true;
    return str_glob(m->pattern, job->spec.payload);
}

/* Those that are named, a step of them. */
static int mutate_named(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    const struct faktory_mutation *m = a->mutation;
    struct store *store = engine_store(e);
    int rc = 0;
    size_t left = m->n_jids - a->n_done;
    a->n_now = left < FAKTORY_STEP ? left : FAKTORY_STEP;
    a->more = left > a->n_now;
    for (size_t i = 0; i < a->n_now && rc == 0; i++) {
        const struct job_filter filter = {.tenant = a->tenant,
                                          .id = m->jids[a->n_done + i],
                                          .states = states_of(m->target),
                                          .limit = 1};
        struct job_page page = {0};
        if (filter.id.len == 0)
            continue;
        rc = store_ops(store)->list(store, &filter, &page, err);
        if (rc == 0 && page.n > 0)
            rc = mutate_job(e, m, &page.jobs[0], err);
        job_page_release(&page);
    }
    return rc;
}

typedef int (*each_fn)(struct engine *e, struct faktory_admin *a, const struct job *job,
                       struct redrive_err *err);

/* The next jobs in the order of their number, each passed once. */
static int walk(struct engine *e, struct faktory_admin *a, const struct job_filter *which,
                each_fn each, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct job_filter filter = *which;
    struct job_page page = {0};
    filter.tenant = a->tenant;
    filter.order = ORDER_OLDEST;
    filter.after_seq = a->after_seq;
    filter.limit = FAKTORY_STEP;
    int rc = store_ops(store)->list(store, &filter, &page, err);
    a->more = page.more;
    a->last_seq = page.n > 0 ? page.jobs[page.n - 1].status.seq : a->after_seq;
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = each(e, a, &page.jobs[i], err);
    job_page_release(&page);
    return rc;
}

static int mutate_each(struct engine *e, struct faktory_admin *a, const struct job *job,
                       struct redrive_err *err)
{
    return matches(a->mutation, job) ? mutate_job(e, a->mutation, job, err) : 0;
}

static int mutate(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    const struct faktory_mutation *m = a->mutation;
    bool is_clear = str_is(m->command, "clear");
    if (m->n_jids > 0 && !is_clear)
        return mutate_named(e, a, err);
    struct job_filter filter = {.states = states_of(m->target)};
    if (!is_clear)
        filter.task = m->jobtype;
    return walk(e, a, &filter, mutate_each, err);
}

/* ---- FLUSH and QUEUE REMOVE ------------------------------------------------------------------ */

static int erase_each(struct engine *e, struct faktory_admin *a, const struct job *job,
                      struct redrive_err *err)
{
    (void)a;
    return erase(e, job, err);
}

static int discard_each(struct engine *e, struct faktory_admin *a, const struct job *job,
                        struct redrive_err *err)
{
    (void)a;
    return discard(e, job, err);
}

static int pause_one(struct engine *e, struct faktory_admin *a, struct str queue,
                     struct redrive_err *err)
{
    struct pause_op op;
    pause_op_init(&op, a->tenant, queue, a->kind == FAKTORY_PAUSE);
    int rc;
    do
        rc = op.op.apply(e, &op.op, err);
    while (rc == 0 && pause_op_goes_on(&op));
    return rc;
}

/* A queue that is removed is not paused any more either. */
static int remove_queues(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct job_filter filter = {.states = IN_QUEUE};
    a->n_now = 0;
    if (!a->all) {
        if (a->n_done == a->n_names)
            return 0;
        filter.queue = a->names[a->n_done];
    }
    int rc = walk(e, a, &filter, discard_each, err);
    if (rc < 0 || a->more)
        return rc;
    if (a->all)
        return 0;
    a->n_now = 1;
    a->last_seq = 0;
    a->more = a->n_done + 1 < a->n_names;
    return pause_one(e, a, a->names[a->n_done], err);
}

static int pause_queues(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct queue_page page = {0};
    int rc = 0;
    if (!a->all) {
        for (size_t i = 0; i < a->n_names && rc == 0; i++)
            rc = pause_one(e, a, a->names[i], err);
        return rc;
    }
    rc = store_ops(store)->queues(store, a->tenant, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = pause_one(e, a, page.queues[i].queue, err);
    queue_page_release(&page);
    return rc;
}

/* ---- Documents ------------------------------------------------------------------------------ */

static int write_latency(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct queue_page page = {0};
    struct json_writer w;
    int rc = store_ops(store)->queues(store, a->tenant, &page, err);
    json_writer_init(&w, &a->text);
    json_begin_object(&w);
    for (size_t i = 0; i < a->n_names; i++) {
        double seconds = 0;
        for (size_t q = 0; q < page.n; q++)
            if (str_eq(page.queues[q].queue, a->names[i]) && page.queues[q].oldest_ready_ms > 0)
                seconds = (double)(engine_now_ms(e) - page.queues[q].oldest_ready_ms) / 1000;
        json_key_str(&w, a->names[i]);
        json_put_double(&w, seconds > 0 ? seconds : 0);
    }
    json_end_object(&w);
    queue_page_release(&page);
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
};

static uint64_t size_of(const struct queue_count *q)
{
    return q->by_state[REDRIVE_STATE_QUEUED] + q->by_state[REDRIVE_STATE_PARKED];
}

static void write_queues(struct json_writer *w, const struct queue_page *page, struct sizes *sizes)
{
    json_key(w, "queues");
    json_begin_object(w);
    for (size_t i = 0; i < page->n; i++) {
        const struct queue_count *q = &page->queues[i];
        json_key_str(w, q->queue);
        json_put_uint(w, size_of(q));
        sizes->enqueued += size_of(q);
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            sizes->by_state[s] += q->by_state[s];
    }
    json_end_object(w);
}

static void write_sets(struct json_writer *w, const struct sizes *sizes)
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
    json_key(w, "sets");
    json_begin_object(w);
    for (size_t i = 0; i < n; i++)
        json_field_int(w, SETS[i].set, (int64_t)sizes->by_state[SETS[i].state]);
    json_end_object(w);
    json_key(w, "tasks");
    json_begin_object(w);
    for (size_t i = 0; i < n; i++) {
        json_key(w, SETS[i].task);
        json_begin_object(w);
        json_field_int(w, "size", (int64_t)sizes->by_state[SETS[i].state]);
        json_end_object(w);
    }
    json_end_object(w);
}

static void write_server(struct json_writer *w, const struct faktory_server_facts *facts)
{
    json_key(w, "server");
    json_begin_object(w);
    json_field_cstr(w, "description", "Redrive");
    json_field_cstr(w, "faktory_version", SPEAKS_LIKE);
    json_field_cstr(w, "redrive_version", REDRIVE_VERSION);
    json_field_int(w, "uptime", facts->uptime_s);
    json_field_int(w, "connections", (int64_t)facts->connections);
    json_field_int(w, "command_count", (int64_t)facts->commands);
    json_field_int(w, "used_memory_mb", 0);
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

static int write_info(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct queue_page queues = {0};
    struct counter_page counters = {0};
    struct sizes sizes = {0};
    struct json_writer w;
    int rc = store_ops(store)->queues(store, a->tenant, &queues, err);
    if (rc == 0)
        rc = store_ops(store)->counters_list(store, a->tenant, &counters, err);
    int64_t failures = counter_of(&counters, ENGINE_EVENT_RETRYING) +
                       counter_of(&counters, ENGINE_EVENT_DEAD) +
                       counter_of(&counters, ENGINE_EVENT_FAILED);
    json_writer_init(&w, &a->text);
    json_begin_object(&w);
    write_times(&w, engine_now_ms(e));
    json_key(&w, "faktory");
    json_begin_object(&w);
    write_queues(&w, &queues, &sizes);
    write_sets(&w, &sizes);
    json_field_int(&w, "total_failures", failures);
    json_field_int(&w, "total_processed", counter_of(&counters, ENGINE_EVENT_COMPLETED) + failures);
    json_field_int(&w, "total_enqueued", (int64_t)sizes.enqueued);
    json_field_int(&w, "total_queues", (int64_t)queues.n);
    json_end_object(&w);
    write_server(&w, &a->facts);
    json_end_object(&w);
    queue_page_release(&queues);
    counter_page_release(&counters);
    return rc;
}

/* ---- The operation -------------------------------------------------------------------------- */

static int apply(struct engine *e, struct op *op, struct redrive_err *err)
{
    static const struct job_filter ALL = {0};
    struct faktory_admin *a = (struct faktory_admin *)op;
    buf_reset(&a->text);
    a->more = false;
    switch (a->kind) {
    case FAKTORY_INFO: return write_info(e, a, err);
    case FAKTORY_LATENCY: return write_latency(e, a, err);
    case FAKTORY_PAUSE:
    case FAKTORY_RESUME: return pause_queues(e, a, err);
    case FAKTORY_REMOVE: return remove_queues(e, a, err);
    case FAKTORY_MUTATE: return mutate(e, a, err);
    case FAKTORY_FLUSH:
    default: return walk(e, a, &ALL, erase_each, err);
    }
}

void faktory_admin_init(struct faktory_admin *a, enum faktory_admin_kind kind, struct str tenant)
{
    *a = (struct faktory_admin){
        .op = {.apply = apply, .weight = FAKTORY_STEP},
        .kind = kind,
        .tenant = tenant,
    };
    buf_init(&a->text, TEXT_MAX_BYTES);
}

void faktory_admin_release(struct faktory_admin *a)
{
    buf_release(&a->text);
}

void faktory_admin_next(struct faktory_admin *a)
{
    a->after_seq = a->last_seq;
    a->n_done += a->n_now;
    a->n_now = 0;
}
