/* queue_worker.c - a worker of the C library, for tests that harm its store:
 *
 *     queue_worker CONFIG [until-idle]
 *
 * It has the functions below, runs four jobs of each at a time, and logs to standard error. SIGTERM
 * stops it. Exits 1 if the work ends with an error, which it prints.
 */
#include <errno.h>
#include <redrive_queue.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "waiting.h"

static struct redrive_queue *queue;

static void stop(int signo)
{
    (void)signo;
    redrive_queue_stop(queue, 10000);
}

static int run_good(struct redrive_task_run *run, void *arg)
{
    (void)run, (void)arg;
    return 0;
}

static int run_slow(struct redrive_task_run *run, void *arg)
{
    (void)run, (void)arg;
    pass_ms(2000);
    return 0;
}

/* Fails for all tenants but acme, after a while. */
static int run_torn(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    if (strcmp(redrive_task_run_tenant(run), "acme") == 0)
        return 0;
    pass_ms(2000);
    return -ECONNREFUSED;
}

static int run_long(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    for (int i = 0; i < 15 && !redrive_task_run_cancelled(run); i++)
        pass_ms(1000);
    return 0;
}

static const struct {
    const char *task;
    redrive_task_fn fn;
} FUNCTIONS[] = {
    {"good", run_good},  {"slow", run_slow}, {"torn", run_torn},
    {"brief", run_slow}, {"long", run_long},
};

static int say(const struct redrive_err *err)
{
    fprintf(stderr, "%s: %s\n", err->message, err->detail);
    return 1;
}

int main(int argc, char **argv)
{
    struct redrive_err err = {0};
    const struct redrive_queue_options options = {
        .config = argc > 1 ? argv[1] : NULL,
        .log = redrive_queue_log_to_stderr,
    };
    const unsigned flags =
        argc > 2 && strcmp(argv[2], "until-idle") == 0 ? REDRIVE_WORK_UNTIL_IDLE : 0;
    const struct redrive_handle_options four = {.concurrency = 4};
    int rc = redrive_queue_open(&options, &queue, &err);
    if (rc < 0)
        return say(&err);
    signal(SIGTERM, stop);
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof FUNCTIONS[0] && rc == 0; i++)
        rc = redrive_queue_handle(queue, FUNCTIONS[i].task, FUNCTIONS[i].fn, NULL, &four, &err);
    if (rc == 0)
        rc = redrive_queue_work(queue, flags, &err);
    redrive_queue_close(queue);
    return rc < 0 ? say(&err) : 0;
}
