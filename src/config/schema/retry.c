/* retry.c - the keys of `retry` and of class rules. */
#include "config/schema/retry.h"

#include <stdio.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

/* ---- Kinds of values that only policies have ------------------------------------------------- */

/* Counts the first run, which max_retries does not. */
static void bind_attempts(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    int32_t attempts = 0;
    TYPE_INT.bind(b, field, node, &attempts);
    if (attempts > 0)
        *(int32_t *)member = attempts - 1;
}

static const char *expects_attempts(const struct field *field, char out[EXPECTS_MAX])
{
    return TYPE_INT.expects(field, out);
}

static const struct field_type TYPE_ATTEMPTS = {FIELD_SCALAR, bind_attempts, NULL,
                                                expects_attempts};

/* A profile is a schedule only: dead letters, and which errors are retried, are not part of it. */
static void bind_profile(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct redrive_policy *policy = member, found;
    struct redrive_err why;

    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
        return;
    }
    if (redrive_policy_profile(&found, node->text.ptr, &why) < 0) {
        char shown[NODE_SHOW_MAX], expects[EXPECTS_MAX];
        struct redrive_err *err =
            bind_error(b, node, "unknown profile %s", node_show(node->text, shown));
        err_detail(err, "expected %s", field->type->expects(field, expects));
        err_hint(err, "%s", why.hint);
        return;
    }
    policy->backoff = found.backoff;
    policy->max_retries = found.max_retries;
    policy->total_timeout_ms = found.total_timeout_ms;
}

static const char *expects_profile(const struct field *field, char out[EXPECTS_MAX])
{
    size_t n, used = 0;
    const struct policy_profile *profiles = policy_profiles(&n);
    (void)field;
    for (size_t i = 0; i < n && used < EXPECTS_MAX; i++)
        used += (size_t)snprintf(out + used, EXPECTS_MAX - used, "%s%s",
                                 i == 0       ? ""
                                 : i + 1 == n ? " or "
                                              : ", ",
                                 profiles[i].name);
    return out;
}

static const struct field_type TYPE_PROFILE = {FIELD_SCALAR, bind_profile, NULL, expects_profile};

/* wait = base · 2^(retries so far), exactly and for as long as it takes. */
static void bind_base_minutes(struct binder *b, const struct field *field, const struct node *node,
                              void *member)
{
    struct redrive_policy *policy = member;
    double minutes = -1;

    TYPE_DOUBLE.bind(b, field, node, &minutes);
    if (minutes < 0)
        return;
    policy->backoff.strategy = REDRIVE_STRATEGY_EXPONENTIAL;
    policy->backoff.initial_delay_ms = (int64_t)(minutes * 60 * 1000 + 0.5);
    policy->backoff.multiplier = 2;
    policy->backoff.max_delay_ms = DURATION_MAX_MS;
    policy->backoff.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_NONE};
    policy->total_timeout_ms = 0;
}

static const char *expects_minutes(const struct field *field, char out[EXPECTS_MAX])
{
    return TYPE_DOUBLE.expects(field, out);
}

static const struct field_type TYPE_BASE_MINUTES = {FIELD_SCALAR, bind_base_minutes, NULL,
                                                    expects_minutes};

/* ---- The table ------------------------------------------------------------------------------- */

/* A strategy of your own is a C function, which no file can name. */
static const char *const STRATEGIES[] = {
    [REDRIVE_STRATEGY_EXPONENTIAL] = "exponential",
    [REDRIVE_STRATEGY_LINEAR] = "linear",
    [REDRIVE_STRATEGY_FIXED] = "fixed",
    [REDRIVE_STRATEGY_IMMEDIATE] = "immediate",
    [REDRIVE_STRATEGY_POLYNOMIAL] = "polynomial",
    [REDRIVE_STRATEGY_DELAYS] = "delays",
    [REDRIVE_STRATEGY_CUSTOM] = NULL,
};

/* A profile given by a flag overrides the keys of the file that it covers. */
static const char *const SCHEDULE[] = {"strategy",
                                       "initial_delay",
                                       "max_delay",
                                       "min_delay",
                                       "multiplier",
                                       "backoff_factor",
                                       "exponent",
                                       "jitter",
                                       "max_retries",
                                       "max_attempts",
                                       "delays",
                                       "total_timeout",
                                       "base_backoff_minutes",
                                       NULL};
