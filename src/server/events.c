/* events.c - the ring of events, the clients, and the thread that writes to them. */
#include "server/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/mem/list.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "store/job_json.h"

#define MESSAGE_MAX_BYTES 1024

/* Of one write: it ends with the event that passes the first. */
#define CHUNK_BYTES     (64u * 1024)
#define CHUNK_MAX_BYTES (256u * 1024)

/* Events that are looked at while the committer may have to wait for the ring: to be written, or
 * only to be counted. */
#define LOOK_AT     128
#define COUNT_UP_TO 4096

/* Between two writes to a client that is behind. */
#define PAUSE_NS 2000000

/* How long a client waits before it reconnects, in ms. */
#define HELLO "retry: 2000\n\n"

/* The strings of an event lie one behind the other. */
struct kept {
    struct engine_event event; /* its strings point into `text` */
    char *text;
    size_t capacity;
};

struct client {
    struct list link;
    struct event_sink sink;
    struct event_filter filter; /* its strings are the client's */
    uint64_t next_id;
    uint64_t n_checks; /* of the hub's, when it was last found to be allowed */
    bool is_new;
    bool wants_reset;
    int64_t quiet_since_ms;
    int64_t next_digest_ms;              /* none before that */
    uint32_t counts[ENGINE_EVENT_COUNT]; /* for the next digest */
    char names[];
};

struct event_hub {
    int64_t keep_alive_ms;
    size_t capacity;
    struct buf out; /* the thread's */
    pthread_t thread;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct kept *ring; /* event n is at n % capacity */
    uint64_t first_id;
    uint64_t next_id;
    struct list clients; /* taken out by the thread only */
    size_t n_clients;
    uint64_t n_joined;     /* ever */
    uint64_t n_checks;     /* how often all clients had to be looked at */
    int64_t digest_due_ms; /* of a client that waits for its next digest; INT64_MAX: none */
    bool is_stopping;
};

/* ---- The ring -------------------------------------------------------------------------------- */

static uint64_t oldest_id(const struct event_hub *hub)
{
    uint64_t kept = hub->next_id - hub->first_id;
    return hub->next_id - (kept < hub->capacity ? kept : hub->capacity);
}

static struct str keep(char **at, struct str s)
{
    struct str kept = {*at, s.len};
    if (!s.ptr)
        return s;
    memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return kept;
}

/* False without memory. */
static bool copy(struct kept *slot, const struct engine_event *event)
{
    char message[MESSAGE_MAX_BYTES];
    (void)str_copy(message, sizeof message, event->message);
    const struct str cut = {event->message.ptr ? message : NULL, strlen(message)};
    const size_t need = event->tenant.len + event->id.len + event->task.len + event->queue.len +
                        event->worker.len + event->breaker.len + cut.len;
    if (need > slot->capacity) {
        char *grown = realloc(slot->text, need + need / 2);
        if (!grown)
            return false;
        slot->text = grown;
        slot->capacity = need + need / 2;
    }
    char *at = slot->text;
    slot->event = *event;
    slot->event.tenant = keep(&at, event->tenant);
    slot->event.id = keep(&at, event->id);
    slot->event.task = keep(&at, event->task);
    slot->event.queue = keep(&at, event->queue);
    slot->event.worker = keep(&at, event->worker);
    slot->event.breaker = keep(&at, event->breaker);
    slot->event.message = keep(&at, cut);
    slot->event.traceparent = (struct str){0}; /* no client is sent it */
    return true;
}

void event_hub_event(const struct engine_event *event, void *ctx)
{
    struct event_hub *hub = ctx;
    HOLD(&hub->mutex);
    struct kept *slot = &hub->ring[hub->next_id % hub->capacity];
    /* An event that could not be stored has no tenant, so it is sent to no client. */
    if (!copy(slot, event))
        slot->event = (struct engine_event){0};
    hub->next_id++;
    if (hub->n_clients > 0)
        pthread_cond_signal(&hub->wake);
}

/* ---- A client -------------------------------------------------------------------------------- */

static bool wants(const struct client *c, const struct engine_event *event)
{
    const struct event_filter *f = &c->filter;
    return str_eq(event->tenant, f->tenant) && (!f->task.ptr || str_eq(event->task, f->task)) &&
           (f->kinds == 0 || f->kinds & 1u << event->kind);
}

static void field_if(struct json_writer *w, const char *key, struct str value)
{
    if (value.len > 0)
        json_field_string(w, key, value);
}

