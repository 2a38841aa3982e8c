/* simulate.c - runs of the whole queue from seeds, the replay of one, and what a failure needs. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time/clock.h"
#include "world.h"

#define STEPS_DEFAULT 2000
#define SHRINK_MS     20000

static const char HELP[] =
    "usage: simulate [--seeds FILE] [--seed N] [--runs N] [--minutes N] [--steps N] [--store "
    "NAME]\n"
    "                [--trace]\n"
    "\n"
    "Several processes of Redrive on one store, with faults, from a seed. A run that breaks an\n"
    "invariant of docs/architecture.md is repeated with fewer and fewer steps, and what is left "
    "is\n"
    "printed. The same seed gives the same run.\n"
    "\n"
    "  --seeds FILE  first those of this file that are for the store: a seed, the store and what "
    "it\n"
    "                has found, one in a line\n"
    "  --seed N      of the first run; further runs have the numbers that follow (1)\n"
    "  --runs N      how many (100)\n"
    "  --minutes N   as many as can be made in this time\n"
    "  --steps N     of each run, before faults end and the queue must drain (2000)\n"
    "  --store NAME  memory or sqlite (memory)\n"
    "  --planted     plant each bug of tests/store/bugs.h in the store: each must be found\n"
    "  --trace       print each step\n";

struct settings {
    uint64_t seed;
    unsigned long runs, steps;
    int64_t minutes;
    const char *store;
    const char *seeds; /* file; NULL: none */
    enum bug bug;      /* BUG_COUNT: none */
    bool trace;
    bool planted;
};

/* What became of one run. */
struct finding {
    unsigned long steps; /* made until the complaint, or in all */
    int invariant;       /* 0: no complaint */
    char text[256];
    unsigned long submitted, waiting, started, settled, killed, clock_sets, gathered,
        met[FAULT_COUNT];
};

/* `left_out` (may be NULL): which steps are not made. */
static struct finding run(const struct settings *s, uint64_t seed, unsigned long steps,
                          const bool *left_out, bool trace)
{
    static struct world world;
    struct finding found = {0};
    bool is_well = true;
    world_open(&world, seed, s->store, s->bug);
    world.trace = trace;
    for (unsigned long n = 1; n <= steps && is_well; n++) {
        found.steps = n;
        if (!left_out || !left_out[n])
            is_well = world_step(&world, n);
    }
    if (is_well)
        (void)world_drain(&world);
    found.invariant = world.judge.complaint[0] != '\0' ? world.judge.invariant : 0;
    (void)snprintf(found.text, sizeof found.text, "%s", world.judge.complaint);
    found.submitted = world.submitted;
    found.waiting = world.waiting;
    found.started = world.started;
    found.settled = world.settled;
    found.killed = world.killed;
    found.clock_sets = world.clock_sets;
    found.gathered = world.gathered;
    memcpy(found.met, world.met, sizeof found.met);
    world_close(&world);
    return found;
}

/* Leaves out as many steps as can be, in ever smaller pieces, as long as the same invariant breaks.
 */
static void shrink(const struct settings *s, uint64_t seed, struct finding *found, bool *left_out)
{
    const int64_t end_ms = clock_monotonic_ms() + SHRINK_MS;
    const unsigned long steps = found->steps;
    bool *before = calloc(steps + 1, sizeof *before);
    for (unsigned long piece = steps / 2; piece > 0; piece /= 2)
        for (unsigned long from = 1; before && from <= steps && clock_monotonic_ms() < end_ms;
             from += piece) {
            const unsigned long n = from + piece <= steps + 1 ? piece : steps + 1 - from;
            memcpy(before, &left_out[from], n);
            memset(&left_out[from], true, n);
            const struct finding again = run(s, seed, steps, left_out, false);
            if (again.invariant != found->invariant)
                memcpy(&left_out[from], before, n);
        }
    free(before);
}

static void tell(const struct settings *s, uint64_t seed, struct finding *found)
{
    bool *left_out = calloc(found->steps + 2, sizeof *left_out);
    unsigned long kept = 0;
    if (!left_out)
        abort();
    (void)printf("seed %llu, step %lu: invariant %d: %s\n", (unsigned long long)seed, found->steps,
                 found->invariant, found->text);
    shrink(s, seed, found, left_out);
    for (unsigned long n = 1; n <= found->steps; n++)
        kept += !left_out[n];
    (void)printf("the same with %lu steps:\n", kept);
    const struct finding short_run = run(s, seed, found->steps, left_out, true);
    (void)printf("invariant %d: %s\n", short_run.invariant, short_run.text);
    (void)printf("repeat it: simulate --seed %llu --runs 1 --steps %lu --store %s --trace\n",
                 (unsigned long long)seed, s->steps, s->store);
    free(left_out);
}

static void add(struct finding *sum, const struct finding *one)
{
    sum->steps += one->steps;
    sum->submitted += one->submitted;
    sum->waiting += one->waiting;
    sum->started += one->started;
    sum->settled += one->settled;
    sum->killed += one->killed;
    sum->clock_sets += one->clock_sets;
    sum->gathered += one->gathered;
    for (int i = 0; i < FAULT_COUNT; i++)
        sum->met[i] += one->met[i];
}

