/* bench_shards - how many operations a second one process makes for several tenants.
 *
 *     bench_shards URL TENANTS THREADS SECONDS
 *
 * The URL is that of a store, or of shards. Each tenant has THREADS callers, as a server has; each
 * of them waits for its answer before it asks for the next. It prints one line of JSON:
 *
 *     cancels_per_s   jobs that are cancelled by their id, one a call
 *     jobs_per_s      jobs that are submitted, claimed for their tenant and settled, one a call
 *     processor_s     of this process, in all
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/time/clock.h"
#include "engine/shards/router.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"
#include "store/shards/shards.h"

#define TENANT_MAX 32
#define AT_ONCE    500 /* jobs of one submit before the time begins */

struct caller {
    struct committer *committer;
    struct str tenant;
    char name[TENANT_MAX];
    unsigned number;
    size_t n_ready; /* jobs to cancel, by the ids that they were given */
    int64_t until_ms;
    bool cancels;
    uint64_t done;
    pthread_t thread;
};

static void give_up(const char *what, const struct redrive_err *err)
{
    fprintf(stderr, "bench_shards: %s: %s %s\n", what, err->message, err->detail);
    exit(1);
}

static void submit(struct caller *c, struct job_spec *specs, size_t n)
{
    struct redrive_err err = {0};
    struct submit_op op;
    for (size_t i = 0; i < n; i++) {
        specs[i].task = STR("bench");
        specs[i].tenant = c->tenant;
    }
    if (submit_op_init(&op, committer_engine(c->committer), specs, n, &err) < 0 ||
        committer_run(c->committer, &op.op, &err) < 0)
        give_up("submit", &err);
    submit_op_release(&op);
}

static const char *id_of(const struct caller *c, size_t i, char out[64])
{
    (void)snprintf(out, 64, "job-%u-%zu", c->number, i);
    return out;
}

/* Jobs to cancel, with ids that the caller can tell. */
static void prepare(struct caller *c, size_t n)
{
    static _Thread_local struct job_spec specs[AT_ONCE];
    static _Thread_local char ids[AT_ONCE][64];
    while (c->n_ready < n) {
        memset(specs, 0, sizeof specs);
        for (size_t i = 0; i < AT_ONCE; i++)
            specs[i].id = str_of(id_of(c, c->n_ready + i, ids[i]));
        submit(c, specs, AT_ONCE);
        c->n_ready += AT_ONCE;
    }
}

static void cancel_one(struct caller *c)
{
    struct redrive_err err = {0};
    char id[64];
    struct change_item item = {.tenant = c->tenant, .id = str_of(id_of(c, c->done, id))};
    struct change_op op;
    change_op_init(&op, MOVE_CANCEL, &item, 1);
    if (committer_run(c->committer, &op.op, &err) < 0)
        give_up("cancel", &err);
    if (item.ret.code < 0) {
        fprintf(stderr, "bench_shards: %s was not cancelled\n", id);
        exit(1);
    }
    c->done++;
}

static void work_one(struct caller *c)
{
    struct redrive_err err = {0};
    struct job_spec spec = {0};
    const struct claim_filter filter = {.tenant = c->tenant, .limit = 1};
    struct claim_op claim;
    struct settle_op settle;
    submit(c, &spec, 1);
    claim_op_init(&claim, &filter, STR("bench"), 0);
    if (committer_run(c->committer, &claim.op, &err) < 0)
        give_up("claim", &err);
    if (claim.n == 1) {
        struct settlement s = {.seq = claim.jobs[0].status.seq,
                               .token = claim.jobs[0].status.token};
        settle_op_init(&settle, &s, 1);
        if (committer_run(c->committer, &settle.op, &err) < 0)
            give_up("settle", &err);
        c->done += s.ret.code == 0;
    }
    claim_op_release(&claim);
}

static void *run(void *arg)
{
    struct caller *c = arg;
    while (clock_monotonic_ms() < c->until_ms && (!c->cancels || c->done < c->n_ready)) {
        if (c->cancels)
            cancel_one(c);
        else
            work_one(c);
    }
    return NULL;
}

/* Operations a second of all callers. */
static double measure(struct caller *callers, size_t n, bool cancels, double seconds)
{
    const int64_t since_ns = clock_monotonic_ns();
    uint64_t done = 0;
    for (size_t i = 0; i < n; i++) {
        callers[i].cancels = cancels;
        callers[i].done = 0;
        callers[i].until_ms = clock_monotonic_ms() + (int64_t)(seconds * 1000);
        if (pthread_create(&callers[i].thread, NULL, run, &callers[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(callers[i].thread, NULL);
        done += callers[i].done;
    }
    return (double)done * 1e9 / (double)(clock_monotonic_ns() - since_ns);
}

static struct committer *open_url(const char *url)
{
    struct redrive_err err = {0};
    struct committer *committer = NULL;
    const struct store_options set_up = {.create = true};
    if (shards_is(url)) {
        const struct router_options options = {.url = url, .create = true};
        const struct router_start start = {0};
        struct router *router;
        if (router_open(&options, &router, &err) < 0 ||
            router_start(router, &start, &committer, &err) < 0)
            give_up(url, &err);
        return committer;
    }
    struct engine_options engine = {0};
    struct committer_options options = {.no_ticks = true};
    if (store_open(url, &set_up, &engine.store, &err) < 0 ||
        engine_open(&engine, &options.engine, &err) < 0 ||
        committer_start(&options, &committer, &err) < 0)
        give_up(url, &err);
    return committer;
}

/* Names of tenants that are on different shards, as far as there are shards. */
static void name_tenant(struct caller *c, size_t tenant, size_t n)
{
    for (unsigned i = 0;; i++) {
        (void)snprintf(c->name, sizeof c->name, "tenant-%zu-%u", tenant, i);
        c->tenant = str_of(c->name);
        if (shard_of_tenant(c->tenant, n) == tenant % n)
            return;
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_shards URL TENANTS THREADS SECONDS\n");
        return 2;
    }
    const size_t n_tenants = strtoul(argv[2], NULL, 10), n_threads = strtoul(argv[3], NULL, 10);
    const double seconds = strtod(argv[4], NULL);
    const size_t n = n_tenants * n_threads;
    struct caller *callers = calloc(n, sizeof *callers);
    struct committer *committer = open_url(argv[1]);
    struct rusage usage;
    if (!callers || n == 0)
        return 2;
    for (size_t i = 0; i < n; i++) {
        callers[i].committer = committer;
        callers[i].number = (unsigned)i;
        name_tenant(&callers[i], i % n_tenants, n_tenants);
        prepare(&callers[i], (size_t)(seconds * 1000));
    }
    const double cancels = measure(callers, n, true, seconds);
    const double jobs = measure(callers, n, false, seconds);
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"cancels_per_s\":%.1f,\"jobs_per_s\":%.1f,\"processor_s\":%.2f}\n", cancels, jobs,
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    committer_stop(committer);
    free(callers);
    return 0;
}
