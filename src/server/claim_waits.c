/* claim_waits.c - lines of waiting claims, and which of them asks next. */
#include "server/claim_waits.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"

/* Those that ask for the same. It is there as long as one of them is. */
struct claim_line {
    struct list sleeping; /* the longest first */
    size_t n;             /* claims that belong to it, asleep or not */
    bool asks;            /* one of them has been woken and has no answer yet */
    bool again;           /* jobs became ready meanwhile */
};

struct claim_waits {
    struct committer *committer;
    struct timers *timers;
    pthread_mutex_t mutex; /* guards what follows, and the claims' own parts */
    struct map lines;
    bool closed;
};

static struct claim_wait *wait_of(struct list *link)
{
    return LIST_ENTRY(link, struct claim_wait, link);
}

static bool may_wait(const struct claim_wait *wait)
{
    return !wait->may_wait || wait->may_wait(wait);
}

/* ---- Lines; the mutex is held ---------------------------------------------------------------- */

/* NULL when there is no memory: then it does not wait. */
static struct claim_line *join(struct claim_waits *all, struct str key)
{
    struct claim_line *line = map_get(&all->lines, key);
    if (!line) {
        line = calloc(1, sizeof *line);
        if (line && map_put(&all->lines, key, line) < 0) {
            free(line);
            line = NULL;
        }
        if (line)
            list_init(&line->sleeping);
    }
    if (line)
        line->n++;
    return line;
}

static void leave(struct claim_waits *all, struct claim_wait *wait)
{
    struct claim_line *line = wait->line;
    wait->line = NULL;
    if (line && --line->n == 0) {
        (void)map_remove(&all->lines, wait->key);
        free(line);
    }
}

