/* job_cursor.h - where a page of jobs ended, as text for the one who wants the next.
 *
 * Opaque: people and programs copy it, they do not take it apart. It has the order, the keyset and
 * a sum over both, so that a word which is no cursor, was cut, or belongs to another order is
 * refused instead of giving the wrong page.
 */
#ifndef STORE_JOB_CURSOR_H
#define STORE_JOB_CURSOR_H

#include "store/page.h"

#define JOB_CURSOR_MAX 48

/* The place after this job. */
const char *job_cursor_write(enum job_order order, const struct job *job, char out[JOB_CURSOR_MAX]);

/* Sets the keyset of a filter whose order is set. REDRIVE_E_INVALID for all else. */
int job_cursor_read(struct str text, struct job_filter *filter, struct redrive_err *err);

#endif
