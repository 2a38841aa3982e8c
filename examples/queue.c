/* A mailer: submits letters to a durable queue, and sends them with a function.
 *
 *     cc -o queue queue.c $(pkg-config --cflags --libs redrive-queue) && ./queue
 *
 *     queue [STORE]            submits five letters and sends what is ready (sqlite:letters.db)
 *     queue [STORE] --stay     goes on until Ctrl-C; start several, they share the work
 *
 * Jobs survive the program: kill it, start it again. `redrive --store sqlite:letters.db jobs list`
 * shows them, `redrive dlq list` the one that could not be sent.
 */
#include <errno.h>
#include <redrive_queue.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct redrive_queue *queue;

/* redrive_queue_stop may be called from a signal handler: what runs has ten seconds to end. */
static void on_signal(int number)
{
    (void)number;
    redrive_queue_stop(queue, 10 * 1000);
}

/* Stands for a mail server: the first try finds it busy, and one address is not there. */
static int send_letter(struct redrive_task_run *run, void *arg)
{
    const char *letter = redrive_task_run_payload(run, NULL);
    (void)arg;
    printf("%s: attempt %u of %u: %s\n", redrive_task_run_id(run), redrive_task_run_attempt(run),
           redrive_task_run_max_attempts(run), letter);
    if (strstr(letter, "nobody"))
        return redrive_task_run_fail(
            run, &(struct redrive_failure){.status = "PERMANENT_FAIL",
                                           .error_type = "NoSuchAddress",
                                           .message = "550 there is no such address"});
    if (strstr(letter, "letter 1") && redrive_task_run_attempt(run) == 1)
        return -ECONNREFUSED;
    (void)redrive_task_run_result(run, "{\"sent\":true}", 13); /* it is sent all the same */
    return 0;
}

static int submit_letters(struct redrive_err *err)
{
    const char *to[] = {"ann", "ben", "nobody", "cleo", "dan"};
    char letters[5][80];
    struct redrive_job_spec jobs[5];
    for (int i = 0; i < 5; i++) {
        snprintf(letters[i], sizeof letters[i], "{\"to\":\"%s\",\"text\":\"letter %d\"}", to[i], i);
        jobs[i] = (struct redrive_job_spec){
            .task = "letter",
            .payload = letters[i],
            .retry = "{\"initial_delay\":\"200ms\",\"jitter\":\"none\"}",
        };
    }
    return redrive_queue_submit(queue, jobs, 5, 0, NULL, err);
}

int main(int argc, char **argv)
{
    const bool stays = argc > 1 && strcmp(argv[argc - 1], "--stay") == 0;
    const struct redrive_queue_options options = {
        .store = argc > 1 + stays ? argv[1] : "sqlite:letters.db",
        .log = redrive_queue_log_to_stderr,
        .log_level = "warning",
    };
    struct redrive_err err;
    int rc = redrive_queue_open(&options, &queue, &err);
    if (rc == 0) {
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
        rc = submit_letters(&err);
    }
    if (rc == 0)
        rc = redrive_queue_handle(queue, "letter", send_letter, NULL,
                                  &(struct redrive_handle_options){.concurrency = 2}, &err);
    if (rc == 0)
        rc = redrive_queue_work(queue, stays ? 0 : REDRIVE_WORK_UNTIL_IDLE, &err);
    if (rc < 0)
        fprintf(stderr, "queue: %s\n  %s\nhint: %s\n", err.message, err.detail, err.hint);
    redrive_queue_close(queue);
    return redrive_err_exit_code(rc);
}
