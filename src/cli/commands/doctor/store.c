/* store.c - checks of the store and of the jobs in it. */
#include "cli/commands/doctor/private.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/output/figures.h"
#include "cli/output/progress.h"
#include "core/vocabulary.h"
#include "engine/engine.h"
#include "store/shards/record.h"
#include "store/job_json.h"

/* Jobs that are read at a time, whose payloads may be long. */
#define WHOLE_PAGE 50

/* A log is moved into place at 4 MB, or 16 MB (store/sqlite/checkpoint.h); one that is much longer
 * is held by a reader. */
#define LOG_LONG_BYTES (INT64_C(64) * 1024 * 1024)

/* Every worker looks at leases once a second. */
#define STUCK_MS 60000

/* A clock that runs ahead by less is of no account. */
#define AHEAD_MS 1000

/* How many queued jobs are looked at for their tasks. */
#define TASK_PAGES 10
#define MAX_NAMES  8

/* ---- The store ------------------------------------------------------------------------------- */

static void check_schema(struct doctor *d)
{
    const int64_t found = d->facts.version_found, newest = d->facts.version_newest;
    if (found > newest) {
        doctor_say(d, DOCTOR_FAIL, "schema",
                   "version %" PRId64 "; this program knows version %" PRId64, found, newest);
        doctor_hint(d, "a newer redrive has set it up: use that one, or another store");
    } else if (found < newest) {
        doctor_say(d, DOCTOR_WARN, "schema", "version %" PRId64 " of %" PRId64, found, newest);
        doctor_hint(d, "the next command brings it up to date; `redrive migrate` does only that");
    } else {
        doctor_say(d, DOCTOR_OK, "schema", "version %" PRId64, found);
        d->is_current = true;
    }
}

static void draw(void *ctx)
{
    struct progress *progress = ctx;
    progress_update(progress, progress->done + 1);
}

static void check_whole(struct doctor *d)
{
    struct redrive_err err = {0};
    struct progress progress;
    progress_init(&progress, &d->cli->err, "integrity", 0, NULL);
    int rc = store_ops(d->store)->verify(d->store, draw, &progress, &err);
    progress_clear(&progress);
    if (rc < 0)
        doctor_blame(d, "integrity", &err);
    else
        doctor_say(d, DOCTOR_OK, "integrity", "no damage found");
}

/* Jobs that are not what was submitted, the first of them by name. */
static void check_jobs_whole(struct doctor *d)
{
    struct job_filter filter = {.limit = WHOLE_PAGE, .skips_unreadable = true};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    struct redrive_err err = {0};
    char first[256] = "";
    uint64_t damaged = 0, unreadable = 0;
    int rc = 0;
    do {
        rc = store_ops(d->store)->list(d->store, &filter, &page, &err);
        unreadable += page.n_unreadable;
        for (size_t i = 0; i < page.n && rc == 0; i++) {
            filter.after_seq = page.jobs[i].status.seq;
            if (job_is_damaged(&page.jobs[i]) && damaged++ == 0)
                (void)str_copy(first, sizeof first, page.jobs[i].spec.id);
        }
    } while (rc == 0 && page.more && page.n > 0);
    if (rc < 0) {
        doctor_blame(d, "payloads", &err);
    } else if (damaged > 0) {
        doctor_say(d, DOCTOR_FAIL, "payloads", "%" PRIu64 " damaged job%s, the first is %s",
                   damaged, damaged == 1 ? "" : "s", first);
        doctor_hint(d, "they are not run: `redrive jobs show %s`, then edit, cancel or remove it",
                    first);
    } else if (unreadable > 0) {
        doctor_say(d, DOCTOR_FAIL, "payloads", "%" PRIu64 " job%s cannot be read", unreadable,
                   unreadable == 1 ? "" : "s");
        doctor_hint(d,
                    "they are left out of lists and claims: `redrive doctor --repair` keeps what "
                    "is left of them in a file, and takes them out of the store");
    } else {
        doctor_say(d, DOCTOR_OK, "payloads", "every job is what was submitted");
    }
}

static void check_durability(struct doctor *d)
{
    const enum store_durability durability = store_base(d->store)->durability;
    const char *loss = d->facts.loss ? d->facts.loss : store_loss_text(durability);
    if (d->facts.server)
        doctor_say(d, DOCTOR_OK, "server", "%s", d->facts.server);
    if (d->facts.loss)
        doctor_say(d, DOCTOR_WARN, "durability", "can lose %s", loss);
    else
        doctor_say(d, durability == STORE_FORGETS ? DOCTOR_WARN : DOCTOR_OK, "durability",
                   "%s; a crash loses %s", store_durability_text(durability), loss);
    if (d->facts.loss)
        doctor_hint(d, "%s",
                    d->facts.loss_hint
                        ? d->facts.loss_hint
                        : "settings of the server that lose less: docs/postgres.md, docs/redis.md");
    else if (durability == STORE_FORGETS)
        doctor_hint(d, "name a file to keep jobs: store: sqlite:redrive.db");
}

