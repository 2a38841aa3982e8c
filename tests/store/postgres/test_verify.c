/* Rows that contradict each other are found, and do not stop other jobs. */
#include <inttypes.h>

#include "kit.h"
#include "repairing.h"
#include "scans.h"
#include "stores_postgres.h"

KIT_TEST(a_job_that_waits_in_vain_is_found_out)
{
    struct redrive_err err = {0};
    const struct store_ops *ops = store_ops(k->store);
    kit_begin(k);
    const int64_t parent = PUT(k, .children = 1);
    const int64_t child = PUT(k, .parents = 1, .open_parents = 1);
    const struct job_edge edge = {.parent = parent, .child = child};
    assert_int_equal(ops->edges_put(k->store, &edge, 1, NULL), 0);
    kit_commit(k);
    assert_int_equal(ops->verify(k->store, NULL, NULL, NULL), 0);
    stores_postgres_sql(k->url, "UPDATE redrive.edges SET parent = 99", NULL, 0);
    assert_int_equal(ops->verify(k->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "waits for a job that is not there"));
    stores_postgres_sql(k->url, "UPDATE redrive.edges SET outcome = 1", NULL, 0);
    assert_int_equal(ops->verify(k->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "as many jobs as it counts"));
}

KIT_TEST(a_store_that_is_not_whole_is_found_out)
{
    struct redrive_err err = {0};
    PUT(k, .id = STR("x"));
    stores_postgres_sql(k->url, "DELETE FROM redrive.specs", NULL, 0);
    assert_int_equal(store_ops(k->store)->verify(k->store, NULL, NULL, &err), REDRIVE_E_CORRUPT);
    assert_non_null(strstr(err.detail, "no payload"));
    /* And the handle is of use afterwards. */
    kit_begin(k);
    kit_rollback(k);
}

/* ---- Jobs that cannot be read ---------------------------------------------------------------- */

enum damage {
    LOSE_SPEC,
    LOSE_PARTITION,
    LOSE_STATE,
};

static void spoil(struct kit *k, int64_t seq, enum damage damage)
{
    static const char *const SQL[] = {
        [LOSE_SPEC] = "DELETE FROM redrive.specs WHERE seq = %" PRId64,
        [LOSE_PARTITION] = "UPDATE redrive.job_states SET partition_id = 999 WHERE seq = %" PRId64,
        [LOSE_STATE] = "UPDATE redrive.job_states SET state = 99 WHERE seq = %" PRId64,
    };
    char sql[128];
    snprintf(sql, sizeof sql, SQL[damage], seq);
    stores_postgres_sql(k->url, sql, NULL, 0);
}

static int64_t put_spoilt(struct kit *k, enum redrive_state state, const struct job_spec *spec,
                          enum damage damage)
{
    const int64_t seq = kit_put_in(k, state, spec);
    spoil(k, seq, damage);
    return seq;
}

static void check_left_out(const struct job_page *page, size_t n, int64_t first, const char *why)
{
    char number[32];
    snprintf(number, sizeof number, "job %" PRId64 ":", first);
    assert_int_equal(page->n_unreadable, n);
    assert_non_null(page->unreadable);
    assert_int_equal(page->unreadable->code, REDRIVE_E_CORRUPT);
    assert_non_null(strstr(page->unreadable->detail, number));
    assert_non_null(strstr(page->unreadable->detail, why));
}

/* Of one partition, and of several; whatever is asked for, the best that can be read are given. */
KIT_TEST(jobs_without_a_payload_do_not_stop_claims)
{
    const struct job_spec urgent = {.priority = 10};
    const struct str tasks[] = {STR("mail"), STR("sms")};
    const size_t one_each[] = {1, 1};
    const int64_t last = PUT(k, .priority = 0);
    const int64_t first_bad = put_spoilt(k, REDRIVE_STATE_QUEUED, &urgent, LOSE_SPEC);
    for (int i = 0; i < 4; i++)
        put_spoilt(k, REDRIVE_STATE_QUEUED, &urgent, LOSE_SPEC);
    const int64_t best = PUT(k, .priority = 10), second = PUT(k, .priority = 5);
    for (int partitions = 1; partitions <= 2; partitions++) {
        for (int again = 0; again < 3; again++) { /* the first claim does not know of the others */
            check_seqs(READY(k, .limit = 1), best);
            check_left_out(&k->page, 5, first_bad, "what was submitted is gone");
            assert_true(k->page.more);
            check_seqs(READY(k, .limit = 2, .tenant = STR("acme")), best, second);
        }
        check_seqs(READY(k, .tasks = tasks, .n_tasks = 2, .task_limits = one_each), best);
        if (partitions == 1)
            put_spoilt(k, REDRIVE_STATE_QUEUED, &(struct job_spec){.task = STR("sms")}, LOSE_SPEC);
    }
    check_seqs(READY(k, .limit = 100), best, second, last);
    assert_false(k->page.more);
    stores_postgres_sql(k->url,
                        "DELETE FROM redrive.job_states j WHERE NOT EXISTS (SELECT FROM "
                        "redrive.specs s WHERE s.seq = j.seq)",
                        NULL, 0);
    check_seqs(READY(k, .limit = 2), best, second);
    assert_int_equal(k->page.n_unreadable, 0);
}

