/* A store into another one: from memory into the kind under test, and from that kind into itself.
 */
#include "engine/copy/copy.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/rng.h"
#include "dump.h"
#include "fault.h"
#include "kit.h"
#include "random_transaction.h"

#define DUMP_MAX ((size_t)1 << 23)

/* ---- Two stores ------------------------------------------------------------------------------ */

struct pair {
    struct kit from;
    struct kit to;
    struct copy_options options;
    struct copy_report report;
    struct redrive_err err;
};

static void pair_open(struct pair *p, const char *from)
{
    *p = (struct pair){0};
    kit_open(&p->from, from);
    kit_open(&p->to, stores_name());
    p->options = (struct copy_options){
        .from = p->from.store, .to = p->to.store, .name = "the source", .now_ms = KIT_START_MS};
}

static void pair_close(struct pair *p)
{
    kit_close(&p->from);
    kit_close(&p->to);
}

/* How many records of a kind the source has. */
static int64_t rows_of(const struct pair *p, int kind)
{
    return p->report.findings.from.sums[kind].rows;
}

static int pair_try(struct pair *p)
{
    return copy_run(&p->options, &p->report, &p->err);
}

/* Runs, and finds both to be the same. */
static void pair_run(struct pair *p)
{
    if (pair_try(p) < 0)
        fail_msg("%s; %s", p->err.message, p->err.detail);
    const struct findings *f = &p->report.findings;
    const struct content_sum from = tally_total(&f->from);
    assert_string_equal(f->difference, "");
    assert_int_equal(f->differing + f->missing + f->others, 0);
    assert_true(content_same(&from, &f->to));
}

/* Everything that is to be the same, a line each: not versions of rows, workers and the mark. */
static void write_content(struct store *store, struct buf *ret)
{
    struct buf all;
    buf_init(&all, DUMP_MAX);
    dump_store(store, &all);
    for (const char *line = buf_cstr(&all), *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        const struct str s = {line, (size_t)(end - line)};
        const char *version = str_starts_with(s, STR("shared")) ? strstr(line, " version=") : NULL;
        if (str_starts_with(s, STR("shared 5")) || str_contains(s, STR(COPY_COUNTER)))
            continue;
        const char *after =
            version && version < end ? version + 1 + strcspn(version + 1, " \n") : NULL;
        buf_add(ret, line, (size_t)((after ? version : end) - line));
        if (after)
            buf_add(ret, after, (size_t)(end - after));
        buf_putc(ret, '\n');
    }
    buf_release(&all);
}

static void check_same(struct store *expected, struct store *is)
{
    struct buf a, b;
    buf_init(&a, DUMP_MAX);
    buf_init(&b, DUMP_MAX);
    write_content(expected, &a);
    write_content(is, &b);
    assert_string_equal(buf_cstr(&a), buf_cstr(&b));
    buf_release(&a);
    buf_release(&b);
}

/* Jobs in every state, rows of every kind, counters and keys, as random transactions leave them. */
static void fill(struct kit *kit, uint64_t transactions)
{
    struct random_side side;
    struct buf answers;
    buf_init(&answers, (size_t)1 << 20);
    random_side_init(&side, kit->store, &answers);
    for (uint64_t transaction = 0; transaction < transactions; transaction++)
        random_transaction(&side, rng_mix(transaction));
    random_side_release(&side);
    buf_release(&answers);
}

static void put_many(struct kit *kit, const char *prefix, int n)
{
    char id[32];
    kit_begin(kit);
    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof id, "%s-%d", prefix, i);
        PUT(kit, .id = str_of(id));
    }
    kit_commit(kit);
}

static int64_t counter_of(struct kit *kit, const char *name)
{
    int64_t sum = 0;
    assert_int_equal(
        store_ops(kit->store)->counters_list(kit->store, (struct str){0}, &kit->counters, NULL), 0);
    for (size_t i = 0; i < kit->counters.n; i++)
        if (str_is(kit->counters.counters[i].name, name))
            sum += kit->counters.counters[i].value;
    return sum;
}

