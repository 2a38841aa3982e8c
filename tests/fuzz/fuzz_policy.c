/* Policies, breakers and rates as strangers send them: refused, or fit to be used. */
#include "fuzz.h"

#include "config/config.h"
#include "core/limit/limit.h"
#include "core/retry/backoff.h"
#include "core/retry/policy.h"

static void try_policy(struct str text)
{
    struct config_part *box = NULL;
    struct redrive_err err = {0};
    if (policy_parse_json(text, NULL, &box, &err) < 0) {
        FUZZ_CHECK(err.message[0] != '\0');
        return;
    }
    const struct redrive_policy *policy = &box->policy;
    FUZZ_CHECK(redrive_policy_check(policy, NULL) == 0);
    for (uint32_t n = 1; n < 20; n++) {
        int64_t min_ms, max_ms, ms = backoff_delay_ms(&policy->backoff, n, text.len);
        backoff_bounds_ms(&policy->backoff, n, &min_ms, &max_ms);
        FUZZ_CHECK(min_ms >= 0 && ms >= min_ms && ms <= max_ms);
    }
    config_part_free(box);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct redrive_breaker_config breaker;
    struct rate rate;
    int64_t ms;
    try_policy(text);
    if (breaker_parse_json(text, NULL, &breaker, NULL) == 0)
        FUZZ_CHECK(redrive_breaker_config_check(&breaker, NULL) == 0);
    if (rate_parse(text, &rate, NULL) == 0)
        FUZZ_CHECK(rate.count > 0 && rate.period_s > 0);
    if (retry_after_parse(text, INT64_C(1700000000000), &ms))
        FUZZ_CHECK(ms >= 0);
    return 0;
}