static void check_library(struct doctor *d)
{
    if (!d->facts.library)
        return;
    doctor_say(d, DOCTOR_OK, "library", "%s", d->facts.library);
    if (d->facts.library_hint)
        doctor_hint(d, "%s", d->facts.library_hint);
}

static void check_mode(struct doctor *d)
{
    struct stat st;
    if (!d->facts.path || stat(d->facts.path, &st) != 0)
        return;
    if (st.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) {
        doctor_say(d, DOCTOR_WARN, "mode", "others may %s the store (mode %03o)",
                   st.st_mode & (S_IWGRP | S_IWOTH) ? "write" : "read",
                   (unsigned)st.st_mode & 0777);
        doctor_hint(d, "chmod 600 %s, unless that is meant", d->facts.path);
    } else {
        doctor_say(d, DOCTOR_OK, "mode", "for its owner only");
    }
}

static void check_log(struct doctor *d)
{
    if (!d->facts.path)
        return;
    const int64_t mb = d->facts.log_bytes / (1024 * 1024);
    if (d->facts.log_bytes > LOG_LONG_BYTES) {
        doctor_say(d, DOCTOR_WARN, "log", "%" PRId64 " MB wait to be moved into the store", mb);
        doctor_hint(d, "a long read holds them: is a backup or a sqlite3 shell open?");
    } else {
        doctor_say(d, DOCTOR_OK, "log", "%" PRId64 " MB, store %" PRId64 " MB", mb,
                   d->facts.bytes / (1024 * 1024));
    }
}

/* Whether the shards are those that the store was made of, in their order. */
static void check_shards(struct doctor *d)
{
    const struct sharded *s = sharded_of(d->store);
    struct redrive_err err = {0};
    if (shard_record_check(s->stores, &s->urls, false, NULL, &err) < 0)
        doctor_blame(d, "shards", &err);
    else
        doctor_say(d, DOCTOR_OK, "shards", "%zu, in their order", s->urls.n);
}

/* No failure, whatever kind of store it is: before the first job that is as it should be. */
static void say_not_set_up(struct doctor *d)
{
    doctor_say(d, DOCTOR_WARN, "store", "not set up yet: %s", d->config->store_shown);
    doctor_hint(d, "%s", d->config->store_is_borrowed ? CONFIG_BORROWED_HINT : STORE_SET_UP_HINT);
}

void doctor_check_store(struct doctor *d)
{
    const struct store_options options = {.as_is = true};
    struct redrive_err err = {0};
    int rc = store_open(d->config->store, &options, &d->store, &err);
    if (rc == REDRIVE_E_NOT_FOUND) {
        say_not_set_up(d);
        return;
    }
    if (rc == 0)
        rc = store_ops(d->store)->facts(d->store, &d->facts, &err);
    if (rc < 0) {
        doctor_blame(d, "store", &err);
        return;
    }
    /* A file may be there, and empty. */
    if (d->facts.version_found == 0 && d->facts.version_newest > 0) {
        say_not_set_up(d);
        return;
    }
    doctor_say(d, DOCTOR_OK, "store", "%s", d->facts.path ? d->facts.path : d->config->store_shown);
    if (shards_is(d->config->store))
        check_shards(d);
    check_schema(d);
    /* Of another version this program knows no more than the facts. */
    if (d->is_current) {
        check_whole(d);
        check_jobs_whole(d);
    }
    check_durability(d);
    check_library(d);
    check_mode(d);
    check_log(d);
}

/* ---- The jobs -------------------------------------------------------------------------------- */

/* Reads a page; a failure is a finding, and ends the check. */
static bool read_jobs(struct doctor *d, const char *check, const struct job_filter *filter,
                      struct job_page *ret)
{
    struct redrive_err err = {0};
    struct job_filter readable = *filter;
    readable.skips_unreadable = true; /* check_jobs_whole counts the others */
    if (store_ops(d->store)->list(d->store, &readable, ret, &err) == 0)
        return true;
    doctor_blame(d, check, &err);
    return false;
}

