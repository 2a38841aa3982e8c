/* limits.c - the sums of limits: slots in use, and candidates.
 *
 * They stand in a hash of their own, `limits`, under the names of the rows. A transaction says what
 * it adds, and how many slots there may be then; its commit compares (CHECKS.L), adds, and tells
 * what the sums have come to. Nobody compares the sums themselves, so that transactions that add do
 * not meet.
 */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

bool rd_is_limit(const struct shared_write *write)
{
    char key[16];
    rd_shared_key(SHARED_BUCKET, key);
    return strcmp(write->key, key) == 0;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

void rd_limit_guard(struct store *store, const struct shared_write *write,
                    const struct shared_row *row)
{
    char add[RD_DIGITS_MAX], max[RD_DIGITS_MAX];
    const bool is_guarded = row->removed || (row->add.used > 0 && row->max_used > 0);
    if (row->kind != SHARED_BUCKET || !is_guarded)
        return;
    rd_digits(write->add.used, add);
    rd_digits(row->removed ? 0 : row->max_used, max);
    const struct str words[] = {write->field, str_of(add), str_of(max)};
    rd_ops_add(&store->checks, 'L', STR("limits"), NULL, 0, words, 3);
}

static bool note_asked(struct store *store, struct shared_write *write)
{
    if (!store->sums_asked)
        store->sums_asked =
            arena_array(&store->arena, store->shared_writes.count, sizeof(struct shared_write *));
    if (store->sums_asked)
        store->sums_asked[store->n_sums_asked++] = write;
    return store->sums_asked != NULL;
}

/* The sums of a limit that goes, go. */
void rd_limit_collect(struct store *store, struct shared_write *write)
{
    char used[RD_DIGITS_MAX], sent[RD_DIGITS_MAX];
    rd_digits(write->add.used, used);
    rd_digits(write->add.sent, sent);
    const struct str words[] = {write->field, str_of(used), str_of(sent)};
    if (write->is_put && write->now == 0)
        rd_ops_add(&store->ops, 'D', STR("limits"), NULL, 0, words, 1);
    else if (note_asked(store, write))
        rd_ops_add(&store->ops, 'L', STR("limits"), NULL, 0, words, 3);
}

void rd_limits_merged(struct store *store, const redisReply *reply)
{
    for (size_t i = 0; i < store->n_sums_asked && 3 * i + 3 < reply->elements; i++)
        if (store->sums_asked[i]->merged)
            *store->sums_asked[i]->merged = (struct merged_gate){
                {rd_reply_int(reply, 3 * i + 1), rd_reply_int(reply, 3 * i + 2)},
                rd_reply_int(reply, 3 * i + 3)};
}

/* ---- Reading --------------------------------------------------------------------------------- */

int rd_page_add_limits(struct job_page *page, const redisReply *reply, struct redrive_err *err)
{
    for (size_t i = 0; i + 2 < reply->elements; i += 3) {
        struct limit_sums limit = {
            .sums = {rd_reply_int(reply, i + 1), rd_reply_int(reply, i + 2)}};
        struct str name = rd_reply_str(reply, i);
        if (!rd_take_part(&name, &page->arena, &limit.tenant) ||
            !rd_take_part(&name, &page->arena, &limit.key))
            break;
        job_page_add_limit(page, &limit);
    }
    return page->arena.failed ? err_nomem(err) : 0;
}

/* The row of a page, which is in order; NULL: it is not there, or its name cannot be read. */
static struct shared_row *find_row(struct shared_page *page, struct str field)
{
    struct shared_row wanted = {.kind = SHARED_BUCKET};
    if (page->n == 0 || !rd_take_part(&field, &page->arena, &wanted.tenant) ||
        !rd_take_part(&field, &page->arena, &wanted.key))
        return NULL;
    return bsearch(&wanted, page->rows, page->n, sizeof *page->rows, rd_shared_order);
}

static int read_sums(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct shared_page *page = ctx;
    struct shared_row *row = find_row(page, field);
    char *end = NULL;
    if (row && value.len > 0)
        row->sums.used = strtoll(value.ptr, &end, 10);
    if (end && *end == ' ')
        row->sums.sent = strtoll(end + 1, NULL, 10);
    return page->arena.failed ? err_nomem(err) : 0;
}

static void add_own(struct shared_page *page, const struct shared_write *write)
{
    struct shared_row *row = find_row(page, write->field);
    if (!row)
        return;
    row->sums.used += write->add.used;
    row->sums.sent += write->add.sent;
    if (row->sums.used < 0)
        row->sums.used = 0;
    if (row->sums.sent < 0)
        row->sums.sent = 0;
}

int rd_limits_read(struct store *store, struct shared_page *page, struct redrive_err *err)
{
    const redisReply *all = store->shared_reply, *sums = NULL;
    int rc = 0;
    if (all && all->elements > 0)
        sums = all->element[all->elements - 1];
    if (!sums || sums->type != REDIS_REPLY_ARRAY)
        rc = rd_scan_hash(store, "limits", read_sums, page, err);
    else
        for (size_t i = 0; rc == 0 && i + 1 < sums->elements; i += 2)
            rc = read_sums(page, rd_reply_str(sums, i), rd_reply_str(sums, i + 1), err);
    MAP_FOREACH (&store->shared_writes, slot)
        if (rd_is_limit(slot->value))
            add_own(page, slot->value);
    return rc == 0 && page->arena.failed ? err_nomem(err) : rc;
}
