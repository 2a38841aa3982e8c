/* page.c - what belongs to pages and filters: memory, order, matching, cursors, limits of claims.
 */
#include "store/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "core/state.h"
#include "store/shared.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

#define PAGE_RELEASE(function, type) \
    void function(type *page)        \
    {                                \
        arena_release(&page->arena); \
        *page = (type){0};           \
    }
PAGE_RELEASE(job_page_release, struct job_page)
PAGE_RELEASE(attempt_page_release, struct attempt_page)
PAGE_RELEASE(count_page_release, struct count_page)
PAGE_RELEASE(group_page_release, struct group_page)
PAGE_RELEASE(remembered_key_page_release, struct remembered_key_page)
PAGE_RELEASE(shared_page_release, struct shared_page)
PAGE_RELEASE(counter_page_release, struct counter_page)
PAGE_RELEASE(edge_page_release, struct edge_page)
PAGE_RELEASE(parent_page_release, struct parent_page)

int job_page_leave_out(struct job_page *page, int rc, struct redrive_err *err)
{
    if (rc != REDRIVE_E_CORRUPT)
        return rc;
    if (page->n_unreadable++ == 0 && err) {
        page->unreadable = arena_alloc(&page->arena, sizeof *err);
        if (page->unreadable)
            *page->unreadable = *err;
    }
    if (err)
        *err = (struct redrive_err){0};
    return 0;
}

void job_page_add_left_out(struct job_page *page, const struct job_page *other)
{
    page->n_unreadable += other->n_unreadable;
    if (page->unreadable || !other->unreadable)
        return;
    page->unreadable = arena_alloc(&page->arena, sizeof *page->unreadable);
    if (page->unreadable)
        *page->unreadable = *other->unreadable;
}

int job_page_check_readable(const struct job_page *page, struct redrive_err *err)
{
    if (page->n_unreadable == 0)
        return 0;
    if (!page->unreadable)
        return err_set(err, REDRIVE_E_CORRUPT, "the row of the job cannot be read");
    if (err)
        *err = *page->unreadable;
    return REDRIVE_E_CORRUPT;
}

/* Whether rows that cannot be read have left places free that others could have, or hide whether
 * there are others. `asked` is the limit that the rows were asked for with. */
static bool is_unfilled(const struct job_page *page, size_t limit, size_t asked)
{
    if (page->more)
        return page->n < limit;
    return page->n <= limit && page->n + page->n_unreadable > asked;
}

int job_page_list(struct store *store, const struct job_filter *filter,
                  int (*list)(struct store *store, const struct job_filter *filter,
                              struct job_page *ret, struct redrive_err *err),
                  struct job_page *ret, struct redrive_err *err)
{
    struct job_filter wider = *filter;
    int rc;
    do {
        wider.limit = filter->limit + 2 * ret->n_unreadable;
        job_page_release(ret);
        rc = list(store, &wider, ret, err);
    } while (rc == 0 && is_unfilled(ret, filter->limit, wider.limit));
    if (ret->n > filter->limit) {
        ret->n = filter->limit;
        ret->more = true;
    }
    return rc;
}

void attempt_pages_release(struct attempt_page *pages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        attempt_page_release(&pages[i]);
}

void *page_grow(struct arena *arena, void *rows, size_t n, size_t size)
{
    if (rows && (n & (n - 1)) != 0)
        return rows;
    void *grown = arena_array(arena, n ? 2 * n : 1, size);
    if (grown && rows)
        memcpy(grown, rows, n * size);
    return grown;
}

void job_page_add_limit(struct job_page *page, const struct limit_sums *limit)
{
    const struct limit_sums *last = page->n_limits > 0 ? &page->limits[page->n_limits - 1] : NULL;
    if (last && str_eq(last->key, limit->key) && str_eq(last->tenant, limit->tenant))
        return;
    struct limit_sums *grown =
        page_grow(&page->arena, page->limits, page->n_limits, sizeof *page->limits);
    if (!grown)
        return;
    page->limits = grown;
    page->limits[page->n_limits++] = *limit;
}

