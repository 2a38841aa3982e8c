/* breaker_history.c - compares breakers with what they were, and keeps the differences. */
#include "server/dashboard/breaker_history.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "engine/event.h"
#include "engine/gates/view.h"
#include "store/job_json.h"

#define NAME_MAX_BYTES 4096

/* A breaker as it was last seen. It stays until the history goes, so that changes point to it. */
struct known {
    enum redrive_breaker_state state;
    int64_t opened_ms;
    int64_t seen_ms;
    int64_t told_ns; /* monotonic: when an event of this process told of it last; 0: never */
    struct str tenant;
    struct str key;
    char text[];
};

struct change {
    int64_t at_ms;
    const struct known *breaker;
    enum redrive_breaker_state was;
    enum redrive_breaker_state state;
};

struct breaker_history {
    pthread_mutex_t taking; /* held from the read to the note, so that no older read comes later */
    pthread_mutex_t mutex;  /* guards what follows */
    struct map known;       /* tenant, zero, key → struct known */
    struct buf name;
    struct change changes[BREAKER_CHANGES_MAX]; /* change n is at n % BREAKER_CHANGES_MAX */
    size_t n_changes;                           /* ever */
    int64_t since_ms;
};

int breaker_history_new(struct breaker_history **ret, struct redrive_err *err)
{
    struct breaker_history *history = calloc(1, sizeof *history);
    *ret = history;
    if (!history)
        return err_nomem(err);
    pthread_mutex_init(&history->taking, NULL);
    pthread_mutex_init(&history->mutex, NULL);
    map_init(&history->known, (uint64_t)clock_monotonic_ns());
    buf_init(&history->name, NAME_MAX_BYTES);
    return 0;
}

void breaker_history_free(struct breaker_history *history)
{
    if (!history)
        return;
    MAP_FOREACH (&history->known, slot)
        free(slot->value);
    map_release(&history->known);
    buf_release(&history->name);
    pthread_mutex_destroy(&history->mutex);
    pthread_mutex_destroy(&history->taking);
    free(history);
}

/* ---- Noting ---------------------------------------------------------------------------------- */

static void add_change(struct breaker_history *history, struct known *breaker, int64_t at_ms,
                       enum redrive_breaker_state state)
{
    history->changes[history->n_changes++ % BREAKER_CHANGES_MAX] =
        (struct change){.at_ms = at_ms, .breaker = breaker, .was = breaker->state, .state = state};
    breaker->state = state;
}

static struct known *add_known(struct breaker_history *history, struct str tenant, struct str key)
{
    const struct str name = buf_str(&history->name);
    if (history->known.count >= BREAKERS_KNOWN_MAX)
        return NULL;
    struct known *known = calloc(1, sizeof *known + name.len);
    if (!known || map_put(&history->known, name, known) < 0) {
        free(known);
        return NULL;
    }
    memcpy(known->text, name.ptr, name.len);
    known->tenant = (struct str){known->text, tenant.len};
    known->key = (struct str){known->text + tenant.len + 1, key.len};
    known->state = REDRIVE_BREAKER_CLOSED;
    return known;
}

/* What it was is closed, for one that is new. */
static struct known *find_known(struct breaker_history *history, struct str tenant, struct str key)
{
    struct buf *name = &history->name;
    buf_reset(name);
    (void)buf_add_str(name, tenant);
    (void)buf_putc(name, '\0');
    (void)buf_add_str(name, key);
    if (buf_failed(name))
        return NULL;
    struct known *known = map_get(&history->known, buf_str(name));
    return known ? known : add_known(history, tenant, key);
}

static bool is_open(enum redrive_breaker_state state)
{
    return state == REDRIVE_BREAKER_OPEN || state == REDRIVE_BREAKER_FORCED_OPEN;
}

/* An opening that has not been noted comes first, at its own time. A new breaker that is closed may
 * have been open long ago. A breaker that an event told of after the read had begun may have been
 * read before that change. */
static void note(struct breaker_history *history, const struct breaker_info *info, int64_t now_ms,
                 int64_t begun_ns)
{
    const enum redrive_breaker_state state = info->status.state;
    const int64_t opened_ms = info->status.opened_at_ms;
    struct known *known = find_known(history, info->tenant, info->key);
    if (!known || known->told_ns >= begun_ns)
        return;
    const bool is_new = known->seen_ms == 0;
    const bool has_opened =
        opened_ms > known->opened_ms && (!is_new || state != REDRIVE_BREAKER_CLOSED);
    if (has_opened && !is_open(known->state))
        add_change(history, known, opened_ms < now_ms ? opened_ms : now_ms,
                   is_open(state) ? state : REDRIVE_BREAKER_OPEN);
    if (known->state != state)
        add_change(history, known, now_ms, state);
    known->opened_ms = opened_ms;
    known->seen_ms = now_ms;
}

static void note_page(struct breaker_history *history, const struct breaker_page *page,
                      int64_t now_ms, int64_t begun_ns)
{
    HOLD(&history->mutex);
    for (size_t i = 0; i < page->n; i++)
        note(history, &page->breakers[i], now_ms, begun_ns);
    if (history->since_ms == 0)
        history->since_ms = now_ms;
}

void breaker_history_note(struct breaker_history *history, const struct breaker_page *page,
                          int64_t now_ms)
{
    note_page(history, page, now_ms, clock_monotonic_ns());
}

/* The first event may be of a breaker that was not read yet: what it was is known by the event. */
void breaker_history_event(struct breaker_history *history, const struct engine_event *event)
{
    HOLD(&history->mutex);
    struct known *known = find_known(history, event->tenant, event->breaker);
    if (!known)
        return;
    known->state = event->was;
    add_change(history, known, event->at_ms, event->state);
    if (is_open(event->state) && event->at_ms > known->opened_ms)
        known->opened_ms = event->at_ms;
    known->seen_ms = event->at_ms;
    known->told_ns = clock_monotonic_ns();
}

int breaker_history_take(struct breaker_history *history, struct store *store, int64_t now_ms,
                         struct redrive_err *err)
{
    RELEASED_BY(breaker_page_release) struct breaker_page page = {0};
    HOLD(&history->taking);
    const int64_t begun_ns = clock_monotonic_ns();
    const int rc = breakers_read(store, (struct str){0}, now_ms, &page, err);
    if (rc == 0)
        note_page(history, &page, now_ms, begun_ns);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int64_t breaker_history_since_ms(struct breaker_history *history)
{
    HOLD(&history->mutex);
    return history->since_ms;
}

static void write_change(struct json_writer *w, const struct change *change)
{
    json_begin_object(w);
    job_write_time(w, "at", change->at_ms);
    json_field_string(w, "key", change->breaker->key);
    json_field_cstr(w, "previous_state", redrive_breaker_state_name(change->was));
    json_field_cstr(w, "state", redrive_breaker_state_name(change->state));
    json_end_object(w);
}

void breaker_history_write(struct breaker_history *history, struct str tenant, int64_t now_ms,
                           int64_t span_ms, struct json_writer *w)
{
    HOLD(&history->mutex);
    const size_t all = history->n_changes;
    for (size_t i = all > BREAKER_CHANGES_MAX ? all - BREAKER_CHANGES_MAX : 0; i < all; i++) {
        const struct change *change = &history->changes[i % BREAKER_CHANGES_MAX];
        if (change->at_ms > now_ms - span_ms && str_eq(change->breaker->tenant, tenant))
            write_change(w, change);
    }
}
