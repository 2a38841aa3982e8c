/* aside.c - operations that have to wait for a lock, set aside so that others need not wait. */
#include "engine/waits/aside.h"

#include "base/err.h"

/* A pause is so many times as long as the try before it, so that tries take a tenth of the time; no
 * shorter than a transaction that other processes make of the same rows. */
#define PAUSE_TIMES  9
#define PAUSE_MIN_MS 20

static struct op *op_at(struct list *link)
{
    return LIST_ENTRY(link, struct op, link);
}

static struct op *first(const struct aside *aside)
{
    return aside_is_empty(aside) ? NULL : op_at(aside->ops.next);
}

static void note_time(struct op *op, int64_t now_ms)
{
    if (op->aside_ms != 0)
        return;
    op->aside_ms = now_ms;
    list_init(&op->behind);
}

void aside_init(struct aside *aside)
{
    *aside = (struct aside){0};
    list_init(&aside->ops);
}

bool aside_join(struct aside *aside, struct op *op, int64_t now_ms)
{
    if (op->lock == 0)
        return false;
    LIST_FOREACH (&aside->ops, link) {
        struct op *before = op_at(link);
        if (before->lock != op->lock)
            continue;
        note_time(op, now_ms);
        op->err = before->err;
        list_insert(&before->behind, &op->link);
        aside_let_go(op, &before->behind);
        return true;
    }
    return false;
}

void aside_put(struct aside *aside, struct op *op, int64_t now_ms)
{
    if (aside_join(aside, op, now_ms))
        return;
    note_time(op, now_ms);
    list_insert(&aside->ops, &op->link);
}

struct op *aside_take(struct aside *aside, int64_t now_ms)
{
    struct op *op = first(aside);
    if (!op || now_ms < aside->next_ms)
        return NULL;
    list_remove(&op->link);
    return op;
}

void aside_rest(struct aside *aside, int64_t took_ms, int64_t now_ms)
{
    const int64_t pause_ms = took_ms * PAUSE_TIMES;
    aside->next_ms = now_ms + (pause_ms > PAUSE_MIN_MS ? pause_ms : PAUSE_MIN_MS);
}

int64_t aside_in_ms(const struct aside *aside, int64_t now_ms)
{
    int64_t next_ms = aside->next_ms;
    if (aside_is_empty(aside))
        return INT64_MAX;
    LIST_FOREACH (&aside->ops, link) {
        const int64_t end_ms = op_at(link)->aside_ms + ASIDE_MAX_MS;
        next_ms = end_ms < next_ms ? end_ms : next_ms;
    }
    return next_ms - now_ms;
}

/* The one behind an operation that is taken out has the others behind it then; NULL: there is none.
 */
static struct op *take_heir(struct op *op)
{
    if (list_empty(&op->behind))
        return NULL;
    struct op *heir = op_at(op->behind.next);
    list_remove(&heir->link);
    aside_let_go(op, &heir->behind);
    return heir;
}

void aside_expire(struct aside *aside, int64_t now_ms, struct list *ret)
{
    for (struct list *link = aside->ops.next, *next; link != &aside->ops; link = next) {
        struct op *op = op_at(link);
        next = link->next;
        if (now_ms - op->aside_ms < ASIDE_MAX_MS)
            continue;
        struct op *heir = take_heir(op);
        list_remove(link);
        list_insert(ret, link);
        if (heir) {
            list_insert(next, &heir->link);
            next = &heir->link; /* its time may be over as well */
        }
    }
}

void aside_let_go(struct op *op, struct list *ret)
{
    LIST_FOREACH (&op->behind, link) {
        list_remove(link);
        list_insert(ret, link);
    }
}

void aside_give_up(struct op *op, int64_t now_ms)
{
    const struct redrive_err last = op->err;
    op->code = op->err.code = REDRIVE_E_IO;
    err_detail(&op->err, "%s%stried for %lld ms; nothing was changed", last.detail,
               last.detail[0] ? "; " : "", (long long)(now_ms - op->aside_ms));
}
