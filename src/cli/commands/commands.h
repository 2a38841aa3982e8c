/* commands.h - every command of the program, and those below a command that have other files. */
#ifndef CLI_COMMANDS_COMMANDS_H
#define CLI_COMMANDS_COMMANDS_H

#include "cli/frame/command.h"

/* The variant of commands that select among dead letters (jobs/select.h). */
#define DLQ_STATES (1 << REDRIVE_STATE_DEAD_LETTER)

extern const struct command cmd_backup;
extern const struct command cmd_batch;
extern const struct command cmd_breakers;
extern const struct command cmd_complete;   /* commands/help.c */
extern const struct command cmd_completion; /* commands/help.c */
extern const struct command cmd_config;
extern const struct command cmd_cron;
extern const struct command cmd_doctor;
extern const struct command cmd_dlq;
extern const struct command cmd_dlq_add;
extern const struct command cmd_dlq_edit;
extern const struct command cmd_dlq_groups; /* commands/dlq/stats.c */
extern const struct command cmd_dlq_stats;
extern const struct command cmd_enqueue;
extern const struct command cmd_experiment;
extern const struct command cmd_export; /* commands/archive.c */
extern const struct command cmd_health; /* commands/stats.c */
extern const struct command cmd_help;
extern const struct command cmd_import; /* commands/archive.c */
extern const struct command cmd_jobs;
extern const struct command cmd_limits;
extern const struct command cmd_migrate;
extern const struct command cmd_move;
extern const struct command cmd_policy;
extern const struct command cmd_queues;
extern const struct command cmd_serve;
extern const struct command cmd_simulate;
extern const struct command cmd_stats;
extern const struct command cmd_top;
extern const struct command cmd_ui;
extern const struct command cmd_version; /* commands/help.c */
extern const struct command cmd_work;
extern const struct command cmd_workflow;

#endif
