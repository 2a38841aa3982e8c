/* vocabulary.h - the words of include/redrive.h, to and from their numbers.
 *
 * One mechanism for all of its tables, so that parsers can list the words they accept and
 * suggest the nearest.
 */
#ifndef CORE_VOCABULARY_H
#define CORE_VOCABULARY_H

#include <stddef.h>

#include "base/text/str.h"
#include "redrive.h"

enum vocabulary {
    VOCABULARY_CLASS,
    VOCABULARY_SEVERITY,
    VOCABULARY_STATE,
    VOCABULARY_REASON,
    VOCABULARY_BREAKER_STATE,
    VOCABULARY_ON_OPEN,
    VOCABULARY_STRATEGY,
    VOCABULARY_JITTER,
    VOCABULARY_SOURCE,
    VOCABULARY_COUNT
};

/* The words in the order of their numbers, which begin with 0, and with 1 where 0 stands for none
 * (severities). */
const char *const *vocabulary_words(enum vocabulary which, size_t *ret_n);

/* The number of a word, or -1. */
int vocabulary_find(enum vocabulary which, struct str word);

/* The bits of words with commas between them, added to `mask`; the first `skip` words do not count.
 * False: one is unknown, and `ret_unknown` is it. */
bool vocabulary_mask(enum vocabulary which, size_t skip, struct str text, uint32_t *mask,
                     struct str *ret_unknown);

/* The word of a number, or "unknown". */
const char *vocabulary_word(enum vocabulary which, int number);

/* Facts of the class table. */
bool class_is_retried(enum redrive_class class_);
/* A failure of the job's own making: bad input, or work that can never be done. */
bool class_blames_the_job(enum redrive_class class_);
bool class_counts_for_breaker(enum redrive_class class_);
enum redrive_severity class_severity(enum redrive_class class_);

#endif
