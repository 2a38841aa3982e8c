#include "engine/verbs/cancels.h"

#include "base/err.h"
#include "base/json/json.h"
#include "engine/private.h"
#include "engine/verbs/change.h"

/* Ticks may follow each other closely, and there is hardly ever one. */
#define LOOK_MS      100
#define CANCEL_BATCH 200

static bool is_time(const struct engine *e)
{
    return e->cancels_ms == 0 || e->now_ms < e->cancels_ms || e->now_ms - e->cancels_ms >= LOOK_MS;
}

static bool read_life(struct str value, int64_t *ret_created_ms, int64_t *ret_epoch)
{
    struct json_reader r;
    struct json_string key;
    json_reader_init(&r, value, NULL);
    bool is_sound = json_enter_object(&r) == 0;
    int rc = 0;
    while (is_sound && (rc = json_next_key(&r, &key)) > 0)
        is_sound = json_string_is(key, "created_ms") ? json_read_int(&r, ret_created_ms) == 0
                   : json_string_is(key, "epoch")    ? json_read_int(&r, ret_epoch) == 0
                                                     : json_skip(&r, NULL) == 0;
    json_reader_release(&r);
    return is_sound && rc == 0;
}

static bool is_meant(const struct job *job, struct str value)
{
    int64_t created_ms = -1, epoch = -1;
    return read_life(value, &created_ms, &epoch) && job->status.created_ms == created_ms &&
           (int64_t)job->status.epoch == epoch;
}

static int cancel(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    struct job_page page = {0};
    struct change_item item = {0};
    int rc = engine_find(e, row->tenant, row->key, 0, &page, err);
    if (rc > 0)
        rc = is_meant(&page.jobs[0], row->value)
                 ? change_job(e, MOVE_CANCEL, &page.jobs[0], &item, err)
                 : 0;
    job_page_release(&page);
    return rc;
}

/* One that another process has taken away meanwhile has been carried out by it. */
static int remove_rows(struct engine *e, struct shared_row *rows, size_t n, struct redrive_err *err)
{
    struct move_result *results = arena_array(&e->arena, n, sizeof *results);
    if (!results)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        rows[i].removed = true;
    e->touched = true;
    return e->ops->shared_put(e->store, rows, n, results, err);
}

int cancels_carry_out(struct engine *e, struct redrive_err *err)
{
    struct shared_page page = {0};
    if (!is_time(e))
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_CANCEL, (struct str){0}, &page, err);
    const size_t n = page.n < CANCEL_BATCH ? page.n : CANCEL_BATCH;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = cancel(e, &page.rows[i], err);
    if (rc == 0 && n > 0)
        rc = remove_rows(e, page.rows, n, err);
    /* The next tick goes on with what is left. */
    e->cancels_ms = n < page.n ? 0 : e->now_ms;
    if (n < page.n)
        engine_want(e, e->now_ms);
    shared_page_release(&page);
    return rc;
}
