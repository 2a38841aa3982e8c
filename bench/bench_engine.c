/* bench_engine - what a life costs with everything on.
 *
 * The engine on an SQLite file with synchronous=FULL, behind its committer, as a server would have
 * it: ids made by the engine, four tenants with two tasks each, a closed breaker for each task,
 * counters, history, events, payloads of 100 bytes or of --payload. A life is submit, claim,
 * settle.
 *
 *     bench_engine lives [--dir D] [--jobs N] [--seconds S] [--batch N] [--window N] [--callers N]
 *         Threads that hand batches to the committer and do not wait for the answer before they
 *         hand in the next: each has `window` batches under way. Ends after so many lives, or when
 *         the time is over.
 *     bench_engine waiting [--dir D] [--waiting N]
 *         What a claim costs with few and with many jobs waiting; memory and start-up with many.
 *     bench_engine fill --dir D [--waiting N]
 *         Leaves a store D/jobs.db with so many jobs more waiting, for workers.
 *     bench_engine alone [--dir D] [--jobs N] [--batch N] [--window N]
 *         The same lives as transactions of `window` batches on one thread and without a
 *         committer, to count instructions by. With spans, if the variables of OpenTelemetry name
 *         a collector.
 *     bench_engine steps --store URL [--batch N]
 *         STEPS transactions that settle a batch and claim the next one, then as many that only
 *         settle. Before each of them, and at the end, it prints its name in a line and waits for
 *         one, so that its caller can time it; an empty line before what does not count.
 *
 * With --store URL all of them work on that store instead of a file of their own. What it holds
 * stays there, and claims are measured by the clock on the wall: what the server does is no
 * processor time of this process.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "base/os/log.h"
#include "engine/committer.h"
#include "engine/report/spans.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"
#include "run/otlp/exporter.h"

#define BATCH_MAX        1024
#define WINDOW_MAX       64
#define CALLERS_MAX      16
#define TENANTS          4
#define TASKS            2
#define FEW              10000
#define CLAIMS_MAX       400
#define STEPS            20
#define TRACING_GRACE_MS 20000
#define PAYLOAD_MAX      ((size_t)1024 * 1024)

static const char *const TENANT_NAMES[TENANTS] = {"north", "east", "south", "west"};
static const char *const TASK_NAMES[TASKS] = {"mail", "report"};
static char payload_bytes[PAYLOAD_MAX];
static struct str payload = {payload_bytes, 100};
static atomic_ulong events;
static struct otlp_exporter *exporter; /* NULL: without spans */
static bool is_server;                 /* the store is not a file of this process */

struct options {
    const char *dir;
    const char *store; /* NULL: an SQLite file in a new folder below `dir` */
    size_t jobs;
    double seconds;
    size_t batch;
    size_t window;
    size_t callers;
    size_t waiting;
};

static void must(int rc, const struct redrive_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_engine: %s: %s (%s)\n", what, err->message, err->detail);
    exit(1);
}

/* ---- The store's file ------------------------------------------------------------------------ */

static char folder[512];
static char url[1024];

static void make_folder(const struct options *options)
{
    snprintf(folder, sizeof folder, "%s/redrive-bench-XXXXXX", options->dir);
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    snprintf(url, sizeof url, "sqlite:%s/jobs.db", folder);
}

