#include "core/trace/context.h"

#include "base/rng.h"
#include "check.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define SPAN   "b7ad6b7169203331"
#define PARENT "00-" TRACE "-" SPAN "-01"

/* ---- traceparent ----------------------------------------------------------------------------- */

TEST(an_example_of_the_recommendation_is_read_and_written)
{
    static const char *const EXAMPLES[] = {
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
        PARENT,
        "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-03",
        "00-00000000000000010000000000000000-0000000000000001-02",
    };
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof EXAMPLES[0]; i++) {
        struct trace_context context;
        char text[TRACEPARENT_LEN + 1];
        assert_true(traceparent_read(str_of(EXAMPLES[i]), &context));
        traceparent_write(&context, text);
        assert_string_equal(text, EXAMPLES[i]);
    }
}

TEST(its_parts_are_numbers)
{
    struct trace_context context;
    assert_true(traceparent_read(STR(PARENT), &context));
    assert_int_equal(context.trace[0], UINT64_C(0x0af7651916cd43dd));
    assert_int_equal(context.trace[1], UINT64_C(0x8448eb211c80319c));
    assert_int_equal(context.span, UINT64_C(0xb7ad6b7169203331));
    assert_int_equal(context.flags, TRACE_SAMPLED);
}

TEST(unknown_flags_are_dropped)
{
    struct trace_context context;
    char text[TRACEPARENT_LEN + 1];
    assert_true(traceparent_read(STR("00-" TRACE "-" SPAN "-ff"), &context));
    traceparent_write(&context, text);
    assert_string_equal(text, "00-" TRACE "-" SPAN "-03");
}

TEST(a_later_version_is_read_and_written_as_00)
{
    static const char *const LATER[] = {
        "01-" TRACE "-" SPAN "-01",
        "cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like",
        "fe-" TRACE "-" SPAN "-01-",
    };
    for (size_t i = 0; i < sizeof LATER / sizeof LATER[0]; i++) {
        struct trace_context context;
        char text[TRACEPARENT_LEN + 1];
        assert_true(traceparent_read(str_of(LATER[i]), &context));
        traceparent_write(&context, text);
        assert_string_equal(text, PARENT);
    }
}

TEST(anything_else_is_no_trace)
{
    static const char *const BAD[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-01-", /* version 00 ends here */
        "00-" TRACE "-" SPAN "-01-more",
        "cc-" TRACE "-" SPAN "-01.what", /* not set off by a dash */
        "ff-" TRACE "-" SPAN "-01",      /* the version that is never used */
        "0-" TRACE "-" SPAN "-010",
        ".0-" TRACE "-" SPAN "-01",
        "0X-" TRACE "-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-" TRACE "-B7AD6B7169203331-01",
        "00-" TRACE "-" SPAN "-0A",
        "00-.af7651916cd43dd8448eb211c80319c-" SPAN "-01",
        "00-0af7651916cd43dd8448eb211c80319.-" SPAN "-01",
        "00-" TRACE "-.7ad6b7169203331-01",
        "00-" TRACE "-" SPAN "-g1",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        " " PARENT,
        PARENT " ",
    };
    struct trace_context context;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        if (traceparent_read(str_of(BAD[i]), &context))
            fail_msg("accepted: %s", BAD[i]);
    assert_false(traceparent_read((struct str){0}, &context));
}

/* ---- Sampling -------------------------------------------------------------------------------- */

static struct trace_sampler sampler_of(const char *name, const char *arg)
{
    struct trace_sampler sampler;
    struct redrive_err err = {0};
    if (trace_sampler_read(str_of(name), str_of(arg), &sampler, &err) < 0)
        fail_msg("%s %s: %s", name, arg ? arg : "", err.message);
    return sampler;
}

TEST(a_child_is_a_span_of_the_same_trace)
{
    const struct trace_sampler follows = sampler_of(NULL, NULL), off = sampler_of("always_off", "");
    struct trace_context parent;
    char text[TRACEPARENT_LEN + 1];
    assert_true(traceparent_read(STR(PARENT), &parent));
    struct trace_context child = trace_child(&follows, &parent, 0xabc);
    traceparent_write(&child, text);
    assert_string_equal(text, "00-" TRACE "-0000000000000abc-01");
    assert_int_equal(trace_child(&follows, &parent, 0).span, 1); /* zero is no id */
    assert_int_equal(trace_child(&off, &parent, 1).flags, 0);
}

