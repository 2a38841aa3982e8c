/* alert.c - the keys of `alerts`, and conditions such as "dead_letters > 100". */
#include "config/schema/schema.h"

#include "base/err.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"

/* ---- Conditions: "metric op number" ---------------------------------------------------------- */

static const char *const METRICS[] = {
    [CONFIG_METRIC_DEAD_LETTERS] = "dead_letters",
    [CONFIG_METRIC_RETRY_BACKLOG] = "retry_backlog",
    [CONFIG_METRIC_ERROR_RATE] = "error_rate",
    [CONFIG_METRIC_HEALTH_SCORE] = "health_score",
};
#define N_METRICS (sizeof METRICS / sizeof METRICS[0])

/* Longer signs first: `>` is the beginning of `>=`. */
static const struct {
    const char *sign;
    enum config_compare compare;
} SIGNS[] = {
    {">=", CONFIG_AT_LEAST},
    {"<=", CONFIG_AT_MOST},
    {">", CONFIG_ABOVE},
    {"<", CONFIG_BELOW},
};
#define N_SIGNS (sizeof SIGNS / sizeof SIGNS[0])

static bool is_share(enum config_metric metric)
{
    return metric == CONFIG_METRIC_ERROR_RATE || metric == CONFIG_METRIC_HEALTH_SCORE;
}

/* Takes the comparison off the front of `text`; -1 when there is none. */
static int take_sign(struct str *text)
{
    for (size_t i = 0; i < N_SIGNS; i++) {
        struct str sign = str_of(SIGNS[i].sign);
        if (str_starts_with(*text, sign)) {
            *text = (struct str){text->ptr + sign.len, text->len - sign.len};
            return (int)SIGNS[i].compare;
        }
    }
    return -1;
}

static int find_metric(struct str word)
{
    for (size_t i = 0; i < N_METRICS; i++)
        if (str_is(word, METRICS[i]))
            return (int)i;
    return -1;
}

static void unknown_metric(struct binder *b, const struct node *node, struct str word)
{
    char shown[NODE_SHOW_MAX];
    struct redrive_err *err = bind_error(b, node, "unknown metric %s", node_show(word, shown));
    err_detail(err, "expected dead_letters, retry_backlog, error_rate or health_score");
    err_suggest(err, suggest(word, METRICS, N_METRICS));
}

static void bind_condition(struct binder *b, const struct field *field, const struct node *node,
                           void *member)
{
    double number;
    struct str rest = node->text;
    size_t len = 0;
    while (len < rest.len && !strchr("<>= \t", rest.ptr[len]))
        len++;
    struct str word = {rest.ptr, len};
    rest = str_trim((struct str){rest.ptr + len, rest.len - len});

    int metric = find_metric(word);
    int compare = take_sign(&rest);
    if (compare < 0 || !node_parse_number(str_trim(rest), &number) || number < 0) {
        bind_expected(b, field, node);
    } else if (metric < 0) {
        unknown_metric(b, node, word);
    } else if (is_share((enum config_metric)metric) && number > 1) {
        struct redrive_err *err = bind_error(b, node, "%s is never above 1", METRICS[metric]);
        err_hint(err, "write a share: 0.1 means 10 %%");
    } else {
        *(struct config_condition *)member = (struct config_condition){
            (enum config_metric)metric, (enum config_compare)compare, number};
    }
}

const char *config_condition_text(const struct config_condition *when,
                                  char out[CONFIG_CONDITION_MAX])
{
    const char *sign = "";
    for (size_t i = 0; i < N_SIGNS; i++)
        if (SIGNS[i].compare == when->compare)
            sign = SIGNS[i].sign;

    struct json_writer number;
    struct buf text;
    buf_init_fixed(&text, out, CONFIG_CONDITION_MAX);
    buf_printf(&text, "%s %s ", METRICS[when->metric], sign);
    json_writer_init(&number, &text);
    json_put_double(&number, when->number);
    return buf_cstr(&text);
}

static void write_condition(const struct field *field, const void *member, struct json_writer *w)
{
    char text[CONFIG_CONDITION_MAX];
    json_field_cstr(w, field->name, config_condition_text(member, text));
}

static const struct field_kind TYPE_CONDITION = {.form = FORM_SCALAR,
                                                 .bind = bind_condition,
                                                 .write = write_condition,
                                                 .expects =
                                                     "a condition such as \"dead_letters > 100\""};

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct config_alert, member)

#define MIN_RUNS 10

static const struct field ALERT_FIELDS[] = {
    ROW("when", TYPE_CONDITION, AT(when),
        "dead_letters, retry_backlog, error_rate or health_score, one of > >= < <=, and a number",
        .required = true),
    ROW("task", TYPE_NAME, AT(task), "the task whose numbers are compared",
        DEFAULT("all together")),
    ROW("min_runs", FIELD_UINT, AT(min_runs),
        "fewer runs in about a minute prove nothing about error_rate and health_score",
        RANGE(1, 1e9), DEFAULT("10")),
    ROW("webhook", TYPE_SECRET_URL, AT(webhook),
        "a URL that gets a POST when the alert begins and when it is over", .secret = true),
    ROW("command", TYPE_STRINGS, AT(command), "program and arguments, run at the same times"),
};

static void init(struct binder *b, void *object)
{
    (void)b;
    ((struct config_alert *)object)->min_runs = MIN_RUNS;
}

const struct table TABLE_ALERT = {
    .name = "alerts", FIELDS(ALERT_FIELDS), .size = sizeof(struct config_alert), .init = init};

void alerts_init(struct binder *b)
{
    static const struct config_condition SHIPPED[] = {
        {CONFIG_METRIC_DEAD_LETTERS, CONFIG_ABOVE, 100},
        {CONFIG_METRIC_RETRY_BACKLOG, CONFIG_ABOVE, 1000},
        {CONFIG_METRIC_ERROR_RATE, CONFIG_ABOVE, 0.1},
        {CONFIG_METRIC_HEALTH_SCORE, CONFIG_BELOW, 0.5},
    };
    const size_t n = sizeof SHIPPED / sizeof SHIPPED[0];
    struct config_alert *alerts = arena_array(b->arena, n, sizeof *alerts);
    if (!alerts)
        return;
    for (size_t i = 0; i < n; i++)
        alerts[i] = (struct config_alert){.when = SHIPPED[i], .min_runs = MIN_RUNS};
    b->config->alerts = alerts;
    b->config->n_alerts = n;
}
