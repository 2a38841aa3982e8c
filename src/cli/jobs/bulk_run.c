/* bulk_run.c - runs a bulk chunk by chunk, with a bar. */
#include "cli/jobs/bulk_run.h"

#include <inttypes.h>
#include <poll.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/frame/interrupt.h"
#include "cli/output/progress.h"

/* A signal that comes just before the wait does not end it, so waits are short. */
static void wait_ms(int64_t ms)
{
    (void)poll(NULL, 0, ms < 50 ? (int)ms : 50);
}

static int run_chunks(struct session *session, struct bulk *bulk, struct bulk_run *run,
                      struct progress *progress, struct redrive_err *err)
{
    struct bulk_pace pace;
    int rc = 0;
    bulk_pace_init(&pace, &run->rate, clock_monotonic_ms());
    while (rc == 0 && !bulk->finished && !interrupt_asked()) {
        struct bulk_op op;
        int64_t pause_ms;
        size_t n = bulk_pace_due(&pace, clock_monotonic_ms(), &pause_ms);
        if (n == 0) {
            wait_ms(pause_ms);
            progress_update(progress, bulk->changed + bulk->refused);
            continue;
        }
        bulk_op_init(&op, bulk, n);
        rc = engine_apply_one(session->engine, &op.op, err);
        if (rc < 0)
            break;
        bulk_add(bulk, &op);
        bulk_pace_took(&pace, op.changed, clock_monotonic_ms());
        progress_update(progress, bulk->changed + bulk->refused);
    }
    run->changed = bulk->changed;
    run->refused = bulk->refused;
    run->interrupted = interrupt_asked() && !bulk->finished;
    return rc;
}

int bulk_run(struct cli *cli, struct session *session, struct bulk *bulk, struct bulk_run *run,
             struct redrive_err *err)
{
    struct interrupt interrupt;
    struct progress progress;
    int rc = bulk_count(session->store, bulk, &run->changed, &run->refused, err);
    run->matched = run->changed + run->refused;
    if (rc < 0 || run->dry_run || run->matched == 0)
        return rc;
    progress_init(&progress, &cli->err, run->label, run->matched, NULL);
    interrupt_catch(&interrupt);
    rc = run_chunks(session, bulk, run, &progress, err);
    interrupt_release(&interrupt);
    progress_clear(&progress);
    return rc;
}

int bulk_run_interrupted(const struct bulk_run *run, const char *done, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CANCELLED, "interrupted: %" PRIu64 " of %" PRIu64 " %s", run->changed,
            run->matched, done);
    err_hint(err, "the same command goes on with the rest");
    return REDRIVE_E_CANCELLED;
}
