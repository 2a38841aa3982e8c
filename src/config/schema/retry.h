/* retry.h - the tables of retry policies, for the tables that contain a policy. */
#ifndef CONFIG_SCHEMA_RETRY_H
#define CONFIG_SCHEMA_RETRY_H

#include "config/schema/schema.h"

/* A policy together with its class rules, as a request has it. */
extern const struct table TABLE_POLICY_JSON;

/* [struct redrive_policy] the rules for failure classes, under the key `on`. */
extern const struct field_type TYPE_CLASS_RULES;

/* Makes the class rules of a policy whose own keys are bound. A rule starts from the policy's own
 * backoff, takes the keys of the `inherited` one, then those of its `own`; both are the values of
 * an `on` key, or NULL. */
void policy_bind_rules(struct binder *b, const struct node *inherited, const struct node *own,
                       struct redrive_policy *policy);

#endif
