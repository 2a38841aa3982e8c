#include "vectors.h"

#include "config/config.h"
#include "core/explain.h"
#include "core/retry/backoff.h"
#include "core/retry/policy.h"

#define RETRIES_MAX 64

struct schedule {
    char name[128];
    struct str policy;
    int64_t min_ms[RETRIES_MAX];
    int64_t max_ms[RETRIES_MAX];
    size_t n;
    char then[32];
    int64_t total_ms; /* -1: not said */
};

static void read_numbers(struct json_reader *r, struct schedule *s)
{
    if (json_peek(r) == JSON_TYPE_NULL) {
        json_read_null(r);
        return;
    }
    json_enter_array(r);
    for (; json_next_item(r) > 0; s->n++) {
        json_read_int(r, &s->min_ms[s->n]);
        s->max_ms[s->n] = s->min_ms[s->n];
    }
}

static void read_bounds(struct json_reader *r, struct schedule *s)
{
    json_enter_array(r);
    for (; json_next_item(r) > 0; s->n++) {
        json_enter_array(r);
        assert_int_equal(json_next_item(r), 1);
        json_read_int(r, &s->min_ms[s->n]);
        assert_int_equal(json_next_item(r), 1);
        json_read_int(r, &s->max_ms[s->n]);
        assert_int_equal(json_next_item(r), 0);
    }
}

static void read_schedule(struct json_reader *r, struct schedule *s)
{
    struct json_string key;
    *s = (struct schedule){.total_ms = -1};
    assert_int_equal(json_enter_object(r), 0);
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, "name"))
            vectors_text(r, s->name, sizeof s->name);
        else if (json_string_is(key, "policy"))
            json_skip(r, &s->policy);
        else if (json_string_is(key, "delay_ms"))
            read_numbers(r, s);
        else if (json_string_is(key, "bounds_ms"))
            read_bounds(r, s);
        else if (json_string_is(key, "then"))
            vectors_text(r, s->then, sizeof s->then);
        else if (json_string_is(key, "total_ms"))
            json_read_int(r, &s->total_ms);
        else
            json_skip(r, NULL);
    }
    assert_true(s->n > 0);
}

/* The drawn delays must stay within the bounds, and the bounds must be the stated ones. */
static void check_delays(const struct redrive_policy *policy, const struct schedule *s)
{
    for (uint32_t n = 1; n <= s->n; n++) {
        int64_t min_ms, max_ms;
        backoff_bounds_ms(&policy->backoff, n, &min_ms, &max_ms);
        if (min_ms != s->min_ms[n - 1] || max_ms != s->max_ms[n - 1])
            fail_msg("%s, retry %u: %lld…%lld ms", s->name, n, (long long)min_ms,
                     (long long)max_ms);
        for (uint64_t seed = 0; seed < 500; seed++) {
            int64_t ms = backoff_delay_ms(&policy->backoff, n, seed);
            assert_true(ms >= min_ms && ms <= max_ms);
        }
    }
}

/* As many retries as stated, then the stated end. */
static void check_end(const struct redrive_policy *policy, const struct schedule *s)
{
    struct explain e;
    explain_init(&e, policy, REDRIVE_CLASS_TRANSIENT);
    while (explain_next(&e))
        continue;
    assert_int_equal(e.row.n, s->n);
    assert_string_equal(redrive_state_name(e.end.state), s->then);
    assert_int_equal(e.end.reason, REDRIVE_REASON_EXHAUSTED);
    if (s->total_ms >= 0)
        assert_int_equal(e.row.total_min_ms, s->total_ms);
}

static const char *profile_of(const char *name)
{
    if (strcmp(name, "periodic-joke") == 0)
        return "periodic";
    if (strcmp(name, "rescue-stalled") == 0)
        return "rescue";
    return policy_profile_find(str_of(name)) ? name : NULL;
}

TEST(policies_give_these_schedules)
{
    struct vectors v;
    struct schedule s;
    int profiles = 0;
    vectors_open(&v, "backoff.json");
    while (vectors_next(&v)) {
        struct redrive_policy defaults;
        struct redrive_err err = {0};
        struct config_part *box = NULL;
        read_schedule(&v.reader, &s);
        redrive_policy_init(&defaults);
        if (strncmp(s.name, "handler", 7) != 0)
            defaults.total_timeout_ms = 0;
        if (policy_parse_json(s.policy, &defaults, &box, &err) < 0)
            fail_msg("%s: %s (%s)", s.name, err.message, err.detail);
        check_delays(&box->policy, &s);
        check_end(&box->policy, &s);
        config_part_free(box);

        const char *profile = profile_of(s.name);
        if (profile) {
            check_delays(&policy_profile_find(str_of(profile))->policy, &s);
            check_end(&policy_profile_find(str_of(profile))->policy, &s);
            profiles++;
        }
    }
    vectors_close(&v);
    assert_int_equal(profiles, 11);
}
