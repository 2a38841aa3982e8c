#include "scans.h"

#include <stdlib.h>

#include "check.h"

/* Hands the moves of a page to the store, and counts those that it has made. */
static int make_moves(struct store *store, const struct move_list *list, size_t *ret_moved,
                      struct redrive_err *err)
{
    struct move_result *results = calloc(list->n + 1, sizeof *results);
    assert_non_null(results);
    int rc = list->n > 0 ? store_ops(store)->move(store, list, results, err) : 0;
    for (size_t i = 0; rc == 0 && i < list->n; i++)
        *ret_moved += results[i].code == 0;
    free(results);
    return rc;
}

static int move_all(struct store *store, struct scan *scan, struct move_list how, size_t *ret_moved,
                    bool *ret_more, struct redrive_err *err)
{
    struct job_page page = {0};
    *ret_moved = 0;
    int rc = store_ops(store)->scan(store, scan, &page, err);
    int64_t *seqs = calloc(page.n + 1, sizeof *seqs);
    assert_non_null(seqs);
    for (size_t i = 0; i < page.n; i++)
        seqs[i] = page.jobs[i].status.seq;
    how.seqs = seqs;
    how.n = page.n;
    if (rc == 0)
        rc = make_moves(store, &how, ret_moved, err);
    *ret_more = page.more;
    free(seqs);
    job_page_release(&page);
    return rc;
}

int scan_promote(struct store *store, size_t limit, size_t *ret_moved, int64_t *ret_next_ms,
                 struct redrive_err *err)
{
    struct scan scan = {.index = SCAN_DUE, .limit = limit};
    bool more;
    int rc = move_all(store, &scan, (struct move_list){MOVE_PROMOTE}, ret_moved, &more, err);
    *ret_next_ms = scan.next_ms;
    return rc;
}

int scan_credit(struct store *store, struct scan *scan, struct pause_time pause, bool *ret_more,
                struct redrive_err *err)
{
    size_t moved;
    scan->index = SCAN_READY;
    return move_all(store, scan, (struct move_list){MOVE_CREDIT, .pause = pause}, &moved, ret_more,
                    err);
}

int scan_remove(struct store *store, struct scan *scan, struct str task, size_t *ret_removed,
                bool *ret_more, struct redrive_err *err)
{
    struct job_page page = {0};
    size_t n = 0;
    scan->index = SCAN_FINISHED;
    *ret_removed = 0;
    int rc = store_ops(store)->scan(store, scan, &page, err);
    struct change_move *moves = calloc(page.n + 1, sizeof *moves);
    assert_non_null(moves);
    for (size_t i = 0; i < page.n; i++)
        if (task.len == 0 || str_eq(task, page.jobs[i].spec.task))
            moves[n++] = (struct change_move){.seq = page.jobs[i].status.seq,
                                              .kind = MOVE_REMOVE,
                                              .finished_ms = page.jobs[i].status.finished_ms};
    if (rc == 0)
        rc = make_moves(store, CHANGES(moves, n), ret_removed, err);
    *ret_more = page.more;
    free(moves);
    job_page_release(&page);
    return rc;
}
