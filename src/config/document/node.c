/* node.c - makes, searches and shows nodes, reads them from JSON and writes them as JSON. */
#include "config/document/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/json/json.h"
#include "fields/field.h"

struct node *node_new(struct arena *arena, enum node_type type, const struct node *where)
{
    struct node *node = arena_alloc(arena, sizeof *node);
    if (!node)
        return NULL;
    node->type = type;
    node->source = where ? where->source : "";
    node->line = node->key_line = where ? where->line : 0;
    return node;
}

void node_append(struct node *parent, struct node *child, struct str key)
{
    child->parent = parent;
    child->key = key;
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    child->place = ++parent->n_children;
}

void node_remove(struct node *map, struct str key)
{
    struct node *before = NULL;
    for (struct node *child = map->first; child; before = child, child = child->next) {
        if (!str_eq(child->key, key))
            continue;
        if (before)
            before->next = child->next;
        else
            map->first = child->next;
        if (map->last == child)
            map->last = before;
        map->n_children--;
        return;
    }
}

static int compare_keys(const void *a, const void *b)
{
    const struct node *left = *(struct node *const *)a;
    const struct node *right = *(struct node *const *)b;
    size_t shorter = left->key.len < right->key.len ? left->key.len : right->key.len;
    int order = memcmp(left->key.ptr, right->key.ptr, shorter);
    if (order == 0 && left->key.len != right->key.len)
        order = left->key.len < right->key.len ? -1 : 1;
    if (order == 0 && left->key_line != right->key_line)
        order = left->key_line < right->key_line ? -1 : 1;
    return order;
}

/* Sorting keeps a hostile map of 50 000 keys from taking a billion comparisons. */
int node_check_keys(struct node *map, struct redrive_err *err)
{
    if (map->n_children < 2)
        return 0;
    struct node **sorted = calloc(map->n_children, sizeof(struct node *));
    if (!sorted)
        return err_nomem(err);
    size_t n = 0;
    for (struct node *child = map->first; child; child = child->next)
        sorted[n++] = child;
    qsort(sorted, n, sizeof(struct node *), compare_keys);

    int rc = 0;
    for (size_t i = 1; i < n && rc == 0; i++) {
        if (!str_eq(sorted[i - 1]->key, sorted[i]->key))
            continue;
        char where[NODE_WHERE_MAX], shown[NODE_SHOW_MAX];
        rc = err_set(err, REDRIVE_E_PARSE, "%skey %s is given twice",
                     node_where(sorted[i], sorted[i]->key_line, where),
                     node_show(sorted[i]->key, shown));
        err_detail(err, "first on line %u", (unsigned)sorted[i - 1]->key_line);
    }
    free(sorted);
    return rc;
}

struct node *node_find(const struct node *map, struct str key)
{
    if (!map || map->type != NODE_MAP)
        return NULL;
    for (struct node *child = map->first; child; child = child->next)
        if (str_eq(child->key, key))
            return child;
    return NULL;
}

bool node_is_null(const struct node *node)
{
    if (node->type != NODE_SCALAR || node->style != NODE_PLAIN)
        return false;
    return node->text.len == 0 || str_is(node->text, "~") || str_is(node->text, "null") ||
           str_is(node->text, "Null") || str_is(node->text, "NULL");
}

int node_truth(const struct node *node)
{
    if (node->type != NODE_SCALAR || node->style == NODE_QUOTED)
        return -1;
    return field_truth(node->text);
}

bool node_parse_number(struct str text, double *ret)
{
    RELEASED_BY(json_reader_release) struct json_reader reader;
    json_reader_init(&reader, text, NULL);
    return json_read_double(&reader, ret) == 0 && json_end(&reader) == 0;
}

const char *node_kind(const struct node *node)
{
    if (node->type == NODE_MAP)
        return "a map";
    if (node->type == NODE_LIST)
        return node->n_children ? "a list" : "an empty list";
    if (node_is_null(node))
        return "nothing";
    return node->style == NODE_QUOTED ? "text in quotes" : "a plain value";
}

