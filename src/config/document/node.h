/* node.h - a configuration document as a small tree: scalars, lists and maps.
 *
 * YAML and JSON both become this tree, and values from the environment and from flags are put into
 * it at the place of the key that they name, so that all later steps read one form. Each node knows
 * where it was written.
 *
 * Invariants: text and keys are UTF-8, hold no NUL and are terminated; the keys of a map differ;
 * a tree is at most NODE_MAX_DEPTH deep and has at most NODE_MAX_COUNT nodes. There are no
 * anchors, aliases or tags: a document of a few lines cannot unfold into gigabytes.
 */
#ifndef CONFIG_DOCUMENT_NODE_H
#define CONFIG_DOCUMENT_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "base/text/str.h"
#include "redrive.h"

#define NODE_MAX_BYTES (1024u * 1024)
#define NODE_MAX_DEPTH 32
#define NODE_MAX_COUNT 100000
#define NODE_TEXT_MAX  4096 /* bytes; longer text is no setting */

enum node_type {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
};

enum node_style {
    NODE_PLAIN,   /* 5, true, word: may be a number, a truth value or nothing at all */
    NODE_QUOTED,  /* "5": text, whatever it looks like */
    NODE_SETTING, /* from a variable or a flag, which know no quotes: whatever fits */
};

struct node {
    enum node_type type;
    enum node_style style; /* of a scalar */
    struct str text;       /* of a scalar */
    struct str key;        /* in a map: its key; absent elsewhere */
    const char *source;    /* file, or for a setting where it comes from; "" when unknown */
    uint32_t line;         /* from 1; 0: not in a file */
    uint32_t key_line;
    uint8_t layer;    /* the rank of its source, an enum layer: 0 for a file */
    bool is_borrowed; /* a setting of another program */
    size_t n_children;
    size_t place;        /* among its siblings when it was added, from 1 */
    struct node *parent; /* NULL for the root */
    struct node *first;
    struct node *last;
    struct node *next; /* sibling */
};

#define NODE_FOREACH(map, child) \
    for (const struct node *child = (map)->first; child; child = child->next)

/* ---- Making ---------------------------------------------------------------------------------- */

/* Reads one YAML document; no document at all gives an empty map. All nodes are in `arena`;
 * `source` is borrowed for as long as it. Fails with REDRIVE_E_PARSE and the line, _TOO_BIG,
 * _TOO_DEEP or _NOMEM. */
int node_from_yaml(struct arena *arena, struct str text, const char *source, struct node **ret,
                   struct redrive_err *err);

/* Reads one JSON value. Its nodes have no lines. */
int node_from_json(struct arena *arena, struct str text, struct node **ret,
                   struct redrive_err *err);

/* A node without parent, or NULL when there is no memory. `where` gives source and line. */
struct node *node_new(struct arena *arena, enum node_type type, const struct node *where);

/* Adds a child to a list, or to a map under `key`, which must not be there yet. */
void node_append(struct node *parent, struct node *child, struct str key);
/* Takes the child of that key out of a map, if it is there. */
void node_remove(struct node *map, struct str key);

/* 0, or REDRIVE_E_PARSE when a map has a key twice. */
int node_check_keys(struct node *map, struct redrive_err *err);

/* ---- Asking ---------------------------------------------------------------------------------- */

/* The child of a map, or NULL. A node that is no map has none. */
struct node *node_find(const struct node *map, struct str key);

/* Nothing: an empty plain scalar, `~` or `null`. */
bool node_is_null(const struct node *node);
/* 1 true, 0 false, -1 neither: what field_truth says, and not `yes` or `on`. */
int node_truth(const struct node *node);

/* Reads a number as JSON writes it; false when it is none. */
bool node_parse_number(struct str text, double *ret);

/* "a map", "a list", "nothing", or "text" … for messages about what was found. */
const char *node_kind(const struct node *node);

/* ---- Showing --------------------------------------------------------------------------------- */

#define NODE_PATH_MAX 96
/* `tasks.enrich.retry.max_delay`, `classify[0]` (the first); "" for the root. A long one loses its
 * front. */
const char *node_path(const struct node *node, char out[NODE_PATH_MAX]);

#define NODE_WHERE_MAX 96
/* `redrive.yaml:12: `, `.env:3: REDRIVE_STORE: `, or "". `line` is one of the node's. */
const char *node_where(const struct node *node, uint32_t line, char out[NODE_WHERE_MAX]);

#define NODE_SHOW_MAX 56
/* Foreign text for a message: in single quotes, harmless on a terminal, cut when it is long. */
const char *node_show(struct str text, char out[NODE_SHOW_MAX]);

/* Writes the tree as JSON, plain scalars as the numbers, truth values and nulls that they are.
 * Returns NULL, or the first scalar that readers of YAML disagree about (`yes`, `0x1F`, `007`,
 * `.inf`), for which null was written. */
const struct node *node_write_json(const struct node *node, struct json_writer *w);

#endif
