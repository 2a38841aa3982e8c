/* Policies, breakers, tasks and cron entries that come on their own, as JSON. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/os/file.h"
#include "config/config.h"
#include "core/retry/policy.h"

static struct redrive_err err;

static struct config_part *policy(const char *json, const struct redrive_policy *defaults)
{
    struct config_part *box = NULL;
    if (policy_parse_json(str_of(json), defaults, &box, &err) < 0)
        fail_msg("%s", err.message);
    return box;
}

static void refuses(const char *json, int code, const char *message)
{
    struct config_part *box = NULL;
    assert_int_equal(policy_parse_json(str_of(json), NULL, &box, &err), code);
    assert_null(box);
    assert_int_equal(err.code, code);
    assert_string_equal(err.message, message);
}

TEST(an_empty_policy_is_the_default_one)
{
    struct redrive_policy standard;
    redrive_policy_init(&standard);
    struct config_part *box = policy("{}", NULL);
    const struct redrive_policy *p = &box->policy;
    assert_int_equal(p->max_retries, standard.max_retries);
    assert_int_equal(p->backoff.max_delay_ms, standard.backoff.max_delay_ms);
    config_part_free(box);
    config_part_free(NULL);
}

TEST(number_of_a_job_is_nearer_than_the_rules_of_its_task)
{
    struct config_part *task = policy(
        "{\"max_retries\": 2, \"on\": {\"database\": {\"max_retries\": 7, \"max_delay\": \"9s\"}}}",
        NULL);
    struct config_part *delay = policy("{\"initial_delay\": \"3s\"}", &task->policy);
    struct config_part *number = policy("{\"max_attempts\": 4}", &task->policy);
    struct config_part *rule = policy(
        "{\"max_attempts\": 4, \"on\": {\"database\": {\"max_retries\": 9}}}", &task->policy);
    assert_int_equal(policy_max_retries(&delay->policy, REDRIVE_CLASS_DATABASE), 7);
    assert_int_equal(policy_max_retries(&number->policy, REDRIVE_CLASS_DATABASE), 3);
    assert_int_equal(policy_max_attempts(&number->policy), 4);
    assert_int_equal(number->policy.on[REDRIVE_CLASS_DATABASE]->backoff.max_delay_ms, 9000);
    assert_int_equal(policy_max_retries(&rule->policy, REDRIVE_CLASS_DATABASE), 9);
    assert_int_equal(policy_max_retries(&task->policy, REDRIVE_CLASS_DATABASE), 7);
    config_part_free(rule);
    config_part_free(number);
    config_part_free(delay);
    config_part_free(task);
}

TEST(keys_are_those_of_the_file)
{
    struct config_part *box =
        policy("{\"strategy\": \"polynomial\", \"exponent\": 4, \"initial_delay\": \"15s\","
               " \"max_delay\": \"40d\", \"jitter\": {\"mode\": \"step\", \"max\": \"30s\"},"
               " \"max_retries\": 25, \"retry_on\": [\"network\", \"A.B\"],"
               " \"on\": {\"database\": {\"max_attempts\": 3}}}",
               NULL);
    const struct redrive_policy *p = &box->policy;
    assert_int_equal(p->backoff.strategy, REDRIVE_STRATEGY_POLYNOMIAL);
    assert_int_equal(p->backoff.max_delay_ms, INT64_C(40) * 86400000);
    assert_int_equal(p->backoff.jitter.step_ms, 30000);
    assert_int_equal(p->max_retries, 25);
    assert_string_equal(p->retry_on.types[0], "A.B");
    assert_int_equal(p->on[REDRIVE_CLASS_DATABASE]->max_retries, 2);
    assert_int_equal(p->on[REDRIVE_CLASS_DATABASE]->backoff.initial_delay_ms, 15000);
    config_part_free(box);
}

TEST(a_box_outlives_what_it_was_made_from)
{
    struct config_part *first = policy("{\"retry_on\": [\"First\"], \"give_up_on\": [\"Second\"],"
                                       " \"on\": {\"network\": {\"initial_delay\": \"9s\"}}}",
                                       NULL);
    struct config_part *second = policy(
        "{\"profile\": \"thumbnail\", \"on\": {\"network\": {\"multiplier\": 7}}}", &first->policy);
    config_part_free(first);

    const struct redrive_policy *p = &second->policy;
    assert_int_equal(p->backoff.strategy, REDRIVE_STRATEGY_FIXED);
    assert_string_equal(p->retry_on.types[0], "First");
    assert_string_equal(p->give_up_on.types[0], "Second");
    assert_int_equal(p->on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 9000);
    assert_true(p->on[REDRIVE_CLASS_NETWORK]->backoff.multiplier == 7);
    config_part_free(second);
}

TEST(what_is_wrong_with_a_policy_is_told)
{
    refuses("{\"max_dealy\": \"5s\"}", REDRIVE_E_INVALID, "unknown key 'max_dealy'");
    assert_string_equal(err.hint, "did you mean 'max_delay'?");
    refuses("{\"max_delay\": 5}", REDRIVE_E_INVALID, "max_delay: '5' has no unit");
    refuses("{\"max_retries\": \"5\"}", REDRIVE_E_INVALID,
            "max_retries: '5', in quotes, is not understood");
    refuses("{\"on\": {\"netwrok\": {}}}", REDRIVE_E_INVALID, "unknown class 'netwrok' in on");
    refuses("{\"on\": {\"network\": {\"max_delay\": \"1ms\"}}}", REDRIVE_E_INVALID,
            "on.network.max_delay: max_delay is below min_delay");
    refuses("{\"jitter\": null}", REDRIVE_E_INVALID, "jitter: has no value");
    refuses("[]", REDRIVE_E_INVALID, "found an empty list");
    struct config_part *box = NULL;
    assert_int_equal(policy_parse_json(STR("{"), NULL, &box, &err), REDRIVE_E_PARSE);
    assert_int_equal(policy_parse_json(STR("{}{}"), NULL, &box, NULL), REDRIVE_E_PARSE);
}

TEST(a_breaker_is_read_in_the_same_way)
{
    struct redrive_breaker_config standard, got, base;
    redrive_breaker_config_init(&standard);
    assert_int_equal(breaker_parse_json(STR("{}"), NULL, &got, &err), 0);
    assert_int_equal(got.window_ms, standard.window_ms);
    assert_true(got.failure_rate == standard.failure_rate);

    base = standard;
    base.failure_rate = 0;
    assert_int_equal(breaker_parse_json(STR("{\"failure_threshold\": 6, \"window\": \"20s\","
                                            " \"on_open\": \"reject\"}"),
                                        &base, &got, &err),
                     0);
    assert_int_equal(got.failure_threshold, 6);
    assert_true(got.failure_rate == 0);
    assert_int_equal(got.window_ms, 20000);
    assert_int_equal(got.on_open, REDRIVE_ON_OPEN_REJECT);

    assert_int_equal(breaker_parse_json(STR("{\"key\": \"x\"}"), NULL, &got, &err),
                     REDRIVE_E_INVALID);
    assert_string_equal(err.message, "unknown key 'key'");
    assert_int_equal(breaker_parse_json(STR("{\"window\": \"1ms\"}"), NULL, &got, &err),
                     REDRIVE_E_INVALID);
    assert_string_equal(err.message, "window: '1ms' is out of range");
    assert_int_equal(got.window_ms, 20000);
}

/* Calls `check` with the member `name` of each case in a file of vectors. */
static size_t for_each_case(const char *file, const char *name, void (*check)(struct str json))
{
    char path[4096];
    struct json_reader reader;
    struct json_string key;
    struct str value;
    struct buf text;
    size_t n = 0;

    buf_init(&text, 1u << 20);
    snprintf(path, sizeof path, "%s/%s", getenv("REDRIVE_VECTORS"), file);
    assert_int_equal(file_read(path, 1u << 20, &text, NULL), 0);
    json_reader_init(&reader, buf_str(&text), NULL);
    json_enter_object(&reader);
    while (json_next_key(&reader, &key) > 0) {
        if (!json_string_is(key, "cases")) {
            json_skip(&reader, NULL);
            continue;
        }
        json_enter_array(&reader);
        while (json_next_item(&reader) > 0) {
            json_enter_object(&reader);
            while (json_next_key(&reader, &key) > 0) {
                json_skip(&reader, &value);
                if (json_string_is(key, name)) {
                    check(value);
                    n++;
                }
            }
        }
    }
    assert_int_equal(json_error(&reader, NULL), 0);
    json_reader_release(&reader);
    buf_release(&text);
    return n;
}

