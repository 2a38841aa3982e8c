/* heap.h - a binary heap: the least key first, equal keys in the order in which they came.
 *
 * The second half of that sentence is what makes a simulation repeatable: two events in the same
 * millisecond always happen in the same order. A heap may have an order of its own instead. Items
 * are never taken out of the middle. A caller that pops one that no longer means anything drops it.
 */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_item {
    int64_t key;
    uint64_t seq; /* given by heap_push */
    uint32_t kind;
    uint32_t job;
    uint64_t token;
};

/* Whether `a` comes before `b`. */
typedef bool (*heap_order_fn)(const struct heap_item *a, const struct heap_item *b);

struct heap {
    struct heap_item *items; /* items[0] is the least; the rest may be walked in no order */
    size_t count;
    size_t capacity;
    uint64_t next_seq;
    heap_order_fn precedes;
};

void heap_init(struct heap *heap);
/* With an order of its own, in which items that are equal come in any order. */
void heap_init_ordered(struct heap *heap, heap_order_fn precedes);
void heap_release(struct heap *heap);

/* 0 or REDRIVE_E_NOMEM. The item's seq is filled in here. */
int heap_push(struct heap *heap, struct heap_item item);

/* Takes everything out and keeps the memory. */
void heap_clear(struct heap *heap);

/* False when it is empty. */
bool heap_pop(struct heap *heap, struct heap_item *ret);

#endif
