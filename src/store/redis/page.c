#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

void rd_page_start(struct page_maker *maker, struct store *store, struct job_page *page)
{
    job_page_release(page);
    *maker = (struct page_maker){.store = store, .page = page};
}

struct str rd_page_dup(struct arena *arena, struct str s)
{
    return s.len > 0 ? arena_str(arena, s) : (struct str){0};
}

/* Arrays of pages live in their arenas, so that growing leaves the old one there until the end. */
static bool make_room(struct page_maker *maker)
{
    if (maker->page->n < maker->capacity)
        return true;
    const size_t capacity = maker->capacity ? 2 * maker->capacity : 16;
    struct job *grown = arena_array(&maker->page->arena, capacity, sizeof *grown);
    if (!grown)
        return false;
    if (maker->page->n > 0)
        memcpy(grown, maker->page->jobs, maker->page->n * sizeof *grown);
    maker->page->jobs = grown;
    maker->capacity = capacity;
    return true;
}

int rd_page_add(struct page_maker *maker, const struct row *row, const struct str big[BIG_COUNT],
                struct redrive_err *err)
{
    struct arena *arena = &maker->page->arena;
    if (!make_room(maker))
        return err_nomem(err);
    struct row copy = *row;
    for (int i = 0; big && i < BIG_COUNT; i++)
        if (row->big >> i & 1)
            *rd_row_big_part(&copy, (enum big_part)i) = big[i];
    struct job_spec *spec = &copy.job.spec;
    struct job_status *s = &copy.job.status;
    struct str *const strings[] = {
        &spec->tenant,        &spec->id,     &spec->task,        &spec->queue,
        &spec->payload,       &spec->user,   &spec->project,     &spec->service,
        &spec->unique_key,    &spec->policy, &spec->breaker_key, &spec->limit_key,
        &s->worker,           &s->result,    &s->error.type,     &s->error.message,
        &s->error.stacktrace,
    };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        *strings[i] = rd_page_dup(arena, *strings[i]);
    copy.job.is_damaged |= big && row->big >> BIG_PAYLOAD & 1 && big[BIG_PAYLOAD].len == 0;
    if (arena->failed)
        return err_nomem(err);
    maker->page->jobs[maker->page->n++] = copy.job;
    return 0;
}

size_t rd_reply_row_len(const redisReply *reply, size_t at)
{
    return rd_row_has_big(rd_reply_str(reply, at + 1)) ? 2 + BIG_COUNT : 2;
}

int rd_reply_row(struct store *store, const redisReply *reply, size_t *at, struct row *ret,
                 struct str big[BIG_COUNT], bool *ret_moved, struct redrive_err *err)
{
    const int64_t seq = rd_reply_int(reply, *at);
    const struct str bytes = rd_reply_str(reply, *at + 1);
    *at += 2;
    *ret = (struct row){0};
    *ret_moved = store->in_transaction && rd_entry_moved(store, seq);
    if (bytes.len == 0)
        return err_set(err, REDRIVE_E_CORRUPT, "an index names job %lld, which there is not",
                       (long long)seq);
    for (int i = 0; i < BIG_COUNT && big; i++)
        big[i] = rd_row_has_big(bytes) ? rd_reply_str(reply, (*at)++) : (struct str){0};
    if (!store->in_transaction || *ret_moved)
        return rd_row_unpack(store, seq, bytes, ret, err);
    const struct entry *entry = rd_entry_learn(store, seq, bytes, err);
    if (!entry)
        return store->arena.failed ? REDRIVE_E_NOMEM : REDRIVE_E_CORRUPT;
    *ret = entry->now;
    return 0;
}

int rd_page_add_reply(struct page_maker *maker, const redisReply *reply, size_t *at, bool has_big,
                      struct redrive_err *err)
{
    struct str parts[BIG_COUNT], *big = has_big ? parts : NULL;
    struct row row;
    bool is_moved;
    int rc = rd_reply_row(maker->store, reply, at, &row, big, &is_moved, err);
    return rc == 0 && !is_moved ? rd_page_add(maker, &row, big, err) : rc;
}

int rd_page_take(void *maker, const struct row *row, const struct str big[BIG_COUNT],
                 struct redrive_err *err)
{
    return rd_page_add(maker, row, big, err);
}

/* What the transaction has put beside a row that it has made or changed. */
static void overlay_big(struct store *store, const struct entry *e, struct str big[BIG_COUNT])
{
    for (int i = 0; i < BIG_COUNT; i++) {
        const struct beside b = rd_beside_big(e->seq, (enum big_part)i);
        const struct cell *cell = rd_cell_known(store, str_of(b.key), rd_beside_field(&b));
        if (cell)
            big[i] = cell->now;
    }
}

int rd_rows_each(struct store *store, const int64_t *seqs, size_t n,
                 int (*each)(void *ctx, const struct row *row, const struct str big[BIG_COUNT],
                             struct redrive_err *err),
                 void *ctx, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "rows");
    rd_ask_text(store, "1");
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    int rc = n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0, at = 0; rc == 0 && i < n; i++) {
        const struct entry *moved = store->in_transaction ? rd_entry_moved(store, seqs[i]) : NULL;
        const struct str bytes = rd_reply_str(reply, at++);
        struct str big[BIG_COUNT] = {{0}};
        struct row row;
        for (int k = 0; k < BIG_COUNT && rd_row_has_big(bytes); k++)
            big[k] = rd_reply_str(reply, at++);
        if (moved ? !moved->is_there : bytes.len == 0)
            continue;
        if (moved) {
            row = moved->now;
            overlay_big(store, moved, big);
        } else {
            rc = rd_row_unpack(store, seqs[i], bytes, &row, err);
        }
        if (rc == 0)
            rc = each(ctx, &row, big, err);
    }
    if (reply)
        freeReplyObject(reply);
    return rc;
}
