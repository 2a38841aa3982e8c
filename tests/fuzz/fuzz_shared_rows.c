/* Rows that processes share, as anybody could have written them: the first byte says which kind it
 * is, the rest is its value. An engine on such a store works or says what is damaged, and so does
 * everybody who only looks. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "engine/clock/cron.h"
#include "engine/engine.h"
#include "engine/gates/view.h"
#include "engine/report/stats.h"
#include "engine/report/worker_row.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/control.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"

#define NOW_MS INT64_C(1767225600000)

static const char YAML[] =
    "tasks: {t: {breaker: {key: t}, limits: {rate: 5/s, concurrency: 2, per: key, key: t}}}\n"
    "cron: {t: {task: t, schedule: '* * * * *'}}\n"
    "alerts: [{when: dead_letters > 1}, {when: error_rate > 0.5}]\n";

static int64_t now_ms;

static int64_t clock_of(void *ctx)
{
    (void)ctx;
    return now_ms;
}

static void hear(const struct alert_event *event, void *ctx)
{
    (void)event;
    (void)ctx;
}

static const struct config *configuration(void)
{
    static struct config_report report;
    static struct config *config;
    if (!config) {
        char path[64];
        int fd = memfd_create("config", 0);
        FUZZ_CHECK(fd >= 0 && write(fd, YAML, sizeof YAML - 1) == (ssize_t)sizeof YAML - 1);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const struct config_sources sources = {.path = path, .path_required = true};
        int rc = config_load(&sources, &config, &report);
        if (rc < 0)
            fprintf(stderr, "%s: %s\n", report.errors[0].message, report.errors[0].detail);
        FUZZ_CHECK(rc == 0);
        (void)close(fd);
    }
    return config;
}

static struct store *store_with(const struct shared_row *row)
{
    const struct store_options options = {.create = true};
    struct store *store = NULL;
    struct move_result result = {0};
    int64_t transaction_ms, version;
    FUZZ_CHECK(store_open("memory:", &options, &store, NULL) == 0);
    const struct store_ops *ops = store_ops(store);
    FUZZ_CHECK(ops->begin(store, now_ms, &transaction_ms, &version, NULL) == 0);
    FUZZ_CHECK(ops->shared_put(store, row, 1, &result, NULL) == 0);
    FUZZ_CHECK(ops->commit(store, NULL) == 0);
    return store;
}

static void look(struct store *store)
{
    struct worker_page workers = {0};
    struct breaker_page breakers = {0};
    struct cron_page crons = {0};
    struct redrive_health health;
    struct str none = {0};
    FUZZ_CHECK(workers_read(store, none, now_ms, &workers, NULL) == 0);
    workers_health(&workers, NULL, 0, 0, now_ms, &health);
    FUZZ_CHECK(health.error_rate >= 0);
    worker_page_release(&workers);
    (void)breakers_read(store, none, now_ms, &breakers, NULL);
    breaker_page_release(&breakers);
    FUZZ_CHECK(cron_page_read(store, configuration(), STR("default"), now_ms, &crons, NULL) == 0);
    cron_page_release(&crons);
}

static void fail_one(struct engine *e, struct claim_op *claim)
{
    struct settlement item = {.seq = claim->jobs[0].status.seq,
                              .token = claim->jobs[0].status.token,
                              .outcome = {.failure = {.failed = true, .exit_code = 75}}};
    struct settle_op op;
    settle_op_init(&op, &item, 1);
    (void)engine_apply_one(e, &op.op, NULL);
}

static void work(struct engine *e)
{
    const struct job_spec spec = {.task = STR("t")};
    const struct claim_filter filter = {.limit = 1};
    struct submit_op submit;
    struct claim_op claim;
    struct pause_op resume;
    int64_t next_ms;
    for (int i = 0; i < 3; i++) {
        (void)engine_tick(e, &next_ms, NULL);
        FUZZ_CHECK(submit_op_init(&submit, e, &spec, 1, NULL) == 0);
        (void)engine_apply_one(e, &submit.op, NULL);
        submit_op_release(&submit);
        claim_op_init(&claim, &filter, STR("w"), 0);
        if (engine_apply_one(e, &claim.op, NULL) == 0 && claim.n > 0)
            fail_one(e, &claim);
        claim_op_release(&claim);
        pause_op_init(&resume, STR("default"), STR("t"), false);
        (void)engine_apply_one(e, &resume.op, NULL);
        now_ms += 90 * 1000;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine *e = NULL;
    if (size == 0)
        return 0;
    now_ms = NOW_MS;
    const struct shared_row row = {.kind = (enum shared_kind)((data[0] - '0') & 7) % 7,
                                   .tenant = STR("default"),
                                   .key = STR("t"),
                                   .value = {(const char *)data + 1, size - 1}};
    struct store *store = store_with(&row);
    look(store);
    const struct engine_options options = {
        .store = store, .config = configuration(), .clock = clock_of, .seed = 7, .on_alert = hear};
    FUZZ_CHECK(engine_open(&options, &e, NULL) == 0);
    work(e);
    engine_close(e);
    return 0;
}
