/* line.h - command lines of the small program, and what is said about them. */
#ifndef TESTS_CLI_LINE_H
#define TESTS_CLI_LINE_H

#include "check.h"

#include "cli/frame/options.h"
#include "fake.h"

/* A command line that has been read, and what was said about it. */
struct line {
    struct invocation inv;
    struct redrive_err err;
    int rc;
};

static inline struct line *read_line(const char *const *words, size_t n)
{
    static struct line line;
    line = (struct line){0};
    fake_source_log[0] = '\0';
    line.rc = invocation_parse(&line.inv, &FAKE_ROOT, &FAKE_SOURCE, words, n, &line.err);
    return &line;
}

/* READ("simulate", "t"): the words after the name of the program. */
#define READ(...)                                 \
    read_line((const char *const[]){__VA_ARGS__}, \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static inline const struct fake_globals *globals(const struct line *l)
{
    return l->inv.values[0];
}

static inline const struct fake_options *options(const struct line *l)
{
    return invocation_options(&l->inv);
}

static inline void done(struct line *l)
{
    invocation_release(&l->inv);
}

/* The line must be read without complaint; returns its options. */
#define ACCEPT(l, ...)                       \
    struct line *l = READ(__VA_ARGS__);      \
    assert_string_equal(l->err.message, ""); \
    assert_int_equal(l->rc, 0)

static inline void refuse(struct line *l, const char *message, const char *detail, const char *hint)
{
    assert_string_equal(l->err.message, message);
    assert_string_equal(l->err.detail, detail);
    assert_string_equal(l->err.hint, hint);
    assert_int_equal(l->rc, REDRIVE_E_USAGE);
    assert_int_equal(l->err.code, REDRIVE_E_USAGE);
    done(l);
}

static inline void refuse_arguments(struct line *l, const char *message, const char *detail,
                                    const char *hint)
{
    assert_int_equal(l->rc, 0);
    l->rc = invocation_check(&l->inv, &l->err);
    refuse(l, message, detail, hint);
}

#endif
