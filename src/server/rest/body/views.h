/* views.h - what answers look like: one object each, written from rows and results. */
#ifndef SERVER_REST_BODY_VIEWS_H
#define SERVER_REST_BODY_VIEWS_H

#include "base/json/writer.h"
#include "config/config.h"
#include "engine/gates/view.h"
#include "engine/report/edges.h"
#include "engine/verbs/settle.h"
#include "store/store.h"

/* A claimed job: what its worker needs to run and settle it. `sampler`: of its attempt's span;
 * NULL: there is no tracing. `parents_bytes`: of the results of its parents, at most. */
void view_claimed(struct json_writer *w, const struct job *job, const struct trace_sampler *sampler,
                  size_t parents_bytes);

/* What became of one item of a batch: {"id":…,"status":200,"state":…}, or the status of the refusal
 * with an `error`. `decision` (NULL: there is none) and `again_ms` say when it is tried again. */
void view_item(struct json_writer *w, struct str id, const struct move_result *result,
               const struct decision *decision, int64_t again_ms);

/* One that could not be read: the status of its fault, the `error`, the `field`, and what was
 * expected. An absent id is null. */
void view_bad_item(struct json_writer *w, struct str id, const struct redrive_err *err,
                   const char *field);

#endif
