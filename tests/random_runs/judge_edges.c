/* judge_edges.c - whether jobs wait for others as they were asked to: invariants 13 to 16.
 *
 * The rules are written down here once more, from docs/workflows.md: the judge shares no code with
 * what it judges.
 */
#include <stdio.h>
#include <string.h>

#include "judge.h"

#define BIT(state) (1u << REDRIVE_STATE_##state)
#define DEAD       (BIT(DEAD_LETTER) | BIT(FAILED))
#define ENDED      (DEAD | BIT(COMPLETED) | BIT(CANCELLED))
#define GONE       (1u << 31)

static bool is_live(enum redrive_state state)
{
    return (ENDED & 1u << state) == 0;
}

/* What an end of the parent means; `end` is one bit. */
static enum waiting_for meaning(struct after_rule rule, unsigned end)
{
    const bool fails = (end & BIT(COMPLETED)) == 0;
    switch (rule.on) {
    case AFTER_END: return ALLOWED;
    case AFTER_FAILURE: return fails ? ALLOWED : FORBIDDEN;
    case AFTER_SUCCESS:
    default: break;
    }
    if (!fails || rule.on_dead == AFTER_DEAD_RUN)
        return ALLOWED;
    return rule.on_dead == AFTER_DEAD_WAIT && (end & DEAD) != 0 ? AWAITED : FORBIDDEN;
}

/* ---- The parent ------------------------------------------------------------------------------ */

/* The ends that the parent may have had in the last step, or has. */
static unsigned ends_of(const struct known *parent, bool is_there)
{
    if (!parent)
        return GONE;
    unsigned ends = parent->ends;
    if (!is_there)
        return ends | GONE | (parent->was_there ? ENDED : 0);
    if (!is_live(parent->state))
        ends |= 1u << parent->state;
    if (parent->is_redriven_now)
        ends |= DEAD;
    return ends;
}

static bool can_mean(struct after_rule rule, unsigned ends, enum waiting_for outcome)
{
    for (unsigned bit = 0; bit < 32; bit++)
        if ((ends & 1u << bit) != 0 && meaning(rule, 1u << bit) == outcome)
            return true;
    return false;
}

/* Whether the store has a row of it now. */
static bool has_row(const struct job *jobs, size_t n, int64_t seq)
{
    for (size_t i = 0; i < n; i++)
        if (jobs[i].status.seq == seq)
            return true;
    return false;
}

static void check_decision(struct judge *judge, const struct known *child,
                           const struct known_edge *edge, enum waiting_for now, unsigned ends,
                           const struct known *parent)
{
    const char *state = parent ? redrive_state_name(parent->state) : "gone";
    if (edge->outcome != AWAITED && now != edge->outcome)
        judge_complain(judge, 14, "the edge from %s to %s was decided, and is changed",
                       edge->parent, child->id);
    if (edge->outcome == AWAITED && now != AWAITED && !can_mean(edge->rule, ends, now))
        judge_complain(judge, 13, "the edge from %s (%s) to %s is %s", edge->parent, state,
                       child->id, now == ALLOWED ? "met" : "missed");
}

static bool has_words(struct str text, const char *words)
{
    return text.len > 0 && memmem(text.ptr, text.len, words, strlen(words)) != NULL;
}

/* Whether a skipped parent is noted in the store, because its children are decided later. */
static bool is_noted(const struct judge *judge, const struct known *parent)
{
    char name[JUDGE_ID_MAX + 2];
    (void)snprintf(name, sizeof name, "\"%s\"", parent->id);
    for (size_t i = 0; parent->state == REDRIVE_STATE_CANCELLED && i < judge->notes.n; i++)
        if (has_words(judge->notes.rows[i].value, name))
            return true;
    return false;
}

/* An edge that is open: the parent may still end, or may be redriven. */
static void check_open(struct judge *judge, const struct known *child,
                       const struct known_edge *edge, const struct known *parent, bool is_there)
{
    if (child->state == REDRIVE_STATE_CANCELLED)
        return;
    if (!is_there)
        judge_complain(judge, 15, "%s waits for %s, which is gone", child->id, edge->parent);
    else if (parent && !is_live(parent->state) &&
             meaning(edge->rule, 1u << parent->state) != AWAITED && !is_noted(judge, parent))
        judge_complain(judge, 15, "%s waits for %s, which is %s", child->id, edge->parent,
                       redrive_state_name(parent->state));
}

/* ---- The child ------------------------------------------------------------------------------- */

