/* Jobs that go: what stood beside their rows goes as well, and is not sent to and fro for it. */
#include "handles.h"
#include "store_for_test.h"
#include "scans.h"
#include "server.h"

#include <stdio.h>

#define JOBS    40
#define PAYLOAD ((size_t)1 << 18)

/* More than all that a sweep has to say, and less than a few payloads. */
#define BYTES_MAX ((long)1 << 20)

static long bytes_moved(const struct server *s)
{
    return server_number(s, "stats", "total_net_input_bytes:") +
           server_number(s, "stats", "total_net_output_bytes:");
}

/* Jobs with long payloads, all of which have ended. */
static void fill(struct store *store)
{
    static char payload[PAYLOAD];
    memset(payload, 'x', sizeof payload);
    for (int64_t i = 1; i <= JOBS; i++) {
        char id[16];
        struct submit_result result;
        struct arena arena;
        snprintf(id, sizeof id, "%d", (int)i);
        const struct job_spec spec = {.tenant = STR("acme"),
                                      .id = str_of(id),
                                      .task = STR("mail"),
                                      .queue = STR("main"),
                                      .payload = {payload, sizeof payload}};
        arena_init(&arena);
        assert_int_equal(begin(store, NULL), 0);
        assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
        arena_release(&arena);
        start_committed(store, i, 7);
        assert_int_equal(begin(store, NULL), 0);
        assert_int_equal(settle(store, i, 7), 0);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    }
}

static void sweep_all(struct store *store)
{
    struct scan scan = {.limit = JOBS, .states = UINT32_MAX, .before_ms = INT64_MAX};
    size_t removed;
    bool more;
    assert_int_equal(scan_remove(store, &scan, (struct str){0}, &removed, &more, NULL), 0);
    assert_int_equal(removed, JOBS);
}

SERVER_TEST(a_sweep_reads_no_payload, NULL)
{
    struct store *writer = open_at(s), *store = open_at(s);
    fill(writer);
    assert_string_equal(server_call(s, "HLEN {redrive}:o:0"), "40");
    const long before = bytes_moved(s);
    assert_int_equal(begin(store, NULL), 0);
    sweep_all(store);
    rollback(store);
    assert_int_equal(count_in(store, "other"), 0);
    assert_string_equal(server_call(s, "HLEN {redrive}:o:0"), "40");
    assert_int_equal(begin(store, NULL), 0);
    sweep_all(store);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_true(bytes_moved(s) - before < BYTES_MAX);
    assert_int_equal(count_jobs(store), 0);
    assert_string_equal(server_call(s, "EXISTS {redrive}:o:0"), "0");
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(writer);
    store_close(store);
}

/* What the transaction itself has put beside the row must not outlive it. */
SERVER_TEST(what_a_transaction_has_put_beside_a_job_goes_with_it, NULL)
{
    struct move_result result;
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "gone");
    start_committed(store, 1, 7);
    const struct change_move moves[] = {{.seq = 1, .kind = MOVE_CANCEL},
                                        {.seq = 1, .kind = MOVE_REMOVE}};
    assert_int_equal(begin(other, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_ops(other)->move(other, CHANGES(&moves[i], 1), &result, NULL), 0);
        assert_int_equal(result.code, 0);
    }
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_string_equal(server_call(s, "EXISTS {redrive}:a:0 {redrive}:o:0 {redrive}:j:0"), "0");
    store_close(store);
    store_close(other);
}
