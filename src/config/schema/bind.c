/* bind.c - binds documents to structs, reports errors, writes structs, replaces `${NAME}`. */
#include "config/schema/bind.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/str.h"
#include "config/document/dotenv.h"
#include "fields/query.h"

/* ---- Reporting ------------------------------------------------------------------------------- */

static size_t furthest_down(const struct config_report *report)
{
    size_t last = 0;
    for (size_t i = 1; i < report->n_errors; i++)
        if (report->lines[i] >= report->lines[last])
            last = i;
    return last;
}

/* When the report is full, the errors nearest to the top of the file are kept. */
static struct redrive_err *next_error(struct binder *b, uint32_t line)
{
    struct config_report *report = b->report;
    b->n_errors++;
    if (!report)
        return NULL;
    size_t slot = report->n_errors;
    if (slot < CONFIG_MAX_ERRORS) {
        report->n_errors++;
    } else {
        report->n_omitted++;
        slot = furthest_down(report);
        if (report->lines[slot] <= line)
            return NULL;
    }
    report->lines[slot] = line;
    return &report->errors[slot];
}

#define FORMAT_INTO(text, format)                    \
    do {                                             \
        va_list args;                                \
        va_start(args, format);                      \
        vsnprintf(text, sizeof(text), format, args); \
        va_end(args);                                \
    } while (0)

#define TEXT_MAX sizeof(((struct redrive_err *)0)->message)

/* A setting is named by where it comes from; its place in the tree would only say it twice. */
static const char *path_of(const struct node *at, char out[NODE_PATH_MAX])
{
    bool is_setting = at->type == NODE_SCALAR && at->style == NODE_SETTING;
    return is_setting ? "" : node_path(at, out);
}

static void set_message(struct redrive_err *err, int code, const struct node *at, const char *text)
{
    char where[NODE_WHERE_MAX], path[NODE_PATH_MAX];
    const char *place = path_of(at, path);
    err_set(err, code, "%s%s%s%s", node_where(at, at->line, where), place, *place ? ": " : "",
            text);
}

const char *bind_place(struct binder *b, const struct node *at)
{
    char where[NODE_WHERE_MAX], path[NODE_PATH_MAX];
    const char *place = path_of(at, path);
    return arena_printf(b->arena, "%s%s%s", node_where(at, at->line, where), place,
                        *place ? ": " : "");
}

/* `key` is a member of `at` that is not there, or NULL. */
static void note_path(struct binder *b, const struct node *at, const char *key)
{
    if (!b->first_path || b->n_errors > 0)
        return;
    const size_t len = strlen(node_path(at, b->first_path));
    if (key)
        (void)snprintf(b->first_path + len, NODE_PATH_MAX - len, "%s%s", len ? "." : "", key);
}

/* An error at a value; `key` is a member of it that is not there, or NULL. */
static struct redrive_err *add_error(struct binder *b, const struct node *at, const char *key,
                                     const char *text)
{
    note_path(b, at, key);
    struct redrive_err *err = next_error(b, at->line);
    if (err)
        set_message(err, b->code, at, text);
    return err;
}

struct redrive_err *bind_error(struct binder *b, const struct node *at, const char *format, ...)
{
    char text[TEXT_MAX];
    FORMAT_INTO(text, format);
    return add_error(b, at, NULL, text);
}

struct redrive_err *bind_lack(struct binder *b, const struct node *map, const char *key,
                              const char *format, ...)
{
    char text[TEXT_MAX];
    FORMAT_INTO(text, format);
    return add_error(b, map, key, text);
}

struct redrive_err *bind_key_error(struct binder *b, const struct node *at, const char *format, ...)
{
    char text[TEXT_MAX], where[NODE_WHERE_MAX];
    FORMAT_INTO(text, format);
    note_path(b, at, NULL);
    struct redrive_err *err = next_error(b, at->key_line);
    (void)err_set(err, b->code, "%s%s", node_where(at, at->key_line, where), text);
    return err;
}

void bind_error_from(struct binder *b, const struct node *at, const struct redrive_err *why)
{
    if (why->code == REDRIVE_E_NOMEM) {
        b->arena->failed = true;
        return;
    }
    struct redrive_err *err = bind_error(b, at, "%s", why->message);
    err_detail(err, "%s", why->detail);
    err_hint(err, "%s", why->hint);
}

