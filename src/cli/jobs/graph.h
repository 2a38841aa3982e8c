/* graph.h - the jobs that edges connect, as a graph that can be drawn. */
#ifndef CLI_JOBS_GRAPH_H
#define CLI_JOBS_GRAPH_H

#include "cli/shared/answer.h"
#include "engine/report/workflow.h"

/* The graph of what API_WORKFLOW has answered. To be released in any case. */
int graph_of(struct answer *answer, struct workflow *ret, struct redrive_err *err);

#endif
