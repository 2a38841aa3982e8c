/* url_mask.h - URLs as they may be shown: without what is secret.
 *
 * Whatever prints a URL that a person configured prints it through here. What is no URL with an
 * authority (`sqlite:jobs.db`) has no secret and is shown as it is.
 */
#ifndef BASE_TEXT_URL_MASK_H
#define BASE_TEXT_URL_MASK_H

#include "base/text/buf.h"

/* scheme://user:***@host/path?prefix=a&password=***: the password, and the values of all settings
 * but those that are known to be harmless. On the web (http, https) settings are anybody's, and
 * the query is hidden whole: https://user:***@host/path?*** . In doubt more is hidden: a password
 * of a database in which somebody did not escape a slash ends at the at sign too, and of a URL in
 * which an at sign may end a login or stand in the query only the scheme is shown.
 */
void url_mask(struct buf *out, struct str url);

/* The same of URLs whose path is the secret, as that of a webhook: host and three stars. */
void url_mask_path(struct buf *out, struct str url);

#endif
