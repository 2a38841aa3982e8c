/* move.c - `redrive move`: everything of one store into another. */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/text/url_mask.h"
#include "base/time/clock.h"
#include "cli/commands/move_tenant.h"
#include "cli/frame/cli.h"
#include "cli/shared/copied.h"
#include "cli/shared/session.h"
#include "cli/output/figures.h"
#include "cli/output/progress.h"
#include "cli/output/term.h"
#include "engine/copy/copy.h"
#include "store/store.h"
#include "store/shards/shards.h"

struct move_options {
    const char *from;
    const char *to;
    const char *tenant;
    int64_t wait_ms;
    bool back;
    bool dry_run;
    bool force;
    bool into_existing;
};

static const struct field OPTIONS[] = {
    OPTION("from", 0, "URL", "the store to copy, with the schema of this program; it is only read",
           INTO_STRING(struct move_options, from)),
    OPTION("to", 0, "URL",
           "the store to copy into; with --tenant a shard, as its URL or its number, from 1",
           INTO_STRING(struct move_options, to)),
    OPTION("tenant", 0, "NAME", "move this tenant to another shard of the store",
           INTO_STRING(struct move_options, tenant)),
    OPTION("wait", 0, "TIME", "with --tenant: how long to wait for its jobs that run",
           INTO_DURATION(struct move_options, wait_ms), .default_text = "1m", .needs = "tenant"),
    OPTION("back", 0, NULL, "with --tenant: undo a move that has not come to its end",
           INTO_FLAG(struct move_options, back), .needs = "tenant"),
    OPTION("dry-run", 'n', NULL, "say what would be moved, and write nothing",
           INTO_FLAG(struct move_options, dry_run)),
    OPTION("force", 0, NULL, "go on although workers are alive on one of them",
           INTO_FLAG(struct move_options, force)),
    OPTION("into-existing", 0, NULL, "add to a store that has jobs of its own",
           INTO_FLAG(struct move_options, into_existing)),
    {0},
};

/* ---- The two stores -------------------------------------------------------------------------- */

#define NAME_MAX_BYTES 4096

/* One of both stores. Its name is its URL without secrets; that of a file is the same however it
 * was written. */
struct move_end {
    const char *url;
    const char *side; /* "source", "destination" */
    struct store *store;
    struct store_facts facts;
    bool is_there;
    dev_t device; /* of its file, if it has one */
    ino_t inode;
    struct buf name;
};

/* The strings are borrowed. */
static void move_end_init(struct move_end *end, const char *url, const char *side)
{
    *end = (struct move_end){.url = url, .side = side};
    buf_init(&end->name, NAME_MAX_BYTES);
}

static void move_end_release(struct move_end *end)
{
    store_close(end->store);
    buf_release(&end->name);
}

/* What tells stores of one Redis server apart: prefix=NAME, or nothing. Nothing before an at sign
 * is looked at: it may be a password. */
static struct str prefix_of(const char *url)
{
    const char *login = strrchr(url, '@'), *at = strchr(login ? login : url, '?');
    while (at && !str_starts_with(str_of(at + 1), STR("prefix=")))
        at = strchr(at + 1, '&');
    return at ? (struct str){at + 1, strcspn(at + 1, "&#")} : (struct str){0};
}

/* KIND://USER:PASSWORD@HOST/PLACE?QUERY loses what may be secret, and the user's name. */
static void name_url(struct move_end *end)
{
    RELEASED_BY(buf_release) struct buf shown = BUF_MAX(NAME_MAX_BYTES);
    url_mask(&shown, str_of(end->url));
    const char *text = buf_cstr(&shown), *start = strstr(text, "://"), *at = strrchr(text, '@');
    const size_t len = strcspn(text, "?");
    if (start && at && at > start && at < text + len) {
        buf_add(&end->name, text, (size_t)(start + 3 - text));
        buf_add(&end->name, at + 1, (size_t)(text + len - at - 1));
    } else {
        buf_add(&end->name, text, len);
    }
    const struct str prefix = prefix_of(end->url);
    if (prefix.len > 0)
        buf_printf(&end->name, "?%.*s", (int)prefix.len, prefix.ptr);
}

static void name_file(struct move_end *end, const struct store *store)
{
    struct stat st;
    char *path = realpath(end->facts.path, NULL);
    if (stat(end->facts.path, &st) == 0) {
        end->device = st.st_dev;
        end->inode = st.st_ino;
    }
    buf_printf(&end->name, "%s:%s", store_ops(store)->scheme, path ? path : end->facts.path);
    free(path);
}

