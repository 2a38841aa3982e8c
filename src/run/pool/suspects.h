/* suspects.h - is the handler broken, or is it this job that breaks it?
 *
 * A handler that dies before it has answered anything looks the same in both cases. They differ in
 * what happens next: a broken handler fails every job, while a job that breaks the handler fails
 * alone and others go well in between. So a job is not blamed at first; it becomes a suspect and is
 * given back. It is blamed when the handler breaks down with it again although
 *
 *   - another job has gone well since, or
 *   - the handler has worked in this process, and the job was given back SUSPECTS_PATIENCE times.
 *
 * While a handler has never worked in this process no job is blamed. The last SUSPECTS_MAX suspects
 * are remembered; one that was forgotten is given back once more than it should be.
 */
#ifndef RUN_POOL_SUSPECTS_H
#define RUN_POOL_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUSPECTS_MAX      64
#define SUSPECTS_PATIENCE 3

/* All zero: none, and the handler has not worked yet. */
struct suspects {
    uint64_t n_worked; /* runs of the handler that ended in an ordinary way */
    size_t next;       /* to be overwritten */
    struct suspect {
        int64_t seq; /* the job's number; 0: free */
        uint64_t n_worked;
        unsigned times;
    } items[SUSPECTS_MAX];
};

/* A run has ended in an ordinary way, whether the job succeeded or failed. */
void suspects_worked(struct suspects *s);

/* The handler broke down with this job. True: the job is to blame. */
bool suspects_blame_job(struct suspects *s, int64_t seq);

#endif
