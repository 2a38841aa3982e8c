/* experiments.c - experiments of a server, read back into structs. */
#include "base/err.h"
#include "cli/remote/remote.h"

#define SUM(m) .offset = offsetof(struct arm_row, figures.m)
static const struct unpack SUMS[] = {
    {.key = "attempts_squares_high", UNPACK_INT, SUM(attempts.squares_high)},
    {.key = "attempts_squares_low", UNPACK_INT, SUM(attempts.squares_low)},
    {.key = "time_ms", UNPACK_INT, SUM(time_ms.sum)},
    {.key = "time_ms_squares_high", UNPACK_INT, SUM(time_ms.squares_high)},
    {.key = "time_ms_squares_low", UNPACK_INT, SUM(time_ms.squares_low)},
    {0},
};

static const struct unpack ARMS[] = {
    {.key = "name", UNPACK_STR, .offset = offsetof(struct arm_row, name)},
    {.key = "share", UNPACK_DOUBLE, .offset = offsetof(struct arm_row, share)},
    {.key = "submitted", UNPACK_INT, SUM(submitted)},
    {.key = "completed", UNPACK_INT, SUM(completed)},
    {.key = "dead", UNPACK_INT, SUM(dead)},
    {.key = "cancelled", UNPACK_INT, SUM(cancelled)},
    {.key = "attempts", UNPACK_INT, SUM(attempts.sum)},
    {.key = "sums", UNPACK_OBJECT, .object = SUMS},
    {0},
};

struct written_experiment {
    struct experiment_row row;
    struct str arms; /* JSON */
};

#define ROW(m) .offset = offsetof(struct written_experiment, m)
static const struct unpack EXPERIMENTS[] = {
    {.key = "name", UNPACK_STR, ROW(row.name)},
    {.key = "task", UNPACK_STR, ROW(row.task)},
    {.key = "arms", UNPACK_JSON, ROW(arms)},
    {0},
};

int remote_experiments(struct remote *remote, struct experiment_page *ret, struct redrive_err *err)
{
    struct unpack_list list = {0};
    experiment_page_release(ret);
    int rc = remote_get_list(remote, "/experiments", EXPERIMENTS, sizeof(struct written_experiment),
                             NULL, &ret->arena, &list, err);
    const struct written_experiment *written = list.rows;
    ret->rows = rc == 0 ? arena_array(&ret->arena, list.n, sizeof *ret->rows) : NULL;
    for (size_t i = 0; i < list.n && ret->rows && rc == 0; i++) {
        struct unpack_list arms = {0};
        rc = unpack_array(written[i].arms, ARMS, sizeof(struct arm_row), NULL, &ret->arena, &arms,
                          err);
        ret->rows[ret->n] = written[i].row;
        ret->rows[ret->n].arms = arms.rows;
        ret->rows[ret->n++].n_arms = arms.n;
    }
    return rc == 0 && ret->arena.failed ? err_nomem(err) : rc;
}