static void check_policy(struct str json)
{
    struct config_part *box = NULL;
    if (policy_parse_json(json, NULL, &box, &err) < 0)
        fail_msg("%s", err.message);
    config_part_free(box);
}

static void check_breaker(struct str json)
{
    struct redrive_breaker_config breaker;
    if (breaker_parse_json(json, NULL, &breaker, &err) < 0)
        fail_msg("%s", err.message);
}

TEST(the_vectors_are_policies_and_breakers)
{
    assert_true(for_each_case("backoff.json", "policy", check_policy) > 10);
    assert_true(for_each_case("breaker.json", "config", check_breaker) > 5);
}

static void write_task(const struct config_part *box, struct buf *out)
{
    struct json_writer w;
    buf_init(out, 65536);
    json_writer_init(&w, out);
    task_write_json(&box->task, &w);
    assert_int_equal(buf_failed(out), 0);
}

TEST(a_task_is_the_same_after_writing_and_reading)
{
    static const char JSON[] =
        "{\"queue\": \"media\", \"payload\": \"required\", \"lease\": \"2m\","
        " \"retry\": {\"strategy\": \"linear\", \"max_attempts\": 9, \"retry_on\": [\"network\", "
        "\"Quota*\"]}, \"on\": {\"network\": {\"initial_delay\": \"7s\"}},"
        " \"breaker\": {\"key\": \"b:{user}\", \"failure_threshold\": 3},"
        " \"limits\": {\"rate\": \"60/min\", \"per\": \"user\", \"concurrency\": 2,"
        " \"retry_budget\": {\"ratio\": 0}},"
        " \"experiment\": {\"name\": \"patience\", \"arms\": {\"control\": {\"share\": 0.5},"
        " \"slow\": {\"share\": 0.5, \"retry\": {\"max_retries\": 7}}}}}";
    struct config_part *first = NULL, *second = NULL;
    struct buf once, twice;
    if (task_parse_json(STR("call"), str_of(JSON), &first, &err) < 0)
        fail_msg("%s", err.message);
    write_task(first, &once);
    if (task_parse_json(STR("call"), buf_str(&once), &second, &err) < 0)
        fail_msg("%s", err.message);
    write_task(second, &twice);
    assert_string_equal(buf_cstr(&once), buf_cstr(&twice));

    const struct config_task *task = &second->task;
    assert_string_equal(task->name, "call");
    assert_string_equal(task->queue, "media");
    assert_int_equal(task->payload, CONFIG_PAYLOAD_REQUIRED);
    assert_int_equal(task->lease_ms, 120000);
    assert_int_equal(task->retry.max_retries, 8);
    assert_int_equal(task->retry.on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 7000);
    assert_string_equal(task->breaker.key, "b:{user}");
    assert_int_equal(task->limits.rate.count, 60);
    assert_int_equal(task->limits.concurrency, 2);
    assert_true(task->limits.budget.ratio == 0 && budget_is_set(&task->limits.budget));
    assert_int_equal(task->run.kind, CONFIG_RUN_NONE);
    assert_string_equal(task->experiment->name, "patience");
    assert_string_equal(task->experiment->task, "call");
    assert_string_equal(task->experiment->arms[1].name, "slow");
    assert_int_equal(task->experiment->arms[1].policy.max_retries, 7);
    /* Arms are whole: they do not start from the task's policy, but from the built-in one. */
    assert_int_equal(task->experiment->arms[0].policy.max_retries, 5);
    buf_release(&once);
    buf_release(&twice);
    config_part_free(first);
    config_part_free(second);
}