/* Refuses a store that can be neither the source nor the destination. */
static int check_kind(const struct move_end *end, const struct store *store,
                      struct redrive_err *err)
{
    if (!(store_ops(store)->capabilities & STORE_SHARED)) {
        err_set(err, REDRIVE_E_INVALID, "the %s would be gone with this process", end->side);
        err_detail(err, "%s is memory", buf_cstr(&end->name));
        err_hint(err, "name a store that lasts, such as sqlite:redrive.db");
        return REDRIVE_E_INVALID;
    }
    if (end->facts.version_found != 0 && end->facts.version_found < end->facts.version_newest) {
        err_set(err, REDRIVE_E_STATE,
                "the %s has schema version %" PRId64 ", this program needs version %" PRId64,
                end->side, end->facts.version_found, end->facts.version_newest);
        err_hint(err, "bring it up to date first: redrive migrate --store %s",
                 buf_cstr(&end->name));
        return REDRIVE_E_STATE;
    }
    return 0;
}

/* Looks at a store without a change to it. One that is not there is no error here. */
static int end_look(struct move_end *end, struct redrive_err *ret_absence, struct redrive_err *err)
{
    const struct store_options options = {.as_is = true};
    struct redrive_err why = {0};
    struct store *store = NULL;
    int rc = store_open(end->url, &options, &store, &why);
    if (rc == REDRIVE_E_NOT_FOUND) {
        *ret_absence = why;
        name_url(end);
        return 0;
    }
    if (rc == 0)
        rc = store_ops(store)->facts(store, &end->facts, &why);
    if (rc < 0) {
        store_close(store);
        *err = why;
        return rc;
    }
    if (end->facts.path)
        name_file(end, store);
    else
        name_url(end);
    end->is_there = end->facts.version_found != 0;
    rc = check_kind(end, store, err);
    store_close(store);
    end->facts.path = NULL; /* the store's own */
    return rc;
}

static int same_store(const struct move_end *from, const struct move_end *to,
                      struct redrive_err *err)
{
    err_set(err, REDRIVE_E_USAGE, "both ends are the same store");
    if (str_eq(buf_str(&from->name), buf_str(&to->name)))
        err_detail(err, "%s", buf_cstr(&from->name));
    else
        err_detail(err, "%s is also called %s", buf_cstr(&from->name), buf_cstr(&to->name));
    return REDRIVE_E_USAGE;
}

/* Looks at both without a change to either. REDRIVE_E_NOT_FOUND: there is no source;
 * REDRIVE_E_USAGE: they are the same file, or were given the same name. A destination that is not
 * there is no error. */
static int move_ends_look(struct move_end *from, struct move_end *to, struct redrive_err *err)
{
    struct redrive_err absence = {0};
    int rc = end_look(from, &absence, err);
    if (rc < 0)
        return rc;
    if (!from->is_there) {
        if (absence.code == 0) {
            err_set(&absence, REDRIVE_E_NOT_FOUND, "the source is empty");
            err_detail(&absence, "%s", buf_cstr(&from->name));
        }
        *err = absence;
        return REDRIVE_E_NOT_FOUND;
    }
    rc = end_look(to, &absence, err);
    const bool is_same_file =
        from->inode != 0 && from->inode == to->inode && from->device == to->device;
    return rc == 0 && (is_same_file || strcmp(from->url, to->url) == 0) ? same_store(from, to, err)
                                                                        : rc;
}

/* A server has many names, so that it is asked; files have been compared. */
static int check_servers(const struct move_end *from, const struct move_end *to,
                         struct redrive_err *err)
{
    bool is_same = false;
    if (from->inode != 0 || !to->is_there)
        return 0;
    int rc = copy_is_same_store(from->store, to->store, clock_wall_ms(), &is_same, err);
    return is_same ? same_store(from, to, err) : rc;
}

/* A file that has just been made has a full path that can be shown. */
static int name_made(struct move_end *end, struct redrive_err *err)
{
    int rc = store_ops(end->store)->facts(end->store, &end->facts, err);
    if (rc == 0 && end->facts.path) {
        buf_reset(&end->name);
        name_file(end, end->store);
    }
    end->facts.path = NULL; /* the store's own */
    return rc;
}

/* Opens both. Neither a dry run nor one that is refused sets the destination up. REDRIVE_E_STATE:
 * workers are alive on the source, unless forced; REDRIVE_E_USAGE: they are the same store under
 * two names, which a dry run does not find out. */
