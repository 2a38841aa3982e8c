/* json.c - reads a JSON value into a tree of nodes. */
#include "config/document/node.h"

#include "base/err.h"
#include "base/json/json.h"

struct builder {
    struct arena *arena;
    struct json_reader reader;
    size_t count;
};

static int read_value(struct builder *b, struct node **ret);

static int decode(struct builder *b, struct json_string s, struct str *ret)
{
    struct buf decoded;
    buf_init(&decoded, NODE_MAX_BYTES);
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
    buf_release(&decoded);
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
        if (rc == 0)
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
        if (rc == 0)
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
