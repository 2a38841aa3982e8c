#include "check.h"

#include "run/http/url.h"

static const struct run_request JOB = {
    .job_id = "7",
    .task = "a b",
    .queue = "q",
    .payload = {"{\"host\":\"example.com\",\"n\":12,\"deep\":{\"a\":\"x/../y?z#@:\"},"
                "\"no\":null,\"empty\":\"\",\"list\":[1]}",
                0},
};

static int expand(const char *url, struct buf *out)
{
    buf_init(out, 4096);
    struct run_request job = JOB;
    job.payload.len = strlen(job.payload.ptr);
    return url_expand(url, &job, out, NULL);
}

TEST(placeholders_are_filled_in_and_encoded)
{
    static const char *const rows[][2] = {
        {"http://h/", "http://h/"},
        {"http://{payload.host}:80/{id}", "http://example.com:80/7"},
        {"http://h/{task}/{queue}", "http://h/a%20b/q"},
        {"http://h/{payload.n}", "http://h/12"},
        {"http://{payload.deep.a}/", "http://x%2F..%2Fy%3Fz%23%40%3A/"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out;
        assert_int_equal(expand(rows[i][0], &out), 0);
        assert_string_equal(buf_cstr(&out), rows[i][1]);
        buf_release(&out);
    }
}

TEST(what_the_job_does_not_have_is_refused)
{
    static const char *const urls[] = {
        "http://{payload.nobody}/", "http://{payload.host.deeper}/",
        "http://{payload.no}/",     "http://{payload.list}/",
        "http://{payload.empty}/",  "http://{payload.}/",
        "http://{tenant}/",         "http://{nonsense}/",
        "http://{payload.host",     "http://{",
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct buf out;
        assert_int_equal(expand(urls[i], &out), REDRIVE_E_INVALID);
        buf_release(&out);
    }
}

TEST(value_that_is_a_step_of_the_path_is_refused)
{
    static const struct {
        const char *url, *id, *message;
    } rows[] = {
        {"http://h/c/{payload.id}/n", "..", "'..' cannot stand for {payload.id} of the URL"},
        {"http://h/c/{payload.id}", ".", "'.' cannot stand for {payload.id} of the URL"},
        {"http://h/c/.{payload.id}/n", ".", "'.' cannot stand for {payload.id} of the URL"},
        {"http://h/{payload.a}{payload.a}/n", "x", "'.' cannot stand for {payload.a} of the URL"},
        {"http://h/../c/{payload.id}", "..x", NULL},
        {"http://h/c/{payload.id}/./n", "...", NULL},
        {"http://h/c?{payload.id}/../n", "x", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char payload[64];
        struct buf out;
        struct redrive_err err = {0};
        snprintf(payload, sizeof payload, "{\"id\":\"%s\",\"a\":\".\"}", rows[i].id);
        const struct run_request job = {.payload = str_of(payload)};
        buf_init(&out, 4096);
        assert_int_equal(url_expand(rows[i].url, &job, &out, &err),
                         rows[i].message ? REDRIVE_E_INVALID : 0);
        if (rows[i].message)
            assert_string_equal(err.message, rows[i].message);
        buf_release(&out);
    }
}

TEST(host_is_the_jobs_choice_only_where_a_placeholder_has_a_say_in_it)
{
    static const char *const trusted[] = {
        "http://h/",        "http://h/{id}", "http://h:80/{payload.path}",
        "https://h?a={id}", "http://h#{id}", "http://[::1]:8080/a/{id}/b",
    };
    static const char *const checked[] = {
        "http://{payload.host}/", "http://{payload.host}:80/x", "http://h:{payload.port}/",
        "http://h{id}/",          "http://{payload.user}@h/",   "{payload.scheme}://h/",
        "http:///{payload.host}", "http://?{payload.host}",     "h/{payload.path}",
        "http://h.{task}",        "http://h\\{payload.path}",
    };
    for (size_t i = 0; i < sizeof trusted / sizeof trusted[0]; i++)
        assert_false(url_host_is_made_by_jobs(trusted[i]));
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++)
        assert_true(url_host_is_made_by_jobs(checked[i]));
}
