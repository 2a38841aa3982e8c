/* judge_cron.c - periodic tasks: each tick makes one job, at its time, whichever process makes it.
 *
 * The mark of an entry, in its shared row, says which tick was the last. A step that has moved it
 * must have made the job of that tick, as far as the rule of overlap allows one; a step that has
 * not must have made none. The schedules are so simple that the judge needs no calendar.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

#define AHEAD_MS INT64_C(3600000) /* a mark that is further ahead than this is given up */

static const struct {
    const char *name; /* of the entry and of its task */
    int64_t every_ms;
    bool always; /* a job for every tick; else only if none is live, or it may wait for one */
    size_t live; /* jobs at most that have not ended */
} CRONS[CRON_COUNT] = {
    {"every", INT64_C(60000), true, SIZE_MAX},
    {"skips", INT64_C(120000), false, 1},
    {"queues", INT64_C(300000), false, 2},
};

/* Its task is the entry's own; with a rule of overlap so is its key. */
static bool has_right_key(int cron, struct str key)
{
    char first[JUDGE_ID_MAX], next[JUDGE_ID_MAX];
    (void)snprintf(first, sizeof first, "cron:%s", CRONS[cron].name);
    (void)snprintf(next, sizeof next, "cron:%s:next", CRONS[cron].name);
    if (CRONS[cron].always)
        return key.len == 0;
    return str_is(key, first) || (CRONS[cron].live > 1 && str_is(key, next));
}

struct known *judge_adopt(struct judge *judge, const struct job *job)
{
    for (int i = 0; i < CRON_COUNT; i++) {
        const int task = TASK_COUNT + i;
        if (!str_is(job->spec.task, CRONS[i].name))
            continue;
        struct job_spec spec = job->spec;
        spec.payload = STR(CRON_PAYLOAD);
        if (!has_right_key(i, spec.unique_key))
            judge_complain(judge, 4, "a job of %s has the key '%.*s'", CRONS[i].name,
                           (int)spec.unique_key.len, spec.unique_key.ptr);
        judge->crons[i].made++;
        judge->crons[i].made_ms = job->status.created_ms;
        struct known *known = judge_submits(judge, &spec, task, 0);
        known->submitted = IS_SURELY;
        return known;
    }
    return NULL;
}

void judge_ticked(struct judge *judge, int code, int64_t at_ms)
{
    judge->has_ticked = true;
    if (code == 0)
        judge->ticked_ms = at_ms;
}

/* 0: it has none yet. */
static int64_t mark_of(const struct shared_page *page, const char *name)
{
    static const char FIELD[] = "\"last_tick_ms\":";
    for (size_t i = 0; i < page->n; i++) {
        char value[256];
        (void)snprintf(value, sizeof value, "%.*s", (int)page->rows[i].value.len,
                       page->rows[i].value.ptr);
        const char *at = strstr(value, FIELD);
        if (at && str_is(page->rows[i].key, name))
            return strtoll(at + sizeof FIELD - 1, NULL, 10);
    }
    return 0;
}

/* A tick has been made: the last one at some time of this step, and with it a job. */
static void check_tick(struct judge *judge, int i, int64_t mark_ms, bool was_free, int64_t now_ms)
{
    const struct known_cron *cron = &judge->crons[i];
    const int64_t every_ms = CRONS[i].every_ms;
    const int64_t from_ms = judge->looked_ms < now_ms ? judge->looked_ms : now_ms;
    if (mark_ms % every_ms != 0 || mark_ms > now_ms || mark_ms < from_ms - from_ms % every_ms)
        judge_complain(judge, 6, "%s has made a tick for %lld at %lld", CRONS[i].name,
                       (long long)mark_ms, (long long)now_ms);
    if (cron->made > 1)
        judge_complain(judge, 2, "a tick of %s has made %u jobs", CRONS[i].name, cron->made);
    if (cron->made == 0 && (CRONS[i].always || was_free))
        judge_complain(judge, 1, "a tick of %s has made no job", CRONS[i].name);
    if (cron->made > 0 && cron->made_ms < mark_ms)
        judge_complain(judge, 6, "%s has made a job %lld ms early", CRONS[i].name,
                       (long long)(mark_ms - cron->made_ms));
}

/* After a tick nothing is left to be made. */
static void check_none_missed(struct judge *judge, int i, int64_t mark_ms)
{
    const int64_t at_ms = judge->ticked_ms;
    if (at_ms == 0)
        return;
    if (mark_ms < at_ms - at_ms % CRONS[i].every_ms)
        judge_complain(judge, 1, "a tick of %s was missed: the last one was %lld ms ago",
                       CRONS[i].name, (long long)(at_ms - mark_ms));
    if (mark_ms - at_ms > AHEAD_MS)
        judge_complain(judge, 12, "%s stands still for %lld ms", CRONS[i].name,
                       (long long)(mark_ms - at_ms));
}

static void check_mark(struct judge *judge, int i, int64_t mark_ms, bool was_free, int64_t now_ms)
{
    const struct known_cron *cron = &judge->crons[i];
    const bool goes_on = cron->mark_ms != 0 && mark_ms > cron->mark_ms;
    if (goes_on)
        check_tick(judge, i, mark_ms, was_free, now_ms);
    else if (cron->made > 0)
        judge_complain(judge, 2, "%s has made a job, and no tick was due", CRONS[i].name);
    if (mark_ms < cron->mark_ms && cron->mark_ms - mark_ms <= AHEAD_MS)
        judge_complain(judge, 2, "the mark of %s went back by %lld ms", CRONS[i].name,
                       (long long)(cron->mark_ms - mark_ms));
    check_none_missed(judge, i, mark_ms);
}

struct lives {
    size_t live, running;
    bool in_doubt; /* one of them was redriven */
};

static struct lives count_lives(const struct judge *judge, int task)
{
    struct lives lives = {0};
    for (size_t i = 0; i < judge->n; i++) {
        const struct known *known = &judge->jobs[i];
        if (known->task != task || !known->was_there)
            continue;
        lives.live += known->finished_ms == 0;
        lives.running += known->state == REDRIVE_STATE_RUNNING;
        lives.in_doubt |= known->is_redriven_now;
    }
    return lives;
}

void judge_crons(struct judge *judge, struct store *eye, int64_t now_ms)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    bool looks = judge->has_ticked;
    for (int i = 0; i < CRON_COUNT; i++)
        looks |= judge->crons[i].made > 0;
    if (looks && store_ops(eye)->shared_list(eye, SHARED_CRON, STR("default"), &page, NULL) != 0)
        return;
    for (int i = 0; i < CRON_COUNT; i++) {
        struct known_cron *cron = &judge->crons[i];
        const struct lives lives = count_lives(judge, TASK_COUNT + i);
        const int64_t mark_ms = looks ? mark_of(&page, CRONS[i].name) : cron->mark_ms;
        if (lives.live > CRONS[i].live || (!CRONS[i].always && lives.running > 1))
            judge_complain(judge, 4, "%zu jobs of %s are live, %zu of them run", lives.live,
                           CRONS[i].name, lives.running);
        if (looks)
            check_mark(judge, i, mark_ms, cron->live == 0 && !lives.in_doubt, now_ms);
        *cron = (struct known_cron){.mark_ms = mark_ms, .live = lives.live};
    }
    judge->has_ticked = false;
    judge->ticked_ms = 0;
    judge->looked_ms = now_ms;
}
