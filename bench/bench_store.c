/* bench_store - what a life costs in a store; in that of SQLite unless another is named.
 *
 * A life is submit, ready, start, settle, in three transactions as a server would have them, with a
 * payload of 100 bytes. Figures: lives a second by the number of jobs in a transaction; the cost of
 * a claim (ready + start of 64) with few and with many jobs waiting; memory and the time to open
 * with many. The file is made where TMPDIR says, which should be a real disk. What an fdatasync of
 * that disk and the processor time of a life cost is measured too: the one moves with whoever else
 * uses the disk, the other hardly.
 *
 * In a store that is a server's, a claim is measured by the clock, as its work is done elsewhere.
 *
 *     bench_store [--waiting N] [--seconds S] [--store URL] [--transaction JOBS]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/time/clock.h"
#include "store/store.h"

#define TRANSACTION_MAX 1000
#define CLAIM           64

static char payload[100];
static struct id_gen ids;
static struct rng rng;
static int64_t now_ms;

static void must(int rc, const struct redrive_err *err, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_store: %s: %s (%s)\n", what, err->message, err->detail);
    exit(1);
}

static struct store *open_store(const char *url)
{
    struct store *store = NULL;
    struct redrive_err err;
    const struct store_options options = {.create = true};
    must(store_open(url, &options, &store, &err), &err, "open");
    return store;
}

static void begin(struct store *store)
{
    struct redrive_err err;
    int64_t now, version;
    must(store_ops(store)->begin(store, ++now_ms, &now, &version, &err), &err, "begin");
}

static void commit(struct store *store)
{
    struct redrive_err err;
    must(store_ops(store)->commit(store, &err), &err, "commit");
}

static void submit(struct store *store, size_t n)
{
    static struct job_spec specs[TRANSACTION_MAX];
    static struct submit_result results[TRANSACTION_MAX];
    static char names[TRANSACTION_MAX][ID_UUID_LEN + 1];
    struct redrive_err err;
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < n; i++) {
        id_next(&ids, now_ms, names[i]);
        specs[i] = (struct job_spec){
            .tenant = STR("default"),
            .id = {names[i], ID_UUID_LEN},
            .task = STR("mail"),
            .queue = STR("default"),
            .payload = {payload, sizeof payload},
            .breaker_key = STR("mail"),
            .max_attempts = 6,
        };
    }
    begin(store);
    must(store_ops(store)->submit(store, specs, n, results, &arena, &err), &err, "submit");
    commit(store);
    arena_release(&arena);
}

/* Takes jobs and gives their numbers; their tokens are their numbers. */
static size_t claim(struct store *store, size_t n, int64_t *ret_seqs)
{
    static struct start_move moves[TRANSACTION_MAX];
    static struct move_result results[TRANSACTION_MAX];
    const struct claim_filter filter = {.tenant = STR("default"), .limit = n};
    struct job_page page = {0};
    struct redrive_err err;
    begin(store);
    must(store_ops(store)->ready(store, &filter, &page, &err), &err, "ready");
    for (size_t i = 0; i < page.n; i++) {
        ret_seqs[i] = page.jobs[i].status.seq;
        moves[i] = (struct start_move){.seq = ret_seqs[i],
                                       .token = rng_mix((uint64_t)ret_seqs[i]),
                                       .lease_until_ms = now_ms + 30000,
                                       .worker = STR("worker-1")};
    }
    must(store_ops(store)->move(store, STARTS(moves, page.n), results, &err), &err, "start");
    commit(store);
    size_t taken = page.n;
    job_page_release(&page);
    return taken;
}