static void write_job(struct json_writer *w, const struct engine_event *event, bool hides_errors)
{
    json_field_string(w, "job_id", event->id);
    json_field_string(w, "task", event->task);
    json_field_string(w, "queue", event->queue);
    field_if(w, "worker", event->worker);
    json_field_int(w, "attempt", event->attempt);
    json_field_int(w, "max_attempts", event->max_attempts);
    if (event->kind == ENGINE_EVENT_STARTED)
        json_field_int(w, "wait_ms", event->wait_ms);
    if (event->ran)
        json_field_int(w, "duration_ms", event->run_ms);
    if (event->kind == ENGINE_EVENT_RETRYING || event->kind == ENGINE_EVENT_RELEASED)
        json_field_int(w, "delay_ms", event->delay_ms);
    if (event->class_ != REDRIVE_CLASS_SUCCESS)
        json_field_cstr(w, "class", redrive_class_name(event->class_));
    if (event->reason != REDRIVE_REASON_NONE)
        json_field_cstr(w, "reason", redrive_reason_name(event->reason));
    if (!hides_errors)
        field_if(w, "error", event->message);
}

/* Its members are called as in the document of a breaker; those of a job as in the log. */
static void write_breaker(struct json_writer *w, const struct engine_event *event)
{
    json_field_string(w, "key", event->breaker);
    json_field_cstr(w, "state", redrive_breaker_state_name(event->state));
    json_field_cstr(w, "previous_state", redrive_breaker_state_name(event->was));
    json_field_int(w, "failure_count", event->failures);
    json_key(w, "failure_rate");
    if (event->rate < 0)
        json_put_null(w);
    else
        json_put_double(w, event->rate);
    job_write_time(w, "next_probe_at", event->next_probe_ms);
}

static void write_event(uint64_t id, const struct engine_event *event, bool hides_errors,
                        struct buf *out)
{
    struct json_writer w;
    (void)buf_printf(out, "id: %" PRIu64 "\nevent: %s\ndata: ", id, engine_event_name(event->kind));
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "type", engine_event_name(event->kind));
    job_write_time(&w, "at", event->at_ms);
    if (event->kind == ENGINE_EVENT_BREAKER)
        write_breaker(&w, event);
    else
        write_job(&w, event, hides_errors);
    json_end_object(&w);
    (void)buf_puts(out, "\n\n");
}

/* Events that it wants, each as it is. True: there may be more. */
static bool gather_events(struct event_hub *hub, struct client *c)
{
    struct buf *out = &hub->out;
    for (int i = 0; i < LOOK_AT && c->next_id < hub->next_id && out->len < CHUNK_BYTES;
         i++, c->next_id++) {
        const struct engine_event *event = &hub->ring[c->next_id % hub->capacity].event;
        if (wants(c, event))
            write_event(c->next_id, event, c->filter.hides_errors, out);
    }
    return c->next_id < hub->next_id;
}

static void write_digest(struct client *c, struct buf *out)
{
    struct json_writer w;
    (void)buf_printf(out, "id: %" PRIu64 "\nevent: digest\ndata: ", c->next_id - 1);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "type", "digest");
    json_open_object(&w, "counts");
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++)
        if (c->counts[kind] > 0)
            json_field_int(&w, engine_event_name((enum engine_event_kind)kind), c->counts[kind]);
    json_end_object(&w);
    json_end_object(&w);
    (void)buf_puts(out, "\n\n");
    memset(c->counts, 0, sizeof c->counts);
}

/* Counts what there was, so that the ring may go on, and says it when it is time. True: there may
 * be more to count. */
static bool gather_digest(struct event_hub *hub, struct client *c, int64_t now_ms)
{
    bool has_any = false;
    for (int i = 0; i < COUNT_UP_TO && c->next_id < hub->next_id; i++, c->next_id++) {
        const struct engine_event *event = &hub->ring[c->next_id % hub->capacity].event;
        c->counts[event->kind] += wants(c, event);
    }
    if (c->next_id < hub->next_id)
        return true;
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++)
        has_any |= c->counts[kind] > 0;
    if (!has_any)
        return false;
    if (now_ms >= c->next_digest_ms) {
        write_digest(c, &hub->out);
        c->next_digest_ms = now_ms + c->filter.digest_ms;
    } else if (c->next_digest_ms < hub->digest_due_ms) {
        hub->digest_due_ms = c->next_digest_ms;
    }
    return false;
}

