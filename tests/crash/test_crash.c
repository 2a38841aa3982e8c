/* Power cuts at every call to the disk of a SQLite store (power_cuts.h), and bugs that this must
 * find.
 *
 * REDRIVE_CRASH_POINTS: at about how many points of each workload, 0 for each of them;
 * REDRIVE_CRASH_CUTS: how often at each; REDRIVE_CRASH_SEED repeats a run. */
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

#include "crash_vfs.h"
#include "power_cuts.h"

static uint64_t number_from(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : fallback;
}

static struct power_cuts_options options(void)
{
    return (struct power_cuts_options){
        .seed = number_from("REDRIVE_CRASH_SEED", 20240229),
        .points = number_from("REDRIVE_CRASH_POINTS", 80),
        .cuts = number_from("REDRIVE_CRASH_CUTS", 4),
    };
}

static void print_findings(const char *name, const struct findings *f)
{
    print_message(
        "# %s: %zu calls to the disk, %zu commits; power cut at %zu points, %zu times and "
        "%zu times again; complaints: %zu closed, %zu damaged, %zu lost, %zu torn\n",
        name, f->calls, f->commits, f->points, f->cuts, f->second_cuts,
        f->complaints[COMPLAINT_CLOSED], f->complaints[COMPLAINT_DAMAGED],
        f->complaints[COMPLAINT_LOST], f->complaints[COMPLAINT_TORN]);
    if (findings_total(f) == 0)
        return;
    char first[sizeof f->first]; /* on one line, as TAP wants it */
    for (size_t i = 0; i < sizeof first; i++)
        first[i] = (char)(f->first[i] == '\n' ? ' ' : f->first[i]);
    print_message("# %s: first complaint: %s\n", name, first);
}

/* At a part of the points. */
static void survives(const struct workload *workload, size_t part)
{
    struct power_cuts_options o = options();
    struct findings f;
    o.points = (o.points + part - 1) / part;
    power_cuts_run(workload, PLANT_NOTHING, &o, &f);
    print_findings(workload->name, &f);
    if (findings_total(&f) > 0)
        fail_msg("%s", f.first);
}

TEST(a_busy_queue_survives_power_cuts)
{
    survives(&WORKLOAD_BUSY, 1);
}

TEST(a_migration_survives_power_cuts)
{
    survives(&WORKLOAD_MIGRATION, 2);
}

/* What is found when a bug is planted; few points are enough. */
static struct findings planted(const char *name, enum plant plant)
{
    struct power_cuts_options o = options();
    struct findings f;
    o.points = 24;
    o.cuts = 4;
    power_cuts_run(&WORKLOAD_SHORT, plant, &o, &f);
    print_findings(name, &f);
    return f;
}

TEST(commits_without_a_sync_are_noticed)
{
    assert_true(planted("synchronous=NORMAL", PLANT_NORMAL).complaints[COMPLAINT_LOST] > 0);
}

TEST(a_log_without_any_sync_is_noticed)
{
    assert_true(planted("synchronous=OFF", PLANT_OFF).complaints[COMPLAINT_LOST] > 0);
}

TEST(a_disk_that_does_not_sync_is_noticed)
{
    assert_true(planted("disk without sync", PLANT_NO_SYNC).complaints[COMPLAINT_LOST] > 0);
}

TEST(a_folder_that_is_not_synced_is_noticed)
{
    assert_true(planted("folder without sync", PLANT_NO_FOLDER_SYNC).complaints[COMPLAINT_LOST] >
                0);
}

TEST(an_operation_of_two_transactions_is_noticed)
{
    assert_true(planted("two transactions", PLANT_HALVES).complaints[COMPLAINT_TORN] > 0);
}

static int install(void **state)
{
    (void)state;
    crash_vfs_install();
    return 0;
}

TEST_MAIN(argc, argv)
{
    return check_run(install, NULL);
}
