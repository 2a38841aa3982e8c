/* What the command line makes of the answers of operations. */
#include "cli/shared/answer.h"

#include "check.h"
#include "cli/jobs/list.h"
#include "engine/engine.h"

static struct arena arena;

static struct object parse(const char *json)
{
    return object_of(str_of(json), &arena);
}

static int forget(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

#define OBJECT_TEST(name) TEST_AROUND(name, NULL, forget)

/* ---- Members --------------------------------------------------------------------------------- */

OBJECT_TEST(what_is_missing_or_of_another_type_is_not_there)
{
    const struct object o =
        parse("{\"a\":null,\"b\":\"5\",\"c\":[1],\"d\":{},\"e\":\"yesterday\"}");
    struct object *items = NULL;
    assert_null(object_text(&o, "a").ptr);
    assert_null(object_text(&o, "none").ptr);
    assert_int_equal(object_int(&o, "b"), 0);
    assert_int_equal(object_span(&o, "b"), 0);
    assert_int_equal(object_time(&o, "e"), 0);
    assert_false(object_bool(&o, "b"));
    assert_null(object_object(&o, "c").members);
    assert_null(object_json(&o, "a").ptr);
    assert_int_equal(object_objects(&o, "d", &items), 0);
    assert_int_equal(object_objects(&o, "none", &items), 0);
    assert_null(parse("[1]").members);
    assert_null(parse("{\"a\":").members);
}

OBJECT_TEST(objects_of_an_array_come_in_order)
{
    const struct object o = parse("{\"list\":[{\"n\":1},{\"n\":2},7,{\"n\":3}]}");
    struct object *items = NULL;
    assert_int_equal(object_objects(&o, "list", &items), 4);
    assert_int_equal(object_int(&items[1], "n"), 2);
    assert_null(items[2].members);
    assert_int_equal(object_int(&items[3], "n"), 3);
}

/* JSON tells a text that was given from one that was made of something else by its length only. */
OBJECT_TEST(a_value_is_as_it_was_given)
{
    const struct object o =
        parse("{\"json\":\"x\",\"json_bytes\":3,\"text\":\"a\\nb\",\"text_bytes\":3,"
              "\"null\":null,\"null_bytes\":4,\"none\":null,\"none_bytes\":0,"
              "\"list\":[1, 2],\"list_bytes\":6,\"old\":\"x\",\"wide\":\"x\",\"wide_bytes\":7}");
    check_str(object_value(&o, "json", "json_bytes"), "\"x\"");
    check_str(object_value(&o, "text", "text_bytes"), "a\nb");
    check_str(object_value(&o, "null", "null_bytes"), "null");
    assert_null(object_value(&o, "none", "none_bytes").ptr);
    check_str(object_value(&o, "list", "list_bytes"), "[1, 2]");
    check_str(object_value(&o, "old", "old_bytes"), "\"x\"");
    /* With space around it, which is gone. */
    check_str(object_value(&o, "wide", "wide_bytes"), "\"x\"");
    assert_null(object_value(&o, "gone", "gone_bytes").ptr);
}

/* ---- What holds a job ------------------------------------------------------------------------ */

static void check_holder(const char *json, const char *holder, const char *until)
{
    const struct object gate = parse(json);
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(1000);
    job_add_holder(&text, &gate);
    assert_string_equal(buf_cstr(&text), holder);
    assert_string_equal(job_hold_text(&gate), until);
}

#define BREAKER(state) \
    "{\"kind\":\"breaker\",\"key\":\"mail\",\"state\":\"" state "\",\"may_go_at\":"
#define AT "\"2026-01-01T00:00:30.000Z\"}"

OBJECT_TEST(a_breaker_says_what_must_happen)
{
    check_holder(BREAKER("open") AT, "breaker mail (open)", "the next probe");
    check_holder(BREAKER("half_open") AT, "breaker mail (half_open)", "the next probe");
    check_holder(BREAKER("half_open") "null}", "breaker mail (half_open)",
                 "when the probes that are out have succeeded");
    check_holder(BREAKER("forced_open") "null}", "breaker mail (forced_open)",
                 "when it is reset by hand");
    check_holder(BREAKER("closed") AT, "breaker mail (closed)",
                 "parked jobs are let go one after another");
    check_holder(BREAKER("of_a_newer_server") AT, "breaker mail (of_a_newer_server)",
                 "parked jobs are let go one after another");
}

OBJECT_TEST(a_limit_says_what_must_happen)
{
    check_holder("{\"kind\":\"limit\",\"key\":\"k\",\"rate\":\"1/min\",\"concurrency\":null,"
                 "\"running\":0,\"may_go_at\":" AT,
                 "limit k (1/min)", "when the rate allows it");
    check_holder("{\"kind\":\"limit\",\"key\":\"k\",\"rate\":null,\"concurrency\":4,\"running\":3,"
                 "\"may_go_at\":null}",
                 "limit k (3 of 4 run)", "when a running job ends");
    check_holder("{\"kind\":\"budget\",\"key\":\"k\",\"retry_budget\":{\"ratio\":0.1,\"window\":10,"
                 "\"first_attempts\":3,\"retries\":1},\"may_go_at\":" AT,
                 "retry budget k (1 retry, 3 first attempts in 10s)",
                 "when the retry budget has room");
    check_holder("{\"kind\":\"budget\",\"key\":\"k\",\"retry_budget\":{\"max_tokens\":10,"
                 "\"tokens\":4.25},\"may_go_at\":null}",
                 "retry budget k (4.2 of 10 tokens)", "when the retry budget has room");
}

/* ---- Answers --------------------------------------------------------------------------------- */

static const char *answered; /* by the operation below */

static int give_answer(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    (void)c;
    (void)err;
    json_put_raw(w, str_of(answered));
    return 0;
}

static const struct operation ANSWERS = {.path = "/answers", .read = give_answer};

static int open_session(struct session *session)
{
    const struct store_options options = {.create = true};
    struct engine_options all = {.seed = 1};
    *session = (struct session){0};
    assert_int_equal(store_open("memory:", &options, &all.store, NULL), 0);
    return engine_open(&all, &session->engine, NULL);
}

/* A payload has up to 64 levels, and stands within the objects of an answer. */
TEST(answers_hold_payloads_as_deep_as_they_may_be)
{
    char text[400], levels[JSON_MAX_DEPTH + 1], ends[JSON_MAX_DEPTH + 1];
    struct session session;
    struct answer answer = {0}, list = {0};
    assert_int_equal(open_session(&session), 0);
    memset(levels, '[', JSON_MAX_DEPTH);
    memset(ends, ']', JSON_MAX_DEPTH);
    levels[JSON_MAX_DEPTH] = ends[JSON_MAX_DEPTH] = '\0';
    const struct ask ask = {.operation = &ANSWERS};
    answered = text;
    (void)snprintf(text, sizeof text, "{\"n\":1,\"payload\":%s%s}", levels, ends);
    assert_int_equal(answer_ask(&session, &ask, &answer, NULL), 0);
    assert_int_equal(object_int(&answer.object, "n"), 1);
    assert_int_equal(object_json(&answer.object, "payload").len, 2 * JSON_MAX_DEPTH);
    (void)snprintf(text, sizeof text, "{\"items\":[{\"n\":1,\"payload\":%s%s}],\"next\":null}",
                   levels, ends);
    assert_int_equal(answer_read(&session, &ANSWERS, (struct str){0}, &list, NULL), 0);
    const struct object item = answer_item(&list, 0, &list.arena);
    assert_int_equal(object_int(&item, "n"), 1);
    answer_release(&answer);
    answer_release(&list);
    engine_close(session.engine);
}

TEST(what_is_no_object_is_no_answer)
{
    static const char *const WRONG[] = {"[1]", "5", "{\"a\":", "", "{\"a\":1}x"};
    struct session session;
    const struct ask ask = {.operation = &ANSWERS};
    assert_int_equal(open_session(&session), 0);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        struct answer answer = {0};
        struct redrive_err err = {0};
        answered = WRONG[i];
        assert_int_equal(answer_ask(&session, &ask, &answer, &err), REDRIVE_E_PARSE);
        assert_string_equal(err.message, "the answer cannot be read");
        answer_release(&answer);
        assert_int_equal(answer_read(&session, &ANSWERS, (struct str){0}, &answer, &err),
                         REDRIVE_E_PARSE);
        answer_release(&answer);
    }
    engine_close(session.engine);
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* An operation that lists numbers, two on a page, and notes what it was given. */
#define LAST 5
static char given[200];

static bool note(struct str name, struct str value, void *ctx)
{
    int64_t *from = ctx;
    const size_t len = strlen(given);
    (void)snprintf(given + len, sizeof given - len, "%.*s=%.*s ", (int)name.len, name.ptr,
                   (int)value.len, value.ptr);
    if (str_is(name, "cursor"))
        *from = value.ptr[0] - '0';
    return true;
}

static int list_numbers(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    int64_t from = 1;
    char next[] = "0";
    (void)err;
    c->input->each(c->input->from, note, &from);
    api_begin_items(w);
    for (int64_t i = from; i < from + 2 && i <= LAST; i++) {
        json_begin_object(w);
        json_field_int(w, "n", i);
        json_end_object(w);
    }
    next[0] = (char)('0' + from + 2);
    json_end_array(w);
    json_field_cstr(w, "next", from + 2 <= LAST ? next : NULL);
    if (from == 3) {
        json_field_int(w, "unreadable", 2);
        json_field_cstr(w, "unreadable_first", "job 'x' is damaged");
    }
    json_end_object(w);
    return 0;
}

static const struct operation NUMBERS = {.path = "/numbers", .read = list_numbers};

static void give_color(void *from, api_take_fn take, void *ctx)
{
    (void)take(STR("color"), str_of(from), ctx);
}

static int64_t count(size_t limit, const char *cursor, char last_cursor[JOB_CURSOR_MAX])
{
    char color[] = "red";
    struct session session;
    struct api_input input = {.each = give_color, .from = color};
    const struct ask ask = {.operation = &NUMBERS, .input = &input};
    const struct answer *page;
    struct answer_pages pages;
    int64_t n = 0;
    int rc;
    given[0] = '\0';
    assert_int_equal(open_session(&session), 0);
    answer_pages_init(&pages, &session, &ask, limit, cursor);
    while ((rc = answer_pages_next(&pages, &page, NULL)) > 0)
        n += (int64_t)page->n;
    assert_int_equal(rc, 0);
    assert_true(str_copy(last_cursor, JOB_CURSOR_MAX, str_of(pages.cursor)));
    if (limit == 0) {
        assert_int_equal(pages.n_unreadable, 2);
        assert_string_equal(pages.unreadable.message, "job 'x' is damaged");
    }
    answer_pages_release(&pages);
    engine_close(session.engine);
    return n;
}

TEST(pages_follow_until_there_are_enough)
{
    char cursor[JOB_CURSOR_MAX];
    assert_int_equal(count(4, NULL, cursor), 4);
    assert_string_equal(given, "color=red limit=4 color=red limit=2 cursor=3 ");
    assert_string_equal(cursor, "5");
    assert_int_equal(count(100, "5", cursor), 1);
    assert_string_equal(given, "color=red limit=100 cursor=5 ");
    assert_string_equal(cursor, "");
}

TEST(without_a_limit_pages_follow_to_the_end)
{
    char cursor[JOB_CURSOR_MAX];
    assert_int_equal(count(0, NULL, cursor), LAST);
    assert_string_equal(cursor, "");
}
