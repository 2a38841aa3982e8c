/* text.h - text as a terminal shows it: how wide, where to cut, where to wrap.
 *
 * Widths are columns. ASCII and most of Unicode take one, combining marks none, East Asian wide
 * characters and emoji two. Bytes that are not UTF-8 count one for each broken
 * character. No locale is asked: the answer is the same everywhere.
 */
#ifndef CLI_OUTPUT_TEXT_H
#define CLI_OUTPUT_TEXT_H

#include <stddef.h>

#include "base/text/buf.h"
#include "base/text/str.h"

size_t text_width(struct str s);

/* The longest prefix, in whole characters, that takes at most `width` columns. */
struct str text_fit(struct str s, size_t width);

/* Appends `s` so that it stays on its line and cannot control a terminal: line breaks and tabs
 * become spaces, other control characters and bytes that are not UTF-8 become '?'. What it adds is
 * as wide as text_width says. */
void text_add_clean(struct buf *out, struct str s);

/* The same for text of several lines, each of which it indents unless it is empty, and ends with a
 * newline. */
void text_add_clean_lines(struct buf *out, struct str text, size_t indent);

/* Appends `n` spaces. */
void text_add_spaces(struct buf *out, size_t n);

/* Appends `text` filled to `width` columns. The first line starts at column `at`, where the caller
 * is; later ones are indented to `indent`. A word longer than a line gets one of its own. A newline
 * in the text is kept; a line that starts with a space is not filled. Ends without a newline. */
void text_add_wrapped(struct buf *out, struct str text, size_t at, size_t indent, size_t width);

#endif
