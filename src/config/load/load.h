/* load.h - what the files of this folder share: what a configuration owns, and the checks that need
 * the whole of it. */
#ifndef CONFIG_LOAD_LOAD_H
#define CONFIG_LOAD_LOAD_H

#include <stdatomic.h>

#include "base/mem/arena.h"
#include "config/schema/bind.h"

/* What a configuration frees with itself. */
struct config_owned {
    atomic_uint holders;
    struct arena arena; /* holds the configuration itself, too */
    struct zone *zones;
    const char *zone_dir; /* where they were found */

    /* For exposed_find: what is secret in a file, in words; NULL: nothing. */
    const char *file_secrets;
    const char *dotenv_secrets;
    const char *dotenv_path; /* NULL: there is no such file */
};

/* Completes b->config, all keys of which are bound from `root`: the task that is used for
 * undeclared ones, and the index by name. Then checks the references between sections. The last
 * argument is that of struct config_sources. */
void check_whole(struct binder *b, const struct node *root, bool has_faktory_passwords);

/* Checks a cron entry as a part of `whole`: whether its task is declared, where strict_tasks asks
 * for it, and whether it has the payload that the task requires. */
void check_cron(struct binder *b, const struct config *whole, const struct node *map,
                const struct config_cron *entry);

#endif
