/* A store into another one: from memory into the kind under test, and from that kind into itself.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "dump.h"
#include "pair.h"
#include "wrap.h"

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

TEST(everything_arrives_from_memory)
{
    check_everything_arrives("memory");
}

TEST(everything_arrives_from_the_same_kind)
{
    check_everything_arrives(stores_name());
}

TEST(the_source_is_left_as_it_is)
{
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

PAIR_TEST(an_empty_store_arrives, "memory")
{
    ts_pause(&p->from, STR("acme"), STR("main"));
    pair_run(p);
    assert_int_equal(ts_shared(&p->to, SHARED_PAUSE, (struct str){0})->n, 1);
}

PAIR_TEST(many_pages_arrive_in_order, "memory")
{
    put_many(&p->from, "job", 1300);
    pair_run(p);
    check_same(p->from.store, p->to.store);
}

/* What says where a store came from is no part of what is in it. */
TEST(a_chain_of_transfers_has_the_same_content_at_every_step)
{
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

PAIR_TEST(workers_stay_behind, "memory")
{
    put_row(&p->from, SHARED_WORKER, "w1", "{\"seen_ms\":1}");
    pair_run(p);
    assert_int_equal(ts_shared(&p->to, SHARED_WORKER, (struct str){0})->n, 0);
}

PAIR_TEST(a_dry_run_counts_and_writes_nothing, "memory")
{
    fill(&p->from, 150);
    p->options.dry_run = true;
    for (int with_destination = 0; with_destination < 2; with_destination++) {
        p->options.to = with_destination ? p->to.store : NULL;
        assert_int_equal(pair_try(p), 0);
        assert_int_equal(rows_of(p, RECORD_JOB), LIST(&p->from)->n);
        assert_int_equal(p->report.copied, 0);
        assert_true(findings_are_same(&p->report.findings) && rows_of(p, RECORD_COUNTER) > 0);
    }
    assert_int_equal(LIST(&p->to)->n, 0);
    assert_int_equal(counter_of(&p->to, COPY_COUNTER), 0);
}

/* ---- Again ----------------------------------------------------------------------------------- */

TEST(a_second_run_changes_nothing)
{
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
    struct test_store *other = ctx;
    (void)done;
    (void)total;
    if (strcmp(phase, "copy") == 0 && other->store) {
        put_many(other, "late", 1);
        ts_close(other);
        *other = (struct test_store){0};
    }
    return true;
}

PAIR_TEST(what_comes_meanwhile_is_told, stores_name())
{
    struct test_store other;
    if (!(store_ops(p->from.store)->capabilities & STORE_SHARED)) {
        pair_close(p);
        skip();
    }
    put_many(&p->from, "job", 10);
    ts_join(&other, &p->from);
    p->options.progress = submit_meanwhile;
    p->options.ctx = &other;
    assert_int_equal(pair_try(p), 0);
    /* It is missing where a snapshot was copied. */
    assert_int_equal(p->report.copied + p->report.findings.missing, 11);
}

PAIR_TEST(an_interrupted_run_is_gone_on_with, "memory")
{
    put_many(&p->from, "job", 300);
    p->options.progress = stop_after_the_first_page;
    assert_int_equal(pair_try(p), REDRIVE_E_CANCELLED);
    const uint64_t before = p->report.copied;
    assert_true(before > 0 && before < 300);
    p->options.progress = NULL;
    pair_run(p);
    assert_int_equal(p->report.copied, 300 - before);
    check_same(p->from.store, p->to.store);
}

/* ---- What differs is told, and left ---------------------------------------------------------- */

static void check_difference(struct pair *p, const char *text)
{
    assert_int_equal(pair_try(p), 0);
    assert_false(findings_are_same(&p->report.findings));
    if (!strstr(p->report.findings.difference, text))
        fail_msg("'%s' does not say '%s'", p->report.findings.difference, text);
}

PAIR_TEST(a_job_that_was_worked_on_is_told_and_left, "memory")
{
    put_many(&p->from, "job", 3);
    pair_run(p);
    ts_start(&p->to, LIST(&p->to)->jobs[1].status.seq);
    check_difference(p, "job job-1 of tenant acme: state");
    assert_int_equal(p->report.findings.differing, 1);
    assert_int_equal(p->report.findings.missing, 0);
    const struct content_sum from = tally_total(&p->report.findings.from);
    assert_false(content_same(&from, &p->report.findings.to));
    assert_int_equal(LIST(&p->to)->jobs[1].status.state, REDRIVE_STATE_RUNNING);
}

/* The field is named, in the job and in its history. */
PAIR_TEST(a_difference_in_the_history_is_found, "memory")
{
    for (int i = 0; i < 2; i++) {
        struct test_store *ts = i == 0 ? &p->from : &p->to;
        int64_t seq = PUT(ts, .id = STR("a"));
        for (int run = 0; run < 2; run++) {
            uint64_t token = ts_start(ts, seq);
            ts_settle(ts, seq, token, decision_retrying(i == 1 && run == 0 ? 1 : 0));
            ts->now_ms += 5;
            ts_promote(ts, 1, &(int64_t){0});
        }
    }
    check_difference(p, "job a of tenant acme: attempt delay_ms");
}

TEST(a_planted_difference_is_found_in_every_part)
{
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
        ts_count(&p.from, (struct counter){STR("acme"), STR("completed"), {0}, 7});
        ts_import_keys(&p.from, &(struct remembered_key){STR("acme"), STR("k1"), STR("x"), 5}, 1);
        if (part == 2)
            ts_import_keys(&p.to, &(struct remembered_key){STR("acme"), STR("k1"), STR("y"), 5}, 1);
        else
            pair_run(&p);
        if (part == 0)
            change_row(&p.to, SHARED_BREAKER, "open");
        if (part == 1)
            ts_count(&p.to, (struct counter){STR("acme"), STR("completed"), {0}, 1});
        check_difference(&p, TEXTS[part]);
        assert_int_equal(p.report.findings.others, 1);
        pair_close(&p);
    }
}

