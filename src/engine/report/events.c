/* events.c - the events of a transaction: kept, counted in the store, and told after the commit. */
#include "engine/event.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "core/vocabulary.h"
#include "engine/report/experiments.h"
#include "engine/state.h"

static const struct {
    const char *name;
    const char *counter;
} KINDS[] = {
#define XX(name, text, counter) {text, counter},
    ENGINE_EVENT_MAP(XX)
#undef XX
};

const char *engine_event_name(enum engine_event_kind kind)
{
    return (unsigned)kind < ENGINE_EVENT_COUNT ? KINDS[kind].name : "unknown";
}

const char *engine_event_counter(enum engine_event_kind kind)
{
    return (unsigned)kind < ENGINE_EVENT_COUNT ? KINDS[kind].counter : "";
}

int engine_event_counted(struct str counter)
{
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++)
        if (str_is(counter, engine_event_counter((enum engine_event_kind)kind)))
            return kind;
    return -1;
}

struct engine_event event_of(const struct engine *e, enum engine_event_kind kind,
                             const struct job *job)
{
    return (struct engine_event){
        .kind = kind,
        .at_ms = e->now_ms,
        .seq = job->status.seq,
        .tenant = job->spec.tenant,
        .id = job->spec.id,
        .task = job->spec.task,
        .queue = job->spec.queue,
        .worker = job->status.worker,
        .epoch = job->status.epoch,
        .attempt = job->status.attempts,
        .max_attempts = job_max_attempts(job),
        .created_ms = job->status.created_ms,
        .first_started_ms = job->status.first_started_ms,
        .traceparent = trace_kept(job->spec.policy),
        .arm = job->status.epoch == 0 ? arm_kept(job->spec.policy) : (struct str){0},
    };
}

static struct str keep(struct engine *e, struct str s)
{
    return s.ptr ? arena_str(&e->arena, s) : s;
}

void event_add(struct engine *e, const struct engine_event *event)
{
    e->touched = true;
    if (e->n_events == e->events_capacity) {
        size_t capacity = e->events_capacity ? e->events_capacity * 2 : 64;
        struct engine_event *grown = realloc(e->events, capacity * sizeof *grown);
        if (!grown) {
            e->arena.failed = true;
            return;
        }
        e->events = grown;
        e->events_capacity = capacity;
    }
    struct engine_event *own = &e->events[e->n_events++];
    *own = *event;
    own->tenant = keep(e, event->tenant);
    own->id = keep(e, event->id);
    own->task = keep(e, event->task);
    own->queue = keep(e, event->queue);
    own->worker = keep(e, event->worker);
    own->traceparent = keep(e, event->traceparent);
    own->arm = keep(e, event->arm);
    own->message = keep(e, event->message);
    own->breaker = keep(e, event->breaker);
}

void event_add_breaker(struct engine *e, const struct gate *gate)
{
    struct redrive_breaker_status status;
    if (gate->kind != SHARED_BREAKER || gate->breaker.state == gate->saved.state)
        return;
    breaker_status(&gate->breaker, &gate->breaker_config, e->now_ms, &status);
    event_add(e, &(struct engine_event){
                     .kind = ENGINE_EVENT_BREAKER,
                     .at_ms = e->now_ms,
                     .tenant = str_of(gate->tenant),
                     .breaker = str_of(gate->key),
                     .was = gate->saved.state,
                     .state = status.state,
                     .failures = status.failure_count,
                     .rate = status.rate,
                     .next_probe_ms = status.next_probe_ms,
                 });
}

/* ---- Counters -------------------------------------------------------------------------------
 *
 * One number in all, and one for each partition (queue and task) and class that had a part in it.
 * What workers have done stands in their own rows: they come and go, and counters stay for ever. A
 * transaction has many events that count alike, so they are gathered first, and counted once a
 * group.
 */
#define PARTITION "partition:"