static void put_row(struct kit *kit, enum shared_kind kind, const char *key, const char *value)
{
    const struct shared_row row = {
        .kind = kind, .tenant = STR("acme"), .key = str_of(key), .value = str_of(value)};
    assert_int_equal(kit_shared_put(kit, &row), 0);
}

static void change_row(struct kit *kit, enum shared_kind kind, const char *value)
{
    struct shared_row row = kit_shared(kit, kind, (struct str){0})->rows[0];
    row.value = str_of(value);
    assert_int_equal(kit_shared_put(kit, &row), 0);
}

/* ---- It arrives ------------------------------------------------------------------------------ */

static void check_everything_arrives(const char *from)
{
    struct pair p;
    pair_open(&p, from);
    fill(&p.from, 400);
    for (int kind = SHARED_BREAKER; kind < SHARED_KIND_COUNT; kind++)
        put_row(&p.from, (enum shared_kind)kind, "row", "value");
    pair_run(&p);
    check_same(p.from.store, p.to.store);
    /* How many there are follows from what a compiler evaluates first. */
    assert_true(rows_of(&p, RECORD_JOB) > 10 && p.report.findings.from.attempts > 5 &&
                rows_of(&p, RECORD_KEY) > 5);
    assert_true(rows_of(&p, RECORD_COUNTER) > 2);
    for (int kind = SHARED_BREAKER; kind < SHARED_KIND_COUNT; kind++)
        assert_int_equal(rows_of(&p, kind) > 0, kind != SHARED_WORKER);
    assert_int_equal(p.report.copied, rows_of(&p, RECORD_JOB));
    uint64_t all = 0;
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        all += p.report.findings.from.by_state[state];
    assert_int_equal(all, rows_of(&p, RECORD_JOB));
    assert_int_equal(counter_of(&p.to, COPY_COUNTER), 1);
    pair_close(&p);
}

static void everything_arrives_from_memory(void **state)
{
    (void)state;
    check_everything_arrives("memory");
}

static void everything_arrives_from_the_same_kind(void **state)
{
    (void)state;
    check_everything_arrives(stores_name());
}

static void the_source_is_left_as_it_is(void **state)
{
    (void)state;
    struct pair p;
    struct buf before, after;
    buf_init(&before, DUMP_MAX);
    buf_init(&after, DUMP_MAX);
    pair_open(&p, stores_name());
    fill(&p.from, 150);
    dump_store(p.from.store, &before);
    pair_run(&p);
    dump_store(p.from.store, &after);
    assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    buf_release(&before);
    buf_release(&after);
    pair_close(&p);
}

static void an_empty_store_arrives(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    kit_pause(&p.from, STR("acme"), STR("main"));
    pair_run(&p);
    assert_int_equal(kit_shared(&p.to, SHARED_PAUSE, (struct str){0})->n, 1);
    pair_close(&p);
}

static void many_pages_arrive_in_order(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    put_many(&p.from, "job", 1300);
    pair_run(&p);
    check_same(p.from.store, p.to.store);
    pair_close(&p);
}

/* What says where a store came from is no part of what is in it. */
static void a_chain_of_transfers_has_the_same_content_at_every_step(void **state)
{
    (void)state;
    struct pair first, second;
    pair_open(&first, "memory");
    pair_open(&second, "memory");
    fill(&first.from, 100);
    pair_run(&first);
    second.options.from = first.to.store;
    second.options.name = "the second";
    pair_run(&second);
    assert_true(rows_of(&first, RECORD_COUNTER) > 2);
    assert_int_equal(rows_of(&second, RECORD_COUNTER), rows_of(&first, RECORD_COUNTER));
    assert_int_equal(second.report.findings.from.attempts, first.report.findings.from.attempts);
    assert_int_equal(rows_of(&second, RECORD_KEY), rows_of(&first, RECORD_KEY));
    assert_true(content_same(&second.report.findings.to, &first.report.findings.to));
    check_same(first.from.store, second.to.store);
    /* The counters of the first are in the last, and are not added to it once more. */
    const int64_t before = counter_of(&second.to, "completed");
    first.options.to = second.to.store;
    first.options.into_existing = true;
    pair_run(&first);
    assert_int_equal(counter_of(&second.to, "completed"), before);
    check_same(first.from.store, second.to.store);
    pair_close(&first);
    pair_close(&second);
}

