/* cron_change.c - periodic tasks: sets, declares and removes entries. */
#include "engine/clock/cron.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/str.h"
#include "core/check.h"
#include "engine/clock/cron_entries.h"
#include "engine/state.h"

/* ---- What changes ask first ------------------------------------------------------------------ */

/* The row of an entry, and what it says. */
struct found {
    const struct shared_row *row; /* NULL: there is none */
    struct cron_entry_row says;   /* without a definition: no entry is stored */
    size_t n_stored;              /* entries of the tenant */
};

static void find_row(const struct shared_page *page, struct str name, struct found *ret)
{
    *ret = (struct found){0};
    for (size_t i = 0; i < page->n; i++) {
        struct cron_entry_row says;
        if (!cron_entry_row_read(page->rows[i].value, &says))
            says = (struct cron_entry_row){0};
        ret->n_stored += says.definition.len > 0;
        if (str_eq(page->rows[i].key, name)) {
            ret->row = &page->rows[i];
            ret->says = says;
        }
    }
}

/* True: it has been answered. */
static bool is_configured(const struct engine *e, struct op *op, struct str tenant, struct str name)
{
    if (!cron_entries_own(e->options.config, tenant, name))
        return false;
    op->code = err_set(&op->err, REDRIVE_E_STATE, "'%.*s' is an entry of the configuration",
                       (int)name.len, name.ptr);
    err_hint(&op->err, "change it in the configuration");
    return true;
}

static void answer_beaten(struct op *op)
{
    op->code = err_set(&op->err, REDRIVE_E_STATE, "another process has changed it meanwhile");
    err_hint(&op->err, "try again");
}

/* ---- Setting --------------------------------------------------------------------------------- */

/* Which tick is the last one that need not be made. */
static int64_t first_mark(const struct engine *e, const struct cron_put_op *op,
                          const struct cron_entry_row *before)
{
    const struct config_cron *entry = &op->box->cron;
    struct config_part *box = NULL;
    int64_t mark_ms = e->now_ms;
    if (before->definition.len > 0 &&
        cron_parse_json(op->config, false, op->name, before->definition, &box, NULL, NULL) == 0) {
        const struct config_cron *former = &box->cron;
        if (strcmp(former->schedule, entry->schedule) == 0 &&
            strcmp(former->timezone, entry->timezone) == 0)
            mark_ms = before->last_ms;
    }
    config_part_free(box);
    return mark_ms;
}

/* The entries are to be loaded again afterwards. */
static int put(struct engine *e, struct cron_put_op *op, const struct found *found,
               struct redrive_err *err)
{
    const struct str definition = buf_str(&op->definition);
    struct cron_entry_row row = found->says;
    bool won = true;
    int rc = 0;
    op->created = row.definition.len == 0;
    if (op->created && found->n_stored >= CRON_STORED_MAX) {
        op->op.code =
            err_set(&op->op.err, REDRIVE_E_STATE, "there are %d entries already", CRON_STORED_MAX);
        err_hint(&op->op.err, "remove some of them");
        return 0;
    }
    if (!str_eq(row.definition, definition) || !str_eq(row.declared_by, op->declared_by)) {
        row = (struct cron_entry_row){.last_ms = first_mark(e, op, &row),
                                      .definition = definition,
                                      .declared_by = op->declared_by};
        rc = cron_entry_row_put(e, op->tenant, op->name, found->row ? found->row->version : 0, &row,
                                NULL, &won, err);
    }
    if (rc == 0 && !won)
        answer_beaten(&op->op);
    op->shown = cron_item_of(&op->box->cron, true, row.last_ms, e->now_ms);
    return rc;
}

static int apply_put(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct cron_put_op *op = (struct cron_put_op *)base;
    struct shared_page page = {0};
    struct found found;
    if (is_configured(e, base, op->tenant, op->name))
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_CRON, op->tenant, &page, err);
    if (rc == 0) {
        find_row(&page, op->name, &found);
        rc = put(e, op, &found, err);
    }
    if (rc == 0)
        rc = cron_entries_load(e, err);
    shared_page_release(&page);
    return rc;
}