static void report(const struct finding *sum, unsigned long runs, int64_t ms)
{
    (void)printf(
        "%lu runs, %lu steps in %.1f s (%.0f a minute): %lu jobs taken in, %lu of them with "
        "parents, %lu runs started, %lu settled; %lu calls failed, %lu conflicts, %lu answers "
        "lost, %lu "
        "processes killed, %lu steps of others in between, %lu calls slow, %lu begins stale, the "
        "clock set %lu times; %lu requests shared a transaction\n",
        runs, sum->steps, (double)ms / 1000, (double)sum->steps * 60000 / (double)(ms > 0 ? ms : 1),
        sum->submitted, sum->waiting, sum->started, sum->settled, sum->met[FAULT_CALL_FAILS],
        sum->met[FAULT_CONFLICT], sum->met[FAULT_ANSWER_LOST], sum->killed,
        sum->met[FAULT_OTHER_FIRST], sum->met[FAULT_SLOW], sum->met[FAULT_STALE], sum->clock_sets,
        sum->gathered);
}

/* One more run, whose counts are added. False: it has failed, and what it needs for that has been
 * told. */
static bool run_one(const struct settings *s, uint64_t seed, struct finding *sum)
{
    struct finding found = run(s, seed, s->steps, NULL, s->trace);
    add(sum, &found);
    if (found.invariant != 0)
        tell(s, seed, &found);
    return found.invariant == 0;
}

/* The runs of a file of seeds. False: one has failed, or the file cannot be read. */
static bool run_listed(const struct settings *s, struct finding *sum, unsigned long *done)
{
    FILE *file = fopen(s->seeds, "r");
    char line[256], store[16];
    unsigned long long seed;
    bool is_well = true;
    if (!file) {
        perror(s->seeds);
        return false;
    }
    while (is_well && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%llu %15s", &seed, store) != 2 || strcmp(store, s->store) != 0)
            continue;
        is_well = run_one(s, seed, sum);
        if (!is_well)
            (void)printf("it has failed before: %s", line);
        ++*done;
    }
    (void)fclose(file);
    return is_well;
}

static int run_all(const struct settings *s)
{
    const int64_t start_ms = clock_monotonic_ms();
    struct finding sum = {0};
    unsigned long done = 0, listed = 0;
    if (s->seeds && !run_listed(s, &sum, &listed))
        return 1;
    while (s->minutes > 0 ? clock_monotonic_ms() - start_ms < s->minutes * 60000 : done < s->runs)
        if (!run_one(s, s->seed + done++, &sum))
            return 1;
    if (listed + done > 0)
        report(&sum, listed + done, clock_monotonic_ms() - start_ms);
    return 0;
}

static const char *const BUG_TEXTS[] = {
#define XX(name, invariant, text) text,
    BUG_MAP(XX)
#undef XX
};

static bool find_planted(const struct settings *settings, enum bug bug, const char *text)
{
    struct settings s = *settings;
    struct finding found = {0};
    unsigned long done = 0, steps = 0;
    s.bug = bug;
    while (done < s.runs && found.invariant == 0) {
        found = run(&s, s.seed + done, s.steps, NULL, false);
        steps += found.steps;
        done++;
    }
    (void)printf("%s, after %lu steps: a store that %s%s%s\n", found.invariant ? "found" : "MISSED",
                 steps, text, found.invariant ? ": " : "", found.text);
    return found.invariant != 0;
}

/* Whether each planted bug is found, and how soon. */
static int run_planted(const struct settings *s)
{
    int missed = !find_planted(s, BUG_UNNOTICED, "does not notice that a transaction began stale");
    for (int bug = 0; bug < BUG_COUNT; bug++)
        missed += !find_planted(s, (enum bug)bug, BUG_TEXTS[bug]);
    return missed > 0;
}

int main(int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        {"seeds", required_argument, NULL, 'f'}, {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'r'},  {"minutes", required_argument, NULL, 'm'},
        {"steps", required_argument, NULL, 'n'}, {"store", required_argument, NULL, 'o'},
        {"planted", no_argument, NULL, 'p'},     {"trace", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},        {0},
    };
    struct settings s = {
        .seed = 1, .runs = 100, .steps = STEPS_DEFAULT, .store = "memory", .bug = BUG_COUNT};
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;)
        switch (c) {
        case 's':
            s.seed = strcmp(optarg, "random") == 0 ? rng_system_seed() >> 20
                                                   : strtoull(optarg, NULL, 10);
            break;
        case 'f': s.seeds = optarg; break;
        case 'r': s.runs = strtoul(optarg, NULL, 10); break;
        case 'm': s.minutes = strtol(optarg, NULL, 10); break;
        case 'n': s.steps = strtoul(optarg, NULL, 10); break;
        case 'o': s.store = optarg; break;
        case 'p': s.planted = true; break;
        case 't': s.trace = true; break;
        case 'h': return fputs(HELP, stdout) < 0;
        default: return fputs(HELP, stderr) < 0 ? 1 : 2;
        }
    (void)printf("seed %llu\n", (unsigned long long)s.seed);
    return s.planted ? run_planted(&s) : run_all(&s);
}
