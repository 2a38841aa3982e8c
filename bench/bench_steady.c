/* bench_steady - a queue at work for minutes, with and without retention.
 *
 * The engine behind its committer, as a server has it, on an SQLite file with synchronous=FULL, or
 * on the store of --store. Callers submit, claim and settle batches of jobs with payloads of 100
 * bytes as fast as they are answered. Beside them one client submits a single job every few
 * milliseconds, and is timed: that is what a user of a busy store waits.
 *
 *     bench_steady run [--dir D|--store URL] [--seconds S] [--kept-ms N] [--batch N] [--callers N]
 *         Prints a line of JSON a second: jobs that have ended in it, the median and the 99th
 *         percentile of the single submits in ms, processor time of a job in us, the size of the
 *         file in bytes, and how many ended jobs the store holds. Completed jobs are kept for
 *         `kept-ms`; 0: none is removed.
 *     bench_steady alone [--dir D] [--jobs N] [--kept-ms N] [--batch N]
 *         The same jobs on one thread, under a clock that moves 5 ms with each transaction, to
 *         count instructions by.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "engine/committer.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"

#define BATCH_MAX   1024
#define CALLERS_MAX 32
#define TASKS       4
#define PROBE_US    5000
#define PROBES_MAX  4096

struct options {
    const char *dir;
    const char *store;
    size_t jobs;
    size_t seconds;
    int64_t kept_ms;
    size_t batch;
    size_t callers;
};

static const char *const TASK_NAMES[TASKS] = {"mail", "report", "resize", "index"};
static char payload[100];
static char folder[512];
static char url[1024];

static void must(int rc, const struct redrive_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_steady: %s: %s (%s)\n", what, err->message, err->detail);
    exit(1);
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- The store ------------------------------------------------------------------------------- */

static void make_folder(const struct options *o)
{
    if (o->store) {
        snprintf(url, sizeof url, "%s", o->store);
        return;
    }
    snprintf(folder, sizeof folder, "%s/redrive-steady-XXXXXX", o->dir);
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    snprintf(url, sizeof url, "sqlite:%s/jobs.db", folder);
}

static const char *const FILES[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
#define N_FILES (sizeof FILES / sizeof FILES[0])

static void remove_folder(void)
{
    char path[600];
    if (!folder[0])
        return;
    for (size_t i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, FILES[i]);
        unlink(path);
    }
    rmdir(folder);
}

static double file_bytes(void)
{
    char path[600];
    double sum = 0;
    struct stat st;
    for (size_t i = 0; folder[0] && i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, FILES[i]);
        sum += stat(path, &st) == 0 ? (double)st.st_size : 0;
    }
    return sum;
}

static struct config *make_config(int64_t kept_ms)
{
    const struct config_sources sources = {.path = "/dev/null", .path_required = true};
    struct config_report report;
    struct config *config;
    if (config_load(&sources, &config, &report) < 0)
        must(-1, &report.errors[0], "configuration");
    config->retention.completed_ms = kept_ms > 0 ? kept_ms : INT64_C(365) * 24 * 3600 * 1000;
    return config;
}

static struct engine *open_engine(const struct options *o, engine_clock_fn clock)
{
    struct redrive_err err = {0};
    const struct store_options store_options = {.create = true};
    struct config *config = make_config(o->kept_ms);
    struct engine_options options = {.clock = clock, .config = config};
    struct engine *engine = NULL;
    must(store_open(url, &store_options, &options.store, &err), &err, "open");
    must(engine_open(&options, &engine, &err), &err, "open");
    config_free(config);
    return engine;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

typedef void apply_fn(void *to, struct op *op);

static void submit(const struct engine *engine, size_t n, apply_fn *apply, void *to)
{
    struct job_spec specs[BATCH_MAX];
    struct submit_op op;
    struct redrive_err err = {0};
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct job_spec){.task = str_of(TASK_NAMES[i % TASKS]),
                                     .payload = {payload, sizeof payload}};
    must(submit_op_init(&op, engine, specs, n, &err), &err, "submit");
    apply(to, &op.op);
    submit_op_release(&op);
}

