/* private.h - the commands below `redrive dlq` that have files of their own. */
#ifndef CLI_COMMANDS_DLQ_PRIVATE_H
#define CLI_COMMANDS_DLQ_PRIVATE_H

#include "cli/frame/command.h"

#define DLQ_STATES (1u << REDRIVE_STATE_DEAD_LETTER)

extern const struct command dlq_edit;
extern const struct command dlq_groups; /* commands/dlq/stats.c */
extern const struct command dlq_purge;
extern const struct command dlq_retry;
extern const struct command dlq_stats;

#endif