/* The claim that was sent with the commit before. */
KIT_TEST(jobs_without_a_payload_do_not_stop_claims_ahead)
{
    const struct claim_filter filter = {.limit = 1};
    const struct job_spec urgent = {.priority = 10};
    const int64_t good = PUT(k, .priority = 0);
    check_seqs(READY(k, .limit = 1), good);
    const int64_t bad = put_spoilt(k, REDRIVE_STATE_QUEUED, &urgent, LOSE_SPEC);
    for (int i = 0; i < 3; i++) {
        store_look(k->store, true);
        kit_begin(k);
        check_seqs(READY(k, .limit = 1), good);
        check_left_out(&k->page, 1, bad, "what was submitted is gone");
        store_ops(k->store)->look_ahead(k->store, &filter);
        kit_commit(k);
    }
}

KIT_TEST(damaged_rows_do_not_stop_scans)
{
    const struct job_spec gated = {.breaker_key = STR("b")};
    int64_t next_ms;
    const int64_t due = put_spoilt(k, REDRIVE_STATE_SCHEDULED, NULL, LOSE_PARTITION);
    kit_put_in(k, REDRIVE_STATE_SCHEDULED, NULL);
    const int64_t ran = put_spoilt(k, REDRIVE_STATE_RUNNING, NULL, LOSE_SPEC);
    kit_put_in(k, REDRIVE_STATE_RUNNING, NULL);
    const int64_t parked = put_spoilt(k, REDRIVE_STATE_PARKED, &gated, LOSE_PARTITION);
    kit_put_in(k, REDRIVE_STATE_PARKED, &gated);
    kit_put_in(k, REDRIVE_STATE_COMPLETED, NULL);
    put_spoilt(k, REDRIVE_STATE_COMPLETED, NULL, LOSE_PARTITION);
    kit_put_in(k, REDRIVE_STATE_COMPLETED, NULL);
    for (int order = SCAN_PARKED_OLDEST; order <= SCAN_PARKED_PROBES; order++) {
        assert_int_equal(kit_parked(k, STR("b"), (enum scan_index)order, 10)->n, 1);
        check_left_out(&k->page, 1, parked, "in no partition");
        assert_false(k->page.more);
    }
    k->now_ms += 3600000;
    assert_int_equal(kit_expired(k, 10, &next_ms)->n, 1);
    check_left_out(&k->page, 1, ran, "what was submitted is gone");
    assert_int_equal(next_ms, 0);
    assert_int_equal(kit_expired(k, 1, &next_ms)->n, 0);
    assert_true(next_ms > k->now_ms);
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
    assert_int_equal(next_ms, 0);
    assert_int_equal(kit_promote(k, 10, &next_ms), 0);
    assert_int_equal(kit_scan(k, &(struct scan){.index = SCAN_DUE, .limit = 10})->n, 0);
    check_left_out(&k->page, 1, due, "in no partition");
    assert_int_equal(kit_sweep(k, STATE_BIT(COMPLETED), k->now_ms, 10), 2);
}