/* Claims and settles; the number of jobs. */
static size_t work(size_t n, apply_fn *apply, void *to)
{
    static _Thread_local struct settlement done[BATCH_MAX];
    const struct claim_filter filter = {.limit = n};
    struct claim_op claim;
    struct settle_op settle;
    claim_op_init(&claim, &filter, STR("worker-1"), 0);
    apply(to, &claim.op);
    const size_t got = claim.n;
    for (size_t i = 0; i < got; i++)
        done[i] = (struct settlement){.seq = claim.jobs[i].status.seq,
                                      .token = claim.jobs[i].status.token,
                                      .outcome = {.ending = ENDING_RAN}};
    claim_op_release(&claim);
    if (got == 0)
        return 0;
    settle_op_init(&settle, done, got);
    apply(to, &settle.op);
    return got;
}

/* ---- At work --------------------------------------------------------------------------------- */

struct load {
    const struct options *options;
    struct committer *committer;
    atomic_bool over;
    atomic_ulong ended;
    pthread_mutex_t mutex; /* guards what follows */
    double probes_ms[PROBES_MAX];
    size_t n_probes;
};

static void through_committer(void *to, struct op *op)
{
    struct redrive_err err = {0};
    must(committer_run(to, op, &err), &err, "operation");
}

static void *call(void *arg)
{
    struct load *load = arg;
    const size_t batch = load->options->batch;
    const struct engine *engine = committer_engine(load->committer);
    while (!atomic_load(&load->over)) {
        submit(engine, batch, through_committer, load->committer);
        atomic_fetch_add(&load->ended, work(batch, through_committer, load->committer));
    }
    return NULL;
}

