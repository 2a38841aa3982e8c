/* import_all.h - takes all jobs of one store over into another. */
#ifndef STORE_IMPORT_ALL_H
#define STORE_IMPORT_ALL_H

#include "store_for_test.h"

/* Reads every job of a store with its history, and offers all of them in one call. */
static void import_all(struct test_store *from, struct test_store *to, struct move_result *ret)
{
    struct imported_job imported[100] = {0};
    struct attempt_page histories[100] = {0};
    struct job_page *page = LIST(from);
    assert_false(page->more);
    for (size_t i = 0; i < page->n; i++) {
        assert_int_equal(
            store_ops(from->store)
                ->history(from->store, &page->jobs[i].status.seq, 1, &histories[i], NULL),
            0);
        imported[i] = (struct imported_job){&page->jobs[i], histories[i].attempts, histories[i].n};
    }
    bool own = !to->in_transaction;
    if (own)
        ts_begin(to);
    assert_int_equal(store_ops(to->store)->import(to->store, imported, page->n, ret, NULL), 0);
    if (own)
        ts_commit(to);
    for (size_t i = 0; i < page->n; i++)
        attempt_page_release(&histories[i]);
}

static void import_all_anew(struct test_store *from, struct test_store *to)
{
    struct move_result results[100];
    import_all(from, to, results);
    for (size_t i = 0; i < from->page.n; i++)
        check_move(results[i], 0, from->page.jobs[i].status.state);
}

/* The seq of the only job with an id. */
static int64_t seq_of(struct test_store *ts, const char *id)
{
    struct job_page *page = LIST(ts, .id = str_of(id));
    assert_int_equal(page->n, 1);
    return page->jobs[0].status.seq;
}

#endif
