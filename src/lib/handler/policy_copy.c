/* policy_copy.c - copies a policy with its rules and lists into one block. */
#include "lib/handler/policy_copy.h"

#include <stdalign.h>
#include <stdlib.h>

#include "lib/pack.h"

static void pack_match(struct pack *p, struct redrive_match *match)
{
    const char *const *types = match->types;
    size_t n = match->n_types;
    const char **copy = pack_bytes(p, types, n * sizeof *types, alignof(const char *));
    for (size_t i = 0; i < n; i++) {
        const char *type = pack_str(p, types[i]);
        if (copy)
            copy[i] = type;
    }
    match->types = copy;
}

static void pack_delays(struct pack *p, struct redrive_backoff *backoff)
{
    backoff->delays_ms =
        pack_bytes(p, backoff->delays_ms, backoff->n_delays * sizeof(int64_t), alignof(int64_t));
}

static void pack_rule(struct pack *p, const struct redrive_class_rule **rule)
{
    struct redrive_class_rule scratch = **rule;
    struct redrive_class_rule *copy = pack_bytes(p, *rule, sizeof **rule, alignof(max_align_t));
    pack_delays(p, copy ? &copy->backoff : &scratch.backoff);
    *rule = copy;
}

/* The policy comes first in its block. */
static void pack_policy(struct pack *p, const struct redrive_policy *policy)
{
    struct redrive_policy scratch = *policy;
    struct redrive_policy *copy = pack_bytes(p, policy, sizeof *policy, alignof(max_align_t));
    if (!copy)
        copy = &scratch;
    for (int c = 0; c < REDRIVE_CLASS_COUNT; c++)
        if (policy->on[c])
            pack_rule(p, &copy->on[c]);
    pack_delays(p, &copy->backoff);
    pack_match(p, &copy->retry_on);
    pack_match(p, &copy->give_up_on);
}

struct redrive_policy *policy_copy(const struct redrive_policy *policy)
{
    struct pack measured = {0};
    pack_policy(&measured, policy);
    struct redrive_policy *copy = malloc(measured.size);
    if (copy)
        pack_policy(&(struct pack){.base = (char *)copy}, policy);
    return copy;
}
