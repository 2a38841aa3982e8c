/* What a waiting job costs in the server's memory. */
#include "store_for_test.h"
#include "server.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

#define JOBS           20000
#define IN_TRANSACTION 500

/* With an id of 36 bytes and a payload of 100; docs/redis.md promises as much. */
#define BYTES_MAX 400

static long used(const struct server *s)
{
    const char *line = strstr(server_call(s, "INFO memory"), "used_memory:");
    assert_non_null(line);
    return strtol(line + strlen("used_memory:"), NULL, 10);
}

TEST(a_waiting_job_costs_little_more_than_its_bytes)
{
    struct server s;
    struct store *store = NULL;
    struct id_gen ids;
    struct arena arena;
    char payload[100];
    int64_t now, version;
    static char names[IN_TRANSACTION][ID_UUID_LEN + 1];
    static struct job_spec specs[IN_TRANSACTION];
    static struct submit_result results[IN_TRANSACTION];
    memset(payload, 'x', sizeof payload);
    id_gen_init(&ids, 1);
    arena_init(&arena);
    server_start(&s, NULL);
    assert_int_equal(store_open(s.url, &(struct store_options){.create = true}, &store, NULL), 0);
    const long before = used(&s);
    for (int done = 0; done < JOBS;) {
        assert_int_equal(store_ops(store)->begin(store, 0, &now, &version, NULL), 0);
        for (int i = 0; i < IN_TRANSACTION; i++) {
            id_next(&ids, now, names[i]);
            specs[i] = (struct job_spec){.tenant = STR("default"),
                                         .id = {names[i], ID_UUID_LEN},
                                         .task = STR("mail"),
                                         .queue = STR("default"),
                                         .payload = {payload, sizeof payload},
                                         .max_attempts = 6};
        }
        assert_int_equal(
            store_ops(store)->submit(store, specs, IN_TRANSACTION, results, &arena, NULL), 0);
        /* A server that answers too late may not have made it, and says so: it is made again. */
        const int rc = store_ops(store)->commit(store, NULL);
        assert_true(rc == 0 || rc == REDRIVE_E_CANCELLED);
        done += rc == 0 ? IN_TRANSACTION : 0;
    }
    const long each = (used(&s) - before) / JOBS;
    print_message("# %ld bytes a waiting job\n", each);
    assert_in_range(each, 100, BYTES_MAX);
    arena_release(&arena);
    store_close(store);
    server_stop(&s);
}
