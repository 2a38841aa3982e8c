/* edit_text.h - lets the user change a text in an editor. */
#ifndef CLI_COMMANDS_DLQ_EDIT_TEXT_H
#define CLI_COMMANDS_DLQ_EDIT_TEXT_H

#include "base/text/buf.h"
#include "redrive.h"

#define EDIT_PATH_MAX 512

/* Opens `text` in $VISUAL, $EDITOR or vi, as a file whose name ends in `suffix`, and waits. `ret`
 * (which buf_init has seen) gets what was written; its maximum holds. On success the file is still
 * there, for the caller to remove once the text is stored. REDRIVE_E_CANCELLED when the editor
 * fails. */
int edit_text(struct str text, const char *suffix, struct buf *ret, char ret_path[EDIT_PATH_MAX],
              struct redrive_err *err);

#endif