/* A job that says that it was skipped: because of a parent that did end so. */
static void check_skipped(struct judge *judge, const struct known *child, const struct job *job)
{
    const struct job_status *s = &job->status;
    bool is_named = false;
    for (size_t i = 0; i < child->n_after; i++) {
        char name[JUDGE_ID_MAX + 2];
        (void)snprintf(name, sizeof name, "'%s'", child->after[i].parent);
        is_named |=
            child->after[i].outcome == FORBIDDEN && has_words(s->error.message, name) &&
            has_words(s->error.message, "completed") == (child->after[i].rule.on == AFTER_FAILURE);
    }
    if (s->state != REDRIVE_STATE_CANCELLED || !str_is(s->error.type, "ParentEnded"))
        judge_complain(judge, 16, "%s was skipped, and is %s without its error", child->id,
                       redrive_state_name(s->state));
    else if (!is_named)
        judge_complain(judge, 16, "%s was skipped because of no parent of its own: %.*s", child->id,
                       (int)s->error.message.len, s->error.message.ptr);
    if (s->attempts != 0 && child->was == REDRIVE_STATE_WAITING)
        judge_complain(judge, 16, "%s was skipped with %u attempts", child->id, s->attempts);
}

static void check_child(struct judge *judge, const struct known *child, const struct job *job)
{
    const enum redrive_state state = child->state;
    size_t open = 0, missed = 0;
    for (size_t i = 0; i < child->n_after; i++) {
        open += child->after[i].outcome == AWAITED;
        missed += child->after[i].outcome == FORBIDDEN;
    }
    if (state != REDRIVE_STATE_CANCELLED && open != child->open)
        judge_complain(judge, 15, "%s counts %u open parents, %zu are", child->id, child->open,
                       open);
    if (state == REDRIVE_STATE_WAITING && open == 0)
        judge_complain(judge, 15, "%s waits, but for no job", child->id);
    if (is_live(state) && state != REDRIVE_STATE_WAITING && open > 0)
        judge_complain(judge, 13, "%s is %s, but a parent has not ended", child->id,
                       redrive_state_name(state));
    if (is_live(state) && missed > 0 && !child->ended_waiting)
        judge_complain(judge, 13, "%s is %s, but a parent has not ended as it must", child->id,
                       redrive_state_name(state));
    if (state == REDRIVE_STATE_WAITING && child->was != REDRIVE_STATE_COUNT &&
        child->was != REDRIVE_STATE_WAITING && child->epoch == child->was_in)
        judge_complain(judge, 14, "%s waits again, was %s", child->id,
                       redrive_state_name(child->was));
    if (state == REDRIVE_STATE_CANCELLED && missed > 0 && !child->ended_waiting &&
        child->was != REDRIVE_STATE_CANCELLED && (child->ends & BIT(CANCELLED)) == 0 &&
        job->status.reason != REDRIVE_REASON_SKIPPED)
        judge_complain(judge, 16, "%s was cancelled without a word, a parent has ended", child->id);
    if (job->status.reason == REDRIVE_REASON_SKIPPED)
        check_skipped(judge, child, job);
}

/* ---- What was asked for ---------------------------------------------------------------------- */

