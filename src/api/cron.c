/* cron.c - cron entries: lists, stores, removes and declares them, and runs one by hand. */
#include "api/api.h"
#include "api/redact.h"

/* ---- All of them ----------------------------------------------------------------------------- */

static void write_entry(const struct api_context *c, const struct cron_item *item,
                        struct json_writer *w)
{
    struct config_cron entry = *item->entry;
    struct cron_item shown = *item;
    struct redactor redactor;
    redactor_init(&redactor, c->redact, c->arena);
    /* Once to learn what is hidden, and once more to find it in the rest. */
    (void)redact_value(&redactor, str_of(entry.payload));
    const struct str payload = redact_value(&redactor, str_of(entry.payload));
    if (payload.ptr != entry.payload)
        entry.payload = arena_dup(c->arena, payload);
    if (!entry.payload)
        entry.payload = "\"" REDACTED "\"";
    shown.entry = &entry;
    cron_item_write_json(w, &shown);
}

static int read_entries(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(cron_page_release) struct cron_page page = {0};
    int rc = cron_page_read(c->store, c->config, c->tenant, c->now_ms, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    for (size_t i = 0; i < page.n; i++)
        write_entry(c, &page.items[i], w);
    api_end_items(w, NULL);
    return 0;
}

/* ---- Storing --------------------------------------------------------------------------------- */

static int begin_put(const struct api_context *c, struct api_change *change,
                     struct redrive_err *err)
{
    struct cron_put_op *op = &change->cron_put;
    return api_note_fault(c, cron_put_op_init(op, c->engine, c->tenant, c->name, api_body(c), err),
                          op->field);
}

static int end_put(struct api_change *change, struct json_writer *w, const char **ret_field,
                   struct redrive_err *err)
{
    const struct cron_put_op *op = &change->cron_put;
    if (op->op.code < 0)
        return api_refuse_op(&op->op, NULL, ret_field, err);
    cron_item_write_json(w, &op->shown);
    change->status = op->created ? 201 : 200;
    return API_ANSWERED;
}

static void release_put(struct api_change *change)
{
    cron_put_op_release(&change->cron_put);
}

static int begin_declare(const struct api_context *c, struct api_change *change,
                         struct redrive_err *err)
{
    struct cron_declare_op *op = &change->cron_declare;
    return api_note_fault(
        c, cron_declare_op_init(op, c->engine, c->tenant, c->name, api_body(c), err), op->field);
}

static int end_declare(struct api_change *change, struct json_writer *w, const char **ret_field,
                       struct redrive_err *err)
{
    const struct cron_declare_op *op = &change->cron_declare;
    if (op->op.code < 0)
        return api_refuse_op(&op->op, NULL, ret_field, err);
    json_begin_object(w);
    json_field_int(w, "declared", (int64_t)op->n);
    json_field_int(w, "configured", (int64_t)op->n_configured);
    json_field_int(w, "removed", (int64_t)op->n_removed);
    json_end_object(w);
    return API_ANSWERED;
}

static void release_declare(struct api_change *change)
{
    cron_declare_op_release(&change->cron_declare);
}

/* ---- One that is there ----------------------------------------------------------------------- */

static int begin_remove(const struct api_context *c, struct api_change *change,
                        struct redrive_err *err)
{
    (void)err;
    cron_remove_op_init(&change->cron_remove, c->tenant, c->name);
    return 0;
}

static int end_remove(struct api_change *change, struct json_writer *w, const char **ret_field,
                      struct redrive_err *err)
{
    (void)w;
    if (change->op.code < 0)
        return api_refuse_op(&change->op, NULL, ret_field, err);
    change->status = 204;
    return API_ANSWERED;
}

static int begin_run(const struct api_context *c, struct api_change *change,
                     struct redrive_err *err)
{
    (void)err;
    cron_op_init(&change->cron_run, c->tenant, c->name);
    return 0;
}

static int end_run(struct api_change *change, struct json_writer *w, const char **ret_field,
                   struct redrive_err *err)
{
    const struct cron_op *op = &change->cron_run;
    if (op->op.code < 0)
        return api_refuse_op(&op->op, NULL, ret_field, err);
    json_begin_object(w);
    json_field_cstr(w, "id", op->id);
    json_field_cstr(w, "state", redrive_state_name(op->state));
    json_end_object(w);
    return API_ANSWERED;
}

#define ENTRIES "/cron"
#define ENTRY   ENTRIES "/{name}"

#define CHANGE(how, where, what, first, last)                                         \
    .method = (how), .path = (where), .summary = (what), .scope = CONFIG_SCOPE_ADMIN, \
    .begin = (first), .end = (last)

const struct operation API_CRON = {
    .path = ENTRIES,
    .summary = "The periodic tasks of the token's tenant, with their last and next tick",
    .scope = CONFIG_SCOPE_READ,
    .read = read_entries};
/* A definition may name a time zone, whose file is read. */
const struct operation API_CRON_PUT = {
    CHANGE(API_PUT, ENTRY, "Store a periodic task, or replace one", begin_put, end_put),
    .begin_waits = true, .release = release_put};
const struct operation API_CRON_DECLARE = {
    CHANGE(API_PUT, ENTRIES,
           "Declare all periodic tasks of an application, as its workers do when they start",
           begin_declare, end_declare),
    .parameter = "declared_by", .begin_waits = true, .release = release_declare};
const struct operation API_CRON_REMOVE = {
    CHANGE(API_DELETE, ENTRY, "Remove a stored periodic task", begin_remove, end_remove)};
const struct operation API_CRON_RUN = {
    CHANGE(API_POST, ENTRY "/run", "Submit the job of a periodic task now", begin_run, end_run)};
