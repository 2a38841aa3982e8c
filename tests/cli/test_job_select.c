#include "check.h"

#include "cli/jobs/select.h"
#include "core/classify/fingerprint.h"

#define NOW_MS INT64_C(1767225600000)

static struct job_filter filter;
static struct redrive_err err;

static int read_select(const struct job_select *select)
{
    err = (struct redrive_err){0};
    return job_select_read(select, 0, NOW_MS, &filter, &err);
}

TEST(nothing_given_matches_everything)
{
    const struct job_select select = {0};
    const struct job_filter everything = {0};
    assert_true(job_select_is_empty(&select));
    assert_int_equal(read_select(&select), 0);
    assert_memory_equal(&filter, &everything, sizeof filter);
}

TEST(texts_are_taken_over)
{
    const struct job_select select = {.tenant = "a",
                                      .task = "b",
                                      .queue = "c",
                                      .user = "d",
                                      .type = "e",
                                      .text = "f g",
                                      .group = "00000000DEADbeef"};
    assert_int_equal(read_select(&select), 0);
    check_str(filter.tenant, "a");
    check_str(filter.task, "b");
    check_str(filter.queue, "c");
    check_str(filter.user, "d");
    check_str(filter.error_type, "e");
    check_str(filter.text, "f g");
    assert_int_equal(filter.fingerprint, 0xdeadbeef);
    assert_false(job_select_is_empty(&select));
}

TEST(words_become_bits)
{
    const char *states[] = {"queued,dead_letter", "failed"};
    const char *classes[] = {"network"};
    const char *reasons[] = {"poison,manual"};
    const struct job_select select = {
        .states = {states, 2}, .classes = {classes, 1}, .reasons = {reasons, 1}};
    assert_int_equal(read_select(&select), 0);
    assert_int_equal(filter.states, 1u << REDRIVE_STATE_QUEUED | 1u << REDRIVE_STATE_DEAD_LETTER |
                                        1u << REDRIVE_STATE_FAILED);
    assert_int_equal(filter.classes, 1u << REDRIVE_CLASS_NETWORK);
    assert_int_equal(filter.reasons, 1u << REDRIVE_REASON_POISON | 1u << REDRIVE_REASON_MANUAL);
}

TEST(unknown_word_gets_a_suggestion)
{
    const char *states[] = {"queued,runing"};
    const char *success[] = {"success"};
    const char *none[] = {"none"};
    const char *comma[] = {"queued,"};
    const struct job_select misspelt = {.states = {states, 1}};
    const struct job_select no_error = {.classes = {success, 1}};
    const struct job_select no_reason = {.reasons = {none, 1}};
    const struct job_select no_word = {.states = {comma, 1}};
    assert_int_equal(read_select(&misspelt), REDRIVE_E_USAGE);
    assert_string_equal(err.message, "--state: there is no 'runing'");
    assert_string_equal(err.hint, "did you mean 'running'?");
    assert_int_equal(read_select(&no_error), REDRIVE_E_USAGE);
    assert_int_equal(read_select(&no_reason), REDRIVE_E_USAGE);
    assert_int_equal(read_select(&no_word), REDRIVE_E_USAGE);
}

TEST(group_has_sixteen_digits)
{
    static const char *const WRONG[] = {"",
                                        "deadbeef",
                                        "00000000deadbeef0",
                                        "0x000000deadbeef",
                                        "0000000000000000",
                                        "00000000deadbeeg",
                                        " 0000000deadbeef"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        const struct job_select select = {.group = WRONG[i]};
        assert_int_equal(read_select(&select), REDRIVE_E_USAGE);
    }
    char text[FINGERPRINT_TEXT_MAX];
    assert_string_equal(fingerprint_text(0xdeadbeef, text), "00000000deadbeef");
}

TEST(ages_become_bounds)
{
    const struct job_select select = {.older_than = "1h", .newer_than = "1d"};
    const struct job_select all = {.older_than = "0"};
    const struct job_select ever = {.older_than = "36500d"};
    assert_int_equal(read_select(&select), 0);
    assert_int_equal(filter.finished_before_ms, NOW_MS - 3600 * 1000 + 1);
    assert_int_equal(filter.finished_after_ms, NOW_MS - 86400 * 1000);
    assert_int_equal(read_select(&all), 0);
    assert_int_equal(filter.finished_before_ms, NOW_MS + 1);
    assert_int_equal(read_select(&ever), 0);
    assert_int_equal(filter.finished_before_ms, 1); /* nothing, rather than everything */
}

TEST(ages_that_make_no_sense_are_refused)
{
    const struct job_select no_unit = {.older_than = "30"};
    const struct job_select empty = {.older_than = ""};
    const struct job_select crossed = {.older_than = "1d", .newer_than = "1h"};
    assert_int_equal(read_select(&no_unit), REDRIVE_E_USAGE);
    assert_non_null(strstr(err.message, "--older-than: "));
    assert_int_equal(read_select(&empty), REDRIVE_E_USAGE);
    assert_int_equal(read_select(&crossed), REDRIVE_E_USAGE);
}

static bool add_word(struct str name, struct str value, void *text)
{
    (void)buf_printf(text, "%.*s=%.*s ", (int)name.len, name.ptr, (int)value.len, value.ptr);
    return true;
}

static bool refuse(struct str name, struct str value, void *count)
{
    (void)name;
    (void)value;
    ++*(int *)count;
    return false;
}

TEST(what_is_given_becomes_parameters)
{
    const char *states[] = {"queued,failed"};
    const char *classes[] = {"network", "timeout"};
    const struct job_select select = {.tenant = "not one of them",
                                      .task = "a b",
                                      .states = {states, 1},
                                      .classes = {classes, 2},
                                      .newer_than = "1h"};
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(1000);
    int n = 0;
    assert_true(job_select_each(&select, 0, add_word, &text));
    assert_string_equal(buf_cstr(&text),
                        "state=queued,failed class=network class=timeout task=a b newer_than=1h ");
    buf_reset(&text);
    assert_true(job_select_each(&select, 1u << REDRIVE_STATE_DEAD_LETTER, add_word, &text));
    assert_string_equal(buf_cstr(&text),
                        "state=dead_letter class=network class=timeout task=a b newer_than=1h ");
    assert_false(job_select_each(&select, 0, refuse, &n));
    assert_int_equal(n, 1);
}
