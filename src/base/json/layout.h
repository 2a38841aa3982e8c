/* layout.h - the white space of JSON, taken out or put in.
 *
 * Both read text that json_check has accepted and change nothing but the space between its tokens:
 * numbers and strings stay byte for byte, the order of keys too. Failures are the buffer's.
 */
#ifndef BASE_JSON_LAYOUT_H
#define BASE_JSON_LAYOUT_H

#include "base/text/buf.h"
#include "base/text/str.h"

/* Appends it without any space, so on one line. */
void json_compact(struct str text, struct buf *out);

/* Appends it for people: a line for each key and item, two spaces a level, after `indent` spaces in
 * all lines but the first. */
void json_indent(struct str text, size_t indent, struct buf *out);

#endif
