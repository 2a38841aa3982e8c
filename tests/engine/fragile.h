/* fragile.h - an engine on a memory store whose slots can be made to fail, and what they are asked.
 */
#ifndef TESTS_ENGINE_FRAGILE_H
#define TESTS_ENGINE_FRAGILE_H

#include "engine/engine_for_test.h"

/* The store refuses jobs of the task `bad`, and waits for a lock for those of the task `locked`. */
extern struct fragile {
    int fail_commit;            /* code of the next commits */
    unsigned fail_times;        /* of how many */
    bool commit_came_first;     /* the store had already done it */
    bool commit_is_rolled_back; /* the store knows that it has done nothing */
    unsigned commits;
    uint32_t told; /* by the last commit */
    unsigned begins;
    unsigned begins_left; /* after so many the store is gone */
    unsigned lists;
    unsigned finds;
    uint64_t seen_token; /* of the last change */
    int put_code;        /* the slot fails with it */
    bool put_refused;    /* it says that others were faster */
    unsigned shared_puts;
    bool is_locked;       /* the lock is not given in time, so that the transaction is lost */
    unsigned waits;       /* how often it was waited for */
    int64_t lock_wait_ms; /* and how long, the last time */
    struct buf lines;     /* of the log */
} fragile;

/* Starts anew: nothing fails, nothing is counted. */
void make_fragile(struct test_engine *te);

#define FRAGILE_TEST(test) TEST_OF(test, struct test_engine, te, make_fragile(te), te_release(te))
/* After the last test. */
void fragile_release(void);

/* How often the log has this event. */
unsigned fragile_count(const char *event);

#endif
