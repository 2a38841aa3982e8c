#include "core/time/tz.h"

#include "base/rng.h"
#include "zones.h"

/* ---- Files made by hand ---------------------------------------------------------------------- */

struct block {
    uint32_t n_ut, n_std, n_leaps, n_times, n_types, n_chars;
    int64_t times[4];
    unsigned char indexes[4];
    int32_t offsets[4];
    unsigned char is_dst[4];
    unsigned char names[4];
};

static const struct block EMPTY = {.n_types = 1, .n_chars = 1};
static const struct block SAMPLE = {
    .n_ut = 2,
    .n_std = 2,
    .n_times = 2,
    .n_types = 2,
    .n_chars = 8,
    .times = {1000000, 2000000},
    .indexes = {1, 0},
    .offsets = {3600, 7200},
    .is_dst = {0, 1},
    .names = {0, 4},
};

static void put(struct buf *b, int64_t value, int n_bytes)
{
    for (int i = n_bytes - 1; i >= 0; i--)
        buf_putc(b, (char)(value >> (8 * i)));
}

static void put_block(struct buf *b, char version, const struct block *block, int time_bytes)
{
    char zeros[64] = {0};
    buf_puts(b, "TZif");
    buf_putc(b, version);
    buf_add(b, zeros, 15);
    const uint32_t counts[] = {block->n_ut,    block->n_std,   block->n_leaps,
                               block->n_times, block->n_types, block->n_chars};
    for (int i = 0; i < 6; i++)
        put(b, counts[i], 4);
    for (uint32_t i = 0; i < block->n_times; i++)
        put(b, block->times[i], time_bytes);
    buf_add(b, block->indexes, block->n_times);
    for (uint32_t i = 0; i < block->n_types; i++) {
        put(b, block->offsets[i], 4);
        buf_putc(b, (char)block->is_dst[i]);
        buf_putc(b, (char)block->names[i]);
    }
    buf_add(b, "CET\0CEST", block->n_chars);
    buf_add(b, zeros, block->n_leaps * (size_t)(time_bytes + 4));
    buf_add(b, zeros, block->n_std + block->n_ut);
}

static void file_v2(struct buf *b, const struct block *block, const char *footer)
{
    buf_reset(b);
    put_block(b, '2', &EMPTY, 4);
    put_block(b, '2', block, 8);
    buf_puts(b, footer);
}

/* A copy of exactly that size, so that a sanitizer sees a read past the end. */
static int parse_exactly(const char *bytes, size_t len, struct tz *tz, struct redrive_err *err)
{
    char *copy = malloc(len ? len : 1);
    if (len > 0)
        memcpy(copy, bytes, len);
    int rc = tz_parse(tz, copy, len, err);
    free(copy);
    return rc;
}

TEST(version_1_ends_with_its_last_offset)
{
    struct buf b;
    struct tz tz;
    buf_init(&b, 4096);
    struct block block = SAMPLE;
    block.times[0] = -1000000;
    put_block(&b, '\0', &block, 4);
    assert_int_equal(parse_exactly(b.data, b.len, &tz, NULL), 0);
    assert_int_equal(tz_offset_at(&tz, INT64_MIN), 3600);
    assert_int_equal(tz_offset_at(&tz, -1000001), 3600);
    assert_int_equal(tz_offset_at(&tz, -1000000), 7200);
    assert_int_equal(tz_offset_at(&tz, 2000000), 3600);
    assert_int_equal(tz_span_at(&tz, INT64_MAX).until_s, INT64_MAX);
    tz_release(&tz);
    tz_release(&tz);
    tz_release(NULL);
    buf_release(&b);
}

