/* draw.h - a workflow as a drawing: boxes in columns, from what runs first to what runs last. */
#ifndef CLI_COMMANDS_WORKFLOW_DRAW_H
#define CLI_COMMANDS_WORKFLOW_DRAW_H

#include "base/text/buf.h"
#include "engine/report/workflow.h"

/* Appends it as SVG. Jobs of one task that could run at the same time are one box when they are
 * many. 0, or REDRIVE_E_NOMEM. */
int workflow_draw(const struct workflow *workflow, struct buf *out);

#endif