static int move_ends_open(struct move_end *from, struct move_end *to, bool dry_run, bool force,
                          struct redrive_err *err)
{
    const struct store_options as_it_is = {0}, set_up = {.create = true};
    if (shards_is(from->url) || shards_is(to->url))
        return err_set(err, REDRIVE_E_STATE, "not with shards yet: moving all jobs of a store");
    int rc = store_open(from->url, &as_it_is, &from->store, err);
    if (rc == 0 && !force)
        rc = copy_check_idle(from->store, from->side, "--force", clock_wall_ms(), err);
    if (rc == 0 && (to->is_there || !dry_run))
        rc = store_open(to->url, dry_run ? &as_it_is : &set_up, &to->store, err);
    if (rc == 0 && !to->is_there && !dry_run)
        rc = name_made(to, err);
    /* A dry run writes nothing, not even for a moment. */
    return rc < 0 || dry_run ? rc : check_servers(from, to, err);
}

/* ---- Output ---------------------------------------------------------------------------------- */

struct store_move {
    const struct move_options *options;
    const struct move_end *from;
    const struct move_end *to;
    struct copy_report report;
    int64_t took_ms;
};

static void move_as_json(struct json_writer *w, const void *thing)
{
    const struct store_move *o = thing;
    const struct findings *f = &o->report.findings;
    const struct tally *from = &f->from;
    const struct content_sum total = tally_total(from);
    char hash[CONTENT_TEXT_MAX];
    json_begin_object(w);
    json_field_cstr(w, "from", buf_cstr(&o->from->name));
    json_field_cstr(w, "to", buf_cstr(&o->to->name));
    json_field_bool(w, "dry_run", o->options->dry_run);
    json_field_int(w, "copied", (int64_t)o->report.copied);
    tally_as_json(w, from);
    findings_as_json(w, f);
    json_field_cstr(w, "hash_from", content_text(&total, hash));
    json_field_cstr(w, "hash_to", o->options->dry_run ? NULL : content_text(&f->to, hash));
    json_field_double(w, "seconds", (double)o->took_ms / 1000);
    json_end_object(w);
}

static void move_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct store_move *o = thing;
    const struct findings *f = &o->report.findings;
    const struct content_sum total = tally_total(&f->from);
    const uint64_t jobs = tally_jobs(&f->from), copied = o->report.copied;
    char span[FIGURE_MAX], hash[CONTENT_TEXT_MAX];
    const bool dry_run = o->options->dry_run;
    (void)term;
    buf_printf(out, "%s %" PRIu64 " job%s", dry_run ? "would move" : "moved",
               dry_run ? jobs : copied, (dry_run ? jobs : copied) == 1 ? "" : "s");
    if (!dry_run && copied + f->missing < jobs)
        buf_printf(out, ", %" PRIu64 " were there already,", jobs - copied - f->missing);
    buf_puts(out, " from ");
    text_add_clean(out, buf_str(&o->from->name));
    buf_puts(out, " to ");
    text_add_clean(out, buf_str(&o->to->name));
    if (!dry_run)
        buf_printf(out, " in %s", figure_span(o->took_ms, span));
    buf_putc(out, '\n');
    tally_as_text(out, &f->from);
    buf_printf(out, "  hash %s", content_text(&total, hash));
    if (!dry_run)
        buf_puts(out, findings_are_same(f) ? ", checked in both" : ", not the same in both");
    buf_putc(out, '\n');
}

