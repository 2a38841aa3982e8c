#include "base/os/log.h"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json/json.h"

static char written[128 * 1024];
static int lines;

static bool is_out_of_memory;
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
    return is_out_of_memory ? NULL : __real_realloc(old, size);
}

static void keep(struct str line, void *ctx)
{
    assert_ptr_equal(ctx, &lines);
    assert_true(line.len < sizeof written);
    memcpy(written, line.ptr, line.len);
    written[line.len] = '\0';
    lines++;
}

static struct log log_of(enum log_format format)
{
    lines = 0;
    return (struct log){.level = LOG_LEVEL_INFO, .format = format, .sink = keep, .ctx = &lines};
}

#define AT INT64_C(1777636800123)

TEST(a_text_line_is_event_and_fields)
{
    struct log log = log_of(LOG_TEXT);
    log_event(&log, LOG_LEVEL_WARNING, AT, "retrying", LOG_S("task", "enrich"), LOG_I("attempt", 2),
              LOG_D("rate", 0.5), LOG_B("probe", true), LOG_S("message", "timed out"),
              LOG_S("empty", ""));
    assert_string_equal(written,
                        "2026-05-01T12:00:00.123Z WARN  retrying task=enrich attempt=2 rate=0.5 "
                        "probe=true message=\"timed out\" empty=\"\"\n");
}

TEST(a_json_line_is_one_object)
{
    struct log log = log_of(LOG_JSON);
    log_event(&log, LOG_LEVEL_ERROR, AT, "failed", LOG_STR("message", STR("say \"no\"\n")),
              LOG_I("n", -1));
    assert_string_equal(written,
                        "{\"at\":\"2026-05-01T12:00:00.123Z\",\"level\":\"error\","
                        "\"event\":\"failed\",\"message\":\"say \\\"no\\\"\\n\",\"n\":-1}\n");
}

TEST(whatever_a_message_contains_it_stays_one_line)
{
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        struct log log = log_of((enum log_format)format);
        char bytes[256];
        for (int i = 0; i < 256; i++)
            bytes[i] = (char)i;
        log_event(&log, LOG_LEVEL_INFO, AT, "failed",
                  LOG_STR("message", ((struct str){bytes, sizeof bytes})));
        assert_int_equal(lines, 1);
        size_t len = strlen(written);
        assert_ptr_equal(strchr(written, '\n'), written + len - 1);
        if (format == LOG_JSON)
            assert_int_equal(json_check((struct str){written, len - 1}, NULL, NULL), 0);
    }
}

TEST(levels_below_the_limit_are_not_written)
{
    struct log log = log_of(LOG_TEXT);
    log_event(&log, LOG_LEVEL_DEBUG, AT, "x", LOG_I("n", 1));
    log_event((struct log *)NULL, LOG_LEVEL_ERROR, AT, "x", LOG_I("n", 1));
    log.level = LOG_LEVEL_OFF;
    log_event(&log, LOG_LEVEL_ERROR, AT, "x", LOG_I("n", 1));
    log_write(&log, LOG_LEVEL_OFF, AT, "x", NULL, 0);
    assert_int_equal(lines, 0);
}

TEST(fields_that_are_too_long_are_left_out_and_said_so)
{
    struct log log = log_of(LOG_TEXT);
    char *big = malloc(100000);
    memset(big, 'x', 100000);
    log_event(&log, LOG_LEVEL_INFO, AT, "failed", LOG_STR("m", ((struct str){big, 100000})));
    free(big);
    assert_string_equal(written, "2026-05-01T12:00:00.123Z INFO  failed "
                                 "cut=\"the fields are over 64 KiB\"\n");
}

TEST(line_gets_out_when_memory_has_run_out)
{
    char big[4000];
    memset(big, 'x', sizeof big);
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        struct log log = log_of((enum log_format)format);
        is_out_of_memory = true;
        log_event(&log, LOG_LEVEL_INFO, AT, "failed", LOG_S("error", "out of memory"));
        is_out_of_memory = false;
        assert_non_null(strstr(written, "out of memory"));
        log = log_of((enum log_format)format);
        is_out_of_memory = true;
        log_event(&log, LOG_LEVEL_INFO, AT, "failed",
                  LOG_STR("m", ((struct str){big, sizeof big})));
        is_out_of_memory = false;
        assert_string_equal(written,
                            format == LOG_TEXT
                                ? "2026-05-01T12:00:00.123Z INFO  failed cut=\"out of memory\"\n"
                                : "{\"at\":\"2026-05-01T12:00:00.123Z\",\"level\":\"info\","
                                  "\"event\":\"failed\",\"cut\":\"out of memory\"}\n");
    }
}

