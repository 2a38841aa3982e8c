/* bench_workflow - what a fan-in costs: many jobs, and one that waits for all of them.
 *
 *     bench_workflow [--dir D] [--store URL] [--jobs N] [--rounds N]
 *
 * In each round an array of N jobs is submitted, and an array of N jobs with a callback that waits
 * for them; then all of the second are run, and the last of them is settled alone, which releases
 * the callback. Beside it: the settle of a lone job that is waited for by none. Without --store on
 * an SQLite file below D with synchronous=FULL. Prints the medians as JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "engine/engine.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"

#define ROUNDS_MAX 25
#define AT_ONCE    256
#define ID_MAX     40

struct figures {
    double plain_ms, fan_in_ms, settle_ms, last_settle_ms;
};

static void must(int rc, const struct redrive_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_workflow: %s: %s (%s)\n", what, err->message, err->detail);
    exit(1);
}

static double now_ms(void)
{
    return (double)clock_monotonic_ns() / 1e6;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Submits n jobs to a queue, with a callback that waits for them or without; the time of it. */
static double submit_array(struct engine *engine, const char *queue, size_t n, bool has_callback)
{
    struct job_spec *specs = calloc(n + 1, sizeof *specs);
    struct job_after *after = calloc(n, sizeof *after);
    char(*ids)[ID_MAX] = calloc(n, ID_MAX);
    struct redrive_err err = {0};
    struct submit_op op;
    if (!specs || !after || !ids)
        exit(1);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(ids[i], ID_MAX, "%s-%zu", queue, i);
        after[i].id = str_of(ids[i]);
        specs[i] = (struct job_spec){.task = STR("part"),
                                     .queue = str_of(queue),
                                     .id = str_of(ids[i]),
                                     .payload = STR("{}")};
    }
    specs[n] = (struct job_spec){.task = STR("all"),
                                 .queue = str_of(queue),
                                 .payload = STR("{}"),
                                 .after = after,
                                 .n_after = n};
    const double start_ms = now_ms();
    must(submit_op_init(&op, engine, specs, has_callback ? n + 1 : n, &err), &err, "submit");
    must(engine_apply_one(engine, &op.op, &err), &err, "submit");
    const double took_ms = now_ms() - start_ms;
    must(op.answers[n - 1].code, op.answers[n - 1].err, "submit");
    if (has_callback)
        must(op.answers[n].code, op.answers[n].err, "submit of the callback");
    submit_op_release(&op);
    free(specs);
    free(after);
    free(ids);
    return took_ms;
}

/* Claims up to n jobs of a queue and settles them; *ret_ms is the time of the settle. */
static size_t run_some(struct engine *engine, const char *queue, size_t n, double *ret_ms)
{
    const struct str name = str_of(queue);
    const struct claim_filter filter = {.queues = &name, .n_queues = 1, .limit = n};
    struct settlement items[AT_ONCE];
    struct redrive_err err = {0};
    struct claim_op claim;
    struct settle_op settle;
    claim_op_init(&claim, &filter, STR("worker"), 0);
    must(engine_apply_one(engine, &claim.op, &err), &err, "claim");
    const size_t claimed = claim.n;
    for (size_t i = 0; i < claimed; i++)
        items[i] = (struct settlement){.seq = claim.jobs[i].status.seq,
                                       .token = claim.jobs[i].status.token,
                                       .outcome = {.ending = ENDING_RAN}};
    claim_op_release(&claim);
    const double start_ms = now_ms();
    settle_op_init(&settle, items, claimed);
    if (claimed > 0)
        must(engine_apply_one(engine, &settle.op, &err), &err, "settle");
    *ret_ms = now_ms() - start_ms;
    return claimed;
}

/* Runs so many jobs; the last one alone, whose time it gives. */
static double run_all(struct engine *engine, const char *queue, size_t n)
{
    double last_ms = 0;
    while (n > 1) {
        const size_t most = n - 1 < AT_ONCE ? n - 1 : AT_ONCE;
        const size_t done = run_some(engine, queue, most, &last_ms);
        if (done == 0) {
            fprintf(stderr, "bench_workflow: %zu jobs are missing\n", n);
            exit(1);
        }
        n -= done;
    }
    (void)run_some(engine, queue, 1, &last_ms);
    return last_ms;
}

static struct figures one_round(struct engine *engine, size_t jobs, size_t round)
{
    char plain[ID_MAX], fan_in[ID_MAX];
    struct figures f = {0};
    (void)snprintf(plain, sizeof plain, "plain-%d-%zu", (int)getpid(), round);
    (void)snprintf(fan_in, sizeof fan_in, "fan-%d-%zu", (int)getpid(), round);
    if (round % 2 == 0)
        f.plain_ms = submit_array(engine, plain, jobs, false);
    f.fan_in_ms = submit_array(engine, fan_in, jobs, true);
    if (round % 2 != 0)
        f.plain_ms = submit_array(engine, plain, jobs, false);
    f.settle_ms = run_all(engine, plain, jobs);
    f.last_settle_ms = run_all(engine, fan_in, jobs);
    double ignored;
    if (run_some(engine, fan_in, 1, &ignored) != 1) {
        fprintf(stderr, "bench_workflow: the callback was not released\n");
        exit(1);
    }
    return f;
}

/* ---- Figures --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void row(const char *name, const struct figures *all, size_t n, size_t offset, bool is_last)
{
    double values[ROUNDS_MAX];
    for (size_t i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&all[i] + offset, sizeof values[i]);
    qsort(values, n, sizeof *values, compare);
    printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"ms\",\"durable\":true}%s\n", name,
           values[n / 2], is_last ? "" : ",");
}

int main(int argc, char **argv)
{
    const char *dir = "/tmp", *store = NULL;
    size_t jobs = 10000, rounds = 5;
    char folder[512] = "", url[600];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--dir") == 0)
            dir = argv[i + 1];
        else if (strcmp(argv[i], "--store") == 0)
            store = argv[i + 1];
        else if (strcmp(argv[i], "--jobs") == 0)
            jobs = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtoul(argv[i + 1], NULL, 10);
    }
    if (jobs < 2 || rounds < 1 || rounds > ROUNDS_MAX)
        return 2;
    if (!store) {
        (void)snprintf(folder, sizeof folder, "%s/redrive-bench-XXXXXX", dir);
        if (!mkdtemp(folder))
            return 1;
        (void)snprintf(url, sizeof url, "sqlite:%s/jobs.db", folder);
        store = url;
    }
    struct redrive_err err = {0};
    const struct store_options store_options = {.create = true};
    struct engine_options options = {0};
    struct engine *engine = NULL;
    must(store_open(store, &store_options, &options.store, &err), &err, "open");
    must(engine_open(&options, &engine, &err), &err, "open");
    struct figures all[ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++)
        all[i] = one_round(engine, jobs, i);
    engine_close(engine);
    printf("{\"rows\":[");
    row("workflow.array_ms", all, rounds, offsetof(struct figures, plain_ms), false);
    row("workflow.fan_in_ms", all, rounds, offsetof(struct figures, fan_in_ms), false);
    row("workflow.settle_ms", all, rounds, offsetof(struct figures, settle_ms), false);
    row("workflow.last_settle_ms", all, rounds, offsetof(struct figures, last_settle_ms), true);
    printf("]}\n");
    if (folder[0]) {
        static const char *const NAMES[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
        for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
            char path[600];
            (void)snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
            (void)unlink(path);
        }
        (void)rmdir(folder);
    }
    return 0;
}
