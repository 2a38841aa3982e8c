/* Shards that hang or are away: the others go on, and callers are told which it is. */
#include "check.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "config/config.h"
#include "engine/state.h"
#include "engine/store_status.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "shard_field.h"

/* An operation that holds up the transaction of its tenant's shard. */
struct hold_op {
    struct op op;
    struct str tenant;
    sem_t begun, end;
    sem_t answered;
};

static int hold_up(struct engine *engine, struct op *op, struct redrive_err *err)
{
    struct hold_op *hold = (struct hold_op *)op;
    struct timespec until;
    (void)engine, (void)err;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 100; /* a test that fails ends */
    sem_post(&hold->begun);
    (void)sem_timedwait(&hold->end, &until);
    return 0;
}

static void on_held(struct op *op, void *ctx)
{
    (void)op;
    sem_post(&((struct hold_op *)ctx)->answered);
}

static void hold_shard(struct field *f, struct hold_op *hold, const char *tenant)
{
    static const struct op_route ROUTE = {.to = ROUTE_TENANT,
                                          .tenant_at = offsetof(struct hold_op, tenant)};
    *hold = (struct hold_op){.op = {.apply = hold_up, .route = &ROUTE}, .tenant = str_of(tenant)};
    sem_init(&hold->begun, 0, 0);
    sem_init(&hold->end, 0, 0);
    sem_init(&hold->answered, 0, 0);
    hold->op.done = on_held;
    hold->op.done_ctx = hold;
    committer_submit(f->committer, &hold->op);
    sem_wait(&hold->begun);
}

static void let_shard_go(struct hold_op *hold)
{
    sem_post(&hold->end);
    sem_wait(&hold->answered);
    sem_destroy(&hold->begun);
    sem_destroy(&hold->end);
    sem_destroy(&hold->answered);
}

/* How many jobs a claim of all tenants is given, and how it went. */
static size_t claim_any(struct field *f, struct redrive_err *err, enum claim_missed *ret_missed,
                        int64_t *ret_ms)
{
    const struct claim_filter filter = {.limit = 5};
    const int64_t since_ms = clock_monotonic_ms();
    struct claim_op claim;
    claim_op_init(&claim, &filter, STR("w"), 0);
    assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
    const size_t n = claim.n;
    *err = claim.op.err;
    *ret_missed = claim.missed;
    *ret_ms = clock_monotonic_ms() - since_ms;
    claim_op_release(&claim);
    return n;
}

#define TRIES 10

/* Others may keep the machine busy for so long that a shard is taken for one that hangs, or is too
 * late for a claim: tried anew until one try is in time. */
static void try_anew(struct field *f, bool (*is_in_time)(struct field *f))
{
    int tries = 0;
    while (!is_in_time(f))
        assert_true(++tries < TRIES);
}

/* tenant-2 and tenant-1 are on different shards. */
static bool claims_without_a_shard(struct field *f)
{
    struct hold_op hold;
    struct redrive_err err, later_err;
    enum claim_missed missed, later_missed;
    int64_t took_ms, later_ms;
    char name[16];
    (void)submit_for(f, "tenant-2");
    hold_shard(f, &hold, "tenant-1");
    const size_t n = claim_any(f, &err, &missed, &took_ms);
    const size_t later_n = claim_any(f, &later_err, &later_missed, &later_ms);
    const bool is_in_time = n > 0 && took_ms + later_ms < STORE_STATUS_HANGS_MS;
    let_shard_go(&hold);
    if (is_in_time) {
        assert_int_equal(n, 1);
        /* Until it answers, an empty claim says that it knows nothing of this shard. */
        assert_int_equal(later_n, 0);
        assert_int_equal(later_missed, CLAIM_MISSED_SLOW);
        (void)snprintf(name, sizeof name, "shard %zu",
                       shard_of_tenant(STR("tenant-1"), N_SHARDS) + 1);
        assert_non_null(strstr(later_err.detail, name));
    }
    WAIT_FOR(claim_any(f, &err, &missed, &took_ms) == 0 && missed == CLAIM_MISSED_NONE);
    return is_in_time;
}

FIELD_TEST(a_claim_goes_on_without_a_shard_that_hangs)
{
    try_anew(f, claims_without_a_shard);
}

