/* breaker.c - the keys of `breaker`. */
#include "config/schema/breaker.h"

#include "base/err.h"
#include "base/time/duration.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/breaker/breaker.h"

#define AT(member) .offset = offsetof(struct config_breaker, config.member)

/* The rows serve struct redrive_breaker_config as well, which is what config_breaker begins with.
 */
_Static_assert(offsetof(struct config_breaker, config) == 0, "a breaker begins with its numbers");
#define N_WITHOUT_KEY 18

static const struct field BREAKER_FIELDS[] = {
    {.name = "failure_threshold",
     .type = &TYPE_INT,
     AT(failure_threshold),
     .min = 0,
     .max = 1e9,
     .default_text = "5",
     .help = "so many counted failures in a row open it; 0: rule off"},
    {.name = "failure_rate",
     .type = &TYPE_DOUBLE,
     AT(failure_rate),
     .min = 0,
     .max = 1,
     .default_text = "0.5",
     .help = "this share of failures in the window opens it; 0: rule off"},
    {.name = "min_calls",
     .type = &TYPE_INT,
     AT(min_calls),
     .min = 1,
     .max = 1e9,
     .default_text = "20",
     .help = "fewer calls in the window prove nothing"},
    {.name = "window",
     .type = &TYPE_DURATION,
     AT(window_ms),
     .min = BREAKER_BUCKETS,
     .default_text = "10s",
     .help = "how far `failure_rate` and `slow_rate` look back"},
    {.name = "window_calls",
     .type = &TYPE_INT,
     AT(window_calls),
     .min = 0,
     .max = REDRIVE_MAX_WINDOW_CALLS,
     .default_text = "0",
     .help = "look back on the last so many calls instead; 0: on `window`"},
    {.name = "slow_call",
     .type = &TYPE_DURATION,
     AT(slow_call_ms),
     .min = 0,
     .default_text = "0s",
     .help = "a call that takes longer is slow; 0: rule off"},
    {.name = "slow_rate",
     .type = &TYPE_DOUBLE,
     AT(slow_rate),
     .min = 0,
     .max = 1,
     .default_text = "0.5",
     .help = "this share of slow calls in the window opens it; 0: rule off"},
    {.name = "recovery_timeout",
     .type = &TYPE_DURATION,
     AT(recovery_timeout_ms),
     .min = 1,
     .default_text = "30s",
     .help = "it stays open this long before a probe may go"},
    {.name = "recovery_multiplier",
     .type = &TYPE_DOUBLE,
     AT(recovery_multiplier),
     .min = 1,
     .max = 1000,
     .default_text = "1",
     .help = "growth of that time with each failed probe"},
    {.name = "recovery_max",
     .type = &TYPE_DURATION,
     AT(recovery_max_ms),
     .min = 1,
     .default_text = "5m",
     .help = "where that growth ends"},
    {.name = "recovery_jitter",
     .type = &TYPE_DOUBLE,
     AT(recovery_jitter),
     .min = 0,
     .max = 1,
     .default_text = "0.1",
     .help = "0.1 scatters that time by 10 % both ways"},
    {.name = "half_open_max",
     .type = &TYPE_INT,
     AT(half_open_max),
     .min = 1,
     .max = REDRIVE_MAX_PROBES,
     .default_text = "1",
     .help = "probes that are out at one time"},
    {.name = "success_threshold",
     .type = &TYPE_INT,
     AT(success_threshold),
     .min = 1,
     .max = 1e9,
     .default_text = "1",
     .help = "so many successful probes close it"},
    {.name = "half_open_rate",
     .type = &TYPE_DOUBLE,
     AT(half_open_rate),
     .min = 0,
     .max = 1,
     .default_text = "0",
     .help = "judge `half_open_max` probes together: this share of failures opens it again, less "
             "closes it; 0: rule off"},
    {.name = "probe_lease",
     .type = &TYPE_DURATION,
     AT(probe_lease_ms),
     .min = 1,
     .default_text = "30s",
     .help = "a probe without a result for this long has failed"},
    {.name = "on_open",
     .type = &TYPE_VOCABULARY,
     AT(on_open),
     .vocabulary = VOCABULARY_ON_OPEN,
     .default_text = "park",
     .help = "jobs wait and use no attempt, end as dead letters, or are refused at submit"},
    {.name = "release_rate",
     .type = &TYPE_DOUBLE,
     AT(release_rate),
     .min = 1,
     .max = 1e9,
     .default_text = "10",
     .help = "jobs a second that are let go once it has closed"},
    {.name = "release_growth",
     .type = &TYPE_DOUBLE,
     AT(release_growth),
     .min = 0,
     .max = 1e9,
     .default_text = "10",
     .help = "added to that with each second without failures"},
    {.name = "key",
     .type = &TYPE_TEMPLATE,
     .offset = offsetof(struct config_breaker, key),
     .default_text = "{task}",
     .help = "jobs with the same key share a breaker"},
};

_Static_assert(sizeof BREAKER_FIELDS / sizeof BREAKER_FIELDS[0] == N_WITHOUT_KEY + 1,
               "`key` is the last");

static void finish(struct binder *b, const struct node *map, void *object)
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
                                    .finish = finish};

const struct table TABLE_BREAKER_JSON = {.name = "breaker",
                                         .fields = BREAKER_FIELDS,
                                         .n_fields = N_WITHOUT_KEY,
                                         .size = sizeof(struct redrive_breaker_config),
                                         .finish = finish};