static bool samples(const struct trace_sampler *sampler, const char *traceparent, const char *id)
{
    const struct trace_job job = {
        .id = str_of(id), .attempt = 1, .traceparent = str_of(traceparent)};
    return trace_attempt(sampler, &job).context.flags & TRACE_SAMPLED;
}

TEST(the_parents_flag_decides_where_there_is_a_parent)
{
    static const char *const NAMES[] = {"parentbased_always_on", "parentbased_always_off",
                                        "parentbased_traceidratio"};
    for (size_t i = 0; i < 3; i++) {
        const struct trace_sampler sampler = sampler_of(NAMES[i], "0.5");
        assert_true(samples(&sampler, PARENT, "a"));
        assert_false(samples(&sampler, "00-" TRACE "-" SPAN "-00", "a"));
        assert_false(samples(&sampler, "00-" TRACE "-" SPAN "-02", "a"));
    }
}

TEST(without_a_parent_the_sampler_decides)
{
    const struct trace_sampler by_default = sampler_of(NULL, NULL);
    const struct trace_sampler off = sampler_of("parentbased_always_off", NULL);
    assert_true(by_default.follows_parent);
    assert_true(samples(&by_default, NULL, "a"));
    assert_false(samples(&off, NULL, "a"));
}

TEST(a_sampler_that_is_not_parentbased_does_not_look_at_the_flag)
{
    const struct trace_sampler on = sampler_of("always_on", NULL);
    const struct trace_sampler off = sampler_of("always_off", NULL);
    assert_true(samples(&on, "00-" TRACE "-" SPAN "-00", "a"));
    assert_false(samples(&off, PARENT, "a"));
    /* The lower 56 bits of the trace's id, as the specification says. */
    const struct trace_sampler half = sampler_of("traceidratio", "0.5");
    assert_true(samples(&half, "00-00000000000000000080000000000000-" SPAN "-00", "a"));
    assert_false(samples(&half, "00-ffffffffffffffffff7fffffffffffff-" SPAN "-01", "a"));
}

TEST(a_ratio_is_about_that_share_of_jobs)
{
    const struct trace_sampler tenth = sampler_of("parentbased_traceidratio", "0.1");
    const struct trace_sampler all = sampler_of("traceidratio", "");
    const struct trace_sampler none = sampler_of("traceidratio", "0");
    int n = 0;
    for (int i = 0; i < 10000; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "job-%d", i);
        n += samples(&tenth, NULL, id);
        assert_true(samples(&all, NULL, id));
        assert_false(samples(&none, NULL, id));
    }
    assert_in_range(n, 850, 1150);
}

TEST(a_sampler_that_is_not_known_is_refused)
{
    struct trace_sampler sampler;
    struct redrive_err err = {0};
    assert_int_equal(trace_sampler_read(STR("alway_on"), STR(""), &sampler, &err),
                     REDRIVE_E_CONFIG);
    assert_non_null(strstr(err.message, "alway_on"));
    assert_non_null(strstr(err.hint, "always_on"));
    char longer[200];
    memset(longer, 'x', sizeof longer);
    assert_int_equal(
        trace_sampler_read((struct str){longer, sizeof longer}, STR(""), &sampler, &err),
        REDRIVE_E_CONFIG);
}

TEST(a_ratio_that_is_none_is_refused)
{
    static const char LONG[] = "0.00000000000000000000000000000000000000000000000000000000"
                               "00000000000000000000000001";
    static const char *const BAD[] = {"2", "1.01", "-0.5", "half", "0.5x", "nan", "1e9", LONG};
    struct trace_sampler sampler;
    struct redrive_err err = {0};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_int_equal(trace_sampler_read(STR("traceidratio"), str_of(BAD[i]), &sampler, &err),
                         REDRIVE_E_CONFIG);
        assert_non_null(strstr(err.message, "OTEL_TRACES_SAMPLER_ARG"));
    }
    (void)sampler_of("traceidratio", ".5");
    (void)sampler_of("always_on", "not looked at");
}

