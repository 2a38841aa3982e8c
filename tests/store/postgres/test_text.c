/* Bytes that PostgreSQL's text does not take are kept all the same. */
#include "store_for_test.h"
#include "store/postgres/args.h"
#include "stores_postgres.h"

static struct str bytes_of(const char *s, size_t len)
{
    return (struct str){s, len};
}

#define BYTES(literal) bytes_of(literal, sizeof(literal) - 1)

STORE_TEST(every_byte_of_an_error_and_a_result_comes_back)
{
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    const struct str texts[] = {BYTES("a\0b"),
                                BYTES("\xff\xfe\x80"),
                                BYTES("\xc3"),
                                BYTES("\xed\xa0\x80"),
                                BYTES("\xf4\x8f\xbc\x80 and \xf4\x8f\xbf\xbf"),
                                BYTES("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"),
                                bytes_of(all, sizeof all),
                                BYTES("")};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t seq = PUT(ts, .task = STR("t"));
        const struct decision d = decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_EXHAUSTED);
        const struct settle_move move = {
            .seq = seq,
            .token = ts_start(ts, seq),
            .decision = &d,
            .error = {REDRIVE_CLASS_SYSTEM, texts[i], texts[i], texts[i], 1},
            .result = texts[i]};
        check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_FAILED);
        const struct job_status *s = &ts_job(ts, seq)->status;
        assert_true(str_eq(s->error.message, texts[i]));
        assert_true(str_eq(s->error.stacktrace, texts[i]));
        assert_true(str_eq(s->error.type, texts[i]));
        assert_true(str_eq(s->result, texts[i]));
        assert_true(str_eq(ts_history(ts, seq)->attempts[0].error.message, texts[i]));
    }
}

/* It is given whole up to PARENTS_BYTES, however long its text is. */
STORE_TEST(the_result_of_a_parent_is_as_long_as_its_bytes)
{
    static char bytes[PARENTS_BYTES + 1];
    memset(bytes, 0xff, sizeof bytes);
    for (size_t more = 0; more < 2; more++) {
        const struct str given = bytes_of(bytes, PARENTS_BYTES + more);
        const int64_t parent = PUT(ts, .task = STR("t")), child = PUT(ts, .task = STR("t"));
        const struct decision d = decision_completed();
        const struct settle_move move = {
            .seq = parent, .token = ts_start(ts, parent), .decision = &d, .result = given};
        check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_COMPLETED);
        const struct job_edge edge = {.parent = parent, .child = child};
        struct parent_page page = {0};
        ts_begin(ts);
        assert_int_equal(store_ops(ts->store)->edges_put(ts->store, &edge, 1, NULL), 0);
        assert_int_equal(store_ops(ts->store)->parents(ts->store, &child, 1, &page, NULL), 0);
        assert_int_equal(page.n, 1);
        assert_int_equal(page.parents[0].is_omitted, more);
        assert_true(str_eq(page.parents[0].result, more ? (struct str){0} : given));
        parent_page_release(&page);
        ts_rollback(ts);
    }
}

STORE_TEST(what_is_text_stays_text_for_people)
{
    char answer[64];
    PUT(ts, .id = STR("gr\xc3\xbc\xc3\x9f"), .payload = STR("{\"a\": \"\\u0000\"}"));
    stores_postgres_sql(ts->url, "SELECT id, payload FROM redrive.specs", answer, sizeof answer);
    assert_string_equal(answer, "gr\xc3\xbc\xc3\x9f|{\"a\": \"\\u0000\"}");
}

STORE_TEST(a_shared_row_holds_any_bytes)
{
    const struct shared_row row = {
        .kind = SHARED_BREAKER, .tenant = STR("acme"), .key = STR("k"), .value = BYTES("\0\xff")};
    assert_int_equal(ts_shared_put(ts, &row), 0);
    assert_true(str_eq(ts_shared(ts, SHARED_BREAKER, STR("acme"))->rows[0].value, row.value));
}

TEST(large_parameters_leave_no_memory_behind)
{
    static char large[3 << 20];
    struct args args;
    pg_args_init(&args);
    pg_args_bytes(&args, (struct str){large, 1000});
    pg_args_reset(&args);
    assert_non_null(args.bytes.data);
    pg_args_bytes(&args, (struct str){large, sizeof large});
    assert_int_equal(args.len[0], sizeof large);
    pg_args_reset(&args);
    assert_int_equal(args.bytes.capacity, 0);
    pg_args_release(&args);
}