static void remove_folder(void)
{
    static const char *const NAMES[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    char path[600];
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void count_event(const struct engine_event *event, void *ctx)
{
    (void)ctx;
    spans_event(otlp_exporter_tracing(exporter), event);
    atomic_fetch_add_explicit(&events, 1, memory_order_relaxed);
}

static struct engine *open_engine_with(engine_clock_fn clock)
{
    struct redrive_err err = {0};
    const struct store_options store_options = {.create = true};
    struct engine_options options = {.on_event = count_event, .clock = clock};
    struct engine *engine = NULL;
    must(store_open(url, &store_options, &options.store, &err), &err, "open");
    must(engine_open(&options, &engine, &err), &err, "open");
    return engine;
}

static struct engine *open_engine(void)
{
    return open_engine_with(NULL);
}

static struct committer *open_committer(void)
{
    struct redrive_err err = {0};
    struct committer *committer = NULL;
    const struct committer_options options = {.engine = open_engine()};
    must(committer_start(&options, &committer, &err), &err, "start");
    return committer;
}

/* ---- A batch on its way through life --------------------------------------------------------- */

enum phase {
    PHASE_SUBMIT,
    PHASE_CLAIM,
    PHASE_SETTLE,
};

struct caller;

struct batch {
    enum phase phase;
    struct caller *caller;
    struct batch *next; /* in the caller's inbox */
    size_t n;
    union {
        struct op op;
        struct submit_op submit;
        struct claim_op claim;
        struct settle_op settle;
    };
    struct settlement settlements[BATCH_MAX];
};

static void begin_submit(struct batch *b, const struct engine *engine, size_t n)
{
    struct job_spec specs[BATCH_MAX];
    struct redrive_err err = {0};
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct job_spec){
            .tenant = str_of(TENANT_NAMES[i % TENANTS]),
            .task = str_of(TASK_NAMES[i / TENANTS % TASKS]),
            .payload = payload,
        };
    b->phase = PHASE_SUBMIT;
    b->n = n;
    must(submit_op_init(&b->submit, engine, specs, n, &err), &err, "submit");
}

static void begin_claim(struct batch *b, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    b->phase = PHASE_CLAIM;
    b->n = n;
    claim_op_init(&b->claim, &filter, STR("worker-1"), 0);
}

/* The settlements of what a claim has given. Its pages are done with. */
static void begin_settle(struct batch *b)
{
    size_t n = b->claim.n;
    for (size_t i = 0; i < n; i++)
        b->settlements[i] = (struct settlement){
            .seq = b->claim.jobs[i].status.seq,
            .token = b->claim.jobs[i].status.token,
            .outcome = {.ending = ENDING_RAN},
        };
    claim_op_release(&b->claim);
    b->phase = PHASE_SETTLE;
    b->n = n;
    settle_op_init(&b->settle, b->settlements, n);
}

/* Looks at the answers; gives the number of lives that have ended with them. */
static size_t finish(struct batch *b)
{
    must(b->op.code, &b->op.err, "operation");
    if (b->phase == PHASE_SUBMIT) {
        for (size_t i = 0; i < b->n; i++)
            must(b->submit.answers[i].code, b->submit.answers[i].err, "submit of one");
        submit_op_release(&b->submit);
    }
    if (b->phase != PHASE_SETTLE)
        return 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct redrive_err err = {.message = "refused"};
        must(b->settlements[i].ret.code, &err, "settle of one");
    }
    return b->n;
}

/* ---- Callers --------------------------------------------------------------------------------- */

struct race {
    const struct options *options;
    struct committer *committer;
    int64_t end_ns;
    atomic_long to_submit;
    atomic_ulong lives;
    atomic_bool over; /* no new lives */
};

struct caller {
    struct race *race;
    pthread_t thread;
    struct batch *batches;
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    struct batch *inbox;
};

static void deliver(struct op *op, void *ctx)
{
    struct batch *b = ctx;
    struct caller *caller = b->caller;
    (void)op;
    pthread_mutex_lock(&caller->mutex);
    if (!caller->inbox)
        pthread_cond_signal(&caller->arrived);
    b->next = caller->inbox;
    caller->inbox = b;
    pthread_mutex_unlock(&caller->mutex);
}

static struct batch *collect(struct caller *caller)
{
    pthread_mutex_lock(&caller->mutex);
    while (!caller->inbox)
        pthread_cond_wait(&caller->arrived, &caller->mutex);
    struct batch *all = caller->inbox;
    caller->inbox = NULL;
    pthread_mutex_unlock(&caller->mutex);
    return all;
}

/* How many jobs to submit next; 0 when enough have been. */
static size_t next_submit(struct race *race)
{
    long batch = (long)race->options->batch;
    if (clock_monotonic_ns() >= race->end_ns)
        atomic_store(&race->over, true);
    if (atomic_load(&race->over))
        return 0;
    long left = atomic_fetch_sub(&race->to_submit, batch);
    return left <= 0 ? 0 : (size_t)(left < batch ? left : batch);
}

/* Hands in the next part of the batch's way. False when there is none: everything has been
 * submitted, and this batch has found nothing more to claim. */
