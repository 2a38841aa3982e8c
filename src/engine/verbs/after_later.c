/* after_later.c - skipped jobs whose children are decided in a later transaction.
 *
 * They are noted in rows of SHARED_CANCEL: ticks look for those anyway, and they are copied with
 * the jobs of a store or of a tenant. The key begins with what no id of a job has, and has the id
 * and the seq of the first job; the value names the jobs, which are all of the tenant of the row:
 *
 *     {"ended":["extract-7","extract-9"]}
 *
 * A row is put by the transaction that skips the jobs, and removed by the one that decides their
 * children, which may put others. So a process that dies leaves the store with the row or without
 * the need for it. A job that has been removed since is left out: its removal has decided its
 * children.
 *
 * Ticks of several processes may find the same row. The one that removes it decides, and does so
 * before anything else: on PostgreSQL the others wait for that, and find no row then. A removal of
 * a job and a tick that goes on with it both move its row before they read its edges (after_hold).
 */
#include <inttypes.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/text/buf.h"
#include "core/state.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/verbs/after.h"

#define KEY_PREFIX "after\t"

/* Jobs of one row. They are read with their payloads. */
#define AT_ONCE 64
#define ROW_MAX ((size_t)1 << 20)

/* ---- Noted ----------------------------------------------------------------------------------- */

static void write_value(struct buf *out, const struct ended_job *jobs, size_t n)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_open_array(&w, "ended");
    for (size_t i = 0; i < n; i++)
        json_put_string(&w, jobs[i].id);
    json_end_array(&w);
    json_end_object(&w);
}

/* A job is skipped once, so that there is no row of this key. */
static int put_row(struct engine *e, const struct ended_job *jobs, size_t n,
                   struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf key = BUF_MAX(ROW_MAX);
    RELEASED_BY(buf_release) struct buf value = BUF_MAX(ROW_MAX);
    bool won = false;
    buf_add_str(&key, STR(KEY_PREFIX));
    buf_add_str(&key, jobs[0].id);
    buf_printf(&key, "\t%" PRId64, jobs[0].seq);
    write_value(&value, jobs, n);
    if (buf_failed(&key) || buf_failed(&value))
        return err_nomem(err);
    const struct shared_row row = {.kind = SHARED_CANCEL,
                                   .tenant = jobs[0].tenant,
                                   .key = buf_str(&key),
                                   .value = buf_str(&value)};
    int rc = shared_row_put(e, &row, &won, err);
    if (rc == 0 && !won)
        rc = err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
    return rc;
}

int after_put_off(struct engine *e, const struct ended_job *jobs, size_t n, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0, end; rc == 0 && i < n; i = end) {
        for (end = i + 1; end < n && end - i < AT_ONCE; end++)
            if (!str_eq(jobs[end].tenant, jobs[i].tenant))
                break;
        rc = put_row(e, jobs + i, end - i, err);
    }
    e->cancels_ms = 0;
    engine_waits_until(e, e->now_ms);
    return rc;
}

/* ---- Gone on with ---------------------------------------------------------------------------- */

bool after_is_put_off(const struct shared_row *row)
{
    return str_starts_with(row->key, STR(KEY_PREFIX));
}

/* The names of the jobs, up to AT_ONCE; of a damaged row those before the damage. */
static size_t read_names(struct engine *e, const struct shared_row *row,
                         struct job_name ret[AT_ONCE])
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    struct json_string key;
    size_t n = 0;
    json_reader_init(&r, row->value, NULL);
    (void)json_enter_object(&r);
    while (json_next_key(&r, &key) > 0) {
        if (!json_string_is(key, "ended")) {
            (void)json_skip(&r, NULL);
            continue;
        }
        (void)json_enter_array(&r);
        while (json_next_item(&r) > 0 && n < AT_ONCE) {
            ret[n].tenant = row->tenant;
            n += json_read_text(&r, &e->arena, &ret[n].id) == 0;
        }
    }
    return n;
}

int after_hold(struct engine *e, const struct ended_job *jobs, size_t n, struct move_result *ret,
               struct redrive_err *err)
{
    struct edge_move moves[AT_ONCE];
    struct move_result results[AT_ONCE];
    for (size_t i = 0; i < n; i++)
        moves[i] = (struct edge_move){jobs[i].seq, 0};
    return e->ops->move(e->store, ADOPTS(moves, n), ret ? ret : results, err);
}

static int remove_row(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    struct shared_row gone = *row;
    bool won = false;
    gone.removed = true;
    int rc = shared_row_put(e, &gone, &won, err);
    if (rc == 0 && !won)
        rc = err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
    return rc;
}

/* Leaves those jobs that are there and have children. */
static int hold_noted(struct engine *e, struct ended_job jobs[AT_ONCE], size_t *n,
                      struct redrive_err *err)
{
    struct move_result results[AT_ONCE];
    size_t left = 0;
    int rc = after_hold(e, jobs, *n, results, err);
    for (size_t i = 0; rc == 0 && i < *n; i++) {
        jobs[i].state = results[i].state;
        jobs[i].children = results[i].children;
        if (results[i].code == 0 && state_has_ended(results[i].state) && results[i].children > 0)
            jobs[left++] = jobs[i];
    }
    *n = left;
    return rc;
}

int after_go_on(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    struct job_name names[AT_ONCE];
    struct ended_job jobs[AT_ONCE];
    const size_t n_names = read_names(e, row, names);
    size_t n = 0;
    int rc = remove_row(e, row, err);
    if (rc == 0 && n_names > 0)
        rc = e->ops->lookup(e->store, names, n_names, &page, err);
    for (; rc == 0 && n < page.n; n++)
        jobs[n] = (struct ended_job){.seq = page.jobs[n].status.seq,
                                     .id = page.jobs[n].spec.id,
                                     .tenant = page.jobs[n].spec.tenant};
    if (rc == 0 && n > 0)
        rc = hold_noted(e, jobs, &n, err);
    return rc == 0 && n > 0 ? after_ended(e, jobs, n, err) : rc;
}
