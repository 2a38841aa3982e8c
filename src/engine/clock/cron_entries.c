/* cron_entries.c - the periodic tasks as an engine knows them. */
#include "engine/clock/cron_entries.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/buf.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "store/shards/shards.h"

#define ROW_MAX_BYTES (2 * CRON_ENTRY_MAX_BYTES)

static const struct str OWN_TENANT = {ENGINE_TENANT_DEFAULT, sizeof ENGINE_TENANT_DEFAULT - 1};

/* ---- Rows ------------------------------------------------------------------------------------ */

bool cron_entry_row_read(struct str json, struct cron_entry_row *ret)
{
    struct json_reader r;
    struct json_string key, owner = {0};
    bool found = false;
    *ret = (struct cron_entry_row){0};
    json_reader_init(&r, json, NULL);
    if (json_enter_object(&r) == 0) {
        while (json_next_key(&r, &key) > 0) {
            if (json_string_is(key, "last_tick_ms"))
                found = json_read_int(&r, &ret->last_ms) == 0 && ret->last_ms >= 0;
            else if (json_string_is(key, "schedule"))
                (void)json_read_string(&r, &ret->schedule);
            else if (json_string_is(key, "timezone"))
                (void)json_read_string(&r, &ret->timezone);
            else if (json_string_is(key, "declared_by"))
                (void)json_read_string(&r, &owner);
            else
                (void)json_skip(&r, json_string_is(key, "entry") ? &ret->definition : NULL);
        }
    }
    found = found && json_end(&r) == 0;
    json_reader_release(&r);
    ret->declared_by = owner.raw;
    if (!found)
        *ret = (struct cron_entry_row){0};
    return found;
}

static void write_row(const struct cron_entry_row *row, const struct config_cron *own,
                      struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    if (own) {
        json_field_cstr(&w, "task", own->task);
        json_field_cstr(&w, "schedule", own->schedule);
        json_field_cstr(&w, "timezone", own->timezone);
    }
    json_field_int(&w, "last_tick_ms", row->last_ms);
    if (row->declared_by.len > 0)
        json_field_string(&w, "declared_by", row->declared_by);
    if (row->definition.len > 0) {
        json_key(&w, "entry");
        json_put_raw(&w, row->definition);
    }
    json_end_object(&w);
}

