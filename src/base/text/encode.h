/* encode.h - bytes as base64, by RFC 4648 with padding; text as a part of a URL. */
#ifndef BASE_TEXT_ENCODE_H
#define BASE_TEXT_ENCODE_H

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

#endif