/* ---- Attempts -------------------------------------------------------------------------------- */

static struct trace_attempt attempt_of(const char *traceparent, uint32_t epoch, uint32_t attempt)
{
    const struct trace_sampler sampler = sampler_of(NULL, NULL);
    const struct trace_job job = {
        .tenant = STR("default"),
        .id = STR("picture-2"),
        .created_ms = 1700000000000,
        .epoch = epoch,
        .attempt = attempt,
        .traceparent = str_of(traceparent),
    };
    return trace_attempt(&sampler, &job);
}

TEST(attempts_are_children_of_the_submitters_span)
{
    const struct trace_attempt first = attempt_of(PARENT, 0, 1), second = attempt_of(PARENT, 0, 2);
    assert_int_equal(first.context.trace[0], UINT64_C(0x0af7651916cd43dd));
    assert_int_equal(first.context.trace[1], UINT64_C(0x8448eb211c80319c));
    assert_int_equal(first.parent, UINT64_C(0xb7ad6b7169203331));
    assert_int_equal(first.previous, 0);
    assert_int_equal(second.parent, first.parent);
    assert_int_equal(second.previous, first.context.span);
    assert_int_not_equal(second.context.span, first.context.span);
}

TEST(without_a_submitters_span_the_first_attempt_begins_the_trace)
{
    const struct trace_attempt first = attempt_of(NULL, 0, 1), second = attempt_of("bad", 0, 2);
    const struct trace_attempt redriven = attempt_of(NULL, 1, 1);
    assert_int_equal(first.parent, 0);
    assert_int_equal(first.previous, 0);
    assert_int_equal(second.parent, first.context.span);
    assert_int_equal(second.previous, first.context.span);
    assert_memory_equal(second.context.trace, first.context.trace, sizeof first.context.trace);
    assert_int_equal(redriven.parent, first.context.span);
    assert_int_equal(redriven.previous, 0);
    assert_int_not_equal(redriven.context.span, first.context.span);
}

TEST(another_job_has_another_trace)
{
    const struct trace_sampler sampler = sampler_of(NULL, NULL);
    const struct trace_job jobs[] = {
        {.tenant = STR("a"), .id = STR("1"), .created_ms = 5, .attempt = 1},
        {.tenant = STR("b"), .id = STR("1"), .created_ms = 5, .attempt = 1},
        {.tenant = STR("a"), .id = STR("2"), .created_ms = 5, .attempt = 1},
        {.tenant = STR("a"), .id = STR("1"), .created_ms = 6, .attempt = 1},
    };
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++) {
            const struct trace_attempt one = trace_attempt(&sampler, &jobs[i]);
            const struct trace_attempt other = trace_attempt(&sampler, &jobs[k]);
            assert_int_not_equal(one.context.trace[0], other.context.trace[0]);
            assert_int_not_equal(one.context.trace[1], other.context.trace[1]);
            assert_int_not_equal(one.context.span, other.context.span);
        }
}

TEST(a_handler_gets_the_span_of_its_attempt)
{
    const struct trace_sampler on = sampler_of(NULL, NULL), off = sampler_of("always_off", NULL);
    const struct trace_job job = {.id = STR("1"), .attempt = 1, .traceparent = STR(PARENT)};
    const struct trace_job alone = {.id = STR("1"), .attempt = 1};
    char text[TRACEPARENT_LEN + 1], expected[TRACEPARENT_LEN + 1];
    assert_true(trace_for_handler(&on, &job, text));
    traceparent_write(
        &(struct trace_context){{UINT64_C(0x0af7651916cd43dd), UINT64_C(0x8448eb211c80319c)},
                                trace_attempt(&on, &job).context.span,
                                TRACE_SAMPLED},
        expected);
    assert_string_equal(text, expected);
    assert_true(trace_for_handler(&off, &alone, text)); /* so that it samples none of its own */
    assert_string_equal(text + TRACEPARENT_LEN - 2, "02");
}

