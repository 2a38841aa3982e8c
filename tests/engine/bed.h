/* bed.h - an engine on a test bed: a store of the kind that REDRIVE_TEST_STORE names, a clock that
 * the test moves, a configuration given as text, and a witness who hears of every start.
 */
#ifndef TESTS_ENGINE_BED_H
#define TESTS_ENGINE_BED_H

#include "check.h"

#include "engine/engine.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/control.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"
#include "store/stores.h"

#define BED_START_MS INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

struct bed {
    int64_t now_ms;
    struct config *config;
    struct engine *engine;
    char dir[64];
    char url[STORES_URL_MAX];
    unsigned told[ENGINE_EVENT_COUNT]; /* events so far */
    struct claim_op claim;             /* the latest */
};

/* Opens everything; a NULL configuration is no configuration. */
void bed_init(struct bed *bed, const char *yaml);
/* The same on a store that the test has opened and takes care of, from a time on. The engine closes
 * it: see tests/store/wrap.h for one that outlives the engine. */
void bed_init_on(struct bed *bed, const char *yaml, struct store *store, int64_t now_ms);
void bed_release(struct bed *bed);

#define BED_TEST(test, ...) \
    TEST_OF(test, struct bed, bed, bed_init(bed, __VA_ARGS__), bed_release(bed))

/* A further engine on the same store. */
struct engine *bed_second_engine(struct bed *bed);
struct engine *bed_engine_without_config(struct bed *bed);

/* A configuration, for the test to free; the same put into force, held by the engine alone. */
struct config *bed_config(struct bed *bed, const char *yaml);
void bed_reload(struct bed *bed, const char *yaml);

/* Ticks until nothing more is due now. */
void bed_tick(struct bed *bed);
/* Moves the clock and ticks. */
void bed_pass(struct bed *bed, int64_t ms);

/* Lets two seconds pass in small steps, in which retention removes what there is: a batch a step.
 */
void bed_pass_sweeps(struct bed *bed);

/* Submits; the answer must be a new job. */
int64_t bed_submit(struct bed *bed, const char *task, const char *payload);
int64_t bed_submit_spec(struct bed *bed, const struct job_spec *spec);
/* The code of the answer. */
int bed_try_submit(struct bed *bed, const struct job_spec *spec);

/* Claims up to n; the jobs are in bed->claim until the next claim. */
size_t bed_claim(struct bed *bed, size_t n);
/* Claims exactly one and gives it. */
const struct job *bed_claim_one(struct bed *bed);
/* The same, and it must be this one; then it may succeed as well. */
struct job bed_claim_this(struct bed *bed, int64_t seq);
void bed_run_this(struct bed *bed, int64_t seq);

/* Settles a job as claimed; the code of the answer. */
int bed_settle(struct bed *bed, const struct job *job, const struct outcome *outcome);
int bed_succeed(struct bed *bed, const struct job *job);
/* With a handler's word: TRANSIENT_FAIL, PERMANENT_FAIL or a class. */
int bed_fail(struct bed *bed, const struct job *job, const char *status);

/* The job's row as it now is; its strings must not be read. */
struct job bed_job(struct bed *bed, int64_t seq);
enum redrive_state bed_state(struct bed *bed, int64_t seq);
int bed_change(struct bed *bed, enum move_kind kind, int64_t seq);
enum redrive_breaker_state bed_breaker(struct bed *bed, const char *key);
/* How many jobs are in a state. */
size_t bed_count(struct bed *bed, enum redrive_state state);
/* The sum of a counter. */
int64_t bed_counter(struct bed *bed, const char *name, const char *label);

#endif
