/* yaml.c - reads a YAML document into a tree of nodes, with libyaml. */
#include "config/document/node.h"

#include <yaml.h>

#include "base/err.h"
#include "base/text/encode.h"

struct builder {
    struct arena *arena;
    struct redrive_err *err;
    struct node origin; /* lends its source and line to new nodes */
    struct node *root;
    struct node *open; /* the innermost list or map that has not ended */
    unsigned depth;
    size_t count;
    unsigned documents;
    bool has_key; /* the open map has been given a key and waits for its value */
    struct str key;
    uint32_t key_line;
};

static int fail(struct builder *b, int code, const char *what)
{
    char where[NODE_WHERE_MAX];
    return err_set(b->err, code, "%s%s", node_where(&b->origin, b->origin.line, where), what);
}

static int refuse_feature(struct builder *b, const char *what)
{
    int rc = fail(b, REDRIVE_E_PARSE, what);
    err_hint(b->err, "write the value out in each place where it is used");
    return rc;
}

/* Puts a finished scalar or a list or map that has just begun where it belongs. */
static int place(struct builder *b, struct node *node)
{
    if (!node)
        return err_nomem(b->err);
    if (!b->open) {
        b->root = node;
    } else if (b->open->type == NODE_LIST) {
        node_append(b->open, node, (struct str){0});
    } else {
        node_append(b->open, node, b->key);
        node->key_line = b->key_line;
        b->has_key = false;
    }
    return 0;
}

static bool key_is_due(const struct builder *b)
{
    return b->open && b->open->type == NODE_MAP && !b->has_key;
}

static int add_scalar(struct builder *b, const yaml_event_t *event)
{
    struct str text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    if (memchr(text.ptr, 0, text.len))
        return fail(b, REDRIVE_E_PARSE, "text holds a NUL character");
    struct str copy = arena_str(b->arena, text);
    if (!copy.ptr)
        return err_nomem(b->err);

    if (key_is_due(b)) {
        b->key = copy;
        b->key_line = b->origin.line;
        b->has_key = true;
        return 0;
    }
    struct node *node = node_new(b->arena, NODE_SCALAR, &b->origin);
    if (node) {
        node->text = copy;
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->style = plain ? NODE_PLAIN : NODE_QUOTED;
    }
    return place(b, node);
}

static int begin(struct builder *b, enum node_type type)
{
    if (key_is_due(b))
        return fail(b, REDRIVE_E_PARSE, "a key must be text, not a list or a map");
    if (b->depth >= NODE_MAX_DEPTH) {
        int rc = fail(b, REDRIVE_E_TOO_DEEP, "nested too deeply");
        err_detail(b->err, "at most %d levels", NODE_MAX_DEPTH);
        return rc;
    }
    struct node *node = node_new(b->arena, type, &b->origin);
    int rc = place(b, node);
    if (rc < 0)
        return rc;
    b->open = node;
    b->depth++;
    return 0;
}

static int end(struct builder *b)
{
    struct node *ended = b->open;
    if (!ended)
        return fail(b, REDRIVE_E_INTERNAL, "an end without a beginning");
    b->open = ended->parent;
    b->depth--;
    return ended->type == NODE_MAP ? node_check_keys(ended, b->err) : 0;
}

static int begin_document(struct builder *b)
{
    if (++b->documents == 1)
        return 0;
    int rc = fail(b, REDRIVE_E_PARSE, "a second document begins");
    err_hint(b->err, "keep one document to a file, and drop the '---' line");
    return rc;
}

static int count_node(struct builder *b)
{
    if (++b->count <= NODE_MAX_COUNT)
        return 0;
    int rc = fail(b, REDRIVE_E_TOO_BIG, "too many values");
    err_detail(b->err, "at most %d", NODE_MAX_COUNT);
    return rc;
}

static bool has_anchor(const yaml_event_t *event)
{
    return (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
           (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor);
}

static bool has_tag(const yaml_event_t *event)
{
    return (event->type == YAML_SCALAR_EVENT && event->data.scalar.tag) ||
           (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.tag) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.tag);
}

static int take(struct builder *b, const yaml_event_t *event)
{
    b->origin.line = (uint32_t)event->start_mark.line + 1;
    if (event->type == YAML_ALIAS_EVENT || has_anchor(event))
        return refuse_feature(b, "anchors and aliases are not supported");
    if (has_tag(event))
        return fail(b, REDRIVE_E_PARSE, "tags such as !!str are not supported");

    int rc = 0;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: return begin_document(b);
    case YAML_SCALAR_EVENT: rc = count_node(b); return rc < 0 ? rc : add_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT: rc = count_node(b); return rc < 0 ? rc : begin(b, NODE_LIST);
    case YAML_MAPPING_START_EVENT: rc = count_node(b); return rc < 0 ? rc : begin(b, NODE_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return end(b);
    default: return 0;
    }
}

/* libyaml says what it saw, in its own words; the place is what people look for. */
static int syntax_error(struct builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return err_nomem(b->err);
    b->origin.line = (uint32_t)parser->problem_mark.line + 1;
    int rc = fail(b, REDRIVE_E_PARSE, "not valid YAML");
    const char *problem = parser->problem ? parser->problem : "unknown problem";
    if (parser->context)
        err_detail(b->err, "%s, %s begun on line %u", problem, parser->context,
                   (unsigned)parser->context_mark.line + 1);
    else
        err_detail(b->err, "%s", problem);
    if (strstr(problem, "cannot start any token"))
        err_hint(b->err, "indent with spaces, not tabs; quote text that begins with @, ` or %%");
    else if (strstr(problem, "mapping values are not allowed"))
        err_hint(b->err, "quote text that holds ': ' or ends with ':'");
    else if (strstr(problem, "expected key") || strstr(problem, "block end"))
        err_hint(b->err, "is this line indented like its neighbours?");
    return rc;
}

static int read_events(struct builder *b, yaml_parser_t *parser)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return syntax_error(b, parser);
        more = event.type != YAML_STREAM_END_EVENT;
        int rc = take(b, &event);
        yaml_event_delete(&event);
        if (rc < 0)
            return rc;
    }
    if (!b->root || node_is_null(b->root)) {
        b->origin.line = 1;
        b->root = node_new(b->arena, NODE_MAP, &b->origin);
    }
    return b->root ? 0 : err_nomem(b->err);
}

/* Says on which line the text stops being UTF-8, or 0 when it never does. */
static uint32_t line_that_is_not_utf8(struct str text)
{
    uint32_t line = 1;
    const char *end = text.ptr + text.len;
    for (const char *p = text.ptr; p < end;) {
        int len = utf8_next(p, end);
        if (len <= 0)
            return line;
        line += *p == '\n';
        p += len;
    }
    return 0;
}

int node_from_yaml(struct arena *arena, struct str text, const char *source, struct node **ret,
                   struct redrive_err *err)
{
    struct builder b = {.arena = arena, .err = err, .origin = {.source = source}};
    yaml_parser_t parser;

    if (text.len > NODE_MAX_BYTES) {
        int rc = fail(&b, REDRIVE_E_TOO_BIG, redrive_err_text(REDRIVE_E_TOO_BIG));
        err_detail(err, "at most %u bytes", NODE_MAX_BYTES);
        return rc;
    }
    b.origin.line = line_that_is_not_utf8(text);
    if (b.origin.line)
        return fail(&b, REDRIVE_E_PARSE, "not UTF-8");
    if (!yaml_parser_initialize(&parser))
        return err_nomem(err);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
    int rc = read_events(&b, &parser);
    yaml_parser_delete(&parser);
    if (rc == 0)
        *ret = b.root;
    return rc;
}