TEST(without_tracing_a_handler_gets_the_submitters_span)
{
    const struct trace_job job = {.id = STR("1"), .attempt = 2, .traceparent = STR(PARENT)};
    const struct trace_job alone = {.id = STR("1"), .attempt = 2};
    char text[TRACEPARENT_LEN + 1];
    assert_true(trace_for_handler(NULL, &job, text));
    assert_string_equal(text, PARENT);
    assert_false(trace_for_handler(NULL, &alone, text));
}

/* ---- With the job ---------------------------------------------------------------------------- */

TEST(a_job_keeps_its_traceparent_beside_its_policy)
{
    struct arena arena;
    arena_init(&arena);
    struct str alone = trace_keep(STR(PARENT), (struct str){0}, &arena);
    check_str(alone, "{\"traceparent\":\"" PARENT "\"}");
    check_str(trace_kept(alone), PARENT);
    check_str(trace_policy_members(alone), "}");
    assert_false(trace_has_policy(alone));
    struct str both = trace_keep(STR(PARENT), STR(" {\"max_retries\":3} "), &arena);
    check_str(both, "{\"traceparent\":\"" PARENT "\",\"max_retries\":3}");
    check_str(trace_kept(both), PARENT);
    check_str(trace_policy_members(both), "\"max_retries\":3}");
    assert_true(trace_has_policy(both));
    check_str(trace_keep(STR(PARENT), STR("{ }"), &arena), "{\"traceparent\":\"" PARENT "\"}");
    arena_release(&arena);
}

TEST(the_policy_can_be_had_alone)
{
    struct arena arena;
    struct buf out;
    arena_init(&arena);
    buf_init(&out, 100);
    check_str(trace_own_policy(STR("{\"a\":1}"), &out), "{\"a\":1}");
    assert_int_equal(trace_own_policy((struct str){0}, &out).len, 0);
    struct str alone = trace_keep(STR(PARENT), (struct str){0}, &arena);
    assert_int_equal(trace_own_policy(alone, &out).len, 0);
    struct str both = trace_keep(STR(PARENT), STR("{\"a\":1}"), &arena);
    check_str(trace_own_policy(both, &out), "{\"a\":1}");
    buf_release(&out);
    arena_release(&arena);
}

TEST(another_traceparent_takes_the_place_of_the_one_before)
{
    struct arena arena;
    arena_init(&arena);
    struct str before =
        trace_keep(STR("00-" TRACE "-0000000000000001-00"), STR("{\"a\":1}"), &arena);
    check_str(trace_keep(STR(PARENT), before, &arena), "{\"traceparent\":\"" PARENT "\",\"a\":1}");
    arena_release(&arena);
}

TEST(what_cannot_be_kept_leaves_the_policy_alone)
{
    struct arena arena;
    arena_init(&arena);
    check_str(trace_keep(STR("bad"), STR("{\"a\":1}"), &arena), "{\"a\":1}");
    check_str(trace_keep(STR(PARENT), STR("[1]"), &arena), "[1]");
    check_str(trace_keep(STR(PARENT), STR("{"), &arena), "{\"traceparent\":\"" PARENT "\",");
    assert_int_equal(trace_keep((struct str){0}, (struct str){0}, &arena).len, 0);
    arena_release(&arena);
}

TEST(a_policy_without_a_traceparent_has_none)
{
    static const char *const NONE[] = {
        "",
        "{}",
        "{\"max_retries\":3}",
        "{\"traceparent\":\"short\"}",
        "{\"traceparent\":\"" PARENT "x\"}",
        "{\"traceparent\":\"no traceparent, but as long as one is: fifty-five bytes\"}",
        "{\"note\":\"long enough for a traceparent, but its first member is another one\"}",
    };
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        assert_int_equal(trace_kept(str_of(NONE[i])).len, 0);
    check_str(trace_policy_members((struct str){0}), "}");
    check_str(trace_policy_members(STR("  ")), "}");
    check_str(trace_policy_members(STR("{\"a\":1}")), "\"a\":1}");
    assert_false(trace_has_policy((struct str){0}));
    assert_false(trace_has_policy(STR("{}")));
    assert_true(trace_has_policy(STR("{\"a\":1}")));
    assert_true(trace_has_policy(STR("x}")));
    check_str(trace_policy_members(STR("{ \"a\":1}")), "\"a\":1}");
}