static void workers_stay_behind(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    put_row(&p.from, SHARED_WORKER, "w1", "{\"seen_ms\":1}");
    pair_run(&p);
    assert_int_equal(kit_shared(&p.to, SHARED_WORKER, (struct str){0})->n, 0);
    pair_close(&p);
}

static void a_dry_run_counts_and_writes_nothing(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    fill(&p.from, 150);
    p.options.dry_run = true;
    for (int with_destination = 0; with_destination < 2; with_destination++) {
        p.options.to = with_destination ? p.to.store : NULL;
        assert_int_equal(pair_try(&p), 0);
        assert_int_equal(rows_of(&p, RECORD_JOB), LIST(&p.from)->n);
        assert_int_equal(p.report.copied, 0);
        assert_true(findings_are_same(&p.report.findings) && rows_of(&p, RECORD_COUNTER) > 0);
    }
    assert_int_equal(LIST(&p.to)->n, 0);
    assert_int_equal(counter_of(&p.to, COPY_COUNTER), 0);
    pair_close(&p);
}

/* ---- Again ----------------------------------------------------------------------------------- */

static void a_second_run_changes_nothing(void **state)
{
    (void)state;
    struct pair p;
    struct buf before, after;
    buf_init(&before, DUMP_MAX);
    buf_init(&after, DUMP_MAX);
    pair_open(&p, "memory");
    fill(&p.from, 200);
    pair_run(&p);
    dump_store(p.to.store, &before);
    pair_run(&p);
    dump_store(p.to.store, &after);
    assert_int_equal(p.report.copied, 0);
    assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    buf_release(&before);
    buf_release(&after);
    pair_close(&p);
}

static bool stop_after_the_first_page(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)phase;
    return done == total;
}

/* As a client that does not know of the move. */
static bool submit_meanwhile(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct kit *other = ctx;
    (void)done;
    (void)total;
    if (strcmp(phase, "copy") == 0 && other->store) {
        put_many(other, "late", 1);
        kit_close(other);
        *other = (struct kit){0};
    }
    return true;
}

static void what_comes_meanwhile_is_told(void **state)
{
    (void)state;
    struct pair p;
    struct kit other;
    pair_open(&p, stores_name());
    if (!(store_ops(p.from.store)->capabilities & STORE_SHARED)) {
        pair_close(&p);
        skip();
    }
    put_many(&p.from, "job", 10);
    kit_join(&other, &p.from);
    p.options.progress = submit_meanwhile;
    p.options.ctx = &other;
    assert_int_equal(pair_try(&p), 0);
    /* It is missing where a snapshot was copied. */
    assert_int_equal(p.report.copied + p.report.findings.missing, 11);
    pair_close(&p);
}

static void an_interrupted_run_is_gone_on_with(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    put_many(&p.from, "job", 300);
    p.options.progress = stop_after_the_first_page;
    assert_int_equal(pair_try(&p), REDRIVE_E_CANCELLED);
    const uint64_t before = p.report.copied;
    assert_true(before > 0 && before < 300);
    p.options.progress = NULL;
    pair_run(&p);
    assert_int_equal(p.report.copied, 300 - before);
    check_same(p.from.store, p.to.store);
    pair_close(&p);
}

/* Wherever the destination fails, before a call or after a commit, and for good. */
static void whatever_fails_the_next_run_ends_it(void **state)
{
    (void)state;
    for (int after_commit = 0; after_commit < 2; after_commit++) {
        for (unsigned long at = 1;; at += at < 40 ? fault_step() : 17) {
            struct pair p;
            struct fault fault;
            pair_open(&p, "memory");
            put_many(&p.from, "job", 70);
            fill(&p.from, 40);
            fault_init(&fault, p.to.store);
            fault.fail_at = at;
            fault.from_then_on = true;
            fault.after_commit = after_commit != 0;
            p.options.to = (struct store *)(void *)&fault;
            const int rc = pair_try(&p);
            const bool met = fault.met;
            store_ops(p.options.to)->rollback(p.options.to);
            p.options.to = p.to.store;
            if (met)
                assert_int_equal(rc, REDRIVE_E_IO);
            if (met && p.report.copied > 0)
                assert_non_null(strstr(p.err.hint, "the same command"));
            pair_run(&p);
            check_same(p.from.store, p.to.store);
            pair_close(&p);
            if (!met)
                break;
        }
    }
}

