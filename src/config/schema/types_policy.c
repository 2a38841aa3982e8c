/* types_policy.c - the values of a retry policy that are more than a number: jitter, lists of
 * delays, and lists of what a failure may be. */
#include "config/schema/types.h"

#include <ctype.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/duration.h"
#include "config/schema/bind.h"

/* ---- Jitter ---------------------------------------------------------------------------------- */

/* What a mode that takes numbers does without them. */
static const struct redrive_jitter JITTER_DEFAULTS[REDRIVE_JITTER_COUNT] = {
    [REDRIVE_JITTER_ADD] = {.min = 0.1, .max = 0.3},
    [REDRIVE_JITTER_SPREAD] = {.max = 0.1},
    [REDRIVE_JITTER_STEP] = {.step_ms = 1000},
};

/* The keys of the map form; what `max` means depends on the mode. */
struct jitter_keys {
    int mode;
    const struct node *min;
    const struct node *max;
};

static void bind_node(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    (void)b, (void)field;
    *(const struct node **)member = node;
}

/* A number, which is bound when the mode is known. */
static const struct field_kind TYPE_LATER = {
    .form = FORM_SCALAR, .bind = bind_node, .takes_all = true};

#define AT(member) offsetof(struct jitter_keys, member)

static const struct field JITTER_FIELDS[] = {
    ROW("mode", FIELD_TERM, AT(mode),
        "how the delay is scattered; a mode alone may replace the map",
        .vocabulary = VOCABULARY_JITTER, .required = true),
    ROW("min", TYPE_LATER, AT(min), "the least that `add` adds, as a share of the delay",
        DEFAULT("0.1"), .expects = "a number from 0 to 10"),
    ROW("max", TYPE_LATER, AT(max),
        "the most that `add`, `spread` or, for each retry so far, `step` puts on",
        DEFAULT("0.3, 0.1, 1s"),
        .expects = "a number for add (to 10) and spread (to 1), a duration for step"),
};

const struct table TABLE_JITTER = {
    .name = "jitter", FIELDS(JITTER_FIELDS), .size = sizeof(struct jitter_keys)};

static void refuse_key(struct binder *b, const struct node *node, int mode, const char *name)
{
    if (node)
        bind_error(b, node, "jitter mode '%s' takes no %s",
                   vocabulary_word(VOCABULARY_JITTER, mode), name);
}

static void bind_share(struct binder *b, const char *name, double least, double most,
                       const struct node *node, double *member)
{
    const struct field field = {
        .name = name, .kind = &FIELD_DOUBLE, .min_double = least, .max_double = most};
    if (node)
        bind_field(b, &field, node, member);
}

static void bind_numbers(struct binder *b, const struct jitter_keys *keys,
                         struct redrive_jitter *jitter)
{
    switch (jitter->mode) {
    case REDRIVE_JITTER_ADD:
        bind_share(b, "min", 0, 10, keys->min, &jitter->min);
        bind_share(b, "max", 0, 10, keys->max, &jitter->max);
        if (jitter->max < jitter->min)
            bind_error(b, keys->max ? keys->max : keys->min, "min %g is above max %g", jitter->min,
                       jitter->max);
        return;
    case REDRIVE_JITTER_SPREAD: bind_share(b, "max", 0, 1, keys->max, &jitter->max); break;
    case REDRIVE_JITTER_STEP:
        if (keys->max)
            bind_field(b, &(struct field){.name = "max", .kind = &FIELD_SPAN}, keys->max,
                       &jitter->step_ms);
        break;
    default: refuse_key(b, keys->max, (int)jitter->mode, "max"); break;
    }
    refuse_key(b, keys->min, (int)jitter->mode, "min");
}

static struct redrive_jitter jitter_of(int mode)
{
    struct redrive_jitter jitter = JITTER_DEFAULTS[mode];
    jitter.mode = (enum redrive_jitter_mode)mode;
    return jitter;
}

