#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/private.h"

/* The server's scripts hand the arguments of an operation to a command on a stack of some
 * thousands; longer ones are told in parts. */
#define ARGUMENTS_MAX ((size_t)1000)
#define BODY_MAX      ((size_t)1 << 30)

/* Operations that take away, which are carried out first: so a name may change hands. */
#define TAKES_AWAY "DYKBQV"

struct op_group {
    char letter;
    size_t n; /* arguments */
    size_t n_head;
    struct buf name; /* its key, as the request has it */
    struct buf body; /* its arguments, as the request has them */
    bool is_sum;
    int64_t sum;
    struct buf field;
};

void rd_ops_init(struct ops *ops)
{
    *ops = (struct ops){0};
    map_init(&ops->by_key, rng_system_seed());
    buf_init(&ops->id, BODY_MAX);
}

static void group_free(struct op_group *group)
{
    buf_release(&group->name);
    buf_release(&group->body);
    buf_release(&group->field);
    free(group);
}

void rd_ops_reset(struct ops *ops)
{
    const uint64_t seed = ops->by_key.seed;
    for (size_t i = 0; i < ops->n; i++)
        group_free(ops->groups[i]);
    ops->n = 0;
    ops->failed = false;
    map_release(&ops->by_key);
    map_init(&ops->by_key, seed);
}

void rd_ops_release(struct ops *ops)
{
    rd_ops_reset(ops);
    free(ops->groups);
    buf_release(&ops->id);
    map_release(&ops->by_key);
    *ops = (struct ops){0};
}

static struct op_group *group_new(struct ops *ops, char letter, struct str key)
{
    if (ops->n == ops->capacity) {
        size_t capacity = ops->capacity ? 2 * ops->capacity : 32;
        struct op_group **grown = realloc(ops->groups, capacity * sizeof(struct op_group *));
        if (!grown)
            return NULL;
        ops->groups = grown;
        ops->capacity = capacity;
    }
    struct op_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->letter = letter;
    buf_init(&group->name, BODY_MAX);
    buf_init(&group->body, BODY_MAX);
    buf_init(&group->field, BODY_MAX);
    rd_add_word(&group->name, key);
    ops->groups[ops->n++] = group;
    return group;
}

/* What makes two additions one operation: letter, key, and what is said once. */
static struct str identity(struct ops *ops, char letter, struct str key, const struct str *head,
                           size_t n_head)
{
    buf_reset(&ops->id);
    buf_putc(&ops->id, letter);
    rd_add_word(&ops->id, key);
    for (size_t i = 0; i < n_head; i++)
        rd_add_word(&ops->id, head[i]);
    return buf_str(&ops->id);
}

void rd_ops_add(struct ops *ops, char letter, struct str key, const struct str *head, size_t n_head,
                const struct str *words, size_t n)
{
    const struct str id = identity(ops, letter, key, head, n_head);
    struct op_group *group = map_get(&ops->by_key, id);
    if (!group || group->n + n > ARGUMENTS_MAX) {
        group = group_new(ops, letter, key);
        if (!group || map_put(&ops->by_key, id, group) != 0) {
            ops->failed = true;
            return;
        }
        for (size_t i = 0; i < n_head; i++)
            rd_add_word(&group->body, head[i]);
        group->n = n_head;
    }
    for (size_t i = 0; i < n; i++)
        rd_add_word(&group->body, words[i]);
    group->n += n;
    ops->failed |= buf_failed(&group->body) != 0;
}

void rd_ops_sum(struct ops *ops, struct str key, struct str field, int64_t delta)
{
    const struct str id = identity(ops, 'N', key, &field, 1);
    struct op_group *group = map_get(&ops->by_key, id);
    if (!group) {
        group = group_new(ops, 'N', key);
        if (!group || map_put(&ops->by_key, id, group) != 0) {
            ops->failed = true;
            return;
        }
        group->is_sum = true;
        buf_add_str(&group->field, field);
    }
    group->sum = (int64_t)((uint64_t)group->sum + (uint64_t)delta);
}

static bool is_empty(const struct op_group *group)
{
    return group->is_sum && group->sum == 0;
}

size_t rd_ops_count(const struct ops *ops)
{
    size_t n = 0;
    for (size_t i = 0; i < ops->n; i++)
        if (!is_empty(ops->groups[i]))
            n += 3 + (ops->groups[i]->is_sum ? 2 : ops->groups[i]->n);
    return n;
}

static void group_ask(struct store *store, const struct op_group *group)
{
    rd_ask_str(store, (struct str){&group->letter, 1});
    buf_add_str(&store->words, buf_str(&group->name));
    store->n_words++;
    if (group->is_sum) {
        rd_ask_int(store, 2);
        rd_ask_str(store, buf_str(&group->field));
        rd_ask_int(store, group->sum);
        return;
    }
    rd_ask_int(store, (int64_t)group->n);
    buf_add_str(&store->words, buf_str(&group->body));
    store->n_words += group->n;
}

void rd_ops_ask(struct store *store, const struct ops *ops)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < ops->n; i++) {
            const bool takes_away = strchr(TAKES_AWAY, ops->groups[i]->letter) != NULL;
            if (takes_away == (pass == 0) && !is_empty(ops->groups[i]))
                group_ask(store, ops->groups[i]);
        }
}
