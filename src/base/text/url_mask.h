/* url_mask.h - URLs as they may be shown: without what is secret.
 *
 * Whatever prints a URL that a person configured prints it through here. What is no URL with an
 * authority (`sqlite:jobs.db`) has no secret and is shown as it is.
 */
#ifndef BASE_TEXT_URL_MASK_H
#define BASE_TEXT_URL_MASK_H

#include "base/text/buf.h"

/* scheme://user:***@host/path?prefix=a&password=***: the password, and the values of all settings
 * but those that are known to be harmless. For http and https a parameter may mean anything, so the
 * whole query is hidden: https://user:***@host/path?*** . In doubt more is hidden: a database
 * password with a slash that was not escaped also ends at the at sign. Where an at sign may either
 * end the login or belong to the query, only the scheme is shown. Of shards:URL URL … each URL is
 * masked by itself.
 */
void url_mask(struct buf *out, struct str url);

/* The same for URLs whose path is the secret, such as a webhook: host and three stars. */
void url_mask_path(struct buf *out, struct str url);

#endif
