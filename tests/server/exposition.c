#include "server/exposition.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define MAX_FAMILIES 100
#define MAX_SERIES   5000

struct reader {
    const char *at;
    char family[128]; /* that has been begun */
    char type[32];
    bool has_help;
    char seen_families[MAX_FAMILIES][128];
    size_t n_families;
    char *series[MAX_SERIES];
    size_t n_series;
    /* Of the histogram that is being read. */
    char group[512];
    double last_bucket;
    double last_bound;
};

static void refuse(const struct reader *r, const char *why)
{
    char line[200];
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(r->at, "\n"), r->at);
    fail_msg("%s: %s", why, line);
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!first && c >= '0' && c <= '9');
}

static void take_name(struct reader *r, char *out, size_t size)
{
    size_t n = 0;
    while (is_name_char(*r->at, n == 0)) {
        assert_true(n + 1 < size);
        out[n++] = *r->at++;
    }
    if (n == 0)
        refuse(r, "a name was expected");
    out[n] = '\0';
}

static void take(struct reader *r, const char *text)
{
    if (strncmp(r->at, text, strlen(text)) != 0)
        refuse(r, text);
    r->at += strlen(text);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* What promtool would complain about. */
static void check_family(struct reader *r)
{
    static const char *const UNITS[] = {
        "_seconds", "_bytes", "_total",    "_info",   "_ratio", "_score", "_state",     "_jobs",
        "_workers", "_slots", "_breakers", "_paused", "_up",    "_fds",   "_slots_used"};
    bool has_unit = false;
    bool is_counter = strcmp(r->type, "counter") == 0;
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
        has_unit |= ends_with(r->family, UNITS[i]);
    if (!has_unit)
        refuse(r, "a name without a unit");
    if (is_counter != ends_with(r->family, "_total"))
        refuse(r, "counters, and only they, end in _total");
    if (strncmp(r->family, "redrive_", 8) != 0 && strncmp(r->family, "process_", 8) != 0)
        refuse(r, "a foreign name");
    for (size_t i = 0; i < r->n_families; i++)
        if (strcmp(r->seen_families[i], r->family) == 0)
            refuse(r, "a family in two pieces");
    assert_true(r->n_families < MAX_FAMILIES);
    (void)snprintf(r->seen_families[r->n_families++], 128, "%s", r->family);
}

static void read_comment(struct reader *r)
{
    char name[128];
    bool is_help = strncmp(r->at, "# HELP ", 7) == 0;
    if (is_help) {
        take(r, "# HELP ");
        take_name(r, r->family, sizeof r->family);
        take(r, " ");
        if (*r->at == '\n')
            refuse(r, "an empty help");
        r->has_help = true;
        r->type[0] = '\0';
        r->at += strcspn(r->at, "\n");
    } else {
        take(r, "# TYPE ");
        take_name(r, name, sizeof name);
        take(r, " ");
        if (!r->has_help || strcmp(name, r->family) != 0)
            refuse(r, "a type without its help");
        take_name(r, r->type, sizeof r->type);
        if (strcmp(r->type, "counter") != 0 && strcmp(r->type, "gauge") != 0 &&
            strcmp(r->type, "histogram") != 0)
            refuse(r, "an unknown type");
        r->has_help = false;
        check_family(r);
    }
    take(r, "\n");
}

static void take_label_value(struct reader *r, struct buf *out)
{
    take(r, "\"");
    while (*r->at != '"') {
        if (*r->at == '\n' || *r->at == '\0')
            refuse(r, "an open label");
        if (*r->at == '\\') {
            r->at++;
            if (*r->at != '\\' && *r->at != '"' && *r->at != 'n')
                refuse(r, "an unknown escape");
        }
        (void)buf_putc(out, *r->at++);
    }
    take(r, "\"");
}

/* Everything but `le` into `group`. */
static void take_labels(struct reader *r, struct buf *group, double *ret_bound)
{
    char name[64];
    *ret_bound = -1;
    if (*r->at != '{')
        return;
    take(r, "{");
    for (;;) {
        take_name(r, name, sizeof name);
        take(r, "=");
        if (strcmp(name, "le") == 0) {
            char *end;
            *ret_bound = strncmp(r->at, "\"+Inf\"", 6) == 0 ? 1e300 : strtod(r->at + 1, &end);
            struct buf text;
            buf_init(&text, 100);
            take_label_value(r, &text);
            buf_release(&text);
        } else {
            (void)buf_printf(group, "%s=", name);
            take_label_value(r, group);
        }
        if (*r->at == '}')
            break;
        take(r, ",");
    }
    take(r, "}");
}

static void check_histogram(struct reader *r, const char *name, const char *group, double bound,
                            double value)
{
    const char *suffix = name + strlen(r->family);
    if (strcmp(suffix, "_bucket") == 0) {
        if (strcmp(group, r->group) != 0) {
            (void)snprintf(r->group, sizeof r->group, "%s", group);
            r->last_bucket = 0;
            r->last_bound = -1;
        }
        if (bound <= r->last_bound || value < r->last_bucket)
            refuse(r, "buckets that fall");
        r->last_bound = bound;
        r->last_bucket = value;
    } else if (strcmp(suffix, "_count") == 0) {
        if (strcmp(group, r->group) != 0 || r->last_bound < 1e300 || value != r->last_bucket)
            refuse(r, "a count that is not its last bucket");
    } else if (strcmp(suffix, "_sum") != 0) {
        refuse(r, "not a sample of a histogram");
    }
}

static void read_sample(struct reader *r)
{
    const char *start = r->at;
    char name[128];
    struct buf group;
    double bound;
    char *end;
    bool is_histogram = strcmp(r->type, "histogram") == 0;
    take_name(r, name, sizeof name);
    if (r->type[0] == '\0' || strncmp(name, r->family, strlen(r->family)) != 0 ||
        (!is_histogram && strcmp(name, r->family) != 0))
        refuse(r, "a sample outside of its family");
    buf_init(&group, 400);
    take_labels(r, &group, &bound);
    assert_true(r->n_series < MAX_SERIES);
    char *series = strndup(start, (size_t)(r->at - start));
    for (size_t i = 0; i < r->n_series; i++)
        if (strcmp(r->series[i], series) == 0)
            refuse(r, "a series that is there twice");
    r->series[r->n_series++] = series;
    take(r, " ");
    if ((*r->at < '0' || *r->at > '9') && *r->at != '-')
        refuse(r, "a number was expected");
    double value = strtod(r->at, &end);
    r->at = end;
    if (is_histogram)
        check_histogram(r, name, buf_cstr(&group), bound, value);
    buf_release(&group);
    take(r, "\n");
}

void exposition_check(const char *text)
{
    struct reader *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->at = text;
    while (*r->at != '\0') {
        if (*r->at == '#')
            read_comment(r);
        else
            read_sample(r);
    }
    assert_true(r->n_families > 0);
    for (size_t i = 0; i < r->n_series; i++)
        free(r->series[i]);
    free(r);
}

double exposition_value(const char *text, const char *series)
{
    const size_t len = strlen(series);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, series, len) == 0 && line[len] == ' ')
            return strtod(line + len, NULL);
    }
    fail_msg("there is no %s in\n%s", series, text);
    return 0;
}
