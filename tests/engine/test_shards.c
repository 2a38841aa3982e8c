/* Several engines behind one committer: tenants stay on their shard, and callers see one store. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "engine/report/worker_row.h"
#include "store/shards/record.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/control.h"
#include "engine/verbs/settle.h"
#include "shard_field.h"

/* Stores are laid out by these numbers: they must never change. */
TEST(a_tenant_stays_on_its_shard)
{
    assert_int_equal(shard_of_tenant(STR("default"), 4), shard_of_tenant((struct str){0}, 4));
    static const struct {
        const char *tenant;
        size_t of_4, of_16;
    } KNOWN[] = {{"default", 3, 15}, {"acme", 0, 12}, {"globex", 0, 4}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        assert_int_equal(shard_of_tenant(str_of(KNOWN[i].tenant), 4), KNOWN[i].of_4);
        assert_int_equal(shard_of_tenant(str_of(KNOWN[i].tenant), 16), KNOWN[i].of_16);
    }
}

TEST(tenants_are_spread_evenly)
{
    size_t n[16] = {0};
    char name[16];
    for (size_t i = 0; i < 16000; i++)
        n[shard_of_tenant(str_of(tenant_name(i, name)), 16)]++;
    for (size_t i = 0; i < 16; i++)
        assert_in_range(n[i], 850, 1150);
}

FIELD_TEST(a_number_names_one_job_of_all_shards)
{
    fill(f);
    bool seen[N_SHARDS] = {0};
    for (size_t i = 0; i < N_JOBS; i++) {
        char name[16];
        const size_t shard = shard_of_tenant(str_of(tenant_name(i % N_TENANTS, name)), N_SHARDS);
        assert_int_equal(shard_of_seq(f->seqs[i]), shard);
        seen[shard] = true;
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(f->seqs[i], f->seqs[k]);
        assert_int_equal(f->told[i], f->seqs[i]);
    }
    for (size_t i = 0; i < N_SHARDS; i++)
        assert_true(seen[i]);
}

/* Claims come round to every shard, and settlements by number find theirs. */
FIELD_TEST(jobs_of_all_shards_are_claimed_and_settled)
{
    struct settlement items[N_TENANTS * N_EACH] = {0};
    size_t n = 0;
    bool more = true;
    fill(f);
    while (n < N_JOBS) {
        const struct claim_filter filter = {.limit = 5};
        struct claim_op claim;
        claim_op_init(&claim, &filter, STR("w"), 0);
        assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
        assert_true(claim.n > 0);
        more = claim.more;
        for (size_t i = 0; i < claim.n; i++)
            items[n++] = (struct settlement){.seq = claim.jobs[i].status.seq,
                                             .token = claim.jobs[i].status.token};
        claim_op_release(&claim);
    }
    assert_int_equal(n, N_JOBS);
    assert_true(more); /* it has not looked at the others */
    assert_int_equal(count_in(f, REDRIVE_STATE_RUNNING), N_JOBS);

    struct settle_op settle;
    struct settlement before[N_TENANTS * N_EACH];
    memcpy(before, items, sizeof items);
    settle_op_init(&settle, items, n);
    assert_int_equal(committer_run(f->committer, &settle.op, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].ret.code, 0);
        assert_int_equal(items[i].ret.state, REDRIVE_STATE_COMPLETED);
        assert_int_equal(items[i].seq, before[i].seq);
    }
    assert_int_equal(count_in(f, REDRIVE_STATE_COMPLETED), N_JOBS);

    const struct claim_filter none = {.limit = 5};
    struct claim_op claim;
    claim_op_init(&claim, &none, STR("w"), 0);
    assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 0);
    claim_op_release(&claim);
}

FIELD_TEST(a_job_is_given_its_parents_by_its_shard)
{
    struct submit_op submit;
    struct claim_op claim;
    struct settle_op settle;
    const struct claim_filter filter = {.limit = 5};
    const struct job_after after = {.id = STR("first")};
    const struct job_spec specs[] = {
        {.tenant = STR("tenant-3"), .task = STR("t"), .id = STR("first")},
        {.tenant = STR("tenant-3"), .task = STR("t"), .after = &after, .n_after = 1},
    };
    assert_int_equal(submit_op_init(&submit, committer_engine(f->committer), specs, 2, NULL), 0);
    assert_int_equal(committer_run(f->committer, &submit.op, NULL), 0);
    submit_op_release(&submit);
    for (size_t round = 0; round < 2; round++) {
        claim_op_init(&claim, &filter, STR("w"), 0);
        claim.with_parents = true;
        assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
        assert_int_equal(claim.n, 1);
        assert_int_equal(claim.jobs[0].n_parents, round);
        struct settlement item = {.seq = claim.jobs[0].status.seq,
                                  .token = claim.jobs[0].status.token};
        claim_op_release(&claim);
        settle_op_init(&settle, &item, 1);
        assert_int_equal(committer_run(f->committer, &settle.op, NULL), 0);
    }
}

