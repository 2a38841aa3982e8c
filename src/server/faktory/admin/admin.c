/* admin.c - INFO, QUEUE, MUTATE and FLUSH as operations of the engine. */
#include "server/faktory/admin/admin.h"

#include <stdio.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "engine/engine.h"
#include "engine/verbs/change.h"
#include "engine/verbs/control.h"
#include "server/faktory/admin/removed.h"
#include "server/faktory/format/job.h"

#define TEXT_MAX_BYTES (8u * 1024 * 1024)
/* That are read at once: how large they are shows only then. */
#define PAGE_JOBS  100
#define BIT(state) (1u << (state))
#define IN_QUEUE   (BIT(REDRIVE_STATE_QUEUED) | BIT(REDRIVE_STATE_PARKED))
#define LIVE                                                                 \
    (IN_QUEUE | BIT(REDRIVE_STATE_SCHEDULED) | BIT(REDRIVE_STATE_RETRYING) | \
     BIT(REDRIVE_STATE_RUNNING) | BIT(REDRIVE_STATE_WAITING))

/* ---- Which jobs are meant ----------------------------------------------------------------------
 *
 * The text of a job over which MUTATE's pattern goes. Faktory's patterns see the job as that server
 * keeps it: one line without blanks, escapes only where JSON needs them, the members in a fixed
 * order, with the failure. A producer's own spelling does not matter.
 */

#define MEMBERS_MAX 64

static const char *const ORDER[] = {"retry", "failure", "custom",      "jid",
                                    "queue", "jobtype", "created_at",  "enqueued_at",
                                    "at",    "args",    "reserve_for", "backtrace"};
#define N_ORDER (sizeof ORDER / sizeof ORDER[0])

struct member {
    struct json_string key;
    struct str value;
};

static struct json_string unquoted(struct str value)
{
    struct str raw = {value.ptr + 1, value.len - 2};
    return (struct json_string){raw, raw.len > 0 && memchr(raw.ptr, '\\', raw.len)};
}

static void put_string(struct json_writer *w, struct json_string s, bool is_key)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(s.raw.len + 1);
    (void)json_unescape(s, &text);
    if (is_key)
        json_key_str(w, buf_str(&text));
    else
        json_put_string(w, buf_str(&text));
}

/* Depth and form have been checked when the job came in. */
static int put_value(struct json_reader *r, struct json_writer *w)
{
    struct json_string key;
    struct str value;
    const int type = json_peek(r);
    int rc = 0;
    if (type == JSON_TYPE_OBJECT) {
        json_begin_object(w);
        rc = json_enter_object(r);
        while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
            put_string(w, key, true);
            rc = put_value(r, w);
        }
        json_end_object(w);
    } else if (type == JSON_TYPE_ARRAY) {
        json_begin_array(w);
        rc = json_enter_array(r);
        while (rc == 0 && (rc = json_next_item(r)) > 0)
            rc = put_value(r, w);
        json_end_array(w);
    } else {
        rc = json_skip(r, &value);
        if (rc == 0 && type == JSON_TYPE_STRING)
            put_string(w, unquoted(value), false);
        else if (rc == 0)
            json_put_raw(w, value);
    }
    return rc;
}

static void put_member(struct json_writer *w, struct member *m)
{
    struct json_reader r;
    put_string(w, m->key, true);
    json_reader_init(&r, m->value, NULL);
    (void)put_value(&r, w);
    json_reader_release(&r);
    m->value.ptr = NULL; /* it is written */
}

void faktory_normalise(struct str job, struct buf *out)
{
    struct member members[MEMBERS_MAX];
    struct json_reader r;
    struct json_writer w;
    size_t n = 0;
    json_reader_init(&r, job, NULL);
    /* What cannot be read is left out, with all that follows. */
    (void)json_enter_object(&r);
    while (n < MEMBERS_MAX && json_next_key(&r, &members[n].key) > 0 &&
           json_skip(&r, &members[n].value) == 0)
        n++;
    json_reader_release(&r);
    json_writer_init(&w, out);
    json_begin_object(&w);
    for (size_t i = 0; i < N_ORDER; i++)
        for (size_t m = 0; m < n; m++)
            if (members[m].value.ptr && json_string_is(members[m].key, ORDER[i]))
                put_member(&w, &members[m]);
    for (size_t m = 0; m < n; m++)
        if (members[m].value.ptr)
            put_member(&w, &members[m]);
    json_end_object(&w);
}

