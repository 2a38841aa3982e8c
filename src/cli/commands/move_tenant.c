/* move_tenant.c - `redrive move --tenant`: one tenant from one shard of the store to another. */
#include "cli/commands/move_tenant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/text/buf.h"
#include "base/text/url_mask.h"
#include "base/time/clock.h"
#include "cli/output/figures.h"
#include "cli/output/progress.h"
#include "cli/output/term.h"
#include "cli/shared/session.h"
#include "config/config.h"
#include "engine/copy/source.h"
#include "engine/copy/tenant/move.h"
#include "store/shards/record.h"
#include "store/shards/tenants.h"

struct tenant_moving {
    struct cli *cli;
    const struct move_tenant_options *options;
    struct sharded *shards;
    struct tenant_move move;
    uint64_t jobs; /* dry run: how many there are */
    struct progress progress;
};

/* ---- Output ---------------------------------------------------------------------------------- */

static void moving_as_json(struct json_writer *w, const void *thing)
{
    const struct tenant_moving *t = thing;
    json_begin_object(w);
    json_field_cstr(w, "tenant", t->options->tenant);
    json_field_int(w, "from", (int64_t)t->move.from + 1);
    json_field_int(w, "to", (int64_t)t->move.to + 1);
    json_field_bool(w, "dry_run", t->options->dry_run);
    json_field_bool(w, "back", t->options->back);
    json_field_int(w, "moved", (int64_t)(t->options->dry_run ? t->jobs : t->move.moved));
    if (t->options->back)
        json_field_int(w, "kept", (int64_t)t->move.kept);
    json_field_double(w, "held_seconds", (double)t->move.held_ms / 1000);
    json_end_object(w);
}

static void add_shard(struct buf *out, const struct tenant_moving *t, size_t shard)
{
    buf_printf(out, "shard %zu (", shard + 1);
    url_mask(out, str_of(t->shards->urls.urls[shard]));
    buf_puts(out, ")");
}

/* What the new shard keeps was there before the move, or came by a process that did not know of it.
 */
static void add_kept(struct buf *out, const struct tenant_moving *t)
{
    const struct redrive_err *refusal = &t->move.refusal;
    if (t->move.kept == 0)
        return;
    buf_printf(out, "%" PRIu64 " job%s of the tenant stay%s on ", t->move.kept,
               t->move.kept == 1 ? "" : "s", t->move.kept == 1 ? "s" : "");
    add_shard(out, t, t->move.to);
    if (refusal->code < 0)
        buf_printf(out, ": %s%s%s", refusal->message, refusal->detail[0] ? ", " : "",
                   refusal->detail);
    buf_putc(out, '\n');
}

static void back_as_text(struct buf *out, const struct tenant_moving *t)
{
    char span[FIGURE_MAX];
    buf_printf(out, "tenant %s is back on ", t->options->tenant);
    add_shard(out, t, t->move.from);
    buf_printf(out, "; %" PRIu64 " job%s taken from ", t->move.moved,
               t->move.moved == 1 ? " was" : "s were");
    add_shard(out, t, t->move.to);
    buf_printf(out, ", which took %s\n", figure_span(t->move.held_ms, span));
    add_kept(out, t);
}

static void moving_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct tenant_moving *t = thing;
    const bool dry_run = t->options->dry_run;
    const uint64_t n = dry_run ? t->jobs : t->move.moved;
    char span[FIGURE_MAX];
    (void)term;
    if (t->options->back) {
        back_as_text(out, t);
        return;
    }
    if (t->move.from == t->move.to) {
        buf_printf(out, "tenant %s is on ", t->options->tenant);
        add_shard(out, t, t->move.to);
        buf_putc(out, '\n');
        return;
    }
    buf_printf(out, "%s %" PRIu64 " job%s of tenant %s from ", dry_run ? "would move" : "moved", n,
               n == 1 ? "" : "s", t->options->tenant);
    add_shard(out, t, t->move.from);
    buf_puts(out, " to ");
    add_shard(out, t, t->move.to);
    if (!dry_run)
        buf_printf(out, "; the tenant was held for %s", figure_span(t->move.held_ms, span));
    buf_putc(out, '\n');
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool show_step(void *ctx, const char *name, uint64_t moved)
{
    struct tenant_moving *t = ctx;
    const bool waits = strcmp(name, "wait") == 0;
    progress_phase(&t->progress, &t->cli->err, waits ? "wait for running jobs" : name,
                   waits ? t->move.running : moved, 0);
    return !interrupt_asked();
}

/* SIZE_MAX: none was named. */
static int find_shard(const struct tenant_moving *t, size_t *ret, struct redrive_err *err)
{
    const struct shard_urls *urls = &t->shards->urls;
    const char *to = t->options->to;
    char *end;
    *ret = SIZE_MAX;
    if (!to)
        return 0;
    const unsigned long number = strtoul(to, &end, 10);
    if (*end == '\0' && number >= 1 && number <= urls->n)
        *ret = number - 1;
    for (size_t i = 0; i < urls->n; i++)
        if (strcmp(urls->urls[i], to) == 0)
            *ret = i;
    if (*ret != SIZE_MAX)
        return 0;
    (void)err_set(err, REDRIVE_E_USAGE, "--to names no shard of the store");
    err_hint(err, "1 to %zu, or the URL as the configuration has it", urls->n);
    return REDRIVE_E_USAGE;
}

static int look_only(struct tenant_moving *t, struct redrive_err *err)
{
    t->move.from = shards_at(t->shards, t->move.tenant);
    if (t->move.to == SIZE_MAX)
        t->move.to = t->move.from;
    return source_count(t->shards->stores[t->move.from], t->move.tenant, &t->jobs, err);
}

static int run_moving(struct tenant_moving *t, struct redrive_err *err)
{
    struct interrupt interrupt;
    t->move = (struct tenant_move){
        .stores = t->shards->stores,
        .n = t->shards->urls.n,
        .n_hashed = t->shards->n_hashed,
        .tenant = str_of(t->options->tenant),
        .now_ms = clock_wall_ms(),
        .wait_ms = t->options->wait_ms,
        .progress = show_step,
        .ctx = t,
    };
    int rc = find_shard(t, &t->move.to, err);
    if (rc == 0 && t->options->dry_run)
        return look_only(t, err);
    if (rc < 0)
        return rc;
    interrupt_catch(&interrupt);
    rc = (t->options->back ? tenant_move_back : tenant_move_run)(&t->move, err);
    interrupt_release(&interrupt);
    progress_clear(&t->progress);
    return rc;
}

static int refuse_plain_store(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_USAGE, "--tenant needs a store with shards");
    err_hint(err, "store: {shards: [URL, URL, ...]}; docs/stores.md says more");
    return REDRIVE_E_USAGE;
}

int move_tenant(struct cli *cli, const struct move_tenant_options *options, struct redrive_err *err)
{
    struct tenant_moving t = {.cli = cli, .options = options};
    const struct store_options as_it_is = {0};
    struct config *config = NULL;
    struct store *store = NULL;
    int rc = load_config(cli, &config, err);
    if (rc == 0 && !shards_is(config->store))
        rc = refuse_plain_store(err);
    if (rc == 0)
        rc = store_open(config->store, &as_it_is, &store, err);
    if (rc == 0) {
        t.shards = sharded_of(store);
        rc = shard_record_check(t.shards->stores, &t.shards->urls, false, NULL, err);
    }
    if (rc == 0)
        rc = run_moving(&t, err);
    if (rc == 0)
        rc = cli_show(cli, &t, moving_as_json, moving_as_text, err);
    store_close(store);
    config_free(config);
    return rc;
}