static const char *const DOUBLING[] = {"strategy", "multiplier",    "max_delay", "jitter",
                                       "delays",   "total_timeout", NULL};
/* A strategy given by a flag overrides a list of the file. */
static const char *const LIST[] = {"delays", NULL};

#define AT(member) .offset = offsetof(struct redrive_policy, member)

/* A policy and a class rule begin alike, and share the rows of what they begin with. */
_Static_assert(offsetof(struct redrive_policy, backoff) ==
                   offsetof(struct redrive_class_rule, backoff),
               "policy and class rule begin with a backoff");
_Static_assert(offsetof(struct redrive_policy, max_retries) ==
                   offsetof(struct redrive_class_rule, max_retries),
               "policy and class rule go on with max_retries");
#define N_SHARED 11
/* `on` is a key of its own in a file, beside `retry`. */
#define N_IN_FILE 18

static const struct field RETRY_FIELDS[] = {
    {.name = "strategy",
     .type = &TYPE_WORD,
     AT(backoff.strategy),
     .words = STRATEGIES,
     .replaces = LIST,
     .default_text = "exponential",
     .help = "how the delay grows from retry to retry"},
    {.name = "initial_delay",
     .type = &TYPE_DURATION,
     AT(backoff.initial_delay_ms),
     .default_text = "1s",
     .help = "the delay before the first retry"},
    {.name = "max_delay",
     .type = &TYPE_DURATION,
     AT(backoff.max_delay_ms),
     .default_text = "1m",
     .help = "no delay is longer, unless the failing side asks for it"},
    {.name = "min_delay",
     .type = &TYPE_DURATION,
     AT(backoff.min_delay_ms),
     .default_text = "100ms",
     .help = "no delay is shorter, unless the strategy is immediate"},
    {.name = "multiplier",
     .type = &TYPE_DOUBLE,
     AT(backoff.multiplier),
     .min = 1,
     .max = 1000,
     .default_text = "3",
     .help = "exponential: growth from one delay to the next"},
    {.name = "backoff_factor",
     .type = &TYPE_DOUBLE,
     AT(backoff.backoff_factor),
     .min = 0,
     .max = 1e9,
     .default_text = "1.5",
     .help = "linear: seconds added with each retry"},
    {.name = "exponent",
     .type = &TYPE_DOUBLE,
     AT(backoff.exponent),
     .min = 0,
     .max = 10,
     .default_text = "4",
     .help = "polynomial: the power of the retries so far, in seconds"},
    {.name = "jitter",
     .type = &TYPE_JITTER,
     AT(backoff.jitter),
     .default_text = "auto",
     .help = "scatters delays, so that jobs which failed together do not return together; `true` "
             "means `full`, and `auto` the same for exponential and polynomial alone"},
    {.name = "delays",
     .type = &TYPE_DELAYS,
     AT(backoff),
     .help = "each delay by itself, the last one repeated; chooses the strategy `delays`, and "
             "`max_delay` and `min_delay` do not hold for it"},
    {.name = "max_retries",
     .type = &TYPE_INT,
     AT(max_retries),
     .min = 0,
     .max = REDRIVE_MAX_RETRIES,
     .default_text = "5",
     .help = "retries after the first run"},
    {.name = "max_attempts",
     .type = &TYPE_ATTEMPTS,
     AT(max_retries),
     .min = 1,
     .max = REDRIVE_MAX_RETRIES + 1,
     .instead_of = "max_retries",
     .help = "runs in all, in place of `max_retries`, which is one less"},
    {.name = "total_timeout",
     .type = &TYPE_DURATION,
     AT(total_timeout_ms),
     .default_text = "0s",
     .help = "no retry begins later than this after the first start; 0 switches it off"},
    {.name = "enable_dlq",
     .type = &TYPE_BOOL,
     AT(enable_dlq),
     .default_text = "true",
     .help = "whether a job that could not be done is kept as a dead letter"},
    {.name = "dlq_retention_days",
     .type = &TYPE_INT,
     AT(dlq_retention_days),
     .min = 0,
     .max = 36500,
     .default_text = "30",
     .help = "how many days a dead letter is kept; 0: until it is removed by hand"},
    {.name = "retry_on",
     .type = &TYPE_MATCH,
     AT(retry_on),
     .help = "only these failures are retried, even those whose class is not"},
    {.name = "give_up_on",
     .type = &TYPE_MATCH,
     AT(give_up_on),
     .help = "these failures are never retried; beats `retry_on`"},
    {.name = "profile",
     .type = &TYPE_PROFILE,
     .offset = 0,
     .first = true,
     .replaces = SCHEDULE,
     .help = "a named schedule to start from; the other keys change it"},
    {.name = "base_backoff_minutes",
     .type = &TYPE_BASE_MINUTES,
     .offset = 0,
     .min = 0,
     .max = 1e6,
     .first = true,
     .instead_of = "initial_delay",
     .replaces = DOUBLING,
     .help = "this many minutes, doubled with each retry, with no jitter, cap or total timeout"},
    {.name = "on",
     .type = &TYPE_CLASS_RULES,
     .offset = 0,
     .help = "what differs for a failure class"},
};