/* What is to be sent to it now. The mutex is held. True: there may be more. */
static bool gather(struct event_hub *hub, struct client *c, int64_t now_ms)
{
    struct buf *out = &hub->out;
    buf_reset(out);
    if (c->is_new)
        (void)buf_puts(out, HELLO);
    c->is_new = false;
    if (c->next_id < oldest_id(hub) || c->wants_reset) {
        c->next_id = hub->next_id;
        c->wants_reset = false;
        (void)buf_printf(out, "id: %" PRIu64 "\nevent: reset\ndata: {\"type\":\"reset\"}\n\n",
                         hub->next_id - 1);
    }
    const bool more =
        c->filter.digest_ms > 0 ? gather_digest(hub, c, now_ms) : gather_events(hub, c);
    if (out->len == 0 && now_ms - c->quiet_since_ms >= hub->keep_alive_ms)
        (void)buf_puts(out, ": still here\n\n");
    if (out->len > 0)
        c->quiet_since_ms = now_ms;
    return more;
}

/* The mutex is held. */
static void drop(struct event_hub *hub, struct client *c)
{
    list_remove(&c->link);
    hub->n_clients--;
    pthread_mutex_unlock(&hub->mutex);
    c->sink.close(c->sink.ctx);
    free(c);
    pthread_mutex_lock(&hub->mutex);
}

/* Without the mutex: the callback takes other locks. */
static bool may_listen(struct client *c, uint64_t n_checks)
{
    if (c->n_checks == n_checks)
        return true;
    c->n_checks = n_checks;
    return !c->sink.may_listen || c->sink.may_listen(c->sink.ctx);
}

/* What has been gathered, if anything. False: the client has gone, or it was too much. */
static bool write_out(const struct event_hub *hub, const struct client *c)
{
    if (buf_failed(&hub->out))
        return false;
    return hub->out.len == 0 || c->sink.write(buf_str(&hub->out), c->sink.ctx);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The mutex is held, but not while a client is written to. True: there may be more to do. */
static bool serve_all(struct event_hub *hub)
{
    bool more = false;
    hub->digest_due_ms = INT64_MAX;
    LIST_FOREACH (&hub->clients, link) {
        struct client *c = LIST_ENTRY(link, struct client, link);
        if (hub->is_stopping)
            return false;
        more |= gather(hub, c, clock_monotonic_ms());
        const uint64_t n_checks = hub->n_checks;
        if (hub->out.len == 0 && c->n_checks == n_checks)
            continue;
        pthread_mutex_unlock(&hub->mutex);
        const bool is_there = may_listen(c, n_checks) && write_out(hub, c);
        pthread_mutex_lock(&hub->mutex);
        /* Others may have joined meanwhile, behind the last one. */
        link_next = link->next;
        if (!is_there)
            drop(hub, c);
    }
    return more;
}

static void wait_a_while(struct event_hub *hub)
{
    const int64_t at_ms = clock_monotonic_ms() + hub->keep_alive_ms / 4;
    (void)thread_cond_wait_until(&hub->wake, &hub->mutex,
                                 at_ms < hub->digest_due_ms ? at_ms : hub->digest_due_ms);
}

/* A sink holds a few chunks, and its client has to read them. */
static void breathe(struct event_hub *hub)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    pthread_mutex_unlock(&hub->mutex);
    (void)nanosleep(&pause, NULL);
    pthread_mutex_lock(&hub->mutex);
}

static void *run(void *arg)
{
    struct event_hub *hub = arg;
    HOLD(&hub->mutex);
    while (!hub->is_stopping) {
        uint64_t seen = hub->next_id;
        uint64_t joined = hub->n_joined;
        uint64_t checks = hub->n_checks;
        bool more = serve_all(hub);
        if (more)
            breathe(hub);
        else if (!hub->is_stopping && hub->next_id == seen && hub->n_joined == joined &&
                 hub->n_checks == checks)
            wait_a_while(hub);
    }
    while (!list_empty(&hub->clients))
        drop(hub, LIST_ENTRY(hub->clients.next, struct client, link));
    return NULL;
}

/* ---- Joining --------------------------------------------------------------------------------- */

bool event_id_parse(struct str text, uint64_t *ret)
{
    uint64_t id = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || id > UINT64_MAX / 10 - 1)
            return false;
        id = id * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *ret = id;
    return text.len > 0;
}

void event_hub_recheck(struct event_hub *hub)
{
    HOLD(&hub->mutex);
    hub->n_checks++;
    pthread_cond_signal(&hub->wake);
}

/* The mutex is held. */
static int check_room(const struct event_hub *hub, struct redrive_err *err)
{
    if (hub->is_stopping)
        return err_set(err, REDRIVE_E_STOPPING, "shutting down");
    if (hub->n_clients < EVENT_HUB_MAX_CLIENTS)
        return 0;
    (void)err_set(err, REDRIVE_E_STOPPING, "too many clients listen to events");
    err_detail(err, "at most %d clients may", EVENT_HUB_MAX_CLIENTS);
    return REDRIVE_E_STOPPING;
}

