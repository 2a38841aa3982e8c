/* line.h - the Faktory protocol as bytes: lines in, RESP out.
 *
 * A client sends lines `VERB arguments`, which end with CR LF (a lone LF is understood as well).
 * The server answers each, in order, with a status (+OK), an error (-ERR text), a bulk ($5, five
 * bytes) or nil ($-1). Pure: no socket, no job.
 */
#ifndef SERVER_FAKTORY_FORMAT_LINE_H
#define SERVER_FAKTORY_FORMAT_LINE_H

#include <stdbool.h>

#include "base/text/buf.h"
#include "base/text/str.h"

struct faktory_line {
    struct str verb; /* up to the first blank; may be empty */
    struct str args; /* all behind that blank */
};

/* Looks for a whole line at the start of `bytes`, of which the first `*scanned` are known to have
 * no end of line. 1: there is one, it takes `*ret_used` bytes with its end, and `*scanned` is 0
 * again. 0: not yet, and `*scanned` remembers how far it has looked. REDRIVE_E_TOO_BIG: it is, or
 * will be, longer than `max` without its end. */
int faktory_line_next(struct str bytes, size_t max, size_t *scanned, struct faktory_line *ret,
                      size_t *ret_used);

/* The next of the words between blanks, taken off the front of `rest`; false after the last. */
bool faktory_word_next(struct str *rest, struct str *ret);

/* Whether a word can name a worker: 1 to 255 bytes of UTF-8 without control characters. */
bool faktory_is_name(struct str word);

/* What a client has said, for a %.*s of an error. */
#define FAKTORY_QUOTE(s) ((s).len < 400 ? (int)(s).len : 400), ((s).ptr ? (s).ptr : "")

void faktory_put_ok(struct buf *out);
/* `-ERR text`, made fit for one line whatever is quoted in it, and cut at 512 bytes. */
void faktory_put_error(struct buf *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void faktory_put_bulk(struct buf *out, struct str bytes);
void faktory_put_nil(struct buf *out);

#endif