TEST(version_2_uses_the_second_block_and_its_footer)
{
    struct buf b;
    struct tz tz;
    buf_init(&b, 4096);
    struct block block = SAMPLE;
    block.times[0] = INT64_C(-5000000000);
    file_v2(&b, &block, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    assert_int_equal(parse_exactly(b.data, b.len, &tz, NULL), 0);
    assert_int_equal(tz_offset_at(&tz, INT64_C(-5000000001)), 3600);
    assert_int_equal(tz_offset_at(&tz, INT64_C(-5000000000)), 7200);
    assert_int_equal(tz_offset_at(&tz, utc(2300, 7, 1, 0, 0)), 7200);
    assert_int_equal(tz_offset_at(&tz, utc(2300, 1, 1, 0, 0)), 3600);
    assert_int_equal(tz_span_at(&tz, INT64_MAX).until_s, INT64_MAX);
    assert_true(tz_span_at(&tz, INT64_C(1) << 60).until_s > INT64_C(1) << 60);
    tz_release(&tz);

    file_v2(&b, &block, "\n\nand more");
    assert_int_equal(parse_exactly(b.data, b.len, &tz, NULL), 0);
    assert_false(tz.has_rule);
    tz_release(&tz);
    buf_release(&b);
}

TEST(a_file_without_transitions_follows_its_footer)
{
    struct buf b;
    struct tz tz;
    buf_init(&b, 4096);
    file_v2(&b, &EMPTY, "\nEST5EDT,M3.2.0,M11.1.0\n");
    assert_int_equal(parse_exactly(b.data, b.len, &tz, NULL), 0);
    assert_int_equal(tz_offset_at(&tz, utc(1990, 7, 1, 0, 0)), -4 * 3600);
    assert_int_equal(tz_offset_at(&tz, INT64_MIN), tz_offset_at(&tz, -(INT64_C(1) << 60)));
    tz_release(&tz);
    buf_release(&b);
}

static void check_refused(const struct block *block, int code, const char *expected)
{
    struct buf b;
    struct tz tz;
    struct redrive_err err = {0};
    buf_init(&b, 1 << 20);
    file_v2(&b, block, "\nUTC0\n");
    assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), code);
    assert_string_equal(strstr(err.detail, "expected"), expected);
    assert_null(tz.transitions);
    buf_release(&b);
}

TEST(impossible_blocks_are_refused)
{
#define REFUSED(code, expected, change)                    \
    do {                                                   \
        struct block block = SAMPLE;                       \
        change;                                            \
        check_refused(&block, code, "expected " expected); \
    } while (0)
    REFUSED(REDRIVE_E_INVALID, "no leap seconds", block.n_leaps = 1);
    REFUSED(REDRIVE_E_PARSE, "1 to 256 types of local time",
            (block.n_types = block.n_std = block.n_ut = 0));
    REFUSED(REDRIVE_E_PARSE, "names of local time", block.n_chars = 0);
    REFUSED(REDRIVE_E_PARSE, "as many indicators as types", block.n_std = 1);
    REFUSED(REDRIVE_E_PARSE, "as many indicators as types", block.n_ut = 1);
    REFUSED(REDRIVE_E_PARSE, "an offset of less than 26 hours", block.offsets[1] = 93600);
    REFUSED(REDRIVE_E_PARSE, "an offset of less than 26 hours", block.offsets[1] = -90000);
    REFUSED(REDRIVE_E_PARSE, "a flag for summer time", block.is_dst[0] = 2);
    REFUSED(REDRIVE_E_PARSE, "the index of a name", block.names[1] = 8);
    REFUSED(REDRIVE_E_PARSE, "the index of a type", block.indexes[1] = 2);
    REFUSED(REDRIVE_E_PARSE, "transitions in ascending order", block.times[1] = 1000000);
#undef REFUSED
}

TEST(large_counts_are_refused_before_anything_is_read)
{
    struct buf b;
    struct tz tz;
    struct redrive_err err = {0};
    buf_init(&b, 4096);
    const struct {
        size_t at;
        uint32_t count;
        int code;
    } cases[] = {
        {12, 4097, REDRIVE_E_TOO_BIG},       {12, 4096, REDRIVE_E_PARSE},
        {12, UINT32_MAX, REDRIVE_E_TOO_BIG}, {16, 257, REDRIVE_E_PARSE},
        {16, UINT32_MAX, REDRIVE_E_PARSE},   {20, UINT32_MAX, REDRIVE_E_PARSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int version = 1; version <= 2; version++) {
            buf_reset(&b);
            if (version == 1)
                put_block(&b, '\0', &EMPTY, 4);
            else
                file_v2(&b, &EMPTY, "\nUTC0\n");
            size_t header = version == 1 ? 20 : 51 + 20;
            for (int j = 0; j < 4; j++)
                b.data[header + cases[i].at + (size_t)j] = (char)(cases[i].count >> (24 - 8 * j));
            assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), cases[i].code);
        }
    }
    /* The first block of a version 2 file is skipped, however wrong; its size must fit. */
    file_v2(&b, &EMPTY, "\nUTC0\n");
    memset(b.data + 20, 0xFF, 24);
    assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), REDRIVE_E_PARSE);
    assert_string_equal(err.detail, "at byte 44: expected more bytes: the file is cut short");
    buf_release(&b);
}