/* A destination that others get in the way of: at the nth call of its transactions, or at all. */
struct busy {
    struct wrap wrap;
    unsigned long calls;
    unsigned long at; /* counts from 1; 0: always */
    bool in_transaction;
};

static int be_busy(struct wrap *wrap, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)wrap;
    if (!b->in_transaction || (++b->calls != b->at && b->at != 0))
        return 0;
    return err_set(err, REDRIVE_E_CANCELLED, "others were in the way");
}

static int busy_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_version, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)store;
    b->in_transaction = true;
    int rc = be_busy(&b->wrap, err);
    b->in_transaction = rc == 0;
    return rc < 0 ? rc
                  : store_ops(b->wrap.inner)
                        ->begin(b->wrap.inner, now_ms, ret_now_ms, ret_version, err);
}

static int busy_commit(struct store *store, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)store;
    int rc = be_busy(&b->wrap, err);
    b->in_transaction = rc < 0;
    return rc < 0 ? rc : store_ops(b->wrap.inner)->commit(b->wrap.inner, err);
}

static void busy_rollback(struct store *store)
{
    struct busy *b = (struct busy *)(void *)store;
    b->in_transaction = false;
    store_ops(b->wrap.inner)->rollback(b->wrap.inner);
}

static void pair_open_busy(struct pair *p, struct busy *busy, unsigned long at)
{
    pair_open(p, "memory");
    *busy = (struct busy){.at = at};
    wrap_init(&busy->wrap, p->to.store);
    busy->wrap.before = be_busy;
    busy->wrap.ops.begin = busy_begin;
    busy->wrap.ops.commit = busy_commit;
    busy->wrap.ops.rollback = busy_rollback;
    p->options.to = wrap_store(&busy->wrap);
}

static void transactions_that_others_were_in_the_way_of_are_tried_again(void **state)
{
    (void)state;
    bool met = true;
    for (unsigned long at = 1; met; at += at < 20 ? fault_step() : 7) {
        struct pair p;
        struct busy busy;
        pair_open_busy(&p, &busy, at);
        put_many(&p.from, "job", 70);
        fill(&p.from, 40);
        pair_run(&p);
        met = busy.calls >= at;
        assert_int_equal(p.report.copied, rows_of(&p, RECORD_JOB));
        check_same(p.from.store, p.to.store);
        pair_close(&p);
        assert_true(met || at > 20);
    }
}

/* As if another process had put the row between the read and the put. */
static int refuse_the_first_put(struct store *store, const struct shared_row *rows, size_t n,
                                struct move_result *ret, struct redrive_err *err)
{
    struct busy *b = (struct busy *)(void *)store;
    int rc = store_ops(b->wrap.inner)->shared_put(b->wrap.inner, rows, n, ret, err);
    if (rc == 0 && b->calls++ == 0)
        ret[0].code = REDRIVE_E_STATE;
    return rc;
}

static void a_row_that_is_refused_is_put_again(void **state)
{
    (void)state;
    struct pair p;
    struct busy busy = {0};
    pair_open(&p, "memory");
    put_row(&p.from, SHARED_BREAKER, "payments", "{}");
    wrap_init(&busy.wrap, p.to.store);
    busy.wrap.ops.shared_put = refuse_the_first_put;
    p.options.to = wrap_store(&busy.wrap);
    pair_run(&p);
    assert_int_equal(busy.calls, 2);
    assert_int_equal(kit_shared(&p.to, SHARED_BREAKER, (struct str){0})->n, 1);
    pair_close(&p);
}