PAIR_TEST(rows_of_a_store_that_was_only_set_up_are_replaced, "memory")
{
    PUT(&p->from, .id = STR("a"));
    put_row(&p->from, SHARED_CRON, "nightly", "ticked at 5");
    put_row(&p->to, SHARED_CRON, "nightly", "never ticked");
    put_row(&p->to, SHARED_TASK, "mail", "{}");
    pair_run(p);
    check_str(ts_shared(&p->to, SHARED_CRON, (struct str){0})->rows[0].value, "ticked at 5");
    assert_int_equal(ts_shared(&p->to, SHARED_TASK, (struct str){0})->n, 1);
}

/* ---- What is refused ------------------------------------------------------------------------- */

TEST(workers_that_are_alive_are_a_reason_not_to)
{
    for (int side = 0; side < 2; side++) {
        struct pair p;
        char value[64];
        pair_open(&p, "memory");
        PUT(&p.from, .id = STR("a"));
        snprintf(value, sizeof value, "{\"pid\":7,\"seen_ms\":%" PRId64 "}", TS_START_MS - 1000);
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

TEST(the_first_three_of_the_workers_are_named)
{
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
                     w == 1 ? "" : "\"pid\":7,\"host\":\"a\",", TS_START_MS - 1000);
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

PAIR_TEST(jobs_of_its_own_are_a_reason_not_to, "memory")
{
    PUT(&p->from, .id = STR("a"));
    PUT(&p->to, .id = STR("a"), .tenant = STR("zeta"));
    assert_int_equal(pair_try(p), REDRIVE_E_STATE);
    assert_non_null(strstr(p->err.detail, "a of tenant zeta"));
    assert_int_equal(LIST(&p->to)->n, 1);
}

PAIR_TEST(an_existing_store_can_be_added_to, "memory")
{
    put_many(&p->from, "mine", 5);
    put_many(&p->to, "other", 4);
    put_row(&p->from, SHARED_BREAKER, "smtp", "closed");
    put_row(&p->to, SHARED_BREAKER, "smtp", "open");
    put_row(&p->from, SHARED_BREAKER, "sms", "closed");
    ts_count(&p->from, (struct counter){STR("acme"), STR("completed"), {0}, 7});
    ts_count(&p->to, (struct counter){STR("acme"), STR("completed"), {0}, 100});
    p->options.into_existing = true;
    for (int run = 0; run < 2; run++) {
        assert_int_equal(pair_try(p), 0);
        assert_string_equal(p->report.findings.difference, "");
        assert_int_equal(p->report.copied, run == 0 ? 5 : 0);
        assert_int_equal(LIST(&p->to)->n, 9);
        assert_int_equal(counter_of(&p->to, "completed"), 107);
        struct shared_page *rows = ts_shared(&p->to, SHARED_BREAKER, (struct str){0});
        assert_int_equal(rows->n, 2);
        check_str(rows->rows[1].value, "open");
    }
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
TEST(a_question_is_about_many_jobs)
{
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

PAIR_TEST(a_key_that_is_taken_leaves_a_job_behind, "memory")
{
    PUT(&p->from, .id = STR("a"), .unique_key = STR("k"));
    PUT(&p->from, .id = STR("b"));
    PUT(&p->to, .id = STR("other"), .unique_key = STR("k"));
    p->options.into_existing = true;
    check_difference(p, "job a of tenant acme is not there");
    assert_int_equal(p->report.findings.missing, 1);
    assert_int_equal(p->report.copied, 1);
}
