/* private.h - the parts of `redrive enqueue`: answers (answer.c), and a job for each line
 * (lines.c). */
#ifndef CLI_COMMANDS_ENQUEUE_PRIVATE_H
#define CLI_COMMANDS_ENQUEUE_PRIVATE_H

#include <stdint.h>
#include <stdio.h>

#include "api/new_job.h"
#include "cli/frame/cli.h"
#include "cli/shared/answer.h"
#include "cli/shared/session.h"
#include "engine/verbs/submit.h"

/* Appends a job as API_SUBMIT takes it: `job` is an object without its end. An empty payload is
 * none. */
void enqueue_add_job(struct str job, struct str payload, struct buf *out);

/* The submit of a body, for the tenant of the options. */
struct ask enqueue_ask(const struct cli *cli, struct api_input *input);

/* Appends the id of a job that was submitted or, with --json, what was answered; `line` 0: there is
 * none. */
void enqueue_put_answer(const struct cli *cli, const struct object *job, uint64_t line,
                        struct buf *out);
/* Prints the same at once. */
int enqueue_print_answer(struct cli *cli, const struct object *job, struct redrive_err *err);

/* Waits until a job that was submitted has ended, and prints the answer, its state and, when it has
 * completed, its result.
 * REDRIVE_E_STATE: not within the time; REDRIVE_E_JOB_FAILED or _CANCELLED: it ended so. */
int enqueue_wait(struct cli *cli, struct session *session, const struct object *job,
                 struct str tenant, int64_t timeout_ms, struct redrive_err *err);

/* Submits each line of `input` as the payload of such a job, ENQUEUE_BATCH of them in one
 * transaction; empty lines are passed over. Every good line becomes a job, whatever the others are:
 * a bad one is reported with its number, up to ENQUEUE_REPORTS of them, and makes the result
 * REDRIVE_E_STATE. What is no fault of a line ends it, and the error says at which line. An id is
 * printed when its transaction is durable. */
#define ENQUEUE_BATCH   NEW_JOBS_MAX
#define ENQUEUE_REPORTS 20
int enqueue_lines(struct cli *cli, struct session *session, struct str job, FILE *input,
                  struct redrive_err *err);

#endif