static const struct op_route PUT_ROUTE = {.to = ROUTE_TENANT,
                                          .tenant_at = offsetof(struct cron_put_op, tenant)};

int cron_put_op_init(struct cron_put_op *op, const struct engine *e, struct str tenant,
                     struct str name, struct str json, struct redrive_err *err)
{
    *op = (struct cron_put_op){.op = {.apply = apply_put, .route = &PUT_ROUTE, .weight = 1},
                               .tenant = tenant,
                               .name = name};
    buf_init(&op->definition, CRON_ENTRY_MAX_BYTES);
    op->config = engine_config(e);
    int rc = cron_parse_json(op->config, true, name, json, &op->box, op->field, err);
    if (rc < 0)
        return rc;
    struct json_writer w;
    json_writer_init(&w, &op->definition);
    cron_write_json(&op->box->cron, &w);
    rc = buf_failed(&op->definition);
    if (rc == REDRIVE_E_TOO_BIG) {
        (void)str_copy(op->field, sizeof op->field, STR("payload"));
        (void)err_set(err, rc, "payload: it is too long");
        err_detail(err, "expected an entry of at most %u bytes", CRON_ENTRY_MAX_BYTES);
        err_hint(err, "keep large data elsewhere and say where it is");
    }
    return rc == REDRIVE_E_NOMEM ? err_nomem(err) : rc;
}

void cron_put_op_release(struct cron_put_op *op)
{
    config_part_free(op->box);
    buf_release(&op->definition);
    config_free(op->config);
    op->box = NULL;
    op->config = NULL;
}

/* ---- Declaring ------------------------------------------------------------------------------- */

static bool is_among(const struct cron_declare_op *op, struct str name)
{
    for (size_t i = 0; i < op->n; i++)
        if (str_eq(op->puts[i].name, name))
            return true;
    return false;
}

/* Entries that the application has declared before, and no longer does. */
static int remove_former(struct engine *e, struct cron_declare_op *op,
                         const struct shared_page *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        const struct shared_row *row = &page->rows[i];
        struct cron_entry_row says;
        bool won = false;
        if (!cron_entry_row_read(row->value, &says) || !str_eq(says.declared_by, op->declared_by) ||
            is_among(op, row->key))
            continue;
        rc = cron_entry_row_put(e, op->tenant, row->key, row->version, NULL, NULL, &won, err);
        op->n_removed += won;
    }
    return rc;
}

static int apply_declare(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct cron_declare_op *op = (struct cron_declare_op *)base;
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    struct found found;
    size_t n_created = 0;
    op->n_removed = op->n_configured = 0;
    int rc = e->ops->shared_list(e->store, SHARED_CRON, op->tenant, &page, err);
    if (rc == 0)
        rc = remove_former(e, op, &page, err);
    for (size_t i = 0; i < op->n && rc == 0; i++) {
        struct cron_put_op *one = &op->puts[i];
        if (cron_entries_own(e->options.config, op->tenant, one->name)) {
            op->n_configured++;
            continue;
        }
        one->op.code = 0;
        find_row(&page, one->name, &found);
        found.n_stored += n_created;
        found.n_stored -= op->n_removed < found.n_stored ? op->n_removed : found.n_stored;
        rc = put(e, one, &found, err);
        n_created += one->created;
        /* All of them, or none: the transaction is given up. */
        if (rc == 0 && one->op.code < 0) {
            rc = one->op.code;
            if (err)
                *err = one->op.err;
        }
    }
    return rc == 0 ? cron_entries_load(e, err) : rc;
}

static const struct op_route DECLARE_ROUTE = {
    .to = ROUTE_TENANT, .tenant_at = offsetof(struct cron_declare_op, tenant)};

