/* retry.c - the keys of `retry`, of class rules, and of `breaker`. */
#include "config/schema/schema.h"

#include <assert.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/breaker/breaker.h"
#include "core/retry/policy.h"

/* ---- Kinds of values that only policies have ------------------------------------------------- */

/* Counts the first run, which max_retries does not. */
static void bind_attempts(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    int32_t attempts = 0;
    bind_as(b, field, &FIELD_UINT, node, &attempts);
    if (attempts > 0)
        *(int32_t *)member = attempts - 1;
}

static const struct field_kind TYPE_ATTEMPTS = {
    .form = FORM_SCALAR, .bind = bind_attempts, .describe = field_describe_whole};

/* A profile is a schedule only: dead letters, and which errors are retried, are not part of it. */
static void bind_profile(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct redrive_policy *policy = member, found;
    struct redrive_err why;

    if (redrive_policy_profile(&found, node->text.ptr, &why) < 0) {
        char shown[NODE_SHOW_MAX];
        struct redrive_err *err =
            bind_error(b, node, "unknown profile %s", node_show(node->text, shown));
        bind_detail(err, field);
        err_hint(err, "%s", why.hint);
        return;
    }
    policy->backoff = found.backoff;
    policy->max_retries = found.max_retries;
    policy->total_timeout_ms = found.total_timeout_ms;
}

static void describe_profile(const struct field_reader *r, const struct field *field,
                             struct buf *out)
{
    enum {
        NAMES_MAX = 16
    };
    const char *names[NAMES_MAX];
    size_t n;
    const struct policy_profile *profiles = policy_profiles(&n);
    (void)r, (void)field;
    assert(n <= NAMES_MAX);
    for (size_t i = 0; i < n; i++)
        names[i] = profiles[i].name;
    field_list_words(names, n, out);
}

static const struct field_kind TYPE_PROFILE = {
    .form = FORM_SCALAR, .bind = bind_profile, .describe = describe_profile};

/* wait = base · 2^(retries so far), exactly and for as long as it takes. */
static void bind_base_minutes(struct binder *b, const struct field *field, const struct node *node,
                              void *member)
{
    struct redrive_policy *policy = member;
    double minutes = -1;

    bind_as(b, field, &FIELD_DOUBLE, node, &minutes);
    if (minutes < 0)
        return;
    policy->backoff.strategy = REDRIVE_STRATEGY_EXPONENTIAL;
    policy->backoff.initial_delay_ms = (int64_t)(minutes * 60 * 1000 + 0.5);
    policy->backoff.multiplier = 2;
    policy->backoff.max_delay_ms = DURATION_MAX_MS;
    policy->backoff.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_NONE};
    policy->total_timeout_ms = 0;
}

static const struct field_kind TYPE_BASE_MINUTES = {
    .form = FORM_SCALAR, .bind = bind_base_minutes, .describe = field_describe_double};

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

