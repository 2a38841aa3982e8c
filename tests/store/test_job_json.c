/* How a job is shown. */
#include "store/job_json.h"

#include "check.h"

static void check_json(const struct job *job, const struct attempt_page *history, const char *text)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 8192);
    json_writer_init(&w, &out);
    job_write_json(&w, job, history);
    assert_string_equal(buf_cstr(&out), text);
    buf_release(&out);
}

TEST(fresh_job_has_every_name)
{
    const struct job job = {
        .spec = {.tenant = STR("default"),
                 .id = STR("7"),
                 .task = STR("mail"),
                 .queue = STR("default"),
                 .payload = STR("{\"to\": 1.0}"),
                 .max_attempts = 6},
        .status = {.seq = 1, .state = REDRIVE_STATE_QUEUED, .created_ms = 1000},
    };
    check_json(&job, NULL,
               "{\"id\":\"7\",\"task\":\"mail\",\"queue\":\"default\",\"tenant\":\"default\","
               "\"payload\":{\"to\": 1.0},\"priority\":0,\"user\":null,\"project\":null,"
               "\"service\":null,\"unique_key\":null,\"unique\":null,\"retry\":null,"
               "\"deadline\":null,\"state\":\"queued\",\"reason\":null,\"attempts\":0,"
               "\"max_attempts\":6,\"deferrals\":0,\"epoch\":0,\"process_after\":null,"
               "\"created_at\":\"1970-01-01T00:00:01.000Z\",\"updated_at\":null,"
               "\"started_at\":null,\"finished_at\":null,\"worker\":null,\"last_error\":null,"
               "\"result\":null}");
}

static void check_part(const struct job *job, const struct attempt_page *history, const char *part)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 8192);
    json_writer_init(&w, &out);
    job_write_json(&w, job, history);
    if (!strstr(buf_cstr(&out), part))
        fail_msg("%s is not in %s", part, buf_cstr(&out));
    buf_release(&out);
}

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

TEST(a_traceparent_is_not_shown_as_a_part_of_the_policy)
{
    struct job job = {.spec = {.policy = STR("{\"traceparent\":\"" PARENT "\"}")}};
    check_part(&job, NULL, ",\"retry\":null,\"traceparent\":\"" PARENT "\",\"deadline\"");
    job.spec.policy = STR("{\"traceparent\":\"" PARENT "\",\"max_retries\":3}");
    check_part(&job, NULL,
               ",\"retry\":{\"max_retries\":3},\"traceparent\":\"" PARENT "\",\"deadline\"");
}

TEST(dead_job_tells_why)
{
    struct job job = {
        .spec = {.id = STR("7"), .unique_key = STR("k"), .unique_forever = true},
        .status = {.state = REDRIVE_STATE_DEAD_LETTER,
                   .reason = REDRIVE_REASON_EXHAUSTED,
                   .error = {.class_ = REDRIVE_CLASS_NETWORK, .type = STR("OSError"), .code = 111}},
    };
    struct job_attempt attempts[] = {
        {.epoch = 0,
         .number = 1,
         .started_ms = 1,
         .ended_ms = 2,
         .delay_ms = 1500,
         .outcome = REDRIVE_STATE_RETRYING,
         .why = STR("backoff")},
        {.epoch = 0, .number = 0, .outcome = REDRIVE_STATE_QUEUED},
    };
    const struct attempt_page history = {.attempts = attempts, .n = 2};
    check_part(&job, NULL, "\"reason\":\"exhausted\"");
    check_part(&job, NULL, "\"unique\":\"forever\"");
    check_part(&job, NULL,
               "\"last_error\":{\"class\":\"network\",\"type\":\"OSError\","
               "\"message\":null,\"stacktrace\":null,\"code\":111}");
    check_part(&job, &history, "\"history\":[{\"epoch\":0,\"number\":1,");
    check_part(&job, &history, "\"delay\":1.5,\"why\":\"backoff\"");
    check_part(&job, &history, "\"number\":null");
    job.status.state = REDRIVE_STATE_PARKED;
    check_part(&job, NULL, "\"reason\":\"breaker\"");
    job.status.parked_by_limit = true;
    check_part(&job, NULL, "\"reason\":\"limit\"");
}

TEST(result_that_is_not_json_is_a_string)
{
    const struct job json = {.status = {.result = STR("[1, 2]")}};
    const struct job words = {.status = {.result = STR("done \"it\"\xff")}};
    check_part(&json, NULL, "\"result\":[1, 2]");
    check_part(&words, NULL, "\"result\":\"done \\\"it\\\"\xEF\xBF\xBD\"");
}
