/* A shard that keeps what it is given for long, or does not take it: everything else goes on. */
#include "pool_for_test.h"

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
static void init(struct test_pool *tp, const char *line)
{
    char yaml[1000];
    held_files_reset();
    (void)snprintf(yaml, sizeof yaml,
                   "tasks:\n"
                   "  t:\n"
                   "    run: {exec: [sh, -c, '%s'], concurrency: 4}\n"
                   "    retry: {strategy: fixed, initial_delay: 1h, jitter: none}\n",
                   line);
    tp_init(tp, yaml);
}

static int64_t submit_on(struct test_pool *tp, size_t shard)
{
    return tp_submit_spec(tp,
                          &(struct job_spec){.task = STR("t"), .tenant = str_of(tenants[shard])});
}

static bool are_two_running(struct test_pool *tp)
{
    return pool_status(tp->pool).running == 2;
}

static bool is_one_left(struct test_pool *tp)
{
    return pool_status(tp->pool).running == 1;
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
static void end_together(struct test_pool *tp)
{
    tp_open_gate(tp);
    WAIT_FOR(count_living() == 0);
}

/* Its settlement is in a transaction that hangs. */
TEST(a_failure_that_is_not_settled_stops_no_job_of_another_shard)
{
    struct test_pool tp;
    char line[100];
    (void)snprintf(line, sizeof line, AT_GATE "; [ $REDRIVE_TENANT != %s ]", tenants[1]);
    init(&tp, line);
    held_files[1].is_held = true;
    (void)submit_on(&tp, 0);
    (void)submit_on(&tp, 1);
    tp_start(&tp);
    tp_until(&tp, are_two_running);
    end_together(&tp);
    tp_until(&tp, is_one_left);
    for (unsigned i = 2; i <= 5; i++) {
        (void)submit_on(&tp, 0);
        tp_until_told(&tp, ENGINE_EVENT_COMPLETED, i);
    }
    assert_int_equal(held_files[1].n_held, 1);
    assert_false(tp_logged(&tp, "settlement_failed"));
    held_files_let_go();
    tp_until_told(&tp, ENGINE_EVENT_RETRYING, 1);
    tp_release(&tp);
}

static bool are_four_running(struct test_pool *tp)
{
    return pool_status(tp->pool).running == 4;
}

/* Such as a large result on a disk that is nearly full. */
TEST(an_outcome_that_its_shard_does_not_take_holds_up_no_other)
{
    struct test_pool tp;
    init(&tp, AT_GATE);
    held_files[0].refused_seq = shard_own_seq(submit_on(&tp, 0));
    for (int i = 0; i < 3; i++)
        (void)submit_on(&tp, 0);
    tp_start(&tp);
    tp_until(&tp, are_four_running);
    end_together(&tp);
    tp_until(&tp, is_one_left);
    assert_int_equal(tp.told[ENGINE_EVENT_COMPLETED], 3);
    held_files[0].refused_seq = 0;
    tp_until_told(&tp, ENGINE_EVENT_COMPLETED, 4);
    tp_release(&tp);
}

TEST_MAIN(argc, argv)
{
    find_tenants();
    return check_run(NULL, NULL);
}