FIELD_TEST(a_claim_for_a_tenant_takes_that_tenants_jobs)
{
    fill(f);
    const struct claim_filter filter = {.limit = 50, .tenant = STR("tenant-3")};
    struct claim_op claim;
    claim_op_init(&claim, &filter, STR("w"), 0);
    assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, N_EACH);
    for (size_t i = 0; i < claim.n; i++)
        assert_true(str_is(claim.jobs[i].spec.tenant, "tenant-3"));
    claim_op_release(&claim);
}

/* Some pages of a few jobs give every job once, in the order. */
static void list_in_pages(struct field *f, enum job_order order)
{
    struct job_filter filter = {.order = order, .limit = 4};
    struct job_page page = {0};
    int64_t seen[N_TENANTS * N_EACH];
    size_t n = 0;
    do {
        assert_int_equal(store_ops(f->reader)->list(f->reader, &filter, &page, NULL), 0);
        for (size_t i = 0; i < page.n; i++) {
            const int64_t seq = page.jobs[i].status.seq;
            if (n > 0 && order == ORDER_OLDEST)
                assert_true(seq > seen[n - 1]);
            if (n > 0 && order == ORDER_NEWEST)
                assert_true(seq < seen[n - 1]);
            for (size_t k = 0; k < n; k++)
                assert_int_not_equal(seq, seen[k]);
            assert_true(n < N_JOBS);
            seen[n++] = seq;
            char text[JOB_CURSOR_MAX];
            assert_int_equal(job_cursor_read(str_of(job_cursor_write(&filter, &page.jobs[i], text)),
                                             &filter, NULL),
                             0);
        }
    } while (page.more);
    assert_int_equal(n, N_JOBS);
    job_page_release(&page);
}

FIELD_TEST(a_list_in_pages_has_every_job_once)
{
    fill(f);
    list_in_pages(f, ORDER_OLDEST);
    list_in_pages(f, ORDER_NEWEST);
    list_in_pages(f, ORDER_FINISHED);

    /* In steps by number, as a search goes. */
    struct job_filter filter = {.order = ORDER_OLDEST, .limit = 100};
    struct job_page page = {0};
    size_t n = 0;
    for (int64_t until = 7; n < N_JOBS && until < 2000; until += 7) {
        filter.after_seq = until - 7;
        filter.until_seq = until;
        assert_int_equal(store_ops(f->reader)->list(f->reader, &filter, &page, NULL), 0);
        for (size_t i = 0; i < page.n; i++)
            assert_in_range(page.jobs[i].status.seq, until - 6, until);
        n += page.n;
    }
    assert_int_equal(n, N_JOBS);
    job_page_release(&page);
}

FIELD_TEST(jobs_are_found_by_name_and_by_number)
{
    struct job_page all = {0}, found = {0};
    struct attempt_page attempts[N_TENANTS * N_EACH] = {0};
    struct job_name names[N_TENANTS * N_EACH + 1];
    int64_t seqs[N_TENANTS * N_EACH];
    const struct job_filter filter = {.order = ORDER_NEWEST, .limit = 100};
    fill(f);
    assert_int_equal(store_ops(f->reader)->list(f->reader, &filter, &all, NULL), 0);
    assert_int_equal(all.n, N_JOBS);
    for (size_t i = 0; i < N_JOBS; i++) {
        names[i] = (struct job_name){all.jobs[i].spec.tenant, all.jobs[i].spec.id};
        seqs[i] = all.jobs[i].status.seq;
    }
    names[N_JOBS] = names[5];
    names[5] = (struct job_name){STR("tenant-1"), STR("no such job")};
    assert_int_equal(store_ops(f->reader)->lookup(f->reader, names, N_JOBS + 1, &found, NULL), 0);
    assert_int_equal(found.n, N_JOBS);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(found.jobs[i].status.seq, seqs[i]);
    assert_int_equal(found.jobs[N_JOBS - 1].status.seq, seqs[5]);

    const struct claim_filter one = {.limit = 1, .tenant = names[0].tenant};
    struct claim_op claim;
    claim_op_init(&claim, &one, STR("w"), 0);
    assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
    assert_int_equal(claim.n, 1);
    struct settlement s = {.seq = claim.jobs[0].status.seq, .token = claim.jobs[0].status.token};
    struct settle_op settle;
    settle_op_init(&settle, &s, 1);
    assert_int_equal(committer_run(f->committer, &settle.op, NULL), 0);
    assert_int_equal(s.ret.code, 0);
    assert_int_equal(store_ops(f->reader)->history(f->reader, seqs, N_JOBS, attempts, NULL), 0);
    for (size_t i = 0; i < N_JOBS; i++)
        assert_int_equal(attempts[i].n, seqs[i] == s.seq ? 1 : 0);
    attempt_pages_release(attempts, N_JOBS);
    claim_op_release(&claim);
    job_page_release(&all);
    job_page_release(&found);
}