static void a_destination_that_is_never_free_is_given_up(void **state)
{
    (void)state;
    struct pair p;
    struct busy busy;
    pair_open_busy(&p, &busy, 0);
    put_many(&p.from, "job", 3);
    assert_int_equal(pair_try(&p), REDRIVE_E_IO);
    assert_int_equal(p.report.copied, 0);
    pair_close(&p);
}

static void check_sameness(struct store *a, struct store *b, bool expected)
{
    bool is_same = !expected;
    assert_int_equal(copy_is_same_store(a, b, KIT_START_MS, &is_same, NULL), 0);
    assert_int_equal(is_same, expected);
}

static void two_handles_on_one_store_are_found_out(void **state)
{
    (void)state;
    struct pair p;
    struct kit again;
    struct busy busy;
    pair_open_busy(&p, &busy, 2);
    kit_join(&again, &p.to);
    put_row(&p.from, SHARED_WORKER, "worker", "{}");
    put_row(&p.to, SHARED_WORKER, "worker", "{}");
    check_sameness(p.to.store, again.store, true);
    check_sameness(again.store, p.options.to, true);
    check_sameness(p.from.store, p.to.store, false);
    check_sameness(p.to.store, p.from.store, false);
    /* And nothing of it stays. */
    assert_int_equal(kit_shared(&p.to, SHARED_WORKER, (struct str){0})->n, 1);
    assert_int_equal(kit_shared(&p.from, SHARED_WORKER, (struct str){0})->n, 1);
    kit_close(&again);
    pair_close(&p);
}

/* ---- What differs is told, and left ---------------------------------------------------------- */

static void check_difference(struct pair *p, const char *text)
{
    assert_int_equal(pair_try(p), 0);
    assert_false(findings_are_same(&p->report.findings));
    if (!strstr(p->report.findings.difference, text))
        fail_msg("'%s' does not say '%s'", p->report.findings.difference, text);
}

static void a_job_that_was_worked_on_is_told_and_left(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    put_many(&p.from, "job", 3);
    pair_run(&p);
    kit_start(&p.to, LIST(&p.to)->jobs[1].status.seq);
    check_difference(&p, "job job-1 of tenant acme: state");
    assert_int_equal(p.report.findings.differing, 1);
    assert_int_equal(p.report.findings.missing, 0);
    const struct content_sum from = tally_total(&p.report.findings.from);
    assert_false(content_same(&from, &p.report.findings.to));
    assert_int_equal(LIST(&p.to)->jobs[1].status.state, REDRIVE_STATE_RUNNING);
    pair_close(&p);
}

/* The field is named, in the job and in its history. */
static void a_difference_in_the_history_is_found(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    for (int i = 0; i < 2; i++) {
        struct kit *kit = i == 0 ? &p.from : &p.to;
        int64_t seq = PUT(kit, .id = STR("a"));
        for (int run = 0; run < 2; run++) {
            uint64_t token = kit_start(kit, seq);
            kit_settle(kit, seq, token, decision_retrying(i == 1 && run == 0 ? 1 : 0));
            kit->now_ms += 5;
            kit_promote(kit, 1, &(int64_t){0});
        }
    }
    check_difference(&p, "job a of tenant acme: attempt delay_ms");
    pair_close(&p);
}

static void a_planted_difference_is_found_in_every_part(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "breaker smtp of tenant acme is another",
        "counter completed  of tenant acme: 7 in the source, 8 in the destination",
        "unique key k1 of tenant acme is held by another job",
    };
    for (size_t part = 0; part < sizeof TEXTS / sizeof TEXTS[0]; part++) {
        struct pair p;
        pair_open(&p, "memory");
        PUT(&p.from, .id = STR("a"));
        put_row(&p.from, SHARED_BREAKER, "smtp", "closed");
        kit_count(&p.from, (struct counter){STR("acme"), STR("completed"), {0}, 7});
        kit_import_keys(&p.from, &(struct remembered_key){STR("acme"), STR("k1"), STR("x"), 5}, 1);
        if (part == 2)
            kit_import_keys(&p.to, &(struct remembered_key){STR("acme"), STR("k1"), STR("y"), 5},
                            1);
        else
            pair_run(&p);
        if (part == 0)
            change_row(&p.to, SHARED_BREAKER, "open");
        if (part == 1)
            kit_count(&p.to, (struct counter){STR("acme"), STR("completed"), {0}, 1});
        check_difference(&p, TEXTS[part]);
        assert_int_equal(p.report.findings.others, 1);
        pair_close(&p);
    }
}

