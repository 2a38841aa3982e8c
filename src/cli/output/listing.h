/* listing.h - the form of every list as JSON: {"items":[…],"next":CURSOR|null}.
 *
 *     listing_begin(&w, &out);
 *     …one value for each item…
 *     listing_end(&w, NULL);
 */
#ifndef CLI_OUTPUT_LISTING_H
#define CLI_OUTPUT_LISTING_H

#include "base/json/writer.h"

void listing_begin(struct json_writer *w, struct buf *out);

/* `next` is where the next page begins; NULL: there is none. Ends the line. */
void listing_end(struct json_writer *w, const char *next);

#endif
