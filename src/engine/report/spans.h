/* spans.h - spans of attempts, made from events.
 *
 * An attempt becomes a span when it has ended and that is committed: whichever worker ran it, also
 * one that was lost. A start that was taken back is none.
 */
#ifndef ENGINE_REPORT_SPANS_H
#define ENGINE_REPORT_SPANS_H

#include "core/trace/span.h"
#include "engine/event.h"

/* An engine_event_fn, but for its context's type; NULL: there is no tracing. */
void spans_event(const struct tracing *tracing, const struct engine_event *event);

#endif
