#include "cli/enqueue.h"

#include "base/clock.h"
#include "base/duration.h"
#include "base/err.h"

/* How long a look at the store lasts at most; a store that notifies answers sooner. */
#define LOOK_MS 500

#define OUTPUT_MAX_BYTES 4096

static bool has_ended(enum redrive_state state)
{
    return state == REDRIVE_STATE_COMPLETED || state == REDRIVE_STATE_FAILED ||
           state == REDRIVE_STATE_DEAD_LETTER || state == REDRIVE_STATE_CANCELLED;
}

static int read_state(struct store *store, const struct job_spec *job, enum redrive_state *ret,
                      struct redrive_err *err)
{
    const struct job_filter filter = {.tenant = job->tenant, .id = job->id, .limit = 1};
    struct job_page page = {0};
    int rc = store_ops(store)->list(store, &filter, &page, err);
    if (rc == 0 && page.n == 0)
        rc = err_set(err, REDRIVE_E_NOT_FOUND, "the job was removed");
    if (rc == 0)
        *ret = page.jobs[0].status.state;
    job_page_release(&page);
    return rc;
}

static int not_in_time(enum redrive_state state, int64_t timeout_ms, struct redrive_err *err)
{
    char span[DURATION_TEXT_MAX];
    (void)err_set(err, REDRIVE_E_STATE, "the job has not ended after %s",
                  duration_format(timeout_ms, span));
    err_detail(err, "it is %s, and goes on", redrive_state_name(state));
    return REDRIVE_E_STATE;
}

static int wait_for_end(struct store *store, const struct job_spec *job, int64_t timeout_ms,
                        enum redrive_state *ret, struct redrive_err *err)
{
    const int64_t until_ms = clock_monotonic_ms() + timeout_ms;
    for (;;) {
        int rc = read_state(store, job, ret, err);
        if (rc < 0 || has_ended(*ret))
            return rc;
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0)
            return not_in_time(*ret, timeout_ms, err);
        rc = store_ops(store)->wait(store, left_ms < LOOK_MS ? left_ms : LOOK_MS, NULL, err);
        if (rc < 0)
            return rc;
    }
}

/* The id stands there before the wait, so that whoever ends it knows what it was about; JSON is
 * one object, with the state in the end. */
int enqueue_wait(struct cli *cli, struct store *store, const struct job_spec *spec,
                 struct submit_answer *a, int64_t timeout_ms, struct redrive_err *err)
{
    const struct job_spec job = {
        .tenant = spec->tenant.len ? spec->tenant : STR(ENGINE_TENANT_DEFAULT), .id = a->id};
    struct buf out;
    int rc = cli->globals->json ? 0 : enqueue_print_answer(cli, a, err);
    if (rc == 0)
        rc = wait_for_end(store, &job, timeout_ms, &a->state, err);
    if (rc < 0)
        return rc;
    if (cli->globals->json) {
        rc = enqueue_print_answer(cli, a, err);
    } else {
        buf_init(&out, OUTPUT_MAX_BYTES);
        buf_printf(&out, "%s\n", redrive_state_name(a->state));
        rc = cli_print(cli, &out, err);
    }
    if (rc == 0 && a->state == REDRIVE_STATE_CANCELLED)
        rc = err_set(err, REDRIVE_E_CANCELLED, "the job was cancelled");
    else if (rc == 0 && a->state != REDRIVE_STATE_COMPLETED)
        rc =
            err_set(err, REDRIVE_E_JOB_FAILED, "the job ended as %s", redrive_state_name(a->state));
    return rc;
}
