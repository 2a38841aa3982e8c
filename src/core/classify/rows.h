/* rows.h - the user's rows of the classification table, compiled. Private to classify. */
#ifndef CORE_CLASSIFY_ROWS_H
#define CORE_CLASSIFY_ROWS_H

#include "core/classify/classify.h"

/* True and a verdict when a row matches. */
bool classifier_match(const struct classifier *classifier, const struct redrive_failure *failure,
                      const struct classify_context *context, struct verdict *ret);

#endif