struct redrive_err *bind_warning(struct binder *b, const struct node *at, const char *format, ...)
{
    struct config *config = b->config;
    if (!b->report || !config || config->n_warnings == CONFIG_MAX_WARNINGS)
        return NULL;
    if (!config->warnings)
        config->warnings = arena_array(b->arena, CONFIG_MAX_WARNINGS, sizeof config->warnings[0]);
    if (!config->warnings)
        return NULL;

    char text[TEXT_MAX];
    struct redrive_err *warning = &config->warnings[config->n_warnings++];
    FORMAT_INTO(text, format);
    set_message(warning, REDRIVE_E_CONFIG, at, text);
    return warning;
}

/* ---- What is usually wrong with a value ------------------------------------------------------ */

const char *field_expects(const struct field *field, char out[EXPECTS_MAX])
{
    static const struct field_reader TEXT = {.text = STR("")};
    struct buf text;
    buf_init_fixed(&text, out, EXPECTS_MAX);
    field_describe(&TEXT, field, &text);
    return buf_cstr(&text);
}

void bind_detail(struct redrive_err *err, const struct field *field)
{
    char expects[EXPECTS_MAX];
    err_detail(err, "expected %s", field_expects(field, expects));
}

/* A number or a truth value that is text only because of its quotes. */
static bool is_plain_in_quotes(const struct node *node)
{
    double number;
    if (node->type != NODE_SCALAR || node->style != NODE_QUOTED)
        return false;
    const struct node plain = {.type = NODE_SCALAR, .style = NODE_PLAIN, .text = node->text};
    return node_truth(&plain) >= 0 || node_parse_number(node->text, &number);
}

struct redrive_err *bind_expected(struct binder *b, const struct field *field,
                                  const struct node *node)
{
    char shown[NODE_SHOW_MAX];
    struct redrive_err *err;

    if (node->type != NODE_SCALAR || node_is_null(node))
        err = bind_error(b, node, "found %s", node_kind(node));
    else if (field->secret)
        err = bind_error(b, node, "cannot be understood");
    else
        err = bind_error(b, node, "%s%s is not understood", node_show(node->text, shown),
                         is_plain_in_quotes(node) ? ", in quotes," : "");
    bind_detail(err, field);
    if (is_plain_in_quotes(node) && !field->secret)
        err_hint(err, "write %.*s, without quotes", (int)node->text.len, node->text.ptr);
    return err;
}

void bind_expected_list(struct binder *b, const struct field *field, const struct node *node)
{
    struct redrive_err *err = bind_expected(b, field, node);
    char shown[NODE_SHOW_MAX], items[2 * NODE_SHOW_MAX];
    size_t n = 0;

    if (node->type != NODE_SCALAR || node_is_null(node))
        return;
    node_show(node->text, shown);
    for (size_t i = 1; shown[i + 1]; i++) {
        if (shown[i] == ' ')
            items[n++] = ',';
        items[n++] = shown[i];
    }
    err_hint(err, "write a list: [%.*s]", (int)n, items);
}

/* Reports why a kind has refused the text of a node. The message of the kind begins with the name
 * of the field; the report has the file, the line and the path of the node in its place. */
static void refuse_text(struct binder *b, const struct node *node, const struct field_reader *r)
{
    const struct redrive_err *why = r->err;
    const size_t place = strlen(r->place);
    const bool has_place = place > 0 && strncmp(why->message, r->place, place) == 0;
    if (why->code == REDRIVE_E_NOMEM) {
        b->arena->failed = true;
        return;
    }
    struct redrive_err *err =
        bind_error(b, node, "%s", why->message + (has_place ? place + strlen(": ") : 0));
    err_detail(err, "%s", why->detail);
    err_hint(err, "%s", why->hint);
}

void bind_as(struct binder *b, const struct field *field, const struct field_kind *kind,
             const struct node *node, void *member)
{
    struct redrive_err why = {0};
    struct field_reader r;
    if (kind->is_plain && is_plain_in_quotes(node)) {
        bind_expected(b, field, node);
        return;
    }
    if (kind == &FIELD_TEXT && b->is_json && node->style == NODE_PLAIN) {
        err_hint(bind_expected(b, field, node), "put it in quotes");
        return;
    }
    fields_query_open(&r, 0, b->arena, 0, &why);
    r.is_parameter = false;
    r.text = node->text;
    int rc = node->text.len == 0 ? field_wrong(&r, field, REDRIVE_E_INVALID, "is empty")
                                 : kind->read(&r, field, member);
    if (rc < 0)
        refuse_text(b, node, &r);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

const struct field *table_find(const struct table *table, struct str name)
{
    for (size_t i = 0; i < table->n_fields; i++)
        if (str_is(name, table->fields[i].name))
            return &table->fields[i];
    return NULL;
}

#define KEYS_MAX 32 /* of a table */

/* The names of all keys, as the detail of an error: "expected one of a, b, c". */
static void expect_keys(const struct table *table, const char *what, struct redrive_err *err,
                        const char *names[KEYS_MAX])
{
    char known[320] = "";
    size_t used = 0;
    for (size_t i = 0; i < table->n_fields; i++) {
        names[i] = table->fields[i].name;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                     names[i]);
    }
    err_detail(err, "expected %s %s", what, known);
}

