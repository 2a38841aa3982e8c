/* answer.c - calls an operation, and prints lists. */
#include "cli/shared/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text/encode.h"
#include "cli/shared/remote.h"
#include "store/page.h"

/* ---- Calling --------------------------------------------------------------------------------- */

static struct api_context context_of(const struct session *session, const struct ask *ask,
                                     struct arena *arena)
{
    return (struct api_context){
        .store = session->store,
        .config = session->config,
        .tenant = ask->tenant,
        .name = ask->name,
        .input = ask->input,
        .engine = ask->operation->read ? NULL : session_engine(session),
        .arena = arena,
        .now_ms = session_now_ms(session),
        .tells_places = true,
    };
}

static int read_here(const struct session *session, const struct ask *ask, struct answer *ret,
                     struct redrive_err *err)
{
    struct json_writer w;
    const struct api_context context = context_of(session, ask, &ret->arena);
    buf_init(&ret->text, HTTP_CLIENT_BODY_MAX);
    json_writer_init(&w, &ret->text);
    int rc = ask->operation->read(&context, &w, err);
    if (rc == 0 && buf_failed(&ret->text))
        rc = err_full(err, buf_failed(&ret->text), "the answer is too long");
    return rc;
}

/* "/queues/{queue}/pause" with the name in place, or behind the path as a parameter. */
static void write_path(const struct operation *operation, struct str name, struct buf *out)
{
    const char *open = strchr(operation->path, '{');
    if (!open) {
        buf_puts(out, operation->path);
        if (operation->parameter)
            remote_query(out, operation->parameter, name);
        return;
    }
    buf_add(out, operation->path, (size_t)(open - operation->path));
    percent_encode(name, out);
    buf_puts(out, strchr(open, '}') + 1);
}

static bool add_parameter(struct str name, struct str value, void *path)
{
    remote_query(path, name.ptr, value);
    return true;
}

static int call_there(struct remote *remote, const struct ask *ask, struct answer *ret,
                      struct redrive_err *err)
{
    static const char *const METHODS[] = {[API_GET] = "GET",
                                          [API_POST] = "POST",
                                          [API_PUT] = "PUT",
                                          [API_PATCH] = "PATCH",
                                          [API_DELETE] = "DELETE"};
    const struct str body = ask->input ? ask->input->body : (struct str){0};
    struct http_answer answer;
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    write_path(ask->operation, ask->name, &path);
    if (ask->input && ask->input->each)
        ask->input->each(ask->input->from, add_parameter, &path);
    http_answer_init(&answer);
    int rc = remote_call(remote, METHODS[ask->operation->method], &path, body, &answer, err);
    ret->text = answer.body;
    ret->status = answer.status;
    return rc;
}

static int call(const struct session *session, const struct ask *ask, struct answer *ret,
                struct redrive_err *err)
{
    return session->remote ? call_there(session->remote, ask, ret, err)
                           : read_here(session, ask, ret, err);
}

/* `why` is what a reader of JSON has said; no error: memory ran out. */
static int cannot_read(const struct session *session, const struct redrive_err *why,
                       struct redrive_err *err)
{
    if (why->code == 0 || why->code == REDRIVE_E_NOMEM)
        return err_nomem(err);
    (void)err_set(err, REDRIVE_E_PARSE, "the answer%s cannot be read",
                  session->remote ? " of the server" : "");
    err_detail(err, "%s", why->message);
    return REDRIVE_E_PARSE;
}

static int read_object(const struct session *session, struct answer *answer,
                       struct redrive_err *err)
{
    struct redrive_err why = {0};
    struct json_member *members = NULL;
    answer->object.arena = &answer->arena;
    int rc = json_read_members(buf_str(&answer->text), &OBJECT_LIMITS, &answer->arena, &members,
                               &answer->object.n, &why);
    answer->object.members = members;
    return rc < 0 ? cannot_read(session, &why, err) : 0;
}

int answer_ask(const struct session *session, const struct ask *ask, struct answer *ret,
               struct redrive_err *err)
{
    int rc = call(session, ask, ret, err);
    return rc < 0 ? rc : read_object(session, ret, err);
}

