/* random_reads.c - what a random transaction reads beside the jobs that it moves. */
#include "random_choice.h"

#include <inttypes.h>

#define LIST_MAX 12

/* The jobs of the page are found by their names, or by their seqs, whatever the transaction has
 * done to them. */
static void look_up_page(struct random_side *s)
{
    struct job_name names[LIST_MAX];
    int64_t seqs[LIST_MAX];
    struct job_page found = {0};
    for (size_t i = 0; i < s->page.n; i++) {
        names[i] = (struct job_name){s->page.jobs[i].spec.tenant, s->page.jobs[i].spec.id};
        seqs[i] = s->page.jobs[i].status.seq;
    }
    if (one_in(s, 2))
        CALL(s, lookup, names, s->page.n, &found);
    else
        CALL(s, find, seqs, s->page.n, &found);
    assert_int_equal(found.n, s->page.n);
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.jobs[i].status.seq, s->page.jobs[i].status.seq);
        assert_int_equal(found.jobs[i].status.state, s->page.jobs[i].status.state);
    }
    job_page_release(&found);
}

static void tell_groups(struct random_side *s, struct job_filter filter)
{
    struct group_page page = {0};
    filter.after_seq = filter.until_seq = filter.after_ms = 0;
    CALL(s, groups, &filter, &page);
    buf_puts(s->out, "groups:");
    for (size_t i = 0; i < page.n; i++)
        buf_printf(s->out, " %" PRIu64 " %.*s", page.groups[i].count,
                   (int)page.groups[i].example.spec.id.len, page.groups[i].example.spec.id.ptr);
    buf_puts(s->out, "\n");
    group_page_release(&page);
}

static void list_by_filter(struct random_side *s)
{
    const struct job_filter filter = {
        .tenant = WORD(s, TENANTS),
        .task = WORD(s, TASKS),
        .queue = WORD(s, QUEUES),
        .user = one_in(s, 3) ? CHOICE(s, TASKS) : (struct str){0},
        .states = one_in(s, 2) ? (uint32_t)below(s, 1u << REDRIVE_STATE_COUNT) : 0,
        .classes = one_in(s, 3) ? (uint32_t)below(s, 1u << REDRIVE_CLASS_COUNT) : 0,
        .reasons = one_in(s, 4) ? (uint32_t)below(s, 1u << REDRIVE_REASON_COUNT) : 0,
        .error_type = one_in(s, 4) ? CHOICE(s, TASKS) : (struct str){0},
        .text = one_in(s, 4) ? STR("a") : (struct str){0},
        .finished_after_ms = one_in(s, 4) ? s->now_ms - 4000 : 0,
        .finished_before_ms = one_in(s, 4) ? s->now_ms - 1000 : 0,
        .order = (enum job_order)below(s, ORDER_FINISHED + 1),
        .after_seq = one_in(s, 2) ? any_seq(s) : 0,
        .after_ms = s->now_ms - (int64_t)below(s, 5000),
        .until_seq = one_in(s, 4) ? any_seq(s) : 0,
        .is_few = one_in(s, 2), /* hints: they change nothing */
        .is_most = one_in(s, 2),
        .is_rare = one_in(s, 2),
        .limit = 1 + below(s, LIST_MAX),
    };
    CALL(s, list, &filter, &s->page);
    tell_page(s, "list");
    look_up_page(s);
    if (one_in(s, 2))
        tell_groups(s, filter);
}

void random_lists(struct random_side *s)
{
    for (int i = 0; i < 4; i++)
        list_by_filter(s);
}

/* Whatever the transaction has done, what an index gives is in that state. */
static void check_given(struct random_side *s, uint32_t states)
{
    for (size_t i = 0; i < s->page.n; i++) {
        const int at = place_of(s, s->page.jobs[i].status.seq);
        if (at < 0)
            continue; /* its name is no longer known */
        const struct job_name name = {str_of(s->jobs[at].tenant), str_of(s->jobs[at].id)};
        struct job_page found = {0};
        CALL(s, lookup, &name, 1, &found);
        assert_int_equal(found.n, 1);
        assert_int_equal(found.jobs[0].status.seq, s->jobs[at].seq);
        assert_true(states >> found.jobs[0].status.state & 1);
        job_page_release(&found);
    }
}

void random_late_reads(struct random_side *s)
{
    const struct claim_filter all = {.limit = 20};
    const uint32_t locked = 1u << REDRIVE_STATE_SCHEDULED | 1u << REDRIVE_STATE_RETRYING,
                   queued = 1u << REDRIVE_STATE_QUEUED, parked = 1u << REDRIVE_STATE_PARKED,
                   ended = (2u << REDRIVE_STATE_CANCELLED) - (1u << REDRIVE_STATE_COMPLETED),
                   waiting = 1u << REDRIVE_STATE_WAITING;
    const struct scan scans[] = {
        {.index = SCAN_DUE, .limit = 20},
        {.index = SCAN_LEASES, .limit = 20},
        {.index = SCAN_DEADLINES, .limit = 20},
        {.index = SCAN_PARKED_OLDEST, .limit = 20, .tenant = STR("acme"), .name = STR("l1")},
        {.index = SCAN_READY, .limit = 20, .tenant = STR("acme"), .name = STR("main")},
        {SCAN_FINISHED, 20, .states = ~0u, .before_ms = INT64_MAX},
    };
    const uint32_t states[] = {
        locked, 1u << REDRIVE_STATE_RUNNING, locked | queued | parked | waiting, parked, queued,
        ended};
    CALL(s, ready, &all, &s->page);
    check_given(s, queued);
    for (size_t i = 0; i < sizeof scans / sizeof scans[0]; i++) {
        struct scan scan = scans[i];
        CALL(s, scan, &scan, &s->page);
        check_given(s, states[i]);
    }
}
