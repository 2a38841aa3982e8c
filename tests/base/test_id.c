#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>

#include "check.h"

/* The first 48 bits of an id are its time. */
static int64_t time_in(const char *id)
{
    uint64_t high, low;
    assert_int_equal(sscanf(id, "%8" SCNx64 "-%4" SCNx64, &high, &low), 2);
    return (int64_t)(high << 16 | low);
}

TEST(ids_have_the_form_of_uuid_version_7)
{
    struct id_gen gen;
    char id[ID_UUID_LEN + 1];
    id_gen_init(&gen, 1);
    for (int i = 0; i < 1000; i++) {
        id_next(&gen, 1700000000000 + i, id);
        assert_int_equal(strlen(id), 36);
        assert_int_equal(strspn(id, "0123456789abcdef-"), 36);
        assert_int_equal(id[14], '7');
        assert_non_null(strchr("89ab", id[19]));
        assert_int_equal(time_in(id), 1700000000000 + i);
    }
}

TEST(ids_rise_within_a_millisecond_and_when_the_clock_goes_back)
{
    struct id_gen gen;
    char last[ID_UUID_LEN + 1] = "", id[ID_UUID_LEN + 1];
    id_gen_init(&gen, 2);
    for (int i = 0; i < 100000; i++) {
        id_next(&gen, 1700000000000 - i % 7, id);
        assert_true(strcmp(last, id) < 0);
        memcpy(last, id, sizeof last);
    }
}

TEST(a_full_random_part_carries_into_the_time)
{
    struct id_gen gen;
    char before[ID_UUID_LEN + 1], after[ID_UUID_LEN + 1];
    id_gen_init(&gen, 3);
    id_next(&gen, 5000, before);
    gen.low = UINT64_C(0x3fffffffffffffff);
    id_next(&gen, 5000, after);
    assert_true(strcmp(before, after) < 0);
    memcpy(before, after, sizeof before);
    gen.low = UINT64_C(0x3fffffffffffffff);
    gen.high = 0xfff;
    id_next(&gen, 5000, after);
    assert_true(strcmp(before, after) < 0);
    assert_int_equal(time_in(after), 5001);
}