struct job job_bare(const struct job *job, struct arena *arena)
{
    struct job bare = *job;
    struct job_spec *spec = &bare.spec;
    struct job_status *s = &bare.status;
    struct str *const strings[] = {
        &spec->tenant,  &spec->id,          &spec->task,          &spec->queue,
        &spec->user,    &spec->project,     &spec->service,       &spec->unique_key,
        &spec->policy,  &spec->breaker_key, &spec->limit_key,     &s->worker,
        &s->error.type, &s->error.message,  &s->error.stacktrace,
    };
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        if (strings[i]->ptr)
            *strings[i] = arena_str(arena, *strings[i]);
    spec->payload = s->result = (struct str){0};
    return bare;
}

/* ---- Order ----------------------------------------------------------------------------------- */

int job_count_order(const void *left, const void *right)
{
    const struct job_count *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    if (order == 0)
        order = str_compare(a->queue, b->queue);
    if (order == 0)
        order = str_compare(a->task, b->task);
    return order != 0 ? order : str_compare(a->gate, b->gate);
}

int group_count_order(const void *left, const void *right)
{
    const struct group_count *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (a->last_ms != b->last_ms)
        return a->last_ms > b->last_ms ? -1 : 1;
    return a->example.status.seq > b->example.status.seq ? -1 : 1;
}

int shared_row_order(const void *left, const void *right)
{
    const struct shared_row *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    const int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

int counter_order(const void *left, const void *right)
{
    const struct counter *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    if (order == 0)
        order = str_compare(a->name, b->name);
    return order != 0 ? order : str_compare(a->label, b->label);
}

/* ---- Matching -------------------------------------------------------------------------------- */

static bool is_wanted(struct str wanted, struct str s)
{
    return wanted.len == 0 || str_eq(wanted, s);
}

static bool is_in(uint32_t mask, unsigned bit)
{
    return mask == 0 || (mask >> bit & 1);
}

static bool ended_within(const struct job_filter *f, const struct job_status *s)
{
    if (f->finished_after_ms == 0 && f->finished_before_ms == 0)
        return true;
    return state_has_ended(s->state) && s->finished_ms >= f->finished_after_ms &&
           (f->finished_before_ms == 0 || s->finished_ms < f->finished_before_ms);
}

bool job_filter_matches(const struct job_filter *f, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    const struct job_status *s = &job->status;
    return is_wanted(f->tenant, spec->tenant) && is_wanted(f->id, spec->id) &&
           is_wanted(f->task, spec->task) && is_wanted(f->queue, spec->queue) &&
           is_wanted(f->user, spec->user) && is_wanted(f->unique_key, spec->unique_key) &&
           is_in(f->states, s->state) && is_in(f->classes, s->error.class_) &&
           is_in(f->reasons, s->reason) && is_wanted(f->error_type, s->error.type) &&
           str_contains(s->error.message, f->text) &&
           (f->fingerprint == 0 || f->fingerprint == s->fingerprint) && ended_within(f, s);
}

/* ---- Claims ---------------------------------------------------------------------------------- */

size_t claim_find(const struct str *names, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(names[i], name))
            return i;
    return n;
}

bool claim_totals_init(struct claim_totals *totals, const struct claim_filter *filter)
{
    *totals = (struct claim_totals){.filter = filter};
    if (!filter->task_limits)
        return true;
    totals->of_task = calloc(filter->n_tasks + 1, sizeof *totals->of_task);
    return totals->of_task != NULL;
}

void claim_totals_release(struct claim_totals *totals)
{
    free(totals->of_task);
    *totals = (struct claim_totals){0};
}

