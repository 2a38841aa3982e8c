/* table.h - the built-in rows of the classification table.
 *
 * Private to classify. Each function answers for one source: the class, or -1 when no row
 * matches.
 */
#ifndef CORE_CLASSIFY_TABLE_H
#define CORE_CLASSIFY_TABLE_H

#include <stddef.h>

#include "base/text/str.h"
#include "redrive.h"

int table_error_type(struct str type);
int table_http_status(int status);
int table_sqlstate(struct str sqlstate);
int table_curl(int code);
int table_errno(int errnum);
int table_signal(int signal);
int table_exit_code(int exit_code);
int table_message(struct str message);

/* Whether a message gives too many calls as the reason. */
bool table_is_rate_limit_message(struct str message);

/* The error type names in the order in which they are searched, for the test of that order. */
const char *table_error_type_at(size_t i);

#endif
