/* sandbox.h - a directory of its own for each test, and ways to load and look at what is in it.
 *
 * Tests run inside the directory, so that messages say `redrive.yaml:3` and nothing more.
 */
#ifndef TESTS_CONFIG_SANDBOX_H
#define TESTS_CONFIG_SANDBOX_H

#include "check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "config/config.h"
#include "config/document/node.h"

struct sandbox {
    char dir[32];
    char home[4096];
    const struct config_setting *flags;
    size_t n_flags;
    const char *const *environ;
    struct config *config;
    struct config_report report;
    struct arena dump_arena;
    struct node *dump; /* what config_write said */
};

static inline int sandbox_enter(void **state)
{
    struct sandbox *s = calloc(1, sizeof *s);
    if (!s || !getcwd(s->home, sizeof s->home))
        return -1;
    strcpy(s->dir, "/tmp/redrive-config-XXXXXX");
    if (!mkdtemp(s->dir) || chdir(s->dir) != 0)
        return -1;
    arena_init(&s->dump_arena);
    *state = s;
    return 0;
}

static inline int sandbox_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void sandbox_forget(struct sandbox *s)
{
    config_free(s->config);
    s->config = NULL;
    arena_release(&s->dump_arena);
    s->dump = NULL;
}

static inline int sandbox_leave(void **state)
{
    struct sandbox *s = *state;
    sandbox_forget(s);
    int rc = chdir(s->home);
    nftw(s->dir, sandbox_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(s);
    return rc;
}

static inline void sandbox_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* Loads with the flags and the environment of the sandbox; keeps a dump of the result. */
static inline int sandbox_load(struct sandbox *s)
{
    struct config_sources sources = {
        .environ = (char *const *)s->environ, .flags = s->flags, .n_flags = s->n_flags};
    sandbox_forget(s);
    int rc = config_load(&sources, &s->config, &s->report);
    assert_int_equal(rc == 0, s->config != NULL);
    assert_int_equal(rc == 0, s->report.n_errors == 0);
    if (rc == 0) {
        struct json_writer writer;
        struct buf text;
        buf_init(&text, 16u << 20);
        json_writer_init(&writer, &text);
        config_write(s->config, &writer);
        assert_int_equal(node_from_json(&s->dump_arena, buf_str(&text), &s->dump, NULL), 0);
        buf_release(&text);
    }
    return rc;
}

/* The same with this redrive.yaml. */
static inline int sandbox_load_text(struct sandbox *s, const char *yaml)
{
    sandbox_write("redrive.yaml", yaml);
    return sandbox_load(s);
}

/* Loads a file that is expected to be right, and says what is wrong if it is not. */
static inline const struct config *sandbox_good(struct sandbox *s, const char *yaml)
{
    if (sandbox_load_text(s, yaml) < 0)
        fail_msg("%s / %s", s->report.errors[0].message, s->report.errors[0].detail);
    return s->config;
}

/* What the dump has at `a.b.c`; "(none)" when there is nothing, "(part)" for a list or map. */
static inline const char *sandbox_dumped(const struct sandbox *s, const char *path)
{
    const struct node *node = s->dump;
    struct str rest = str_of(path);
    while (node && rest.len > 0) {
        const char *dot = memchr(rest.ptr, '.', rest.len);
        struct str step = {rest.ptr, dot ? (size_t)(dot - rest.ptr) : rest.len};
        rest = (struct str){rest.ptr + step.len + !!dot, rest.len - step.len - !!dot};
        node = node_find(node, step);
    }
    if (!node)
        return "(none)";
    return node->type == NODE_SCALAR ? node->text.ptr : "(part)";
}

#define check_dumped(s, path, value) assert_string_equal(sandbox_dumped((s), (path)), (value))

/* The error whose message is exactly this one, or a failure that lists what there is. */
static inline const struct redrive_err *sandbox_error(const struct sandbox *s, const char *message)
{
    for (size_t i = 0; i < s->report.n_errors; i++)
        if (strcmp(s->report.errors[i].message, message) == 0)
            return &s->report.errors[i];
    for (size_t i = 0; i < s->report.n_errors; i++)
        print_error("  %s\n", s->report.errors[i].message);
    fail_msg("no error says: %s", message);
    return NULL;
}

static inline const struct redrive_err *sandbox_warning(const struct sandbox *s,
                                                        const char *message)
{
    for (size_t i = 0; i < s->config->n_warnings; i++)
        if (strcmp(s->config->warnings[i].message, message) == 0)
            return &s->config->warnings[i];
    for (size_t i = 0; i < s->config->n_warnings; i++)
        print_error("  %s\n", s->config->warnings[i].message);
    fail_msg("no warning says: %s", message);
    return NULL;
}

/* As the configuration has it; one that is not declared fails the test. */
static inline const struct config_task *sandbox_task(const struct sandbox *s, const char *name)
{
    const struct config_task *found = config_task(s->config, str_of(name));
    assert_string_equal(found->name, name);
    return found;
}

#define SANDBOX_TEST(test) TEST_WITH(test, sandbox_enter, sandbox_leave, struct sandbox *s)

#endif
