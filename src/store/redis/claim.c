#include "base/err.h"
#include "store/redis/private.h"

/* Any number of jobs may be asked for; a page has its bounds. */
#define CLAIM_MAX ((size_t)4096)

/* Pauses change seldom, and raise the shared version when they do. */
static int read_pauses(struct store *store, struct redrive_err *err)
{
    if (store->pauses_version == store->shared_version)
        return 0;
    int rc = redis_shared_list(store, SHARED_PAUSE, (struct str){0}, &store->pauses, err);
    store->pauses_version = rc == 0 ? store->shared_version : -1;
    return rc;
}

/* A name as the names of lines have it. */
static void ask_part(struct store *store, const struct str *parts, size_t n)
{
    buf_reset(&store->row);
    for (size_t i = 0; i < n; i++)
        rd_add_part(&store->row, parts[i]);
    buf_truncate(&store->row, store->row.len - 2);
    rd_ask_str(store, buf_str(&store->row));
}

static void ask_names(struct store *store, const struct str *names, size_t n)
{
    rd_ask_int(store, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        ask_part(store, &names[i], 1);
}

static void ask_filter(struct store *store, const struct claim_filter *filter, size_t limit,
                       const struct line *of_tenant)
{
    rd_ask_read(store, "ready");
    rd_ask_int(store, (int64_t)limit);
    rd_ask_int(store, (int64_t)filter->max_bytes);
    if (of_tenant)
        rd_ask_int(store, of_tenant->tenant_id);
    else
        rd_ask_text(store, "");
    rd_ask_int(store, store->last_tenant);
    ask_names(store, filter->queues, filter->n_queues);
    ask_names(store, filter->tasks, filter->n_tasks);
    const size_t n_limits = filter->task_limits ? filter->n_tasks : 0;
    rd_ask_int(store, (int64_t)n_limits);
    for (size_t i = 0; i < n_limits; i++)
        rd_ask_int(store, (int64_t)filter->task_limits[i]);
    rd_ask_int(store, (int64_t)filter->n_skip_lanes);
    for (size_t i = 0; i < filter->n_skip_lanes; i++)
        rd_ask_str(store, filter->skip_lanes[i]);
    rd_ask_int(store, (int64_t)store->pauses.n);
    for (size_t i = 0; i < store->pauses.n; i++)
        ask_part(store,
                 (const struct str[]){store->pauses.rows[i].tenant, store->pauses.rows[i].key}, 2);
}

int redis_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    const size_t limit = filter->limit < CLAIM_MAX ? filter->limit : CLAIM_MAX;
    const struct line *of_tenant = NULL;
    struct page_maker maker;
    redisReply *reply = NULL;
    rd_page_start(&maker, store, ret);
    int rc = rd_unit_needed(store, err);
    if (rc == 0)
        rc = rd_unit_write_for(store, IN(QUEUED), false, err);
    if (rc == 0)
        rc = read_pauses(store, err);
    if (rc == 0 && filter->tenant.len > 0) {
        rc = rd_tenant_find(store, filter->tenant, &of_tenant, err);
        if (!of_tenant)
            return rc;
    }
    if (rc != 0)
        return rc;
    ask_filter(store, filter, limit, of_tenant);
    rc = rd_link_read(store, &reply, err);
    if (rc != 0)
        return rc;
    if (!of_tenant)
        store->last_tenant = (uint32_t)rd_reply_int(reply, 1);
    for (size_t at = 2; rc == 0 && at < reply->elements;)
        rc = rd_page_add_reply(&maker, reply, &at, err);
    ret->more = rd_reply_int(reply, 0) != 0;
    freeReplyObject(reply);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
