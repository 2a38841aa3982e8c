/* heap.c - a binary heap in an array. */
#include "sim/heap.h"

#include <stdlib.h>

#include "redrive.h"

static bool by_key(const struct heap_item *a, const struct heap_item *b)
{
    return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

void heap_init(struct heap *heap)
{
    heap_init_ordered(heap, by_key);
}

void heap_init_ordered(struct heap *heap, heap_order_fn precedes)
{
    *heap = (struct heap){.precedes = precedes};
}

void heap_release(struct heap *heap)
{
    free(heap->items);
    heap_init_ordered(heap, heap->precedes);
}

void heap_clear(struct heap *heap)
{
    heap->count = 0;
}

int heap_push(struct heap *heap, struct heap_item item)
{
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity ? heap->capacity * 2 : 64;
        struct heap_item *items = reallocarray(heap->items, capacity, sizeof *items);
        if (!items)
            return REDRIVE_E_NOMEM;
        heap->items = items;
        heap->capacity = capacity;
    }
    item.seq = heap->next_seq++;

    size_t at = heap->count++;
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (!heap->precedes(&item, &heap->items[parent]))
            break;
        heap->items[at] = heap->items[parent];
        at = parent;
    }
    heap->items[at] = item;
    return 0;
}

bool heap_pop(struct heap *heap, struct heap_item *ret)
{
    if (heap->count == 0)
        return false;
    *ret = heap->items[0];

    struct heap_item last = heap->items[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->precedes(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (!heap->precedes(&heap->items[child], &last))
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    if (heap->count > 0)
        heap->items[at] = last;
    return true;
}