int event_hub_check_room(struct event_hub *hub, struct redrive_err *err)
{
    HOLD(&hub->mutex);
    return check_room(hub, err);
}

int event_hub_join(struct event_hub *hub, const struct event_filter *filter, struct str last_id,
                   const struct event_sink *sink, struct redrive_err *err)
{
    struct client *c = calloc(1, sizeof *c + filter->tenant.len + filter->task.len);
    uint64_t seen;
    if (!c)
        return err_nomem(err);
    char *at = c->names;
    c->sink = *sink;
    c->filter = *filter;
    c->filter.tenant = keep(&at, filter->tenant);
    c->filter.task = keep(&at, filter->task);
    c->is_new = true;
    pthread_mutex_lock(&hub->mutex);
    int rc = check_room(hub, err);
    c->next_id = hub->next_id;
    if (last_id.len > 0 && event_id_parse(last_id, &seen) && seen < hub->next_id)
        c->next_id = seen + 1;
    else
        c->wants_reset = last_id.len > 0;
    if (rc == 0) {
        list_insert(&hub->clients, &c->link);
        hub->n_clients++;
        hub->n_joined++;
        pthread_cond_signal(&hub->wake);
    }
    pthread_mutex_unlock(&hub->mutex);
    if (rc != 0)
        free(c);
    return rc;
}

int event_kinds_parse(struct str names, uint32_t *ret, struct redrive_err *err)
{
    static const char *const NAMES[] = {
#define XX(name, text, counter) text,
        ENGINE_EVENT_MAP(XX)
#undef XX
    };
    *ret = 0;
    while (names.len > 0) {
        const char *comma = memchr(names.ptr, ',', names.len);
        const size_t len = comma ? (size_t)(comma - names.ptr) : names.len;
        const struct str name = str_trim((struct str){names.ptr, len});
        uint32_t kind = 0;
        while (kind < ENGINE_EVENT_COUNT && !str_is(name, NAMES[kind]))
            kind++;
        if (kind == ENGINE_EVENT_COUNT) {
            (void)err_set(err, REDRIVE_E_UNKNOWN, "there is no type of event '%.*s'",
                          (int)(name.len < 64 ? name.len : 64), name.ptr);
            err_suggest(err, suggest(name, NAMES, ENGINE_EVENT_COUNT));
            return REDRIVE_E_UNKNOWN;
        }
        *ret |= 1u << kind;
        names.ptr += comma ? len + 1 : len;
        names.len -= comma ? len + 1 : len;
    }
    return 0;
}

/* ---- Start and end --------------------------------------------------------------------------- */

static void release(struct event_hub *hub)
{
    for (size_t i = 0; hub->ring && i < hub->capacity; i++)
        free(hub->ring[i].text);
    free(hub->ring);
    buf_release(&hub->out);
    pthread_cond_destroy(&hub->wake);
    pthread_mutex_destroy(&hub->mutex);
    free(hub);
}

int event_hub_new(const struct event_hub_options *options, struct event_hub **ret,
                  struct redrive_err *err)
{
    struct event_hub *hub = calloc(1, sizeof *hub);
    *ret = NULL;
    if (!hub)
        return err_nomem(err);
    hub->capacity = options->capacity ? options->capacity : EVENT_HUB_CAPACITY;
    hub->keep_alive_ms = options->keep_alive_ms ? options->keep_alive_ms : EVENT_HUB_KEEP_ALIVE_MS;
    /* A thousand numbers for each millisecond: a process that starts later starts higher. */
    hub->first_id = hub->next_id = (uint64_t)(options->now_ms > 0 ? options->now_ms : 1) * 1000;
    hub->ring = calloc(hub->capacity, sizeof *hub->ring);
    list_init(&hub->clients);
    buf_init(&hub->out, CHUNK_MAX_BYTES);
    pthread_mutex_init(&hub->mutex, NULL);
    thread_cond_init(&hub->wake);
    if (!hub->ring || pthread_create(&hub->thread, NULL, run, hub) != 0) {
        release(hub);
        return err_nomem(err);
    }
    *ret = hub;
    return 0;
}

void event_hub_free(struct event_hub *hub)
{
    if (!hub)
        return;
    pthread_mutex_lock(&hub->mutex);
    hub->is_stopping = true;
    pthread_cond_signal(&hub->wake);
    pthread_mutex_unlock(&hub->mutex);
    pthread_join(hub->thread, NULL);
    release(hub);
}
