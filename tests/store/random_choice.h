/* random_choice.h - what the verbs of a random transaction choose from, and how they tell of it:
 * for random_transaction.c and random_reads.c. */
#ifndef TESTS_STORE_RANDOM_CHOICE_H
#define TESTS_STORE_RANDOM_CHOICE_H

#include "check.h"
#include "random_transaction.h"

/* A slot, or a function like one. */
#define CALL(side, slot, ...) DO(side, store_ops((side)->store)->slot, __VA_ARGS__)
#define DO(side, function, ...)                                                     \
    do {                                                                            \
        struct redrive_err err_ = {0};                                              \
        int rc_ = function((side)->store, __VA_ARGS__, &err_);                      \
        if (rc_ < 0)                                                                \
            fail_msg("%s: %s; %s", #function, redrive_err_name(rc_), err_.message); \
    } while (0)

static inline uint64_t below(struct random_side *s, uint64_t limit)
{
    return rng_below(&s->rng, limit);
}

static inline bool one_in(struct random_side *s, uint64_t n)
{
    return below(s, n) == 0;
}

/* One of the words, or, one time in `n_words` + 1, none. */
static inline struct str word(struct random_side *s, const char *const *words, size_t n_words)
{
    size_t i = below(s, n_words + 1);
    return i < n_words ? str_of(words[i]) : (struct str){0};
}

static const char *const TENANTS[] = {"acme", "zeta"};
static const char *const QUEUES[] = {"main", "slow", "\xC3\xBC-1"};
static const char *const TASKS[] = {"mail", "resize"};

#define WORD(s, words)   word(s, words, sizeof(words) / sizeof((words)[0]))
#define CHOICE(s, words) str_of((words)[below(s, sizeof(words) / sizeof((words)[0]))])

static inline const struct random_job *any_job(struct random_side *s)
{
    static const struct random_job NONE = {1, "acme", "none"};
    size_t known = s->n_jobs < RANDOM_JOBS ? s->n_jobs : RANDOM_JOBS;
    return known > 0 ? &s->jobs[below(s, known)] : &NONE;
}

static inline int64_t any_seq(struct random_side *s)
{
    return any_job(s)->seq;
}

/* A seq is the store's own affair: told is which of the known jobs has it. */
static inline int place_of(const struct random_side *s, int64_t seq)
{
    for (size_t i = 0; i < RANDOM_JOBS && i < s->n_jobs; i++)
        if (s->jobs[i].seq == seq)
            return (int)i;
    return -1;
}

static inline void tell_page(struct random_side *s, const char *what)
{
    buf_printf(s->out, "%s:", what);
    for (size_t i = 0; i < s->page.n; i++)
        buf_printf(s->out, " %.*s", (int)s->page.jobs[i].spec.id.len, s->page.jobs[i].spec.id.ptr);
    buf_puts(s->out, s->page.more ? " …\n" : "\n");
}

/* In random_reads.c: lists by any filter, with groups; and after the moves of a transaction,
 * whether what each index gives is in a state that it may be in. */
void random_lists(struct random_side *side);
void random_late_reads(struct random_side *side);

#endif
