/* picture.h - a drawing (SVG) that a command writes into a file. */
#ifndef CLI_OUTPUT_PICTURE_H
#define CLI_OUTPUT_PICTURE_H

#include <stdio.h>

#include "base/text/buf.h"
#include "redrive.h"

/* Opened before the work, so that a bad path costs none; what the file holds stays until the
 * picture is written. */
int picture_open(const char *path, FILE **ret, struct redrive_err *err);

/* Writes it, and closes the file in any case. */
int picture_write(const struct buf *svg, FILE *file, const char *path, struct redrive_err *err);

#endif
