/* class_rules.c - what differs for a failure class: the rules under the key `on`. */
#include "config/schema/retry.h"

#include "base/err.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"

/* Class rules start from a backoff that is known only when all other keys are bound, so binding
 * is left to policy_bind_rules. */
static void bind_rules_later(struct binder *b, const struct field *field, const struct node *node,
                             void *member)
{
    (void)b, (void)field, (void)node, (void)member;
}

static void write_rules(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_policy *policy = member;
    bool any = false;

    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT; class_++) {
        if (!policy->on[class_])
            continue;
        if (!any) {
            json_key(w, field->name);
            json_begin_object(w);
        }
        any = true;
        json_key(w, vocabulary_word(VOCABULARY_CLASS, class_));
        json_begin_object(w);
        table_write(&TABLE_CLASS_RULE, policy->on[class_], w);
        json_end_object(w);
    }
    if (any)
        json_end_object(w);
}

static const char *expects_rules(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "a map of failure classes";
}

const struct field_type TYPE_CLASS_RULES = {FIELD_PART, bind_rules_later, write_rules,
                                            expects_rules};

static void check_classes(struct binder *b, const struct node *rules)
{
    size_t n;
    const char *const *classes = type_failure_classes(&n);
    char shown[NODE_SHOW_MAX], path[NODE_PATH_MAX];

    NODE_FOREACH (rules, child) {
        if (vocabulary_find(VOCABULARY_CLASS, child->key) > 0)
            continue;
        struct redrive_err *err =
            bind_key_error(b, child, "unknown class %s in %s", node_show(child->key, shown),
                           node_path(rules, path));
        err_detail(err, "expected transient, rate_limited, network, system, database, permanent, "
                        "validation or authentication");
        bind_suggest(err, child->key, classes, n);
    }
}

static void bind_rule(struct binder *b, struct redrive_policy *policy, int class_,
                      const struct node *inherited, const struct node *own)
{
    struct redrive_class_rule *rule = arena_alloc(b->arena, sizeof *rule);
    if (!rule)
        return;
    if (policy->on[class_])
        *rule = *policy->on[class_];
    else
        *rule = (struct redrive_class_rule){policy->backoff, -1};
    if (inherited) {
        /* What is wrong with it has been said where it was written. */
        struct binder quiet = *b;
        quiet.report = NULL;
        bind_table(&quiet, &TABLE_CLASS_RULE, inherited, rule);
    }
    if (own)
        bind_table(b, &TABLE_CLASS_RULE, own, rule);
    policy->on[class_] = rule;
}

void policy_bind_rules(struct binder *b, const struct node *inherited, const struct node *own,
                       struct redrive_policy *policy)
{
    if (own && own->type == NODE_MAP)
        check_classes(b, own);
    else if (own && !node_is_null(own))
        err_detail(bind_error(b, own, "found %s", node_kind(own)),
                   "expected a map of failure classes");

    for (int class_ = 1; class_ < REDRIVE_CLASS_COUNT; class_++) {
        struct str word = str_of(vocabulary_word(VOCABULARY_CLASS, class_));
        const struct node *inherited_rule = inherited ? node_find(inherited, word) : NULL;
        const struct node *own_rule = own ? node_find(own, word) : NULL;
        if (inherited_rule || own_rule)
            bind_rule(b, policy, class_, inherited_rule, own_rule);
    }
}