TEST(headers_and_footers_must_be_there)
{
    struct buf b;
    struct tz tz;
    struct redrive_err err = {0};
    buf_init(&b, 4096);

    file_v2(&b, &SAMPLE, "\nUTC0\n");
    b.data[0] = 'X';
    assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), REDRIVE_E_PARSE);
    assert_string_equal(err.message, "invalid time zone file");
    assert_string_equal(err.detail, "at byte 0: expected `TZif`");
    file_v2(&b, &SAMPLE, "\nUTC0\n");
    b.data[4] = '1';
    assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), REDRIVE_E_PARSE);
    file_v2(&b, &SAMPLE, "\nUTC0\n");
    b.data[51] = 'X';
    assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), REDRIVE_E_PARSE);
    assert_string_equal(err.detail, "at byte 51: expected `TZif`");

    static const char *const FOOTERS[] = {"", "UTC0\n", "\nUTC0", "\nnonsense\n"};
    for (size_t i = 0; i < 4; i++) {
        file_v2(&b, &SAMPLE, FOOTERS[i]);
        assert_int_equal(parse_exactly(b.data, b.len, &tz, &err), REDRIVE_E_PARSE);
        assert_null(tz.transitions);
        assert_false(tz.has_rule);
    }
    buf_release(&b);
}

TEST(a_file_cut_anywhere_is_refused)
{
    struct buf b;
    struct tz tz;
    buf_init(&b, TZ_FILE_MAX_BYTES);
    zone_read("Europe/Berlin", &b);
    assert_int_equal(parse_exactly(b.data, b.len, &tz, NULL), 0);
    tz_release(&tz);
    for (size_t len = 0; len < b.len; len++)
        assert_int_equal(parse_exactly(b.data, len, &tz, NULL), REDRIVE_E_PARSE);
    buf_release(&b);
}

/* ---- Zones of the world ---------------------------------------------------------------------- */

static const char *const ZONES[] = {
    "Europe/Berlin",       "America/New_York",
    "Australia/Lord_Howe", "America/Sao_Paulo",
    "Africa/Casablanca",   "Europe/Dublin",
    "Asia/Kolkata",        "Asia/Kathmandu",
    "America/St_Johns",    "Pacific/Apia",
    "Pacific/Kiritimati",  "America/Godthab",
    "Asia/Gaza",           "Africa/Cairo",
    "Asia/Tehran",         "Antarctica/Troll",
    "America/Asuncion",    "Asia/Beirut",
    "America/Santiago",    "Pacific/Chatham",
    "Atlantic/Azores",     "America/Havana",
    "Africa/Monrovia",     "Asia/Jerusalem",
    "Europe/London",       "Asia/Pyongyang",
    "America/Caracas",     "Pacific/Norfolk",
    "Antarctica/Casey",    "Europe/Istanbul",
    "Asia/Manila",         "America/Juneau",
    "Etc/GMT+12",          "UTC",
};

