/* answer.c - calls an operation, reads the members of its answer, and prints lists. */
#include "cli/shared/answer.h"

#include "base/err.h"
#include "base/text/encode.h"
#include "cli/remote/remote.h"
#include "core/time/civil.h"
#include "store/page.h"

/* Lists are as long as a store makes them. */
static const struct json_limits LIMITS = {.max_bytes = UINT32_MAX};

/* ---- Calling --------------------------------------------------------------------------------- */

static int read_here(const struct session *session, const struct operation *operation,
                     struct str tenant, struct buf *text, struct redrive_err *err)
{
    struct json_writer w;
    const struct api_context context = {
        .store = session->store,
        .config = session->config,
        .tenant = tenant,
        .now_ms = session_now_ms(session),
    };
    buf_init(text, HTTP_CLIENT_BODY_MAX);
    json_writer_init(&w, text);
    int rc = operation->read(&context, &w, err);
    return rc == 0 && buf_failed(text) ? err_full(err, buf_failed(text), "the list is too long")
                                       : rc;
}

static int read_there(struct remote *remote, const struct operation *operation, struct buf *text,
                      struct redrive_err *err)
{
    struct http_answer answer;
    http_answer_init(&answer);
    int rc = remote_get(remote, operation->path, &answer, err);
    *text = answer.body;
    return rc;
}

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
        const bool is_list = json_string_is(key, "items");
        has_items |= is_list;
        if (json_string_is(key, "next") && json_peek(r) != JSON_TYPE_NULL)
            rc = json_fail(r, REDRIVE_E_PARSE, "expected a list that is whole");
        else
            rc = is_list ? read_items(r, answer) : json_skip(r, NULL);
    }
    return rc == 0 && !has_items ? json_fail(r, REDRIVE_E_PARSE, "expected a list of items") : rc;
}

int answer_read(const struct session *session, const struct operation *operation, struct str tenant,
                struct answer *ret, struct redrive_err *err)
{
    struct json_reader r;
    int rc = session->remote ? read_there(session->remote, operation, &ret->text, err)
                             : read_here(session, operation, tenant, &ret->text, err);
    if (rc < 0)
        return rc;
    json_reader_init(&r, buf_str(&ret->text), &LIMITS);
    rc = read_list(&r, ret);
    if (rc == 0)
        rc = json_end(&r);
    if (rc < 0) {
        rc = unpack_error(&r, err);
        rc = rc < 0 ? rc : err_nomem(err);
    }
    json_reader_release(&r);
    return rc;
}

static int change_here(struct session *session, const struct operation *operation,
                       struct str tenant, struct str name, struct buf *text,
                       struct redrive_err *err)
{
    struct api_change change = {0};
    struct json_writer w;
    const char *field;
    const struct api_context context = {
        .config = session->config, .tenant = tenant, .now_ms = session_now_ms(session)};
    int rc = API_GOES_ON;
    buf_init(text, HTTP_CLIENT_BODY_MAX);
    json_writer_init(&w, text);
    api_begin(operation, &context, name, &change);
    while (rc == API_GOES_ON) {
        rc = session_apply(session, &change.op, err);
        if (rc == 0)
            rc = operation->end(&change, &w, &field, err);
    }
    return rc == 0 && buf_failed(text) ? err_nomem(err) : rc;
}

/* "/queues/{queue}/pause" with the name in place, or behind the path as a parameter. */
static void write_path(const struct operation *operation, struct str name, struct buf *out)
{
    const char *open = strchr(operation->path, '{');
    if (!open) {
        buf_printf(out, "%s?%s=", operation->path, operation->parameter);
        percent_encode(name, out);
        return;
    }
    buf_add(out, operation->path, (size_t)(open - operation->path));
    percent_encode(name, out);
    buf_puts(out, strchr(open, '}') + 1);
}

static int change_there(struct remote *remote, const struct operation *operation, struct str name,
                        struct buf *text, struct redrive_err *err)
{
    struct http_answer answer;
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    write_path(operation, name, &path);
    http_answer_init(&answer);
    int rc = remote_call(remote, "POST", &path, (struct str){0}, &answer, err);
    *text = answer.body;
    return rc;
}

int answer_change(struct session *session, const struct operation *operation, struct str tenant,
                  struct str name, struct answer *ret, struct redrive_err *err)
{
    return session->remote ? change_there(session->remote, operation, name, &ret->text, err)
                           : change_here(session, operation, tenant, name, &ret->text, err);
}

void answer_release(struct answer *answer)
{
    buf_release(&answer->text);
    arena_release(&answer->arena);
}

/* ---- Members --------------------------------------------------------------------------------- */

static struct object object_of(struct str json, struct arena *arena)
{
    struct json_member *members = NULL;
    size_t n = 0;
    (void)json_read_members(json, arena, &members, &n, NULL);
    return (struct object){n > 0 ? members : NULL, n, arena};
}

struct object answer_item(const struct answer *answer, size_t i, struct arena *arena)
{
    return object_of(answer->items[i], arena);
}

/* The value of a member; absent: it is not there. */
static struct str value_of(const struct object *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (str_is(o->members[i].name, name))
            return o->members[i].value;
    return (struct str){0};
}

/* Starts on it; false: it is not there. */
static bool find(const struct object *o, const char *name, struct json_reader *r)
{
    const struct str value = value_of(o, name);
    if (value.ptr)
        json_reader_init(r, value, NULL);
    return value.ptr != NULL;
}

struct str object_text(const struct object *o, const char *name)
{
    struct json_reader r;
    struct str text = {0};
    return find(o, name, &r) && json_read_text(&r, o->arena, &text) == 0 ? text : (struct str){0};
}

int64_t object_int(const struct object *o, const char *name)
{
    struct json_reader r;
    int64_t number = 0;
    return find(o, name, &r) && json_read_int(&r, &number) == 0 ? number : 0;
}

double object_double(const struct object *o, const char *name, double otherwise)
{
    struct json_reader r;
    double number = 0;
    return find(o, name, &r) && json_read_double(&r, &number) == 0 ? number : otherwise;
}

bool object_bool(const struct object *o, const char *name)
{
    struct json_reader r;
    bool truth = false;
    return find(o, name, &r) && json_read_bool(&r, &truth) == 0 && truth;
}

int64_t object_time(const struct object *o, const char *name)
{
    int64_t at_ms = 0;
    return moment_parse(object_text(o, name), &at_ms) ? at_ms : 0;
}

struct object object_object(const struct object *o, const char *name)
{
    const struct str value = value_of(o, name);
    return value.ptr ? object_of(value, o->arena) : (struct object){.arena = o->arena};
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

static void write_answer(struct json_writer *w, const void *answer)
{
    json_put_raw(w, buf_str(&((const struct answer *)answer)->text));
}

int answer_print(struct cli *cli, const struct answer *answer, struct redrive_err *err)
{
    return cli->globals->json ? cli_show(cli, answer, write_answer, NULL, err) : 0;
}
