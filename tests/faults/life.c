/* life.c - jobs from submit to the dead letter, by the C library, in a program whose calls fail:
 *
 *     life STORE CONFIG
 *
 * A step that fails is made again, up to three times: after one failed call all must be well in the
 * end. Says what was acknowledged on standard output, what failed on standard error. Exits 1 when a
 * step never succeeded.
 */
#include <redrive_queue.h>
#include <stdio.h>
#include <string.h>

#define N_JOBS  2
#define N_TRIES 3

static const struct redrive_job_spec SPECS[N_JOBS] = {
    {.task = "good", .id = "lib-good", .payload = "{\"n\":1}"},
    {.task = "bad", .id = "lib-bad", .payload = "{\"n\":2}"},
};

static struct redrive_queue *queue;
static struct redrive_queue_options options;

static int succeed(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    (void)redrive_task_run_result(run, "{\"done\":true}", 13);
    return 0;
}

static int fail_for_good(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    return redrive_task_run_fail(run, &(struct redrive_failure){.status = "PERMANENT_FAIL",
                                                                .error_type = "Broken",
                                                                .message = "it is broken"});
}

static int open_queue(struct redrive_err *err)
{
    return redrive_queue_open(&options, &queue, err);
}

static int submit(struct redrive_err *err)
{
    struct redrive_submitted answers[N_JOBS];
    int rc = redrive_queue_submit(queue, SPECS, N_JOBS, REDRIVE_SUBMIT_WHOLE, answers, err);
    for (int i = 0; rc == 0 && i < N_JOBS; i++)
        printf("submitted %s\n", answers[i].id);
    return rc;
}

static int handle(struct redrive_err *err)
{
    int rc = redrive_queue_handle(queue, "good", succeed, NULL, NULL, err);
    if (rc == 0 || rc == REDRIVE_E_EXISTS)
        rc = redrive_queue_handle(queue, "bad", fail_for_good, NULL, NULL, err);
    return rc == REDRIVE_E_EXISTS ? 0 : rc;
}

static int work(struct redrive_err *err)
{
    return redrive_queue_work(queue, REDRIVE_WORK_UNTIL_IDLE, err);
}

static int look(struct redrive_err *err)
{
    int rc = 0;
    for (int i = 0; i < N_JOBS && rc == 0; i++) {
        struct redrive_job_status job;
        rc = redrive_queue_job(queue, SPECS[i].id, &job, err);
        if (rc == 0)
            printf("%s %s\n", SPECS[i].id, redrive_state_name(job.state));
        redrive_queue_job_release(&job);
    }
    return rc;
}

static int try_step(const char *name, int (*step)(struct redrive_err *err))
{
    int rc = -1;
    for (int i = 0; i < N_TRIES && rc < 0; i++) {
        struct redrive_err err = {0};
        rc = step(&err);
        if (rc < 0)
            fprintf(stderr, "life: %s: %s\n", name, err.message[0] ? err.message : "no message");
    }
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    options = (struct redrive_queue_options){.store = argv[1],
                                             .config = argv[2],
                                             .log = redrive_queue_log_to_stderr,
                                             .log_level = "warning"};
    int rc = try_step("open", open_queue);
    if (rc == 0)
        rc = try_step("submit", submit);
    if (rc == 0)
        rc = try_step("handle", handle);
    if (rc == 0)
        rc = try_step("work", work);
    if (rc == 0)
        rc = try_step("look", look);
    redrive_queue_close(queue);
    return rc < 0;
}
