/* aside.h - operations that have to wait for a lock, set aside so that others need not wait.
 *
 * On a store whose transactions lock rows, an application's transaction may hold an id, a unique
 * key or a job for as long as it stays open. An operation that needs one of these is not answered:
 * it is set aside, and tried again by itself, one operation at a time and with pauses, so that the
 * tries take a small part of the committer's time. After ASIDE_MAX_MS it is given up.
 *
 * Operations that are known to wait for the same lock (op->lock) are kept in the order in which
 * they came: only the first of them is tried, the others stand behind it until it has its answer.
 *
 * Pure: times are arguments, monotonic. An operation that is set aside is linked by op->link, as it
 * was in the committer's list.
 */
#ifndef ENGINE_WAITS_ASIDE_H
#define ENGINE_WAITS_ASIDE_H

#include "engine/op.h"

/* For so long an operation is tried. */
#define ASIDE_MAX_MS 5000

struct aside {
    struct list ops; /* the next to be tried first */
    int64_t next_ms; /* not before this time */
};

void aside_init(struct aside *aside);
static inline bool aside_is_empty(const struct aside *aside)
{
    return list_empty(&aside->ops);
}

/* Sets an operation aside, which is in no list; its time counts from the first time on. */
void aside_put(struct aside *aside, struct op *op, int64_t now_ms);
/* Sets an operation aside that has not been tried, if it needs a lock for which another one waits;
 * false: it does not, and is left alone. */
bool aside_join(struct aside *aside, struct op *op, int64_t now_ms);

/* Takes out the operation that is to be tried now; NULL: there is none. Those behind it go with it.
 */
struct op *aside_take(struct aside *aside, int64_t now_ms);
/* A try was in vain, and took so long: the next one comes after a pause. */
void aside_rest(struct aside *aside, int64_t took_ms, int64_t now_ms);
/* In how many ms the next try, or the end of an operation's time, is due; INT64_MAX: nothing is
 * aside. */
int64_t aside_in_ms(const struct aside *aside, int64_t now_ms);

/* Moves those whose time is over to the end of a list; INT64_MAX: all of them. */
void aside_expire(struct aside *aside, int64_t now_ms, struct list *ret);
/* What stands behind an operation goes to the end of a list. */
void aside_let_go(struct op *op, struct list *ret);

/* What a caller is told whose operation is given up: nothing of it was done. */
void aside_give_up(struct op *op, int64_t now_ms);

#endif