KIT_TEST(a_damaged_row_makes_no_move_and_is_named)
{
    struct redrive_err err = {0};
    const struct job_name name = {STR("acme"), STR("x")};
    const int64_t good = PUT(k, .priority = 1);
    const int64_t seqs[] = {PUT(k, .id = STR("x")), good};
    for (int damage = LOSE_STATE; damage >= LOSE_PARTITION; damage--) {
        spoil(k, seqs[0], (enum damage)damage);
        assert_int_equal(CHANGE(k, .seq = seqs[0], .kind = MOVE_CANCEL).code, REDRIVE_E_CORRUPT);
        assert_int_equal(store_ops(k->store)->lookup(k->store, &name, 1, &k->one, &err),
                         REDRIVE_E_CORRUPT);
        assert_non_null(strstr(err.detail, damage == LOSE_STATE ? "its state" : "in no partition"));
        assert_int_equal(store_ops(k->store)->find(k->store, seqs, 2, &k->one, &err), 0);
        check_seqs(&k->one, good);
        check_left_out(&k->one, 1, seqs[0], damage == LOSE_STATE ? "its state" : "in no partition");
    }
}

/* ---- Repair ---------------------------------------------------------------------------------- */

static void mend_first(void *ctx)
{
    stores_postgres_sql(((struct kit *)ctx)->url,
                        "UPDATE redrive.job_states SET state = 2 WHERE state = 99", NULL, 0);
}

/* What another process has put right, or changed, between keeping and removing is left alone. */
KIT_TEST(a_job_that_was_changed_meanwhile_stays)
{
    struct taken t = TAKEN;
    struct store_repaired did;
    const int64_t seq = PUT(k, .unique_key = STR("key"));
    PUT(k);
    spoil(k, seq, LOSE_STATE);
    t.meanwhile = mend_first;
    t.ctx = k;
    assert_int_equal(repair_kit(k, &t, &did), 0);
    assert_int_equal(did.jobs, 0);
    assert_int_equal(count_lines(&t), 1);
    assert_int_equal(kit_state(k, seq), REDRIVE_STATE_QUEUED);
    t.meanwhile = NULL;
    t.leave_code = REDRIVE_E_IO;
    spoil(k, seq, LOSE_STATE);
    assert_int_equal(repair_kit(k, &t, &did), REDRIVE_E_IO);
    t.leave_code = 0;
    assert_int_equal(repair_kit(k, &t, &did), 0);
    assert_int_equal(did.jobs, 1);
    assert_int_equal(did.counts, 1);
    assert_null(kit_job(k, seq));
    assert_int_equal(store_ops(k->store)->verify(k->store, NULL, NULL, NULL), 0);
    assert_int_equal(kit_queues(k, (struct str){0})->counts[0].by_state[REDRIVE_STATE_QUEUED], 1);
    PUT(k, .unique_key = STR("key"));
    buf_release(&t.lines);
}

/* What is not as the rows of jobs say is put right, whatever it is. */
KIT_TEST(what_contradicts_the_rows_is_put_right)
{
    static const char *const DAMAGES[] = {
        "DELETE FROM redrive.history",
        "INSERT INTO redrive.live_keys VALUES (1, 'x', 6)",
        "DELETE FROM redrive.live_keys",
        "INSERT INTO redrive.parked VALUES (77, 1, 'g', 1)",
        "UPDATE redrive.job_states SET lease_check_ms = NULL WHERE state = 3",
        "DELETE FROM redrive.count_deltas",
        ("INSERT INTO redrive.count_deltas SELECT partition_id, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 FROM "
         "redrive.partitions LIMIT 1"),
        "DELETE FROM redrive.job_states WHERE state = 5",
    };
    for (int s = 0; s < REDRIVE_STATE_WAITING; s++)
        kit_put_in(k, (enum redrive_state)s, NULL);
    PUT(k, .unique_key = STR("key"));
    for (size_t i = 0; i < sizeof DAMAGES / sizeof *DAMAGES; i++) {
        struct taken t = TAKEN;
        struct store_repaired did;
        struct redrive_err err = {0};
        stores_postgres_sql(k->url, DAMAGES[i], NULL, 0);
        assert_int_equal(store_ops(k->store)->verify(k->store, NULL, NULL, &err),
                         REDRIVE_E_CORRUPT);
        assert_int_equal(repair_kit(k, &t, &did), 0);
        assert_true(did.jobs + did.entries + did.counts > 0);
        if (store_ops(k->store)->verify(k->store, NULL, NULL, &err) != 0)
            fail_msg("%s: %s", DAMAGES[i], err.detail);
        assert_int_equal(repair_kit(k, &t, &did), 0);
        assert_int_equal(did.jobs + did.entries + did.counts, 0);
        buf_release(&t.lines);
    }
}
