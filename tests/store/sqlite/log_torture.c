/* log_torture - many processes on one SQLite file, with logs of a few pages that are moved into the
 * file all the time.
 *
 *     log_torture [SECONDS] [PROCESSES]
 *
 * Each process submits, claims, settles and reads, closes and opens the store now and then, and is
 * killed at random moments and replaced. At the end the file must be whole (integrity_check), every
 * job whose submit was answered must be in it, and no other. Prints what was done; exits with 1
 * when the file is damaged or a job is missing.
 */
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/time/clock.h"
#include "store/store.h"
#include "waiting.h"

#define MAX_PROCESSES 32
#define CLAIM         3

/* In memory that all processes share: counts of the process in that place and its forerunners. */
struct place {
    _Atomic int64_t begun;
    _Atomic int64_t answered;
};

struct torture {
    char dir[256];
    char url[300];
    struct place *places;
    pid_t pids[MAX_PROCESSES];
    int n;
    int64_t until_ms;
    int kills;
};

static void must(int rc, const struct redrive_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "log_torture: %s: %s (%s)\n", what, err->message, err->detail);
    _exit(1);
}

static struct store *open_store(const struct torture *t, struct rng *rng)
{
    struct redrive_err err = {0};
    struct store *store = NULL;
    const struct store_options options = {
        .create = true,
        .busy_wait_ms = 60000,
        .log_frames = 1 + (int64_t)rng_below(rng, 16),
    };
    must(store_open(t->url, &options, &store, &err), &err, "open");
    return store;
}

static void begin(struct store *store)
{
    struct redrive_err err = {0};
    must(store_ops(store)->begin(store, clock_wall_ms(), NULL, NULL, &err), &err, "begin");
}

static void commit(struct store *store)
{
    struct redrive_err err = {0};
    must(store_ops(store)->commit(store, &err), &err, "commit");
}

static void submit(struct store *store, struct place *place, int number)
{
    struct redrive_err err = {0};
    struct submit_result result;
    struct arena arena;
    char id[48], payload[512];
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    const int64_t n = atomic_fetch_add(&place->begun, 1);
    snprintf(id, sizeof id, "%d-%lld", number, (long long)n);
    const struct job_spec spec = {
        .tenant = STR("t"),
        .id = str_of(id),
        .task = STR("mail"),
        .queue = STR("main"),
        .payload = {payload, sizeof payload},
        .max_attempts = 5,
    };
    arena_init(&arena);
    begin(store);
    must(store_ops(store)->submit(store, &spec, 1, &result, &arena, &err), &err, "submit");
    must(result.code, &err, "submit refused");
    commit(store);
    arena_release(&arena);
    atomic_fetch_add(&place->answered, 1);
}

static void claim_and_settle(struct store *store, struct rng *rng)
{
    struct redrive_err err = {0};
    struct job_page page = {0};
    const struct claim_filter filter = {.limit = CLAIM};
    const struct decision decision = {.state = REDRIVE_STATE_COMPLETED};
    struct start_move starts[CLAIM];
    struct settle_move settles[CLAIM];
    struct move_result results[CLAIM];
    begin(store);
    must(store_ops(store)->ready(store, &filter, &page, &err), &err, "ready");
    const size_t n = page.n;
    for (size_t i = 0; i < n; i++) {
        const int64_t seq = page.jobs[i].status.seq;
        const uint64_t token = rng_next(rng) | 1;
        starts[i] = (struct start_move){
            .seq = seq, .token = token, .lease_until_ms = clock_wall_ms() + 60000};
        settles[i] = (struct settle_move){.seq = seq, .token = token, .decision = &decision};
    }
    must(store_ops(store)->move(store, STARTS(starts, n), results, &err), &err, "start");
    commit(store);
    begin(store);
    must(store_ops(store)->move(store, SETTLES(settles, n), results, &err), &err, "settle");
    commit(store);
    job_page_release(&page);
}

static void read_jobs(struct store *store, struct rng *rng)
{
    struct redrive_err err = {0};
    struct job_page page = {0};
    const struct job_filter filter = {.limit = 1 + rng_below(rng, 100)};
    must(store_ops(store)->list(store, &filter, &page, &err), &err, "list");
    job_page_release(&page);
}

static void live(const struct torture *t, int number)
{
    struct rng rng;
    rng_seed(&rng, rng_system_seed() + (uint64_t)getpid());
    struct store *store = open_store(t, &rng);
    while (clock_monotonic_ms() < t->until_ms) {
        switch (rng_below(&rng, 8)) {
        case 0: read_jobs(store, &rng); break;
        case 1:
        case 2: claim_and_settle(store, &rng); break;
        case 3:
            if (store_ops(store)->upkeep)
                store_ops(store)->upkeep(store);
            break;
        case 4:
            if (rng_below(&rng, 4) == 0) {
                store_close(store);
                store = open_store(t, &rng);
            }
            break;
        default: submit(store, &t->places[number], number); break;
        }
    }
    store_close(store);
    _exit(0);
}

