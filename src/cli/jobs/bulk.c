/* bulk.c - carries out a plan over many jobs, chunk by chunk, or follows the run of a server. */
#include "cli/jobs/bulk.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/output/progress.h"
#include "cli/shared/answer.h"

/* How long until a server is asked again how far it is: soon at first, since most runs are short.
 */
#define ASK_FIRST_MS 20
#define ASK_MOST_MS  500

/* ---- What is asked for ----------------------------------------------------------------------- */

/* The filter of a plan, a member for each option; words that were given one by one are one text. */
struct filter_writer {
    struct json_writer *w;
    struct str name; /* of the member whose value is being gathered */
    struct buf value;
};

static void end_member(struct filter_writer *f)
{
    if (f->name.ptr) {
        json_key(f->w, f->name.ptr);
        json_put_string(f->w, buf_str(&f->value));
    }
    if (buf_failed(&f->value))
        f->w->out->failed = buf_failed(&f->value);
    buf_reset(&f->value);
}

static bool add_member(struct str name, struct str value, void *ctx)
{
    struct filter_writer *f = ctx;
    if (!f->name.ptr || !str_eq(f->name, name))
        end_member(f);
    else
        buf_putc(&f->value, ',');
    f->name = name;
    buf_add_str(&f->value, value);
    return true;
}

static void write_filter(const struct bulk_run *run, struct json_writer *w)
{
    struct filter_writer f = {.w = w};
    buf_init(&f.value, BULK_FILTER_MAX_BYTES);
    json_open_object(w, "filter");
    (void)job_select_each(run->select, run->states, add_member, &f);
    end_member(&f);
    json_end_object(w);
    buf_release(&f.value);
}

static int write_plan(const struct bulk_run *run, struct buf *out, struct redrive_err *err)
{
    char rate[48];
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "verb", bulk_verb_name(run->verb));
    write_filter(run, &w);
    if (run->rate.count > 0) {
        (void)snprintf(rate, sizeof rate, "%" PRIu32 "/%s", run->rate.count, rate_unit(&run->rate));
        json_field_cstr(&w, "rate", rate);
    }
    json_field_bool(&w, "dry_run", run->dry_run);
    json_end_object(&w);
    return buf_failed(out) ? err_full(err, buf_failed(out), "the filter is too long") : 0;
}

/* ---- In a store ------------------------------------------------------------------------------ */

/* A signal that comes just before the wait does not end it, so waits are short. */
static void wait_ms(int64_t ms)
{
    (void)poll(NULL, 0, ms < 50 ? (int)ms : 50);
}

static int run_chunk(struct session *session, struct bulk *part, struct bulk_pace *pace, size_t n,
                     struct redrive_err *err)
{
    struct bulk_op op;
    bulk_op_init(&op, part, n);
    int rc = session_apply(session, &op.op, err);
    if (rc < 0)
        return rc;
    bulk_add(part, &op);
    bulk_pace_took(pace, op.changed, clock_monotonic_ms());
    return 0;
}

static void take_progress(const struct bulk_plan *plan, struct bulk_run *run,
                          struct progress *progress)
{
    run->changed = bulk_changed(plan->parts, plan->n_parts);
    run->refused = bulk_refused(plan->parts, plan->n_parts);
    progress_update(progress, run->changed + run->refused);
}

static int run_chunks(struct session *session, struct bulk_plan *plan, struct bulk_run *run,
                      struct progress *progress, struct redrive_err *err)
{
    struct bulk_pace pace;
    struct bulk *part;
    int rc = 0;
    run->changed = run->refused = 0;
    bulk_pace_init(&pace, &plan->rate, clock_monotonic_ms());
    while (rc == 0 && (part = bulk_part(plan->parts, plan->n_parts)) && !interrupt_asked()) {
        int64_t pause_ms;
        const size_t n = bulk_pace_due(&pace, clock_monotonic_ms(), &pause_ms);
        if (n == 0)
            wait_ms(pause_ms);
        else
            rc = run_chunk(session, part, &pace, n, err);
        take_progress(plan, run, progress);
    }
    run->interrupted = interrupt_asked() && bulk_part(plan->parts, plan->n_parts);
    return rc;
}

static int plan_here(const struct session *session, struct bulk_run *run, struct str body,
                     struct arena *arena, struct bulk_plan *plan, struct redrive_err *err)
{
    struct api_input input = {.body = body};
    const struct api_context context = {
        .store = session->store,
        .config = session->config,
        .tenant = str_of(run->select->tenant),
        .input = &input,
        .arena = arena,
        .now_ms = session_now_ms(session),
    };
    int rc = bulk_plan_read(plan, &context, false, err);
    if (rc == 0)
        rc = bulk_plan_count(plan, session->store, UINT64_MAX, true, err);
    run->matched = plan->matched;
    run->refused = plan->refused;
    run->changed = plan->matched - plan->refused;
    return rc;
}

static int run_here(struct cli *cli, struct session *session, struct str body, struct bulk_run *run,
                    struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct interrupt interrupt;
    struct progress progress;
    struct bulk_plan plan;
    int rc = plan_here(session, run, body, &arena, &plan, err);
    if (rc < 0 || run->dry_run || run->matched == 0)
        return rc;
    progress_init(&progress, &cli->err, run->label, run->matched, NULL);
    interrupt_catch(&interrupt);
    rc = run_chunks(session, &plan, run, &progress, err);
    interrupt_release(&interrupt);
    progress_clear(&progress);
    return rc;
}

/* ---- At a server ----------------------------------------------------------------------------- */

static uint64_t count_of(const struct object *o, const char *name)
{
    const int64_t n = object_int(o, name);
    return n > 0 ? (uint64_t)n : 0;
}

