/* list.h - an intrusive, circular, doubly linked list.
 *
 * A struct list is both head and link; an empty head points at itself. The elements own
 * themselves.
 */
#ifndef BASE_MEM_LIST_H
#define BASE_MEM_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

/* Puts `link` in front of `where`; with the head as `where` that is the end of the list. */
static inline void list_insert(struct list *where, struct list *link)
{
    link->prev = where->prev;
    link->next = where;
    where->prev->next = link;
    where->prev = link;
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

#define LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* The current element may be removed while walking. */
#define LIST_FOREACH(head, link)                                                      \
    for (struct list *link = (head)->next, *link##_next = link->next; link != (head); \
         link = link##_next, link##_next = link->next)

#endif
