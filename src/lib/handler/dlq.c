/* dlq.c - the list of a handler's dead letters: what changes it, and what reads it. */
#include "lib/handler/private.h"

#include <stdlib.h>

#include "base/text/str.h"
#include "core/classify/classify.h"

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
    HOLD(&h->lock);
    dlq_expire(&h->dlq, handler_now(h));
    struct dead_letter *entry = dlq_find(&h->dlq, id);
    return entry ? replace_payload(h, entry, payload, len) : dlq_why_absent(&h->dlq, id);
}

int redrive_dlq_remove(struct redrive_handler *h, const char *id)
{
    if (!h || !id)
        return REDRIVE_E_INVALID;
    HOLD(&h->lock);
    dlq_expire(&h->dlq, handler_now(h));
    struct dead_letter *entry = dlq_find(&h->dlq, id);
    int rc = entry ? 0 : dlq_why_absent(&h->dlq, id);
    if (entry)
        dlq_drop(&h->dlq, entry);
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
    HOLD(&h->lock);
    dlq_expire(&h->dlq, handler_now(h));
    *ret = h->dlq.stats;
}

/* ---- Reading -----------------------------------------------------------------------------------
 *
 * Callbacks run without the lock. A walk takes a few entries at a time, with a reference to each,
 * and finds its place again by seq, which never comes twice.
 */

#define BATCH 64

static bool same(const char *wanted, const char *found)
{
    return !wanted || (found && strcmp(wanted, found) == 0);
}

static bool matches(const struct redrive_dlq_filter *f, const struct redrive_dead_letter *e)
{
    if (!same(f->task, e->task) || !same(f->service, e->service) || !same(f->queue, e->queue))
        return false;
    if (f->classes != 0 && !(f->classes >> e->class_ & 1))
        return false;
    if (f->reasons != 0 && !(f->reasons >> e->reason & 1))
        return false;
    if (f->fingerprint != 0 && f->fingerprint != e->fingerprint)
        return false;
    if (f->failed_after_ms != 0 && e->failed_at_ms < f->failed_after_ms)
        return false;
    if (f->failed_before_ms != 0 && e->failed_at_ms >= f->failed_before_ms)
        return false;
    if (f->error_type &&
        !(e->error_type && type_name_matches(f->error_type, str_of(e->error_type))))
        return false;
    return !f->text || (e->message && str_contains(str_of(e->message), str_of(f->text)));
}

struct dead_letter *dlq_next(struct dlq *dlq, const struct redrive_dlq_filter *filter,
                             uint64_t after_seq, const struct dead_letter *from)
{
    const struct list *link =
        from && !list_empty(&from->link) ? from->link.next : dlq->entries.next;
    for (; link != &dlq->entries; link = link->next) {
        struct dead_letter *entry = LIST_ENTRY(link, struct dead_letter, link);
        if (entry->view.seq > after_seq && (!filter || matches(filter, &entry->view)))
            return entry;
    }
    return NULL;
}

/* Takes references to up to `max` matches behind `last` (NULL: from the start) that were there
 * when the walk began: what dies again meanwhile comes behind `until_seq`. Lock held. */
static size_t gather(struct dlq *dlq, const struct redrive_dlq_filter *filter,
                     const struct dead_letter *last, uint64_t until_seq, struct dead_letter **ret,
                     size_t max)
{
    size_t n = 0;
    uint64_t after_seq = last ? last->view.seq : filter ? filter->after_seq : 0;
    while (n < max) {
        struct dead_letter *entry = dlq_next(dlq, filter, after_seq, n > 0 ? ret[n - 1] : last);
        if (!entry || entry->view.seq > until_seq)
            break;
        entry->refs++;
        after_seq = entry->view.seq;
        ret[n++] = entry;
    }
    return n;
}

static void let_go(struct dead_letter **entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dead_letter_unref(entries[i]);
}