/* The first that is there leads to the fewest jobs, as a rule. */
enum list_source job_filter_source(const struct job_filter *f)
{
    const uint32_t success = 1u << REDRIVE_CLASS_SUCCESS;
    if (f->user.len > 0 && f->tenant.len > 0)
        return LIST_USER;
    if (f->is_rare && (f->task.len > 0 || f->queue.len > 0))
        return LIST_PARTITIONS;
    if (f->is_few && f->states != 0)
        return LIST_STATES;
    if (f->fingerprint != 0)
        return LIST_GROUP;
    if (f->error_type.len > 0 || f->text.len > 0 || (f->classes != 0 && !(f->classes & success)))
        return LIST_ERRORS;
    return LIST_ALL;
}

/* ---- Cursors --------------------------------------------------------------------------------- */

/* order, hints, seq, ms: a letter, perhaps further ones, and two numbers in hexadecimal; the sum
 * has four digits. */
#define SUM_DIGITS  4
#define LETTER_FEW  's'
#define LETTER_MOST 't'
#define LETTER_RARE 'u'

static const char ORDERS[] = {[ORDER_OLDEST] = 'o', [ORDER_NEWEST] = 'n', [ORDER_FINISHED] = 'f'};

/* FNV-1a, folded: it finds mistakes, not forgeries. */
static unsigned sum_of(struct str text)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT32_C(16777619);
    return (hash ^ hash >> 16) & 0xffff;
}

const char *job_cursor_write(const struct job_filter *filter, const struct job *job,
                             char out[JOB_CURSOR_MAX])
{
    int len = 0;
    out[len++] = ORDERS[filter->order];
    if (filter->is_few)
        out[len++] = LETTER_FEW;
    if (filter->is_most)
        out[len++] = LETTER_MOST;
    if (filter->is_rare)
        out[len++] = LETTER_RARE;
    len += snprintf(out + len, JOB_CURSOR_MAX - (size_t)len, "%" PRIx64, (uint64_t)job->status.seq);
    if (filter->order == ORDER_FINISHED)
        len += snprintf(out + len, JOB_CURSOR_MAX - (size_t)len, "-%" PRIx64,
                        (uint64_t)job->status.finished_ms);
    (void)snprintf(out + len, JOB_CURSOR_MAX - (size_t)len, "-%04x",
                   sum_of((struct str){out, (size_t)len}));
    return out;
}

/* Up to 15 digits, so that it is never negative; moves `text` behind them. */
static bool read_number(struct str *text, int64_t *ret)
{
    size_t n = 0;
    *ret = 0;
    for (; n < text->len && text->ptr[n] != '-'; n++) {
        char c = text->ptr[n];
        bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
        if (n == 15 || (!is_digit && !is_letter))
            return false;
        *ret = *ret * 16 + (is_digit ? c - '0' : c - 'a' + 10);
    }
    *text = (struct str){text->ptr + n, text->len - n};
    return n > 0;
}

/* Moves `text` behind the letter, if it begins with it. */
static bool read_hint(struct str *text, char letter)
{
    if (text->len == 0 || text->ptr[0] != letter)
        return false;
    *text = (struct str){text->ptr + 1, text->len - 1};
    return true;
}

static int refuse_cursor(struct str text, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_INVALID, "this is no cursor: %.*s", (int)(text.len < 60 ? text.len : 60),
            text.ptr ? text.ptr : "");
    err_hint(err, "a cursor is the `next` of the page before, as it stands there");
    return REDRIVE_E_INVALID;
}

