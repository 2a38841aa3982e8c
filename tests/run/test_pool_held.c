/* A shard that keeps what it is given for long, or does not take it: everything else goes on. */
#include "rig.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "store/held_files.h"
#include "store/shards/shards.h"

#define N_SHARDS 2
#define AT_GATE  "until [ -e @/gate ]; do sleep 0.01; done"

static char tenants[N_SHARDS][16]; /* one of each shard */

static void find_tenants(void)
{
    for (int i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "tenant-%d", i);
        memcpy(tenants[shard_of_tenant(str_of(name), N_SHARDS)], name, sizeof name);
    }
}

/* A task whose jobs are what this line of a shell says. */
static void init(struct rig *rig, const char *line)
{
    char yaml[1000];
    held_files_reset();
    (void)snprintf(yaml, sizeof yaml,
                   "tasks:\n"
                   "  t:\n"
                   "    run: {exec: [sh, -c, '%s'], concurrency: 4}\n"
                   "    retry: {strategy: fixed, initial_delay: 1h, jitter: none}\n",
                   line);
    rig_init(rig, yaml);
}

static int64_t submit_on(struct rig *rig, size_t shard)
{
    return rig_submit_spec(rig,
                           &(struct job_spec){.task = STR("t"), .tenant = str_of(tenants[shard])});
}

static bool are_two_running(struct rig *rig)
{
    return pool_status(rig->pool).running == 2;
}

static bool is_one_left(struct rig *rig)
{
    return pool_status(rig->pool).running == 1;
}

/* How many children of this process have not ended. */
static size_t count_living(void)
{
    size_t n = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (const struct dirent *one; (one = readdir(processes));) {
        char path[300], line[512] = "", state = 'Z';
        int parent = 0;
        (void)snprintf(path, sizeof path, "/proc/%.250s/stat", one->d_name);
        FILE *stat = fopen(path, "r");
        if (stat && fgets(line, sizeof line, stat) && strrchr(line, ')'))
            (void)sscanf(strrchr(line, ')') + 1, " %c %d", &state, &parent);
        if (stat)
            (void)fclose(stat);
        n += parent == getpid() && state != 'Z';
    }
    (void)closedir(processes);
    return n;
}

/* The loop finds that all jobs have ended, and settles them together. */
static void end_together(struct rig *rig)
{
    rig_open_gate(rig);
    WAIT_FOR(count_living() == 0);
}

/* Its settlement is in a transaction that hangs. */
TEST(a_failure_that_is_not_settled_stops_no_job_of_another_shard)
{
    struct rig rig;
    char line[100];
    (void)snprintf(line, sizeof line, AT_GATE "; [ $REDRIVE_TENANT != %s ]", tenants[1]);
    init(&rig, line);
    held_files[1].is_held = true;
    (void)submit_on(&rig, 0);
    (void)submit_on(&rig, 1);
    rig_start(&rig);
    rig_until(&rig, are_two_running);
    end_together(&rig);
    rig_until(&rig, is_one_left);
    for (unsigned i = 2; i <= 5; i++) {
        (void)submit_on(&rig, 0);
        rig_until_told(&rig, ENGINE_EVENT_COMPLETED, i);
    }
    assert_int_equal(held_files[1].n_held, 1);
    assert_false(rig_logged(&rig, "settlement_failed"));
    held_files_let_go();
    rig_until_told(&rig, ENGINE_EVENT_RETRYING, 1);
    rig_release(&rig);
}

static bool are_four_running(struct rig *rig)
{
    return pool_status(rig->pool).running == 4;
}

/* Such as a large result on a disk that is nearly full. */
TEST(an_outcome_that_its_shard_does_not_take_holds_up_no_other)
{
    struct rig rig;
    init(&rig, AT_GATE);
    held_files[0].refused_seq = shard_own_seq(submit_on(&rig, 0));
    for (int i = 0; i < 3; i++)
        (void)submit_on(&rig, 0);
    rig_start(&rig);
    rig_until(&rig, are_four_running);
    end_together(&rig);
    rig_until(&rig, is_one_left);
    assert_int_equal(rig.told[ENGINE_EVENT_COMPLETED], 3);
    held_files[0].refused_seq = 0;
    rig_until_told(&rig, ENGINE_EVENT_COMPLETED, 4);
    rig_release(&rig);
}

TEST_MAIN(argc, argv)
{
    find_tenants();
    return check_run(NULL, NULL);
}