FIELD_TEST(a_request_for_two_shards_is_refused)
{
    struct redrive_err err = {0};
    struct submit_op op;
    const struct job_spec specs[2] = {{.task = STR("t"), .tenant = STR("tenant-2")},
                                      {.task = STR("t"), .tenant = STR("tenant-1")}};
    assert_int_not_equal(shard_of_tenant(specs[0].tenant, N_SHARDS),
                         shard_of_tenant(specs[1].tenant, N_SHARDS));
    assert_int_equal(submit_op_init(&op, committer_engine(f->committer), specs, 2, NULL), 0);
    assert_int_equal(committer_run(f->committer, &op.op, &err), REDRIVE_E_INVALID);
    assert_non_null(strstr(err.message, "different shards"));
    submit_op_release(&op);
    assert_int_equal(count_in(f, REDRIVE_STATE_QUEUED), 0);
}

static uint64_t run_bulk(struct field *f, const struct job_filter *filter)
{
    struct bulk bulk;
    struct bulk_op op;
    unsigned chunks = 0;
    bulk_init(&bulk, MOVE_CANCEL, filter, engine_now_ms(committer_engine(f->committer)) + 1000);
    while (!bulk.finished) {
        bulk_op_init(&op, &bulk, 2);
        assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
        bulk_add(&bulk, &op);
        assert_true(++chunks < 100);
    }
    return bulk.changed;
}

FIELD_TEST(a_bulk_goes_through_every_shard)
{
    fill(f);
    const struct job_filter of_one = {.tenant = STR("tenant-4"),
                                      .states = 1u << REDRIVE_STATE_QUEUED};
    assert_int_equal(run_bulk(f, &of_one), N_EACH);
    const struct job_filter of_all = {.states = 1u << REDRIVE_STATE_QUEUED};
    assert_int_equal(run_bulk(f, &of_all), N_JOBS - N_EACH);
    assert_int_equal(count_in(f, REDRIVE_STATE_CANCELLED), N_JOBS);
}

static int do_nothing(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)op, (void)err;
    return 0;
}

FIELD_TEST(an_operation_without_a_route_is_refused)
{
    struct redrive_err err = {0};
    struct op op = {.apply = do_nothing};
    assert_int_equal(committer_run(f->committer, &op, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "not with shards yet"));
}

FIELD_TEST(an_operation_for_all_reaches_each_shard_once)
{
    static const struct op_route EVERY = {.to = ROUTE_EVERY}, ANY = {.to = ROUTE_ANY},
                                 FENCE = {.to = ROUTE_FENCE};
    struct counting_op op = {.op = {.apply = count_engines, .route = &EVERY}};
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    assert_int_equal(op.n, N_SHARDS);
    op = (struct counting_op){.op = {.apply = count_engines, .route = &ANY}};
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    assert_int_equal(op.n, 1);
    op = (struct counting_op){.op = {.apply = count_engines, .route = &FENCE}};
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    assert_int_equal(op.n, N_SHARDS); /* no claim is on its way */
}

FIELD_TEST(what_is_paused_for_a_tenant_is_on_its_shard)
{
    struct pause_op op;
    struct shared_page page = {0};
    pause_op_init(&op, STR("tenant-2"), STR("default"), true);
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    for (size_t i = 0; i < N_SHARDS; i++) {
        struct store *shard = sharded_of(f->reader)->stores[i];
        assert_int_equal(
            store_ops(shard)->shared_list(shard, SHARED_PAUSE, (struct str){0}, &page, NULL), 0);
        assert_int_equal(page.n, shard_of_tenant(STR("tenant-2"), N_SHARDS) == i);
    }
    assert_int_equal(
        store_ops(f->reader)->shared_list(f->reader, SHARED_PAUSE, STR("tenant-2"), &page, NULL),
        0);
    assert_int_equal(page.n, 1);
    shared_page_release(&page);
}

