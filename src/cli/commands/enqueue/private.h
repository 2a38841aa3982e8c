/* private.h - the parts of `redrive enqueue`: answers (answer.c), and a job for each line
 * (lines.c). */
#ifndef CLI_COMMANDS_ENQUEUE_PRIVATE_H
#define CLI_COMMANDS_ENQUEUE_PRIVATE_H

#include <stdint.h>
#include <stdio.h>

#include "cli/frame/cli.h"
#include "cli/shared/session.h"
#include "engine/verbs/submit.h"

/* Appends the id or, with --json, {"id":…,"state":…,"existed":…}; `line` 0: there is none. */
void enqueue_put_answer(const struct cli *cli, const struct submit_answer *answer, uint64_t line,
                        struct buf *out);
/* Prints the same at once. */
int enqueue_print_answer(struct cli *cli, const struct submit_answer *answer,
                         struct redrive_err *err);

/* Waits until the job that was submitted as `spec` has ended, and prints the answer, its state and,
 * when it has completed, its result.
 * REDRIVE_E_STATE: not within the time; REDRIVE_E_JOB_FAILED or _CANCELLED: it ended so. */
int enqueue_wait(struct cli *cli, struct session *session, const struct job_spec *spec,
                 struct submit_answer *answer, int64_t timeout_ms, struct redrive_err *err);

/* Submits each line of `input` as a payload of a job like `pattern`, ENQUEUE_BATCH of them in one
 * transaction; empty lines are passed over. Every good line becomes a job, whatever the others are:
 * a bad one is reported with its number, up to ENQUEUE_REPORTS of them, and makes the result
 * REDRIVE_E_STATE. An id is printed when its transaction is durable. */
#define ENQUEUE_BATCH   500
#define ENQUEUE_REPORTS 20
int enqueue_lines(struct cli *cli, struct session *session, const struct job_spec *pattern,
                  FILE *input, struct redrive_err *err);

#endif
