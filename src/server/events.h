/* events.h - sends what happens to clients, as server-sent events.
 *
 *     committer's thread                hub's thread
 *     on_event ──► ring of the latest ──► for each client: filter ──► sink (an http_stream)
 *
 * Events get rising numbers and are kept in a ring. Of each client only its position in the ring is
 * kept: a client that reconnects names the last number it has seen and goes on from there. One that
 * asks for what the ring no longer has, or falls so far behind, gets one `reset` instead of what it
 * missed: it should read again what it shows. Numbers go on rising when the process is restarted,
 * so that a client cannot mistake new events for old ones.
 *
 * A client gets the events of one tenant only. One that shows figures, and reads them again when
 * something has changed, asks for digests: a busy server would send it thousands of events for
 * that.
 */
#ifndef SERVER_EVENTS_H
#define SERVER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"
#include "engine/event.h"
#include "redrive.h"

#define EVENT_HUB_CAPACITY      10000
#define EVENT_HUB_MAX_CLIENTS   1000
#define EVENT_HUB_KEEP_ALIVE_MS 15000

struct event_hub_options {
    size_t capacity; /* events that are kept; 0: EVENT_HUB_CAPACITY */
    int64_t
        keep_alive_ms; /* a comment after so long without an event; 0: EVENT_HUB_KEEP_ALIVE_MS */
    int64_t now_ms;    /* wall time, from which the first number is made */
};

struct event_hub;

int event_hub_new(const struct event_hub_options *options, struct event_hub **ret,
                  struct redrive_err *err);
/* Closes all sinks. NULL does nothing. */
void event_hub_free(struct event_hub *hub);

/* An engine_event_fn whose context is the hub: costs a copy. */
void event_hub_event(const struct engine_event *event, void *ctx);

/* Where a client's events go. All are called on the hub's thread, `close` last and once. */
struct event_sink {
    bool (*write)(struct str bytes, void *ctx); /* false: the client has gone, close it */
    void (*close)(void *ctx);
    bool (*may_listen)(void *ctx); /* false: it may not any more, close it; NULL: it always may */
    void *ctx;
};

struct event_filter {
    struct str tenant;
    struct str task;   /* absent: all */
    uint32_t kinds;    /* bits of enum engine_event_kind; 0: all */
    bool hides_errors; /* the messages of errors are left out */
    int64_t digest_ms; /* 0: every event is sent. Else one `digest` of those since the last one, at
                        * most so often: {"type":"digest","counts":{"submitted":3,…}} */
};

/* A new client. `last_id` is the Last-Event-ID that it sent; absent: from now on. On failure (no
 * memory, too many clients) the sink has not been touched. */
int event_hub_join(struct event_hub *hub, const struct event_filter *filter, struct str last_id,
                   const struct event_sink *sink, struct redrive_err *err);

/* Clients may have lost the right to listen: each is looked at before it is written to again. */
void event_hub_recheck(struct event_hub *hub);

/* Whether another one may join: REDRIVE_E_STOPPING if not. It may be different a moment later. */
int event_hub_check_room(struct event_hub *hub, struct redrive_err *err);

/* Reads a Last-Event-ID; false: it is none of ours. */
bool event_id_parse(struct str text, uint64_t *ret);

/* Reads a list of names of events, "completed,dead_letter". REDRIVE_E_UNKNOWN, with the nearest
 * one. */
int event_kinds_parse(struct str names, uint32_t *ret, struct redrive_err *err);

#endif