bool counter_partition(struct str label, struct str *ret_queue, struct str *ret_task)
{
    const struct str prefix = STR(PARTITION);
    if (!str_starts_with(label, prefix))
        return false;
    const struct str name = {label.ptr + prefix.len, label.len - prefix.len};
    const char *slash = memchr(name.ptr, '/', name.len);
    if (!slash)
        return false;
    *ret_queue = (struct str){name.ptr, (size_t)(slash - name.ptr)};
    *ret_task = (struct str){slash + 1, name.len - ret_queue->len - 1};
    return true;
}

struct group {
    const struct engine_event *event; /* the first of them; NULL: a free slot */
    uint64_t hash;
    int64_t n;
};

static uint64_t group_hash(const struct engine_event *event, uint64_t seed)
{
    uint64_t hash = (uint64_t)event->kind << 16 | (uint64_t)event->class_ << 8 |
                    (uint64_t)event->ran << 1 | event->unclassified;
    hash = rng_hash(event->tenant.ptr, event->tenant.len, seed ^ hash);
    hash = rng_hash(event->task.ptr, event->task.len, hash);
    return rng_hash(event->queue.ptr, event->queue.len, hash);
}

static bool counts_alike(const struct engine_event *a, const struct engine_event *b)
{
    return a->kind == b->kind && a->class_ == b->class_ && a->ran == b->ran &&
           a->unclassified == b->unclassified && str_eq(a->tenant, b->tenant) &&
           str_eq(a->task, b->task) && str_eq(a->queue, b->queue);
}

/* Open addressing, at most half full, in the transaction's arena; NULL without memory. */
static struct group *gather(struct engine *e, size_t *ret_slots)
{
    size_t slots = 2;
    while (slots < 2 * e->n_events)
        slots *= 2;
    struct group *groups = arena_array(&e->arena, slots, sizeof *groups);
    for (size_t i = 0; groups && i < e->n_events; i++) {
        const struct engine_event *event = &e->events[i];
        uint64_t hash = group_hash(event, e->map_seed);
        size_t at = hash & (slots - 1);
        while (groups[at].event &&
               (groups[at].hash != hash || !counts_alike(groups[at].event, event)))
            at = (at + 1) & (slots - 1);
        if (!groups[at].event)
            groups[at] = (struct group){.event = event, .hash = hash};
        groups[at].n++;
    }
    *ret_slots = slots;
    return groups;
}

struct totals {
    struct engine *e;
    struct map map; /* tenant, name, label → struct counter in the arena */
    struct buf key;
    int failed;
};

/* The key begins with the label. */
static void count(struct totals *t, int64_t n, struct str tenant, const char *name)
{
    size_t label_len = t->key.len;
    (void)buf_putc(&t->key, '\0');
    (void)buf_puts(&t->key, name);
    (void)buf_putc(&t->key, '\0');
    (void)buf_add_str(&t->key, tenant);
    struct counter *counter = buf_failed(&t->key) ? NULL : map_get(&t->map, buf_str(&t->key));
    if (!counter && !buf_failed(&t->key)) {
        counter = arena_alloc(&t->e->arena, sizeof *counter);
        struct str text = arena_str(&t->e->arena, (struct str){t->key.data, label_len});
        if (counter && map_put(&t->map, buf_str(&t->key), counter) == 0)
            *counter = (struct counter){.tenant = tenant, .name = str_of(name), .label = text};
        else
            counter = NULL;
    }
    if (counter)
        counter->value += n;
    else
        t->failed = REDRIVE_E_NOMEM;
}

static void count_in_partition(struct totals *t, int64_t n, const struct engine_event *event,
                               const char *name)
{
    buf_reset(&t->key);
    (void)buf_puts(&t->key, PARTITION);
    (void)buf_add_str(&t->key, event->queue);
    (void)buf_putc(&t->key, '/');
    (void)buf_add_str(&t->key, event->task);
    count(t, n, event->tenant, name);
}

