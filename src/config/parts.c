/* Policies and breakers that come on their own, as JSON. */
#include "config/config.h"

#include <stdlib.h>

#include "base/err.h"
#include "config/bind.h"
#include "config/fields_breaker.h"
#include "config/fields_retry.h"

/* Binds the JSON to `object`; the document is gone afterwards. */
static int bind_json(struct arena *arena, struct str json, const struct table *table, void *object,
                     void (*finish)(struct binder *b, const struct node *root, void *object),
                     struct redrive_err *err)
{
    struct config_report *report = calloc(1, sizeof *report);
    struct binder binder = {.arena = arena, .report = report, .code = REDRIVE_E_INVALID};
    struct arena document;
    struct node *root;

    if (!report)
        return err_nomem(err);
    arena_init(&document);
    int rc = node_from_json(&document, json, &root, err);
    if (rc == 0) {
        bind_table(&binder, table, root, object);
        if (finish)
            finish(&binder, root, object);
        if (arena->failed)
            rc = err_nomem(err);
        else if (binder.n_errors)
            rc = err_set(err, report->errors[0].code, "%s", report->errors[0].message);
        if (rc < 0 && binder.n_errors) {
            err_detail(err, "%s", report->errors[0].detail);
            err_hint(err, "%s", report->errors[0].hint);
        }
    }
    arena_release(&document);
    free(report);
    return rc;
}

/* ---- Policies ------------------------------------------------------------------------------- */

struct policy_box {
    struct arena arena;
    struct redrive_policy policy;
};

static void copy_match(struct arena *arena, struct redrive_match *match)
{
    const char **types = arena_array(arena, match->n_types, sizeof *types);
    for (size_t i = 0; types && i < match->n_types; i++)
        types[i] = arena_dup(arena, str_of(match->types[i]));
    match->types = types;
}

/* Makes what a copied policy points to its own. */
static void copy_parts(struct policy_box *box)
{
    struct redrive_policy *policy = &box->policy;
    copy_match(&box->arena, &policy->retry_on);
    copy_match(&box->arena, &policy->give_up_on);
    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT; class_++) {
        struct redrive_class_rule *rule =
            policy->on[class_] ? arena_alloc(&box->arena, sizeof *rule) : NULL;
        if (rule)
            *rule = *policy->on[class_];
        policy->on[class_] = rule;
    }
}

static void finish_rules(struct binder *b, const struct node *root, void *object)
{
    policy_bind_rules(b, NULL, node_find(root, STR("on")), object);
}

int policy_parse_json(struct str json, const struct redrive_policy *defaults,
                      struct policy_box **ret, struct redrive_err *err)
{
    struct policy_box *box = calloc(1, sizeof *box);
    if (!box)
        return err_nomem(err);
    arena_init(&box->arena);
    if (defaults)
        box->policy = *defaults;
    else
        redrive_policy_init(&box->policy);
    copy_parts(box);
    int rc = bind_json(&box->arena, json, &TABLE_POLICY_JSON, &box->policy, finish_rules, err);
    if (rc < 0) {
        policy_box_free(box);
        return rc;
    }
    *ret = box;
    return 0;
}

const struct redrive_policy *policy_box_get(const struct policy_box *box)
{
    return &box->policy;
}

void policy_box_free(struct policy_box *box)
{
    if (!box)
        return;
    arena_release(&box->arena);
    free(box);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

struct task_box {
    struct arena arena;
    struct config_task task;
};

void task_write_json(const struct config_task *task, struct json_writer *w)
{
    struct config_task shared = *task;
    shared.run = (struct config_run){.kind = CONFIG_RUN_NONE};
    json_begin_object(w);
    table_write(&TABLE_TASK, &shared, w);
    json_end_object(w);
}

int task_parse_json(struct str name, struct str json, struct task_box **ret,
                    struct redrive_err *err)
{
    struct task_box *box = calloc(1, sizeof *box);
    if (!box)
        return err_nomem(err);
    arena_init(&box->arena);
    box->task = (struct config_task){
        .name = arena_dup(&box->arena, name),
        .queue = "default",
        .breaker = {.key = "{task}"},
        .lease_ms = 30000,
    };
    redrive_policy_init(&box->task.retry);
    redrive_breaker_config_init(&box->task.breaker.config);
    int rc = bind_json(&box->arena, json, &TABLE_TASK, &box->task, NULL, err);
    if (rc < 0) {
        task_box_free(box);
        return rc;
    }
    *ret = box;
    return 0;
}

const struct config_task *task_box_get(const struct task_box *box)
{
    return &box->task;
}

void task_box_free(struct task_box *box)
{
    if (!box)
        return;
    arena_release(&box->arena);
    free(box);
}

/* ---- Breakers ------------------------------------------------------------------------------- */

int breaker_parse_json(struct str json, const struct redrive_breaker_config *defaults,
                       struct redrive_breaker_config *ret, struct redrive_err *err)
{
    struct redrive_breaker_config breaker;
    struct arena arena;

    if (defaults)
        breaker = *defaults;
    else
        redrive_breaker_config_init(&breaker);
    arena_init(&arena);
    int rc = bind_json(&arena, json, &TABLE_BREAKER_JSON, &breaker, NULL, err);
    arena_release(&arena);
    if (rc == 0)
        *ret = breaker;
    return rc;
}
