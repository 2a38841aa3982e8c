/* routes_dead.c - dead letters one by one and in pages: list, show, edit, remove, retry, groups. */
#include "server/rest/private.h"

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/report/dead_letters.h"
#include "engine/verbs/change.h"
#include "server/rest/body/body.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"

#define DEAD (1u << REDRIVE_STATE_DEAD_LETTER)

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_query(struct rest_call *call, unsigned allows, struct job_query *query)
{
    job_query_init(query, call->principal.tenant, allows, ORDER_FINISHED, rest_now_ms(call),
                   http_arena(call->request));
    query->filter.states = DEAD;
    return kit_query(call, query);
}

static void get_letters(struct rest_call *call)
{
    struct job_query query;
    if (read_query(call, JOB_QUERY_PAGE, &query))
        kit_send_page(call, &query.filter, view_dead_letter);
}

static void get_letter(struct rest_call *call)
{
    struct store *store = rest_store(call);
    struct job_page page = {0};
    struct attempt_page history = {0};
    struct redrive_err err = {0};
    if (!kit_find(call, DEAD, &page)) {
        job_page_release(&page);
        return;
    }
    int rc = store_ops(store)->history(store, &page.jobs[0].status.seq, 1, &history, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        view_dead_letter(rest_json(call), &page.jobs[0], &history);
        rest_send(call, 200);
    }
    attempt_page_release(&history);
    job_page_release(&page);
}

static void write_group(struct json_writer *w, const void *page, size_t i)
{
    group_write_json(w, &((const struct group_page *)page)->groups[i]);
}

static void get_groups(struct rest_call *call)
{
    struct store *store = rest_store(call);
    struct group_page page = {0};
    struct redrive_err err = {0};
    struct job_query query;
    if (!read_query(call, JOB_QUERY_LIMITS, &query))
        return;
    int rc = store_ops(store)->groups(store, &query.filter, &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_group);
    group_page_release(&page);
}

static void get_stats(struct rest_call *call)
{
    struct redrive_err err = {0};
    struct dead_counts counts;
    struct job_query query;
    if (!read_query(call, 0, &query))
        return;
    dead_counts_init(&counts, (uint64_t)clock_monotonic_ns());
    int rc = dead_counts_read(&counts, rest_store(call), &query.filter, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        dead_counts_write(rest_json(call), &counts);
        rest_send(call, 200);
    }
    dead_counts_release(&counts);
}

/* ---- Edit, retry ----------------------------------------------------------------------------- */

static void edited(struct rest_call *call, struct op *op)
{
    const struct change_item *item = &((const struct kit_change *)(const void *)op)->item;
    struct redrive_err err = {0};
    if (op->code == 0 &&
        (item->ret.code == REDRIVE_E_TOO_BIG || item->ret.code == REDRIVE_E_TOO_DEEP)) {
        (void)err_set(&err, item->ret.code, "payload: %s", redrive_err_text(item->ret.code));
        err_detail(&err, "expected JSON of at most %u bytes", ENGINE_PAYLOAD_MAX_BYTES);
        rest_fail(call, &err, "payload");
    } else {
        kit_changed(call, op, "edit", "dead letter");
    }
}

static void patch_letter(struct rest_call *call)
{
    static const struct member MEMBERS[] = {{"payload", MEMBER_JSON, 0}, {0}};
    struct redrive_err err = {0};
    struct str payload = {0};
    struct body b;
    uint64_t given;
    body_open(&b, http_body(call->request), http_arena(call->request), 0, &err);
    int rc = body_object(&b, MEMBERS, &payload, &given);
    if (rc == 0)
        rc = body_end(&b);
    if (rc == 0 && given == 0)
        rc = body_missing(&b, "payload", "JSON");
    body_release(&b);
    if (rc < 0)
        kit_fail(call, &err, b.field);
    else
        kit_change(call, MOVE_EDIT, payload, edited);
}

static void retried(struct rest_call *call, struct op *op)
{
    kit_changed(call, op, "retry", "dead letter");
}

static void retry_letter(struct rest_call *call)
{
    kit_change(call, MOVE_REDRIVE, (struct str){0}, retried);
}

/* ---- Remove ---------------------------------------------------------------------------------- */

static void removed(struct rest_call *call, struct op *op)
{
    const struct bulk_op *b = (const struct bulk_op *)(const void *)op;
    const struct move_result none = {.code = REDRIVE_E_NOT_FOUND};
    if (rest_refused(call, op))
        return;
    if (b->changed == 0)
        kit_refused(call, "remove", "dead letter", call->params[0], &none);
    else
        rest_send_empty(call, 204);
}

/* A bulk of one: it takes dead letters only, where the plain verb takes any job that has ended. */
static void delete_letter(struct rest_call *call)
{
    const struct job_filter filter = {
        .tenant = call->principal.tenant, .id = call->params[0], .states = DEAD};
    struct bulk_op *op = kit_alloc(call, sizeof *op);
    struct bulk bulk;
    if (!op)
        return;
    bulk_init(&bulk, MOVE_REMOVE, &filter, rest_now_ms(call));
    bulk_op_init(op, &bulk, 1);
    rest_commit(call, &op->op, removed);
}

#define LETTERS "/retry/dead-letters"

const struct rest_route REST_DEAD[] = {
    {HTTP_GET, LETTERS, CONFIG_SCOPE_READ, true, get_letters},
    {HTTP_GET, LETTERS "/groups", CONFIG_SCOPE_READ, true, get_groups},
    {HTTP_GET, LETTERS "/stats", CONFIG_SCOPE_READ, true, get_stats},
    {HTTP_GET, LETTERS "/{id}", CONFIG_SCOPE_READ, true, get_letter},
    {HTTP_PATCH, LETTERS "/{id}", CONFIG_SCOPE_ADMIN, false, patch_letter},
    {HTTP_DELETE, LETTERS "/{id}", CONFIG_SCOPE_ADMIN, false, delete_letter},
    {HTTP_POST, LETTERS "/{id}/retry", CONFIG_SCOPE_ADMIN, false, retry_letter},
    /* The same for every id, also one that is a word of the paths above. */
    {HTTP_GET, LETTERS "/by-id/{id}", CONFIG_SCOPE_READ, true, get_letter},
    {HTTP_PATCH, LETTERS "/by-id/{id}", CONFIG_SCOPE_ADMIN, false, patch_letter},
    {HTTP_DELETE, LETTERS "/by-id/{id}", CONFIG_SCOPE_ADMIN, false, delete_letter},
    {HTTP_POST, LETTERS "/by-id/{id}/retry", CONFIG_SCOPE_ADMIN, false, retry_letter},
    {0},
};