static void rows_of_a_store_that_was_only_set_up_are_replaced(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    PUT(&p.from, .id = STR("a"));
    put_row(&p.from, SHARED_CRON, "nightly", "ticked at 5");
    put_row(&p.to, SHARED_CRON, "nightly", "never ticked");
    put_row(&p.to, SHARED_TASK, "mail", "{}");
    pair_run(&p);
    check_str(kit_shared(&p.to, SHARED_CRON, (struct str){0})->rows[0].value, "ticked at 5");
    assert_int_equal(kit_shared(&p.to, SHARED_TASK, (struct str){0})->n, 1);
    pair_close(&p);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void workers_that_are_alive_are_a_reason_not_to(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct pair p;
        char value[64];
        pair_open(&p, "memory");
        PUT(&p.from, .id = STR("a"));
        snprintf(value, sizeof value, "{\"pid\":7,\"seen_ms\":%" PRId64 "}", KIT_START_MS - 1000);
        put_row(side == 0 ? &p.from : &p.to, SHARED_WORKER, "w1", value);
        assert_int_equal(pair_try(&p), REDRIVE_E_STATE);
        assert_non_null(
            strstr(p.err.message, side == 0 ? "alive on the source" : "alive on the destination"));
        assert_int_equal(LIST(&p.to)->n, 0);
        p.options.despite_workers = true;
        pair_run(&p);
        pair_close(&p);
    }
}

