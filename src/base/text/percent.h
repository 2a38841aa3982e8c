/* percent.h - text as a part of a URL: %XX for whatever has a meaning there. */
#ifndef BASE_TEXT_PERCENT_H
#define BASE_TEXT_PERCENT_H

#include "base/text/buf.h"
#include "base/text/str.h"

/* Adds `text` with everything encoded but letters, digits and -._~ */
void percent_encode(struct str text, struct buf *out);

#endif