/* The pattern goes over the job as faktory_job_write has it, in its normal form. */
static bool faktory_job_fits(const struct faktory_pattern *pattern, const struct job *job)
{
    struct buf text, normal;
    buf_init(&text, TEXT_MAX_BYTES);
    buf_init(&normal, TEXT_MAX_BYTES);
    bool fits = false;
    if (faktory_job_write(job, &text) == 0) {
        faktory_normalise(buf_str(&text), &normal);
        fits = buf_failed(&normal) == 0 && faktory_pattern_fits(pattern, buf_str(&normal));
    }
    buf_release(&text);
    buf_release(&normal);
    return fits;
}

/* ---- One job --------------------------------------------------------------------------------- */

/* An operation within an operation: the same transaction, the same rules. */
static int change(struct engine *e, enum move_kind kind, int64_t seq, struct redrive_err *err)
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
    int rc = is_live(job->status.state) ? change(e, MOVE_CANCEL, job->status.seq, err) : 0;
    return rc == 0 ? change(e, MOVE_REMOVE, job->status.seq, err) : rc;
}

static int discard(struct engine *e, const struct job *job, struct redrive_err *err)
{
    return change(e, is_live(job->status.state) ? MOVE_CANCEL : MOVE_REMOVE, job->status.seq, err);
}

static int mutate_job(struct engine *e, const struct faktory_mutation *m, const struct job *job,
                      struct redrive_err *err)
{
    bool is_dead = job->status.state == REDRIVE_STATE_DEAD_LETTER;
    if (str_is(m->command, "requeue"))
        return change(e, is_dead ? MOVE_REDRIVE : MOVE_RUN_NOW, job->status.seq, err);
    if (str_is(m->command, "kill"))
        return is_dead ? 0 : change(e, MOVE_END, job->status.seq, err);
    return discard(e, job, err);
}

/* ---- MUTATE ---------------------------------------------------------------------------------- */

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
    return faktory_job_fits(m->pattern, job);
}

static int mutate_one(struct engine *e, struct faktory_admin *a, struct str jid, size_t *bytes,
                      struct redrive_err *err)
{
    const struct faktory_mutation *m = a->mutation;
    struct store *store = engine_store(e);
    const struct job_filter filter = {
        .tenant = a->tenant, .id = jid, .states = states_of(m->target), .limit = 1};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    if (jid.len == 0)
        return 0;
    int rc = store_ops(store)->list(store, &filter, &page, err);
    if (rc == 0 && page.n > 0) {
        *bytes += page.jobs[0].spec.payload.len;
        rc = mutate_job(e, m, &page.jobs[0], err);
    }
    return rc;
}

/* Those that are named, a step of them. */
static int mutate_named(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    const struct faktory_mutation *m = a->mutation;
    const size_t left = m->n_jids - a->n_done;
    size_t bytes = 0;
    int rc = 0;
    for (a->n_now = 0;
         rc == 0 && a->n_now < left && a->n_now < FAKTORY_STEP && bytes < FAKTORY_STEP_BYTES;
         a->n_now++)
        rc = mutate_one(e, a, m->jids[a->n_done + a->n_now], &bytes, err);
    a->more = left > a->n_now;
    return rc;
}

typedef int (*each_fn)(struct engine *e, struct faktory_admin *a, const struct job *job,
                       struct redrive_err *err);

/* The next of a page, as long as the step may go on. */
static int walk_page(struct engine *e, struct faktory_admin *a, const struct job_page *page,
                     each_fn each, size_t *bytes, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        if (*bytes >= FAKTORY_STEP_BYTES) {
            a->more = true;
            break;
        }
        rc = each(e, a, &page->jobs[i], err);
        *bytes += page->jobs[i].spec.payload.len;
        a->last_seq = page->jobs[i].status.seq;
    }
    return rc;
}