/* A commit that failed goes to `api_end` as well, which says what the failure means. */
static int change_here(struct session *session, const struct ask *ask, struct answer *ret,
                       struct redrive_err *err)
{
    struct api_change change = {0};
    struct redrive_err why = {0};
    struct json_writer w;
    const char *field;
    const struct api_context context = context_of(session, ask, &ret->arena);
    buf_init(&ret->text, HTTP_CLIENT_BODY_MAX);
    json_writer_init(&w, &ret->text);
    int rc = api_begin(ask->operation, &context, &change, err);
    if (rc < 0)
        return rc;
    do {
        change.op.code = session_apply(session, &change.op, &change.op.err);
        rc = api_end(&change, &w, &field, &why);
    } while (rc == API_GOES_ON);
    ret->status = change.status;
    if (rc < 0 && err)
        *err = why;
    return rc == 0 && buf_failed(&ret->text) ? err_nomem(err) : rc;
}

static int change(struct session *session, const struct ask *ask, struct answer *ret,
                  struct redrive_err *err)
{
    return session->remote ? call_there(session->remote, ask, ret, err)
                           : change_here(session, ask, ret, err);
}

int answer_change(struct session *session, const struct ask *ask, struct answer *ret,
                  struct redrive_err *err)
{
    int rc = change(session, ask, ret, err);
    return rc < 0 || ret->status == 204 ? rc : read_object(session, ret, err);
}

static int read_many(struct json_reader *r, struct arena *arena, struct object **ret, size_t *ret_n)
{
    struct json_string key;
    int rc = json_enter_object(r);
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0)
        rc = json_string_is(key, "items") ? object_read_array(r, arena, ret, ret_n)
                                          : json_skip(r, NULL);
    return rc == 0 ? json_end(r) : rc;
}

int answer_change_many(struct session *session, const struct ask *ask, struct answer *ret,
                       struct object **ret_objects, size_t *ret_n, struct redrive_err *err)
{
    struct json_reader r;
    struct redrive_err why = {0};
    *ret_objects = NULL;
    *ret_n = 0;
    int rc = change(session, ask, ret, err);
    if (rc < 0)
        return rc;
    json_reader_init(&r, buf_str(&ret->text), &OBJECT_LIMITS);
    rc = read_many(&r, &ret->arena, ret_objects, ret_n);
    (void)json_error(&r, &why);
    json_reader_release(&r);
    return rc < 0 ? cannot_read(session, &why, err) : 0;
}

void answer_release(struct answer *answer)
{
    buf_release(&answer->text);
    arena_release(&answer->arena);
    *answer = (struct answer){0};
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static int read_items(struct json_reader *r, struct answer *answer)
{
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        struct str *items = page_grow(&answer->arena, answer->items, answer->n, sizeof *items);
        if (!items)
            return REDRIVE_E_NOMEM;
        answer->items = items;
        rc = json_peek(r) == JSON_TYPE_OBJECT ? json_skip(r, &items[answer->n++])
                                              : json_fail(r, REDRIVE_E_PARSE, "expected an object");
    }
    return rc;
}

static int read_list(struct json_reader *r, struct answer *answer)
{
    struct json_string key;
    int rc = json_enter_object(r);
    bool has_items = false;
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
        const bool is_null = json_peek(r) == JSON_TYPE_NULL;
        const bool is_list = json_string_is(key, "items");
        has_items |= is_list;
        if (is_list)
            rc = read_items(r, answer);
        else if (json_string_is(key, "next") && !is_null)
            rc = json_read_text(r, &answer->arena, &answer->next);
        else if (json_string_is(key, "unreadable") && !is_null)
            rc = json_read_int(r, &answer->n_unreadable);
        else if (json_string_is(key, "unreadable_first") && !is_null)
            rc = json_read_text(r, &answer->arena, &answer->unreadable);
        else
            rc = json_skip(r, NULL);
    }
    return rc == 0 && !has_items ? json_fail(r, REDRIVE_E_PARSE, "expected a list of items") : rc;
}

