#include "check.h"

#include "api/job_query.h"

/* What each parameter does is in the transcript http-jobs-list.md. */

#define NOW INT64_C(1767225600000)
#define ALL (JOB_QUERY_JOBS | JOB_QUERY_STATE | JOB_QUERY_PAGE)

static struct arena arena;
static struct job_query q;
static struct redrive_err err;

static void begin(void)
{
    arena_release(&arena);
    arena_init(&arena);
    err = (struct redrive_err){0};
    job_query_init(&q, STR("acme"), ALL, ORDER_NEWEST, NOW, &arena, &err);
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

TEST(nothing_is_a_page_of_the_tenant)
{
    begin();
    assert_int_equal(job_query_finish(&q), 0);
    check_str(q.filter.tenant, "acme");
    assert_int_equal(q.filter.limit, JOB_QUERY_LIMIT);
    assert_int_equal(q.filter.order, ORDER_NEWEST);
    assert_false(job_query_selects(&q));
}

TEST(the_page_does_not_select)
{
    begin();
    assert_true(job_query_add(STR("limit"), STR("7"), &q));
    assert_true(job_query_add(STR("order"), STR("oldest"), &q));
    assert_int_equal(job_query_finish(&q), 0);
    assert_int_equal(q.filter.limit, 7);
    assert_int_equal(q.filter.order, ORDER_OLDEST);
    assert_false(job_query_selects(&q));
    assert_true(job_query_add(STR("status"), STR("failed"), &q));
    assert_true(job_query_selects(&q));
}

TEST(what_ends_in_this_millisecond_is_older_than_0)
{
    begin();
    assert_true(job_query_add(STR("older_than"), STR("0s"), &q));
    assert_int_equal(job_query_finish(&q), 0);
    assert_int_equal(q.filter.finished_before_ms, NOW + 1);
    begin();
    assert_true(job_query_add(STR("older_than"), STR("36500d"), &q));
    assert_int_equal(job_query_finish(&q), 0);
    assert_int_equal(q.filter.finished_before_ms, 1); /* nothing, rather than everything */
}

TEST(the_first_refusal_is_that_of_the_whole)
{
    begin();
    assert_false(job_query_add(STR("limit"), STR("0"), &q));
    assert_int_equal(job_query_finish(&q), REDRIVE_E_RANGE);
    assert_string_equal(q.reader.place, "limit");
}

TEST(a_wrong_member_of_an_object_is_named)
{
    begin();
    assert_int_equal(job_query_add_object(&q, STR("{\"task\":7}")), REDRIVE_E_INVALID);
    assert_string_equal(q.reader.place, "task");
    assert_string_equal(err.message, "task: it is a number");
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
