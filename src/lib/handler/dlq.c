/* dlq.c - the list of a handler's dead letters, and what changes it. */
#include "lib/handler/private.h"

#include "base/text/str.h"

void dlq_init(struct dlq *dlq, size_t max, uint64_t seed)
{
    *dlq = (struct dlq){.max = max, .next_expiry_ms = NEVER};
    list_init(&dlq->entries);
    map_init(&dlq->by_id, seed);
}

void dlq_release(struct dlq *dlq)
{
    MAP_FOREACH (&dlq->by_id, slot) {
        dead_letter_unref(slot->value);
    }
    map_release(&dlq->by_id);
}

/* Shows and hides an entry. `where` is the entry that it comes before. */
static void show(struct dlq *dlq, struct dead_letter *entry, struct list *where)
{
    list_insert(where, &entry->link);
    dlq->stats.total_jobs++;
    dlq->stats.by_class[entry->view.class_]++;
    dlq->stats.by_reason[entry->view.reason]++;
    if (entry->expires_ms < dlq->next_expiry_ms)
        dlq->next_expiry_ms = entry->expires_ms;
}

static void hide(struct dlq *dlq, struct dead_letter *entry)
{
    if (list_empty(&entry->link))
        return;
    list_remove(&entry->link);
    dlq->stats.total_jobs--;
    dlq->stats.by_class[entry->view.class_]--;
    dlq->stats.by_reason[entry->view.reason]--;
}

struct dead_letter *dlq_find(struct dlq *dlq, const char *id)
{
    struct dead_letter *entry = map_get(&dlq->by_id, str_of(id));
    return entry && !entry->away ? entry : NULL;
}

int dlq_why_absent(struct dlq *dlq, const char *id)
{
    return map_get(&dlq->by_id, str_of(id)) ? REDRIVE_E_STATE : REDRIVE_E_NOT_FOUND;
}

void dlq_drop(struct dlq *dlq, struct dead_letter *entry)
{
    hide(dlq, entry);
    map_remove(&dlq->by_id, str_of(entry->view.id));
    dead_letter_unref(entry);
}

void dlq_send_away(struct dlq *dlq, struct dead_letter *entry)
{
    hide(dlq, entry);
    entry->away = true;
}

static void make_room(struct dlq *dlq)
{
    while (dlq->stats.total_jobs > dlq->max) {
        dlq_drop(dlq, LIST_ENTRY(dlq->entries.next, struct dead_letter, link));
        dlq->stats.dropped++;
    }
}

void dlq_take_back(struct dlq *dlq, struct dead_letter *entry)
{
    struct list *where = &dlq->entries;
    while (where->prev != &dlq->entries &&
           LIST_ENTRY(where->prev, struct dead_letter, link)->view.seq > entry->view.seq)
        where = where->prev;
    entry->away = false;
    show(dlq, entry, where);
    make_room(dlq);
}

int dlq_insert(struct dlq *dlq, struct dead_letter *entry, int64_t now_ms)
{
    dlq_expire(dlq, now_ms);
    struct str id = str_of(entry->view.id);
    struct dead_letter *earlier = map_get(&dlq->by_id, id);
    int rc = map_put(&dlq->by_id, id, entry);
    if (rc < 0)
        return rc;
    if (earlier) {
        hide(dlq, earlier);
        dead_letter_unref(earlier);
    }
    entry->view.seq = ++dlq->last_seq;
    show(dlq, entry, &dlq->entries);
    make_room(dlq);
    return 0;
}

void dlq_expire(struct dlq *dlq, int64_t now_ms)
{
    if (now_ms < dlq->next_expiry_ms)
        return;
    dlq->next_expiry_ms = NEVER;
    LIST_FOREACH (&dlq->entries, link) {
        struct dead_letter *entry = LIST_ENTRY(link, struct dead_letter, link);
        if (entry->expires_ms <= now_ms)
            dlq_drop(dlq, entry);
        else if (entry->expires_ms < dlq->next_expiry_ms)
            dlq->next_expiry_ms = entry->expires_ms;
    }
}

/* An entry does not change, so that callers that are reading it see it whole: a new one replaces
 * it. */
static int replace_payload(struct redrive_handler *h, struct dead_letter *entry,
                           const void *payload, size_t len)
{
    struct redrive_dead_letter view = entry->view;
    view.payload = payload;
    view.payload_len = len;
    struct dead_letter *edited = dead_letter_new(&view, entry->policy);
    if (!edited)
        return REDRIVE_E_NOMEM;
    edited->died_ms = entry->died_ms;
    edited->expires_ms = entry->expires_ms;
    edited->deadline_ms = entry->deadline_ms;
    int rc = map_put(&h->dlq.by_id, str_of(view.id), edited);
    if (rc < 0) {
        dead_letter_unref(edited);
        return rc;
    }
    struct list *where = entry->link.next;
    hide(&h->dlq, entry);
    dead_letter_unref(entry);
    show(&h->dlq, edited, where);
    return 0;
}

int redrive_dlq_edit(struct redrive_handler *h, const char *id, const void *payload, size_t len)
{
    if (!h || !id || (!payload && len > 0))
        return REDRIVE_E_INVALID;
    handler_lock(h);
    dlq_expire(&h->dlq, handler_now(h));
    struct dead_letter *entry = dlq_find(&h->dlq, id);
    int rc = entry ? replace_payload(h, entry, payload, len) : dlq_why_absent(&h->dlq, id);
    handler_unlock(h);
    return rc;
}

int redrive_dlq_remove(struct redrive_handler *h, const char *id)
{
    if (!h || !id)
        return REDRIVE_E_INVALID;
    handler_lock(h);
    dlq_expire(&h->dlq, handler_now(h));
    struct dead_letter *entry = dlq_find(&h->dlq, id);
    int rc = entry ? 0 : dlq_why_absent(&h->dlq, id);
    if (entry)
        dlq_drop(&h->dlq, entry);
    handler_unlock(h);
    return rc;
}

int redrive_dlq_purge(struct redrive_handler *h, int64_t older_than_ms, size_t *ret_removed)
{
    if (!h || older_than_ms < 0)
        return REDRIVE_E_INVALID;
    handler_lock(h);
    int64_t now_ms = handler_now(h);
    dlq_expire(&h->dlq, now_ms);
    size_t removed = 0;
    LIST_FOREACH (&h->dlq.entries, link) {
        struct dead_letter *entry = LIST_ENTRY(link, struct dead_letter, link);
        if (older_than_ms > 0 && older_than_ms > now_ms - entry->died_ms)
            continue;
        dlq_drop(&h->dlq, entry);
        removed++;
    }
    handler_unlock(h);
    if (ret_removed)
        *ret_removed = removed;
    return 0;
}

void redrive_dlq_stats_get(struct redrive_handler *h, struct redrive_dlq_stats *ret)
{
    if (!h || !ret)
        return;
    handler_lock(h);
    dlq_expire(&h->dlq, handler_now(h));
    *ret = h->dlq.stats;
    handler_unlock(h);
}
