#include "check.h"

#include "server/rest/body/job_query.h"
#include "store/page.h"

#define NOW INT64_C(1767225600000)
#define ALL (JOB_QUERY_STATE | JOB_QUERY_PAGE)

static struct arena arena;
static struct job_query q;
static struct redrive_err err;

static void begin(unsigned allows)
{
    arena_release(&arena);
    arena_init(&arena);
    err = (struct redrive_err){0};
    job_query_init(&q, STR("acme"), allows, ORDER_NEWEST, NOW, &arena);
}

static int add(const char *name, const char *value)
{
    return job_query_add(&q, str_of(name), str_of(value), &err);
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

TEST(nothing_is_a_page_of_the_tenant)
{
    begin(ALL);
    assert_int_equal(job_query_finish(&q, &err), 0);
    check_str(q.filter.tenant, "acme");
    assert_int_equal(q.filter.limit, JOB_QUERY_LIMIT);
    assert_int_equal(q.filter.order, ORDER_NEWEST);
    assert_false(job_query_selects(&q));
}

TEST(every_parameter_narrows_it_down)
{
    begin(ALL);
    assert_int_equal(add("task", "t"), 0);
    assert_int_equal(add("queue", "q"), 0);
    assert_int_equal(add("user", "u"), 0);
    assert_int_equal(add("unique_key", "k"), 0);
    assert_int_equal(add("state", "queued,running"), 0);
    assert_int_equal(add("status", "parked"), 0);
    assert_int_equal(add("class", "network"), 0);
    assert_int_equal(add("class", "transient"), 0);
    assert_int_equal(add("reason", "poison"), 0);
    assert_int_equal(add("error_type", "IOError"), 0);
    assert_int_equal(add("text", "bucket"), 0);
    assert_int_equal(add("group", "00000000000000Ff"), 0);
    assert_int_equal(add("older_than", "1h"), 0);
    assert_int_equal(add("newer_than", "2h"), 0);
    assert_int_equal(add("limit", "1000"), 0);
    assert_int_equal(add("order", "finished"), 0);
    assert_int_equal(job_query_finish(&q, &err), 0);
    const struct job_filter *f = &q.filter;
    check_str(f->task, "t");
    check_str(f->queue, "q");
    check_str(f->user, "u");
    check_str(f->unique_key, "k");
    assert_int_equal(f->states, 1u << REDRIVE_STATE_QUEUED | 1u << REDRIVE_STATE_RUNNING |
                                    1u << REDRIVE_STATE_PARKED);
    assert_int_equal(f->classes, 1u << REDRIVE_CLASS_NETWORK | 1u << REDRIVE_CLASS_TRANSIENT);
    assert_int_equal(f->reasons, 1u << REDRIVE_REASON_POISON);
    check_str(f->error_type, "IOError");
    check_str(f->text, "bucket");
    assert_int_equal(f->fingerprint, 255);
    assert_int_equal(f->finished_before_ms, NOW - 3600 * 1000 + 1);
    assert_int_equal(f->finished_after_ms, NOW - 2 * 3600 * 1000);
    assert_int_equal(f->limit, 1000);
    assert_int_equal(f->order, ORDER_FINISHED);
    assert_true(job_query_selects(&q));
}

TEST(a_cursor_goes_on_where_a_page_ended)
{
    char cursor[JOB_CURSOR_MAX];
    const struct job job = {.status = {.seq = 77}};
    begin(ALL);
    assert_int_equal(
        add("cursor", job_cursor_write(&(struct job_filter){.order = ORDER_NEWEST}, &job, cursor)),
        0);
    assert_int_equal(job_query_finish(&q, &err), 0);
    assert_int_equal(q.filter.after_seq, 77);
    begin(ALL);
    assert_int_equal(add("cursor", cursor), 0);
    assert_int_equal(add("order", "oldest"), 0);
    assert_int_equal(job_query_finish(&q, &err), REDRIVE_E_INVALID);
    assert_string_equal(q.field, "cursor");
}

static void check_refused(unsigned allows, const char *name, const char *value, int code)
{
    begin(allows);
    assert_int_equal(add(name, value), code);
    assert_string_equal(q.field, name);
}

TEST(what_is_not_allowed_is_unknown)
{
    check_refused(ALL, "tenant", "other", REDRIVE_E_UNKNOWN);
    check_refused(ALL, "stat", "queued", REDRIVE_E_UNKNOWN);
    assert_non_null(strstr(err.hint, "'state'"));
    check_refused(JOB_QUERY_PAGE, "state", "queued", REDRIVE_E_UNKNOWN);
    check_refused(JOB_QUERY_LIMITS, "cursor", "x", REDRIVE_E_UNKNOWN);
    check_refused(0, "limit", "5", REDRIVE_E_UNKNOWN);
    begin(JOB_QUERY_LIMITS);
    assert_int_equal(add("limit", "5"), 0);
}

TEST(wrong_values_are_refused)
{
    check_refused(ALL, "task", "", REDRIVE_E_INVALID);
    check_refused(ALL, "task", "\xff", REDRIVE_E_INVALID);
    check_refused(ALL, "state", "queued,", REDRIVE_E_INVALID);
    check_refused(ALL, "state", "quueued", REDRIVE_E_INVALID);
    assert_non_null(strstr(err.hint, "'queued'"));
    check_refused(ALL, "class", "success", REDRIVE_E_INVALID);
    check_refused(ALL, "reason", "none", REDRIVE_E_INVALID);
    check_refused(ALL, "group", "ff", REDRIVE_E_INVALID);
    check_refused(ALL, "group", "0000000000000000", REDRIVE_E_INVALID);
    check_refused(ALL, "older_than", "24", REDRIVE_E_INVALID);
    check_refused(ALL, "limit", "0", REDRIVE_E_RANGE);
    check_refused(ALL, "limit", "1001", REDRIVE_E_RANGE);
    check_refused(ALL, "limit", "ten", REDRIVE_E_INVALID);
    check_refused(ALL, "limit", "99999999999999999999", REDRIVE_E_INVALID);
    check_refused(ALL, "order", "random", REDRIVE_E_INVALID);
    begin(ALL);
    assert_int_equal(add("task", "a"), 0);
    assert_int_equal(add("task", "b"), REDRIVE_E_INVALID);
    begin(ALL);
    assert_int_equal(add("older_than", "2h"), 0);
    assert_int_equal(add("newer_than", "1h"), 0);
    assert_int_equal(job_query_finish(&q, &err), REDRIVE_E_INVALID);
}

static int add_object(const char *json)
{
    begin(0);
    return job_query_add_object(&q, str_of(json), &err);
}

TEST(an_object_has_the_same_names)
{
    assert_int_equal(
        add_object("{\"task\":\"t\\u0031\",\"class\":[\"network\",\"database\"],\"queue\":null}"),
        0);
    check_str(q.filter.task, "t1");
    assert_null(q.filter.queue.ptr);
    assert_int_equal(q.filter.classes, 1u << REDRIVE_CLASS_NETWORK | 1u << REDRIVE_CLASS_DATABASE);
    assert_true(job_query_selects(&q));
    assert_int_equal(add_object("{\"tsk\":\"t\"}"), REDRIVE_E_UNKNOWN);
    assert_string_equal(q.field, "tsk");
    assert_int_equal(add_object("{\"task\":7}"), REDRIVE_E_INVALID);
    assert_string_equal(q.field, "task");
    assert_int_equal(add_object("{\"task\":[\"a\",\"b\"]}"), REDRIVE_E_INVALID);
    assert_int_equal(add_object("{}"), 0);
    assert_false(job_query_selects(&q));
}

TEST(an_empty_list_is_refused)
{
    assert_int_equal(add_object("{\"task\":\"t\",\"class\":[]}"), REDRIVE_E_INVALID);
    assert_string_equal(q.field, "class");
    assert_int_equal(add_object("{\"task\":[]}"), REDRIVE_E_INVALID);
    assert_string_equal(q.field, "task");
    assert_int_equal(add_object("{\"tsk\":[]}"), REDRIVE_E_UNKNOWN);
    assert_int_equal(add_object("{\"class\":[\"network\"]}"), 0);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
