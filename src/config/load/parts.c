/* parts.c - policies, tasks, breakers and cron entries that come on their own, as JSON. */
#include "config/config.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/encode.h"
#include "config/load/load.h"
#include "config/schema/bind.h"
#include "config/schema/schema.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"
#include "core/trace/context.h"

typedef void finish_fn(struct binder *b, const struct node *root, void *object);

/* Binds the JSON to `object`, with an arena and whatever else its table needs in `b`; the document
 * is gone afterwards. */
static int bind_json_with(struct binder *b, struct str json, const struct table *table,
                          void *object, finish_fn *finish, struct redrive_err *err)
{
    struct config_report *report = calloc(1, sizeof *report);
    struct node *root;

    if (!report)
        return err_nomem(err);
    b->report = report;
    b->code = REDRIVE_E_INVALID;
    b->is_json = true;
    RELEASED_BY(arena_release) struct arena document = {0};
    int rc = node_from_json(&document, json, &root, err);
    if (rc == 0) {
        bind_table(b, table, root, object);
        if (finish)
            finish(b, root, object);
        if (b->arena->failed)
            rc = err_nomem(err);
        else if (b->n_errors)
            rc = err_set(err, report->errors[0].code, "%s", report->errors[0].message);
        if (rc < 0 && b->n_errors) {
            err_detail(err, "%s", report->errors[0].detail);
            err_hint(err, "%s", report->errors[0].hint);
        }
    }
    free(report);
    return rc;
}

static int bind_json(struct arena *arena, struct str json, const struct table *table, void *object,
                     finish_fn *finish, struct redrive_err *err)
{
    struct binder binder = {.arena = arena};
    return bind_json_with(&binder, json, table, object, finish, err);
}

static struct config_part *part_new(void)
{
    struct config_part *box = calloc(1, sizeof *box);
    if (box)
        arena_init(&box->arena);
    return box;
}

void config_part_free(struct config_part *part)
{
    if (!part)
        return;
    zones_release(part->zones);
    arena_release(&part->arena);
    free(part);
}

/* What was parsed is the caller's, unless parsing it has failed. */
static int hand_over(struct config_part *box, int rc, struct config_part **ret)
{
    if (rc < 0)
        config_part_free(box);
    else
        *ret = box;
    return rc;
}

/* ---- Policies -------------------------------------------------------------------------------- */

static void copy_match(struct arena *arena, struct redrive_match *match)
{
    const char **types = arena_array(arena, match->n_types, sizeof *types);
    for (size_t i = 0; types && i < match->n_types; i++)
        types[i] = arena_dup(arena, str_of(match->types[i]));
    match->types = types;
}

static void copy_delays(struct arena *arena, struct redrive_backoff *backoff)
{
    int64_t *delays = arena_array(arena, backoff->n_delays, sizeof *delays);
    if (delays && backoff->n_delays > 0)
        memcpy(delays, backoff->delays_ms, backoff->n_delays * sizeof *delays);
    backoff->delays_ms = delays;
}

/* Makes what a copied policy points to its own. */
static void copy_parts(struct arena *arena, struct redrive_policy *policy)
{
    copy_match(arena, &policy->retry_on);
    copy_match(arena, &policy->give_up_on);
    copy_delays(arena, &policy->backoff);
    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT; class_++) {
        struct redrive_class_rule *rule =
            policy->on[class_] ? arena_alloc(arena, sizeof *rule) : NULL;
        if (rule) {
            *rule = *policy->on[class_];
            copy_delays(arena, &rule->backoff);
        }
        policy->on[class_] = rule;
    }
}

static void finish_rules(struct binder *b, const struct node *root, void *object)
{
    const struct policy_scope own = {root, node_find(root, STR("on"))};
    policy_bind_rules(b, &own, NULL, object, NULL);
}

/* A traceparent that is kept with the policy is no part of it. */
static int bind_policy(struct config_part *box, struct str json, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf own = BUF_MAX(json.len + 1);
    const bool is_trace_only = trace_kept(json).len > 0 && !trace_has_policy(json);
    const struct str alone = is_trace_only ? STR("{}") : trace_own_policy(json, &own);
    return buf_failed(&own)
               ? err_nomem(err)
               : bind_json(&box->arena, alone, &TABLE_POLICY_JSON, &box->policy, finish_rules, err);
}

int policy_parse_json(struct str json, const struct redrive_policy *defaults,
                      struct config_part **ret, struct redrive_err *err)
{
    struct config_part *box = part_new();
    if (!box)
        return err_nomem(err);
    if (defaults)
        box->policy = *defaults;
    else
        policy_init_queue(&box->policy);
    copy_parts(&box->arena, &box->policy);
    int rc = bind_policy(box, json, err);
    return hand_over(box, rc, ret);
}

