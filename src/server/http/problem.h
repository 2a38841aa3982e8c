/* problem.h - errors as documents that programs can read (RFC 9457).
 *
 *     {"type":"urn:redrive:not-found","title":"not found","status":404,
 *      "detail":"no such job: '0190…'","hint":"…","field":"…","expected":"…"}
 *
 * `type` and `title` depend on the code alone; `detail` is the error's message with its detail.
 * A detail that begins with "expected " becomes `expected` instead. Parts that are empty are left
 * out.
 */
#ifndef SERVER_HTTP_PROBLEM_H
#define SERVER_HTTP_PROBLEM_H

#include "base/json/writer.h"
#include "redrive.h"

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* A status of 0 is that of the code. `field` names the parameter or member that is at fault; NULL:
 * none is. */
void problem_write(struct json_writer *w, int status, const struct redrive_err *err,
                   const char *field);

#endif