static int check_application(struct cron_declare_op *op, struct redrive_err *err)
{
    if (name_check_queue(op->declared_by, NULL) == 0)
        return 0;
    (void)str_copy(op->field, sizeof op->field, STR("declared_by"));
    (void)err_set(err, REDRIVE_E_INVALID, "declared_by is not the name of an application");
    err_detail(err, "expected letters, digits, '.', '_' and '-', at most %d", NAME_MAX_BYTES);
    return REDRIVE_E_INVALID;
}

static int add_entry(struct cron_declare_op *op, const struct engine *e,
                     const struct json_member *member, struct redrive_err *err)
{
    struct cron_put_op *one = &op->puts[op->n++];
    struct redrive_err why = {0};
    int rc = cron_put_op_init(one, e, op->tenant, member->name, member->value, &why);
    one->declared_by = op->declared_by;
    if (rc < 0 && err) {
        (void)err_set(err, rc, "cron.%.*s: %s",
                      (int)(member->name.len < 60 ? member->name.len : 60), member->name.ptr,
                      why.message);
        err_detail(err, "%s", why.detail);
        err_hint(err, "%s", why.hint);
        (void)str_copy(op->field, sizeof op->field, str_of(one->field));
    }
    return rc;
}

int cron_declare_op_init(struct cron_declare_op *op, const struct engine *e, struct str tenant,
                         struct str declared_by, struct str json, struct redrive_err *err)
{
    struct json_member *members = NULL;
    size_t n = 0;
    *op = (struct cron_declare_op){
        .op = {.apply = apply_declare, .route = &DECLARE_ROUTE, .weight = 1},
        .tenant = tenant,
        .declared_by = declared_by,
    };
    int rc = check_application(op, err);
    if (rc == 0)
        rc = json_read_members(json, NULL, &op->arena, &members, &n, err);
    if (rc == 0 && n > CRON_STORED_MAX) {
        rc = err_set(err, REDRIVE_E_STATE, "there are %zu entries", n);
        err_hint(err, "a tenant has at most %d", CRON_STORED_MAX);
    }
    if (rc < 0)
        return rc;
    op->puts = arena_array(&op->arena, n + 1, sizeof *op->puts);
    if (!op->puts)
        return err_nomem(err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_entry(op, e, &members[i], err);
    return rc;
}

void cron_declare_op_release(struct cron_declare_op *op)
{
    for (size_t i = 0; i < op->n; i++)
        cron_put_op_release(&op->puts[i]);
    arena_release(&op->arena);
    op->puts = NULL;
    op->n = 0;
}

/* ---- Removing -------------------------------------------------------------------------------- */

static int apply_remove(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct cron_remove_op *op = (struct cron_remove_op *)base;
    struct shared_page page = {0};
    struct found found;
    bool won = false;
    if (is_configured(e, base, op->tenant, op->name))
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_CRON, op->tenant, &page, err);
    if (rc == 0)
        find_row(&page, op->name, &found);
    if (rc == 0 && found.says.definition.len == 0) {
        cron_answer_unknown(e, base, op->tenant, op->name);
    } else if (rc == 0) {
        rc = cron_entry_row_put(e, op->tenant, op->name, found.row->version, NULL, NULL, &won, err);
        if (rc == 0 && !won)
            answer_beaten(base);
        else if (rc == 0)
            rc = cron_entries_load(e, err);
    }
    shared_page_release(&page);
    return rc;
}

static const struct op_route REMOVE_ROUTE = {.to = ROUTE_TENANT,
                                             .tenant_at = offsetof(struct cron_remove_op, tenant)};

void cron_remove_op_init(struct cron_remove_op *op, struct str tenant, struct str name)
{
    *op =
        (struct cron_remove_op){.op = {.apply = apply_remove, .route = &REMOVE_ROUTE, .weight = 1},
                                .tenant = tenant,
                                .name = name};
}