static void check_stuck(struct doctor *d)
{
    const struct job_filter filter = {.states = 1u << REDRIVE_STATE_RUNNING,
                                      .limit = STORE_PAGE_MAX};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    size_t stuck = 0;
    int64_t oldest_ms = INT64_MAX;
    if (!read_jobs(d, "leases", &filter, &page))
        return;
    for (size_t i = 0; i < page.n; i++) {
        const int64_t until_ms = page.jobs[i].status.lease_until_ms;
        stuck += until_ms < d->now_ms - STUCK_MS;
        oldest_ms = until_ms < oldest_ms ? until_ms : oldest_ms;
    }
    char span[WHEN_TEXT_MAX];
    if (stuck > 0) {
        doctor_say(d, DOCTOR_WARN, "leases", "running jobs whose lease has ended: %zu, since %s",
                   stuck, when_span(d->now_ms - oldest_ms, span));
        doctor_hint(d, "no process works on this store: start `redrive work`");
    } else {
        doctor_say(d, DOCTOR_OK, "leases", "running jobs: %zu%s, none of them left behind", page.n,
                   page.more ? " and more" : "");
    }
}

struct names {
    char items[MAX_NAMES][64];
    size_t n;
    bool more;
};

static void names_add(struct names *names, struct str name)
{
    char text[64];
    (void)str_copy(text, sizeof text, name);
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i], text) == 0)
            return;
    if (names->n == MAX_NAMES)
        names->more = true;
    else
        memcpy(names->items[names->n++], text, sizeof text);
}

static bool is_published(const struct shared_page *rows, struct str task)
{
    for (size_t i = 0; i < rows->n; i++)
        if (str_eq(rows->rows[i].key, task))
            return true;
    return false;
}

/* Collects the tasks of queued jobs that are not declared, here or in another process. */
static bool find_undeclared(struct doctor *d, const struct shared_page *rows, struct names *ret)
{
    struct job_filter filter = {.states = 1u << REDRIVE_STATE_QUEUED, .limit = STORE_PAGE_MAX};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    bool more = true;
    for (int i = 0; i < TASK_PAGES && more; i++) {
        if (!read_jobs(d, "tasks", &filter, &page))
            return false;
        for (size_t j = 0; j < page.n; j++) {
            const struct str task = page.jobs[j].spec.task;
            if (!*config_task(d->config, task)->name && !is_published(rows, task))
                names_add(ret, task);
        }
        more = page.more;
        if (page.n > 0)
            filter.after_seq = page.jobs[page.n - 1].status.seq;
    }
    return true;
}

static void check_tasks(struct doctor *d)
{
    RELEASED_BY(shared_page_release) struct shared_page rows = {0};
    struct redrive_err err = {0};
    struct names names = {.n = 0};
    struct buf list;
    if (store_ops(d->store)->shared_list(d->store, SHARED_TASK, (struct str){0}, &rows, &err) < 0) {
        doctor_blame(d, "tasks", &err);
    } else if (find_undeclared(d, &rows, &names)) {
        buf_init(&list, DOCTOR_TEXT_MAX);
        for (size_t i = 0; i < names.n; i++)
            buf_printf(&list, "%s%s", i ? ", " : "", names.items[i]);
        if (names.n > 0) {
            doctor_say(d, DOCTOR_WARN, "tasks", "queued jobs of undeclared tasks: %s%s",
                       buf_cstr(&list), names.more ? ", …" : "");
            doctor_hint(d, "declare them under `tasks:`, or connect workers that know them");
        } else {
            doctor_say(d, DOCTOR_OK, "tasks", "every queued job has a task that is declared");
        }
        buf_release(&list);
    }
}

static void check_clock(struct doctor *d)
{
    const struct job_filter filter = {.order = ORDER_NEWEST, .limit = 100};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int64_t ahead_ms = 0;
    if (!read_jobs(d, "clock", &filter, &page))
        return;
    for (size_t i = 0; i < page.n; i++)
        if (page.jobs[i].status.created_ms - d->now_ms > ahead_ms)
            ahead_ms = page.jobs[i].status.created_ms - d->now_ms;
    char span[WHEN_TEXT_MAX];
    if (ahead_ms > AHEAD_MS) {
        doctor_say(d, DOCTOR_WARN, "clock", "a job was created %s in the future",
                   when_span(ahead_ms, span));
        doctor_hint(d, "a clock was set back, or that of another machine is ahead: use NTP");
    } else {
        doctor_say(d, DOCTOR_OK, "clock", "no job comes from the future");
    }
}

void doctor_check_jobs(struct doctor *d)
{
    if (!d->store || !d->is_current)
        return;
    d->now_ms = store_time_ms(d->store, clock_wall_ms());
    check_stuck(d);
    check_tasks(d);
    check_clock(d);
}
