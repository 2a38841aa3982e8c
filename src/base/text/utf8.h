/* utf8.h - what is UTF-8 and what is not.
 *
 * Well-formed as in table 3-7 of the Unicode Standard: no overlong forms, no surrogates, nothing
 * above U+10FFFF, no sequence cut short.
 */
#ifndef BASE_TEXT_UTF8_H
#define BASE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"

/* The length (1 to 4) of the character at `p`, which is before `end`. When there is none, minus
 * the number of bytes to step over: the start of a sequence that cannot be completed counts as
 * one error, as Unicode recommends. */
int utf8_next(const char *p, const char *end);

bool utf8_valid(struct str s);

/* Writes a code point, which must not be a surrogate, and returns its length. */
size_t utf8_encode(uint32_t code_point, char out[4]);

/* Makes text from outside fit for one line of a terminal or a log: line breaks and tabs become
 * spaces; each byte of another control character (C0, DEL, C1) and of what is not UTF-8, such as a
 * character that was cut, becomes '?'. */
void utf8_make_printable(char *text);

#endif