/* Written from the end to the front, so that what is cut off is the far end. */
const char *node_path(const struct node *node, char out[NODE_PATH_MAX])
{
    char step[80];
    size_t at = NODE_PATH_MAX - 1;

    out[at] = '\0';
    for (; node->parent; node = node->parent) {
        if (node->parent->type == NODE_LIST) {
            snprintf(step, sizeof step, "[%zu]", node->place - 1);
        } else {
            char shown[NODE_SHOW_MAX];
            node_show(node->key, shown);
            /* Without the quotes, which a path can do without. */
            shown[strlen(shown) - 1] = '\0';
            snprintf(step, sizeof step, "%s%s", node->parent->parent ? "." : "", shown + 1);
        }
        size_t len = strlen(step);
        if (len > at)
            break;
        at -= len;
        memcpy(out + at, step, len);
    }
    memmove(out, out + at, NODE_PATH_MAX - at);
    return out;
}

const char *node_where(const struct node *node, uint32_t line, char out[NODE_WHERE_MAX])
{
    enum {
        SOURCE_MAX = NODE_WHERE_MAX - 20
    };
    const char *source = node->source;
    size_t len = strlen(source);

    if (len == 0) {
        out[0] = '\0';
        return out;
    }
    const char *dots = "";
    if (len > SOURCE_MAX) {
        source += len - SOURCE_MAX;
        dots = "...";
    }
    if (line)
        snprintf(out, NODE_WHERE_MAX, "%s%s:%u: ", dots, source, (unsigned)line);
    else
        snprintf(out, NODE_WHERE_MAX, "%s%s: ", dots, source);
    return out;
}

const char *node_show(struct str text, char out[NODE_SHOW_MAX])
{
    enum {
        TEXT_MAX = NODE_SHOW_MAX - 6
    };
    out[0] = '\'';
    bool whole = str_copy(out + 1, TEXT_MAX, text);
    char *end = out + 1;
    for (; *end; end++) {
        unsigned char byte = (unsigned char)*end, next = (unsigned char)end[1];
        /* The second test is for U+0080 to U+009F, of which U+009B opens escape sequences. */
        if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0)) {
            *end = '?';
            if (byte == 0xc2)
                *++end = '?';
        }
    }
    snprintf(end, (size_t)(out + NODE_SHOW_MAX - end), "%s", whole ? "'" : "...'");
    return out;
}

/* ---- Reading JSON ---------------------------------------------------------------------------- */

struct builder {
    struct arena *arena;
    struct json_reader reader;
    size_t count;
};

static int read_value(struct builder *b, struct node **ret);

static int decode(struct builder *b, struct json_string s, struct str *ret)
{
    RELEASED_BY(buf_release) struct buf decoded = BUF_MAX(NODE_MAX_BYTES);
    int rc = json_unescape(s, &decoded);
    if (rc < 0) {
        rc = json_fail(&b->reader, rc, "%s", redrive_err_text(rc));
    } else if (memchr(buf_cstr(&decoded), 0, decoded.len)) {
        rc = json_fail(&b->reader, REDRIVE_E_PARSE, "text holds a NUL character");
    } else {
        *ret = arena_str(b->arena, buf_str(&decoded));
        if (!ret->ptr)
            rc = REDRIVE_E_NOMEM;
    }
    return rc;
}

static int read_scalar(struct builder *b, int type, struct node *node)
{
    struct json_string text;
    struct str raw;

    if (type == JSON_TYPE_STRING) {
        node->style = NODE_QUOTED;
        int rc = json_read_string(&b->reader, &text);
        return rc < 0 ? rc : decode(b, text, &node->text);
    }
    node->style = NODE_PLAIN;
    int rc = json_skip(&b->reader, &raw);
    if (rc < 0)
        return rc;
    node->text = arena_str(b->arena, raw);
    return node->text.ptr ? 0 : REDRIVE_E_NOMEM;
}

static int read_object(struct builder *b, struct node *map)
{
    struct json_string name;
    struct str key = {0};
    struct node *child = NULL;

    map->type = NODE_MAP;
    int rc = json_enter_object(&b->reader);
    while (rc >= 0 && (rc = json_next_key(&b->reader, &name)) > 0) {
        rc = decode(b, name, &key);
        if (rc == 0)
            rc = read_value(b, &child);
        if (rc == 0 && child)
            node_append(map, child, key);
    }
    return rc;
}

static int read_array(struct builder *b, struct node *list)
{
    struct node *child = NULL;

    list->type = NODE_LIST;
    int rc = json_enter_array(&b->reader);
    while (rc >= 0 && (rc = json_next_item(&b->reader)) > 0) {
        rc = read_value(b, &child);
        if (rc == 0 && child)
            node_append(list, child, (struct str){0});
    }
    return rc;
}

