#include "vectors.h"

#include <math.h>

#include "config/config.h"
#include "core/breaker.h"
#include "core/vocabulary.h"

/* A breaker, its probe that is out, and a call that was let in earlier. */
struct scene {
    struct redrive_breaker_config config;
    struct breaker breaker;
    struct breaker_permit probe;
    struct breaker_permit begun;
};

struct step {
    int64_t at_ms;
    char results[64];
    char end_result;
    bool begins, ends, has_allow, allow;
    int state; /* -1: not said */
    double rate;
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

static void read_step(struct json_reader *r, struct step *step)
{
    struct json_string key;
    char word[64];
    double at_s;

    *step = (struct step){.state = -1, .rate = -1};
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
            json_read_double(r, &step->rate);
        } else {
            fail_msg("unknown key in a step");
        }
    }
}

/* While closed a letter is a call and its outcome, while half open the outcome of the probe. */
static void feed(struct scene *s, int64_t at_ms, char letter)
{
    struct breaker_permit permit = s->probe;
    if (s->breaker.state == REDRIVE_BREAKER_CLOSED)
        assert_true(breaker_allow(&s->breaker, &s->config, at_ms, &permit));
    breaker_record(&s->breaker, &s->config, permit, result_of(letter), at_ms);
}

static void take_step(struct scene *s, const struct step *step, const char *name)
{
    if (step->begins)
        assert_true(breaker_allow(&s->breaker, &s->config, step->at_ms, &s->begun));
    if (step->ends)
        breaker_record(&s->breaker, &s->config, s->begun, result_of(step->end_result), step->at_ms);
    if (step->has_allow &&
        breaker_allow(&s->breaker, &s->config, step->at_ms, &s->probe) != step->allow)
        fail_msg("%s at %lld ms: allow is not %d", name, (long long)step->at_ms, step->allow);
    for (const char *letter = step->results; *letter; letter++)
        feed(s, step->at_ms, *letter);

    if (step->state >= 0 && (int)s->breaker.state != step->state)
        fail_msg("%s at %lld ms: state is %s", name, (long long)step->at_ms,
                 redrive_breaker_state_name(s->breaker.state));
    if (step->rate >= 0) {
        struct redrive_breaker_status status;
        breaker_status(&s->breaker, &s->config, step->at_ms, &status);
        assert_true(fabs(status.rate - step->rate) < 1e-9);
    }
}

static void scene_init(struct scene *s, struct str config_json)
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
    struct scene scene;
    struct json_string key;
    struct str config;

    assert_int_equal(json_enter_object(r), 0);
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, "name")) {
            vectors_text(r, name, sizeof name);
        } else if (json_string_is(key, "config")) {
            json_skip(r, &config);
            scene_init(&scene, config);
        } else if (json_string_is(key, "steps")) {
            json_enter_array(r);
            while (json_next_item(r) > 0) {
                struct step step;
                read_step(r, &step);
                take_step(&scene, &step, name);
            }
        } else {
            json_skip(r, NULL);
        }
    }
}

static void breakers_go_through_these_stories(void **state)
{
    (void)state;
    struct vectors v;
    int cases = 0;
    vectors_open(&v, "breaker.json");
    for (; vectors_next(&v); cases++)
        check_case(&v.reader);
    vectors_close(&v);
    assert_int_equal(cases, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {T(breakers_go_through_these_stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
