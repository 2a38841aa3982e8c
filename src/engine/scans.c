#include "engine/scans.h"

#include "base/err.h"
#include "engine/private.h"
#include "store/transition.h"

/* Hands a list to the store, and counts what was made of it. */
static int make_moves(struct engine *e, const struct move_list *list, size_t *ret_moved,
                      struct redrive_err *err)
{
    struct move_result *results = arena_array(&e->arena, list->n, sizeof *results);
    if (list->n == 0)
        return 0;
    if (!results)
        return err_nomem(err);
    int rc = e->ops->move(e->store, list, results, err);
    for (size_t i = 0; rc == 0 && i < list->n; i++)
        *ret_moved += results[i].code == 0;
    e->touched |= *ret_moved > 0;
    return rc;
}

/* Whether the job may make the first move of a list, as it was read. */
static bool may_move(const struct engine *e, const struct job *job, const struct move_list *list)
{
    const struct move move = move_at(list, 0);
    struct job_status status = job->status;
    struct transition t;
    transition(&status, &move, e->now_ms, &t);
    return t.code == 0;
}

static int move_page(struct engine *e, const struct job_page *page, struct move_list *how,
                     size_t *ret_moved, struct redrive_err *err)
{
    int64_t *seqs = arena_array(&e->arena, page->n, sizeof *seqs);
    size_t n = 0;
    if (page->n > 0 && !seqs)
        return err_nomem(err);
    how->seqs = seqs;
    for (size_t i = 0; i < page->n; i++) {
        seqs[n] = page->jobs[i].status.seq;
        n += may_move(e, &page->jobs[i], how);
    }
    how->n = n;
    return make_moves(e, how, ret_moved, err);
}

int scan_and_move(struct engine *e, struct scan *scan, struct move_list how,
                  struct scan_outcome *ret, struct redrive_err *err)
{
    struct job_page page = {0};
    *ret = (struct scan_outcome){0};
    int rc = e->ops->scan(e->store, scan, &page, err);
    if (rc == 0)
        rc = move_page(e, &page, &how, &ret->moved, err);
    ret->more = page.more;
    job_page_release(&page);
    return rc;
}

static int remove_page(struct engine *e, const struct job_page *page,
                       bool (*goes)(void *ctx, const struct job *job), void *ctx,
                       size_t *ret_removed, struct redrive_err *err)
{
    struct change_move *moves = arena_array(&e->arena, page->n, sizeof *moves);
    size_t n = 0;
    if (page->n > 0 && !moves)
        return err_nomem(err);
    for (size_t i = 0; i < page->n; i++)
        if (!goes || goes(ctx, &page->jobs[i]))
            moves[n++] = (struct change_move){.seq = page->jobs[i].status.seq,
                                              .kind = MOVE_REMOVE,
                                              .finished_ms = page->jobs[i].status.finished_ms};
    return make_moves(e, CHANGES(moves, n), ret_removed, err);
}

int scan_and_remove(struct engine *e, struct scan *scan,
                    bool (*goes)(void *ctx, const struct job *job), void *ctx,
                    struct scan_outcome *ret, struct redrive_err *err)
{
    struct job_page page = {0};
    *ret = (struct scan_outcome){0};
    int rc = e->ops->scan(e->store, scan, &page, err);
    if (rc == 0)
        rc = remove_page(e, &page, goes, ctx, &ret->moved, err);
    ret->more = page.more;
    job_page_release(&page);
    return rc;
}
