/* bench_tenants - what it costs to keep each tenant in a store of its own, beside one store for
 * all.
 *
 *     bench_tenants one URL TENANTS JOBS PLACES     one store, whose worker has all the places
 *     bench_tenants each URL TENANTS JOBS PLACES    a store for each: the URL with a number after
 *                                                   it; places are shared out
 *
 * So many jobs in all, which do nothing and have a payload of 100 bytes, are submitted by the
 * tenants in turn, a hundred at a time, and then worked by one process. Prints what it took as one
 * line of JSON.
 */
#include <pthread.h>
#include <redrive_queue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH       100
#define TASK        "noop"
#define MAX_TENANTS 256

struct worker {
    struct redrive_queue *queue;
    uint32_t places;
    pthread_t thread;
};

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
    fprintf(stderr, "bench_tenants: %s (%s)\n", err->message, err->detail);
    exit(1);
}

static int run_one(struct redrive_task_run *run, void *arg)
{
    (void)run;
    (void)arg;
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
    return 0;
}

static struct redrive_queue *open_queue(const char *url, const char *tenant)
{
    const struct redrive_queue_options options = {
        .store = url,
        .tenant = tenant,
        .log = redrive_queue_log_to_stderr,
        .log_level = "error",
    };
    struct redrive_queue *queue;
    struct redrive_err err;
    must(redrive_queue_open(&options, &queue, &err), &err);
    return queue;
}

static void open_tenants(struct redrive_queue **queues, size_t n, const char *url, bool each)
{
    for (size_t i = 0; i < n; i++) {
        char place[512], name[32];
        snprintf(name, sizeof name, "tenant-%zu", i);
        snprintf(place, sizeof place, each ? "%s%zu" : "%s", url, i);
        queues[i] = open_queue(place, name);
    }
}

static void submit(struct redrive_queue *queue)
{
    char payload[101];
    struct redrive_job_spec specs[BATCH];
    struct redrive_err err;
    memset(payload, 'x', 100);
    payload[0] = payload[99] = '"';
    payload[100] = 0;
    for (size_t i = 0; i < BATCH; i++)
        specs[i] = (struct redrive_job_spec){.task = TASK, .payload = payload};
    must(redrive_queue_submit(queue, specs, BATCH, 0, NULL, &err), &err);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    const struct redrive_handle_options options = {.concurrency = worker->places};
    struct redrive_err err;
    must(redrive_queue_handle(worker->queue, TASK, run_one, NULL, &options, &err), &err);
    must(redrive_queue_work(worker->queue, REDRIVE_WORK_UNTIL_IDLE, &err), &err);
    return NULL;
}

static double work_all(struct worker *workers, size_t n, size_t places)
{
    const double from_s = now_s();
    for (size_t i = 0; i < n; i++) {
        workers[i].places = (uint32_t)(places / n ? places / n : 1);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    return now_s() - from_s;
}

int main(int argc, char **argv)
{
    static struct redrive_queue *queues[MAX_TENANTS];
    static struct worker workers[MAX_TENANTS];
    const bool each = argc == 6 && strcmp(argv[1], "each") == 0;
    const size_t tenants = argc == 6 ? strtoul(argv[3], NULL, 10) : 0;
    if (tenants == 0 || tenants > MAX_TENANTS || (!each && strcmp(argv[1], "one") != 0)) {
        fprintf(stderr, "usage: bench_tenants one|each URL TENANTS JOBS PLACES\n");
        return 2;
    }
    const size_t jobs = strtoul(argv[4], NULL, 10);
    open_tenants(queues, tenants, argv[2], each);
    const double start_s = now_s();
    for (size_t done = 0, i = 0; done < jobs; done += BATCH, i = (i + 1) % tenants)
        submit(queues[i]);
    const double submit_s = now_s() - start_s;
    for (size_t i = 0; i < tenants && each; i++)
        workers[i].queue = queues[i];
    for (size_t i = 0; i < tenants && !each; i++)
        redrive_queue_close(queues[i]);
    if (!each)
        workers[0].queue = open_queue(argv[2], NULL);
    const size_t n = each ? tenants : 1;
    const double work_s = work_all(workers, n, strtoul(argv[5], NULL, 10));
    for (size_t i = 0; i < n; i++)
        redrive_queue_close(workers[i].queue);
    printf("{\"submit_s\":%.6f,\"work_s\":%.6f,\"ran\":%lu}\n", submit_s, work_s,
           atomic_load(&ran));
    return 0;
}
