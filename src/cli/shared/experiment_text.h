/* experiment_text.h - the figures of an experiment as people read them. */
#ifndef CLI_SHARED_EXPERIMENT_TEXT_H
#define CLI_SHARED_EXPERIMENT_TEXT_H

#include "cli/shared/answer.h"

/* A table of the arms, and for each arm but the base how it differs from the base and whether that
 * is significant. */
void experiment_text(struct buf *out, const struct term *term, const struct object *experiment);

#endif