int cron_entry_row_put(struct engine *e, struct str tenant, struct str name, int64_t version,
                       const struct cron_entry_row *row, const struct config_cron *own,
                       bool *ret_won, struct redrive_err *err)
{
    struct buf value;
    buf_init(&value, ROW_MAX_BYTES);
    if (row)
        write_row(row, own, &value);
    const struct shared_row put = {
        .kind = SHARED_CRON,
        .tenant = tenant,
        .key = name,
        .value = buf_str(&value),
        .version = version,
        .removed = !row,
    };
    *ret_won = false;
    int rc = buf_failed(&value) ? err_nomem(err) : shared_row_put(e, &put, ret_won, err);
    buf_release(&value);
    return rc;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static void slot_release(struct cron_entry *slot)
{
    free(slot->tenant);
    free(slot->name);
    free(slot->definition);
    free(slot->declared_by);
    config_part_free(slot->box);
    *slot = (struct cron_entry){0};
}

void cron_entries_release(struct cron_entries *table)
{
    for (size_t i = 0; i < table->n; i++)
        if (!table->slots[i].has_moved)
            slot_release(&table->slots[i]);
    free(table->slots);
    *table = (struct cron_entries){0};
}

void cron_entries_forget(struct cron_entries *table)
{
    for (size_t i = 0; i < table->n; i++)
        table->slots[i].version = -1;
}

static int compare_slots(const void *a, const void *b)
{
    const struct cron_entry *left = a, *right = b;
    int order = str_compare(str_of(left->tenant), str_of(right->tenant));
    return order ? order : str_compare(str_of(left->name), str_of(right->name));
}

struct entry_name {
    struct str tenant, name;
};

static int compare_name(const void *key, const void *slot)
{
    const struct entry_name *wanted = key;
    const struct cron_entry *entry = slot;
    const int order = str_compare(wanted->tenant, str_of(entry->tenant));
    return order != 0 ? order : str_compare(wanted->name, str_of(entry->name));
}

struct cron_entry *cron_entries_find(const struct cron_entries *table, struct str tenant,
                                     struct str name)
{
    const struct entry_name wanted = {tenant, name};
    return table->n == 0
               ? NULL
               : bsearch(&wanted, table->slots, table->n, sizeof *table->slots, compare_name);
}

const struct config_cron *cron_entry_config(const struct cron_entry *slot)
{
    return slot->own ? slot->own : slot->box ? &slot->box->cron : NULL;
}

const struct config_cron *cron_entries_own(const struct config *config, struct str tenant,
                                           struct str name)
{
    if (!config || !str_eq(tenant, OWN_TENANT))
        return NULL;
    for (size_t i = 0; i < config->n_cron; i++)
        if (str_is(name, config->cron[i].name))
            return &config->cron[i];
    return NULL;
}

bool cron_entry_is_unmarked(const struct cron_entry *slot)
{
    return slot->version == slot->unmarked_version;
}

static void find_next(struct cron_entry *slot)
{
    const struct config_cron *entry = cron_entry_config(slot);
    if (!entry)
        slot->next_ms = INT64_MAX;
    else if (cron_entry_is_unmarked(slot))
        slot->next_ms = 0;
    else if (cron_next(&entry->cron, entry->tz, slot->last_ms, &slot->next_ms) < 0)
        slot->next_ms = INT64_MAX;
}

int cron_entries_mark(struct engine *e, struct cron_entry *slot, int64_t last_ms, bool *ret_won,
                      struct redrive_err *err)
{
    const struct cron_entry_row row = {.last_ms = last_ms,
                                       .definition = str_of(slot->definition),
                                       .declared_by = str_of(slot->declared_by)};
    int rc = cron_entry_row_put(e, str_of(slot->tenant), str_of(slot->name), slot->version, &row,
                                slot->own, ret_won, err);
    if (*ret_won) {
        slot->version++;
        slot->last_ms = last_ms;
        find_next(slot);
    }
    return rc;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* It may need a time zone that this machine lacks, or have keys of a later version: other processes
 * may understand it. */
static void read_definition(struct engine *e, struct cron_entry *slot)
{
    struct redrive_err why = {0};
    if (cron_parse_json(e->options.config, false, str_of(slot->name), str_of(slot->definition),
                        &slot->box, NULL, &why) < 0)
        log_event(e->options.log, LOG_LEVEL_WARNING, engine_now_ms(e), "cron_not_understood",
                  LOG_S("cron", slot->name), LOG_S("tenant", slot->tenant),
                  LOG_S("error", why.message), LOG_S("detail", why.detail));
}

static void log_damaged(const struct engine *e, const struct cron_entry *slot)
{
    log_event(e->options.log, LOG_LEVEL_ERROR, engine_now_ms(e), "cron_row_damaged",
              LOG_S("cron", slot->name), LOG_S("tenant", slot->tenant),
              LOG_S("hint", "it is written anew: a tick that was missed is not made up for"));
}

static int slot_init(struct cron_entry *slot, struct str tenant, struct str name,
                     struct redrive_err *err)
{
    *slot = (struct cron_entry){.tenant = str_dup(tenant), .name = str_dup(name)};
    return slot->tenant && slot->name ? 0 : err_nomem(err);
}

/* The version alone does not tell: a row that was removed and put again starts at the first. */
static bool is_as_known(const struct cron_entry *known, const struct shared_row *row,
                        const struct cron_entry_row *says)
{
    return known->version == row->version && known->last_ms == says->last_ms &&
           str_eq(str_of(known->definition), says->definition) &&
           str_eq(str_of(known->declared_by), says->declared_by);
}

/* A stored entry is marked without a schedule: it is the one of the definition. */
static bool is_marked_by_another(const struct cron_entry *slot, const struct cron_entry_row *says)
{
    const struct config_cron *entry = cron_entry_config(slot);
    if (!entry || (!slot->own && says->schedule.raw.len == 0))
        return false;
    return !json_string_is(says->schedule, entry->schedule) ||
           !json_string_is(says->timezone, entry->timezone);
}

/* One entry at the end of `table`, or none if the row is a mark without an entry. */
static int take_row(struct engine *e, struct cron_entries *table, const struct shared_row *row,
                    struct redrive_err *err)
{
    const struct config_cron *own = cron_entries_own(e->options.config, row->tenant, row->key);
    struct cron_entry *known = cron_entries_find(&e->cron_entries, row->tenant, row->key);
    struct cron_entry *slot = &table->slots[table->n];
    struct cron_entry_row says;
    const bool is_whole = cron_entry_row_read(row->value, &says);
    if (!is_whole && !own)
        return 0;
    if (known && known->own == own && is_as_known(known, row, &says)) {
        table->n++;
        *slot = *known;
        known->has_moved = true;
        return 0;
    }
    if (!own && says.definition.len == 0)
        return 0;
    table->n++;
    int rc = slot_init(slot, row->tenant, row->key, err);
    slot->own = own;
    slot->version = row->version;
    slot->last_ms = says.last_ms;
    if (rc == 0 && says.definition.len > 0) {
        slot->definition = str_dup(says.definition);
        rc = slot->definition ? 0 : err_nomem(err);
    }
    if (rc == 0 && says.declared_by.len > 0) {
        slot->declared_by = str_dup(says.declared_by);
        rc = slot->declared_by ? 0 : err_nomem(err);
    }
    if (rc == 0 && !own)
        read_definition(e, slot);
    if (!is_whole)
        log_damaged(e, slot);
    /* After a transaction that failed, the row is read again at the version that it had. */
    if (!is_whole || (!known && is_marked_by_another(slot, &says)))
        slot->unmarked_version = slot->version;
    else if (known)
        slot->unmarked_version = known->unmarked_version;
    find_next(slot);
    return rc;
}

static void sort(struct cron_entries *table)
{
    if (table->n > 1)
        qsort(table->slots, table->n, sizeof table->slots[0], compare_slots);
}

/* The entries of the configuration that have no row yet. */
static int take_own(const struct config *config, struct cron_entries *table,
                    struct redrive_err *err)
{
    const struct cron_entries with_rows = *table;
    int rc = 0;
    for (size_t i = 0; config && i < config->n_cron && rc == 0; i++) {
        const struct config_cron *own = &config->cron[i];
        if (cron_entries_find(&with_rows, OWN_TENANT, str_of(own->name)))
            continue;
        struct cron_entry *slot = &table->slots[table->n++];
        rc = slot_init(slot, OWN_TENANT, str_of(own->name), err);
        slot->own = own;
        find_next(slot);
    }
    return rc;
}

int cron_entries_load(struct engine *e, struct redrive_err *err)
{
    const struct config *config = e->options.config;
    const size_t n_shards = e->options.n_shards;
    struct cron_entries table = {0};
    struct shared_page page = {0};
    int rc = e->ops->shared_list(e->store, SHARED_CRON, (struct str){0}, &page, err);
    if (rc < 0)
        return rc;
    table.slots = calloc(page.n + (config ? config->n_cron : 0) + 1, sizeof *table.slots);
    if (!table.slots) {
        shared_page_release(&page);
        return err_nomem(err);
    }
    for (size_t i = 0; i < page.n && rc == 0; i++)
        if (n_shards == 0 || fence_has(e, page.rows[i].tenant))
            rc = take_row(e, &table, &page.rows[i], err);
    sort(&table);
    if (rc == 0 && (n_shards == 0 || fence_has(e, OWN_TENANT)))
        rc = take_own(config, &table, err);
    sort(&table);
    shared_page_release(&page);
    cron_entries_release(&e->cron_entries);
    if (rc < 0)
        cron_entries_release(&table);
    e->cron_entries = table;
    for (size_t i = 0; i < table.n; i++)
        engine_want_own(e, table.slots[i].next_ms);
    return rc;
}
