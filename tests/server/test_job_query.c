#include "check.h"

#include "server/rest/body/job_query.h"

/* What each parameter does is in the transcript http-jobs-list.md. */

#define NOW INT64_C(1767225600000)
#define ALL (JOB_QUERY_STATE | JOB_QUERY_PAGE)

static struct arena arena;
static struct job_query q;
static struct redrive_err err;

static void begin(void)
{
    arena_release(&arena);
    arena_init(&arena);
    err = (struct redrive_err){0};
    job_query_init(&q, STR("acme"), ALL, ORDER_NEWEST, NOW, &arena);
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
    assert_int_equal(job_query_finish(&q, &err), 0);
    check_str(q.filter.tenant, "acme");
    assert_int_equal(q.filter.limit, JOB_QUERY_LIMIT);
    assert_int_equal(q.filter.order, ORDER_NEWEST);
    assert_false(job_query_selects(&q));
}

/* A server refuses such a query before. */
TEST(what_is_no_text_is_refused)
{
    begin();
    assert_int_equal(job_query_add(&q, STR("task"), STR("\xff"), &err), REDRIVE_E_INVALID);
    assert_string_equal(q.field, "task");
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
