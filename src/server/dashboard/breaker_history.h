/* breaker_history.h - when breakers changed their state, since this server was started.
 *
 * Changes that this process makes are noted as they are committed, by events of the engine. The
 * store has the state of each breaker, and no history, so that changes of other processes are found
 * by reading: this server reads all breakers every ten seconds, and whenever the history is asked
 * for, and notes what has changed since. An opening has its exact time, which the store keeps;
 * other changes that were read have the time at which they were seen, and of a breaker that opened
 * and closed again in between only its opening is noted. The latest changes of all tenants together
 * are kept.
 */
#ifndef SERVER_DASHBOARD_BREAKER_HISTORY_H
#define SERVER_DASHBOARD_BREAKER_HISTORY_H

#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/str.h"
#include "redrive.h"

#define BREAKER_CHANGES_MAX 4000
#define BREAKERS_KNOWN_MAX  20000 /* changes of others are not noted */

struct breaker_history;
struct breaker_page;
struct engine_event;
struct store;

int breaker_history_new(struct breaker_history **ret, struct redrive_err *err);
/* NULL does nothing. */
void breaker_history_free(struct breaker_history *history);

/* Reads the breakers and notes what has changed. A store that cannot be read changes nothing. Any
 * thread. */
int breaker_history_take(struct breaker_history *history, struct store *store, int64_t now_ms,
                         struct redrive_err *err);
/* The same of breakers that have been read, for tests. */
void breaker_history_note(struct breaker_history *history, const struct breaker_page *page,
                          int64_t now_ms);

/* A breaker of this process has changed its state (ENGINE_EVENT_BREAKER). Any thread; does not wait
 * for the store. */
void breaker_history_event(struct breaker_history *history, const struct engine_event *event);

/* When it was first noted; 0: not yet. */
int64_t breaker_history_since_ms(struct breaker_history *history);

/* The tenant's changes of the last `span_ms`, the oldest first, within an array that is open:
 *
 *     {"at":…,"key":…,"previous_state":"closed","state":"open"}
 *
 * Any thread. */
void breaker_history_write(struct breaker_history *history, struct str tenant, int64_t now_ms,
                           int64_t span_ms, struct json_writer *w);

#endif