/* Recursion is bounded by the reader's depth limit. */
static int read_value(struct builder *b, struct node **ret)
{
    if (++b->count > NODE_MAX_COUNT)
        return json_fail(&b->reader, REDRIVE_E_TOO_BIG, "more than %d values", NODE_MAX_COUNT);
    int type = json_peek(&b->reader);
    if (type < 0)
        return type;
    struct node *node = node_new(b->arena, NODE_SCALAR, NULL);
    if (!node)
        return REDRIVE_E_NOMEM;
    *ret = node;
    if (type == JSON_TYPE_OBJECT)
        return read_object(b, node);
    if (type == JSON_TYPE_ARRAY)
        return read_array(b, node);
    return read_scalar(b, type, node);
}

int node_from_json(struct arena *arena, struct str text, struct node **ret, struct redrive_err *err)
{
    static const struct json_limits limits = {NODE_MAX_BYTES, NODE_MAX_DEPTH};
    struct builder b = {.arena = arena};
    struct node *root = NULL;

    json_reader_init(&b.reader, text, &limits);
    int rc = read_value(&b, &root);
    if (rc == 0)
        rc = json_end(&b.reader);
    if (rc < 0 && json_error(&b.reader, err) == 0)
        err_set(err, rc, "%s", redrive_err_text(rc));
    json_reader_release(&b.reader);
    if (rc == 0)
        *ret = root;
    return rc;
}

/* ---- Writing JSON ---------------------------------------------------------------------------- */

static bool is_json_number(struct str text)
{
    if (text.len == 0 || !(text.ptr[0] == '-' || (text.ptr[0] >= '0' && text.ptr[0] <= '9')))
        return false;
    return json_check(text, NULL, NULL) == 0;
}

static bool is_one_of(struct str text, const char *const *words)
{
    for (; *words; words++)
        if (str_eq_nocase(text, str_of(*words)))
            return true;
    return false;
}

static size_t span(struct str text, size_t from, const char *set)
{
    size_t at = from;
    while (at < text.len && strchr(set, text.ptr[at]))
        at++;
    return at;
}

/* What some reader of YAML takes for a number or a truth value, and another for text. Dates,
 * times and version numbers are text to every reader that knows JSON. */
static bool is_ambiguous(struct str text)
{
    static const char *const WORDS[] = {"yes",   "no",    "on",   "off", ".inf",
                                        "-.inf", "+.inf", ".nan", NULL};
    static const char DIGITS[] = "0123456789_";

    if (is_one_of(text, WORDS))
        return true;
    size_t at = span(text, 0, "+-");
    if (at > 1 || at == text.len)
        return false;
    if (text.len - at > 2 && text.ptr[at] == '0' && strchr("xXoObB", text.ptr[at + 1]))
        return span(text, at + 2, "0123456789abcdefABCDEF_") == text.len;
    size_t whole = span(text, at, DIGITS);
    size_t end = whole;
    if (end < text.len && text.ptr[end] == '.')
        end = span(text, end + 1, DIGITS);
    if (end == at || end == at + (size_t)(text.ptr[at] == '.'))
        return false;
    if (end < text.len && (text.ptr[end] == 'e' || text.ptr[end] == 'E'))
        end = span(text, span(text, end + 1, "+-"), DIGITS);
    return end == text.len;
}

static const struct node *write_plain(const struct node *node, struct json_writer *w)
{
    int truth = node_truth(node);
    bool ambiguous = false;

    if (node_is_null(node)) {
        json_put_null(w);
    } else if (truth >= 0) {
        json_put_bool(w, truth);
    } else if (is_json_number(node->text)) {
        json_put_raw(w, node->text);
    } else if (is_ambiguous(node->text)) {
        ambiguous = true;
        json_put_null(w);
    } else {
        json_put_string(w, node->text);
    }
    return ambiguous ? node : NULL;
}

/* Recursion is bounded by NODE_MAX_DEPTH. */
const struct node *node_write_json(const struct node *node, struct json_writer *w)
{
    const struct node *bad = NULL;

    if (node->type == NODE_SCALAR) {
        if (node->style == NODE_PLAIN)
            return write_plain(node, w);
        json_put_string(w, node->text);
        return NULL;
    }
    bool is_map = node->type == NODE_MAP;
    if (is_map)
        json_begin_object(w);
    else
        json_begin_array(w);
    NODE_FOREACH (node, child) {
        if (is_map)
            json_key_str(w, child->key);
        const struct node *refused = node_write_json(child, w);
        bad = bad ? bad : refused;
    }
    if (is_map)
        json_end_object(w);
    else
        json_end_array(w);
    return bad;
}
