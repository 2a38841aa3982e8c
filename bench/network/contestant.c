/* bench_contestant - Redrive's part of the benchmark over a network: a program of libredrive-queue
 * with a C function as its handler, as the peers run functions of their own language in process.
 * bench/peers/common says the same for Go and for Node.
 *
 *     bench_contestant work URL SLOTS
 *         Opens the store, prints "ready" and takes commands, one a line, until its input ends:
 *             go       works jobs, so many at a time, from now on
 *             count    prints {"ran","first_ns","last_ns"}: how many jobs have been run here, and
 *                      when the first and the last of them started
 *             waits    prints [µs, …]: from submit to start, of each job that tells when it was
 *                      submitted
 *     bench_contestant feed URL RATE SECONDS
 *         Submits so many jobs a second. What is due is submitted every FEED_MS in one call, which
 *         is waited for. Jobs tell when that call began. Prints {"sent","seconds"}.
 *
 * Times are of the monotonic clock, which all processes of a machine share. Jobs do nothing and
 * have a payload of 100 bytes.
 */
#include <pthread.h>
#include <redrive_queue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TASK      "noop"
#define FEED_MS   5
#define FEED_MAX  1000 /* jobs in a call */
#define WAITS_MAX 1000000
#define AT        "{\"at\":"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long ran;
static int64_t first_ns, last_ns;
static int64_t waits_us[WAITS_MAX];
static size_t n_waits;
static uint32_t slots;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void must(int rc, const struct redrive_err *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_contestant: %s (%s)\n", err->message, err->detail);
    _exit(1);
}

static struct redrive_queue *open_queue(const char *url)
{
    const struct redrive_queue_options options = {
        .store = url,
        .log = redrive_queue_log_to_stderr,
        .log_level = "error",
    };
    struct redrive_queue *queue;
    struct redrive_err err;
    must(redrive_queue_open(&options, &queue, &err), &err);
    return queue;
}

/* ---- Work ------------------------------------------------------------------------------------ */

static int run_one(struct redrive_task_run *run, void *arg)
{
    const char *payload = redrive_task_run_payload(run, NULL);
    const int64_t start_ns = now_ns();
    (void)arg;
    pthread_mutex_lock(&mutex);
    if (ran++ == 0)
        first_ns = start_ns;
    last_ns = start_ns;
    if (strncmp(payload, AT, strlen(AT)) == 0 && n_waits < WAITS_MAX)
        waits_us[n_waits++] = (start_ns - strtoll(payload + strlen(AT), NULL, 10)) / 1000;
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void *work_for_ever(void *arg)
{
    const struct redrive_handle_options options = {.concurrency = slots};
    struct redrive_err err;
    must(redrive_queue_handle(arg, TASK, run_one, NULL, &options, &err), &err);
    must(redrive_queue_work(arg, 0, &err), &err);
    return NULL;
}

static void print_waits(void)
{
    printf("[");
    for (size_t i = 0; i < n_waits; i++)
        printf("%s%ld", i ? "," : "", (long)waits_us[i]);
    printf("]\n");
}

static int work(const char *url)
{
    struct redrive_queue *queue = open_queue(url);
    char line[64];
    pthread_t thread;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        pthread_mutex_lock(&mutex);
        if (strcmp(line, "go\n") == 0 && pthread_create(&thread, NULL, work_for_ever, queue) != 0)
            _exit(1);
        if (strcmp(line, "count\n") == 0)
            printf("{\"ran\":%lu,\"first_ns\":%ld,\"last_ns\":%ld}\n", ran, (long)first_ns,
                   (long)last_ns);
        if (strcmp(line, "waits\n") == 0)
            print_waits();
        fflush(stdout);
        pthread_mutex_unlock(&mutex);
    }
    _exit(0); /* the store is thrown away as it is */
}

/* ---- Feed ------------------------------------------------------------------------------------ */

static void submit(struct redrive_queue *queue, size_t n)
{
    static struct redrive_job_spec specs[FEED_MAX];
    char payload[101];
    struct redrive_err err;
    const int begun = snprintf(payload, sizeof payload, AT "%ld,\"text\":\"", (long)now_ns());
    memset(payload + begun, 'x', sizeof payload - (size_t)begun);
    memcpy(payload + sizeof payload - 3, "\"}", 3);
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct redrive_job_spec){.task = TASK, .payload = payload};
    must(redrive_queue_submit(queue, specs, n, 0, NULL, &err), &err);
}

static int feed(const char *url, double rate, double seconds)
{
    const struct timespec pause = {.tv_nsec = FEED_MS * 1000000};
    struct redrive_queue *queue = open_queue(url);
    const int64_t start_ns = now_ns();
    size_t sent = 0;
    double passed_s = 0;
    while (passed_s < seconds) {
        passed_s = (double)(now_ns() - start_ns) / 1e9;
        const size_t due = (size_t)(rate * (passed_s < seconds ? passed_s : seconds));
        const size_t n = due > sent + FEED_MAX ? FEED_MAX : due - sent;
        if (n > 0)
            submit(queue, n);
        sent += n;
        nanosleep(&pause, NULL);
    }
    redrive_queue_close(queue);
    printf("{\"sent\":%zu,\"seconds\":%.6f}\n", sent, passed_s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "work") == 0) {
        slots = (uint32_t)strtoul(argv[3], NULL, 10);
        return work(argv[2]);
    }
    if (argc == 5 && strcmp(argv[1], "feed") == 0)
        return feed(argv[2], strtod(argv[3], NULL), strtod(argv[4], NULL));
    fprintf(stderr, "usage: bench_contestant work URL SLOTS\n"
                    "       bench_contestant feed URL RATE SECONDS\n");
    return 2;
}
