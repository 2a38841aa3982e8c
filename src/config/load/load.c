/* load.c - reads all sources, binds and checks them. */
#include "config/config.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/text/str.h"
#include "config/document/dotenv.h"
#include "config/load/layers.h"
#include "config/load/load.h"
#include "config/schema/bind.h"
#include "config/schema/schema.h"

#define DEFAULT_PATH "redrive.yaml"

/* Everything that is needed for the time of one load. */
struct loading {
    const struct config_sources *sources;
    const char *path; /* of the file */
    bool path_required;
    struct binder binder;
    struct arena document;
    struct layers layers;
    struct variables variables;
    struct references references;
    bool is_dotenv_used; /* by a reference */
};

/* ---- Files ----------------------------------------------------------------------------------- */

static void choose_path(struct loading *l)
{
    const char *variable = env_get(l->sources->environ, "REDRIVE_CONFIG");
    l->path = l->sources->path ? l->sources->path : variable ? variable : DEFAULT_PATH;
    l->path_required = l->sources->path ? l->sources->path_required : variable != NULL;
}

static int cannot_read(struct loading *l, const char *path, const struct redrive_err *why)
{
    const struct node where = {.style = NODE_SETTING, .source = path};
    struct redrive_err *err = bind_error(&l->binder, &where, "%s", why->message);
    err_hint(err, "%s", why->hint);
    if (err)
        err->code = why->code;
    l->document.failed |= why->code == REDRIVE_E_NOMEM;
    return why->code;
}

static int read_document(struct loading *l)
{
    struct redrive_err why;

    RELEASED_BY(buf_release) struct buf text = BUF_MAX(NODE_MAX_BYTES + 1);
    int rc = file_read(l->path, NODE_MAX_BYTES, &text, &why);
    bool found = rc == 0;
    if (rc == REDRIVE_E_NOT_FOUND && !l->path_required)
        rc = 0;
    if (rc < 0) {
        cannot_read(l, l->path, &why);
    } else {
        if (found)
            l->binder.config->path = arena_dup(l->binder.arena, str_of(l->path));
        rc = node_from_yaml(&l->document, buf_str(&text), l->path, &l->layers.root, &why);
        if (rc < 0 && rc != REDRIVE_E_NOMEM) {
            rc = why.code = REDRIVE_E_CONFIG;
            l->binder.report->errors[l->binder.report->n_errors++] = why;
        }
    }
    return rc;
}

