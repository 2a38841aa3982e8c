/* pair.c - two stores, the content of which is compared. */
#include "pair.h"

#include <stdio.h>

#include "base/rng.h"
#include "dump.h"
#include "random_transaction.h"

void pair_open(struct pair *p, const char *from)
{
    *p = (struct pair){0};
    ts_open(&p->from, from);
    ts_open(&p->to, stores_name());
    p->options = (struct copy_options){
        .from = p->from.store, .to = p->to.store, .name = "the source", .now_ms = TS_START_MS};
}

void pair_close(struct pair *p)
{
    ts_close(&p->from);
    ts_close(&p->to);
}

int64_t rows_of(const struct pair *p, int kind)
{
    return p->report.findings.from.sums[kind].rows;
}

int pair_try(struct pair *p)
{
    return copy_run(&p->options, &p->report, &p->err);
}

void pair_run(struct pair *p)
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

void check_same(struct store *expected, struct store *is)
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

/* Random edges do not know how their parents ended: no engine leaves one open whose parent has. */
static void decide_edges(struct test_store *ts)
{
    const struct store_ops *ops = store_ops(ts->store);
    const struct job_page *jobs = LIST(ts);
    for (size_t i = 0; i < jobs->n; i++) {
        struct edge_page page = {0};
        const struct job_status *parent = &jobs->jobs[i].status;
        assert_int_equal(ops->edges(ts->store, EDGES_TO_CHILDREN, &parent->seq, 1, &page, NULL), 0);
        for (size_t k = 0; k < page.n; k++)
            if (page.edges[k].outcome == AFTER_OPEN)
                page.edges[k].outcome = after_decide(page.edges[k].rule, parent->state, false);
        ts_begin(ts);
        assert_int_equal(ops->edges_put(ts->store, page.edges, page.n, NULL), 0);
        ts_commit(ts);
        edge_page_release(&page);
    }
}

void fill(struct test_store *ts, uint64_t transactions)
{
    struct random_side side;
    struct buf answers;
    buf_init(&answers, (size_t)1 << 20);
    random_side_init(&side, ts->store, &answers);
    for (uint64_t transaction = 0; transaction < transactions; transaction++)
        random_transaction(&side, rng_mix(transaction));
    random_side_release(&side);
    buf_release(&answers);
    decide_edges(ts);
}

void put_many(struct test_store *ts, const char *prefix, int n)
{
    char id[32];
    ts_begin(ts);
    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof id, "%s-%d", prefix, i);
        PUT(ts, .id = str_of(id));
    }
    ts_commit(ts);
}

int64_t counter_of(struct test_store *ts, const char *name)
{
    int64_t sum = 0;
    assert_int_equal(
        store_ops(ts->store)->counters_list(ts->store, (struct str){0}, &ts->counters, NULL), 0);
    for (size_t i = 0; i < ts->counters.n; i++)
        if (str_is(ts->counters.counters[i].name, name))
            sum += ts->counters.counters[i].value;
    return sum;
}

void put_row(struct test_store *ts, enum shared_kind kind, const char *key, const char *value)
{
    const struct shared_row row = {
        .kind = kind, .tenant = STR("acme"), .key = str_of(key), .value = str_of(value)};
    assert_int_equal(ts_shared_put(ts, &row), 0);
}

void change_row(struct test_store *ts, enum shared_kind kind, const char *value)
{
    struct shared_row row = ts_shared(ts, kind, (struct str){0})->rows[0];
    row.value = str_of(value);
    assert_int_equal(ts_shared_put(ts, &row), 0);
}