static void the_first_three_of_the_workers_are_named(void **state)
{
    (void)state;
    static const struct {
        int n;
        const char *detail;
    } CASES[] = {
        {2, "w0, process 7 on a; w1"},
        {3, "w0, process 7 on a; w1; w2, process 7 on a"},
        {5, "w0, process 7 on a; w1; w2, process 7 on a; and 2 more"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct pair p;
        pair_open(&p, "memory");
        for (int w = 0; w < CASES[i].n; w++) {
            char name[16], value[96];
            snprintf(name, sizeof name, "w%d", w);
            snprintf(value, sizeof value, "{%s\"seen_ms\":%" PRId64 "}",
                     w == 1 ? "" : "\"pid\":7,\"host\":\"a\",", KIT_START_MS - 1000);
            put_row(&p.from, SHARED_WORKER, name, value);
        }
        assert_int_equal(pair_try(&p), REDRIVE_E_STATE);
        assert_int_equal(p.err.message[0], '0' + CASES[i].n);
        assert_non_null(strstr(p.err.message, "workers are alive on the source"));
        assert_string_equal(p.err.detail, CASES[i].detail);
        assert_non_null(strstr(p.err.hint, "stop them"));
        pair_close(&p);
    }
}

static void jobs_of_its_own_are_a_reason_not_to(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    PUT(&p.from, .id = STR("a"));
    PUT(&p.to, .id = STR("a"), .tenant = STR("zeta"));
    assert_int_equal(pair_try(&p), REDRIVE_E_STATE);
    assert_non_null(strstr(p.err.detail, "a of tenant zeta"));
    assert_int_equal(LIST(&p.to)->n, 1);
    pair_close(&p);
}

static void an_existing_store_can_be_added_to(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    put_many(&p.from, "mine", 5);
    put_many(&p.to, "other", 4);
    put_row(&p.from, SHARED_BREAKER, "smtp", "closed");
    put_row(&p.to, SHARED_BREAKER, "smtp", "open");
    put_row(&p.from, SHARED_BREAKER, "sms", "closed");
    kit_count(&p.from, (struct counter){STR("acme"), STR("completed"), {0}, 7});
    kit_count(&p.to, (struct counter){STR("acme"), STR("completed"), {0}, 100});
    p.options.into_existing = true;
    for (int run = 0; run < 2; run++) {
        assert_int_equal(pair_try(&p), 0);
        assert_string_equal(p.report.findings.difference, "");
        assert_int_equal(p.report.copied, run == 0 ? 5 : 0);
        assert_int_equal(LIST(&p.to)->n, 9);
        assert_int_equal(counter_of(&p.to, "completed"), 107);
        struct shared_page *rows = kit_shared(&p.to, SHARED_BREAKER, (struct str){0});
        assert_int_equal(rows->n, 2);
        check_str(rows->rows[1].value, "open");
    }
    pair_close(&p);
}

/* How often a store was asked, and how far the phases have come. */
struct watched {
    struct wrap wrap;
    unsigned long calls;
    uint64_t looked, copied, checked;
};

static int count_call(struct wrap *wrap, struct redrive_err *err)
{
    (void)err;
    ((struct watched *)(void *)wrap)->calls++;
    return 0;
}

static bool watch_progress(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct watched *w = ctx;
    uint64_t *of = *phase == 'l'                ? &w->looked
                   : strcmp(phase, "copy") == 0 ? &w->copied
                                                : &w->checked;
    assert_true(done > *of && done <= total);
    *of = done;
    return true;
}

/* However many jobs they have, both stores are asked about a page at a time. */
static void a_question_is_about_many_jobs(void **state)
{
    (void)state;
    for (int into_existing = 0; into_existing < 2; into_existing++) {
        struct pair p;
        struct watched from = {0}, to = {0};
        pair_open(&p, "memory");
        put_many(&p.from, "job", 1300);
        pair_run(&p);
        wrap_init(&from.wrap, p.from.store);
        wrap_init(&to.wrap, p.to.store);
        from.wrap.before = to.wrap.before = count_call;
        p.options.from = wrap_store(&from.wrap);
        p.options.to = wrap_store(&to.wrap);
        p.options.into_existing = into_existing != 0;
        p.options.progress = watch_progress;
        p.options.ctx = &to;
        pair_run(&p);
        assert_true(from.calls < 100 && to.calls < 100);
        assert_int_equal(to.looked, into_existing ? 0 : 1300);
        assert_int_equal(to.copied, 1300);
        assert_int_equal(to.checked, 1300);
        pair_close(&p);
    }
}

static void a_key_that_is_taken_leaves_a_job_behind(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "memory");
    PUT(&p.from, .id = STR("a"), .unique_key = STR("k"));
    PUT(&p.from, .id = STR("b"));
    PUT(&p.to, .id = STR("other"), .unique_key = STR("k"));
    p.options.into_existing = true;
    check_difference(&p, "job a of tenant acme is not there");
    assert_int_equal(p.report.findings.missing, 1);
    assert_int_equal(p.report.copied, 1);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(everything_arrives_from_memory),
        T(everything_arrives_from_the_same_kind),
        T(the_source_is_left_as_it_is),
        T(an_empty_store_arrives),
        T(many_pages_arrive_in_order),
        T(a_chain_of_transfers_has_the_same_content_at_every_step),
        T(workers_stay_behind),
        T(a_dry_run_counts_and_writes_nothing),
        T(a_second_run_changes_nothing),
        T(what_comes_meanwhile_is_told),
        T(an_interrupted_run_is_gone_on_with),
        T(whatever_fails_the_next_run_ends_it),
        T(transactions_that_others_were_in_the_way_of_are_tried_again),
        T(a_row_that_is_refused_is_put_again),
        T(a_destination_that_is_never_free_is_given_up),
        T(two_handles_on_one_store_are_found_out),
        T(a_job_that_was_worked_on_is_told_and_left),
        T(a_difference_in_the_history_is_found),
        T(a_planted_difference_is_found_in_every_part),
        T(rows_of_a_store_that_was_only_set_up_are_replaced),
        T(workers_that_are_alive_are_a_reason_not_to),
        T(the_first_three_of_the_workers_are_named),
        T(jobs_of_its_own_are_a_reason_not_to),
        T(an_existing_store_can_be_added_to),
        T(a_question_is_about_many_jobs),
        T(a_key_that_is_taken_leaves_a_job_behind),
    };
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