int job_cursor_read(struct str text, struct job_filter *filter, struct redrive_err *err)
{
    int64_t seq, ms = 0, sum;
    const struct str whole = text;
    if (text.len <= SUM_DIGITS + 2 || text.len >= JOB_CURSOR_MAX)
        return refuse_cursor(whole, err);
    const struct str body = {text.ptr, text.len - SUM_DIGITS - 1};
    struct str tail = {body.ptr + body.len + 1, SUM_DIGITS};
    if (text.ptr[body.len] != '-' || !read_number(&tail, &sum) || sum != sum_of(body))
        return refuse_cursor(whole, err);
    bool has_time = text.ptr[0] == ORDERS[ORDER_FINISHED];
    struct str rest = {body.ptr + 1, body.len - 1};
    const bool is_few = read_hint(&rest, LETTER_FEW), is_most = read_hint(&rest, LETTER_MOST);
    const bool is_rare = read_hint(&rest, LETTER_RARE);
    if (!read_number(&rest, &seq) || seq == 0 || has_time != (rest.len > 0))
        return refuse_cursor(whole, err);
    if (has_time) {
        rest = (struct str){rest.ptr + 1, rest.len - 1};
        if (!read_number(&rest, &ms) || rest.len > 0)
            return refuse_cursor(whole, err);
    }
    if (text.ptr[0] != ORDERS[filter->order]) {
        err_set(err, REDRIVE_E_INVALID, "the cursor belongs to another order");
        err_hint(err, "ask for the next page with the same options as for the first");
        return REDRIVE_E_INVALID;
    }
    filter->after_seq = seq;
    filter->after_ms = ms;
    filter->is_few = is_few;
    filter->is_most = is_most;
    filter->is_rare = is_rare;
    return 0;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

bool edge_page_add(struct edge_page *page, const struct job_edge *edge)
{
    struct job_edge *grown = page_grow(&page->arena, page->edges, page->n, sizeof *grown);
    if (!grown)
        return false;
    page->edges = grown;
    page->edges[page->n++] = *edge;
    return true;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_parent(const void *left, const void *right)
{
    const struct job_edge *a = left, *b = right;
    return a->parent != b->parent ? compare_numbers(a->parent, b->parent)
                                  : compare_numbers(a->child, b->child);
}

static int by_child(const void *left, const void *right)
{
    const struct job_edge *a = left, *b = right;
    return a->child != b->child ? compare_numbers(a->child, b->child)
                                : compare_numbers(a->parent, b->parent);
}

void edge_page_sort(struct edge_page *page, enum edge_side side)
{
    if (page->n > 1)
        qsort(page->edges, page->n, sizeof *page->edges,
              side == EDGES_TO_CHILDREN ? by_parent : by_child);
}

size_t edge_page_first(const struct edge_page *page, enum edge_side side, int64_t seq)
{
    size_t low = 0, high = page->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct job_edge *edge = &page->edges[middle];
        if ((side == EDGES_TO_CHILDREN ? edge->parent : edge->child) < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- Parents --------------------------------------------------------------------------------- */

bool parent_page_add(struct parent_page *page, const struct job_parent *parent)
{
    if (page->n == 0 || page->parents[page->n - 1].child != parent->child)
        page->n_of_last = page->bytes_of_last = 0;
    if (page->n_of_last == PARENTS_MAX)
        return true;
    struct job_parent *grown = page_grow(&page->arena, page->parents, page->n, sizeof *grown);
    if (!grown)
        return false;
    page->parents = grown;
    struct job_parent *own = &page->parents[page->n++];
    *own = *parent;
    own->is_omitted |= parent->result.len > PARENTS_BYTES - page->bytes_of_last;
    own->id = arena_str(&page->arena, parent->id);
    own->result = (struct str){0};
    if (!own->is_omitted && parent->result.len > 0)
        own->result = arena_str(&page->arena, parent->result);
    page->n_of_last++;
    page->bytes_of_last += own->result.len;
    return !page->arena.failed;
}

struct job_parent *parents_copy(const struct job_parent *parents, size_t n)
{
    size_t bytes = (n + 1) * sizeof *parents; /* never 0 */
    for (size_t i = 0; i < n; i++)
        bytes += parents[i].id.len + parents[i].result.len + 2;
    struct job_parent *own = malloc(bytes);
    if (!own)
        return NULL;
    char *at = (char *)(own + n + 1);
    for (size_t i = 0; i < n; i++) {
        own[i] = parents[i];
        own[i].id.ptr = str_pack(&at, parents[i].id);
        own[i].result.ptr = str_pack(&at, parents[i].result);
    }
    return own;
}
