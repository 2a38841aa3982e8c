/* rows.c - the rows of a store as operations read and change them. */
#include "engine/rows.h"

#include "base/err.h"
#include "base/json/json.h"
#include "base/os/log.h"
#include "base/rng.h"
#include "engine/state.h"
#include "store/transition.h"

int engine_find(struct engine *e, struct str tenant, struct str id, int64_t seq,
                struct job_page *ret, struct redrive_err *err)
{
    const struct job_name name = {.tenant = tenant, .id = id};
    const struct job_filter of_any_tenant = {.id = id, .limit = 1};
    int rc;
    if (seq == 0 && id.len == 0)
        return 0;
    /* Names and seqs have statements of their own, a list makes one each time. */
    if (seq != 0)
        rc = e->ops->find(e->store, &seq, 1, ret, err);
    else if (tenant.len > 0)
        rc = e->ops->lookup(e->store, &name, 1, ret, err);
    else
        rc = e->ops->list(e->store, &of_any_tenant, ret, err);
    if (rc == 0)
        rc = job_page_check_readable(ret, err);
    if (rc < 0)
        return rc;
    return ret->n == 1 && (tenant.len == 0 || str_eq(ret->jobs[0].spec.tenant, tenant));
}

/* ---- Scans ----------------------------------------------------------------------------------- */

/* When all places are taken, the first are used again: a log that grows by a line now and then is
 * better than one that is silent. */
static bool is_said_before(struct engine *e, const struct redrive_err *why)
{
    struct said *said = &e->said;
    const struct str detail = str_of(*why->detail ? why->detail : why->message);
    const uint64_t hash = rng_hash(detail.ptr, detail.len, 1);
    for (size_t i = 0; i < SAID_MAX && i < said->n; i++)
        if (said->hashes[i] == hash)
            return true;
    said->hashes[said->n++ % SAID_MAX] = hash;
    return false;
}

void engine_note_page(struct engine *e, const struct job_page *page)
{
    const struct redrive_err *why = page->unreadable;
    if (why && !is_said_before(e, why))
        log_event(e->options.log, LOG_LEVEL_ERROR, engine_now_ms(e), "job_unreadable",
                  LOG_S("error", why->message), LOG_S("detail", why->detail),
                  LOG_I("jobs", (int64_t)page->n_unreadable));
}

int engine_scan(struct engine *e, struct scan *scan, struct job_page *ret, struct redrive_err *err)
{
    int rc = e->ops->scan(e->store, scan, ret, err);
    engine_note_page(e, ret);
    return rc;
}

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
    transition(&status, &move, engine_time(e), &t);
    return t.code == 0;
}

/* Leaves only those jobs in the page that go. */
static void keep_some(struct job_page *page, size_t most, bool (*goes)(const struct job *job))
{
    size_t n = 0;
    for (size_t i = 0; i < page->n && n < most; i++)
        if (goes(&page->jobs[i]))
            page->jobs[n++] = page->jobs[i];
    page->n = n;
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

int scan_and_move_some(struct engine *e, struct scan *scan, struct move_list how, size_t most,
                       bool (*goes)(const struct job *job), struct scan_outcome *ret,
                       struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    *ret = (struct scan_outcome){0};
    int rc = engine_scan(e, scan, &page, err);
    const size_t found = page.n;
    if (rc == 0 && goes)
        keep_some(&page, most, goes);
    ret->more = page.more || page.n < found;
    return rc < 0 ? rc : move_page(e, &page, &how, &ret->moved, err);
}

int scan_and_move(struct engine *e, struct scan *scan, struct move_list how,
                  struct scan_outcome *ret, struct redrive_err *err)
{
    return scan_and_move_some(e, scan, how, SIZE_MAX, NULL, ret, err);
}

/* ---- Shared rows ----------------------------------------------------------------------------- */

int shared_row_put(struct engine *e, const struct shared_row *row, bool *ret_won,
                   struct redrive_err *err)
{
    struct move_result result = {0};
    int rc = e->ops->shared_put(e->store, row, 1, &result, err);
    const bool won = rc == 0 && result.code == 0;
    e->touched |= won;
    e->puts += won && shared_put_is_notified(row);
    if (ret_won)
        *ret_won = won;
    return rc;
}

const struct shared_row *shared_row_find(const struct shared_page *page, struct str key)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->rows[i].key, key))
            return &page->rows[i];
    return NULL;
}

static void read_field(struct json_reader *r, enum row_type type, void *ret)
{
    switch (type) {
    case ROW_BOOL: (void)json_read_bool(r, ret); break;
    case ROW_DOUBLE: (void)json_read_double(r, ret); break;
    case ROW_INT:
    default: (void)json_read_int(r, ret); break;
    }
}

bool shared_value_read(struct str json, const struct row_field *fields, size_t n)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    struct json_string key;
    json_reader_init(&r, json, NULL);
    (void)json_enter_object(&r);
    while (json_next_key(&r, &key) > 0) {
        size_t i = 0;
        while (i < n && !json_string_is(key, fields[i].name))
            i++;
        if (i < n)
            read_field(&r, fields[i].type, fields[i].ret);
        else
            (void)json_skip(&r, NULL);
    }
    const bool is_sound = json_end(&r) == 0;
    return is_sound;
}
