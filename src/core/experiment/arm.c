/* arm.c - which arm of an experiment a job belongs to, and how the job keeps it. */
#include "core/experiment/arm.h"

#include <string.h>

#include "base/sha256.h"
#include "core/trace/context.h"

bool experiment_name_valid(struct str name)
{
    if (name.len == 0 || name.len > EXPERIMENT_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '.' && c != '-' && c != '_')
            return false;
    }
    return true;
}

/* A number in [0, 1). */
static double point_of(const char *experiment, struct str id)
{
    uint8_t hash[SHA256_BYTES];
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, experiment, strlen(experiment));
    sha256_add(&s, "/", 1);
    sha256_add(&s, id.ptr, id.len);
    sha256_end(&s, hash);
    const uint32_t bits =
        (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
    return bits * 0x1.0p-32;
}

const struct arm *experiment_choose(const struct experiment *experiment, struct str id)
{
    const double point = point_of(experiment->name, id);
    double end = 0;
    size_t i = 0;
    /* The last arm has all that is left, whatever the sum of the shares is rounded to. */
    for (; i + 1 < experiment->n_arms; i++) {
        end += experiment->arms[i].share;
        if (point < end)
            break;
    }
    return &experiment->arms[i];
}

/* ---- With the job ---------------------------------------------------------------------------- */

#define KEPT "\"experiment\":\""

struct str arm_keep(const struct arm *arm, struct str policy, struct arena *arena)
{
    const struct str trace = trace_kept(policy);
    const char *kept = trace.len > 0 ? arena_printf(arena, "{\"traceparent\":\"%.*s\",%s",
                                                    (int)trace.len, trace.ptr, arm->members)
                                     : arena_printf(arena, "{%s", arm->members);
    return str_of(kept);
}

struct str arm_kept(struct str policy)
{
    const struct str none = {0};
    if (policy.len == 0)
        return none;
    const struct str members = trace_policy_members(policy);
    if (!str_starts_with(members, STR(KEPT)))
        return none;
    const char *from = members.ptr + sizeof KEPT - 1;
    const char *quote = memchr(from, '"', members.len - (sizeof KEPT - 1));
    return quote ? (struct str){from, (size_t)(quote - from)} : none;
}

struct str arm_own_policy(struct str policy, struct buf *out)
{
    const struct str kept = arm_kept(policy);
    if (kept.len == 0)
        return trace_own_policy(policy, out);
    const char *rest = kept.ptr + kept.len + 1;
    const char *end = policy.ptr + policy.len;
    rest += rest < end && *rest == ',';
    (void)buf_putc(out, '{');
    (void)buf_add(out, rest, (size_t)(end - rest));
    return buf_str(out);
}

bool arm_split(struct str kept, struct str *ret_experiment, struct str *ret_arm)
{
    const char *slash = kept.len > 0 ? memchr(kept.ptr, '/', kept.len) : NULL;
    if (!slash)
        return false;
    *ret_experiment = (struct str){kept.ptr, (size_t)(slash - kept.ptr)};
    *ret_arm = (struct str){slash + 1, kept.len - ret_experiment->len - 1};
    return experiment_name_valid(*ret_experiment) && experiment_name_valid(*ret_arm);
}
