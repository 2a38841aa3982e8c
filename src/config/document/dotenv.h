/* dotenv.h - variables of `.env` files, read strictly, and of an environment.
 *
 * A line is empty, a comment, or NAME=VALUE, optionally after `export`. A value is
 *
 *     plain            up to the end of the line or a ` #` comment, without space around it
 *     'in quotes' as written
 *     "in quotes"      with \n, \t, \r, \", \\ and \$
 *
 * and a quoted one may be followed by a comment only. Nothing is expanded: a `$` is a `$`.
 * Everything else is refused with its line; reading may go on after that.
 */
#ifndef CONFIG_DOCUMENT_DOTENV_H
#define CONFIG_DOCUMENT_DOTENV_H

#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

#define DOTENV_MAX_BYTES (256u * 1024)

struct dotenv {
    struct str rest;
    unsigned line;
    struct buf value;
};

struct dotenv_entry {
    struct str name;
    struct str value; /* valid until the next call */
    unsigned line;
};

/* `text` must outlive the reader. */
void dotenv_init(struct dotenv *reader, struct str text);
void dotenv_release(struct dotenv *reader);

/* 1 and an entry, 0 at the end, or a negative code for a line that cannot be understood; its
 * number is reader->line, and the message does not repeat the value. */
int dotenv_next(struct dotenv *reader, struct dotenv_entry *ret, struct redrive_err *err);

/* The value of a variable of an environment, or NULL. An empty one counts as not set. */
const char *env_get(char *const *variables, const char *name);

#endif