TEST(libc_agrees_on_offsets_from_1800_to_2200)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t i = 0; i < sizeof ZONES / sizeof ZONES[0]; i++) {
        struct tz tz;
        zone_load(ZONES[i], &tz);
        zone_of_libc(ZONES[i]);
        int64_t first = utc(1800, 1, 1, 0, 0), last = utc(2200, 1, 1, 0, 0);
        for (int n = 0; n < 20000; n++) {
            int64_t t = first + (int64_t)rng_below(&rng, (uint64_t)(last - first));
            struct tm tm;
            time_t time = (time_t)t;
            localtime_r(&time, &tm);
            if (tz_offset_at(&tz, t) != tm.tm_gmtoff)
                fail_msg("%s at %lld: %d, libc has %ld", ZONES[i], (long long)t,
                         tz_offset_at(&tz, t), tm.tm_gmtoff);
            struct civil local = tz_local(&tz, t);
            assert_int_equal(local.year, tm.tm_year + 1900);
            assert_int_equal(local.hour, tm.tm_hour);
            assert_int_equal(local.minute, tm.tm_min);
            assert_int_equal(local.second, tm.tm_sec);
        }
        tz_release(&tz);
    }
}

/* Spans must tile the line without holes, and the offset must be constant within each. */
TEST(spans_follow_each_other)
{
    for (size_t i = 0; i < sizeof ZONES / sizeof ZONES[0]; i++) {
        struct tz tz;
        zone_load(ZONES[i], &tz);
        int64_t t = INT64_MIN;
        while (t < utc(2200, 1, 1, 0, 0)) {
            struct tz_span span = tz_span_at(&tz, t);
            assert_true(span.until_s > t);
            assert_int_equal(tz_offset_at(&tz, span.until_s - 1), span.offset_s);
            t = span.until_s;
        }
        tz_release(&tz);
    }
}

/* ---- From local time ------------------------------------------------------------------------- */

static int local_to_utc(const struct tz *tz, int64_t year, int month, int day, int hour, int minute,
                        int64_t ret[2])
{
    struct civil local = {year, month, day, hour, minute, 0};
    ret[0] = ret[1] = -1;
    return tz_local_to_utc(tz, &local, ret);
}

TEST(a_plain_time_happens_once)
{
    struct tz tz;
    int64_t at[2];
    zone_load("Europe/Berlin", &tz);
    assert_int_equal(local_to_utc(&tz, 2024, 7, 1, 12, 0, at), 1);
    assert_int_equal(at[0], utc(2024, 7, 1, 10, 0));
    assert_int_equal(local_to_utc(&tz, 2024, 3, 31, 1, 59, at), 1);
    assert_int_equal(at[0], utc(2024, 3, 31, 0, 59));
    assert_int_equal(local_to_utc(&tz, 2024, 3, 31, 3, 0, at), 1);
    assert_int_equal(at[0], utc(2024, 3, 31, 1, 0));
    assert_int_equal(local_to_utc(tz_utc(), 2024, 3, 31, 2, 30, at), 1);
    assert_int_equal(at[0], utc(2024, 3, 31, 2, 30));
    tz_release(&tz);
}

TEST(a_time_in_a_gap_gives_the_end_of_the_gap)
{
    struct tz tz;
    int64_t at[2];
    zone_load("Europe/Berlin", &tz);
    for (int minute = 0; minute < 60; minute++) {
        assert_int_equal(local_to_utc(&tz, 2024, 3, 31, 2, minute, at), 0);
        assert_int_equal(at[0], utc(2024, 3, 31, 1, 0));
    }
    tz_release(&tz);

    /* A whole day was left out. */
    zone_load("Pacific/Apia", &tz);
    assert_int_equal(local_to_utc(&tz, 2011, 12, 30, 12, 0, at), 0);
    assert_int_equal(at[0], utc(2011, 12, 30, 10, 0));
    tz_release(&tz);
}

TEST(changes_close_together_are_told_apart)
{
    /* Forward by two hours at 12:00, again by one at 13:00, back by one at 14:00. */
    struct tz_transition jumps[] = {{utc(2024, 1, 1, 12, 0), 7200},
                                    {utc(2024, 1, 1, 13, 0), 10800},
                                    {utc(2024, 1, 1, 14, 0), 7200}};
    struct tz tz = {.transitions = jumps, .n_transitions = 3};
    int64_t at[2];
    assert_int_equal(local_to_utc(&tz, 2024, 1, 1, 13, 0, at), 0);
    assert_int_equal(at[0], utc(2024, 1, 1, 12, 0));
    assert_int_equal(local_to_utc(&tz, 2024, 1, 1, 15, 30, at), 0);
    assert_int_equal(at[0], utc(2024, 1, 1, 13, 0));
    assert_int_equal(local_to_utc(&tz, 2024, 1, 1, 14, 30, at), 1);
    assert_int_equal(at[0], utc(2024, 1, 1, 12, 30));
    assert_int_equal(local_to_utc(&tz, 2024, 1, 1, 16, 30, at), 2);
    assert_int_equal(at[0], utc(2024, 1, 1, 13, 30));
    assert_int_equal(at[1], utc(2024, 1, 1, 14, 30));
}