static void settle(struct store *store, const int64_t *seqs, size_t n)
{
    static struct settle_move moves[TRANSACTION_MAX];
    static struct move_result results[TRANSACTION_MAX];
    static const struct decision DONE = {.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    struct redrive_err err;
    begin(store);
    for (size_t i = 0; i < n; i++)
        moves[i] = (struct settle_move){
            .seq = seqs[i], .token = rng_mix((uint64_t)seqs[i]), .decision = &DONE};
    must(store_ops(store)->move(store, SETTLES(moves, n), results, &err), &err, "settle");
    commit(store);
    for (size_t i = 0; i < n; i++)
        must(results[i].code, &err, "settle of one");
}

static double lives_per_s(struct store *store, size_t size, double seconds, size_t *ret_lives)
{
    int64_t seqs[TRANSACTION_MAX];
    int64_t start_ns = clock_monotonic_ns(), end_ns = start_ns + (int64_t)(seconds * 1e9);
    size_t lives = 0;
    while (clock_monotonic_ns() < end_ns) {
        submit(store, size);
        size_t n = claim(store, size, seqs);
        settle(store, seqs, n);
        lives += n;
    }
    *ret_lives = lives;
    return (double)lives / ((double)(clock_monotonic_ns() - start_ns) / 1e9);
}

static const char *kind = "sqlite"; /* of the store: the first part of each name */
static bool is_elsewhere;

static double cpu_us(void)
{
    struct timespec t;
    if (is_elsewhere)
        return (double)clock_monotonic_ns() / 1e3;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double fdatasync_us(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/sync", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int64_t start_ns = clock_monotonic_ns();
    for (int i = 0; i < 50; i++)
        if (pwrite(fd, payload, sizeof payload, (off_t)i * 4096) < 0 || fdatasync(fd) != 0)
            break;
    close(fd);
    return (double)(clock_monotonic_ns() - start_ns) / 50e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Processor time of a job in microseconds, the median of many claims: the disk is left out, which
 * would hide what the number of waiting jobs costs. That number stays what it is. */
static double claim_us(struct store *store)
{
    double rounds[51];
    int64_t seqs[TRANSACTION_MAX];
    for (int i = 0; i < 51; i++) {
        submit(store, CLAIM);
        double start_us = cpu_us();
        size_t n = claim(store, CLAIM, seqs);
        rounds[i] = (cpu_us() - start_us) / (double)n;
        settle(store, seqs, n);
    }
    qsort(rounds, 51, sizeof rounds[0], compare);
    return rounds[25];
}

static double rss_mib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static void row(const char *name, double value, const char *unit, const char *durable)
{
    static bool later;
    printf("%s\n{\"name\":\"%s.%s\",\"value\":%.2f,\"unit\":\"%s\",\"durable\":%s}",
           later ? "," : "", kind, name, value, unit, durable);
    later = true;
}

static void fill(struct store *store, size_t n)
{
    for (size_t done = 0; done < n; done += TRANSACTION_MAX)
        submit(store, n - done < TRANSACTION_MAX ? n - done : TRANSACTION_MAX);
}

int main(int argc, char **argv)
{
    size_t waiting = 1000000;
    double seconds = 2;
    const char *given = NULL;
    size_t only_transaction = 0;
    store_own_process(); /* as the program does */
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--waiting") == 0)
            waiting = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        if (strcmp(argv[i], "--store") == 0)
            given = argv[i + 1];
        if (strcmp(argv[i], "--transaction") == 0)
            only_transaction = strtoul(argv[i + 1], NULL, 10);
    }
    const char *tmp = getenv("TMPDIR");
    char folder[256], url[300], command[300];
    snprintf(folder, sizeof folder, "%s/redrive-bench-XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    snprintf(url, sizeof url, "sqlite:%s/jobs.db", folder);
    if (given) {
        static char scheme[32];
        snprintf(url, sizeof url, "%s", given);
        snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(given, ":"), given);
        kind = scheme;
        is_elsewhere = strcmp(kind, "sqlite") != 0;
    }
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[99] = '"';
    id_gen_init(&ids, 1);
    rng_seed(&rng, 1);
    now_ms = clock_wall_ms();

    static const size_t TRANSACTIONS[] = {1, 16, 64, 256};
    struct store *store = open_store(url);
    size_t lives;
    printf("{\"rows\":[");
    row("fdatasync", fdatasync_us(folder), "us", "null");
    for (size_t i = 0; i < sizeof TRANSACTIONS / sizeof TRANSACTIONS[0]; i++) {
        if (only_transaction != 0 && TRANSACTIONS[i] != only_transaction)
            continue;
        char name[64];
        snprintf(name, sizeof name, "lives_%zu", TRANSACTIONS[i]);
        double start_us = cpu_us(), rate = lives_per_s(store, TRANSACTIONS[i], seconds, &lives);
        double life_us = (cpu_us() - start_us) / (double)lives;
        row(name, rate, "1/s", "true");
        snprintf(name, sizeof name, "cpu_%zu", TRANSACTIONS[i]);
        row(name, life_us, "us/life", "null");
    }
    if (waiting >= 10000) {
        fill(store, 10000);
        row("claim_10k", claim_us(store), "us/job", "null");
        fill(store, waiting - 10000);
        row("claim_1m", claim_us(store), "us/job", "null");
        row("lives_256_1m", lives_per_s(store, 256, seconds, &lives), "1/s", "true");
        row("rss_1m", rss_mib(), "MiB", "null");
        store_close(store);
        int64_t start_ns = clock_monotonic_ns();
        store = open_store(url);
        row("open_1m", (double)(clock_monotonic_ns() - start_ns) / 1e6, "ms", "null");
    }
    printf("\n]}\n");
    store_close(store);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : 1;
}