/* There need not be one; one that is no file is most often a directory of another tool. */
static void read_dotenv(struct loading *l)
{
    struct redrive_err why;
    const char *slash = strrchr(l->path, '/');
    const char *path =
        slash ? arena_printf(&l->document, "%.*s/.env", (int)(slash - l->path), l->path) : ".env";
    if (!path)
        return;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(DOTENV_MAX_BYTES + 1);
    int rc = file_read(path, DOTENV_MAX_BYTES, &text, &why);
    const struct node where = {.style = NODE_SETTING, .source = path};
    if (rc == 0) {
        l->binder.config->owned->dotenv_path = arena_dup(l->binder.arena, str_of(path));
        env_gather_dotenv(&l->layers, buf_str(&text), path, &l->variables);
        l->references.dotenv = arena_str(&l->document, buf_str(&text));
        return;
    }
    struct stat what;
    if (rc == REDRIVE_E_NOT_FOUND)
        return;
    if (rc == REDRIVE_E_IO && stat(path, &what) == 0 && !S_ISREG(what.st_mode))
        err_detail(bind_warning(&l->binder, &where, "is not a file"), "%s", why.message);
    else
        cannot_read(l, path, &why);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void apply_flags(struct loading *l)
{
    for (size_t i = 0; i < l->sources->n_flags; i++) {
        const struct config_setting *flag = &l->sources->flags[i];
        const struct key *key = key_find_flag(str_of(flag->name));
        const char *source = arena_printf(&l->document, "--%s", flag->name);
        if (!source)
            return;
        if (key) {
            layer_set(&l->layers, key, LAYER_FLAGS, str_of(flag->value ? flag->value : ""), source);
            continue;
        }
        const struct node where = {.style = NODE_SETTING, .source = source};
        struct redrive_err *err = bind_error(&l->binder, &where, "is not a setting");
        const char *nearest = key_suggest_flag(str_of(flag->name));
        if (nearest)
            err_hint(err, "did you mean '--%s'?", nearest);
    }
}

static void apply_settings(struct loading *l)
{
    read_dotenv(l);
    env_gather(&l->layers, l->sources->environ, &l->variables);
    env_apply(&l->layers, &l->variables);
    apply_flags(l);
    env_compat_apply(&l->layers, &l->variables);
}

/* ---- Secrets --------------------------------------------------------------------------------
 *
 * Where a secret is written is known only while the document exists.
 */

static bool is_secret_header(const char *name)
{
    static const char *const NAMES[] = {"Authorization", "Proxy-Authorization", "Cookie",
                                        "X-Api-Key", "X-Auth-Token"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (str_eq_nocase(str_of(name), str_of(NAMES[i])))
            return true;
    return false;
}

/* Whether the file itself has a secret of run.http, and not just the name of a variable. */
static bool has_http_secret(const struct config *config)
{
    for (size_t i = 0; i < config->n_tasks; i++) {
        const struct config_http *http = &config->tasks[i].run.http;
        for (size_t j = 0; j < http->n_secrets; j++)
            if (!reference_in(str_of(http->secrets[j].shown)))
                return true;
        for (size_t j = 0; j < http->n_headers; j++)
            if (is_secret_header(http->headers[j].name) &&
                !reference_in(str_of(http->headers[j].shown)))
                return true;
    }
    return false;
}

static void note_secrets(struct loading *l)
{
    const struct config *config = l->binder.config;
    struct config_owned *owned = config->owned;
    const struct node *store = node_find(l->layers.root, STR("store"));
    const bool has_password = store && !str_eq(str_of(config->store), str_of(config->store_shown));
    if (has_password && store->style != NODE_SETTING)
        owned->file_secrets = "the password of the store";
    else if (config->n_tokens > 0)
        owned->file_secrets = "tokens";
    else if (has_http_secret(config))
        owned->file_secrets = "secrets of run.http";
    if (has_password && owned->dotenv_path &&
        str_starts_with(str_of(store->source), str_of(owned->dotenv_path)))
        owned->dotenv_secrets = "the password of the store";
    else if (l->is_dotenv_used)
        owned->dotenv_secrets = "secrets of run.http";
}

/* ---- Origins ---------------------------------------------------------------------------------
 *
 * Where a setting was made is known only while the document exists, too.
 */

static void note_origin(struct loading *l, const struct key *key, const struct node *node)
{
    struct config *config = l->binder.config;
    const char *from = arena_dup(l->binder.arena, str_of(node->source));
    config->origins[config->n_origins++] =
        (struct config_origin){.key = key->name, .from = from, .is_borrowed = node->is_borrowed};
}

static void note_store(struct loading *l)
{
    struct config *config = l->binder.config;
    const struct node *store = layer_find(&l->layers, key_find(STR("store")));
    if (!store)
        config->store_from = "default";
    else if (store->style == NODE_SETTING || store->line == 0)
        config->store_from = arena_dup(l->binder.arena, str_of(store->source));
    else
        config->store_from =
            arena_printf(l->binder.arena, "%s:%u", store->source, (unsigned)store->line);
    config->store_is_borrowed = store && store->is_borrowed;
}

static void note_origins(struct loading *l)
{
    struct config *config = l->binder.config;
    size_t n = 0;
    while (key_at(n))
        n++;
    note_store(l);
    config->origins = arena_array(l->binder.arena, n, sizeof *config->origins);
    for (size_t i = 0; i < n && config->origins; i++) {
        const struct node *node = layer_find(&l->layers, key_at(i));
        if (node && node->type == NODE_SCALAR && node->style == NODE_SETTING)
            note_origin(l, key_at(i), node);
    }
}

int config_store_missing(const struct config *config, int rc, struct redrive_err *err)
{
    if (rc != REDRIVE_E_NOT_FOUND || !config->store_is_borrowed)
        return rc;
    (void)err_set(err, rc, "the store that %s names is not set up", config->store_from);
    err_detail(err, "%s", config->store_shown);
    err_hint(err, CONFIG_BORROWED_HINT);
    return rc;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static int load(struct loading *l)
{
    int rc = read_document(l);
    if (rc < 0)
        return rc;
    apply_settings(l);
    config_init(&l->binder);
    bind_table(&l->binder, &TABLE_ROOT, l->layers.root, l->binder.config);
    check_whole(&l->binder, l->layers.root, l->sources->has_faktory_passwords);
    if (l->binder.arena->failed || l->document.failed)
        return REDRIVE_E_NOMEM;
    if (l->binder.n_errors)
        return REDRIVE_E_CONFIG;
    note_secrets(l);
    note_origins(l);
    return l->binder.arena->failed ? REDRIVE_E_NOMEM : 0;
}

/* Binding visits sections in an order of its own; people read from the top. */
static void sort_report(struct config_report *report)
{
    for (size_t i = 1; i < report->n_errors; i++) {
        for (size_t j = i; j > 0 && report->lines[j - 1] > report->lines[j]; j--) {
            struct redrive_err err = report->errors[j];
            uint32_t line = report->lines[j];
            report->errors[j] = report->errors[j - 1];
            report->lines[j] = report->lines[j - 1];
            report->errors[j - 1] = err;
            report->lines[j - 1] = line;
        }
    }
}

static struct config *config_new(void)
{
    struct arena arena;
    arena_init(&arena);
    struct config *config = arena_alloc(&arena, sizeof *config);
    struct config_owned *owned = arena_alloc(&arena, sizeof *owned);
    if (!config || !owned) {
        arena_release(&arena);
        return NULL;
    }
    owned->arena = arena;
    atomic_init(&owned->holders, 1);
    config->owned = owned;
    return config;
}

int config_load(const struct config_sources *sources, struct config **ret,
                struct config_report *report)
{
    struct loading l = {.sources = sources};
    const char *zone_dir = env_get(sources->environ, "TZDIR");

    memset(report, 0, sizeof *report);
    *ret = NULL;
    struct config *config = config_new();
    if (!config) {
        report->n_errors = 1;
        return err_nomem(&report->errors[0]);
    }
    arena_init(&l.document);
    l.binder = (struct binder){.arena = &config->owned->arena,
                               .report = report,
                               .config = config,
                               .zones = &config->owned->zones,
                               .zone_dir = zone_dir ? zone_dir : ZONE_DIR,
                               .references = &l.references,
                               .code = REDRIVE_E_CONFIG};
    l.references.environ = sources->environ;
    l.references.is_dotenv_used = &l.is_dotenv_used;
    config->owned->zone_dir = arena_dup(l.binder.arena, str_of(l.binder.zone_dir));
    l.layers = (struct layers){.binder = &l.binder, .arena = &l.document};
    choose_path(&l);
    int rc = load(&l);
    arena_release(&l.document);
    if (rc == 0) {
        *ret = config;
        return 0;
    }
    config_free(config);
    if (rc == REDRIVE_E_NOMEM) {
        *report = (struct config_report){.n_errors = 1};
        return err_nomem(&report->errors[0]);
    }
    sort_report(report);
    return report->errors[0].code;
}

struct config *config_hold(const struct config *config)
{
    if (config && config->owned)
        atomic_fetch_add(&config->owned->holders, 1);
    return (struct config *)config;
}

unsigned config_holders(const struct config *config)
{
    return config->owned ? (unsigned)atomic_load(&config->owned->holders) : 0;
}

void config_free(struct config *config)
{
    if (!config || !config->owned || atomic_fetch_sub(&config->owned->holders, 1) > 1)
        return;
    zones_release(config->owned->zones);
    /* The arena holds itself. */
    struct arena arena = config->owned->arena;
    arena_release(&arena);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

void config_write(const struct config *config, struct json_writer *w)
{
    json_begin_object(w);
    table_write(&TABLE_ROOT, config, w);
    json_end_object(w);
}