/* Where a key is known that was put too high: appends "defaults.retry." to the path. False: it is
 * known nowhere further down. */
static bool add_holder(const struct table *table, struct str key, char path[NODE_PATH_MAX])
{
    const size_t len = strlen(path);
    for (int deeper = 0; deeper < 2; deeper++)
        for (size_t i = 0; i < table->n_fields; i++) {
            const struct field *field = &table->fields[i];
            if (field->kind->form != FORM_NESTED)
                continue;
            (void)snprintf(path + len, NODE_PATH_MAX - len, "%s.", field->name);
            if (deeper ? add_holder(field->table, key, path)
                       : table_find(field->table, key) != NULL)
                return true;
        }
    path[len] = '\0';
    return false;
}

static void unknown_key(struct binder *b, const struct table *table, const struct node *child)
{
    const char *names[KEYS_MAX];
    char shown[NODE_SHOW_MAX], path[NODE_PATH_MAX];

    node_show(child->key, shown);
    node_path(child->parent, path);
    struct redrive_err *err =
        bind_key_error(b, child, "unknown key %s%s%s", shown, *path ? " in " : "", path);
    expect_keys(table, "one of", err, names);

    char holder[NODE_PATH_MAX] = "";
    if (add_holder(table, child->key, holder))
        err_hint(err, "did you mean '%s%.*s'?", holder, (int)child->key.len, child->key.ptr);
    else if (str_is(child->key, "<<"))
        err_hint(err, "merging is not supported: write the keys out");
    else
        err_suggest(err, suggest(child->key, names, table->n_fields));
}

static void check_alternative(struct binder *b, const struct field *field, const struct node *child,
                              const struct node *map)
{
    const struct node *other = field->instead_of ? node_find(map, str_of(field->instead_of)) : NULL;
    if (!other)
        return;
    char path[NODE_PATH_MAX];
    struct redrive_err *err =
        bind_key_error(b, child, "both '%s' and '%s' are given%s%s", field->name, field->instead_of,
                       *node_path(child->parent, path) ? " in " : "", path);
    err_detail(err, "they say the same thing in two ways");
    err_hint(err, "keep one of them");
}

void bind_field(struct binder *b, const struct field *field, const struct node *node, void *object)
{
    const bool is_scalar = field->kind->form == FORM_SCALAR;
    if (is_scalar && node_is_null(node))
        bind_detail(bind_error(b, node, "has no value"), field);
    else if (is_scalar && node->type != NODE_SCALAR && !field->kind->takes_all)
        bind_expected(b, field, node);
    else if (field->kind->bind)
        field->kind->bind(b, field, node, (char *)object + field->offset);
    else
        bind_as(b, field, field->kind, node, (char *)object + field->offset);
}

/* Keys that others build upon come first, in the order of the table; the rest as written. */
static void bind_keys(struct binder *b, const struct table *table, const struct node *map,
                      void *object)
{
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct field *field = &table->fields[i];
        const struct node *child = field->first ? node_find(map, str_of(field->name)) : NULL;
        if (child)
            bind_field(b, field, child, object);
    }
    NODE_FOREACH (map, child) {
        const struct field *field = table_find(table, child->key);
        if (!field) {
            unknown_key(b, table, child);
            continue;
        }
        check_alternative(b, field, child, map);
        if (!field->first)
            bind_field(b, field, child, object);
    }
}

static void check_required(struct binder *b, const struct table *table, const struct node *map)
{
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct field *field = &table->fields[i];
        if (!field->required || node_find(map, str_of(field->name)))
            continue;
        bind_detail(bind_lack(b, map, field->name, "key '%s' is missing", field->name), field);
    }
}