/* `is_whole`: it has no next page. */
static int ask_for_list(const struct session *session, const struct ask *ask, bool is_whole,
                        struct answer *ret, struct redrive_err *err)
{
    struct json_reader r;
    int rc = call(session, ask, ret, err);
    if (rc < 0)
        return rc;
    json_reader_init(&r, buf_str(&ret->text), &OBJECT_LIMITS);
    rc = read_list(&r, ret);
    if (rc == 0 && is_whole && ret->next.ptr)
        rc = json_fail(&r, REDRIVE_E_PARSE, "expected a list that is whole");
    if (rc == 0)
        rc = json_end(&r);
    if (rc < 0) {
        struct redrive_err why = {0};
        (void)json_error(&r, &why);
        rc = cannot_read(session, &why, err);
    }
    json_reader_release(&r);
    return rc;
}

int answer_read(const struct session *session, const struct operation *operation, struct str tenant,
                struct answer *ret, struct redrive_err *err)
{
    const struct ask ask = {.operation = operation, .tenant = tenant};
    return ask_for_list(session, &ask, true, ret, err);
}

void answer_pages_init(struct answer_pages *pages, const struct session *session,
                       const struct ask *ask, size_t limit, const char *cursor)
{
    *pages =
        (struct answer_pages){.session = session, .ask = *ask, .left = limit ? limit : SIZE_MAX};
    pages->is_over = !str_copy(pages->cursor, sizeof pages->cursor, str_of(cursor));
}

/* What the command asks for, and which page of it. */
static void each_of_page(void *from, api_take_fn take, void *ctx)
{
    const struct answer_pages *pages = from;
    char limit[24];
    (void)snprintf(limit, sizeof limit, "%zu",
                   pages->left < STORE_PAGE_MAX ? pages->left : (size_t)STORE_PAGE_MAX);
    if (pages->ask.input)
        pages->ask.input->each(pages->ask.input->from, take, ctx);
    (void)(take(STR("limit"), str_of(limit), ctx) &&
           (!pages->cursor[0] || take(STR("cursor"), str_of(pages->cursor), ctx)));
}

static void add_unreadable(struct answer_pages *pages, const struct answer *page)
{
    if (page->n_unreadable > 0 && pages->n_unreadable == 0)
        err_set(&pages->unreadable, REDRIVE_E_CORRUPT, "%.*s", (int)page->unreadable.len,
                page->unreadable.ptr);
    pages->n_unreadable += page->n_unreadable;
}

int answer_pages_next(struct answer_pages *pages, const struct answer **ret,
                      struct redrive_err *err)
{
    struct answer *page = &pages->page;
    struct api_input input = {.each = each_of_page, .from = pages};
    struct ask ask = pages->ask;
    if (pages->is_over || pages->left == 0)
        return 0;
    ask.input = &input;
    answer_release(page);
    int rc = ask_for_list(pages->session, &ask, false, page, err);
    if (rc == 0 && page->n == 0 && page->next.len > 0 && str_is(page->next, pages->cursor))
        rc = err_set(err, REDRIVE_E_PARSE, "the pages of the server do not come to an end");
    if (rc == 0 && !str_copy(pages->cursor, sizeof pages->cursor, page->next))
        rc = err_set(err, REDRIVE_E_PARSE, "the cursor of the server is too long");
    if (rc < 0)
        return rc;
    pages->is_over = !pages->cursor[0];
    pages->left -= page->n < pages->left ? page->n : pages->left;
    add_unreadable(pages, page);
    *ret = page;
    return 1;
}

void answer_pages_release(struct answer_pages *pages)
{
    answer_release(&pages->page);
}

/* ---- Items ----------------------------------------------------------------------------------- */

struct object answer_item(const struct answer *answer, size_t i, struct arena *arena)
{
    return object_of(answer->items[i], arena);
}

int answer_find(const struct answer *answer, const char *name, struct str text, struct str tenant,
                size_t *ret_i, struct redrive_err *err)
{
    for (size_t i = 0; i < answer->n; i++) {
        RELEASED_BY(arena_release) struct arena arena = {0};
        const struct object item = answer_item(answer, i, &arena);
        const bool is_own = !tenant.ptr || str_eq(object_text(&item, "tenant"), tenant);
        if (arena.failed)
            return err_nomem(err);
        *ret_i = i;
        if (is_own && str_eq(object_text(&item, name), text))
            return 1;
    }
    return 0;
}

