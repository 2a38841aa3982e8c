/* values.c - from the text of an option to its value. */
#include "cli/frame/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/time/duration.h"

/* Space for a list of choices in an error. */
#define LIST_MAX 200

int option_error(const char *label, int code, const struct redrive_err *why,
                 struct redrive_err *err)
{
    err_set(err, code, "%s: %s", label, why->message);
    err_detail(err, "%s", why->detail);
    err_hint(err, "%s", why->hint);
    return code;
}

/* How a bound is written: a plain number, or a duration. */
static void add_bound(struct buf *out, const struct option *o, int64_t value)
{
    char text[DURATION_TEXT_MAX];
    if (o->type == OPTION_DURATION)
        buf_puts(out, duration_format(value, text));
    else
        buf_printf(out, "%" PRId64, value);
}

static int out_of_range(const struct option *o, const char *label, const char *text,
                        struct redrive_err *err)
{
    struct buf range;
    buf_init(&range, 256);
    if (o->type == OPTION_DOUBLE) {
        buf_printf(&range, "from %g to %g", o->min_double, o->max_double);
    } else if (o->max == INT64_MAX) {
        buf_puts(&range, "at least ");
        add_bound(&range, o, o->min);
    } else {
        buf_puts(&range, "from ");
        add_bound(&range, o, o->min);
        buf_puts(&range, " to ");
        add_bound(&range, o, o->max);
    }
    err_set(err, REDRIVE_E_USAGE, "%s: %s is out of range", label, text);
    err_detail(err, "it must be %s", buf_cstr(&range));
    buf_release(&range);
    return REDRIVE_E_USAGE;
}

static bool is_bounded(const struct option *o)
{
    return o->min != 0 || o->max != 0;
}

static int store_int(const struct option *o, int64_t *ret, const char *label, const char *text,
                     struct redrive_err *err)
{
    /* strtoll would skip space and take a plus; a script that passes those has a mistake. */
    size_t digits = strspn(text + (text[0] == '-'), "0123456789");
    if (digits == 0 || text[(text[0] == '-') + digits] != '\0')
        return err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not a whole number", label, text);
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE && !is_bounded(o))
        return err_set(err, REDRIVE_E_USAGE, "%s: %s is too large a number", label, text);
    if (errno == ERANGE || (is_bounded(o) && (value < o->min || value > o->max)))
        return out_of_range(o, label, text, err);
    *ret = value;
    return 0;
}

static int store_double(const struct option *o, double *ret, const char *label, const char *text,
                        struct redrive_err *err)
{
    char *end = NULL;
    bool plain = text[0] != '\0' && text[strspn(text, "0123456789+-.eE")] == '\0';
    double value = plain ? strtod(text, &end) : 0;
    if (!plain || end == text || *end != '\0' || text[0] == '+')
        return err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not a number", label, text);
    bool bounded = o->min_double != 0 || o->max_double != 0;
    if (bounded && (value < o->min_double || value > o->max_double))
        return out_of_range(o, label, text, err);
    if (!isfinite(value))
        return err_set(err, REDRIVE_E_USAGE, "%s: %s is too large a number", label, text);
    *ret = value;
    return 0;
}

static int store_duration(const struct option *o, int64_t *ret, const char *label, const char *text,
                          struct redrive_err *err)
{
    struct redrive_err why = {0};
    int64_t ms = 0;
    if (duration_parse(str_of(text), &ms, &why) < 0)
        return option_error(label, REDRIVE_E_USAGE, &why, err);
    if (is_bounded(o) && (ms < o->min || ms > o->max))
        return out_of_range(o, label, text, err);
    *ret = ms;
    return 0;
}

static int store_choice(const struct option *o, int *ret, const char *label, const char *text,
                        struct redrive_err *err)
{
    struct words words = WORDS_INIT;
    struct buf list;

    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    buf_init(&list, LIST_MAX);
    for (int i = 0; o->choices[i]; i++) {
        words_add(&words, "", o->choices[i]);
        buf_printf(&list, "%s%s", i ? ", " : "", o->choices[i]);
    }
    err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not one of its values", label, text);
    err_detail(err, "it takes %s", buf_cstr(&list));
    const char *meant = words_nearest(&words, str_of(text));
    if (meant)
        err_hint(err, "did you mean %s?", meant);
    buf_release(&list);
    words_release(&words);
    return REDRIVE_E_USAGE;
}

static int store_another(struct option_strings *list, const char *text, struct redrive_err *err)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return err_nomem(err);
    list->items = items;
    list->items[list->n++] = text;
    return 0;
}

int option_store(const struct option *o, void *values, const char *label, const char *text,
                 struct redrive_err *err)
{
    void *into = (char *)values + o->offset;
    switch (o->type) {
    case OPTION_FLAG: *(bool *)into = true; return 0;
    case OPTION_STRING: *(const char **)into = text; return 0;
    case OPTION_INT: return store_int(o, into, label, text, err);
    case OPTION_DOUBLE: return store_double(o, into, label, text, err);
    case OPTION_DURATION: return store_duration(o, into, label, text, err);
    case OPTION_CHOICE: return store_choice(o, into, label, text, err);
    case OPTION_STRINGS: return store_another(into, text, err);
    }
    return err_set(err, REDRIVE_E_INTERNAL, "%s: unknown type of option", label);
}

void option_store_defaults(const struct option *table, void *values)
{
    for (const struct option *o = table; o && o->name; o++) {
        if (o->type == OPTION_CHOICE)
            *(int *)((char *)values + o->offset) = -1;
        if (!o->default_text)
            continue;
        assert(o->type != OPTION_FLAG && o->type != OPTION_STRINGS);
        int rc = option_store(o, values, o->name, o->default_text, NULL);
        assert(rc == 0);
        (void)rc;
    }
}

void option_release_values(const struct option *table, void *values)
{
    for (const struct option *o = table; values && o && o->name; o++)
        if (o->type == OPTION_STRINGS)
            free(((struct option_strings *)((char *)values + o->offset))->items);
}