/* Takes the first of a line out of its sleep, to ask. */
static void wake_first(struct claim_line *line, struct list *asking)
{
    line->again = false;
    line->asks = !list_empty(&line->sleeping);
    if (!line->asks)
        return;
    struct claim_wait *first = wait_of(line->sleeping.next);
    list_remove(&first->link);
    first->sleeps = false;
    list_insert(asking, &first->link);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* Hands in those of a list, which the mutex no longer guards. */
static void ask(struct claim_waits *all, struct list *asking)
{
    struct list ops;
    list_init(&ops);
    LIST_FOREACH (asking, link) {
        struct claim_wait *wait = wait_of(link);
        list_remove(link);
        list_insert(&ops, &wait->claim.op.link);
    }
    if (!list_empty(&ops))
        committer_submit_all(all->committer, &ops);
}

/* Nothing was there: sleeps in front of its line if it was first before, else at the end. */
static bool may_sleep(struct claim_waits *all, struct claim_wait *wait, bool was_woken)
{
    if (all->closed || wait->is_late || wait->until_ms <= clock_monotonic_ms() || !may_wait(wait))
        return false;
    if (!wait->line)
        wait->line = join(all, wait->key);
    if (!wait->line)
        return false;
    list_insert(was_woken ? wait->line->sleeping.next : &wait->line->sleeping, &wait->link);
    wait->sleeps = true;
    return true;
}

static void finish(struct claim_waits *all, struct claim_wait *wait)
{
    timer_unset(all->timers, &wait->timer);
    wait->done(wait);
}

/* Nothing was there, and it sleeps: but there may be more than a claim looks at, or something has
 * happened since. Then its line asks once more. */
static void ask_on(const struct claim_wait *wait, struct list *asking)
{
    struct claim_line *line = wait->line;
    line->again |= wait->claim.more;
    if (line->again && !line->asks)
        wake_first(line, asking);
}

static void on_answer(struct op *op, void *ctx)
{
    struct claim_wait *wait = ctx;
    struct claim_waits *all = wait->all;
    struct list asking;
    bool sleeps = false;
    list_init(&asking);
    pthread_mutex_lock(&all->mutex);
    struct claim_line *line = wait->line; /* it was woken, if it has one */
    if (line)
        line->asks = false;
    if (op->code == 0 && wait->claim.n == 0)
        sleeps = may_sleep(all, wait, line != NULL);
    if (sleeps) {
        if (!line)
            timer_set(all->timers, &wait->timer, wait->until_ms);
        ask_on(wait, &asking);
    } else {
        /* A claim that got jobs, or ends, leaves the rest to the next one, unless the server
         * stops. */
        if (line && op->code != REDRIVE_E_STOPPING)
            wake_first(line, &asking);
        leave(all, wait);
    }
    pthread_mutex_unlock(&all->mutex);
    ask(all, &asking);
    if (!sleeps)
        finish(all, wait);
}

/* Out of its sleep for good, or else late: then its answer will end it. */
static bool end_sleep(struct claim_wait *wait)
{
    struct claim_waits *all = wait->all;
    pthread_mutex_lock(&all->mutex);
    const bool slept = wait->sleeps;
    wait->is_late = true;
    if (slept) {
        list_remove(&wait->link);
        wait->sleeps = false;
        leave(all, wait);
    }
    pthread_mutex_unlock(&all->mutex);
    return slept;
}

static void on_timer(struct timer *timer)
{
    struct claim_wait *wait = LIST_ENTRY(timer, struct claim_wait, timer);
    if (end_sleep(wait))
        wait->done(wait);
}

void claim_waits_end(struct claim_wait *wait)
{
    if (end_sleep(wait))
        finish(wait->all, wait);
}

void claim_wait_init(struct claim_waits *all, struct claim_wait *wait)
{
    wait->all = all;
    wait->line = NULL;
    wait->sleeps = wait->is_late = false;
    list_init(&wait->link);
    timer_init(&wait->timer, on_timer);
    wait->claim.op.done = on_answer;
    wait->claim.op.done_ctx = wait;
}

void claim_waits_add(struct claim_wait *wait)
{
    committer_submit(wait->all->committer, &wait->claim.op);
}

void claim_waits_ready(struct claim_waits *all)
{
    struct list asking;
    list_init(&asking);
    pthread_mutex_lock(&all->mutex);
    MAP_FOREACH (&all->lines, slot) {
        struct claim_line *line = slot->value;
        if (line->asks)
            line->again = true;
        else
            wake_first(line, &asking);
    }
    pthread_mutex_unlock(&all->mutex);
    ask(all, &asking);
}

/* ---- Start and end --------------------------------------------------------------------------- */

/* Answers those that sleep and may not go on; when all is closed that is every one. */
static void end_sleepers(struct claim_waits *all, bool closes)
{
    struct list over;
    list_init(&over);
    pthread_mutex_lock(&all->mutex);
    all->closed |= closes;
    MAP_FOREACH (&all->lines, slot) {
        struct claim_line *line = slot->value;
        LIST_FOREACH (&line->sleeping, link) {
            if (!all->closed && may_wait(wait_of(link)))
                continue;
            wait_of(link)->sleeps = false;
            list_remove(link);
            list_insert(&over, link);
        }
    }
    LIST_FOREACH (&over, link)
        leave(all, wait_of(link));
    pthread_mutex_unlock(&all->mutex);
    LIST_FOREACH (&over, link) {
        list_remove(link);
        finish(all, wait_of(link));
    }
}

void claim_waits_recheck(struct claim_waits *all)
{
    end_sleepers(all, false);
}

void claim_waits_close(struct claim_waits *all)
{
    end_sleepers(all, true);
}

int claim_waits_new(struct committer *committer, struct timers *timers, struct claim_waits **ret,
                    struct redrive_err *err)
{
    struct claim_waits *all = calloc(1, sizeof *all);
    *ret = all;
    if (!all)
        return err_nomem(err);
    all->committer = committer;
    all->timers = timers;
    pthread_mutex_init(&all->mutex, NULL);
    map_init(&all->lines, (uint64_t)clock_monotonic_ns());
    return 0;
}

void claim_waits_free(struct claim_waits *all)
{
    if (!all)
        return;
    map_release(&all->lines);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}