void answer_words(const struct answer *answer, const char *name, struct words *words)
{
    for (size_t i = 0; i < answer->n; i++) {
        RELEASED_BY(arena_release) struct arena arena = {0};
        const struct object item = answer_item(answer, i, &arena);
        const struct str text = object_text(&item, name);
        if (text.ptr)
            words_add(words, "", text);
    }
}

/* ---- Printing -------------------------------------------------------------------------------- */

struct printed_list {
    const struct answer *answer;
    const struct answer_table *table;
    bool *failed; /* memory ran out */
};

static void add_json(struct json_writer *w, const void *list, size_t i)
{
    json_put_raw(w, ((const struct printed_list *)list)->answer->items[i]);
}

static void add_row(struct table *t, const void *list, size_t i)
{
    const struct printed_list *printed = list;
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct object item = answer_item(printed->answer, i, &arena);
    printed->table->row(t, &item, printed->table->ctx);
    *printed->failed |= arena.failed;
}

int answer_print_list(struct cli *cli, const struct answer *answer,
                      const struct answer_table *table, struct redrive_err *err)
{
    bool failed = false;
    const struct printed_list printed = {answer, table, &failed};
    const struct listing listing = {
        .columns = table->columns,
        .n = answer->n,
        .item = add_json,
        .row = add_row,
        .list = &printed,
    };
    int rc = cli_list(cli, &listing, err);
    return rc == 0 && failed ? err_nomem(err) : rc;
}

static int print_items(struct cli *cli, const struct answer *page, struct json_writer *w)
{
    for (size_t i = 0; i < page->n && !buf_failed(w->out); i++) {
        json_put_raw(w, page->items[i]);
        if (buf_failed(w->out))
            break;
        term_write(&cli->out, w->out);
        buf_reset(w->out);
    }
    return buf_failed(w->out);
}

static int print_pages_json(struct cli *cli, struct answer_pages *pages, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(CLI_OUTPUT_MAX);
    const struct answer *page;
    struct json_writer w;
    int rc;
    listing_begin(&w, &out);
    while ((rc = answer_pages_next(pages, &page, err)) > 0 && print_items(cli, page, &w) == 0)
        ;
    if (rc < 0)
        return rc;
    listing_end(&w, pages->cursor[0] ? pages->cursor : NULL);
    return cli_print(cli, &out, err);
}

static int print_pages_text(struct cli *cli, struct answer_pages *pages,
                            const struct answer_table *table, struct redrive_err *err)
{
    const struct answer *page;
    struct table t;
    struct buf out;
    int rc;
    buf_init(&out, CLI_OUTPUT_MAX);
    table_init(&t, table->columns);
    while ((rc = answer_pages_next(pages, &page, err)) > 0) {
        for (size_t i = 0; i < page->n; i++) {
            const struct object item = answer_item(page, i, &pages->page.arena);
            table->row(&t, &item, table->ctx);
        }
        if (page->arena.failed)
            t.failed = REDRIVE_E_NOMEM;
    }
    if (table->hides_first)
        table_hide_same(&t, 0);
    table_finish(&t, cli->out.width, cli->out.color, &out);
    if (rc == 0)
        return cli_print(cli, &out, err);
    buf_release(&out);
    return rc;
}

int answer_print_pages(struct cli *cli, struct answer_pages *pages,
                       const struct answer_table *table, struct redrive_err *err)
{
    return cli->globals->json ? print_pages_json(cli, pages, err)
                              : print_pages_text(cli, pages, table, err);
}

static void write_answer(struct json_writer *w, const void *answer)
{
    json_put_raw(w, buf_str(&((const struct answer *)answer)->text));
}

int answer_print(struct cli *cli, const struct answer *answer, struct redrive_err *err)
{
    return cli->globals->json ? cli_show(cli, answer, write_answer, NULL, err) : 0;
}

int answer_show(struct cli *cli, const struct answer *answer, cli_text_fn text,
                struct redrive_err *err)
{
    int rc = cli->globals->json ? answer_print(cli, answer, err)
                                : cli_show(cli, &answer->object, NULL, text, err);
    return rc == 0 && answer->arena.failed ? err_nomem(err) : rc;
}