#define AT(member) offsetof(struct redrive_policy, member)

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
    ROW("strategy", FIELD_WORD, AT(backoff.strategy), "how the delay grows from retry to retry",
        .words = STRATEGIES, .replaces = LIST, DEFAULT("exponential")),
    ROW("initial_delay", FIELD_SPAN, AT(backoff.initial_delay_ms),
        "the delay before the first retry", DEFAULT("1s")),
    ROW("max_delay", FIELD_SPAN, AT(backoff.max_delay_ms),
        "no delay is longer, unless the failing side asks for it", DEFAULT("1m")),
    ROW("min_delay", FIELD_SPAN, AT(backoff.min_delay_ms),
        "no delay is shorter, unless the strategy is immediate", DEFAULT("100ms")),
    ROW("multiplier", FIELD_DOUBLE, AT(backoff.multiplier),
        "exponential: growth from one delay to the next", DOUBLE_RANGE(1, 1000), DEFAULT("3")),
    ROW("backoff_factor", FIELD_DOUBLE, AT(backoff.backoff_factor),
        "linear: seconds added with each retry", DOUBLE_RANGE(0, 1e9), DEFAULT("1.5")),
    ROW("exponent", FIELD_DOUBLE, AT(backoff.exponent),
        "polynomial: the power of the retries so far, in seconds", DOUBLE_RANGE(0, 10),
        DEFAULT("4")),
    ROW("jitter", TYPE_JITTER, AT(backoff.jitter),
        "scatters delays, so that jobs which failed together do not return together; `true` means "
        "`full`, and `auto` the same for exponential and polynomial alone",
        DEFAULT("auto")),
    ROW("delays", TYPE_DELAYS, AT(backoff),
        "each delay by itself, the last one repeated; chooses the strategy `delays`, and "
        "`max_delay` and `min_delay` do not hold for it"),
    ROW("max_retries", FIELD_UINT, AT(max_retries), "retries after the first run",
        RANGE(0, REDRIVE_MAX_RETRIES), DEFAULT("5")),
    ROW("max_attempts", TYPE_ATTEMPTS, AT(max_retries),
        "runs in all, in place of `max_retries`, which is one less",
        RANGE(1, REDRIVE_MAX_RETRIES + 1), .instead_of = "max_retries"),
    ROW("total_timeout", FIELD_SPAN, AT(total_timeout_ms),
        "no retry begins later than this after the first start; 0 switches it off", DEFAULT("0s")),
    ROW("enable_dlq", FIELD_BOOL, AT(enable_dlq),
        "whether a job that could not be done is kept as a dead letter", DEFAULT("true")),
    ROW("dlq_retention_days", FIELD_UINT, AT(dlq_retention_days),
        "how many days a dead letter is kept; 0: until it is removed by hand", RANGE(0, 36500),
        DEFAULT("30")),
    ROW("retry_on", TYPE_MATCH, AT(retry_on),
        "only these failures are retried, even those whose class is not"),
    ROW("give_up_on", TYPE_MATCH, AT(give_up_on),
        "these failures are never retried; beats `retry_on`"),
    ROW("profile", TYPE_PROFILE, 0, "a named schedule to start from; the other keys change it",
        .first = true, .replaces = SCHEDULE),
    ROW("base_backoff_minutes", TYPE_BASE_MINUTES, 0,
        "this many minutes, doubled with each retry, with no jitter, cap or total timeout",
        DOUBLE_RANGE(0, 1e6), .first = true, .instead_of = "initial_delay", .replaces = DOUBLING),
    ROW("on", TYPE_CLASS_RULES, 0, "what differs for a failure class"),
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

/* ---- Class rules ----------------------------------------------------------------------------- */

static void write_rules(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_policy *policy = member;
    bool any = false;

    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT; class_++) {
        if (!policy->on[class_])
            continue;
        if (!any) {
            json_open_object(w, field->name);
        }
        any = true;
        json_open_object(w, vocabulary_word(VOCABULARY_CLASS, class_));
        table_write(&TABLE_CLASS_RULE, policy->on[class_], w);
        json_end_object(w);
    }
    if (any)
        json_end_object(w);
}

/* Class rules start from a backoff that is known only when all other keys are bound, so binding
 * is left to policy_bind_rules. */
const struct field_kind TYPE_CLASS_RULES = {.form = FORM_PART,
                                            .bind = type_bind_later,
                                            .write = write_rules,
                                            .expects = "a map of failure classes"};

static void check_classes(struct binder *b, const struct node *rules)
{
    size_t n;
    const char *const *classes = type_failure_classes(&n);
    char shown[NODE_SHOW_MAX], path[NODE_PATH_MAX];

    NODE_FOREACH (rules, child) {
        if (vocabulary_find(VOCABULARY_CLASS, child->key) > 0)
            continue;
        struct redrive_err *err =
            bind_key_error(b, child, "unknown class %s in %s", node_show(child->key, shown),
                           node_path(rules, path));
        err_detail(err, "expected transient, rate_limited, network, system, database, permanent, "
                        "validation or authentication");
        err_suggest(err, suggest(child->key, classes, n));
    }
}

/* The key of a scope that says how many retries there are, or NULL. */
static const struct node *find_number(const struct node *scope)
{
    static const char *const KEYS[] = {"max_retries", "max_attempts", "profile"};
    const struct node *found = NULL;
    for (size_t i = 0; scope && !found && i < sizeof KEYS / sizeof KEYS[0]; i++)
        found = node_find(scope, str_of(KEYS[i]));
    return found;
}

static const struct node *rule_of(const struct policy_scope *scope, int class_)
{
    return scope && scope->on
               ? node_find(scope->on, str_of(vocabulary_word(VOCABULARY_CLASS, class_)))
               : NULL;
}

