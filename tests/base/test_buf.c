#include "base/text/buf.h"

#include "check.h"

#include <stdlib.h>

#include "redrive.h"

TEST(an_empty_buffer_reads_as_an_empty_string)
{
    struct buf b;
    buf_init(&b, 10);
    assert_string_equal(buf_cstr(&b), "");
    check_str(buf_str(&b), "");
    buf_truncate(&b, 0);
    buf_reset(&b);
    buf_release(&b);
}

TEST(additions_append_and_stay_terminated)
{
    struct buf b;
    buf_init(&b, 1000);
    buf_puts(&b, "job ");
    buf_putc(&b, '#');
    buf_printf(&b, "%d of %s", 7, "9");
    buf_add_str(&b, STR("!"));
    assert_int_equal(buf_failed(&b), 0);
    assert_string_equal(buf_cstr(&b), "job #7 of 9!");
    buf_truncate(&b, 3);
    assert_string_equal(buf_cstr(&b), "job");
    buf_truncate(&b, 30);
    assert_string_equal(buf_cstr(&b), "job");
    buf_release(&b);
}

TEST(fixed_one_fills_its_room_and_no_more)
{
    char room[5];
    struct buf b;
    buf_init_fixed(&b, room, sizeof room);
    assert_string_equal(buf_cstr(&b), "");
    assert_int_equal(buf_puts(&b, "abcd"), 0);
    assert_int_equal(buf_putc(&b, 'e'), REDRIVE_E_TOO_BIG);
    buf_reset(&b);
    assert_int_equal(buf_printf(&b, "%d", 1234), 0);
    assert_ptr_equal(buf_cstr(&b), room);
    assert_string_equal(room, "1234");
    assert_int_equal(buf_printf(&b, "%d", 5), REDRIVE_E_TOO_BIG);
}

TEST(it_fills_to_its_maximum_and_no_further)
{
    struct buf b;
    buf_init(&b, 5);
    assert_int_equal(buf_puts(&b, "12345"), 0);
    assert_int_equal(buf_putc(&b, '6'), REDRIVE_E_TOO_BIG);
    assert_string_equal(buf_cstr(&b), "12345");
    buf_release(&b);
}

TEST(the_first_failure_sticks_until_reset)
{
    struct buf b;
    buf_init(&b, 3);
    buf_puts(&b, "1234");
    assert_int_equal(buf_puts(&b, "1"), REDRIVE_E_TOO_BIG);
    assert_int_equal(buf_printf(&b, "%d", 1), REDRIVE_E_TOO_BIG);
    assert_int_equal(b.len, 0);
    buf_reset(&b);
    assert_int_equal(buf_puts(&b, "1"), 0);
    buf_release(&b);
}

TEST(detach_hands_over_the_memory)
{
    struct buf b;
    size_t len = 0;
    buf_init(&b, 100);
    char *none = buf_detach(&b, &len);
    assert_string_equal(none, "");
    free(none);
    buf_puts(&b, "payload");
    char *text = buf_detach(&b, &len);
    assert_string_equal(text, "payload");
    assert_int_equal(len, 7);
    assert_int_equal(b.len, 0);
    free(text);
    buf_printf(&b, "%0200d", 1);
    assert_null(buf_detach(&b, NULL));
}

TEST(growth_keeps_what_was_there)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    for (int i = 0; i < 10000; i++)
        buf_printf(&b, "%04d", i);
    assert_int_equal(b.len, 40000);
    assert_memory_equal(b.data + 4 * 9876, "9876", 4);
    buf_release(&b);
}

TEST(reset_gives_back_more_than_is_to_be_kept)
{
    struct buf b;
    buf_init(&b, 5000);
    buf_puts(&b, "short");
    buf_reset_kept(&b, 1000);
    assert_int_equal(b.len, 0);
    assert_non_null(b.data);
    buf_printf(&b, "%4000d", 1);
    buf_reset_kept(&b, 1000);
    assert_null(b.data);
    assert_int_equal(b.capacity, 0);
    assert_int_equal(buf_printf(&b, "%4500d", 1), 0); /* its maximum is as before */
    assert_int_equal(buf_printf(&b, "%4500d", 1), REDRIVE_E_TOO_BIG);
    buf_release(&b);
}

TEST(pair_is_a_key_of_two_names)
{
    struct buf b;
    buf_init(&b, 8);
    buf_puts(&b, "before");
    struct str key = buf_pair(&b, STR("ab"), STR("c"));
    assert_int_equal(key.len, 4);
    assert_memory_equal(key.ptr, "ab\0c", 4);
    buf_pair(&b, STR("too long"), STR("for it"));
    assert_int_equal(buf_failed(&b), REDRIVE_E_TOO_BIG);
    buf_release(&b);
}
