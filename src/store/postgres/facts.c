#include "base/err.h"
#include "store/postgres/private.h"
#include "store/postgres/schema.h"

int postgres_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    const PGresult *result;
    int rc = pg_read(store, STATEMENT_BYTES, NULL, &result, err);
    if (rc != 0)
        return rc;
    *ret = (struct store_facts){
        .version_found = store->version_found,
        .version_newest = POSTGRES_SCRIPTS_COUNT,
        .bytes = pg_get_int(result, 0, 0),
        .server = store->server,
        .loss = store->loss,
    };
    return 0;
}

/* What must be true of the tables, as questions for rows that contradict it; each gives a seq. The
 * pages themselves are PostgreSQL's own affair: data_checksums and pg_amcheck look after them. */
static const struct {
    const char *sql;
    const char *finding;
} QUESTIONS[] = {
    {"SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.specs s ON s.seq = j.seq "
     "WHERE s.seq IS NULL LIMIT 1",
     "it has no payload"},
    {"SELECT s.seq FROM redrive.specs s LEFT JOIN redrive.job_states j ON j.seq = s.seq "
     "WHERE j.seq IS NULL LIMIT 1",
     "it has no state"},
    {"SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.partitions l ON l.partition_id = "
     "j.partition_id "
     "WHERE l.partition_id IS NULL LIMIT 1",
     "it is in no partition"},
    {"SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.history h ON h.seq = j.seq "
     "AND h.n = j.error_n WHERE j.error_n IS NOT NULL AND h.seq IS NULL LIMIT 1",
     "its latest error is gone"},
    {"SELECT coalesce(j.seq, p.seq) FROM (SELECT seq FROM redrive.job_states WHERE state = 4) j "
     "FULL JOIN redrive.parked p ON p.seq = j.seq WHERE j.seq IS NULL OR p.seq IS NULL LIMIT 1",
     "it is parked in one table, and not in the other"},
    {"SELECT coalesce(j.seq, k.seq) FROM (SELECT seq FROM redrive.job_states WHERE state < 5 "
     "AND has_key) j FULL JOIN redrive.live_keys k ON k.seq = j.seq "
     "WHERE j.seq IS NULL OR k.seq IS NULL LIMIT 1",
     "a unique key is held by nobody, or not held by its job"},
    {"SELECT seq FROM redrive.job_states WHERE state = 3 AND (lease_check_ms IS NULL "
     "OR lease_until_ms IS NULL OR lease_check_ms > lease_until_ms) LIMIT 1",
     "the end of its lease would not be found"},
    {"SELECT coalesce(c.partition_id, y.partition_id)::bigint FROM (SELECT partition_id, count(*) "
     "AS n, "
     "count(*) FILTER (WHERE state = 2) AS queued FROM redrive.job_states GROUP BY partition_id) c "
     "FULL JOIN (SELECT partition_id, sum(scheduled + retrying + queued + running + parked + "
     "completed + failed + dead_letter + cancelled) AS n, sum(queued) AS queued "
     "FROM redrive.count_deltas GROUP BY partition_id) y ON y.partition_id = c.partition_id "
     "WHERE coalesce(c.n, 0) <> coalesce(y.n, 0) OR coalesce(c.queued, 0) <> "
     "coalesce(y.queued, 0) LIMIT 1",
     "the counts of this partition are not those of its jobs"},
};

/* One view of everything, however long it takes, with the plans of a large query. */
static const char *const PREPARE[] = {
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL enable_hashjoin = on",
    "SET LOCAL enable_sort = on",
};

static int ask(struct store *store, const char *sql, struct redrive_err *err)
{
    int rc = pg_send_text(store, sql, err);
    return rc == 0 ? pg_sync(store, err) : rc;
}

int postgres_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                    struct redrive_err *err)
{
    int rc = pg_is_connected(store) ? 0 : pg_connect(store, true, err);
    for (size_t i = 0; rc == 0 && i < sizeof PREPARE / sizeof PREPARE[0]; i++)
        rc = ask(store, PREPARE[i], err);
    for (size_t i = 0; rc == 0 && i < sizeof QUESTIONS / sizeof QUESTIONS[0]; i++) {
        rc = ask(store, QUESTIONS[i].sql, err);
        if (rc == 0 && PQntuples(store->results[0]) > 0)
            rc = pg_damaged(store, pg_get_int(store->results[0], 0, 0), QUESTIONS[i].finding, err);
        if (progress)
            progress(ctx);
    }
    if (pg_is_connected(store))
        (void)ask(store, "ROLLBACK", NULL);
    return rc;
}
