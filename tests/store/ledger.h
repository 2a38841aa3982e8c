/* ledger.h - what a store has acknowledged, kept by somebody else.
 *
 * A second, much simpler account of the jobs: what the answers of the store imply, and nothing
 * that was read from it. Each answer is held against the invariants of docs/architecture.md; the
 * first that breaks one is kept. Waiting is one state here: whether a job is scheduled, retrying or
 * queued is not an answer but a matter of time.
 */
#ifndef TESTS_STORE_LEDGER_H
#define TESTS_STORE_LEDGER_H

#include "store/store.h"

#define LEDGER_MAX 256

/* What is wrong first, and which invariants are broken in all: one bug breaks several. */
struct violation {
    int invariant; /* its number; 0: all is well */
    char text[200];
    uint32_t all; /* bit mask */
};

struct ledger_job {
    int64_t seq;
    char tenant[16];
    char id[24];
    char key[24];
    uint64_t payload_hash;
    int32_t max_attempts;
    enum redrive_state state; /* queued stands for all that wait, but for parked */
    uint32_t epoch;
    uint32_t attempts;
    uint64_t token; /* of the lease; 0: none */
    bool gone;      /* removed by hand */
};

struct ledger {
    struct ledger_job jobs[LEDGER_MAX];
    size_t n;
    struct violation violation;
};

void ledger_submit(struct ledger *l, const struct job_spec *spec, const struct submit_result *r);
void ledger_move(struct ledger *l, const struct move *move, const struct move_result *r);

const struct ledger_job *ledger_find(const struct ledger *l, int64_t seq);

/* Keeps the text of the first one. */
void ledger_violated(struct ledger *l, int invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
