/* load_config.h - the configuration, as the command line asks for it.
 *
 * Every key of the configuration is a flag as well. The option parser finds them in CONFIG_FLAGS,
 * which only remembers them; they are read, together with file and environment, when a command
 * asks for its configuration.
 */
#ifndef CLI_LOAD_CONFIG_H
#define CLI_LOAD_CONFIG_H

#include "cli/cli.h"
#include "config/config.h"

/* The flags that the configuration's keys make; for cli_main. */
extern const struct option_source CONFIG_FLAGS;

/* Loads it and prints its warnings. Of several errors all but the last are printed here. The
 * caller frees `ret`. */
int load_config(struct cli *cli, struct config **ret, struct redrive_err *err);

#endif
