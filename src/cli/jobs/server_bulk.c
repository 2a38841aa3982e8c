/* server_bulk.c - many dead letters of a server at once: redriven or removed. */
#include "cli/jobs/change.h"

#include <poll.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "cli/jobs/list.h"
#include "cli/output/progress.h"
#include "cli/shared/answer.h"

/* ---- One request for all --------------------------------------------------------------------- */

static void put_words(struct json_writer *w, const char *key, const struct option_strings *words)
{
    if (words->n == 0)
        return;
    json_open_array(w, key);
    for (size_t i = 0; i < words->n; i++)
        json_put_cstr(w, words->items[i]);
    json_end_array(w);
}

static void put_text(struct json_writer *w, const char *key, const char *value)
{
    if (value)
        json_field_cstr(w, key, value);
}

static void put_filter(struct json_writer *w, const struct job_select *select)
{
    json_open_object(w, "filter");
    put_words(w, "class", &select->classes);
    put_words(w, "reason", &select->reasons);
    put_text(w, "task", select->task);
    put_text(w, "queue", select->queue);
    put_text(w, "user", select->user);
    put_text(w, "type", select->type);
    put_text(w, "text", select->text);
    put_text(w, "group", select->group);
    put_text(w, "older_than", select->older_than);
    put_text(w, "newer_than", select->newer_than);
    json_end_object(w);
}

static void put_retry(const struct job_select *select, bool dry_run, struct buf *out)
{
    struct job_select others = *select;
    struct json_writer w;
    others.tenant = NULL;
    json_writer_init(&w, out);
    json_begin_object(&w);
    if (job_select_is_empty(&others))
        json_field_bool(&w, "all", true);
    else
        put_filter(&w, &others);
    json_field_bool(&w, "dry_run", dry_run);
    json_end_object(&w);
}

struct bulk_counts {
    uint64_t matched;
    bool is_at_least;
    uint64_t changed;
    uint64_t refused;
};

static int take_counts(struct str text, bool dry_run, struct bulk_run *run, struct redrive_err *err)
{
    static const struct unpack COUNTS[] = {
        {"matched", UNPACK_U64, offsetof(struct bulk_counts, matched)},
        {"at_least", UNPACK_BOOL, offsetof(struct bulk_counts, is_at_least)},
        {"redriven", UNPACK_U64, offsetof(struct bulk_counts, changed)},
        {"removed", UNPACK_U64, offsetof(struct bulk_counts, changed)},
        {"refused", UNPACK_U64, offsetof(struct bulk_counts, refused)},
        {0},
    };
    struct bulk_counts counts = {0};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = unpack_object(text, COUNTS, &arena, &counts, err);
    run->matched = counts.matched;
    run->is_at_least = counts.is_at_least;
    run->refused = counts.refused;
    run->changed = dry_run ? counts.matched - counts.refused : counts.changed;
    return rc;
}

static int ask(struct remote *remote, const struct job_select *select, enum job_verb verb,
               bool dry_run, struct bulk_run *run, struct redrive_err *err)
{
    int rc;
    RELEASED_BY(http_answer_release) struct http_answer answer;
    http_answer_init(&answer);
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(REMOTE_PATH_MAX);
    if (verb == LETTER_RETRY) {
        buf_puts(&path, "/retry/dead-letters/retry");
        put_retry(select, dry_run, &body);
        rc = buf_failed(&body) ? err_full(err, buf_failed(&body), "the filter is too long")
                               : remote_call(remote, "POST", &path, buf_str(&body), &answer, err);
    } else {
        buf_puts(&path, "/retry/dead-letters");
        job_select_query(select, 0, &path);
        remote_query(&path, "dry_run", dry_run ? STR("true") : STR("false"));
        rc = remote_call(remote, "DELETE", &path, (struct str){0}, &answer, err);
    }
    return rc == 0 ? take_counts(buf_str(&answer.body), dry_run, run, err) : rc;
}

/* ---- One by one, at a rate ------------------------------------------------------------------- */

struct paced {
    struct session *session;
    struct bulk_run *run;
    struct bulk_pace pace;
    struct progress progress;
    int64_t began_ms;        /* what dies later was not meant */
    struct job_filter ended; /* when, if ages were given: as of the beginning */
};

/* False: it was interrupted. */
static bool wait_for_turn(struct paced *p)
{
    int64_t pause_ms;
    while (!interrupt_asked() && bulk_pace_due(&p->pace, clock_monotonic_ms(), &pause_ms) == 0) {
        (void)poll(NULL, 0, pause_ms < 50 ? (int)pause_ms : 50);
        progress_update(&p->progress, p->run->changed + p->run->refused);
    }
    return !interrupt_asked();
}

