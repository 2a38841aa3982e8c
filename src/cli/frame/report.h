/* report.h - errors and warnings for the user.
 *
 *     redrive: unknown option --profil
 *       in the detail's own line
 *     hint: did you mean --profile?
 *
 * or, for programs, one line: {"error":{"code":"USAGE","message":…,"detail":…,"hint":…}}, where an
 * absent part is null. A warning has `warning` instead of `redrive` and `error`.
 */
#ifndef CLI_FRAME_REPORT_H
#define CLI_FRAME_REPORT_H

#include <stdbool.h>

#include "base/text/buf.h"
#include "redrive.h"

enum report_kind {
    REPORT_ERROR,
    REPORT_WARNING,
};

/* Appends the error. Control characters in it (words of the user, answers of a server) are made
 * harmless. An error without a message gets the text of its code. */
void report_text(const struct redrive_err *e, enum report_kind kind, bool color, struct buf *out);
void report_json(const struct redrive_err *e, enum report_kind kind, struct buf *out);

#endif