static void put_row(struct field *f, size_t shard, enum shared_kind kind, const char *value)
{
    struct store *store = sharded_of(f->reader)->stores[shard];
    const struct shared_row row = {.kind = kind, .key = STR("key"), .value = str_of(value)};
    struct move_result result = {0};
    int64_t now_ms, version;
    assert_int_equal(store_ops(store)->begin(store, 1, &now_ms, &version, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
}

/* Each shard has alerts of its own, under the same keys. */
FIELD_TEST(alerts_of_every_shard_are_listed)
{
    struct shared_page page = {0};
    put_row(f, 0, SHARED_ALERT, "{}");
    put_row(f, 2, SHARED_ALERT, "{}");
    assert_int_equal(
        store_ops(f->reader)->shared_list(f->reader, SHARED_ALERT, (struct str){0}, &page, NULL),
        0);
    assert_int_equal(page.n, 2);
    shared_page_release(&page);
}

/* One that has ended while a shard was away has left its row there. */
FIELD_TEST(rows_of_another_process_are_not_added_to_a_workers)
{
    struct worker_page page = {0};
    put_row(f, 0, SHARED_WORKER, "{\"pid\":7,\"seen_ms\":1000,\"runs\":100}");
    put_row(f, 1, SHARED_WORKER, "{\"pid\":8,\"seen_ms\":2000,\"runs\":2}");
    put_row(f, 2, SHARED_WORKER, "{\"pid\":8,\"seen_ms\":1900,\"runs\":3}");
    assert_int_equal(workers_read(f->reader, (struct str){0}, 2000, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(page.workers[0].pid, 8);
    assert_int_equal(page.workers[0].runs, 5);
    worker_page_release(&page);
}

/* ---- The record ------------------------------------------------------------------------------ */

static int open_list(const char *url, bool create, struct redrive_err *err)
{
    const struct router_options options = {.url = url, .create = create};
    struct router *router = NULL;
    int rc = router_open(&options, &router, err);
    router_close(router);
    return rc;
}

TEST(other_shards_are_refused_with_both_lists)
{
    static const char *const WRONG[] = {
        "shards:memory:rb memory:ra memory:rc",           /* another order */
        "shards:memory:ra memory:rb",                     /* fewer */
        "shards:memory:ra memory:rb memory:rc memory:rd", /* more */
        "shards:memory:ra memory:rb memory:rd",           /* a new one in the place of another */
    };
    struct store *kept;
    assert_int_equal(store_open("shards:memory:ra memory:rb memory:rc", &SET_UP, &kept, NULL), 0);
    struct redrive_err err = {0};
    assert_int_equal(open_list("shards:memory:ra memory:rb memory:rc", false, &err),
                     REDRIVE_E_NOT_FOUND);
    assert_int_equal(open_list("shards:memory:ra memory:rb memory:rc", true, &err), 0);
    assert_int_equal(open_list("shards:memory:ra memory:rb memory:rc", false, &err), 0);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        err = (struct redrive_err){0};
        assert_int_equal(open_list(WRONG[i], true, &err), REDRIVE_E_STATE);
        assert_non_null(strstr(err.detail, WRONG[i] + strlen("shards:")));
        assert_non_null(strstr(err.detail, "memory:ra memory:rb memory:rc"));
    }
    /* One of them alone would answer for all. */
    assert_int_equal(shard_record_refuse(sharded_of(kept)->stores[1], &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "shard 2 of 3"));
    store_close(kept);
}

TEST(a_store_that_has_jobs_becomes_no_shard)
{
    struct store *kept;
    struct engine_options options = {.seed = 3};
    struct engine *engine;
    struct submit_op op;
    struct redrive_err err = {0};
    const struct job_spec spec = {.task = STR("t")};
    assert_int_equal(store_open("shards:memory:ja memory:jb", &SET_UP, &kept, NULL), 0);
    assert_int_equal(store_open("memory:jb", &SET_UP, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &engine, NULL), 0);
    assert_int_equal(submit_op_init(&op, engine, &spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(engine, &op.op, NULL), 0);
    submit_op_release(&op);
    engine_close(engine);
    assert_int_equal(open_list("shards:memory:ja memory:jb", true, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "has jobs"));
    assert_non_null(strstr(err.detail, "shard 2"));
    store_close(kept);
}

TEST(lists_of_shards_have_bounds)
{
    struct shard_urls urls;
    struct redrive_err err = {0};
    char many[256] = "shards:";
    for (int i = 0; i < 17; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), " memory:m%d", i);
    const char *const wrong[] = {"shards:", "shards:memory:a", "shards:memory:a memory:a", many,
                                 "shards:memory:a shards:memory:b"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(shard_urls_init(&urls, wrong[i], &err), REDRIVE_E_INVALID);
        shard_urls_release(&urls);
    }
    assert_int_equal(shard_urls_init(&urls, "sqlite:a b.db", &err), 0);
    assert_int_equal(urls.n, 1);
    assert_string_equal(urls.urls[0], "sqlite:a b.db");
    shard_urls_release(&urls);
}