static void bind_jitter_word(struct binder *b, const struct field *field, const struct node *node,
                             struct redrive_jitter *jitter)
{
    int truth = node_truth(node);
    int mode = truth < 0 ? vocabulary_find(VOCABULARY_JITTER, node->text)
                         : (int)(truth ? REDRIVE_JITTER_FULL : REDRIVE_JITTER_NONE);
    if (mode >= 0) {
        *jitter = jitter_of(mode);
        return;
    }
    size_t n;
    const char *const *words = vocabulary_words(VOCABULARY_JITTER, &n);
    err_suggest(bind_expected(b, field, node), suggest(node->text, words, n));
}

static void bind_jitter(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    struct redrive_jitter *jitter = member;
    struct jitter_keys keys = {.mode = -1};

    if (node->type == NODE_SCALAR) {
        bind_jitter_word(b, field, node, jitter);
        return;
    }
    if (node->type == NODE_LIST) {
        bind_expected(b, field, node);
        return;
    }
    bind_table(b, &TABLE_JITTER, node, &keys);
    if (keys.mode < 0)
        return;
    *jitter = jitter_of(keys.mode);
    bind_numbers(b, &keys, jitter);
}

static void write_jitter(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_jitter *jitter = member;
    char text[DURATION_TEXT_MAX];

    if (jitter->mode != REDRIVE_JITTER_ADD && jitter->mode != REDRIVE_JITTER_SPREAD &&
        jitter->mode != REDRIVE_JITTER_STEP) {
        json_field_cstr(w, field->name, redrive_jitter_name(jitter->mode));
        return;
    }
    json_open_object(w, field->name);
    json_field_cstr(w, "mode", redrive_jitter_name(jitter->mode));
    if (jitter->mode == REDRIVE_JITTER_ADD)
        json_field_double(w, "min", jitter->min);
    if (jitter->mode == REDRIVE_JITTER_STEP)
        json_field_cstr(w, "max", duration_format(jitter->step_ms, text));
    else
        json_field_double(w, "max", jitter->max);
    json_end_object(w);
}

const struct field_kind TYPE_JITTER = {.form = FORM_SCALAR,
                                       .bind = bind_jitter,
                                       .write = write_jitter,
                                       .expects =
                                           "true, false, auto, none, full, equal, add, spread, "
                                           "step, decorrelated, or a map of mode, min and max",
                                       .takes_all = true};

/* ---- An explicit list of delays -------------------------------------------------------------- */

/* [struct redrive_backoff] To give a list is to choose the strategy. */
static void bind_delays(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    static const struct field DELAY = {.name = "delays", .kind = &FIELD_SPAN};
    struct redrive_backoff *backoff = member;
    const size_t n = node->n_children;

    if (node->type != NODE_LIST || n == 0) {
        bind_expected_list(b, field, node);
        return;
    }
    if (n > REDRIVE_DELAYS_MAX) {
        bind_error(b, node, "has %zu delays, over %d", n, REDRIVE_DELAYS_MAX);
        return;
    }
    int64_t *delays = arena_array(b->arena, n, sizeof *delays);
    if (!delays)
        return;
    size_t i = 0;
    NODE_FOREACH (node, child)
        bind_field(b, &DELAY, child, &delays[i++]);
    backoff->strategy = REDRIVE_STRATEGY_DELAYS;
    backoff->delays_ms = delays;
    backoff->n_delays = n;
}

static void write_delays(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_backoff *backoff = member;
    char text[DURATION_TEXT_MAX];
    if (backoff->strategy != REDRIVE_STRATEGY_DELAYS)
        return;
    json_open_array(w, field->name);
    for (size_t i = 0; i < backoff->n_delays; i++)
        json_put_cstr(w, duration_format(backoff->delays_ms[i], text));
    json_end_array(w);
}

const struct field_kind TYPE_DELAYS = {.form = FORM_PART,
                                       .bind = bind_delays,
                                       .write = write_delays,
                                       .expects = "a list of durations such as [5s, 30s, 2m, 10m]"};

