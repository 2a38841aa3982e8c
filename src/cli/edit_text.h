/* edit_text.h - lets the user change a text in an editor. */
#ifndef CLI_EDIT_TEXT_H
#define CLI_EDIT_TEXT_H

#include "base/buf.h"
#include "redrive.h"

/* Opens `text` in $VISUAL, $EDITOR or vi, as a file whose name ends in `suffix`, and waits. `ret`
 * (which buf_init has seen) gets what was written; its maximum holds. The file is gone afterwards.
 * REDRIVE_E_CANCELLED when the editor fails. */
int edit_text(struct str text, const char *suffix, struct buf *ret, struct redrive_err *err);

#endif
