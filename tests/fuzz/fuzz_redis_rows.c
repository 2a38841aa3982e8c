/* What a Redis server may answer in place of a row: a job, an attempt, or where the store has gone.
 * It is refused, or read; and what was read is written and read as the same. */
#include "fuzz.h"

#include <string.h>

#include "store/redis/private.h"

#define PARTITION_AT 2

static struct partition partition = {
    .id = 1, .tenant_id = 1, .tenant = STR("t"), .queue = STR("q"), .task = STR("k")};

/* A store that knows one partition, and never asks a server. */
static struct store *store_of_one(void)
{
    static struct partition *known[] = {NULL, &partition};
    static struct store store;
    store.partitions = known;
    store.n_partitions = 1;
    return &store;
}

static void check_job(struct str bytes)
{
    struct row row, again;
    struct buf first, second;
    char *copy = malloc(bytes.len + 1);
    FUZZ_CHECK(copy);
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    if (bytes.len >= PARTITION_AT + 4)
        memcpy(copy + PARTITION_AT, "\0\0\0\1", 4);
    buf_init(&first, SIZE_MAX / 2);
    buf_init(&second, SIZE_MAX / 2);
    if (rd_row_unpack(store_of_one(), 7, (struct str){copy, bytes.len}, &row, NULL) == 0) {
        FUZZ_CHECK(rd_row_pack(&row, &first) == 0);
        FUZZ_CHECK(rd_row_unpack(store_of_one(), 7, buf_str(&first), &again, NULL) == 0);
        FUZZ_CHECK(rd_row_pack(&again, &second) == 0);
        FUZZ_CHECK(str_eq(buf_str(&first), buf_str(&second)));
    }
    buf_release(&first);
    buf_release(&second);
    free(copy);
}

static void check_attempt(struct str bytes)
{
    struct job_attempt attempt, again;
    struct buf first, second;
    buf_init(&first, SIZE_MAX / 2);
    buf_init(&second, SIZE_MAX / 2);
    if (rd_attempt_unpack(bytes, &attempt)) {
        FUZZ_CHECK(rd_attempt_pack(&attempt, &first) == 0);
        FUZZ_CHECK(rd_attempt_unpack(buf_str(&first), &again));
        FUZZ_CHECK(rd_attempt_pack(&again, &second) == 0);
        FUZZ_CHECK(str_eq(buf_str(&first), buf_str(&second)));
    }
    buf_release(&first);
    buf_release(&second);
}

static void check_error(struct str bytes)
{
    struct place place = {0};
    char *copy = malloc(bytes.len + 1); /* hiredis ends its texts */
    FUZZ_CHECK(copy);
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    copy[bytes.len] = '\0';
    const struct str text = {copy, bytes.len};
    FUZZ_CHECK(rd_place_parse(STR("//127.0.0.1"), false, &place, NULL) == 0);
    if (rd_says_elsewhere(text) && !rd_says_later(text) && !rd_says_nowhere(text))
        rd_node_told(&place, text);
    FUZZ_CHECK(place.n_nodes <= NODES_MAX);
    rd_place_release(&place);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct str rest = {(const char *)data + 1, size - 1};
    switch (data[0] % 3) {
    case 0: check_job(rest); break;
    case 1: check_attempt(rest); break;
    default: check_error(rest); break;
    }
    return 0;
}
