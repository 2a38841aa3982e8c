/* repetition.h - whether a request that comes again under the key of its client is the same one.
 *
 * The jobs of such a request have the key for an id, or KEY/0, KEY/1 … in an array. What is
 * compared is what a job keeps as it was sent: task, payload, priority, user, project, service,
 * unique key and policy. Its queue may have come from a configuration that is another one now, and
 * times may have been spans from then, so that these say nothing.
 */
#ifndef ENGINE_VERBS_REPETITION_H
#define ENGINE_VERBS_REPETITION_H

#include "engine/verbs/submit.h"

/* Whether the request is an array: the form of its ids says so. */
bool repetition_is_array(const struct submit_op *op);

/* The name of the first part in which two jobs differ; NULL: they are the same. */
const char *repetition_difference(const struct job_spec *a, const struct job_spec *b);

/* Looks for the job that stands for number `i`, and refuses it with REDRIVE_E_EXISTS in its answer
 * if the two differ. One that is gone is no difference. Below 0: the store failed. */
int repetition_check(struct engine *e, struct submit_op *op, size_t i, struct redrive_err *err);

/* The same for an array, before any of it is put into the store: all of its jobs are there and
 * the same and there is no further one, or the first is not there and the request is new. */
int repetition_check_array(struct engine *e, struct submit_op *op, struct redrive_err *err);

#endif
