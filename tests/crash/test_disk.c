/* The disk of the crash tests: what outlives a power cut, and what may not. */
#include "check.h"

#include "disk.h"

#define SECTOR 512

struct bench {
    struct tape tape;
    struct tape other; /* of disks after a cut */
    struct disk *disk;
};

static int set_up(void **state)
{
    static struct bench bench;
    bench = (struct bench){0};
    bench.disk = disk_new(&bench.tape);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    disk_free(b->disk);
    tape_release(&b->tape);
    tape_release(&b->other);
    return 0;
}

/* A file "a" of which `synced` is synced, as is its name. */
static int make_synced(struct bench *b, const char *synced)
{
    const int file = disk_create(b->disk, "a");
    disk_write(b->disk, file, 0, synced, strlen(synced));
    disk_sync(b->disk, file);
    disk_sync_folder(b->disk);
    return file;
}

/* What a file has after a cut, as a string; "none": it is not there. */
static const char *left_of(struct bench *b, const char *name, enum cut_kind kind, uint64_t seed)
{
    static char text[4 * SECTOR + 1];
    const struct cut cut = {.kind = kind, .sector = SECTOR, .seed = seed};
    struct disk *left = disk_after_cut(b->disk, &cut, &b->other);
    const int file = disk_find(left, name);
    memset(text, 0, sizeof text);
    if (file < 0)
        strcpy(text, "none");
    else
        (void)disk_read(left, file, 0, text, sizeof text - 1);
    disk_free(left);
    return text;
}

#define BENCH_TEST(test) TEST_WITH(test, set_up, tear_down, struct bench *b)

BENCH_TEST(what_was_synced_outlives_every_cut)
{
    make_synced(b, "kept");
    for (int kind = 0; kind < CUT_KINDS; kind++)
        for (uint64_t seed = 0; seed < 20; seed++)
            assert_string_equal(left_of(b, "a", (enum cut_kind)kind, seed), "kept");
}

BENCH_TEST(what_was_not_synced_is_lost_or_kept_as_the_cut_says)
{
    const int file = make_synced(b, "old");
    disk_write(b->disk, file, 0, "new", 3);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "old");
    assert_string_equal(left_of(b, "a", CUT_KEEPS_ALL, 1), "new");
    int old = 0, new = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const char *left = left_of(b, "a", CUT_AT_RANDOM, seed);
        old += strcmp(left, "old") == 0;
        new += strcmp(left, "new") == 0;
    }
    assert_true(old > 20 && new > 20 && old + new <= 200);
}

/* In order: the second write is never there without the first. At random: it may be. */
BENCH_TEST(changes_outlive_a_cut_in_order_or_at_random)
{
    const int file = make_synced(b, "....");
    int out_of_order = 0;
    disk_write(b->disk, file, 0, "1", 1);
    disk_write(b->disk, file, 1, "2", 1);
    disk_write(b->disk, file, 2, "3", 1);
    for (uint64_t seed = 0; seed < 200; seed++) {
        const char *left = left_of(b, "a", CUT_IN_ORDER, seed);
        assert_false(left[2] == '3' && left[1] != '2');
        left = left_of(b, "a", CUT_AT_RANDOM, seed);
        out_of_order += left[2] == '3' && left[0] == '.';
        assert_int_equal(left[3], '.'); /* no byte outside of the writes */
    }
    assert_true(out_of_order > 5);
}

BENCH_TEST(a_write_is_torn_between_sectors)
{
    char old[2 * SECTOR + 1], new[2 * SECTOR + 1];
    memset(old, 'o', sizeof old);
    memset(new, 'n', sizeof new);
    old[2 * SECTOR] = new[2 * SECTOR] = '\0';
    const int file = make_synced(b, old);
    int torn = 0;
    disk_write(b->disk, file, 0, new, 2 * SECTOR);
    for (uint64_t seed = 0; seed < 200; seed++) {
        const char *left = left_of(b, "a", CUT_AT_RANDOM, seed);
        torn += left[0] == 'n' && left[SECTOR - 1] == 'n' && left[SECTOR] == 'o' &&
                left[2 * SECTOR - 1] == 'o';
    }
    assert_true(torn > 5);
}

BENCH_TEST(a_truncation_is_durable_after_a_sync)
{
    const int file = make_synced(b, "long");
    disk_truncate(b->disk, file, 2);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "long");
    disk_sync(b->disk, file);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "lo");
}

BENCH_TEST(what_a_sync_has_failed_to_write_no_later_sync_writes)
{
    const int file = make_synced(b, "....");
    char seen[5] = "";
    disk_write(b->disk, file, 0, "1", 1);
    disk_fail_sync(b->disk, file);
    disk_write(b->disk, file, 1, "2", 1);
    disk_sync(b->disk, file);
    assert_int_equal(disk_read(b->disk, file, 0, seen, 4), 4);
    assert_string_equal(seen, "12..");
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), ".2..");
}

BENCH_TEST(a_name_is_durable_after_a_sync_of_the_folder)
{
    const int file = disk_create(b->disk, "a");
    disk_write(b->disk, file, 0, "x", 1);
    disk_sync(b->disk, file);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "none");
    int there = 0;
    for (uint64_t seed = 0; seed < 100; seed++)
        there += strcmp(left_of(b, "a", CUT_AT_RANDOM, seed), "x") == 0;
    assert_true(there > 20 && there < 80);
    disk_sync_folder(b->disk);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "x");
}

BENCH_TEST(a_deletion_is_durable_after_a_sync_of_the_folder)
{
    make_synced(b, "x");
    disk_delete(b->disk, "a");
    assert_int_equal(disk_find(b->disk, "a"), -1);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "x");
    disk_sync_folder(b->disk);
    assert_string_equal(left_of(b, "a", CUT_DROPS_ALL, 1), "none");
}

BENCH_TEST(a_disk_is_the_same_when_its_tape_is_played_again)
{
    const int file = make_synced(b, "one");
    disk_write(b->disk, file, 3, "two", 3);
    struct disk *again = disk_new(&b->tape);
    for (size_t i = 0; i < b->tape.n; i++)
        disk_play(again, i);
    char text[8] = "";
    assert_int_equal(disk_read(again, disk_find(again, "a"), 0, text, 7), 6);
    assert_string_equal(text, "onetwo");
    assert_int_equal(disk_size(again, file), 6);
    disk_free(again);
}