/* One that submits single jobs. The callers claim a few jobs more than they submit. */
static void *probe(void *arg)
{
    struct load *load = arg;
    const struct engine *engine = committer_engine(load->committer);
    while (!atomic_load(&load->over)) {
        const int64_t start_ns = clock_monotonic_ns();
        submit(engine, 1, through_committer, load->committer);
        const double ms = (double)(clock_monotonic_ns() - start_ns) / 1e6;
        pthread_mutex_lock(&load->mutex);
        if (load->n_probes < PROBES_MAX)
            load->probes_ms[load->n_probes++] = ms;
        pthread_mutex_unlock(&load->mutex);
        usleep(PROBE_US);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Ended jobs that the store holds, by its counts. */
static int64_t count_ended(struct store *reader)
{
    struct count_page counts = {0};
    struct redrive_err err = {0};
    int64_t n = 0;
    must(store_ops(reader)->counts(reader, COUNT_QUEUES, (struct str){0}, &counts, &err), &err,
         "count");
    for (size_t i = 0; i < counts.n; i++)
        n += (int64_t)counts.counts[i].by_state[REDRIVE_STATE_COMPLETED];
    count_page_release(&counts);
    return n;
}

struct sample {
    int64_t at_ns;
    double cpu_us;
    unsigned long ended;
};

static void print_second(struct load *load, struct store *reader, struct sample *last)
{
    static double probes_ms[PROBES_MAX];
    const struct sample now = {clock_monotonic_ns(), cpu_us(), atomic_load(&load->ended)};
    pthread_mutex_lock(&load->mutex);
    const size_t n = load->n_probes;
    memcpy(probes_ms, load->probes_ms, n * sizeof probes_ms[0]);
    load->n_probes = 0;
    pthread_mutex_unlock(&load->mutex);
    qsort(probes_ms, n, sizeof probes_ms[0], compare);
    const double jobs = (double)(now.ended - last->ended);
    printf("{\"jobs_per_s\":%.1f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"cpu_us\":%.3f,"
           "\"bytes\":%.0f,\"ended\":%lld}\n",
           jobs * 1e9 / (double)(now.at_ns - last->at_ns), n ? probes_ms[n / 2] : 0,
           n ? probes_ms[n * 99 / 100] : 0, jobs > 0 ? (now.cpu_us - last->cpu_us) / jobs : 0,
           file_bytes(), (long long)count_ended(reader));
    fflush(stdout);
    *last = now;
}

static int run(const struct options *o)
{
    struct redrive_err err = {0};
    struct load load = {.options = o, .mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[CALLERS_MAX + 1];
    struct store *reader;
    const struct committer_options options = {.engine = open_engine(o, NULL)};
    must(committer_start(&options, &load.committer, &err), &err, "start");
    must(store_open(url, &(struct store_options){0}, &reader, &err), &err, "open");
    for (size_t i = 0; i <= o->callers; i++)
        if (pthread_create(&threads[i], NULL, i < o->callers ? call : probe, &load) != 0)
            exit(1);
    struct sample last = {clock_monotonic_ns(), cpu_us(), 0};
    for (size_t i = 0; i < o->seconds; i++) {
        sleep(1);
        print_second(&load, reader, &last);
    }
    atomic_store(&load.over, true);
    for (size_t i = 0; i <= o->callers; i++)
        pthread_join(threads[i], NULL);
    store_close(reader);
    committer_stop(load.committer);
    return 0;
}

/* ---- On one thread --------------------------------------------------------------------------- */

#define ALONE_MS       5
#define ALONE_START_MS INT64_C(1700000000000)

static int64_t alone_ms = ALONE_START_MS;
static int64_t alone_ticks_ms; /* no ticks before: the first one that finds nothing to remove is
                                * followed by a long rest */

static int64_t alone_clock(void *ctx)
{
    (void)ctx;
    return alone_ms;
}

static void apply_alone(void *to, struct op *op)
{
    struct redrive_err err = {0};
    must(engine_apply_one(to, op, &err), &err, "operation");
    alone_ms += ALONE_MS;
    int64_t next_ms;
    if (alone_ms >= alone_ticks_ms && engine_next_ms(to) <= alone_ms)
        must(engine_tick(to, &next_ms, &err), &err, "tick");
}

static int alone(const struct options *o)
{
    struct engine *engine = open_engine(o, alone_clock);
    size_t ended = 0;
    alone_ticks_ms = ALONE_START_MS + o->kept_ms + 50;
    while (ended < o->jobs) {
        submit(engine, o->batch, apply_alone, engine);
        ended += work(o->batch, apply_alone, engine);
    }
    printf("{\"ended\":%lld,\"bytes\":%.0f}\n", (long long)count_ended(engine_store(engine)),
           file_bytes());
    engine_close(engine);
    return 0;
}

static size_t number(const char *text, size_t max)
{
    const size_t n = strtoul(text, NULL, 10);
    return n < 1 ? 1 : n > max ? max : n;
}

int main(int argc, char **argv)
{
    struct options o = {
        .dir = ".", .jobs = 20000, .seconds = 10, .kept_ms = 0, .batch = 256, .callers = 8};
    store_own_process(); /* as the program does */
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--dir") == 0)
            o.dir = value;
        if (strcmp(name, "--store") == 0)
            o.store = value;
        if (strcmp(name, "--jobs") == 0)
            o.jobs = number(value, 100000000);
        if (strcmp(name, "--seconds") == 0)
            o.seconds = number(value, 36000);
        if (strcmp(name, "--kept-ms") == 0)
            o.kept_ms = strtol(value, NULL, 10);
        if (strcmp(name, "--batch") == 0)
            o.batch = number(value, BATCH_MAX);
        if (strcmp(name, "--callers") == 0)
            o.callers = number(value, CALLERS_MAX);
    }
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    const bool is_run = argc > 1 && strcmp(argv[1], "run") == 0;
    if (!is_run && !(argc > 1 && strcmp(argv[1], "alone") == 0)) {
        fprintf(stderr, "usage: bench_steady run|alone [--dir D|--store URL] …\n");
        return 2;
    }
    make_folder(&o);
    const int status = is_run ? run(&o) : alone(&o);
    remove_folder();
    return status;
}
