/* keys.h - the keys that variables and flags can set, and their three names.
 *
 * One rule: `retry.max_delay`, REDRIVE_RETRY_MAX_DELAY, --retry-max-delay. It covers every scalar
 * key at the top level, in a section of the top level, and in `defaults`, whose name is left out.
 */
#ifndef CONFIG_LOAD_KEYS_H
#define CONFIG_LOAD_KEYS_H

#include "config/schema/schema.h"

#define KEY_NAME_MAX    48
#define KEY_MAX_STEPS   3
#define KEY_MAX_CHOICES 12

struct key {
    char name[KEY_NAME_MAX];
    char variable[KEY_NAME_MAX + 8];
    char flag[KEY_NAME_MAX];
    const struct field *steps[KEY_MAX_STEPS]; /* from the root to the key itself */
    size_t n_steps;
    char expects[EXPECTS_MAX];
    const char *choices[KEY_MAX_CHOICES + 1]; /* ends with NULL; empty: not a choice */
};

/* The key with that number, from 0, or NULL after the last. */
const struct key *key_at(size_t index);

/* NULL when there is none. Flags without their dashes. */
const struct key *key_find(struct str name);
const struct key *key_find_variable(struct str variable);
const struct key *key_find_flag(struct str flag);

/* The field and the table that has it. */
const struct field *key_field(const struct key *key);
const struct table *key_table(const struct key *key);

/* The nearest variable or flag, or NULL. */
const char *key_suggest_variable(struct str given);
const char *key_suggest_flag(struct str given);

#endif
