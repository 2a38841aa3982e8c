/* load_config.h - the configuration, as the command line asks for it.
 *
 * Every key of the configuration is a flag as well. The option parser finds them in CONFIG_FLAGS,
 * which only remembers them; they are read, together with file and environment, when a command
 * asks for its configuration.
 */
#ifndef CLI_SHARED_LOAD_CONFIG_H
#define CLI_SHARED_LOAD_CONFIG_H

#include "cli/frame/cli.h"
#include "config/config.h"

/* The flags that the configuration's keys make; for cli_main. */
extern const struct option_source CONFIG_FLAGS;

/* Adds a flag as if it were at the end of the command line. Both strings are borrowed until the
 * configuration has been loaded. */
int load_config_flag(const char *name, const char *value, struct redrive_err *err);

/* Loads it and prints its warnings. Of several errors all but the last are printed here. The
 * caller frees `ret`. */
int load_config(struct cli *cli, struct config **ret, struct redrive_err *err);

/* Loads it once more, for a process that goes on whatever the file says now: prints nothing. On
 * failure the report has the errors. */
int load_config_again(struct cli *cli, struct config **ret, struct config_report *report);

/* The defaults alone: no file, no environment. For a command whose server has a configuration of
 * its own; keys of the configuration on the command line are refused. */
int load_defaults(struct config **ret, struct redrive_err *err);

/* The task that a command names; NULL: the defaults. A name that the configuration does not know is
 * a typo more often than an undeclared task: REDRIVE_E_NOT_FOUND, with the nearest one. */
int load_config_task(const struct config *config, const char *name, const struct config_task **ret,
                     struct redrive_err *err);

/* Whether the command line has a flag that sets a key of the configuration. */
bool load_config_has_flags(void);

#endif
