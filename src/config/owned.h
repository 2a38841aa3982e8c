/* owned.h - what a configuration frees with itself. */
#ifndef CONFIG_OWNED_H
#define CONFIG_OWNED_H

#include <stdatomic.h>

#include "base/mem/arena.h"
#include "config/schema/zone.h"

struct config_owned {
    atomic_uint holders;
    struct arena arena; /* holds the configuration itself, too */
    struct zone *zones;
    const char *zone_dir; /* where they were found */

    /* For load/exposed.h: what is secret in a file, in words; NULL: nothing. */
    const char *file_secrets;
    const char *dotenv_secrets;
    const char *dotenv_path; /* NULL: there is no such file */
};

#endif