_Static_assert(sizeof RETRY_FIELDS / sizeof RETRY_FIELDS[0] == N_IN_FILE + 1, "`on` is the last");

/* ---- Checks of several keys together --------------------------------------------------------- */

/* The value to blame for a pair that does not fit: the first of the two that was given here. */
static const struct node *blame(const struct node *map, const char *first, const char *second)
{
    const struct node *node = node_find(map, str_of(first));
    if (!node)
        node = node_find(map, str_of(second));
    return node ? node : map;
}

/* A list beside another strategy; false: the error has been reported. */
static bool check_delays(struct binder *b, const struct node *map)
{
    const struct node *delays = node_find(map, STR("delays"));
    const struct node *strategy = node_find(map, STR("strategy"));
    if (!delays || !strategy || str_is(strategy->text, "delays"))
        return true;
    struct redrive_err *err = bind_error(b, delays, "is a strategy of its own");
    err_detail(err, "'strategy' and 'delays' are given");
    err_hint(err, "keep one of them");
    return false;
}

static void check_backoff(struct binder *b, const struct node *map,
                          const struct redrive_backoff *backoff)
{
    char one[DURATION_TEXT_MAX], other[DURATION_TEXT_MAX];
    struct redrive_err why;

    if (!check_delays(b, map))
        return;

    if (backoff->max_delay_ms < backoff->min_delay_ms) {
        struct redrive_err *err =
            bind_error(b, blame(map, "max_delay", "min_delay"), "max_delay is below min_delay");
        err_detail(err, "max_delay is %s, min_delay is %s",
                   duration_format(backoff->max_delay_ms, one),
                   duration_format(backoff->min_delay_ms, other));
        return;
    }
    if (backoff_check(backoff, "", &why) < 0) {
        bind_error_from(b, map, &why);
        return;
    }
    if (backoff->initial_delay_ms > backoff->max_delay_ms &&
        backoff->strategy != REDRIVE_STRATEGY_IMMEDIATE &&
        backoff->strategy != REDRIVE_STRATEGY_DELAYS) {
        struct redrive_err *warning = bind_warning(b, blame(map, "initial_delay", "max_delay"),
                                                   "initial_delay is above max_delay");
        err_detail(warning, "every delay will be %s", duration_format(backoff->max_delay_ms, one));
        err_hint(warning, "raise max_delay as well");
    }
}

static void finish_policy(struct binder *b, const struct node *map, void *object)
{
    const struct redrive_policy *policy = object;
    check_backoff(b, map, &policy->backoff);
}

static void finish_rule(struct binder *b, const struct node *map, void *object)
{
    const struct redrive_class_rule *rule = object;
    check_backoff(b, map, &rule->backoff);
}

const struct table TABLE_RETRY = {.name = "retry",
                                  .fields = RETRY_FIELDS,
                                  .n_fields = N_IN_FILE,
                                  .size = sizeof(struct redrive_policy),
                                  .finish = finish_policy};

const struct table TABLE_CLASS_RULE = {.name = "on",
                                       .fields = RETRY_FIELDS,
                                       .n_fields = N_SHARED,
                                       .size = sizeof(struct redrive_class_rule),
                                       .finish = finish_rule};

const struct table TABLE_POLICY_JSON = {.name = "policy",
                                        FIELDS(RETRY_FIELDS),
                                        .size = sizeof(struct redrive_policy),
                                        .finish = finish_policy};
