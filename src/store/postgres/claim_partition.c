/* claim_partition.c - a claim while one partition has all the jobs that wait: a single scan.
 *
 * Jobs that were started leave entries in the index, which a scan passes until they are vacuumed.
 * While somebody holds an old snapshot they are not, and a claim would pass all of them again and
 * again. Where the way to the first job has been long twice in a row, the next claims begin where
 * it was found, for a time that is so many times as long, a second at the most. So a job of the
 * same priority that comes back before that place waits for that time.
 */
#include "base/time/clock.h"
#include "store/postgres/private.h"

#define LONG_WAY_US     2000
#define LONG_WAY_TWICE  2
#define BEGIN_THERE_FOR 20
#define BEGIN_THERE_MAX INT64_C(1000000)

int64_t pg_ready_given(const PGresult *result)
{
    return PQgetisnull(result, 0, COLUMN_SEQ) ? 0 : PQntuples(result);
}

/* Whether a claim may begin where the last one found its first job. */
static bool begins_there(const struct store *store, const struct partition *partition)
{
    return store->head.partition_id == partition->id && store->head.long_ways >= LONG_WAY_TWICE &&
           clock_monotonic_ns() < store->head.until_ns;
}

static void add_partition(struct args *args, const struct partition *partition, int64_t limit)
{
    pg_args_int4(args, (int32_t)partition->id);
    pg_args_name(args, partition->tenant);
    pg_args_name(args, partition->queue);
    pg_args_int8(args, limit);
}

static int scan_partition(struct store *store, const struct partition *partition, int64_t limit,
                          bool there, const PGresult **ret, struct redrive_err *err)
{
    struct args *args = &store->args;
    int rc = pg_rows_flush_seen(store, err);
    if (rc != 0)
        return rc;
    add_partition(args, partition, limit);
    if (there) {
        pg_args_int4(args, store->head.priority);
        pg_args_int8(args, store->head.seq);
    }
    rc = pg_run(store, there ? STATEMENT_READY_ALONE_FROM : STATEMENT_READY_ALONE, ret, err);
    return rc == 0 ? pg_answer_check(store, *ret, PARTITION_COLUMN_ANSWER, err) : rc;
}

/* Where the first job was, and how long the way to it, if it was from the beginning of the
 * partition. */
static void note_head(struct store *store, const PGresult *result,
                      const struct partition *partition, bool there)
{
    struct head *head = &store->head;
    const int64_t way_us = pg_get_int(result, 0, PARTITION_COLUMN_WAY_US);
    if (!there) {
        const bool is_long = way_us >= LONG_WAY_US;
        const int64_t trust_us =
            way_us * BEGIN_THERE_FOR < BEGIN_THERE_MAX ? way_us * BEGIN_THERE_FOR : BEGIN_THERE_MAX;
        head->long_ways = !is_long                              ? 0
                          : head->partition_id == partition->id ? head->long_ways + 1
                                                                : 1;
        head->until_ns = clock_monotonic_ns() + trust_us * 1000;
    }
    head->partition_id = partition->id;
    head->priority = (int32_t)pg_get_int(result, 0, COLUMN_PRIORITY);
    head->seq = pg_get_int(result, 0, COLUMN_SEQ);
}

/* The scan of a partition, from where its first job was if that is known, else, or if that was not
 * enough, from the beginning. */
int pg_partition_scan(struct store *store, const struct partition *partition, int64_t limit,
                      const PGresult **ret, struct redrive_err *err)
{
    for (bool there = begins_there(store, partition);; there = false) {
        int rc = scan_partition(store, partition, limit, there, ret, err);
        if (rc != 0)
            return rc;
        const int64_t given = pg_ready_given(*ret);
        if (there && given < limit)
            continue;
        if (given > 0)
            note_head(store, *ret, partition, there);
        return 0;
    }
}

bool pg_partition_ahead(struct store *store, const struct partition *partition, int64_t limit)
{
    if (begins_there(store, partition))
        return false;
    add_partition(&store->args, partition, limit);
    return true;
}

void pg_partition_scanned(struct store *store, const struct partition *partition,
                          const PGresult *result)
{
    if (pg_ready_given(result) > 0)
        note_head(store, result, partition, false);
}
