#include "vectors.h"

#include <math.h>

#include "config/config.h"
#include "core/breaker/breaker.h"
#include "core/vocabulary.h"

#define CALLS_MAX 64

/* A breaker, its probes that are out, the first one first, and a call that was let in earlier. */
struct breaker_case {
    struct redrive_breaker_config config;
    struct breaker breaker;
    struct breaker_permit probes[CALLS_MAX];
    size_t n_probes;
    struct breaker_permit begun;
};

struct step {
    int64_t at_ms;
    char results[CALLS_MAX];
    int64_t took_ms[CALLS_MAX]; /* by each of the results */
    char end_result;
    bool begins, ends, has_allow, allow;
    int state; /* -1: not said */
    bool has_rate, has_slow_rate;
    double rate; /* -1: not known */
    double slow_rate;
};

static enum breaker_result result_of(char letter)
{
    switch (letter) {
    case 'S': return BREAKER_SUCCESS;
    case 'F': return BREAKER_FAILURE;
    case 'I': return BREAKER_NEUTRAL;
    default: fail_msg("unknown result %c", letter); return BREAKER_NEUTRAL;
    }
}

/* `null`: too few calls to say. */
static double read_share(struct json_reader *r)
{
    double share = -1;
    if (json_peek(r) == JSON_TYPE_NULL)
        json_read_null(r);
    else
        json_read_double(r, &share);
    return share;
}

static void read_times(struct json_reader *r, int64_t ret_ms[CALLS_MAX])
{
    double seconds;
    json_enter_array(r);
    for (size_t i = 0; json_next_item(r) > 0; i++) {
        assert_true(i < CALLS_MAX);
        assert_int_equal(json_read_double(r, &seconds), 0);
        ret_ms[i] = llround(seconds * 1000);
    }
}

static void read_step(struct json_reader *r, struct step *step)
{
    struct json_string key;
    char word[64];
    double at_s;

    *step = (struct step){.state = -1};
    assert_int_equal(json_enter_object(r), 0);
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, "at")) {
            assert_int_equal(json_read_double(r, &at_s), 0);
            step->at_ms = llround(at_s * 1000);
        } else if (json_string_is(key, "results")) {
            vectors_text(r, step->results, sizeof step->results);
        } else if (json_string_is(key, "allow")) {
            step->has_allow = true;
            json_read_bool(r, &step->allow);
        } else if (json_string_is(key, "begin")) {
            step->begins = true;
            json_skip(r, NULL);
        } else if (json_string_is(key, "end")) {
            step->ends = true;
            json_skip(r, NULL);
        } else if (json_string_is(key, "result")) {
            vectors_text(r, word, sizeof word);
            step->end_result = word[0];
        } else if (json_string_is(key, "state")) {
            vectors_text(r, word, sizeof word);
            step->state = vocabulary_find(VOCABULARY_BREAKER_STATE, str_of(word));
            assert_true(step->state >= 0);
        } else if (json_string_is(key, "rate")) {
            step->has_rate = true;
            step->rate = read_share(r);
        } else if (json_string_is(key, "slow_rate")) {
            step->has_slow_rate = true;
            step->slow_rate = read_share(r);
        } else if (json_string_is(key, "took")) {
            read_times(r, step->took_ms);
        } else {
            fail_msg("unknown key in a step");
        }
    }
}

static bool allow(struct breaker_case *s, int64_t at_ms)
{
    struct breaker_permit permit;
    if (!breaker_allow(&s->breaker, &s->config, at_ms, &permit))
        return false;
    assert_true(s->n_probes < CALLS_MAX);
    s->probes[s->n_probes++] = permit;
    return true;
}

/* While closed a letter is a call and its outcome, while half open the outcome of the first probe
 * that is out. */
static void feed(struct breaker_case *s, int64_t at_ms, char letter, int64_t took_ms)
{
    if (s->breaker.state == REDRIVE_BREAKER_CLOSED) {
        s->n_probes = 0;
        assert_true(allow(s, at_ms));
    }
    assert_true(s->n_probes > 0);
    const struct breaker_permit permit = s->probes[0];
    memmove(s->probes, s->probes + 1, --s->n_probes * sizeof *s->probes);
    breaker_record(&s->breaker, &s->config, permit, result_of(letter), took_ms, at_ms);
}

static void check_share(const char *name, int64_t at_ms, const char *what, double found,
                        double expected)
{
    if (expected < 0 ? found >= 0 : fabs(found - expected) > 1e-9)
        fail_msg("%s at %lld ms: the %s is %g, not %g", name, (long long)at_ms, what, found,
                 expected);
}

static void take_step(struct breaker_case *s, const struct step *step, const char *name)
{
    if (step->begins)
        assert_true(breaker_allow(&s->breaker, &s->config, step->at_ms, &s->begun));
    if (step->ends)
        breaker_record(&s->breaker, &s->config, s->begun, result_of(step->end_result), 0,
                       step->at_ms);
    if (step->has_allow && allow(s, step->at_ms) != step->allow)
        fail_msg("%s at %lld ms: allow is not %d", name, (long long)step->at_ms, step->allow);
    for (size_t i = 0; step->results[i]; i++)
        feed(s, step->at_ms, step->results[i], step->took_ms[i]);

    if (step->state >= 0 && (int)s->breaker.state != step->state)
        fail_msg("%s at %lld ms: state is %s", name, (long long)step->at_ms,
                 redrive_breaker_state_name(s->breaker.state));
    struct redrive_breaker_status status;
    breaker_status(&s->breaker, &s->config, step->at_ms, &status);
    if (step->has_rate)
        check_share(name, step->at_ms, "rate", status.rate, step->rate);
    if (step->has_slow_rate)
        check_share(name, step->at_ms, "slow rate", status.slow_rate, step->slow_rate);
}

static void case_init(struct breaker_case *s, struct str config_json)
{
    struct redrive_breaker_config defaults;
    struct redrive_err err = {0};
    memset(s, 0, sizeof *s);
    redrive_breaker_config_init(&defaults);
    defaults.failure_rate = 0;
    defaults.recovery_jitter = 0;
    if (breaker_parse_json(config_json, &defaults, &s->config, &err) < 0)
        fail_msg("%s (%s)", err.message, err.detail);
    breaker_init(&s->breaker, 1);
}

static void check_case(struct json_reader *r)
{
    char name[128] = "";
    struct breaker_case breaker_case;
    struct json_string key;
    struct str config;

    assert_int_equal(json_enter_object(r), 0);
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, "name")) {
            vectors_text(r, name, sizeof name);
        } else if (json_string_is(key, "config")) {
            json_skip(r, &config);
            case_init(&breaker_case, config);
        } else if (json_string_is(key, "steps")) {
            json_enter_array(r);
            while (json_next_item(r) > 0) {
                struct step step;
                read_step(r, &step);
                take_step(&breaker_case, &step, name);
            }
        } else {
            json_skip(r, NULL);
        }
    }
}

TEST(breakers_go_through_these_stories)
{
    struct vectors v;
    int cases = 0;
    vectors_open(&v, "breaker.json");
    for (; vectors_next(&v); cases++)
        check_case(&v.reader);
    vectors_close(&v);
    assert_int_equal(cases, 19);
}
