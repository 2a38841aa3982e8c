/* err.h - functions that fill in a struct redrive_err (include/redrive.h).
 *
 * Each function returns the code it was given, so that `return err_set(err, …)` both records and
 * returns. A NULL err is allowed everywhere: the caller wants the code only. Texts are one line
 * each and fit for a terminal whatever is quoted in them (utf8_make_printable).
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "redrive.h"

/* Sets code and message and empties detail and hint. */
int err_set(struct redrive_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to an error that has been set. */
void err_detail(struct redrive_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void err_hint(struct redrive_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds the hint "did you mean '…'?"; NULL: none. */
void err_suggest(struct redrive_err *err, const char *nearest);

/* "out of memory", said the same way everywhere. */
int err_nomem(struct redrive_err *err);

/* About a buffer that has failed with `code`: the message is for one that is full
 * (REDRIVE_E_TOO_BIG); out of memory is called that. */
int err_full(struct redrive_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