/* Starts it: the number of the run, which is empty where nothing runs. */
static int start_there(struct session *session, struct str body, struct bulk_run *run, char id[24],
                       struct redrive_err *err)
{
    struct api_input input = {.body = body};
    const struct ask ask = {.operation = &API_BULK, .input = &input};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_change(session, &ask, &answer, err);
    if (rc < 0)
        return rc;
    run->matched = count_of(&answer.object, "matched");
    run->is_at_least = object_bool(&answer.object, "at_least");
    run->refused = count_of(&answer.object, "refused");
    run->changed = run->matched > run->refused ? run->matched - run->refused : 0;
    const struct str number = object_text(&answer.object, "id");
    if (!str_copy(id, 24, number) || (number.len == 0 && run->matched > 0 && !run->dry_run))
        return err_set(err, REDRIVE_E_PARSE, "the server does not say which run it has begun");
    return 0;
}

static int stop_there(struct session *session, const char *id, struct redrive_err *err)
{
    const struct ask ask = {.operation = &API_BULK_STOP, .name = str_of(id)};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_change(session, &ask, &answer, err);
    return rc == REDRIVE_E_NOT_FOUND ? 0 : rc; /* it has just ended */
}

/* How far the run was when the server was asked last. */
static int lost_sight(const struct bulk_run *run, const char *id, int rc, struct redrive_err *err)
{
    if (rc == REDRIVE_E_NOT_FOUND) {
        (void)err_set(err, REDRIVE_E_IO, "the run is gone: the server was restarted");
        err_hint(err, "the same command goes on with the rest");
    } else if (id) {
        err_hint(err, "the run may go on at the server: GET /v1/bulk/%s shows it, DELETE stops it",
                 id);
    }
    err_detail(err, "%" PRIu64 " of %" PRIu64 " were changed when it was asked last", run->changed,
               run->matched);
    return rc == REDRIVE_E_NOT_FOUND ? REDRIVE_E_IO : rc;
}

/* 1 while it goes on. */
static int look_there(struct session *session, const char *id, struct bulk_run *run,
                      struct redrive_err *err)
{
    const struct ask ask = {.operation = &API_BULK_RUN, .name = str_of(id)};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_ask(session, &ask, &answer, err);
    if (rc < 0)
        return lost_sight(run, id, rc, err);
    const struct str state = object_text(&answer.object, "state");
    run->changed = count_of(&answer.object, "changed");
    run->refused = count_of(&answer.object, "refused");
    run->interrupted = str_is(state, "stopped");
    if (str_is(state, "running"))
        return 1;
    if (str_is(state, "finished") || run->interrupted)
        return 0;
    if (!str_is(state, "failed")) {
        (void)err_set(err, REDRIVE_E_PARSE, "the server does not say whether the run goes on");
        return lost_sight(run, id, REDRIVE_E_PARSE, err);
    }
    const struct str why = object_text(&answer.object, "error");
    (void)err_set(err, REDRIVE_E_IO, "the server could not go on: %.*s", (int)why.len, why.ptr);
    return lost_sight(run, NULL, REDRIVE_E_IO, err);
}

static int follow_there(struct session *session, const char *id, struct bulk_run *run,
                        struct progress *progress, struct redrive_err *err)
{
    int64_t pause_ms = ASK_FIRST_MS;
    bool is_stopped = false;
    int rc;
    run->changed = run->refused = 0;
    while ((rc = look_there(session, id, run, err)) > 0) {
        progress_update(progress, run->changed + run->refused);
        for (int64_t left = pause_ms; left > 0 && (is_stopped || !interrupt_asked()); left -= 50)
            wait_ms(left);
        pause_ms = pause_ms * 2 < ASK_MOST_MS ? pause_ms * 2 : ASK_MOST_MS;
        if (interrupt_asked() && !is_stopped && (rc = stop_there(session, id, err)) < 0)
            return lost_sight(run, id, rc, err);
        is_stopped |= interrupt_asked();
    }
    if (rc == 0 && run->is_at_least && !run->interrupted) {
        run->matched = run->changed + run->refused;
        run->is_at_least = false;
    }
    return rc;
}

/* A signal that comes while the run is started stops it as well. */
static int run_there(struct cli *cli, struct session *session, struct str body,
                     struct bulk_run *run, struct redrive_err *err)
{
    struct interrupt interrupt;
    struct progress progress;
    char id[24] = "";
    if (run->dry_run)
        return start_there(session, body, run, id, err);
    interrupt_catch(&interrupt);
    int rc = start_there(session, body, run, id, err);
    if (rc == 0 && id[0]) {
        progress_init(&progress, &cli->err, run->label, run->is_at_least ? 0 : run->matched, NULL);
        rc = follow_there(session, id, run, &progress, err);
        progress_clear(&progress);
    }
    interrupt_release(&interrupt);
    return rc;
}

/* ---- Both ------------------------------------------------------------------------------------ */

int bulk_run(struct cli *cli, struct session *session, struct bulk_run *run,
             struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(2u * BULK_FILTER_MAX_BYTES);
    int rc = write_plan(run, &body, err);
    if (rc < 0)
        return rc;
    return session->remote ? run_there(cli, session, buf_str(&body), run, err)
                           : run_here(cli, session, buf_str(&body), run, err);
}

int bulk_run_interrupted(const struct bulk_run *run, const char *done, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CANCELLED, "interrupted: %" PRIu64 " of %s%" PRIu64 " %s", run->changed,
            run->is_at_least ? "at least " : "", run->matched, done);
    err_hint(err, "the same command goes on with the rest");
    return REDRIVE_E_CANCELLED;
}
