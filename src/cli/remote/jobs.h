/* jobs.h - jobs of a server: pages, one with all there is about it, changes, new ones. */
#ifndef CLI_REMOTE_JOBS_H
#define CLI_REMOTE_JOBS_H

#include "cli/remote/remote.h"
#include "engine/gates/view.h"
#include "engine/verbs/submit.h"
#include "store/page.h"

/* Adds up to `limit` jobs of GET /jobs to a page, and gives the cursor of those that follow, in the
 * memory of the page; absent: there are none. `query` is the path with its parameters, but for
 * limit and cursor; `cursor` (may be NULL) is where to begin. */
int remote_jobs(struct remote *remote, const struct buf *query, size_t limit, const char *cursor,
                struct job_page *ret, struct str *ret_next, struct redrive_err *err);

/* One job with what `redrive jobs show` tells about it. */
struct remote_job {
    struct job_page page; /* of this job */
    struct attempt_page history;
    struct gate_info gate;
    bool is_paused; /* the queue of a job that waits in it */
};
/* REDRIVE_E_NOT_FOUND: there is none. To be released in any case. */
int remote_job_read(struct remote *remote, struct str id, struct remote_job *ret,
                    struct redrive_err *err);
void remote_job_release(struct remote_job *job);

/* Sends a request about one job, `before` ID `after`, and gives the state that the job is in
 * then, if the answer says so. */
int remote_job_change(struct remote *remote, const char *method, const char *before, struct str id,
                      const char *after, struct str body, enum redrive_state *ret_state,
                      struct redrive_err *err);

/* Submits jobs, all of them or none. The ids are copied into the arena. */
int remote_submit(struct remote *remote, const struct job_spec *specs, size_t n,
                  struct submit_answer *ret, struct arena *arena, struct redrive_err *err);

/* The tasks that a server knows: those of its configuration, and those that have had jobs. */
struct remote_task {
    struct str name;
    bool is_declared;
    uint64_t started; /* attempts, of the tenant */
};
int remote_tasks(struct remote *remote, struct arena *arena, struct remote_task **ret,
                 size_t *ret_n, struct redrive_err *err);

/* The members of a job's last error, for other tables. */
extern const struct unpack UNPACK_JOB_ERROR[];
extern const struct unpack UNPACK_BUDGET[]; /* [struct budget_info] */

#endif
