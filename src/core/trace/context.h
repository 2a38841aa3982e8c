/* context.h - which trace a job belongs to: `traceparent` of W3C Trace Context, sampling, and the
 * spans of a job's attempts.
 *
 * A trace is known by its id, a span by the ids of its trace and of itself. Here ids are numbers;
 * zero is no id. Bad input is no trace: nothing in this file refuses a job.
 *
 * The ids of attempts are not kept, they are computed from the job: every process that has the job
 * gets the same ones, and so the same answer of the sampler. A job that came with a traceparent is
 * in the trace of its submitter, and each attempt is a child of the submitter's span. A job without
 * one has a trace of its own, which its first attempt begins; the others are children of that
 * attempt. An attempt after the first has a link to the attempt before it.
 *
 * Pure.
 */
#ifndef CORE_TRACE_CONTEXT_H
#define CORE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

/* ---- traceparent ----------------------------------------------------------------------------- */

#define TRACEPARENT_LEN 55

#define TRACE_SAMPLED 0x01
#define TRACE_RANDOM  0x02

struct trace_context {
    uint64_t trace[2]; /* the high half first */
    uint64_t span;
    uint8_t flags; /* TRACE_SAMPLED, TRACE_RANDOM; others are dropped */
};

/* Reads `00-<32 hex digits>-<16>-<2>`, in lower case. Of a later version the known part is read;
 * what follows it must be set off by a dash. False: it is no traceparent, or an id is zero. */
bool traceparent_read(struct str text, struct trace_context *ret);

/* Writes it as version 00, terminated. */
void traceparent_write(const struct trace_context *context, char out[TRACEPARENT_LEN + 1]);

/* ---- Sampling -------------------------------------------------------------------------------- */

struct trace_sampler {
    bool follows_parent; /* where there is one, its flag decides */
    uint64_t threshold; /* the lower 56 bits of a trace's id must be at least that; 2^56: none is */
};

/* By the values of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; absent or empty: its default,
 * parentbased_always_on, and a ratio of 1. CONFIG says what was expected. */
int trace_sampler_read(struct str name, struct str arg, struct trace_sampler *ret,
                       struct redrive_err *err);

/* A span of the same trace; its id is made of 64 random bits. */
struct trace_context trace_child(const struct trace_sampler *sampler,
                                 const struct trace_context *parent, uint64_t random);

/* ---- Attempts -------------------------------------------------------------------------------- */

/* What the ids are made of. */
struct trace_job {
    struct str tenant;
    struct str id;
    int64_t created_ms;
    uint32_t epoch;
    uint32_t attempt; /* from 1 */
    struct str traceparent;
};

struct trace_attempt {
    struct trace_context context; /* its flags say whether it is sampled */
    uint64_t parent;              /* 0: it begins the trace */
    uint64_t previous;            /* the attempt before it; 0: it is the first of its epoch */
};

struct trace_attempt trace_attempt(const struct trace_sampler *sampler,
                                   const struct trace_job *job);

/* The traceparent for the handler of an attempt: of the attempt's own span. Without a sampler
 * attempts are no spans, and the handler gets that of the submitter. False: there is none. */
bool trace_for_handler(const struct trace_sampler *sampler, const struct trace_job *job,
                       char out[TRACEPARENT_LEN + 1]);

/* ---- With the job ------------------------------------------------------------------------------
 *
 * A job keeps its traceparent in the JSON of its own policy, as the first member. Stores, exports
 * and moves keep that text as it is, so that they need not know about traces.
 *
 *     {"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","max_retries":3}
 */

/* Both in one text, in the arena. A text that is no traceparent, or a policy that is no object,
 * leaves the policy as it is. What was kept in it before is replaced. */
struct str trace_keep(struct str traceparent, struct str policy, struct arena *arena);

/* The traceparent that is kept; absent: none. Costs next to nothing. */
struct str trace_kept(struct str policy);

/* The policy's members with their closing brace: what follows the opening one, and the traceparent
 * if there is one. An absent policy has the members `}`. */
struct str trace_policy_members(struct str policy);

/* The policy alone; absent: there is none. Where it is no slice of the text, `out` has it; failures
 * are the buffer's. */
struct str trace_own_policy(struct str policy, struct buf *out);

/* Whether there is anything in it beside a traceparent. */
bool trace_has_policy(struct str policy);

#endif
