#include "store/sqlite/private.h"

#include <string.h>

#include "check.h"

static struct job_status some(void)
{
    return (struct job_status){
        .token = UINT64_C(0x8123456789abcdef),
        .permit = {.generation = 300, .probe = UINT64_MAX},
        .first_started_ms = 1767225600000,
        .deferrals = UINT32_MAX,
        .crashes = 2,
        .parked_by_limit = true,
        .paused_since_ms = INT64_MAX,
    };
}

static void assert_alike(const struct job_status *a, const struct job_status *b)
{
    assert_true(a->token == b->token);
    assert_true(a->permit.generation == b->permit.generation);
    assert_true(a->permit.probe == b->permit.probe);
    assert_true(a->first_started_ms == b->first_started_ms);
    assert_int_equal(a->deferrals, b->deferrals);
    assert_int_equal(a->crashes, b->crashes);
    assert_int_equal(a->parked_by_limit, b->parked_by_limit);
    assert_true(a->paused_since_ms == b->paused_since_ms);
}

TEST(what_is_packed_comes_out_again)
{
    const struct job_status full = some();
    /* Every set of fields that are there and fields that are 0. */
    for (unsigned set = 0; set < 256; set++) {
        struct job_status s = full, back = {0};
        unsigned char bytes[PACKED_STATUS_MAX];
        s.token = set & 1 ? full.token : 0;
        s.permit.generation = set & 2 ? full.permit.generation : 0;
        s.permit.probe = set & 4 ? full.permit.probe : 0;
        s.first_started_ms = set & 8 ? full.first_started_ms : 0;
        s.deferrals = set & 16 ? full.deferrals : 0;
        s.crashes = set & 32 ? full.crashes : 0;
        s.parked_by_limit = set & 64;
        s.paused_since_ms = set & 128 ? full.paused_since_ms : 0;
        size_t len = packed_status_pack(&s, bytes);
        assert_true(len <= PACKED_STATUS_MAX);
        assert_int_equal(len == 0, set == 0);
        assert_true(packed_status_unpack(bytes, len, &back));
        assert_alike(&s, &back);
    }
}

TEST(the_end_of_a_lease_keeps_the_length)
{
    unsigned char bytes[PACKED_STATUS_MAX];
    struct job_status s = {
        .token = 7, .permit = {.generation = 1}, .first_started_ms = 1767225600000};
    size_t len = packed_status_pack(&s, bytes);
    s.token = 0;
    s.permit.generation = 0;
    assert_int_equal(packed_status_pack(&s, bytes), len);
}

TEST(what_was_never_packed_is_refused)
{
    const struct {
        const char *bytes;
        size_t len;
    } wrong[] = {
        {"\0\0\0", 3},                                                      /* half a token */
        {"\0\0\0\0\0\0\0\0\x80", 9},                                        /* half a number */
        {"\0\0\0\0\0\0\0\0\1\1\1\1\1\1\1\1\1\1\1", 19},                     /* too many */
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\2", 14},                               /* no yes or no */
        {"\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x1f", 16},                 /* too large */
        {"\0\0\0\0\0\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\1", 19}, /* too long */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct job_status back = {0};
        assert_false(
            packed_status_unpack((const unsigned char *)wrong[i].bytes, wrong[i].len, &back));
    }
}