static bool start(struct torture *t, int number)
{
    const pid_t pid = fork();
    if (pid == 0)
        live(t, number);
    t->pids[number] = pid;
    return pid > 0;
}

static bool has_ended_well(pid_t pid, int allowed_signal)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        return false;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           (WIFSIGNALED(status) && WTERMSIG(status) == allowed_signal);
}

/* Kills one now and then; true when none has failed. */
static bool drive(struct torture *t, struct rng *rng)
{
    bool ok = true;
    for (int i = 0; i < t->n && ok; i++)
        ok = start(t, i);
    while (ok && clock_monotonic_ms() < t->until_ms - 500) {
        pass_ms(20 + (int64_t)rng_below(rng, 200));
        const int victim = (int)rng_below(rng, (uint64_t)t->n);
        kill(t->pids[victim], SIGKILL);
        ok = has_ended_well(t->pids[victim], SIGKILL) && start(t, victim);
        t->kills++;
    }
    for (int i = 0; i < t->n; i++)
        if (t->pids[i] > 0)
            ok = has_ended_well(t->pids[i], 0) && ok;
    return ok;
}

static int keep_first(void *ret, int n, char **values, char **names)
{
    (void)n, (void)names;
    snprintf(ret, 128, "%s", values[0]);
    return 1;
}

static bool check(const struct torture *t)
{
    sqlite3 *db = NULL;
    char answer[128] = "no answer", sql[160];
    int64_t answered = 0, found = 0;
    bool ok = sqlite3_open(strchr(t->url, ':') + 1, &db) == SQLITE_OK;
    sqlite3_exec(db, "PRAGMA integrity_check", keep_first, answer, NULL);
    if (!ok || strcmp(answer, "ok") != 0) {
        fprintf(stderr, "log_torture: the store is damaged: %s\n", answer);
        ok = false;
    }
    for (int i = 0; i < t->n; i++) {
        const int64_t least = t->places[i].answered, most = t->places[i].begun;
        snprintf(sql, sizeof sql, "SELECT count(*) FROM specs WHERE id GLOB '%d-*'", i);
        sqlite3_exec(db, sql, keep_first, answer, NULL);
        const int64_t here = strtoll(answer, NULL, 10);
        if (here < least || here > most) {
            fprintf(stderr, "log_torture: process %d: %lld jobs answered, %lld begun, %lld found\n",
                    i, (long long)least, (long long)most, (long long)here);
            ok = false;
        }
        answered += least;
        found += here;
    }
    sqlite3_close(db);
    printf("sqlite %s: %d processes, %d kills, %lld jobs answered, %lld found\n",
           sqlite3_libversion(), t->n, t->kills, (long long)answered, (long long)found);
    return ok;
}

static void clean_up(const struct torture *t)
{
    static const char *const SUFFIXES[] = {"", "-wal", "-shm"};
    char name[400];
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof SUFFIXES[0]; i++) {
        snprintf(name, sizeof name, "%s/jobs.db%s", t->dir, SUFFIXES[i]);
        unlink(name);
    }
    rmdir(t->dir);
}

int main(int argc, char **argv)
{
    struct torture t = {.n = argc > 2 ? atoi(argv[2]) : 8};
    const int64_t seconds = argc > 1 ? atoi(argv[1]) : 5;
    const char *tmp = getenv("TMPDIR");
    struct rng rng;
    if (seconds < 1 || t.n < 1 || t.n > MAX_PROCESSES) {
        fprintf(stderr, "usage: log_torture [SECONDS] [PROCESSES]\n");
        return 2;
    }
    snprintf(t.dir, sizeof t.dir, "%.200s/redrive-log-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    t.places = mmap(NULL, MAX_PROCESSES * sizeof *t.places, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.places == MAP_FAILED || !mkdtemp(t.dir)) {
        perror("log_torture");
        return 1;
    }
    snprintf(t.url, sizeof t.url, "sqlite:%s/jobs.db", t.dir);
    t.until_ms = clock_monotonic_ms() + seconds * 1000;
    rng_seed(&rng, rng_system_seed());
    bool ok = drive(&t, &rng);
    ok = check(&t) && ok;
    if (ok)
        clean_up(&t);
    else
        fprintf(stderr, "log_torture: what is left is in %s\n", t.dir);
    return ok ? 0 : 1;
}
