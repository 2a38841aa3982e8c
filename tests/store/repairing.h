/* repairing.h - a repair of a store, and what it has handed over. */
#ifndef TESTS_STORE_REPAIRING_H
#define TESTS_STORE_REPAIRING_H

#include "store_for_test.h"

#include "base/err.h"
#include "base/text/buf.h"

struct taken {
    struct buf lines;
    size_t n_left;                /* jobs that were announced */
    void (*meanwhile)(void *ctx); /* between keeping and removing; NULL: nothing */
    void *ctx;
    int keep_code; /* these fail */
    int leave_code;
};

#define TAKEN                     \
    (struct taken)                \
    {                             \
        .lines = BUF_MAX(1 << 20) \
    }

static int keep_lines(void *ctx, struct str lines, struct redrive_err *err)
{
    struct taken *t = ctx;
    if (t->keep_code)
        return err_set(err, t->keep_code, "no room");
    assert_true(lines.len > 0 && lines.ptr[lines.len - 1] == '\n');
    return buf_add_str(&t->lines, lines);
}

static int leave_jobs(void *ctx, const int64_t *seqs, size_t n, struct redrive_err *err)
{
    struct taken *t = ctx;
    assert_true(n > 0 && seqs[0] > 0);
    if (t->leave_code)
        return err_set(err, t->leave_code, "killed");
    t->n_left += n;
    if (t->meanwhile)
        t->meanwhile(t->ctx);
    return 0;
}

static int ts_repair(struct test_store *ts, struct taken *t, struct store_repaired *ret)
{
    const struct store_repair how = {.keep = keep_lines, .leave = leave_jobs, .ctx = t};
    return store_ops(ts->store)->repair(ts->store, &how, ret, NULL);
}

static size_t count_lines(const struct taken *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->lines.len; i++)
        n += t->lines.data[i] == '\n';
    return n;
}

#endif