void bind_table(struct binder *b, const struct table *table, const struct node *map, void *object)
{
    if (map->type != NODE_MAP && !node_is_null(map)) {
        const char *names[KEYS_MAX];
        expect_keys(table, "a map of", bind_error(b, map, "found %s", node_kind(map)), names);
        return;
    }
    if (map->type == NODE_MAP)
        bind_keys(b, table, map, object);
    check_required(b, table, map);
    if (table->finish)
        table->finish(b, map, object);
}

/* ---- Writing --------------------------------------------------------------------------------- */

void table_write(const struct table *table, const void *object, struct json_writer *w)
{
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct field *field = &table->fields[i];
        if (field->kind->write)
            field->kind->write(field, (const char *)object + field->offset, w);
    }
}

/* ---- References ------------------------------------------------------------------------------ */

#define NAME_MAX_BYTES 128

bool reference_in(struct str text)
{
    for (size_t i = 0; i + 1 < text.len; i++)
        if (text.ptr[i] == '$' && text.ptr[i + 1] == '{')
            return true;
    return false;
}

/* The last of its name counts. A line that cannot be read has been reported already. */
static bool find_in_dotenv(struct str text, const char *name, struct buf *out)
{
    struct dotenv_entry entry;
    bool is_found = false;
    int rc;
    RELEASED_BY(dotenv_release) struct dotenv reader;
    dotenv_init(&reader, text);
    while ((rc = dotenv_next(&reader, &entry, NULL)) != 0) {
        if (rc < 0 || !str_is(entry.name, name) || entry.value.len == 0)
            continue;
        buf_reset(out);
        is_found = buf_add(out, entry.value.ptr, entry.value.len) == 0;
    }
    return is_found;
}

static void note_missing(struct binder *b, const struct node *node, const char *name,
                         const char **ret_missing)
{
    const char *place = bind_place(b, node);
    if (place && !*ret_missing)
        *ret_missing = arena_printf(b->arena, "%sthe variable %s is not set", place, name);
}

static bool add_value(struct binder *b, const char *name, struct buf *out)
{
    const struct references *from = b->references;
    const char *value = from ? env_get(from->environ, name) : NULL;
    RELEASED_BY(buf_release) struct buf found = BUF_MAX(NODE_TEXT_MAX);
    const bool is_in_file =
        !value && from && from->dotenv.ptr && find_in_dotenv(from->dotenv, name, &found);
    if (value)
        buf_puts(out, value);
    else if (is_in_file)
        buf_add(out, found.data, found.len);
    if (is_in_file && from->is_dotenv_used)
        *from->is_dotenv_used = true;
    return value || is_in_file;
}

/* The name between `${` and `}` at `at`; 0 when there is none. */
static size_t read_name(struct str text, size_t at, char name[NAME_MAX_BYTES])
{
    size_t n = 0;
    for (at += 2; at < text.len && text.ptr[at] != '}' && n + 1 < NAME_MAX_BYTES; at++)
        name[n++] = text.ptr[at];
    name[n] = '\0';
    const bool is_name = n > 0 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                                               "yz0123456789_") == n;
    return is_name && at < text.len && text.ptr[at] == '}' ? n : 0;
}

static int expand_into(struct binder *b, const struct node *node, struct buf *out,
                       const char **ret_missing)
{
    const struct str text = node->text;
    for (size_t i = 0; i < text.len; i++) {
        char name[NAME_MAX_BYTES];
        if (text.ptr[i] != '$' || i + 1 == text.len || text.ptr[i + 1] != '{') {
            buf_putc(out, text.ptr[i]);
            continue;
        }
        const size_t n = read_name(text, i, name);
        if (n == 0) {
            err_detail(bind_error(b, node, "'${' does not begin a reference"),
                       "expected ${NAME}, a variable of the environment");
            return -1;
        }
        if (!add_value(b, name, out)) {
            note_missing(b, node, name, ret_missing);
            return -1;
        }
        i += n + 2;
    }
    return 0;
}

const char *reference_expand(struct binder *b, const struct node *node, const char **ret_missing)
{
    const char *expanded = NULL;
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(NODE_TEXT_MAX);
    if (expand_into(b, node, &out, ret_missing) == 0) {
        if (buf_failed(&out) == REDRIVE_E_NOMEM)
            b->arena->failed = true;
        else if (buf_failed(&out))
            bind_error(b, node, "is over %d bytes", NODE_TEXT_MAX);
        else
            expanded = arena_dup(b->arena, buf_str(&out));
    }
    return expanded;
}