void judge_stands_for(struct judge *judge, struct known *child, const char *name, struct str other)
{
    for (size_t i = 0; i < child->n_after; i++)
        if (strcmp(child->after[i].parent, name) == 0)
            (void)snprintf(child->after[i].parent, JUDGE_ID_MAX, "%.*s", (int)other.len, other.ptr);
    for (size_t i = 0; i < child->n_after; i++)
        for (size_t k = i + 1; k < child->n_after; k++)
            if (strcmp(child->after[i].parent, child->after[k].parent) == 0)
                judge_complain(judge, 15, "%s was taken in, and waits for %s twice", child->id,
                               child->after[i].parent);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The edge of a child that leads to this parent. A parent of the same request whose unique key
 * another job held is not there: the edge leads to that job, and its name is learnt here if the
 * answer was lost. */
static struct known_edge *edge_from(struct judge *judge, struct known *child,
                                    const struct known *parent, int64_t seq)
{
    for (size_t i = 0; i < child->n_after; i++)
        if (child->after[i].parent_seq == seq)
            return &child->after[i];
    for (size_t i = 0; parent && i < child->n_after; i++)
        if (child->after[i].parent_seq == 0 && strcmp(child->after[i].parent, parent->id) == 0)
            return &child->after[i];
    for (size_t i = 0; parent && parent->key[0] != '\0' && i < child->n_after; i++) {
        const struct known *named = judge_find(judge, str_of(child->after[i].parent));
        if (child->after[i].parent_seq != 0 || (named && named->was_there) ||
            (named && strcmp(named->key, parent->key) != 0))
            continue;
        memcpy(child->after[i].parent, parent->id, JUDGE_ID_MAX);
        return &child->after[i];
    }
    return NULL;
}

static struct known *known_by_seq(struct judge *judge, int64_t seq)
{
    for (size_t i = 0; i < judge->n; i++)
        if (judge->jobs[i].was_there && judge->jobs[i].seq == seq)
            return &judge->jobs[i];
    return NULL;
}

static void look_at_edge(struct judge *judge, struct known *child, const struct job_edge *row,
                         const struct job *jobs, size_t n)
{
    const struct known *parent = known_by_seq(judge, row->parent);
    struct known_edge *edge = edge_from(judge, child, parent, row->parent);
    const enum waiting_for now = row->outcome == AFTER_MET      ? ALLOWED
                                 : row->outcome == AFTER_MISSED ? FORBIDDEN
                                                                : AWAITED;
    if (!edge) {
        judge_complain(judge, 15, "%s waits for job %lld, which it was not asked to", child->id,
                       (long long)row->parent);
        return;
    }
    const bool is_there = has_row(jobs, n, row->parent);
    edge->parent_seq = row->parent;
    if (row->rule.on != edge->rule.on || row->rule.on_dead != edge->rule.on_dead)
        judge_complain(judge, 15, "the edge from %s to %s has another rule", edge->parent,
                       child->id);
    check_decision(judge, child, edge, now, ends_of(parent, is_there), parent);
    edge->outcome = now;
    if (now == AWAITED)
        check_open(judge, child, edge, parent, is_there);
}

static void look_at_child(struct judge *judge, struct known *child, const struct job *job,
                          const struct edge_page *edges, const struct job *jobs, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < edges->n; i++)
        if (edges->edges[i].child == child->seq) {
            found++;
            look_at_edge(judge, child, &edges->edges[i], jobs, n);
        }
    if (found != child->n_after)
        judge_complain(judge, 15, "%s has %zu edges, %zu were asked for", child->id, found,
                       child->n_after);
    if ((child->was == REDRIVE_STATE_WAITING || child->was == REDRIVE_STATE_COUNT ||
         child->is_redriven_now) &&
        (child->state == REDRIVE_STATE_DEAD_LETTER || child->state == REDRIVE_STATE_FAILED))
        child->ended_waiting = true;
    check_child(judge, child, job);
}

/* The end of a parent looks at its children only if its row says that it has some. */
static void check_parents(struct judge *judge, const struct edge_page *edges,
                          const struct job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t children = 0;
        for (size_t k = 0; k < edges->n; k++)
            children += edges->edges[k].parent == jobs[i].status.seq;
        if (children > jobs[i].status.children)
            judge_complain(judge, 15, "%.*s counts %u children, %zu wait for it",
                           (int)jobs[i].spec.id.len, jobs[i].spec.id.ptr, jobs[i].status.children,
                           children);
    }
}

void judge_edges(struct judge *judge, struct store *eye, const struct job *jobs, size_t n)
{
    int64_t seqs[STORE_PAGE_MAX] = {0};
    struct edge_page edges = {0};
    for (size_t i = 0; i < n && i < STORE_PAGE_MAX; i++)
        seqs[i] = jobs[i].status.seq;
    if (store_ops(eye)->edges(eye, EDGES_FROM_PARENTS, seqs, n, &edges, NULL) != 0 ||
        store_ops(eye)->shared_list(eye, SHARED_CANCEL, (struct str){0}, &judge->notes, NULL) !=
            0) {
        judge_complain(judge, 15, "the edges cannot be read");
        edge_page_release(&edges);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct known *child = judge_find_seq(judge, jobs[i].status.seq);
        if (child)
            look_at_child(judge, child, &jobs[i], &edges, jobs, n);
    }
    check_parents(judge, &edges, jobs, n);
    shared_page_release(&judge->notes);
    edge_page_release(&edges);
}

bool judge_is_held_up(struct judge *judge, const struct known *known)
{
    for (size_t i = 0; known->state == REDRIVE_STATE_WAITING && i < known->n_after; i++) {
        const struct known_edge *edge = &known->after[i];
        const struct known *parent =
            edge->outcome == AWAITED ? known_by_seq(judge, edge->parent_seq) : NULL;
        if (parent && ((DEAD & 1u << parent->state) != 0 || judge_is_held_up(judge, parent)))
            return true;
    }
    return false;
}

bool judge_is_needed(const struct judge *judge, const struct known *known)
{
    for (size_t i = 0; i < judge->n; i++) {
        const struct known *child = &judge->jobs[i];
        if (!child->was_there || !is_live(child->state) || child->was == REDRIVE_STATE_COUNT ||
            !is_live(child->was) || child->epoch != child->was_in)
            continue;
        for (size_t k = 0; k < child->n_after; k++)
            if (child->after[k].parent_seq == known->seq)
                return true;
    }
    return false;
}
