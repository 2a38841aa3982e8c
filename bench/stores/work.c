/* bench_work - Redrive's queue library as a program would use it, for comparison with its peers.
 *
 *     bench_work submit URL JOBS [TENANT]    submits jobs in batches
 *     bench_work lives URL JOBS PLACES       the same, then works them, so many at a time
 *     bench_work work URL WAIT_MS PLACES     works what is there; each run waits so long
 *
 * Jobs do nothing and have a payload of 100 bytes. Prints what it took as one line of JSON; `from`
 * and `to` are on the monotonic clock, which all processes of a machine share. Exit status 77: this
 * build does not know the store.
 */
#include <redrive_queue.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH   1000
#define TASK    "noop"
#define SKIPPED 77

static atomic_ulong ran;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int rc, const struct redrive_err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_work: %s (%s)\n", err->message, err->detail);
    exit(rc == REDRIVE_E_UNKNOWN ? SKIPPED : 1);
}

static int run_one(struct redrive_task_run *run, void *arg)
{
    const struct timespec *wait = arg;
    (void)run;
    if (wait->tv_nsec > 0)
        nanosleep(wait, NULL);
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
    return 0;
}

static void submit(struct redrive_queue *queue, size_t jobs)
{
    static char payload[101];
    static struct redrive_job_spec specs[BATCH];
    struct redrive_err err;
    memset(payload, 'x', 100);
    payload[0] = payload[99] = '"';
    for (size_t i = 0; i < BATCH; i++)
        specs[i] = (struct redrive_job_spec){.task = TASK, .payload = payload};
    for (size_t done = 0; done < jobs; done += BATCH)
        must(redrive_queue_submit(queue, specs, jobs - done < BATCH ? jobs - done : BATCH, 0, NULL,
                                  &err),
             &err);
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_work submit URL JOBS [TENANT]\n"
                    "       bench_work lives URL JOBS PLACES\n"
                    "       bench_work work URL WAIT_MS PLACES\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return usage();
    const bool works = strcmp(argv[1], "submit") != 0;
    const bool submits = strcmp(argv[1], "work") != 0;
    if (works ? argc != 5 : argc > 5)
        return usage();
    if (works && submits && strcmp(argv[1], "lives") != 0)
        return usage();
    const unsigned long n = strtoul(argv[3], NULL, 10);
    struct timespec wait = {.tv_nsec = submits ? 0 : (long)n * 1000000};
    const struct redrive_queue_options options = {
        .store = argv[2],
        .tenant = works || argc < 5 ? NULL : argv[4],
        .log = redrive_queue_log_to_stderr,
        .log_level = "error",
    };
    struct redrive_handle_options handle = {0};
    struct redrive_queue *queue;
    struct redrive_err err;
    must(redrive_queue_open(&options, &queue, &err), &err);
    const double start_s = now_s();
    if (submits)
        submit(queue, n);
    const double from_s = now_s();
    if (works) {
        handle.concurrency = (uint32_t)strtoul(argv[4], NULL, 10);
        must(redrive_queue_handle(queue, TASK, run_one, &wait, &handle, &err), &err);
        must(redrive_queue_work(queue, REDRIVE_WORK_UNTIL_IDLE, &err), &err);
    }
    const double to_s = now_s();
    redrive_queue_close(queue);
    printf("{\"submit_s\":%.6f,\"work_s\":%.6f,\"from\":%.6f,\"to\":%.6f,\"ran\":%lu}\n",
           from_s - start_s, to_s - from_s, from_s, to_s, atomic_load(&ran));
    return 0;
}
