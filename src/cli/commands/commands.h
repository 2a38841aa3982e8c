/* commands.h - every command of the program; each is in the cmd_*.c of its name. */
#ifndef CLI_COMMANDS_COMMANDS_H
#define CLI_COMMANDS_COMMANDS_H

#include "cli/frame/command.h"

extern const struct command cmd_backup;
extern const struct command cmd_batch;
extern const struct command cmd_breakers;
extern const struct command cmd_complete; /* commands/completion.c */
extern const struct command cmd_completion;
extern const struct command cmd_config;
extern const struct command cmd_cron;
extern const struct command cmd_cron_list;
extern const struct command cmd_cron_remove; /* commands/cron/set.c */
extern const struct command cmd_cron_run;    /* commands/cron/list.c */
extern const struct command cmd_cron_set;
extern const struct command cmd_doctor;
extern const struct command cmd_enqueue;
extern const struct command cmd_dlq;
extern const struct command cmd_health;
extern const struct command cmd_help;
extern const struct command cmd_jobs;
extern const struct command cmd_migrate;
extern const struct command cmd_move;
extern const struct command cmd_policy;
extern const struct command cmd_queues;
extern const struct command cmd_serve;
extern const struct command cmd_simulate;
extern const struct command cmd_stats;
extern const struct command cmd_top;
extern const struct command cmd_version;
extern const struct command cmd_work;

#endif
