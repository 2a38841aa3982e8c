/* When breakers changed: what is noted from what is read now and then. */
#include "check.h"

#include <string.h>

#include "base/text/buf.h"
#include "engine/event.h"
#include "engine/gates/view.h"
#include "server/dashboard/breaker_history.h"

#define SECOND 1000
#define HOUR   (3600 * SECOND)

static struct breaker_history *history;

static int begin(void **state)
{
    (void)state;
    return breaker_history_new(&history, NULL);
}

static int end(void **state)
{
    (void)state;
    breaker_history_free(history);
    return 0;
}

static void see(const char *tenant, const char *key, enum redrive_breaker_state state,
                int64_t opened_ms, int64_t now_ms)
{
    struct breaker_info info = {
        .tenant = str_of(tenant),
        .key = str_of(key),
        .status = {.state = state, .opened_at_ms = opened_ms},
    };
    const struct breaker_page page = {.breakers = &info, .n = 1};
    breaker_history_note(history, &page, now_ms);
}

/* What a tenant is told, in static memory. */
static const char *told(const char *tenant, int64_t now_ms, int64_t span_ms)
{
    static char text[100000];
    struct json_writer w;
    struct buf out;
    buf_init(&out, sizeof text);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    breaker_history_write(history, str_of(tenant), now_ms, span_ms, &w);
    json_end_array(&w);
    assert_true(str_copy(text, sizeof text, buf_str(&out)));
    buf_release(&out);
    return text;
}

#define FIXTURE_TEST(test) TEST_AROUND(test, begin, end)

FIXTURE_TEST(what_stays_as_it_is_is_no_change)
{
    assert_int_equal(breaker_history_since_ms(history), 0);
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 0, 10 * SECOND);
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 0, 20 * SECOND);
    assert_string_equal(told("red", 20 * SECOND, HOUR), "[]");
    assert_int_equal(breaker_history_since_ms(history), 10 * SECOND);
}

FIXTURE_TEST(an_opening_has_its_own_time_and_a_closing_that_of_the_look)
{
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 0, 10 * SECOND);
    see("red", "mail", REDRIVE_BREAKER_OPEN, 13 * SECOND, 20 * SECOND);
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 13 * SECOND, 30 * SECOND);
    assert_string_equal(told("red", 30 * SECOND, HOUR),
                        "[{\"at\":\"1970-01-01T00:00:13.000Z\",\"key\":\"mail\","
                        "\"previous_state\":\"closed\",\"state\":\"open\"},"
                        "{\"at\":\"1970-01-01T00:00:30.000Z\",\"key\":\"mail\","
                        "\"previous_state\":\"open\",\"state\":\"closed\"}]");
}

FIXTURE_TEST(one_that_opened_and_closed_between_two_looks_is_seen)
{
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 5 * SECOND, 10 * SECOND);
    assert_string_equal(told("red", 10 * SECOND, HOUR), "[]"); /* long ago, before the first look */
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 14 * SECOND, 20 * SECOND);
    const char *text = told("red", 20 * SECOND, HOUR);
    assert_non_null(strstr(text, "00:14.000Z\",\"key\":\"mail\",\"previous_state\":\"closed\""));
    assert_non_null(strstr(text, "00:20.000Z\",\"key\":\"mail\",\"previous_state\":\"open\""));
}

static void hear(const char *key, enum redrive_breaker_state was, enum redrive_breaker_state state,
                 int64_t at_ms)
{
    breaker_history_event(history, &(struct engine_event){.kind = ENGINE_EVENT_BREAKER,
                                                          .at_ms = at_ms,
                                                          .tenant = STR("red"),
                                                          .breaker = str_of(key),
                                                          .was = was,
                                                          .state = state});
}

static size_t count_of(const char *text, const char *word)
{
    size_t n = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

FIXTURE_TEST(changes_of_this_process_are_noted_when_they_happen)
{
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 0, 10 * SECOND);
    hear("mail", REDRIVE_BREAKER_CLOSED, REDRIVE_BREAKER_OPEN, 11 * SECOND);
    hear("mail", REDRIVE_BREAKER_OPEN, REDRIVE_BREAKER_HALF_OPEN, 12 * SECOND);
    hear("mail", REDRIVE_BREAKER_HALF_OPEN, REDRIVE_BREAKER_CLOSED, 13 * SECOND);
    /* The next look finds nothing new: the opening has been told. */
    see("red", "mail", REDRIVE_BREAKER_CLOSED, 11 * SECOND, 20 * SECOND);
    const char *text = told("red", 20 * SECOND, HOUR);
    assert_int_equal(count_of(text, "\"at\""), 3);
    assert_non_null(strstr(text, "00:11.000Z\",\"key\":\"mail\",\"previous_state\":\"closed\","
                                 "\"state\":\"open\""));
    assert_non_null(strstr(text, "00:12.000Z\",\"key\":\"mail\",\"previous_state\":\"open\","
                                 "\"state\":\"half_open\""));
    assert_non_null(strstr(text, "00:13.000Z\",\"key\":\"mail\",\"previous_state\":\"half_open\","
                                 "\"state\":\"closed\""));
    /* Another process opens it: a look finds that. */
    see("red", "mail", REDRIVE_BREAKER_OPEN, 25 * SECOND, 30 * SECOND);
    assert_int_equal(count_of(told("red", 30 * SECOND, HOUR), "\"at\""), 4);
}

FIXTURE_TEST(one_that_is_open_at_the_first_look_is_told_of)
{
    see("red", "mail", REDRIVE_BREAKER_FORCED_OPEN, 4 * SECOND, 10 * SECOND);
    assert_non_null(strstr(told("red", 10 * SECOND, HOUR),
                           "00:04.000Z\",\"key\":\"mail\",\"previous_state\":\"closed\","
                           "\"state\":\"forced_open\""));
}

FIXTURE_TEST(tenants_and_spans_are_kept_apart)
{
    see("red", "mail", REDRIVE_BREAKER_OPEN, 10 * SECOND, 10 * SECOND);
    see("blue", "mail", REDRIVE_BREAKER_CLOSED, 0, 10 * SECOND);
    assert_string_equal(told("blue", 10 * SECOND, HOUR), "[]");
    assert_string_equal(told("red", 100 * SECOND, 60 * SECOND), "[]");
    assert_string_not_equal(told("red", 100 * SECOND, 95 * SECOND), "[]");
}

FIXTURE_TEST(old_changes_make_room)
{
    size_t n = 0;
    for (int64_t i = 1; i <= BREAKER_CHANGES_MAX + 10; i++)
        see("red", "m", i % 2 ? REDRIVE_BREAKER_DISABLED : REDRIVE_BREAKER_CLOSED, 0, i * SECOND);
    struct buf out;
    struct json_writer w;
    buf_init(&out, 4u << 20);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    breaker_history_write(history, STR("red"), 5000 * SECOND, 24 * HOUR, &w);
    json_end_array(&w);
    for (const char *at = buf_cstr(&out); (at = strstr(at, "\"at\":")); at++)
        n++;
    buf_release(&out);
    assert_int_equal(n, BREAKER_CHANGES_MAX);
}
