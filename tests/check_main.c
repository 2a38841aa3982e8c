/* check_main.c - main of the unit test programs.
 *
 *     core_tests backoff          # the tests of test_backoff.c
 *     core_tests                  # what there is
 *
 * A program of one file needs no name. A file has a process of its own, because tests set what
 * lasts as long as a process: time, locale, standard output.
 */
#include "check.h"

#include <stdlib.h>

static struct check_test *tests;
static struct check_main *mains;

/* By file and line. */
void check_add(struct check_test *test)
{
    struct check_test **place = &tests;
    for (; *place; place = &(*place)->next) {
        const int order = strcmp((*place)->file, test->file);
        if (order > 0 || (order == 0 && (*place)->line > test->line))
            break;
    }
    test->next = *place;
    *place = test;
}

void check_add_main(struct check_main *main_of_file)
{
    main_of_file->next = mains;
    mains = main_of_file;
}

/* cmocka 1.1 writes "not ok 1 # SKIP name" of a test that calls skip(), which readers of TAP take
 * for a failure. Such lines lose their "not ". */
static ssize_t write_tap(void *original, const char *text, size_t len)
{
    for (const char *line = text, *end = text + len, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline ? newline + 1 : end;
        if (next - line > 7 && memcmp(line, "not ok ", 7) == 0 &&
            memmem(line, (size_t)(next - line), " # SKIP", 7))
            line += strlen("not ");
        (void)fwrite(line, 1, (size_t)(next - line), original);
    }
    return fflush(original) == 0 ? (ssize_t)len : 0;
}

static void mend_tap(void)
{
    static const cookie_io_functions_t IO = {.write = write_tap};
    FILE *mended = fopencookie(stdout, "w", IO);
    if (!mended)
        return;
    (void)setvbuf(mended, NULL, _IOLBF, BUFSIZ);
    stdout = mended;
}

/* "backoff" of "../tests/core/test_backoff.c". */
static struct str name_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    struct str name = str_of(slash ? slash + 1 : file);
    const size_t skipped = str_starts_with(name, STR("test_")) ? strlen("test_") : 0;
    return (struct str){.ptr = name.ptr + skipped, .len = name.len - skipped - strlen(".c")};
}

int check_run_file(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    size_t n = 0;
    for (const struct check_test *test = tests; test; test = test->next)
        n += strcmp(test->file, file) == 0;
    struct CMUnitTest *of_file = calloc(n, sizeof *of_file);
    if (!of_file)
        return 1;
    n = 0;
    for (const struct check_test *test = tests; test; test = test->next)
        if (strcmp(test->file, file) == 0)
            of_file[n++] = test->test;
    mend_tap();
    const int failed = _cmocka_run_group_tests(file, of_file, n, setup, teardown);
    free(of_file);
    return failed;
}

static int run(const char *file, int argc, char **argv)
{
    for (const struct check_main *each = mains; each; each = each->next)
        if (strcmp(each->file, file) == 0)
            return each->run(argc, argv);
    return check_run_file(file, NULL, NULL);
}

static const char *file_after(const char *file)
{
    const struct check_test *test = tests;
    while (test && file && strcmp(test->file, file) <= 0)
        test = test->next;
    return test ? test->file : NULL;
}

int main(int argc, char **argv)
{
    const char *first = file_after(NULL);
    for (const char *file = first; file && argc > 1; file = file_after(file))
        if (str_is(name_of(file), argv[1])) {
            argv[1] = argv[0];
            return run(file, argc - 1, argv + 1);
        }
    if (first && !file_after(first))
        return run(first, argc, argv);
    (void)fprintf(stderr, "usage: %s FILE\n", argv[0]);
    for (const char *file = first; file; file = file_after(file))
        (void)fprintf(stderr, "  %.*s\n", (int)name_of(file).len, name_of(file).ptr);
    return 2;
}
