/* experiment.c - the keys of `experiments`: the arms of a task, their shares and policies. */
#include "config/schema/schema.h"

#include <math.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

#define MEMBERS_MAX (256u * 1024)

/* ---- arms ------------------------------------------------------------------------------------ */

#define AT(member) offsetof(struct arm, member)

/* The policy that an arm starts from is known only when the whole experiment is bound. */
static const struct field_kind TYPE_ARM_RETRY = {
    .form = FORM_NESTED, .bind = type_bind_later, .write = type_table_write, .expects = "a map"};

static const struct field ARM_FIELDS[] = {
    ROW("share", FIELD_DOUBLE, AT(share),
        "the share of the task's new jobs; all shares add up to 1", DOUBLE_RANGE(0.0001, 1),
        .required = true, .expects = "a number above 0 and up to 1: half is 0.5"),
    ROW("retry", TYPE_ARM_RETRY, AT(policy), "what differs from the task's `retry`",
        .table = &TABLE_RETRY),
    ROW("on", TYPE_CLASS_RULES, AT(policy), "what differs for a failure class"),
};
const struct table TABLE_ARM = {.name = "arms", FIELDS(ARM_FIELDS), .size = sizeof(struct arm)};

/* At the line of the key that is the name. */
static void check_experiment_name(struct binder *b, const struct node *named, struct str name)
{
    char shown[NODE_SHOW_MAX];
    if (type_name_valid(name) && !experiment_name_valid(name)) /* the first is checked before */
        err_detail(bind_key_error(b, named, "%s cannot be the name of an experiment or an arm",
                                  node_show(name, shown)),
                   "expected 1 to %d letters, digits, dots, dashes and underscores",
                   EXPERIMENT_NAME_MAX);
}

static const char *members_of(struct binder *b, const struct experiment *experiment,
                              const struct arm *arm)
{
    struct json_writer w;
    const char *name = arena_printf(b->arena, "%s/%s", experiment->name, arm->name);
    RELEASED_BY(buf_release) struct buf json = BUF_MAX(MEMBERS_MAX);
    json_writer_init(&w, &json);
    json_begin_object(&w);
    json_field_cstr(&w, "experiment", name ? name : "");
    table_write(&TABLE_POLICY_JSON, &arm->policy, &w);
    json_end_object(&w);
    b->arena->failed |= buf_failed(&json) != 0;
    const struct str text = buf_str(&json);
    const char *members =
        text.len > 0 ? arena_dup(b->arena, (struct str){text.ptr + 1, text.len - 1}) : NULL;
    return members;
}

static void finish_arm(struct binder *b, const struct node *map,
                       const struct experiment *experiment, const struct redrive_policy *base,
                       struct arm *arm)
{
    const struct node *retry = node_find(map, STR("retry"));
    check_experiment_name(b, map, str_of(arm->name));
    arm->policy = *base;
    if (retry)
        bind_table(b, &TABLE_RETRY, retry, &arm->policy);
    const struct policy_scope own = {retry, node_find(map, STR("on"))};
    policy_bind_rules(b, &own, NULL, &arm->policy, NULL);
    arm->max_attempts = (int32_t)policy_max_attempts(&arm->policy);
    arm->members = members_of(b, experiment, arm);
}

static void check_shares(struct binder *b, const struct node *arms,
                         const struct experiment *experiment)
{
    const struct arm *last = &experiment->arms[experiment->n_arms - 1];
    double sum = 0;
    for (size_t i = 0; i < experiment->n_arms; i++) {
        if (experiment->arms[i].share == 0)
            return; /* it was refused */
        sum += experiment->arms[i].share;
    }
    if (fabs(sum - 1) < 1e-6)
        return;
    struct redrive_err *err = bind_error(b, arms, "the shares add up to %.6g", sum);
    err_detail(err, "expected 1");
    if (last->share + 1 - sum > 0)
        err_hint(err, "share: %.6g for '%.64s' would make it 1", last->share + 1 - sum, last->name);
    else
        err_hint(err, "a share is between 0 and 1: 0.5 is half of the jobs");
}