/* Where the number of retries of a class is said; the nearest place counts. */
static const struct node *find_deciding(const struct policy_scope *own,
                                        const struct policy_scope *inherited, int class_)
{
    const struct node *const NEAREST_FIRST[] = {rule_of(own, class_), own->retry,
                                                rule_of(inherited, class_),
                                                inherited ? inherited->retry : NULL};
    const struct node *found = NULL;
    for (size_t i = 0; !found && i < sizeof NEAREST_FIRST / sizeof NEAREST_FIRST[0]; i++)
        found = find_number(NEAREST_FIRST[i]);
    return found;
}

/* "redrive.yaml:7: tasks.mail.retry.max_retries", or the name of a setting. */
static const char *place_of(struct binder *b, const struct node *node)
{
    const char *place = node ? bind_place(b, node) : NULL;
    const size_t len = place ? strlen(place) : 0;
    return len > 2 ? arena_dup(b->arena, (struct str){place, len - 2}) : NULL;
}

static void bind_rule(struct binder *b, struct redrive_policy *policy, int class_,
                      const struct node *inherited, const struct node *own, bool own_policy_counts)
{
    struct redrive_class_rule *rule = arena_alloc(b->arena, sizeof *rule);
    if (!rule)
        return;
    if (policy->on[class_])
        *rule = *policy->on[class_];
    else
        *rule = (struct redrive_class_rule){policy->backoff, -1};
    if (inherited) {
        /* What is wrong with it has been said where it was written. */
        struct binder quiet = *b;
        quiet.report = NULL;
        bind_table(&quiet, &TABLE_CLASS_RULE, inherited, rule);
    }
    if (own_policy_counts)
        rule->max_retries = -1;
    if (own)
        bind_table(b, &TABLE_CLASS_RULE, own, rule);
    policy->on[class_] = rule;
}

void policy_bind_rules(struct binder *b, const struct policy_scope *own,
                       const struct policy_scope *inherited, struct redrive_policy *policy,
                       const char *ret_from[REDRIVE_CLASS_COUNT])
{
    /* Beside it, numbers of rules that come from farther away do not count. */
    const bool own_policy_counts = find_number(own->retry) != NULL;
    if (own->on && own->on->type == NODE_MAP)
        check_classes(b, own->on);
    else if (own->on && !node_is_null(own->on))
        err_detail(bind_error(b, own->on, "found %s", node_kind(own->on)),
                   "expected a map of failure classes");

    for (int class_ = 1; class_ < REDRIVE_CLASS_COUNT; class_++) {
        const struct node *inherited_rule = rule_of(inherited, class_);
        const struct node *own_rule = rule_of(own, class_);
        if (inherited_rule || own_rule || (policy->on[class_] && own_policy_counts))
            bind_rule(b, policy, class_, inherited_rule, own_rule, own_policy_counts);
        if (ret_from)
            ret_from[class_] = place_of(b, find_deciding(own, inherited, class_));
    }
}

/* ---- breaker --------------------------------------------------------------------------------- */

#undef AT
#define AT(member) offsetof(struct config_breaker, config.member)

/* The rows serve struct redrive_breaker_config as well, which is what config_breaker begins with.
 */
_Static_assert(offsetof(struct config_breaker, config) == 0, "a breaker begins with its numbers");
#define N_WITHOUT_KEY 18

