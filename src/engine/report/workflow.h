/* workflow.h - the jobs that edges connect, as a graph: for people and programs.
 *
 * A workflow has no row of its own: it is what can be reached from a job over edges, in both
 * directions, and any of its jobs names it. Parents are older than their children, so the jobs in
 * the order of their seqs are in an order in which they may run.
 */
#ifndef ENGINE_REPORT_WORKFLOW_H
#define ENGINE_REPORT_WORKFLOW_H

#include "base/json/writer.h"
#include "store/store.h"

/* How many jobs are shown; of a larger workflow those that are fewest edges away. */
#define WORKFLOW_JOBS_MAX 1000

struct workflow_job {
    int64_t seq; /* 0 where it came from a server */
    struct str id;
    struct str task;
    enum redrive_state state;
    uint32_t attempts;
};

/* Between two jobs of the list, by their indexes. */
struct workflow_edge {
    size_t parent;
    size_t child;
    struct after_rule rule;
    enum after_outcome outcome;
};

struct workflow {
    struct workflow_job *jobs; /* a parent comes before its children */
    size_t n_jobs;
    struct workflow_edge *edges; /* by child, then parent */
    size_t n_edges;
    bool more; /* there are further jobs */
    struct arena arena;
};

/* Reads the workflow of a job that was just read. Each job is as of the moment when it is read;
 * those that were removed are left out, with their edges. */
int workflow_read(struct store *store, const struct job *job, struct workflow *ret,
                  struct redrive_err *err);
void workflow_release(struct workflow *workflow);

/* {"jobs":[{"id":…,"task":…,"state":…,"attempts":…,"after":[{"id":…,"on":…,"on_dead":…,
 * "outcome":…}]}],"more":false} */
void workflow_write_json(struct json_writer *w, const struct workflow *workflow);

#endif