int redrive_dlq_list(struct redrive_handler *h, const struct redrive_dlq_filter *filter,
                     redrive_dlq_fn fn, void *ctx)
{
    if (!h || !fn)
        return REDRIVE_E_INVALID;
    size_t left = filter && filter->limit > 0 ? filter->limit : SIZE_MAX;
    struct dead_letter *batch[BATCH];
    struct dead_letter *last = NULL;
    int rc = 0;

    handler_lock(h);
    dlq_expire(&h->dlq, handler_now(h));
    const uint64_t until_seq = h->dlq.last_seq;
    while (rc == 0 && left > 0) {
        size_t n = gather(&h->dlq, filter, last, until_seq, batch, left < BATCH ? left : BATCH);
        if (n == 0)
            break;
        handler_unlock(h);
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = fn(&batch[i]->view, ctx);
        dead_letter_unref(last);
        last = batch[n - 1];
        let_go(batch, n - 1);
        left -= n;
        handler_lock(h);
    }
    handler_unlock(h);
    dead_letter_unref(last);
    return rc;
}

int redrive_dlq_show(struct redrive_handler *h, const char *id, redrive_dlq_fn fn, void *ctx)
{
    if (!h || !id || !fn)
        return REDRIVE_E_INVALID;
    handler_lock(h);
    dlq_expire(&h->dlq, handler_now(h));
    struct dead_letter *entry = dlq_find(&h->dlq, id);
    int rc = entry ? 0 : dlq_why_absent(&h->dlq, id);
    if (entry)
        entry->refs++;
    handler_unlock(h);
    if (entry)
        rc = fn(&entry->view, ctx);
    dead_letter_unref(entry);
    return rc;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static int by_fingerprint(const void *a, const void *b)
{
    const struct redrive_dead_letter *x = &(*(struct dead_letter *const *)a)->view;
    const struct redrive_dead_letter *y = &(*(struct dead_letter *const *)b)->view;
    if (x->fingerprint != y->fingerprint)
        return x->fingerprint < y->fingerprint ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_size(const void *a, const void *b)
{
    const struct redrive_dlq_group *x = a;
    const struct redrive_dlq_group *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->example.seq < y->example.seq) - (x->example.seq > y->example.seq);
}

/* Entries sorted by fingerprint, then age, become groups; returns how many. */
static size_t fold(struct dead_letter *const *entries, size_t n, struct redrive_dlq_group *groups)
{
    size_t n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        const struct redrive_dead_letter *e = &entries[i]->view;
        struct redrive_dlq_group *group = n_groups > 0 ? &groups[n_groups - 1] : NULL;
        if (!group || group->fingerprint != e->fingerprint) {
            group = &groups[n_groups++];
            *group = (struct redrive_dlq_group){
                .fingerprint = e->fingerprint,
                .first_ms = e->failed_at_ms,
            };
        }
        group->count++;
        group->last_ms = e->failed_at_ms;
        group->example = *e;
    }
    qsort(groups, n_groups, sizeof *groups, by_size);
    return n_groups;
}

static int walk_groups(struct dead_letter **entries, size_t n,
                       const struct redrive_dlq_filter *filter, redrive_dlq_group_fn fn, void *ctx)
{
    struct redrive_dlq_group *groups = malloc(n * sizeof *groups);
    if (!groups)
        return REDRIVE_E_NOMEM;
    qsort(entries, n, sizeof(void *), by_fingerprint);
    size_t n_groups = fold(entries, n, groups);
    if (filter && filter->limit > 0 && filter->limit < n_groups)
        n_groups = filter->limit;
    int rc = 0;
    for (size_t i = 0; i < n_groups && rc == 0; i++)
        rc = fn(&groups[i], ctx);
    free(groups);
    return rc;
}

int redrive_dlq_groups(struct redrive_handler *h, const struct redrive_dlq_filter *filter,
                       redrive_dlq_group_fn fn, void *ctx)
{
    if (!h || !fn)
        return REDRIVE_E_INVALID;
    handler_lock(h);
    dlq_expire(&h->dlq, handler_now(h));
    size_t max = h->dlq.stats.total_jobs;
    struct dead_letter **entries = max > 0 ? malloc(max * sizeof(void *)) : NULL;
    size_t n = entries ? gather(&h->dlq, filter, NULL, UINT64_MAX, entries, max) : 0;
    handler_unlock(h);

    int rc = max > 0 && !entries ? REDRIVE_E_NOMEM : 0;
    if (n > 0) {
        rc = walk_groups(entries, n, filter, fn, ctx);
        let_go(entries, n);
    }
    free(entries);
    return rc;
}
