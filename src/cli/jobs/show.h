/* show.h - everything about one job, for people. */
#ifndef CLI_JOBS_SHOW_H
#define CLI_JOBS_SHOW_H

#include "cli/frame/cli.h"
#include "store/store.h"

/* Prints a job that has been read, with its history: as text or as JSON. */
int job_show(struct cli *cli, struct store *store, const struct job *job, int64_t now_ms,
             struct redrive_err *err);

#endif
