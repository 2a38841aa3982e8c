#include "check.h"

#include "api/new_job.h"

/* What a body may have is in the transcripts http-jobs*.md. */

#define NOW INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

static struct arena arena;
static struct redrive_err err;
static struct new_jobs jobs;

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static int read_as(struct str text, bool are_options)
{
    const struct new_jobs_input input = {
        .text = text, .tenant = STR("acme"), .now_ms = NOW, .are_options = are_options};
    err = (struct redrive_err){0};
    return new_jobs_read(&input, &arena, &jobs, &err);
}

static void read_many(size_t n, int code)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(1u << 20);
    for (size_t i = 0; i < n; i++)
        buf_puts(&text, i == 0 ? "[{\"task\":\"a\"}" : ",{\"task\":\"a\"}");
    buf_puts(&text, "]");
    /* Texts of jobs are slices of it. */
    assert_int_equal(read_as(arena_str(&arena, buf_str(&text)), false), code);
}

TEST(an_array_has_a_limit)
{
    read_many(NEW_JOBS_MAX, 0);
    assert_int_equal(jobs.n, NEW_JOBS_MAX);
    assert_true(str_is(jobs.specs[NEW_JOBS_MAX - 1].task, "a"));
    read_many(NEW_JOBS_MAX + 1, REDRIVE_E_RANGE);
    assert_int_equal(read_as(STR("[]"), false), REDRIVE_E_RANGE);
}

TEST(what_is_no_job_is_refused_in_its_place)
{
    assert_int_equal(read_as(STR("[1,1,1,1,1,1]"), false), REDRIVE_E_INVALID);
    assert_string_equal(jobs.field, "[0]");
    assert_int_equal(read_as(STR("[{\"task\":\"a\"},{}]"), false), REDRIVE_E_INVALID);
    assert_string_equal(jobs.field, "[1].task");
    assert_int_equal(
        read_as(STR("[{\"task\":\"a\"},{\"task\":\"a\",\"failed\":{\"reason\":1}}]"), false),
        REDRIVE_E_INVALID);
    assert_string_equal(jobs.field, "[1].failed.reason");
}

TEST(what_was_an_option_is_named_as_one)
{
    const struct str text =
        STR("{\"task\":\"a\",\"process_after\":\"2027-01-01T00:00Z\",\"delay\":1}");
    assert_int_equal(read_as(text, false), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "process_after: it and 'delay' exclude each other");
    assert_int_equal(read_as(text, true), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "--process-after: it and '--delay' exclude each other");
}

TEST(a_job_that_has_failed_does_not_start)
{
    static const char *const STARTS[] = {"\"delay\":1", "\"at\":\"2027-01-01T00:00Z\"",
                                         "\"process_after\":\"2027-01-01T00:00Z\"",
                                         "\"after\":[\"b\"]"};
    for (size_t i = 0; i < sizeof STARTS / sizeof STARTS[0]; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "{\"task\":\"a\",\"failed\":{},%s}", STARTS[i]);
        assert_int_equal(read_as(str_of(text), false), REDRIVE_E_INVALID);
        assert_non_null(strstr(err.message, ": it and 'failed' exclude each other"));
    }
}

TEST(members_of_a_failed_job_that_say_nothing_are_taken)
{
    assert_int_equal(
        read_as(STR("{\"task\":\"a\",\"failed\":{},\"delay\":null,\"after\":null}"), false), 0);
    assert_int_equal(read_as(STR("{\"task\":\"a\",\"failed\":{},\"after\":[]}"), false), 0);
    assert_non_null(jobs.specs[0].failed);
}

static struct str nested(struct buf *text, const char *before, unsigned depth, const char *after)
{
    buf_puts(text, before);
    for (unsigned i = 0; i < depth; i++)
        buf_putc(text, '[');
    for (unsigned i = 0; i < depth; i++)
        buf_putc(text, ']');
    buf_puts(text, after);
    return buf_str(text);
}

TEST(a_payload_may_be_as_deep_as_by_itself)
{
    static const struct {
        const char *before, *after;
    } BODIES[] = {{"{\"task\":\"a\",\"payload\":", "}"}, {" [{\"task\":\"a\",\"payload\":", "}]"}};
    for (size_t i = 0; i < 2; i++) {
        RELEASED_BY(buf_release) struct buf fits = BUF_MAX(1024), deeper = BUF_MAX(1024);
        assert_int_equal(
            read_as(nested(&fits, BODIES[i].before, JSON_MAX_DEPTH, BODIES[i].after), false), 0);
        assert_int_equal(json_check(jobs.specs[0].payload, NULL, NULL), 0);
        assert_int_equal(
            read_as(nested(&deeper, BODIES[i].before, JSON_MAX_DEPTH + 1, BODIES[i].after), false),
            REDRIVE_E_TOO_DEEP);
    }
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
