/* migrate.c - `redrive migrate`: brings a store to the schema of this program. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/shared/session.h"
#include "engine/shards/router.h"
#include "store/shards/record.h"

struct migrate_options {
    bool dry_run;
    bool add_shards;
};

static const struct field OPTIONS[] = {
    OPTION("add-shards", 0, NULL, "the last of the configured shards are new: add them",
           INTO_FLAG(struct migrate_options, add_shards)),
    OPTION("dry-run", 'n', NULL, "say what would be done, and do nothing",
           INTO_FLAG(struct migrate_options, dry_run)),
    {0},
};

/* What is there, without a change to it. A store that is not there has version 0. */
static int look(const char *url, struct store_facts *ret, struct redrive_err *err)
{
    const struct store_options options = {.as_is = true};
    struct redrive_err why = {0};
    struct store *store = NULL;
    *ret = (struct store_facts){0};
    int rc = store_open(url, &options, &store, &why);
    if (rc == REDRIVE_E_NOT_FOUND)
        return 0;
    if (rc == 0)
        rc = store_ops(store)->facts(store, ret, &why);
    store_close(store);
    if (rc < 0)
        *err = why;
    return rc;
}

/* Shards also say of which store they are a part. */
static int set_up_shards(const char *url, struct redrive_err *err)
{
    const struct router_options options = {.url = url, .create = true, .needs_all = true};
    struct router *router = NULL;
    int rc = router_open(&options, &router, err);
    router_close(router);
    return rc;
}

/* Opening a store migrates it. Reads the facts again: the newest version is known even where there
 * was no store before. */
static int migrate(const char *url, struct store_facts *facts, struct redrive_err *err)
{
    const struct store_options options = {.create = true};
    struct store_facts now;
    struct store *store = NULL;
    int rc = shards_is(url) ? set_up_shards(url, err) : 0;
    if (rc == 0)
        rc = store_open(url, &options, &store, err);
    if (rc == 0)
        rc = store_ops(store)->facts(store, &now, err);
    store_close(store);
    if (rc == 0)
        facts->version_newest = now.version_newest;
    return rc;
}

struct migration {
    struct store_facts facts;
    bool dry_run;
};

static void migration_as_json(struct json_writer *w, const void *thing)
{
    const struct migration *m = thing;
    const int64_t from = m->facts.version_found, to = m->facts.version_newest;
    json_begin_object(w);
    json_field_int(w, "from", from);
    json_key(w, "to");
    if (to > 0)
        json_put_int(w, to);
    else
        json_put_null(w);
    json_field_bool(w, "changed", !m->dry_run && from < to);
    json_field_bool(w, "dry_run", m->dry_run);
    json_end_object(w);
}

static void migration_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct migration *m = thing;
    const int64_t from = m->facts.version_found, to = m->facts.version_newest;
    (void)term;
    if (from == 0 && m->dry_run)
        buf_puts(out, "there is no store yet: it would be set up\n");
    else if (from == 0)
        buf_printf(out, "the store was set up with schema version %" PRId64 "\n", to);
    else if (from == to)
        buf_printf(out, "the store has schema version %" PRId64 ": nothing to do\n", to);
    else
        buf_printf(out, "%s from schema version %" PRId64 " to %" PRId64 "\n",
                   m->dry_run ? "the store would be brought" : "the store was brought", from, to);
}

/* ---- More shards ----------------------------------------------------------------------------- */

struct addition {
    size_t before;
    size_t now;
};

static void addition_as_json(struct json_writer *w, const void *thing)
{
    const struct addition *a = thing;
    json_begin_object(w);
    json_field_int(w, "shards_before", (int64_t)a->before);
    json_field_int(w, "shards", (int64_t)a->now);
    json_end_object(w);
}

static void addition_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct addition *a = thing;
    (void)term;
    buf_printf(out, "the store has %zu shards now; it had %zu\n", a->now, a->before);
}

/* Opening a new one sets up its schema. */
static int add_shards(struct cli *cli, const char *url, bool dry_run, struct redrive_err *err)
{
    const struct store_options options = {.create = true};
    struct addition a = {0};
    struct store *store = NULL;
    if (!shards_is(url))
        return err_set(err, REDRIVE_E_USAGE, "--add-shards needs a store with shards");
    if (dry_run)
        return err_set(err, REDRIVE_E_USAGE, "--add-shards cannot be tried with --dry-run");
    int rc = store_open(url, &options, &store, err);
    if (rc == 0) {
        const struct sharded *s = sharded_of(store);
        a.now = s->urls.n;
        rc = shard_record_add(s->stores, &s->urls, &a.before, err);
    }
    store_close(store);
    return rc < 0 ? rc : cli_show(cli, &a, addition_as_json, addition_as_text, err);
}

static int run_migrate(struct cli *cli, struct redrive_err *err)
{
    const struct migrate_options *options = invocation_options(&cli->invocation);
    struct session session;
    struct migration m = {.dry_run = options->dry_run};
    const struct store_facts *facts = &m.facts;
    int rc = session_load(cli, &session, err);
    if (rc == 0 && options->add_shards) {
        rc = add_shards(cli, session.config->store, options->dry_run, err);
        session_close(&session);
        return rc;
    }
    if (rc == 0)
        rc = look(session.config->store, &m.facts, err);
    /* A newer one is refused by the store itself, which knows what to say. */
    bool is_newer = rc == 0 && facts->version_found > facts->version_newest;
    bool is_due = facts->version_found == 0 || facts->version_found < facts->version_newest;
    if (rc == 0 && (is_newer || (!m.dry_run && is_due)))
        rc = migrate(session.config->store, &m.facts, err);
    session_close(&session);
    return rc < 0 ? rc : cli_show(cli, &m, migration_as_json, migration_as_text, err);
}

const struct command cmd_migrate = {
    .name = "migrate",
    .summary = "bring the store to the schema of this program",
    .description =
        "Sets an empty store up, or brings an older one up to date, and says from which version to "
        "which. Every command does this when it opens a store, because a migration is one "
        "transaction that removes nothing, and no command could work without it; this command "
        "does it at a time that you choose. Processes of an older version refuse a store that was "
        "migrated: stop them first. A store of a newer version is refused with exit code 1.\n"
        "\n"
        "With --add-shards, the shards at the end of the configured list that the store does not "
        "have yet are added to it. They must be empty. No tenant changes its shard by that: "
        "`redrive "
        "move --tenant` moves tenants to the new shards, once every process has been started with "
        "the new list.",
    OPTIONS_INTO(OPTIONS, struct migrate_options),
    .examples = EXAMPLES({"redrive migrate --dry-run", "what would an upgrade do?"},
                         {"redrive migrate --store sqlite:/var/lib/redrive/jobs.db", "do it"}),
    .run = run_migrate,
    .settings = SETTINGS_STORE,
};