static const struct field BREAKER_FIELDS[] = {
    ROW("failure_threshold", FIELD_UINT, AT(failure_threshold),
        "so many counted failures in a row open it; 0: rule off", RANGE(0, 1e9), DEFAULT("5")),
    ROW("failure_rate", FIELD_DOUBLE, AT(failure_rate),
        "this share of failures in the window opens it; 0: rule off", DOUBLE_RANGE(0, 1),
        DEFAULT("0.5")),
    ROW("min_calls", FIELD_UINT, AT(min_calls), "fewer calls in the window prove nothing",
        RANGE(1, 1e9), DEFAULT("20")),
    ROW("window", FIELD_SPAN, AT(window_ms), "how far `failure_rate` and `slow_rate` look back",
        RANGE(BREAKER_BUCKETS, INT64_MAX), DEFAULT("10s")),
    ROW("window_calls", FIELD_UINT, AT(window_calls),
        "look back on the last so many calls instead; 0: on `window`",
        RANGE(0, REDRIVE_MAX_WINDOW_CALLS), DEFAULT("0")),
    ROW("slow_call", FIELD_SPAN, AT(slow_call_ms), "a call that takes longer is slow; 0: rule off",
        DEFAULT("0s")),
    ROW("slow_rate", FIELD_DOUBLE, AT(slow_rate),
        "this share of slow calls in the window opens it; 0: rule off", DOUBLE_RANGE(0, 1),
        DEFAULT("0.5")),
    ROW("recovery_timeout", FIELD_SPAN, AT(recovery_timeout_ms),
        "it stays open this long before a probe may go", RANGE(1, INT64_MAX), DEFAULT("30s")),
    ROW("recovery_multiplier", FIELD_DOUBLE, AT(recovery_multiplier),
        "growth of that time with each failed probe", DOUBLE_RANGE(1, 1000), DEFAULT("1")),
    ROW("recovery_max", FIELD_SPAN, AT(recovery_max_ms), "where that growth ends",
        RANGE(1, INT64_MAX), DEFAULT("5m")),
    ROW("recovery_jitter", FIELD_DOUBLE, AT(recovery_jitter),
        "0.1 scatters that time by 10 % both ways", DOUBLE_RANGE(0, 1), DEFAULT("0.1")),
    ROW("half_open_max", FIELD_UINT, AT(half_open_max), "probes that are out at one time",
        RANGE(1, REDRIVE_MAX_PROBES), DEFAULT("1")),
    ROW("success_threshold", FIELD_UINT, AT(success_threshold),
        "so many successful probes close it", RANGE(1, 1e9), DEFAULT("1")),
    ROW("half_open_rate", FIELD_DOUBLE, AT(half_open_rate),
        "judge `half_open_max` probes together: this share of failures opens it again, less closes "
        "it; 0: rule off",
        DOUBLE_RANGE(0, 1), DEFAULT("0")),
    ROW("probe_lease", FIELD_SPAN, AT(probe_lease_ms),
        "a probe without a result for this long has failed", RANGE(1, INT64_MAX), DEFAULT("30s")),
    ROW("on_open", FIELD_TERM, AT(on_open),
        "jobs wait and use no attempt, end as dead letters, or are refused at submit",
        .vocabulary = VOCABULARY_ON_OPEN, DEFAULT("park")),
    ROW("release_rate", FIELD_DOUBLE, AT(release_rate),
        "jobs a second that are let go once it has closed", DOUBLE_RANGE(1, 1e9), DEFAULT("10")),
    ROW("release_growth", FIELD_DOUBLE, AT(release_growth),
        "added to that with each second without failures", DOUBLE_RANGE(0, 1e9), DEFAULT("10")),
    ROW("key", TYPE_TEMPLATE, offsetof(struct config_breaker, key),
        "jobs with the same key share a breaker", DEFAULT("{task}")),
};

_Static_assert(sizeof BREAKER_FIELDS / sizeof BREAKER_FIELDS[0] == N_WITHOUT_KEY + 1,
               "`key` is the last");

void breaker_init_built_in(struct config_breaker *breaker)
{
    redrive_breaker_config_init(&breaker->config);
    breaker->key = "{task}";
}

static void finish_breaker(struct binder *b, const struct node *map, void *object)
{
    const struct redrive_breaker_config *breaker = object;
    const struct node *longest = node_find(map, STR("recovery_max"));
    char one[DURATION_TEXT_MAX], other[DURATION_TEXT_MAX];
    struct redrive_err why;

    if (longest && breaker->recovery_max_ms < breaker->recovery_timeout_ms) {
        struct redrive_err *err = bind_error(b, longest, "recovery_max is below recovery_timeout");
        err_detail(err, "recovery_max is %s, recovery_timeout is %s",
                   duration_format(breaker->recovery_max_ms, one),
                   duration_format(breaker->recovery_timeout_ms, other));
    } else if (redrive_breaker_config_check(breaker, &why) < 0) {
        bind_error_from(b, map, &why);
    }
}

const struct table TABLE_BREAKER = {.name = "breaker",
                                    FIELDS(BREAKER_FIELDS),
                                    .size = sizeof(struct config_breaker),
                                    .finish = finish_breaker};

const struct table TABLE_BREAKER_JSON = {.name = "breaker",
                                         .fields = BREAKER_FIELDS,
                                         .n_fields = N_WITHOUT_KEY,
                                         .size = sizeof(struct redrive_breaker_config),
                                         .finish = finish_breaker};
