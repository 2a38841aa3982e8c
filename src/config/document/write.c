/* write.c - writes a tree as JSON. */
#include "config/document/node.h"

#include "base/json/json.h"

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