static bool go_on(struct batch *b)
{
    struct race *race = b->caller->race;
    bool was_claim = b->phase == PHASE_CLAIM, was_submit = b->phase == PHASE_SUBMIT;
    if (was_claim && b->claim.n > 0) {
        begin_settle(b);
    } else {
        size_t n = was_submit ? 0 : next_submit(race);
        if (was_claim)
            claim_op_release(&b->claim);
        if (was_claim && n == 0)
            return false;
        if (n > 0)
            begin_submit(b, committer_engine(race->committer), n);
        else
            begin_claim(b, race->options->batch);
    }
    b->op.done = deliver;
    b->op.done_ctx = b;
    committer_submit(race->committer, &b->op);
    return true;
}

static void *call(void *arg)
{
    struct caller *caller = arg;
    size_t under_way = 0;
    for (size_t i = 0; i < caller->race->options->window; i++) {
        struct batch *b = &caller->batches[i];
        b->caller = caller;
        b->phase = PHASE_SETTLE;
        under_way += go_on(b);
    }
    while (under_way > 0) {
        struct batch *next;
        for (struct batch *b = collect(caller); b; b = next) {
            next = b->next;
            atomic_fetch_add(&caller->race->lives, finish(b));
            under_way -= !go_on(b);
        }
    }
    return NULL;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double wall_us(void)
{
    return (double)clock_monotonic_ns() / 1e3;
}

static void row(const char *name, double value, const char *unit, const char *durable)
{
    static bool later;
    printf("%s\n{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"durable\":%s}", later ? "," : "",
           name, value, unit, durable);
    later = true;
}

static int lives(const struct options *options)
{
    struct race race = {.options = options, .committer = open_committer()};
    struct caller callers[CALLERS_MAX] = {0};
    double start_us = cpu_us();
    int64_t start_ns = clock_monotonic_ns();
    race.end_ns = start_ns + (int64_t)(options->seconds * 1e9);
    atomic_init(&race.to_submit, (long)options->jobs);
    for (size_t i = 0; i < options->callers; i++) {
        struct caller *caller = &callers[i];
        *caller = (struct caller){.race = &race,
                                  .batches = calloc(options->window, sizeof(struct batch))};
        pthread_mutex_init(&caller->mutex, NULL);
        pthread_cond_init(&caller->arrived, NULL);
        if (!caller->batches || pthread_create(&caller->thread, NULL, call, caller) != 0)
            exit(1);
    }
    for (size_t i = 0; i < options->callers; i++)
        pthread_join(callers[i].thread, NULL);
    double n = (double)atomic_load(&race.lives);
    double seconds = (double)(clock_monotonic_ns() - start_ns) / 1e9;
    double life_us = (cpu_us() - start_us) / n;
    committer_stop(race.committer);
    for (size_t i = 0; i < options->callers; i++)
        free(callers[i].batches);
    if (atomic_load(&events) < 3 * (unsigned long)n) {
        fprintf(stderr, "bench_engine: events are missing\n");
        return 1;
    }
    row("engine.lives", n / seconds, "1/s", "true");
    row("engine.life_cpu", life_us, "us", "null");
    return 0;
}

/* A transaction of 512 jobs takes about so long. With the system's clock what is done once a second
 * would be counted all the more often the slower the program is under an instrument. */
#define ALONE_MS 5

static int64_t alone_ms = INT64_C(1700000000000);

static int64_t alone_clock(void *ctx)
{
    (void)ctx;
    return alone_ms;
}

static void apply_alone(struct engine *engine, struct op **ops, size_t n)
{
    engine_apply(engine, ops, n);
    alone_ms += ALONE_MS;
}

static const char *environment(const char *name)
{
    return getenv(name);
}

/* The phases of `window` batches in turn, each as one transaction. */
static int alone(const struct options *options)
{
    struct redrive_err err = {0};
    must(otlp_exporter_start(environment, NULL, &exporter, &err), &err, "tracing");
    struct engine *engine = open_engine_with(alone_clock);
    struct batch *batches = calloc(options->window, sizeof *batches);
    struct op *ops[WINDOW_MAX];
    size_t w = options->window, done = 0;
    if (!batches)
        return 1;
    double start_us = cpu_us();
    while (done < options->jobs) {
        for (size_t i = 0; i < w; i++) {
            begin_submit(&batches[i], engine, options->batch);
            ops[i] = &batches[i].op;
        }
        apply_alone(engine, ops, w);
        for (size_t i = 0; i < w; i++) {
            (void)finish(&batches[i]);
            begin_claim(&batches[i], options->batch);
        }
        apply_alone(engine, ops, w);
        for (size_t i = 0; i < w; i++) {
            (void)finish(&batches[i]);
            begin_settle(&batches[i]);
        }
        apply_alone(engine, ops, w);
        for (size_t i = 0; i < w; i++)
            done += finish(&batches[i]);
    }
    row("engine.alone_cpu", (cpu_us() - start_us) / (double)done, "us", "null");
    free(batches);
    engine_close(engine);
    otlp_exporter_stop(exporter, TRACING_GRACE_MS);
    return 0;
}

/* ---- With many waiting ----------------------------------------------------------------------- */

static void submit_some(struct engine *engine, struct batch *b, size_t n)
{
    struct redrive_err err = {0};
    begin_submit(b, engine, n);
    must(engine_apply_one(engine, &b->op, &err), &err, "submit");
    (void)finish(b);
}

static void fill(struct engine *engine, struct batch *b, size_t n)
{
    for (size_t done = 0; done < n; done += BATCH_MAX)
        submit_some(engine, b, n - done < BATCH_MAX ? n - done : BATCH_MAX);
}

static void settle_all(struct engine *engine, struct batch *b)
{
    struct redrive_err err = {0};
    begin_settle(b);
    must(engine_apply_one(engine, &b->op, &err), &err, "settle");
    (void)finish(b);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time of a claim of n, for each job, over many claims. Of a file it is the mean of the
 * processor time: the disk is left out, which would hide what the number of waiting jobs costs. Of
 * a server it is the median of the whole time. The number of waiting jobs stays what it is. */
static double claim_us(struct engine *engine, struct batch *b, size_t n, size_t rounds)
{
    double took_us[CLAIMS_MAX], sum_us = 0;
    for (size_t i = 0; i < rounds; i++) {
        struct redrive_err err = {0};
        submit_some(engine, b, n);
        begin_claim(b, n);
        double start_us = is_server ? wall_us() : cpu_us();
        must(engine_apply_one(engine, &b->op, &err), &err, "claim");
        took_us[i] = (is_server ? wall_us() : cpu_us()) - start_us;
        sum_us += took_us[i];
        settle_all(engine, b);
    }
    qsort(took_us, rounds, sizeof took_us[0], compare);
    return (is_server ? took_us[rounds / 2] : sum_us / (double)rounds) / (double)n;
}

/* The most that the process has ever held. */
static double peak_mib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (double)kib / 1024;
}

/* From nothing to the first job in a worker's hands. */
static double open_ms(struct batch *b)
{
    struct redrive_err err = {0};
    int64_t start_ns = clock_monotonic_ns();
    struct committer *committer = open_committer();
    begin_claim(b, 1);
    must(committer_run(committer, &b->op, &err), &err, "claim");
    double ms = (double)(clock_monotonic_ns() - start_ns) / 1e6;
    if (b->claim.n != 1)
        exit(1);
    claim_op_release(&b->claim);
    committer_stop(committer);
    return ms;
}

static int fill_only(const struct options *options)
{
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return 1;
    if (!is_server)
        snprintf(url, sizeof url, "sqlite:%s/jobs.db", options->dir);
    struct engine *engine = open_engine();
    fill(engine, b, options->waiting);
    engine_close(engine);
    free(b);
    return 0;
}

static int waiting(const struct options *options)
{
    struct engine *engine = open_engine();
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return 1;
    fill(engine, b, FEW);
    row("engine.claim_us.10k", claim_us(engine, b, 1, CLAIMS_MAX), "us", "true");
    row("engine.claim64_us.10k", claim_us(engine, b, 64, 60), "us/job", "true");
    fill(engine, b, options->waiting - FEW);
    row("engine.claim_us.1m", claim_us(engine, b, 1, CLAIMS_MAX), "us", "true");
    row("engine.claim64_us.1m", claim_us(engine, b, 64, 60), "us/job", "true");
    row("engine.rss_mib.1m", peak_mib(), "MiB", "null");
    engine_close(engine);
    row("engine.open_ms.1m", open_ms(b), "ms", "true");
    free(b);
    return 0;
}

/* ---- Transactions, for a caller with a clock ------------------------------------------------- */

static void claim_some(struct engine *engine, struct batch *b, size_t n)
{
    struct redrive_err err = {0};
    begin_claim(b, n);
    must(engine_apply_one(engine, &b->op, &err), &err, "claim");
    if (b->claim.n != n)
        must(REDRIVE_E_STATE, &(struct redrive_err){.message = "not as many as were asked"},
             "claim");
}

static void settle_and_claim(struct engine *engine, struct batch *held, struct batch *next)
{
    struct op *ops[] = {&held->op, &next->op};
    size_t n = held->n;
    begin_settle(held);
    begin_claim(next, n);
    engine_apply(engine, ops, 2);
    (void)finish(held);
    (void)finish(next);
}

static void wait_for_caller(const char *step)
{
    char line[16];
    printf("%s\n", step);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(1);
}

static int steps(const struct options *options)
{
    struct engine *engine = open_engine();
    struct batch *batches = calloc(STEPS + 1, sizeof *batches);
    if (!batches)
        return 1;
    fill(engine, batches, (2 * STEPS + 1) * options->batch);
    claim_some(engine, &batches[0], options->batch);
    for (size_t i = 0; i < STEPS; i++) {
        wait_for_caller("settle_claim");
        settle_and_claim(engine, &batches[i % 2], &batches[(i + 1) % 2]);
    }
    wait_for_caller("");
    settle_all(engine, &batches[STEPS % 2]);
    for (size_t i = 0; i < STEPS; i++)
        claim_some(engine, &batches[i], options->batch);
    for (size_t i = 0; i < STEPS; i++) {
        wait_for_caller("settle");
        settle_all(engine, &batches[i]);
    }
    wait_for_caller("");
    free(batches);
    engine_close(engine);
    return 0;
}

static size_t number(const char *text, size_t max)
{
    size_t n = strtoul(text, NULL, 10);
    return n < 1 ? 1 : n > max ? max : n;
}

int main(int argc, char **argv)
{
    struct options o = {.dir = ".",
                        .jobs = 100000,
                        .seconds = 10,
                        .batch = 128,
                        .window = 4,
                        .callers = 2,
                        .waiting = 1000000};
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
            o.seconds = strtod(value, NULL);
        if (strcmp(name, "--batch") == 0)
            o.batch = number(value, BATCH_MAX);
        if (strcmp(name, "--window") == 0)
            o.window = number(value, WINDOW_MAX);
        if (strcmp(name, "--callers") == 0)
            o.callers = number(value, CALLERS_MAX);
        if (strcmp(name, "--waiting") == 0)
            o.waiting = number(value, 100000000);
        if (strcmp(name, "--payload") == 0)
            payload.len = number(value, PAYLOAD_MAX);
    }
    is_server = o.store != NULL;
    if (is_server)
        snprintf(url, sizeof url, "%s", o.store);
    if (payload.len < 2)
        payload.len = 2;
    memset(payload_bytes, 'x', payload.len);
    payload_bytes[0] = payload_bytes[payload.len - 1] = '"';
    if (argc > 1 && strcmp(argv[1], "fill") == 0)
        return fill_only(&o);
    if (argc > 1 && strcmp(argv[1], "steps") == 0 && is_server)
        return steps(&o);
    if (!is_server)
        make_folder(&o);
    if (o.waiting < 2 * FEW)
        o.waiting = 2 * FEW;
    printf("{\"rows\":[");
    int status = 2;
    if (argc > 1 && strcmp(argv[1], "lives") == 0)
        status = lives(&o);
    else if (argc > 1 && strcmp(argv[1], "waiting") == 0)
        status = waiting(&o);
    else if (argc > 1 && strcmp(argv[1], "alone") == 0)
        status = alone(&o);
    else
        fprintf(stderr,
                "usage: bench_engine lives|waiting|fill|alone|steps [--dir D|--store URL] …\n");
    printf("\n]}\n");
    if (!is_server)
        remove_folder();
    return status;
}