TEST(a_time_in_an_overlap_happens_twice)
{
    struct tz tz;
    int64_t at[2];
    zone_load("Europe/Berlin", &tz);
    assert_int_equal(local_to_utc(&tz, 2024, 10, 27, 2, 30, at), 2);
    assert_int_equal(at[0], utc(2024, 10, 27, 0, 30));
    assert_int_equal(at[1], utc(2024, 10, 27, 1, 30));
    assert_int_equal(local_to_utc(&tz, 2024, 10, 27, 3, 0, at), 1);
    tz_release(&tz);

    zone_load("Australia/Lord_Howe", &tz);
    assert_int_equal(local_to_utc(&tz, 2024, 4, 7, 1, 45, at), 2);
    assert_int_equal(at[1] - at[0], 1800);
    assert_int_equal(local_to_utc(&tz, 2024, 4, 7, 1, 29, at), 1);
    tz_release(&tz);
}

TEST(local_time_and_back_gives_the_same_instant)
{
    struct rng rng;
    rng_seed(&rng, 2);
    for (size_t i = 0; i < sizeof ZONES / sizeof ZONES[0]; i++) {
        struct tz tz;
        zone_load(ZONES[i], &tz);
        for (int n = 0; n < 2000; n++) {
            int64_t t = utc(1850, 1, 1, 0, 0) + (int64_t)rng_below(&rng, UINT64_C(86400) * 100000);
            struct civil local = tz_local(&tz, t);
            int64_t at[2];
            int found = tz_local_to_utc(&tz, &local, at);
            assert_in_range(found, 1, 2);
            assert_true(at[0] == t || (found == 2 && at[1] == t));
            assert_true(found == 1 || at[0] < at[1]);
        }
        tz_release(&tz);
    }
}

TEST(the_ends_of_time_do_not_overflow)
{
    struct tz tz;
    int64_t at[2];
    zone_load("Europe/Berlin", &tz);
    struct civil end = {INT64_MAX, 12, 31, 23, 59, 59};
    assert_int_equal(tz_local_to_utc(&tz, &end, at), 1);
    end.year = INT64_MIN;
    assert_int_equal(tz_local_to_utc(&tz, &end, at), 1);
    tz_local(&tz, INT64_MAX);
    tz_local(&tz, INT64_MIN);
    assert_int_equal(tz_offset_at(&tz, INT64_MIN), 3208);
    tz_release(&tz);
}

TEST(names_cannot_leave_the_directory)
{
    assert_true(tz_name_valid(STR("Europe/Berlin")));
    assert_true(tz_name_valid(STR("Etc/GMT+12")));
    assert_true(tz_name_valid(STR("America/Argentina/Buenos_Aires")));
    assert_true(tz_name_valid(STR("America/Port-au-Prince")));
    assert_true(tz_name_valid(STR("leap-seconds.list")));
    assert_false(tz_name_valid(STR("")));
    assert_false(tz_name_valid(str_of(NULL)));
    assert_false(tz_name_valid(STR("/etc/passwd")));
    assert_false(tz_name_valid(STR("../../etc/passwd")));
    assert_false(tz_name_valid(STR("Europe/../../x")));
    assert_false(tz_name_valid(STR("Europe/Berl\0n")));
    assert_false(tz_name_valid(STR("Europe Berlin")));
    assert_false(tz_name_valid(STR("Europe/M\xC3\xBCnchen")));
    char name[TZ_NAME_MAX + 1];
    memset(name, 'A', sizeof name);
    assert_true(tz_name_valid((struct str){name, TZ_NAME_MAX}));
    assert_false(tz_name_valid((struct str){name, TZ_NAME_MAX + 1}));
}