int policy_parse_kept(struct str kept, const struct redrive_policy *task, struct config_part **ret,
                      struct redrive_err *err)
{
    if (arm_kept(kept).len == 0)
        return policy_parse_json(kept, task, ret, err);
    RELEASED_BY(buf_release) struct buf own = BUF_MAX(kept.len + 1);
    const struct str alone = arm_own_policy(kept, &own);
    return buf_failed(&own) ? err_nomem(err) : policy_parse_json(alone, NULL, ret, err);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

void task_write_json(const struct config_task *task, struct json_writer *w)
{
    struct config_task shared = *task;
    shared.run = (struct config_run){.kind = CONFIG_RUN_NONE};
    json_begin_object(w);
    table_write(&TABLE_TASK_JSON, &shared, w);
    json_end_object(w);
}

int task_parse_json(struct str name, struct str json, struct config_part **ret,
                    struct redrive_err *err)
{
    struct config_part *box = part_new();
    if (!box)
        return err_nomem(err);
    task_init_built_in(&box->task);
    box->task.name = arena_dup(&box->arena, name);
    int rc = bind_json(&box->arena, json, &TABLE_TASK_JSON, &box->task, NULL, err);
    if (rc == 0 && box->task.experiment)
        box->task.experiment->task = box->task.name;
    return hand_over(box, rc, ret);
}

int task_parse_section(const struct config *config, struct str name, struct str json,
                       struct config_part **ret, struct redrive_err *err)
{
    struct redrive_err why = {0};
    struct config_part *box = part_new();
    if (!box)
        return err_nomem(err);
    if (config)
        box->task = config->undeclared;
    else
        task_init_built_in(&box->task);
    copy_parts(&box->arena, &box->task.retry);
    box->task.name = arena_dup(&box->arena, name);
    box->task.heartbeat_ms = 0;
    int rc = bind_json(&box->arena, json, &TABLE_TASK_JSON, &box->task, NULL, &why);
    if (rc == 0 && (box->task.run.kind != CONFIG_RUN_NONE || box->task.experiment)) {
        rc = err_set(&why, REDRIVE_E_INVALID, "%s cannot be declared here",
                     box->task.experiment ? "experiment" : "run");
        err_hint(&why, "it belongs into the configuration of the server or worker");
    }
    if (rc < 0 && err) {
        (void)err_set(err, rc, "tasks.%.*s: %s", (int)(name.len < 60 ? name.len : 60), name.ptr,
                      why.message);
        err_detail(err, "%s", why.detail);
        err_hint(err, "%s", why.hint);
    }
    return hand_over(box, rc, ret);
}

/* ---- Breakers -------------------------------------------------------------------------------- */

int breaker_parse_json(struct str json, const struct redrive_breaker_config *defaults,
                       struct redrive_breaker_config *ret, struct redrive_err *err)
{
    struct redrive_breaker_config breaker;

    if (defaults)
        breaker = *defaults;
    else
        redrive_breaker_config_init(&breaker);
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = bind_json(&arena, json, &TABLE_BREAKER_JSON, &breaker, NULL, err);
    if (rc == 0)
        *ret = breaker;
    return rc;
}

/* ---- Cron entries ---------------------------------------------------------------------------- */

_Static_assert(CONFIG_FIELD_MAX == NODE_PATH_MAX, "the place of an error is a path");

void cron_write_json(const struct config_cron *entry, struct json_writer *w)
{
    json_begin_object(w);
    table_write(&TABLE_CRON, entry, w);
    json_end_object(w);
}

static void finish_entry(struct binder *b, const struct node *root, void *object)
{
    if (b->among)
        check_cron(b, b->among, root, object);
}

static int check_entry_name(struct str name, char *ret_field, struct redrive_err *err)
{
    char shown[NODE_SHOW_MAX];
    if (type_name_valid(name) && utf8_valid(name))
        return 0;
    memcpy(ret_field, "name", sizeof "name");
    (void)err_set(err, REDRIVE_E_INVALID, "name: %s cannot be a name", node_show(name, shown));
    err_detail(err, "expected a name of at most %d bytes without spaces", TYPE_NAME_MAX);
    return REDRIVE_E_INVALID;
}

static int parse_entry(const struct config *config, bool among, struct str name, struct str json,
                       struct config_part *box, char *ret_field, struct redrive_err *err)
{
    const char *zone_dir = config && config->owned ? config->owned->zone_dir : NULL;
    struct binder binder = {
        .arena = &box->arena,
        .zones = &box->zones,
        .zone_dir = zone_dir ? zone_dir : ZONE_DIR,
        .among = among ? config : NULL,
        .first_path = ret_field,
    };
    int rc = check_entry_name(name, ret_field, err);
    if (rc < 0)
        return rc;
    TABLE_CRON.init(&binder, &box->cron);
    box->cron.name = arena_dup(&box->arena, name);
    return bind_json_with(&binder, json, &TABLE_CRON, &box->cron, finish_entry, err);
}

int cron_parse_json(const struct config *config, bool among, struct str name, struct str json,
                    struct config_part **ret, char ret_field[CONFIG_FIELD_MAX],
                    struct redrive_err *err)
{
    char field[CONFIG_FIELD_MAX] = "";
    struct config_part *box = part_new();
    if (!box)
        return err_nomem(err);
    int rc = parse_entry(config, among, name, json, box, field, err);
    if (ret_field)
        memcpy(ret_field, field, sizeof field);
    return hand_over(box, rc, ret);
}
