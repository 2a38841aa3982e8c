/* check_main.c - main of the unit test programs.
 *
 *     core_tests backoff          # the tests of test_backoff.c
 *     core_tests                  # what there is
 *
 * A program of one file needs no name. A file has a process of its own, because tests set what
 * lasts as long as a process: time, locale, standard output.
 */
#include "check.h"

static struct check_file *files;

/* In the order of their names. */
void check_register(struct check_file *file)
{
    struct check_file **place = &files;
    while (*place && strcmp((*place)->name, file->name) < 0)
        place = &(*place)->next;
    file->next = *place;
    *place = file;
}

int main(int argc, char **argv)
{
    for (const struct check_file *file = files; file && argc > 1; file = file->next)
        if (strcmp(file->name, argv[1]) == 0) {
            argv[1] = argv[0];
            return file->run(argc - 1, argv + 1);
        }
    if (files && !files->next)
        return files->run(argc, argv);
    (void)fprintf(stderr, "usage: %s FILE\n", argv[0]);
    for (const struct check_file *file = files; file; file = file->next)
        (void)fprintf(stderr, "  %s\n", file->name);
    return 2;
}