/* The next jobs in the order of their number, each passed once. */
static int walk(struct engine *e, struct faktory_admin *a, const struct job_filter *which,
                each_fn each, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    struct job_filter filter = *which;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    filter.tenant = a->tenant;
    filter.order = ORDER_OLDEST;
    filter.limit = PAGE_JOBS;
    filter.skips_unreadable = true;
    size_t bytes = 0;
    int rc = 0;
    a->last_seq = a->after_seq;
    a->more = true;
    for (size_t n = 0; rc == 0 && a->more && n < FAKTORY_STEP && bytes < FAKTORY_STEP_BYTES;
         n += page.n) {
        filter.after_seq = a->last_seq;
        rc = store_ops(store)->list(store, &filter, &page, err);
        a->more = page.more;
        if (rc == 0)
            rc = walk_page(e, a, &page, each, &bytes, err);
    }
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

static int note_all_removed(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    RELEASED_BY(count_page_release) struct count_page queues = {0};
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, a->tenant, &queues, err);
    for (size_t i = 0; i < queues.n && rc == 0; i++)
        faktory_removed_note(a->removed, a->tenant, queues.counts[i].queue);
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
        return note_all_removed(e, a, err);
    faktory_removed_note(a->removed, a->tenant, a->names[a->n_done]);
    a->n_now = 1;
    a->last_seq = 0;
    a->more = a->n_done + 1 < a->n_names;
    return pause_one(e, a, a->names[a->n_done], err);
}

static int pause_queues(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    RELEASED_BY(count_page_release) struct count_page page = {0};
    int rc = 0;
    if (!a->all) {
        for (size_t i = 0; i < a->n_names && rc == 0; i++)
            rc = pause_one(e, a, a->names[i], err);
        return rc;
    }
    rc = store_ops(store)->counts(store, COUNT_QUEUES, a->tenant, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = pause_one(e, a, page.counts[i].queue, err);
    return rc;
}

/* ---- INFO and QUEUE LATENCY ------------------------------------------------------------------ */

/* The Faktory server whose answers these are, for clients that look. */
#define SPEAKS_LIKE "1.9.0"

static int write_latency(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    RELEASED_BY(count_page_release) struct count_page page = {0};
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

static void write_queues(struct json_writer *w, const struct count_page *page,
                         struct faktory_removed *removed, struct sizes *sizes)
{
    json_open_object(w, "queues");
    for (size_t i = 0; i < page->n; i++) {
        const struct job_count *q = &page->counts[i];
        if (!is_removed(q) && !faktory_removed_hides(removed, q)) {
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

static int write_info(struct engine *e, struct faktory_admin *a, struct redrive_err *err)
{
    struct store *store = engine_store(e);
    RELEASED_BY(count_page_release) struct count_page queues = {0};
    RELEASED_BY(counter_page_release) struct counter_page counters = {0};
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
    write_queues(&w, &queues, a->removed, &sizes);
    write_sets(&w, &sizes, &a->facts);
    json_field_int(&w, "total_failures", failures);
    json_field_int(&w, "total_processed", counter_of(&counters, ENGINE_EVENT_COMPLETED) + failures);
    json_field_int(&w, "total_enqueued", (int64_t)sizes.enqueued);
    json_field_int(&w, "total_queues", (int64_t)sizes.queues);
    json_end_object(&w);
    write_server(&w, &a->facts);
    json_end_object(&w);
    return rc;
}

/* ---- The operation --------------------------------------------------------------------------- */

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

static const struct op_route ADMIN_ROUTE = {.to = ROUTE_TENANT,
                                            .tenant_at = offsetof(struct faktory_admin, tenant)};

void faktory_admin_init(struct faktory_admin *a, enum faktory_admin_kind kind, struct str tenant)
{
    *a = (struct faktory_admin){
        .op = {.apply = apply, .route = &ADMIN_ROUTE, .weight = FAKTORY_STEP},
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