static int print_move(struct cli *cli, const struct store_move *o, struct redrive_err *err)
{
    const struct findings *f = &o->report.findings;
    int rc = cli_show(cli, o, move_as_json, move_as_text, err);
    return rc < 0 || findings_are_same(f) ? rc : findings_error(f, "the source", err);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int transfer(struct cli *cli, struct store_move *o, struct redrive_err *err)
{
    struct copy_bar bar = {.cli = cli};
    struct interrupt interrupt;
    const int64_t started_ms = clock_monotonic_ms();
    const struct copy_options options = {
        .from = o->from->store,
        .to = o->to->store,
        .name = buf_cstr(&o->from->name),
        .now_ms = clock_wall_ms(),
        .dry_run = o->options->dry_run,
        .despite_workers = o->options->force,
        .into_existing = o->options->into_existing,
        .progress = copy_bar_show,
        .ctx = &bar,
    };
    interrupt_catch(&interrupt);
    int rc = copy_run(&options, &o->report, err);
    interrupt_release(&interrupt);
    progress_clear(&bar.progress);
    o->took_ms = clock_monotonic_ms() - started_ms;
    return rc;
}

static int run_move_tenant(struct cli *cli, const struct move_options *options,
                           struct redrive_err *err)
{
    const struct move_tenant_options tenant = {.tenant = options->tenant,
                                               .to = options->to,
                                               .wait_ms = options->wait_ms,
                                               .dry_run = options->dry_run,
                                               .back = options->back};
    if (options->from || options->force || options->into_existing || *options->tenant == '\0') {
        (void)err_set(err, REDRIVE_E_USAGE, "--tenant needs a name, and goes with --to and --wait");
        err_hint(err, "redrive move --tenant acme --to 2");
        return REDRIVE_E_USAGE;
    }
    if (options->back && (options->to || options->dry_run)) {
        (void)err_set(err, REDRIVE_E_USAGE, "--back goes without --to and --dry-run");
        err_hint(err, "redrive move --tenant acme --back");
        return REDRIVE_E_USAGE;
    }
    return move_tenant(cli, &tenant, err);
}

static int run_move(struct cli *cli, struct redrive_err *err)
{
    const struct move_options *options = invocation_options(&cli->invocation);
    if (options->tenant)
        return run_move_tenant(cli, options, err);
    if (!options->from || !options->to) {
        err_set(err, REDRIVE_E_USAGE, "%s is missing", options->from ? "--to" : "--from");
        err_hint(err, "redrive move --from sqlite:old.db --to sqlite:new.db");
        return REDRIVE_E_USAGE;
    }
    struct move_end from, to;
    struct store_move move = {.options = options, .from = &from, .to = &to};
    move_end_init(&from, options->from, "source");
    move_end_init(&to, options->to, "destination");
    int rc = move_ends_look(&from, &to, err);
    if (rc == 0)
        rc = move_ends_open(&from, &to, options->dry_run, options->force, err);
    if (rc == 0)
        rc = transfer(cli, &move, err);
    if (rc == 0)
        rc = print_move(cli, &move, err);
    move_end_release(&from);
    move_end_release(&to);
    return rc;
}

const struct command cmd_move = {
    .name = "move",
    .summary = "copy everything from one store into another, and check it",
    .description =
        "Copies every job with its history, dead letters, breakers, limits, pauses, definitions of "
        "tasks, the cron entries, counters and the keys that are unique for ever. The source is "
        "only read: remove it when the new store is in use.\n"
        "\n"
        "Stop every process that uses one of the two stores first: while a worker is alive the "
        "move is refused. The copy goes in whole transactions, so that it may be interrupted in "
        "any way; the same command then goes on with the rest. The destination is set up if it is "
        "not there. What it has is never overwritten, and one that has jobs which the source has "
        "not is refused, unless --into-existing is given: then its breakers, limits and other "
        "shared rows stay as they are, and its counters grow by those of the source, once. At the "
        "end both stores are read again and compared, by counts and by a hash over everything; the "
        "exit code is 1 when they differ, and what differs first is named.\n"
        "\n"
        "With --tenant one tenant goes from one shard of the configured store to another, while "
        "all processes run. The tenant is held meanwhile: requests for it are refused and may be "
        "tried again, and its queues rest; other tenants do not notice. Jobs of it that run are "
        "waited for; if they take longer than --wait, nothing is moved, and the exit code is 1; a "
        "tenant that was held before stays held. An interrupted move leaves the tenant held, and "
        "the same command, also without --to, goes on with the rest. --back undoes such a move, or "
        "one in which the new shard refuses a job, as long as the new shard has not taken over: "
        "jobs that have gone there come back, and the tenant is released where it was. Without "
        "--to, a tenant that is not being moved stays, and the command says where it is.",
    OPTIONS_INTO(OPTIONS, struct move_options),
    .examples = EXAMPLES(
        {"redrive move --from sqlite:old.db --to sqlite:new.db --dry-run", "what is there?"},
        {"redrive move --from sqlite:old.db --to sqlite:new.db", "copy and check"},
        {"redrive move --from sqlite:a.db --to sqlite:all.db --into-existing",
         "add to a store that has jobs already"},
        {"redrive move --tenant acme --to 2", "a tenant to the second shard"},
        {"redrive move --tenant acme --back", "a move that does not come to its end"}),
    .run = run_move,
    .settings = SETTINGS_STORE,
};