TEST(a_line_of_exactly_the_limit_still_ends)
{
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        struct log log = log_of((enum log_format)format);
        char *field = malloc(65536);
        memset(field, 'x', 65536);
        for (size_t len = 65400; len < 65536; len++) {
            log_event(&log, LOG_LEVEL_INFO, AT, "failed", LOG_STR("m", ((struct str){field, len})));
            assert_int_equal(written[strlen(written) - 1], '\n');
        }
        free(field);
    }
}

TEST(levels_have_names)
{
    assert_string_equal(log_level_name(LOG_LEVEL_DEBUG), "debug");
    assert_string_equal(log_level_name(LOG_LEVEL_WARNING), "warning");
    assert_string_equal(log_level_name(LOG_LEVEL_OFF), "off");
}

TEST(gathered_lines_come_in_one_call_in_their_order)
{
    struct log log = log_of(LOG_TEXT);
    log.takes_several = true;
    struct log_gather gather;
    const struct log *gathered = log_gather_begin(&gather, &log);
    log_event(gathered, LOG_LEVEL_INFO, AT, "started", LOG_I("attempt", 1));
    log_event(gathered, LOG_LEVEL_DEBUG, AT, "submitted", LOG_I("attempt", 0));
    log_event(gathered, LOG_LEVEL_INFO, AT, "completed", LOG_I("attempt", 1));
    assert_int_equal(lines, 0);
    log_gather_end(&gather);
    assert_int_equal(lines, 1);
    assert_string_equal(written, "2026-05-01T12:00:00.123Z INFO  started attempt=1\n"
                                 "2026-05-01T12:00:00.123Z INFO  completed attempt=1\n");
    log_gather_end(&gather);
    assert_int_equal(lines, 1);
}

static size_t longest_call, n_ends;

static void measure(struct str line, void *ctx)
{
    (void)ctx;
    assert_true(line.len > 0 && line.ptr[line.len - 1] == '\n');
    longest_call = line.len > longest_call ? line.len : longest_call;
    for (size_t i = 0; i < line.len; i++)
        n_ends += line.ptr[i] == '\n';
}

TEST(a_call_has_whole_lines_that_a_pipe_takes_at_once)
{
    struct log log = {.level = LOG_LEVEL_INFO, .sink = measure, .takes_several = true};
    struct log_gather gather;
    longest_call = n_ends = 0;
    const struct log *gathered = log_gather_begin(&gather, &log);
    for (int i = 0; i < 1000; i++)
        log_event(gathered, LOG_LEVEL_INFO, AT, "started", LOG_I("attempt", i));
    log_gather_end(&gather);
    assert_int_equal(n_ends, 1000);
    assert_in_range(longest_call, LOG_GATHER_BYTES - 100, LOG_GATHER_BYTES);
}

TEST(a_line_that_is_longer_than_a_call_keeps_its_place)
{
    char text[LOG_GATHER_BYTES + 1];
    memset(text, 'x', LOG_GATHER_BYTES);
    text[LOG_GATHER_BYTES] = '\0';
    struct log log = log_of(LOG_TEXT);
    log.takes_several = true;
    struct log_gather gather;
    const struct log *gathered = log_gather_begin(&gather, &log);
    log_event(gathered, LOG_LEVEL_INFO, AT, "first", LOG_I("n", 1));
    log_event(gathered, LOG_LEVEL_INFO, AT, "second", LOG_S("message", text));
    assert_int_equal(lines, 2);
    assert_true(strstr(written, "second") && strstr(written, text));
    log_gather_end(&gather);
    assert_int_equal(lines, 2);
}

TEST(sink_that_takes_one_line_gets_one_line_a_call)
{
    struct log log = log_of(LOG_TEXT);
    struct log_gather gather;
    const struct log *gathered = log_gather_begin(&gather, &log);
    log_event(gathered, LOG_LEVEL_INFO, AT, "started", LOG_I("attempt", 1));
    log_event(gathered, LOG_LEVEL_INFO, AT, "completed", LOG_I("attempt", 1));
    assert_int_equal(lines, 2);
    log_gather_end(&gather);
    assert_int_equal(lines, 2);
}

TEST(no_log_can_be_gathered_for)
{
    struct log_gather gather;
    assert_null(log_gather_begin(&gather, NULL));
    log_gather_end(&gather);
    struct log silent = {.level = LOG_LEVEL_INFO, .takes_several = true};
    assert_false(log_wants(log_gather_begin(&gather, &silent), LOG_LEVEL_ERROR));
    log_gather_end(&gather);
}

TEST(standard_error_gets_whole_lines)
{
    int pipe_fds[2];
    int saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    log_to_stderr(STR("a line\n"), NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipe_fds[1]);
    char got[32] = "";
    assert_int_equal(read(pipe_fds[0], got, sizeof got), 7);
    assert_string_equal(got, "a line\n");
    close(pipe_fds[0]);
}
