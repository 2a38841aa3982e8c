/* context.c - traceparent, sampling, the ids of attempts, and how a job keeps its traceparent. */
#include "core/trace/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"

/* ---- traceparent ----------------------------------------------------------------------------- */

#define VERSION_LEN 2
#define TRACE_AT    3
#define SPAN_AT     36
#define FLAGS_AT    53

static bool read_digits(struct str text, size_t at, size_t n, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + n; i++) {
        const char c = text.ptr[i];
        if (!str_is_digit(c) && !(c >= 'a' && c <= 'f'))
            return false;
        *ret = *ret << 4 | (uint64_t)(str_is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    return true;
}

/* Dashes in their places, and nothing behind that the version does not allow. */
static bool has_form(struct str text)
{
    if (text.len < TRACEPARENT_LEN || text.ptr[VERSION_LEN] != '-' ||
        text.ptr[SPAN_AT - 1] != '-' || text.ptr[FLAGS_AT - 1] != '-')
        return false;
    if (text.len == TRACEPARENT_LEN)
        return true;
    return text.ptr[TRACEPARENT_LEN] == '-' && !str_starts_with(text, STR("00"));
}

bool traceparent_read(struct str text, struct trace_context *ret)
{
    uint64_t version, flags;
    if (!has_form(text) || !read_digits(text, 0, VERSION_LEN, &version) || version == 0xff ||
        !read_digits(text, TRACE_AT, 16, &ret->trace[0]) ||
        !read_digits(text, TRACE_AT + 16, 16, &ret->trace[1]) ||
        !read_digits(text, SPAN_AT, 16, &ret->span) || !read_digits(text, FLAGS_AT, 2, &flags))
        return false;
    ret->flags = (uint8_t)(flags & (TRACE_SAMPLED | TRACE_RANDOM));
    return (ret->trace[0] | ret->trace[1]) != 0 && ret->span != 0;
}

static char *put_digits(char *out, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = "0123456789abcdef"[value >> (4 * (n - 1 - i)) & 15];
    return out + n;
}

void traceparent_write(const struct trace_context *context, char out[TRACEPARENT_LEN + 1])
{
    char *at = put_digits(out, 0, VERSION_LEN);
    *at++ = '-';
    at = put_digits(at, context->trace[0], 16);
    at = put_digits(at, context->trace[1], 16);
    *at++ = '-';
    at = put_digits(at, context->span, 16);
    *at++ = '-';
    at = put_digits(at, context->flags, 2);
    *at = '\0';
}

/* Zero is no id. */
static uint64_t as_id(uint64_t bits)
{
    return bits != 0 ? bits : 1;
}

/* ---- Sampling -------------------------------------------------------------------------------- */

#define TRACE_BITS 56

enum root {
    ROOT_ALL,
    ROOT_NONE,
    ROOT_RATIO,
};

static const struct {
    const char *name;
    bool follows_parent;
    enum root root;
} SAMPLERS[] = {
    {"parentbased_always_on", true, ROOT_ALL},
    {"parentbased_always_off", true, ROOT_NONE},
    {"parentbased_traceidratio", true, ROOT_RATIO},
    {"always_on", false, ROOT_ALL},
    {"always_off", false, ROOT_NONE},
    {"traceidratio", false, ROOT_RATIO},
};
#define N_SAMPLERS (sizeof SAMPLERS / sizeof SAMPLERS[0])

static int refuse_name(struct str name, struct redrive_err *err)
{
    const char *names[N_SAMPLERS];
    for (size_t i = 0; i < N_SAMPLERS; i++)
        names[i] = SAMPLERS[i].name;
    (void)err_set(err, REDRIVE_E_CONFIG, "OTEL_TRACES_SAMPLER: '%.*s' is not known",
                  (int)(name.len < 64 ? name.len : 64), name.ptr);
    err_detail(err, "expected always_on, always_off or traceidratio, with or without parentbased_");
    err_suggest(err, suggest(name, names, N_SAMPLERS));
    return REDRIVE_E_CONFIG;
}

static int read_ratio(struct str arg, double *ret, struct redrive_err *err)
{
    char text[32], *end;
    *ret = 1;
    if (arg.len == 0)
        return 0;
    if (str_copy(text, sizeof text, arg) && (str_is_digit(text[0]) || text[0] == '.')) {
        *ret = strtod(text, &end);
        if (*end == '\0' && *ret <= 1)
            return 0;
    }
    (void)err_set(err, REDRIVE_E_CONFIG, "OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1");
    err_detail(err, "it is '%.*s'", (int)(arg.len < 64 ? arg.len : 64), arg.ptr);
    return REDRIVE_E_CONFIG;
}

int trace_sampler_read(struct str name, struct str arg, struct trace_sampler *ret,
                       struct redrive_err *err)
{
    double ratio = 1;
    size_t i = 0;
    while (name.len > 0 && i < N_SAMPLERS && !str_is(name, SAMPLERS[i].name))
        i++;
    if (i == N_SAMPLERS)
        return refuse_name(name, err);
    if (SAMPLERS[i].root == ROOT_RATIO && read_ratio(arg, &ratio, err) < 0)
        return REDRIVE_E_CONFIG;
    if (SAMPLERS[i].root == ROOT_NONE)
        ratio = 0;
    *ret = (struct trace_sampler){
        .follows_parent = SAMPLERS[i].follows_parent,
        .threshold = (uint64_t)((1 - ratio) * (double)(UINT64_C(1) << TRACE_BITS)),
    };
    return 0;
}

static void decide_sampling(const struct trace_sampler *sampler, bool has_parent,
                            struct trace_context *context)
{
    if (has_parent && sampler->follows_parent)
        return;
    const uint64_t bits = context->trace[1] & ((UINT64_C(1) << TRACE_BITS) - 1);
    context->flags &= (uint8_t)~TRACE_SAMPLED;
    if (bits >= sampler->threshold)
        context->flags |= TRACE_SAMPLED;
}

struct trace_context trace_child(const struct trace_sampler *sampler,
                                 const struct trace_context *parent, uint64_t random)
{
    struct trace_context child = *parent;
    child.span = as_id(random);
    decide_sampling(sampler, true, &child);
    return child;
}

/* ---- Attempts -------------------------------------------------------------------------------- */

/* Of the job, whatever trace it is in. */
static uint64_t job_hash(const struct trace_job *job, uint64_t seed)
{
    seed = rng_mix(seed ^ (uint64_t)job->created_ms);
    return rng_hash(job->id.ptr, job->id.len, rng_hash(job->tenant.ptr, job->tenant.len, seed));
}

static uint64_t span_of(uint64_t hash, uint32_t epoch, uint32_t attempt)
{
    return as_id(rng_mix(hash ^ ((uint64_t)epoch << 32 | attempt)));
}

struct trace_attempt trace_attempt(const struct trace_sampler *sampler, const struct trace_job *job)
{
    struct trace_attempt ret = {0};
    struct trace_context *own = &ret.context;
    const uint64_t hash = job_hash(job, 1);
    const bool has_parent = traceparent_read(job->traceparent, own);
    if (has_parent) {
        ret.parent = own->span;
    } else {
        own->trace[0] = job_hash(job, 2);
        own->trace[1] = as_id(job_hash(job, 3));
        own->flags = TRACE_RANDOM;
        if (job->attempt > 1 || job->epoch > 0)
            ret.parent = span_of(hash, 0, 1);
    }
    own->span = span_of(hash, job->epoch, job->attempt);
    if (job->attempt > 1)
        ret.previous = span_of(hash, job->epoch, job->attempt - 1);
    decide_sampling(sampler, has_parent, own);
    return ret;
}

bool trace_for_handler(const struct trace_sampler *sampler, const struct trace_job *job,
                       char out[TRACEPARENT_LEN + 1])
{
    struct trace_context context;
    if (sampler)
        context = trace_attempt(sampler, job).context;
    else if (!traceparent_read(job->traceparent, &context))
        return false;
    traceparent_write(&context, out);
    return true;
}

/* ---- With the job ---------------------------------------------------------------------------- */

#define KEPT_OPEN "{\"traceparent\":\""
/* With its closing quote. */
#define KEPT_LEN (sizeof KEPT_OPEN - 1 + TRACEPARENT_LEN + 1)

struct str trace_kept(struct str policy)
{
    struct trace_context context;
    if (policy.len <= KEPT_LEN || !str_starts_with(policy, STR(KEPT_OPEN)) ||
        policy.ptr[KEPT_LEN - 1] != '"')
        return (struct str){0};
    const struct str kept = {policy.ptr + sizeof KEPT_OPEN - 1, TRACEPARENT_LEN};
    return traceparent_read(kept, &context) ? kept : (struct str){0};
}

struct str trace_policy_members(struct str policy)
{
    size_t skip = 1;
    policy = str_trim(policy);
    if (policy.len == 0)
        return STR("}");
    if (trace_kept(policy).len > 0)
        skip = policy.ptr[KEPT_LEN] == ',' ? KEPT_LEN + 1 : KEPT_LEN;
    return str_trim((struct str){policy.ptr + skip, policy.len - skip});
}

bool trace_has_policy(struct str policy)
{
    policy = str_trim(policy);
    return policy.len > 0 && (policy.ptr[0] != '{' || !str_is(trace_policy_members(policy), "}"));
}

struct str trace_own_policy(struct str policy, struct buf *out)
{
    if (trace_kept(policy).len == 0)
        return policy;
    if (!trace_has_policy(policy))
        return (struct str){0};
    (void)buf_putc(out, '{');
    (void)buf_add_str(out, trace_policy_members(policy));
    return buf_str(out);
}

struct str trace_keep(struct str traceparent, struct str policy, struct arena *arena)
{
    struct trace_context context;
    char text[TRACEPARENT_LEN + 1];
    policy = str_trim(policy);
    if (!traceparent_read(traceparent, &context) || (policy.len > 0 && policy.ptr[0] != '{'))
        return policy;
    traceparent_write(&context, text);
    const struct str members = trace_policy_members(policy);
    const char *kept = arena_printf(arena, KEPT_OPEN "%s\"%s%.*s", text,
                                    members.len > 0 && members.ptr[0] == '}' ? "" : ",",
                                    (int)members.len, members.ptr);
    return kept ? str_of(kept) : policy;
}
