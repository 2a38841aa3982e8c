/* signature.h - signs requests, so that a receiver can check their origin and age.
 *
 * The headers are those of the Standard Webhooks specification, which has verifying libraries in
 * most languages:
 *
 *     webhook-id          the job's id: the same for every attempt
 *     webhook-timestamp   seconds since 1970, of this attempt
 *     webhook-signature   "v1," and the base64 of HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"); one for
 *                         each secret, with a space between
 */
#ifndef RUN_HTTP_SIGNATURE_H
#define RUN_HTTP_SIGNATURE_H

#include "base/text/buf.h"
#include "config/config.h"

/* Appends the value of webhook-signature. The time is text so that what is signed is what is
 * sent. */
void signature_write(const struct config_secret *secrets, size_t n, struct str id,
                     const char *timestamp, struct str body, struct buf *out);

#endif
