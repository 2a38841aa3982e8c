#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "cli/frame/cli.h"
#include "cli/output/progress.h"
#include "cli/output/term.h"

/* ---- Colour ---------------------------------------------------------------------------------- */

TEST(colour_is_for_terminals)
{
    assert_true(term_wants_color(COLOR_AUTO, true, NULL, "xterm"));
    assert_false(term_wants_color(COLOR_AUTO, false, NULL, "xterm"));
    assert_false(term_wants_color(COLOR_AUTO, true, NULL, "dumb"));
    assert_false(term_wants_color(COLOR_AUTO, true, NULL, NULL));
}

TEST(no_color_counts_unless_it_is_empty)
{
    assert_false(term_wants_color(COLOR_AUTO, true, "1", "xterm"));
    assert_true(term_wants_color(COLOR_AUTO, true, "", "xterm"));
}

TEST(option_overrules_the_environment)
{
    assert_true(term_wants_color(COLOR_ALWAYS, false, "1", "dumb"));
    assert_false(term_wants_color(COLOR_NEVER, true, NULL, "xterm"));
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_report(const struct redrive_err *e, const char *text, const char *json)
{
    struct buf out;
    buf_init(&out, 4096);
    report_text(e, REPORT_ERROR, false, &out);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
    report_json(e, REPORT_ERROR, &out);
    assert_string_equal(buf_cstr(&out), json);
    buf_release(&out);
}

TEST(report_has_fact_detail_and_hint)
{
    struct redrive_err e;
    err_set(&e, REDRIVE_E_IO, "cannot open store");
    err_detail(&e, "path \"x\"");
    err_hint(&e, "run as the owner");
    check_report(&e, "redrive: cannot open store\n  path \"x\"\nhint: run as the owner\n",
                 "{\"error\":{\"code\":\"IO\",\"message\":\"cannot open store\","
                 "\"detail\":\"path \\\"x\\\"\",\"hint\":\"run as the owner\"}}\n");
}

TEST(report_without_words_uses_those_of_the_code)
{
    struct redrive_err e = {.code = REDRIVE_E_JOB_FAILED};
    check_report(&e, "redrive: the job failed\n",
                 "{\"error\":{\"code\":\"JOB_FAILED\",\"message\":\"the job failed\","
                 "\"detail\":null,\"hint\":null}}\n");
}

TEST(report_makes_control_characters_harmless)
{
    struct redrive_err e;
    err_set(&e, REDRIVE_E_USAGE, "unknown command '%s'", "\033[2Jx\ny");
    check_report(&e, "redrive: unknown command '?[2Jx y'\n",
                 "{\"error\":{\"code\":\"USAGE\",\"message\":\"unknown command "
                 "'?[2Jx y'\",\"detail\":null,\"hint\":null}}\n");
}

TEST(report_in_colour_marks_its_words)
{
    struct redrive_err e;
    struct buf out;
    err_set(&e, REDRIVE_E_USAGE, "m");
    err_hint(&e, "h");
    buf_init(&out, 4096);
    report_text(&e, REPORT_ERROR, true, &out);
    assert_string_equal(buf_cstr(&out), "\033[31mredrive:\033[0m m\n\033[33mhint:\033[0m h\n");
    buf_release(&out);
}

/* ---- Lost output ----------------------------------------------------------------------------- */

TEST(full_disk_is_noticed_on_closing)
{
    struct redrive_err err = {0};
    struct buf text;
    struct term t = {.file = fopen("/dev/full", "w")};
    assert_non_null(t.file);
    buf_init(&text, 64);
    buf_puts(&text, "x");
    term_write(&t, &text);
    buf_release(&text);
    assert_int_equal(term_close(&t, &err), REDRIVE_E_IO);
    assert_string_equal(err.message, "cannot write standard output");
    assert_string_equal(err.detail, "No space left on device");
}

TEST(reason_is_kept_when_a_long_text_is_lost_before_closing)
{
    struct redrive_err err = {0};
    struct buf text;
    struct term t = {.file = fopen("/dev/full", "w")};
    assert_non_null(t.file);
    buf_init(&text, 100000);
    while (text.len < 100000 / 2)
        buf_puts(&text, "more than the stream keeps back\n");
    term_write(&t, &text);
    buf_release(&text);
    assert_int_equal(term_close(&t, &err), REDRIVE_E_IO);
    assert_string_equal(err.detail, "No space left on device");
}

TEST(output_lost_before_closing_is_noticed_too)
{
    struct redrive_err err = {0};
    struct term t = {.file = fopen("/dev/full", "w")};
    assert_non_null(t.file);
    fputs("x", t.file);
    fflush(t.file);
    assert_int_equal(term_close(&t, &err), REDRIVE_E_IO);
}

/* ---- Progress -------------------------------------------------------------------------------- */

static int64_t now;

static int64_t fake_now_ms(void)
{
    return now;
}

struct screen {
    char *bytes;
    size_t len;
    struct term term;
    struct progress progress;
};

static void screen_init(struct screen *s, uint64_t total)
{
    *s = (struct screen){.term = {.is_tty = true, .width = 60}};
    s->term.file = open_memstream(&s->bytes, &s->len);
    assert_non_null(s->term.file);
    now = 1000;
    progress_init(&s->progress, &s->term, "simulate", total, fake_now_ms);
}

static const char *screen_text(struct screen *s)
{
    fflush(s->term.file);
    return s->bytes;
}

static void screen_release(struct screen *s)
{
    fclose(s->term.file);
    free(s->bytes);
}

TEST(bar_shows_share_count_and_time_left)
{
    struct screen s;
    screen_init(&s, 1000);
    now += 2000;
    progress_update(&s.progress, 250);
    assert_string_equal(screen_text(&s),
                        "\rsimulate  [=====>               ]   25 %  250/1000  6s left\033[K");
    screen_release(&s);
}

TEST(bar_is_redrawn_ten_times_a_second_at_most)
{
    struct screen s;
    size_t redraws = 0;
    screen_init(&s, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        progress_update(&s.progress, i);
        now++;
    }
    for (const char *at = screen_text(&s); (at = strchr(at, '\r')) != NULL; at++)
        redraws++;
    assert_int_equal(redraws, 10);
    screen_release(&s);
}

TEST(bar_is_cleared_once_and_may_come_back)
{
    struct screen s;
    screen_init(&s, 10);
    progress_clear(&s.progress);
    assert_string_equal(screen_text(&s), "");
    progress_update(&s.progress, 1);
    size_t drawn = strlen(screen_text(&s));
    progress_clear(&s.progress);
    progress_clear(&s.progress);
    assert_string_equal(screen_text(&s) + drawn, "\r\033[K");
    now += 100;
    progress_update(&s.progress, 2);
    assert_non_null(strstr(screen_text(&s), "2/10"));
    screen_release(&s);
}

TEST(bar_is_drawn_on_terminals_only)
{
    struct screen s;
    screen_init(&s, 10);
    s.term.is_tty = false;
    progress_update(&s.progress, 5);
    progress_clear(&s.progress);
    assert_string_equal(screen_text(&s), "");
    screen_release(&s);
}

static void check_bar(uint64_t done, uint64_t total, int64_t elapsed_ms, unsigned width,
                      const char *expected)
{
    const struct progress p = {.label = "batch", .done = done, .total = total};
    struct buf out;
    buf_init(&out, 1024);
    progress_render(&p, elapsed_ms, width, &out);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

TEST(bar_fits_every_width)
{
    check_bar(0, 8, 0, 40, "batch  [>                  ]    0 %  0/8");
    check_bar(8, 8, 9000, 40, "batch  [===================]  100 %  8/8");
    check_bar(4, 8, 9000, 30, "batch   50 %  4/8  9s left");
    check_bar(4, 8, 9000, 12, "batch   50 %");
    check_bar(4, 8, 9000, 0, "");
}

TEST(work_of_unknown_size_shows_count_and_time)
{
    check_bar(1234, 0, 65000, 60, "batch  1234  1m05s");
    check_bar(1, 0, 7260000, 60, "batch  1  2h01m");
}

TEST(more_than_everything_is_everything)
{
    check_bar(9, 8, 1000, 20, "batch  100 %  9/8");
}