/* Whether an attempt has ended with it, in success or in failure. */
static bool is_run(const struct engine_event *event)
{
    return event->ran &&
           (event->kind == ENGINE_EVENT_COMPLETED || event->class_ != REDRIVE_CLASS_SUCCESS);
}

static void count_event(struct totals *t, const struct engine_event *event, int64_t n)
{
    const char *name = KINDS[event->kind].counter;
    const bool ends = event->kind == ENGINE_EVENT_DEAD || event->kind == ENGINE_EVENT_FAILED;
    buf_reset(&t->key);
    count(t, n, event->tenant, name);
    count_in_partition(t, n, event, name);
    if (ends && !is_run(event))
        count_in_partition(t, n, event, COUNTER_WITHOUT_RUN);
    else if (is_run(event) && class_blames_the_job(event->class_))
        count_in_partition(t, n, event, COUNTER_OWN_FAULT);
    if (event->class_ != REDRIVE_CLASS_SUCCESS) {
        buf_reset(&t->key);
        (void)buf_printf(&t->key, "class:%s", redrive_class_name(event->class_));
        count(t, n, event->tenant, name);
    }
    if (event->unclassified) {
        buf_reset(&t->key);
        count(t, n, event->tenant, "unclassified");
    }
}

/* Jobs of experiments: their arm has figures of its own. */
static void count_arm(struct totals *t, const struct engine_event *event)
{
    const struct arm_figures figures = arm_event_figures(event);
    for (size_t i = 0; i < ARM_COUNTERS; i++) {
        const int64_t n =
            *(const int64_t *)(const void *)((const char *)&figures + ARM_COUNTER[i].offset);
        if (n == 0)
            continue;
        buf_reset(&t->key);
        (void)buf_puts(&t->key, ARM_LABEL);
        (void)buf_add_str(&t->key, event->arm);
        count(t, n, event->tenant, ARM_COUNTER[i].name);
    }
}

int events_count(struct engine *e, struct redrive_err *err)
{
    struct totals t = {.e = e};
    size_t slots, n = 0;
    int rc = 0;
    if (e->n_events == 0)
        return 0;
    const struct group *groups = e->arena.failed ? NULL : gather(e, &slots);
    if (!groups)
        return err_nomem(err);
    map_init(&t.map, e->map_seed);
    buf_init(&t.key, 4u * 1024 * 1024);
    for (size_t i = 0; i < slots; i++)
        if (groups[i].event && *KINDS[groups[i].event->kind].counter)
            count_event(&t, groups[i].event, groups[i].n);
    for (size_t i = 0; i < e->n_events; i++)
        if (e->events[i].arm.len > 0)
            count_arm(&t, &e->events[i]);
    struct counter *all = arena_array(&e->arena, t.map.count, sizeof *all);
    MAP_FOREACH (&t.map, slot)
        if (all)
            all[n++] = *(const struct counter *)slot->value;
    if (t.failed || !all || e->arena.failed)
        rc = err_nomem(err);
    else
        rc = e->ops->counters_add(e->store, all, n, err);
    map_release(&t.map);
    buf_release(&t.key);
    return rc;
}

/* ---- After the commit ------------------------------------------------------------------------ */

/* The way of a job without a failure is one line at `info`, its end, and if the options say so a
 * second one, its start; the other steps are for debugging. A failure is a warning as long as there
 * is another try, unless the table says that it is worse than that. */
static enum log_level level_of(const struct engine *e, const struct engine_event *event)
{
    if (event->kind == ENGINE_EVENT_DEAD || event->kind == ENGINE_EVENT_FAILED)
        return LOG_LEVEL_ERROR;
    if (event->class_ != REDRIVE_CLASS_SUCCESS)
        return event->severity >= REDRIVE_SEVERITY_CRITICAL ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING;
    if (event->kind == ENGINE_EVENT_STARTED)
        return e->options.starts_at_info ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
    if (event->kind == ENGINE_EVENT_SUBMITTED || event->kind == ENGINE_EVENT_PARKED)
        return LOG_LEVEL_DEBUG;
    return LOG_LEVEL_INFO;
}