/* The server says of such a job, and of one that is no dead letter any more, that its state does
 * not allow it. */
static bool is_too_late(int64_t deadline_ms, int64_t now_ms)
{
    return deadline_ms > 0 && deadline_ms <= now_ms;
}

/* One that is no dead letter any more was redriven or removed by another client. */
static int redrive_one(struct paced *p, const struct object *job, struct redrive_err *err)
{
    enum redrive_state state;
    struct redrive_err why = {0};
    int rc = remote_job_change(p->session->remote, "POST", "/retry/dead-letters/by-id/",
                               object_text(job, "id"), "/retry", (struct str){0}, &state, &why);
    if (rc == 0)
        p->run->changed++;
    else if (rc == REDRIVE_E_EXISTS ||
             (rc == REDRIVE_E_STATE &&
              is_too_late(object_time(job, "deadline"), session_now_ms(p->session))))
        p->run->refused++;
    else if (rc != REDRIVE_E_STATE && rc != REDRIVE_E_NOT_FOUND) {
        if (err)
            *err = why;
        return rc;
    }
    bulk_pace_took(&p->pace, 1, clock_monotonic_ms());
    return 0;
}

static bool is_meant(const struct paced *p, int64_t finished_ms)
{
    return finished_ms <= p->began_ms && finished_ms >= p->ended.finished_after_ms &&
           (p->ended.finished_before_ms == 0 || finished_ms < p->ended.finished_before_ms);
}

static int redrive_page(struct paced *p, const struct answer *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        RELEASED_BY(arena_release) struct arena arena = {0};
        const struct object job = answer_item(page, i, &arena);
        if (arena.failed)
            return err_nomem(err);
        if (is_meant(p, object_time(&job, "finished_at")) && wait_for_turn(p))
            rc = redrive_one(p, &job, err);
    }
    return rc;
}

static void each_parameter(void *from, api_take_fn take, void *ctx)
{
    (void)(job_select_each(from, 0, take, ctx) &&
           take(STR("order"), str_of(JOB_LIST_ORDERS[ORDER_OLDEST]), ctx));
}

/* Oldest first, as the store does it. A job that dies again lies before the cursor by then. */
static int redrive_pages(struct paced *p, struct job_select *select, struct redrive_err *err)
{
    struct api_input input = {.each = each_parameter, .from = select};
    const struct ask ask = {.operation = &API_DEAD_LETTERS, .input = &input};
    RELEASED_BY(answer_pages_release) struct answer_pages pages;
    const struct answer *page;
    int rc = 1;
    answer_pages_init(&pages, p->session, &ask, 0, NULL);
    while (rc > 0 && !interrupt_asked() && (rc = answer_pages_next(&pages, &page, err)) > 0) {
        const int done = redrive_page(p, page, err);
        rc = done < 0 ? done : rc;
    }
    return rc < 0 ? rc : 0;
}

static int redrive_at_rate(struct cli *cli, struct session *session,
                           const struct job_select *select, struct bulk_run *run,
                           struct redrive_err *err)
{
    struct paced p = {.session = session, .run = run, .began_ms = session_now_ms(session)};
    struct interrupt interrupt;
    /* The server would count ages from the time of each page. */
    struct job_select ageless = *select;
    ageless.older_than = ageless.newer_than = NULL;
    (void)job_select_read(select, 0, p.began_ms, &p.ended, NULL);
    run->changed = run->refused = 0;
    bulk_pace_init(&p.pace, &run->rate, clock_monotonic_ms());
    progress_init(&p.progress, &cli->err, run->label, run->is_at_least ? 0 : run->matched, NULL);
    interrupt_catch(&interrupt);
    int rc = redrive_pages(&p, &ageless, err);
    const uint64_t n_done = run->changed + run->refused;
    run->interrupted = interrupt_asked() && (run->is_at_least || n_done < run->matched);
    if (run->is_at_least && n_done > run->matched)
        run->matched = n_done;
    run->is_at_least = run->is_at_least && run->interrupted;
    interrupt_release(&interrupt);
    progress_clear(&p.progress);
    return rc;
}

/* ---- Both ------------------------------------------------------------------------------------ */

int bulk_run_at_server(struct cli *cli, struct session *session, const struct job_select *select,
                       enum job_verb verb, struct bulk_run *run, struct redrive_err *err)
{
    const bool is_paced = run->rate.count > 0;
    int rc = ask(session->remote, select, verb, run->dry_run || is_paced, run, err);
    if (rc < 0 || run->dry_run || !is_paced || run->matched == 0)
        return rc;
    return redrive_at_rate(cli, session, select, run, err);
}
