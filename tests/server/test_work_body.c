#include "check.h"

#include "server/rest/body/work.h"

/* What a worker may say is in the transcripts http-work*.md. */

TEST(a_token_is_read_as_it_was_written)
{
    char text[LEASE_TOKEN_MAX];
    const uint64_t tokens[] = {1, 255, UINT64_C(0x0123456789abcdef), UINT64_MAX};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        assert_true(lease_token_read(str_of(lease_token_write(tokens[i], text))) == tokens[i]);
    assert_true(lease_token_read(STR("1")) == 0);
    assert_true(lease_token_read(STR("0123456789abcdeX")) == 0);
    assert_true(lease_token_read(STR("0123456789ABCDEF")) == 0);
    assert_true(lease_token_read(STR("00000000000000001")) == 0);
}

/* The delay that is made of it is random. */
TEST(a_failure_may_say_when_to_come_back)
{
    struct arena arena;
    struct items_body settle;
    struct redrive_err err = {0};
    arena_init(&arena);
    assert_int_equal(
        settle_body_read(STR("{\"items\":[{\"id\":\"j\",\"token\":\"0000000000000007\","
                             "\"http_status\":503,\"retry_after\":1.5}]}"),
                         STR("acme"), &arena, &settle, &err),
        0);
    assert_int_equal(settle.n, 1);
    assert_int_equal(settle.settlements[0].outcome.failure.retry_after_ms, 1500);
    arena_release(&arena);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, NULL);
}
