/* pattern.h - a pattern with `*` and `?` over the text of a job.
 *
 * A client chooses both the pattern and the texts, and the committer's thread compares them. So a
 * pattern has a maximum, and the time to compare depends on the length of the text alone. All ways
 * in which the pattern may fit are followed through the text together, a bit for each.
 */
#ifndef SERVER_FAKTORY_FORMAT_PATTERN_H
#define SERVER_FAKTORY_FORMAT_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"

#define FAKTORY_PATTERN_MAX   255
#define FAKTORY_PATTERN_WORDS 4

struct faktory_pattern {
    uint64_t accepts[256][FAKTORY_PATTERN_WORDS]; /* bit i: the i-th sign may be this byte */
    uint64_t stays[FAKTORY_PATTERN_WORDS];        /* bit i: there is a `*` before the i-th sign */
    unsigned n;                                   /* signs, not counting `*` */
    unsigned n_words;                             /* that the bits 0 … n need */
};

/* As Redis has it: `*` is any run of bytes, `?` any byte, `[a-z]` one of these and `[^a-z]` none of
 * them, and a byte behind `\` stands for itself. False: it is longer than FAKTORY_PATTERN_MAX. */
bool faktory_pattern_init(struct faktory_pattern *pattern, struct str text);

/* Whether it fits the whole of the text. */
bool faktory_pattern_fits(const struct faktory_pattern *pattern, struct str text);

#endif
