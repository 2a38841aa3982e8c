/* text.h - any bytes as text that PostgreSQL takes, and back.
 *
 * A value of type text is UTF-8 without zero bytes; messages, stack traces and results are what
 * strangers wrote. Each byte that cannot stay becomes a character of its own, from the last 256 of
 * the second private plane (U+10FF00 and the byte); these characters themselves are taken for bytes
 * that cannot stay. So nothing is lost, what is text stays text that people can read and search,
 * and nearly everything is copied as it is.
 */
#ifndef STORE_POSTGRES_TEXT_H
#define STORE_POSTGRES_TEXT_H

#include "base/mem/arena.h"
#include "base/text/buf.h"

void pg_text_encode(struct str s, struct buf *out);

/* A terminated copy in the arena of what was encoded; its length may be smaller. */
struct str pg_text_decode(struct str s, struct arena *arena);

#endif
