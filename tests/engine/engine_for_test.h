/* engine_for_test.h - an engine for a test, with a store of the kind that REDRIVE_TEST_STORE names,
 * a clock that the test moves, a configuration given as text, and a count of the engine's events.
 */
#ifndef TESTS_ENGINE_ENGINE_FOR_TEST_H
#define TESTS_ENGINE_ENGINE_FOR_TEST_H

#include "check.h"

#include "engine/engine.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/control.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"
#include "store/stores.h"

#define TE_START_MS INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

struct test_engine {
    int64_t now_ms;
    struct config *config;
    struct engine *engine;
    char dir[64];
    char url[STORES_URL_MAX];
    unsigned told[ENGINE_EVENT_COUNT]; /* events so far */
    struct claim_op claim;             /* the latest */
};

/* Opens everything; a NULL configuration is no configuration. */
void te_init(struct test_engine *te, const char *yaml);
/* The same on a store that the test has opened and takes care of, from a time on. The engine closes
 * it: see tests/store/wrap.h for one that outlives the engine. */
void te_init_on(struct test_engine *te, const char *yaml, struct store *store, int64_t now_ms);
void te_release(struct test_engine *te);

#define ENGINE_TEST(test, ...) \
    TEST_OF(test, struct test_engine, te, te_init(te, __VA_ARGS__), te_release(te))

/* A further engine on the same store. */
struct engine *te_second_engine(struct test_engine *te);
struct engine *te_engine_without_config(struct test_engine *te);

/* A configuration, for the test to free; the same put into force, held by the engine alone. */
struct config *te_config(struct test_engine *te, const char *yaml);
void te_reload(struct test_engine *te, const char *yaml);

/* Ticks until nothing more is due now. */
void te_tick(struct test_engine *te);
/* Moves the clock and ticks. */
void te_pass(struct test_engine *te, int64_t ms);

/* Lets two seconds pass in small steps, in which retention removes what there is: a batch a step.
 */
void te_pass_sweeps(struct test_engine *te);

/* Submits; the answer must be a new job. */
int64_t te_submit(struct test_engine *te, const char *task, const char *payload);
int64_t te_submit_spec(struct test_engine *te, const struct job_spec *spec);
/* The code of the answer. */
int te_try_submit(struct test_engine *te, const struct job_spec *spec);

/* Claims up to n; the jobs are in te->claim until the next claim. */
size_t te_claim(struct test_engine *te, size_t n);
/* Claims exactly one and gives it. */
const struct job *te_claim_one(struct test_engine *te);
/* The same, and it must be this one; then it may succeed as well. */
struct job te_claim_this(struct test_engine *te, int64_t seq);
void te_run_this(struct test_engine *te, int64_t seq);

/* Settles a job as claimed; the code of the answer. */
int te_settle(struct test_engine *te, const struct job *job, const struct outcome *outcome);
int te_succeed(struct test_engine *te, const struct job *job);
/* With a handler's word: TRANSIENT_FAIL, PERMANENT_FAIL or a class. */
int te_fail(struct test_engine *te, const struct job *job, const char *status);

/* The job's row as it now is; its strings must not be read. */
struct job te_job(struct test_engine *te, int64_t seq);
enum redrive_state te_state(struct test_engine *te, int64_t seq);
int te_change(struct test_engine *te, enum move_kind kind, int64_t seq);
enum redrive_breaker_state te_breaker(struct test_engine *te, const char *key);
/* How many jobs are in a state. */
size_t te_count(struct test_engine *te, enum redrive_state state);
/* The sum of a counter. */
int64_t te_counter(struct test_engine *te, const char *name, const char *label);

#endif