/* Elements are in the order of their nodes. */
static void finish_arms(struct binder *b, const struct node *map, struct experiment *experiment,
                        const struct redrive_policy *base)
{
    const struct node *arms = node_find(map, STR("arms"));
    if (!arms || (arms->type != NODE_MAP && !node_is_null(arms)) || b->arena->failed)
        return;
    if (experiment->n_arms < 2 || experiment->n_arms > EXPERIMENT_ARMS_MAX) {
        struct redrive_err *err =
            bind_error(b, arms, "has %zu of 2 to %d arms", experiment->n_arms, EXPERIMENT_ARMS_MAX);
        err_hint(err, "an arm without `retry` has the policy of the task: control: {share: 0.5}");
        return;
    }
    const struct node *child = arms->first;
    for (size_t i = 0; i < experiment->n_arms; i++, child = child->next)
        finish_arm(b, child, experiment, base, &experiment->arms[i]);
    check_shares(b, arms, experiment);
}

/* ---- experiments ----------------------------------------------------------------------------- */

#undef AT
#define AT(member) offsetof(struct experiment, member)

static const struct field EXPERIMENT_FIELDS[] = {
    ROW("task", TYPE_NAME, AT(task), "the task whose jobs take part", .required = true),
    ROW("arms", TYPE_MAP, AT(arms), "the policies that are compared, by name", .table = &TABLE_ARM,
        .count_offset = AT(n_arms), .required = true),
};

/* Arms change the policy of the task, which is bound before. Whether there is such a task is
 * checked later. */
static void finish_experiment(struct binder *b, const struct node *map, void *object)
{
    struct experiment *experiment = object;
    const struct redrive_policy *base = &b->config->defaults.retry;
    if (b->arena->failed) /* names may be missing then */
        return;
    for (size_t i = 0; i < b->config->n_tasks && experiment->task; i++)
        if (strcmp(b->config->tasks[i].name, experiment->task) == 0)
            base = &b->config->tasks[i].retry;
    check_experiment_name(b, map, str_of(experiment->name));
    finish_arms(b, map, experiment, base);
}

const struct table TABLE_EXPERIMENT = {.name = "experiments",
                                       FIELDS(EXPERIMENT_FIELDS),
                                       .size = sizeof(struct experiment),
                                       .finish = finish_experiment};

/* ---- In the definition of a task ------------------------------------------------------------- */

/* Arms are written with their whole policy: it starts from the built-in one. */
static void finish_published(struct binder *b, const struct node *map, void *object)
{
    struct redrive_policy base;
    policy_init_queue(&base);
    finish_arms(b, map, object, &base);
}

static const struct field PUBLISHED_FIELDS[] = {
    ROW("name", TYPE_NAME, AT(name), "", .required = true),
    ROW("arms", TYPE_MAP, AT(arms), "", .table = &TABLE_ARM, .count_offset = AT(n_arms),
        .required = true),
};

static const struct table TABLE_PUBLISHED = {.name = "experiment",
                                             FIELDS(PUBLISHED_FIELDS),
                                             .size = sizeof(struct experiment),
                                             .finish = finish_published};

static void bind_published(struct binder *b, const struct field *field, const struct node *node,
                           void *member)
{
    struct experiment *experiment = arena_alloc(b->arena, sizeof *experiment);
    (void)field;
    if (experiment)
        bind_table(b, &TABLE_PUBLISHED, node, experiment);
    *(struct experiment **)member = experiment;
}

static void write_published(const struct field *field, const void *member, struct json_writer *w)
{
    const struct experiment *experiment = *(struct experiment *const *)member;
    if (!experiment)
        return;
    json_open_object(w, field->name);
    table_write(&TABLE_PUBLISHED, experiment, w);
    json_end_object(w);
}

const struct field_kind TYPE_PUBLISHED_EXPERIMENT = {
    .form = FORM_PART, .bind = bind_published, .write = write_published, .expects = "a map"};