/* A probe that goes out is seen by its run; one that failed is what an open breaker expects. */
static enum log_level level_of_breaker(const struct engine_event *event)
{
    switch (event->state) {
    case REDRIVE_BREAKER_OPEN:
        return event->was == REDRIVE_BREAKER_HALF_OPEN ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING;
    case REDRIVE_BREAKER_FORCED_OPEN: return LOG_LEVEL_WARNING;
    case REDRIVE_BREAKER_HALF_OPEN: return LOG_LEVEL_DEBUG;
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_DISABLED:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return LOG_LEVEL_INFO;
    }
}

static void log_breaker(const struct log *log, const struct engine_event *event)
{
    struct log_field fields[7];
    size_t n = 0;
    fields[n++] = LOG_STR("breaker", event->breaker);
    fields[n++] = LOG_STR("tenant", event->tenant);
    fields[n++] = LOG_S("state", redrive_breaker_state_name(event->state));
    fields[n++] = LOG_S("previous_state", redrive_breaker_state_name(event->was));
    fields[n++] = LOG_I("failure_count", event->failures);
    if (event->rate >= 0)
        fields[n++] = LOG_D("failure_rate", event->rate);
    if (event->next_probe_ms > event->at_ms)
        fields[n++] = LOG_I("next_probe_in_ms", event->next_probe_ms - event->at_ms);
    log_write(log, level_of_breaker(event), event->at_ms, engine_event_name(event->kind), fields,
              n);
}

static void log_job(const struct engine *e, const struct log *log, const struct engine_event *event)
{
    struct log_field fields[13];
    size_t n = 0;
    enum log_level level = level_of(e, event);
    if (!log_wants(log, level))
        return;
    fields[n++] = LOG_STR("job_id", event->id);
    fields[n++] = LOG_STR("task", event->task);
    fields[n++] = LOG_STR("queue", event->queue);
    fields[n++] = LOG_STR("tenant", event->tenant);
    if (event->worker.len > 0)
        fields[n++] = LOG_STR("worker", event->worker);
    fields[n++] = LOG_I("attempt", event->attempt);
    fields[n++] = LOG_I("max_attempts", event->max_attempts);
    if (event->kind == ENGINE_EVENT_STARTED)
        fields[n++] = LOG_I("wait_ms", event->wait_ms);
    if (event->ran)
        fields[n++] = LOG_I("duration_ms", event->run_ms);
    if (event->kind == ENGINE_EVENT_RETRYING || event->delay_ms > 0)
        fields[n++] = LOG_I("delay_ms", event->delay_ms);
    if (event->class_ != REDRIVE_CLASS_SUCCESS)
        fields[n++] = LOG_S("class", redrive_class_name(event->class_));
    if (event->reason != REDRIVE_REASON_NONE)
        fields[n++] = LOG_S("reason", redrive_reason_name(event->reason));
    if (event->message.len > 0)
        fields[n++] = LOG_STR("error", event->message);
    log_write(log, level, event->at_ms, engine_event_name(event->kind), fields, n);
}

void events_publish(struct engine *e)
{
    struct log_gather gather;
    const struct log *log = log_gather_begin(&gather, e->options.log);
    for (size_t i = 0; i < e->n_events; i++) {
        const struct engine_event *event = &e->events[i];
        bool success = event->kind == ENGINE_EVENT_COMPLETED;
        if (is_run(event)) {
            e->runs++;
            e->failed_runs += !success;
            health_record(&e->health, event->class_, (double)event->run_ms, event->at_ms);
            quantile_add(&e->run_time, (double)event->run_ms, event->at_ms);
        }
        if (event->kind == ENGINE_EVENT_BREAKER)
            log_breaker(log, event);
        else
            log_job(e, log, event);
        if (e->options.on_event)
            e->options.on_event(event, e->options.event_ctx);
    }
    log_gather_end(&gather);
    e->n_events = 0;
}
