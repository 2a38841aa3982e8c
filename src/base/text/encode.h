/* encode.h - bytes as base64, by RFC 4648 with padding; text as a part of a URL; what is UTF-8 and
 * what is not. */
#ifndef BASE_TEXT_ENCODE_H
#define BASE_TEXT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"

/* The bytes that the text of `len` bytes needs, its NUL included. */
#define BASE64_TEXT_SIZE(len) (((len) + 2) / 3 * 4 + 1)

/* Writes the text and its NUL; `out` has BASE64_TEXT_SIZE(len) bytes. Returns out. */
char *base64_encode(const void *bytes, size_t len, char *out);

/* The bytes of the text, or -1 when it is no base64 or they are more than `size`. Padding may be
 * left out; line ends and other alphabets are refused. */
ptrdiff_t base64_decode(struct str text, uint8_t *out, size_t size);

/* ---- URLs ------------------------------------------------------------------------------------ */

/* Adds `text` with everything encoded but letters, digits and -._~ */
void percent_encode(struct str text, struct buf *out);

/* ---- UTF-8 -------------------------------------------------------------------------------------
 *
 * Well-formed as in table 3-7 of the Unicode Standard: no overlong forms, no surrogates, nothing
 * above U+10FFFF, no sequence cut short.
 */

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