/* ---- What a failure may be ------------------------------------------------------------------- */

const char *const *type_failure_classes(size_t *ret_n)
{
    /* Success is the first of the classes. */
    const char *const *words = vocabulary_words(VOCABULARY_CLASS, ret_n);
    --*ret_n;
    return words + 1;
}

/* Error types are mostly written with capitals or dots. */
static bool looks_like_a_class(struct str word)
{
    for (size_t i = 0; i < word.len; i++)
        if (!islower((unsigned char)word.ptr[i]) && word.ptr[i] != '_' && word.ptr[i] != '-')
            return false;
    return true;
}

static void warn_of_misspelt_class(struct binder *b, const struct node *node)
{
    size_t n;
    const char *const *classes = type_failure_classes(&n);
    const char *meant = looks_like_a_class(node->text) ? nearest(node->text, classes, n) : NULL;
    char shown[NODE_SHOW_MAX];
    if (!meant)
        return;
    struct redrive_err *warning = bind_warning(b, node, "%s is taken for the name of an error type",
                                               node_show(node->text, shown));
    err_detail(warning, "it is not a failure class");
    err_suggest(warning, meant);
}

#define ALL "all"

static bool add_match(struct binder *b, const struct node *node, struct redrive_match *match,
                      const char **types)
{
    char shown[NODE_SHOW_MAX];
    if (node->type != NODE_SCALAR || node_is_null(node) || !type_name_valid(node->text)) {
        struct redrive_err *err =
            node->type == NODE_SCALAR
                ? bind_error(b, node, "%s is no class or error type", node_show(node->text, shown))
                : bind_error(b, node, "found %s", node_kind(node));
        err_detail(err, "expected a failure class or the name of an error type");
        return false;
    }
    if (str_is(node->text, ALL)) {
        match->classes = REDRIVE_ALL_FAILURES;
        return true;
    }
    int class_ = vocabulary_find(VOCABULARY_CLASS, node->text);
    if (class_ == REDRIVE_CLASS_SUCCESS) {
        bind_error(b, node, "success is not a failure");
        return false;
    }
    if (class_ > 0) {
        match->classes |= 1u << class_;
        return true;
    }
    warn_of_misspelt_class(b, node);
    types[match->n_types++] = arena_dup(b->arena, node->text);
    return true;
}

static void bind_match(struct binder *b, const struct field *field, const struct node *node,
                       void *member)
{
    struct redrive_match match = {0};

    if (node->type == NODE_SCALAR && str_is(node->text, ALL)) {
        *(struct redrive_match *)member = (struct redrive_match){.classes = REDRIVE_ALL_FAILURES};
        return;
    }
    if (node->type != NODE_LIST) {
        bind_expected_list(b, field, node);
        return;
    }
    const char **types = arena_array(b->arena, node->n_children, sizeof *types);
    if (!types)
        return;
    bool ok = true;
    NODE_FOREACH (node, child)
        ok &= add_match(b, child, &match, types);
    if (!ok)
        return;
    match.types = types;
    *(struct redrive_match *)member = match;
}

static void write_match(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_match *match = member;
    if (!match->classes && !match->n_types)
        return;
    if (match->classes == REDRIVE_ALL_FAILURES) {
        json_field_cstr(w, field->name, ALL);
        return;
    }
    json_open_array(w, field->name);
    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT; class_++)
        if (match->classes >> class_ & 1)
            json_put_cstr(w, vocabulary_word(VOCABULARY_CLASS, class_));
    for (size_t i = 0; i < match->n_types; i++)
        json_put_cstr(w, match->types[i]);
    json_end_array(w);
}

const struct field_kind TYPE_MATCH = {.form = FORM_PART,
                                      .bind = bind_match,
                                      .write = write_match,
                                      .expects =
                                          "all, or a list of failure classes and error types"};