TEST(a_task_that_is_not_understood_is_refused)
{
    struct config_part *box = NULL;
    assert_true(task_parse_json(STR("t"), STR("{\"warp\": 9}"), &box, &err) < 0);
    assert_true(task_parse_json(STR("t"), STR("{\"experiment\": {\"name\": \"p\"}}"), &box, &err) <
                0);
    assert_true(task_parse_json(STR("t"), STR("[]"), &box, &err) < 0);
    assert_true(task_parse_json(STR("t"), STR("{"), &box, &err) < 0);
    assert_null(box);
}

static void write_entry(const struct config_part *box, struct buf *out)
{
    struct json_writer w;
    buf_init(out, 65536);
    json_writer_init(&w, out);
    cron_write_json(&box->cron, &w);
    assert_int_equal(buf_failed(out), 0);
}

TEST(an_entry_is_the_same_after_writing_and_reading)
{
    static const char JSON[] = "{\"task\": \"call\", \"schedule\": \"30 2 * * *\", "
                               "\"timezone\": \"Europe/Berlin\", \"overlap\": \"queue_one\", "
                               "\"payload\": {\"n\": 1.50, \"s\": \"5\", \"yes\": [null, true]}}";
    struct config_part *first = NULL, *second = NULL;
    struct buf once, twice;
    if (cron_parse_json(NULL, false, STR("night"), str_of(JSON), &first, NULL, &err) < 0)
        fail_msg("%s", err.message);
    write_entry(first, &once);
    if (cron_parse_json(NULL, false, STR("night"), buf_str(&once), &second, NULL, &err) < 0)
        fail_msg("%s", err.message);
    write_entry(second, &twice);
    assert_string_equal(buf_cstr(&once), buf_cstr(&twice));

    const struct config_cron *entry = &second->cron;
    assert_string_equal(entry->name, "night");
    assert_string_equal(entry->payload, "{\"n\":1.50,\"s\":\"5\",\"yes\":[null,true]}");
    assert_int_equal(entry->overlap, CONFIG_OVERLAP_QUEUE_ONE);
    assert_string_equal(config_overlap_name(entry->overlap), "queue_one");
    /* In July clocks are two hours ahead there. */
    int64_t next_ms;
    assert_int_equal(cron_next(&entry->cron, entry->tz, INT64_C(1782864000000), &next_ms), 0);
    assert_int_equal(next_ms, INT64_C(1782864000000) + 30 * 60000);
    buf_release(&once);
    buf_release(&twice);
    config_part_free(first);
    config_part_free(second);
    config_part_free(NULL);
}

TEST(what_is_wrong_with_an_entry_is_named)
{
    static const struct {
        const char *json, *field, *hint;
    } CASES[] = {
        {"{\"task\": \"t\", \"schedule\": \"@dayly\"}", "schedule", NULL},
        {"{\"task\": \"t\", \"schedule\": \"@daily\", \"timezon\": \"UTC\"}", "timezon",
         "did you mean 'timezone'?"},
        {"{\"task\": true, \"schedule\": \"@daily\"}", "task", "put it in quotes"},
        {"{\"task\": \"t\"}", "schedule", NULL},
        {"7", "", NULL},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char field[CONFIG_FIELD_MAX] = "?";
        struct config_part *box = NULL;
        err = (struct redrive_err){0};
        assert_int_equal(
            cron_parse_json(NULL, true, STR("a"), str_of(CASES[i].json), &box, field, &err),
            REDRIVE_E_INVALID);
        assert_null(box);
        assert_string_equal(field, CASES[i].field);
        if (CASES[i].hint)
            assert_string_equal(err.hint, CASES[i].hint);
    }
}
