/* wrap.h - a store around another one, for tests.
 *
 * Every slot is handed on to the inner store. A test that embeds a struct wrap replaces the slots
 * that it is about, and may set `before`, which is asked ahead of every slot that can fail.
 */
#ifndef TESTS_STORE_WRAP_H
#define TESTS_STORE_WRAP_H

#include "store/store.h"

struct wrap {
    struct store_base base;
    struct store_ops ops; /* its own, to be changed */
    struct store *inner;  /* borrowed: closing the wrapper leaves it open */
    /* NULL, or a code: below 0 the slot fails with it, and the inner store is not asked. */
    int (*before)(struct wrap *wrap, struct redrive_err *err);
};

void wrap_init(struct wrap *wrap, struct store *inner);

static inline struct store *wrap_store(struct wrap *wrap)
{
    return (struct store *)(void *)wrap;
}

static inline struct wrap *wrap_of(struct store *store)
{
    return (struct wrap *)(void *)store;
}

#endif