static bool gives_back_what_comes_too_late(struct field *f)
{
    struct hold_op hold;
    struct redrive_err err;
    enum claim_missed missed;
    int64_t took_ms, later_ms;
    size_t n = 0;
    (void)submit_for(f, "tenant-1");
    hold_shard(f, &hold, "tenant-1");
    assert_int_equal(claim_any(f, &err, &missed, &took_ms), 0);
    let_shard_go(&hold);
    WAIT_FOR((n = claim_any(f, &err, &missed, &later_ms)) > 0);
    assert_int_equal(n, 1);
    assert_true(took_ms >= ROUTE_CLAIM_WAIT_MS);
    return took_ms < STORE_STATUS_HANGS_MS;
}

/* The shard gives the job to a claim that has gone on: another claim gets it at once, not when the
 * lease has ended. */
FIELD_TEST(a_job_that_comes_too_late_for_its_claim_is_given_back)
{
    try_anew(f, gives_back_what_comes_too_late);
}

static int submit_code(struct field *f, const char *tenant, struct redrive_err *err)
{
    const struct job_spec spec = {.task = STR("t"), .tenant = str_of(tenant)};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(f->committer), &spec, 1, NULL), 0);
    const int rc = committer_run(f->committer, &op.op, err);
    submit_op_release(&op);
    return rc;
}

FIELD_TEST(tenants_of_a_shard_that_hangs_are_told_and_the_others_go_on)
{
    static const struct op_route EVERY = {.to = ROUTE_EVERY};
    struct hold_op hold;
    struct redrive_err err = {0};
    struct store_status_view view;
    enum claim_missed missed;
    int64_t took_ms;
    char name[16];
    (void)snprintf(name, sizeof name, "shard %zu", shard_of_tenant(STR("tenant-1"), N_SHARDS) + 1);
    hold_shard(f, &hold, "tenant-1");
    int64_t shortest_ms = INT64_MAX;
    /* It waits behind the transaction, and fails when that hangs; later ones fail at once. */
    for (int i = 0; i < 5; i++) {
        const int64_t since_ms = clock_monotonic_ms();
        assert_int_equal(submit_code(f, "tenant-1", &err), REDRIVE_E_IO);
        assert_true(redrive_err_retryable(err.code));
        assert_non_null(strstr(err.detail, name));
        const int64_t ms = clock_monotonic_ms() - since_ms;
        shortest_ms = ms < shortest_ms ? ms : shortest_ms;
    }
    assert_true(shortest_ms < STORE_STATUS_HANGS_MS);
    const int64_t then_ms = clock_monotonic_ms();
    assert_int_equal(submit_code(f, "tenant-2", &err), 0);
    assert_int_equal(claim_any(f, &err, &missed, &took_ms), 1);
    assert_int_equal(claim_any(f, &err, &missed, &took_ms), 0);
    assert_int_equal(missed, CLAIM_MISSED_AWAY);
    assert_non_null(strstr(err.detail, name));
    store_status_read(committer_store_status(f->committer), &view);
    assert_true(view.is_partly_away && view.is_failing && !view.is_away);
    assert_non_null(strstr(view.err.message, name));
    struct counting_op every = {.op = {.apply = count_engines, .route = &EVERY}};
    assert_int_equal(committer_run(f->committer, &every.op, &err), REDRIVE_E_IO);
    assert_int_equal(every.n, N_SHARDS - 1);
    assert_true(clock_monotonic_ms() - then_ms < STORE_STATUS_HANGS_MS);
    let_shard_go(&hold);
    assert_int_equal(submit_code(f, "tenant-1", &err), 0);
    assert_int_equal(count_in(f, REDRIVE_STATE_QUEUED), 1);
}

