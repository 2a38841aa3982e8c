/* seed_main.c - makes a store in which there is something to see:
 *
 *   seed_store URL [N]
 *
 *   mail    5 retrying, 2 parked behind an open breaker
 *   sms     3 completed, 1 dead, 1 cancelled, 1 scheduled, 1 running, 1 queued
 *   zoo     another tenant, with 1 job queued
 *   bulk    N jobs queued, if N is given
 *
 * and a worker called seed-worker that has just told of itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "engine/engine.h"
#include "engine/report/worker_row.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"

#define BATCH 1000

static struct engine *engine;

static void apply(struct op *op)
{
    struct redrive_err err = {0};
    if (engine_apply_one(engine, op, &err) < 0) {
        (void)fprintf(stderr, "seed: %s; %s\n", err.message, err.detail);
        exit(1);
    }
}

static void submit(const char *tenant, const char *task, const char *queue, int64_t after_ms, int n)
{
    struct job_spec specs[BATCH];
    struct submit_op op;
    for (int i = 0; i < n; i++)
        specs[i] = (struct job_spec){
            .tenant = str_of(tenant),
            .task = str_of(task),
            .queue = str_of(queue),
            .payload = STR("{}"),
            .process_after_ms = after_ms,
        };
    if (submit_op_init(&op, engine, specs, (size_t)n, NULL) < 0)
        exit(1);
    apply(&op.op);
    submit_op_release(&op);
}

/* Claims n jobs of a task and ends each of them as told; NULL leaves them running. */
static void work(const char *task, size_t n, const char *status, const char *message)
{
    const struct str tasks[] = {str_of(task)};
    const struct claim_filter filter = {.tasks = tasks, .n_tasks = 1, .limit = n};
    struct claim_op claim;
    claim_op_init(&claim, &filter, STR("seed-worker"), 600000);
    apply(&claim.op);
    for (size_t i = 0; i < claim.n && status; i++) {
        struct settlement s = {
            .seq = claim.jobs[i].status.seq,
            .token = claim.jobs[i].status.token,
            .outcome = {.ending = ENDING_RAN,
                        .failure = {.status = status,
                                    .error_type = message ? "SeedError" : NULL,
                                    .message = message}},
        };
        struct settle_op settle;
        settle_op_init(&settle, &s, 1);
        apply(&settle.op);
    }
    claim_op_release(&claim);
}

static void cancel_first(const char *task)
{
    struct store *store = engine_store(engine);
    const struct job_filter filter = {
        .task = str_of(task), .states = 1u << REDRIVE_STATE_QUEUED, .limit = 1};
    struct job_page page = {0};
    struct change_op op;
    if (store_ops(store)->list(store, &filter, &page, NULL) < 0 || page.n != 1)
        exit(1);
    struct change_item item = {.seq = page.jobs[0].status.seq};
    change_op_init(&op, MOVE_CANCEL, &item, 1);
    apply(&op.op);
    job_page_release(&page);
}

static void open_engine(const char *url)
{
    const struct store_options create = {.create = true};
    struct engine_options options = {0};
    struct redrive_err err = {0};
    if (store_open(url, &create, &options.store, &err) < 0 ||
        engine_open(&options, &engine, &err) < 0) {
        (void)fprintf(stderr, "seed: %s; %s\n", err.message, err.detail);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct worker_op worker;
    if (argc < 2)
        return 2;
    open_engine(argv[1]);
    submit(NULL, "mail", "post", 0, 7);
    work("mail", 5, "network", "connection refused");
    work("mail", 2, "network", "never reached");
    submit(NULL, "sms", "texts", 0, 7);
    work("sms", 3, "SUCCESS", NULL);
    work("sms", 1, "PERMANENT_FAIL", "no such\nnumber \033[31m");
    work("sms", 1, NULL, NULL);
    cancel_first("sms");
    submit(NULL, "sms", "texts", clock_wall_ms() + 3600000, 1);
    submit("zoo", "feed", "animals", 0, 1);
    for (int left = argc > 2 ? atoi(argv[2]) : 0; left > 0; left -= BATCH)
        submit(NULL, "bulk", "bulk", 0, left < BATCH ? left : BATCH);
    worker_op_init(&worker, STR("seed-worker"), (struct str){0});
    worker.running = 1;
    worker.slots = 4;
    apply(&worker.op);
    engine_close(engine);
    return 0;
}
