#include "check.h"

#include "store/page.h"

TEST(cursor_leads_back_to_its_job)
{
    static const int64_t SEQS[] = {1, 15, 16, INT64_C(123456789012345)};
    static const enum job_order ORDERS[] = {ORDER_OLDEST, ORDER_NEWEST, ORDER_FINISHED};
    for (size_t i = 0; i < sizeof SEQS / sizeof SEQS[0]; i++)
        for (size_t k = 0; k < 3; k++) {
            char text[JOB_CURSOR_MAX];
            struct job job = {.status = {.seq = SEQS[i], .finished_ms = INT64_C(1767225600123)}};
            struct job_filter filter = {.order = ORDERS[k]};
            job_cursor_write(&filter, &job, text);
            assert_int_equal(job_cursor_read(str_of(text), &filter, NULL), 0);
            assert_int_equal(filter.after_seq, SEQS[i]);
            assert_int_equal(filter.after_ms, ORDERS[k] == ORDER_FINISHED ? 1767225600123 : 0);
        }
}

TEST(job_that_has_not_ended_has_a_cursor_too)
{
    char text[JOB_CURSOR_MAX];
    struct job job = {.status = {.seq = 7}};
    struct job_filter filter = {.order = ORDER_FINISHED};
    job_cursor_write(&filter, &job, text);
    assert_int_equal(job_cursor_read(str_of(text), &filter, NULL), 0);
    assert_int_equal(filter.after_seq, 7);
    assert_int_equal(filter.after_ms, 0);
}

TEST(hints_go_with_the_cursor)
{
    for (int hints = 0; hints < 8; hints++) {
        char text[JOB_CURSOR_MAX];
        const struct job job = {.status = {.seq = INT64_C(0x123456789abcde), .finished_ms = 99}};
        const struct job_filter first = {.order = ORDER_FINISHED,
                                         .is_few = hints & 1,
                                         .is_most = hints & 2,
                                         .is_rare = hints & 4};
        struct job_filter next = {.order = ORDER_FINISHED, .is_few = !first.is_few};
        job_cursor_write(&first, &job, text);
        assert_int_equal(job_cursor_read(str_of(text), &next, NULL), 0);
        assert_int_equal(next.after_seq, job.status.seq);
        assert_int_equal(next.is_few, first.is_few);
        assert_int_equal(next.is_most, first.is_most);
        assert_int_equal(next.is_rare, first.is_rare);
    }
}

TEST(other_order_is_refused)
{
    char text[JOB_CURSOR_MAX];
    struct job job = {.status = {.seq = 7}};
    struct job_filter filter = {.order = ORDER_OLDEST};
    struct redrive_err err = {0};
    job_cursor_write(&(struct job_filter){.order = ORDER_NEWEST}, &job, text);
    assert_int_equal(job_cursor_read(str_of(text), &filter, &err), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.message, "another order"));
    assert_int_equal(filter.after_seq, 0);
}

TEST(every_change_to_a_cursor_is_noticed)
{
    char text[JOB_CURSOR_MAX];
    struct job job = {.status = {.seq = 0x1234, .finished_ms = 99}};
    struct job_filter filter = {.order = ORDER_FINISHED};
    job_cursor_write(&filter, &job, text);
    const size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        char before = text[i];
        assert_int_equal(job_cursor_read((struct str){text, i}, &filter, NULL), REDRIVE_E_INVALID);
        text[i] = before == '1' ? '2' : '1';
        assert_int_equal(job_cursor_read(str_of(text), &filter, NULL), REDRIVE_E_INVALID);
        text[i] = before;
    }
    assert_int_equal(job_cursor_read(str_of(text), &filter, NULL), 0);
}

TEST(words_are_no_cursors)
{
    static const char *const WORDS[] = {
        "",
        "x",
        "0",
        "n",
        "n-",
        "n1-",
        "-----",
        "n1-00000",
        "ffffffffffffffffffffffffffffffff",
        "\xff\xff\xff\xff\xff\xff\xff\xff",
        "n1111111111111111111111111111111111111111111111111111111111111111111111111-0000",
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        struct job_filter filter = {.order = ORDER_NEWEST};
        assert_int_equal(job_cursor_read(str_of(WORDS[i]), &filter, NULL), REDRIVE_E_INVALID);
        assert_int_equal(filter.after_seq, 0);
    }
}