/* Leases of jobs on other shards must not run out because the heartbeat waits for one. */
FIELD_TEST(a_heartbeat_is_answered_without_a_shard_that_hangs)
{
    struct hold_op hold;
    struct extension items[2] = {0};
    struct extend_op op;
    size_t n = 0;
    (void)submit_for(f, "tenant-1");
    (void)submit_for(f, "tenant-2");
    for (int i = 0; i < 2; i++) {
        const struct claim_filter filter = {.limit = 1,
                                            .tenant = i == 0 ? STR("tenant-1") : STR("tenant-2")};
        struct claim_op claim;
        claim_op_init(&claim, &filter, STR("w"), 0);
        assert_int_equal(committer_run(f->committer, &claim.op, NULL), 0);
        assert_int_equal(claim.n, 1);
        items[n++] = (struct extension){.seq = claim.jobs[0].status.seq,
                                        .token = claim.jobs[0].status.token,
                                        .lease_ms = 60000};
        claim_op_release(&claim);
    }
    hold_shard(f, &hold, "tenant-1");
    const int64_t since_ms = clock_monotonic_ms();
    extend_op_init(&op, items, n);
    op.op.by_item = op.op.goes_alone = true;
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    assert_true(clock_monotonic_ms() - since_ms < STORE_STATUS_HANGS_MS);
    assert_int_equal(items[0].ret.code, REDRIVE_E_IO);
    assert_int_equal(items[1].ret.code, 0);
    let_shard_go(&hold);
    extend_op_init(&op, items, n);
    op.op.by_item = op.op.goes_alone = true;
    assert_int_equal(committer_run(f->committer, &op.op, NULL), 0);
    assert_int_equal(items[0].ret.code, 0);
}

/* ---- Another configuration ------------------------------------------------------------------- */

static struct config *config_of(const char *yaml)
{
    char path[] = "/tmp/redrive-shards-XXXXXX";
    struct config *config;
    struct config_report report;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, yaml, strlen(yaml)), (ssize_t)strlen(yaml));
    (void)close(fd);
    const struct config_sources sources = {.path = path, .path_required = true};
    assert_int_equal(config_load(&sources, &config, &report), 0);
    (void)unlink(path);
    return config;
}

/* How many shards have a configuration with the task `new`. */
static size_t count_reloaded(struct field *f)
{
    size_t n = 0;
    for (size_t i = 0; i < N_SHARDS; i++) {
        struct config *config =
            engine_config(committer_engine(router_lane(f->router, i)->committer));
        for (size_t k = 0; config && k < config->n_tasks; k++)
            n += strcmp(config->tasks[k].name, "new") == 0;
        config_free(config);
    }
    return n;
}

static int reload(struct field *f, bool *ret_in_force, struct redrive_err *err)
{
    struct config *config = config_of("tasks: {new: {queue: media}}\n");
    struct reload_op op;
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    config_free(config);
    const int rc = committer_run(f->committer, &op.op, err);
    *ret_in_force = op.in_force;
    reload_op_release(&op);
    return rc;
}

/* A tenant of the last shard, which is reached after the others have the new configuration. */
static const char *last_tenant(char out[16])
{
    for (size_t i = 0;; i++)
        if (shard_of_tenant(str_of(tenant_name(i, out)), N_SHARDS) == N_SHARDS - 1)
            return out;
}

FIELD_TEST(a_reload_is_for_all_shards_or_for_none)
{
    struct hold_op hold;
    struct redrive_err err = {0};
    char name[16];
    bool in_force;
    hold_shard(f, &hold, last_tenant(name));
    /* The shard is reached, and then hangs; the second time that is known before. */
    for (int i = 0; i < 2; i++) {
        const int64_t since_ms = clock_monotonic_ms();
        assert_int_equal(reload(f, &in_force, &err), REDRIVE_E_IO);
        assert_false(in_force);
        assert_non_null(strstr(err.message, "no shard has the new configuration"));
        assert_non_null(strstr(err.detail, "shard 4"));
        assert_int_equal(count_reloaded(f), 0);
        assert_true(clock_monotonic_ms() - since_ms < (i == 0 ? 10 : 1) * STORE_STATUS_HANGS_MS);
    }
    let_shard_go(&hold);
    assert_int_equal(reload(f, &in_force, &err), 0);
    assert_true(in_force);
    assert_int_equal(count_reloaded(f), N_SHARDS);
}

static int fail_by_shard(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)op;
    if (engine->options.shard == 0)
        return err_set(err, REDRIVE_E_IO, "away");
    return engine->options.shard == 1 ? err_set(err, REDRIVE_E_INVALID, "wrong") : 0;
}

/* A shard that is away may be passed over; what another one refuses may not. */
FIELD_TEST(a_refusal_is_told_though_another_shard_is_away)
{
    static const struct op_route ROUTE = {.to = ROUTE_TASKS};
    struct op op = {.apply = fail_by_shard, .route = &ROUTE};
    struct redrive_err err = {0};
    assert_int_equal(committer_run(f->committer, &op, &err), REDRIVE_E_INVALID);
    assert_string_equal(err.message, "wrong");
}
