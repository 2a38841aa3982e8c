/* node.c - makes, searches and shows nodes. */
#include "config/document/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

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
    if (str_is(node->text, "true") || str_is(node->text, "True") || str_is(node->text, "TRUE"))
        return 1;
    if (str_is(node->text, "false") || str_is(node->text, "False") || str_is(node->text, "FALSE"))
        return 0;
    return -1;
}

bool node_is_number(const struct node *node)
{
    return node->type == NODE_SCALAR && node->style != NODE_QUOTED;
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
