/* vocabulary.c - the tables of words. */
#include "core/vocabulary.h"

#define WORD2(name, text)                  text,
#define WORD5(name, text, retried, cnt, s) text,

static const char *const CLASSES[] = {REDRIVE_CLASS_MAP(WORD5)};
static const char *const SEVERITIES[] = {REDRIVE_SEVERITY_MAP(WORD2)};
static const char *const STATES[] = {REDRIVE_STATE_MAP(WORD2)};
static const char *const REASONS[] = {REDRIVE_REASON_MAP(WORD2)};
static const char *const BREAKER_STATES[] = {REDRIVE_BREAKER_STATE_MAP(WORD2)};
static const char *const ON_OPENS[] = {REDRIVE_ON_OPEN_MAP(WORD2)};
static const char *const STRATEGIES[] = {REDRIVE_STRATEGY_MAP(WORD2)};
static const char *const JITTERS[] = {REDRIVE_JITTER_MAP(WORD2)};
static const char *const SOURCES[] = {REDRIVE_SOURCE_MAP(WORD2)};

#define WORDS_FROM(first, array)                     \
    {                                                \
        array, sizeof array / sizeof array[0], first \
    }
#define WORDS(array) WORDS_FROM(0, array)

static const struct {
    const char *const *words;
    size_t n;
    int first; /* the number of the first word */
} VOCABULARIES[] = {
    [VOCABULARY_CLASS] = WORDS(CLASSES),
    [VOCABULARY_SEVERITY] = WORDS_FROM(REDRIVE_SEVERITY_INFO, SEVERITIES),
    [VOCABULARY_STATE] = WORDS(STATES),
    [VOCABULARY_REASON] = WORDS(REASONS),
    [VOCABULARY_BREAKER_STATE] = WORDS(BREAKER_STATES),
    [VOCABULARY_ON_OPEN] = WORDS(ON_OPENS),
    [VOCABULARY_STRATEGY] = WORDS(STRATEGIES),
    [VOCABULARY_JITTER] = WORDS(JITTERS),
    [VOCABULARY_SOURCE] = WORDS(SOURCES),
};

const char *const *vocabulary_words(enum vocabulary which, size_t *ret_n)
{
    *ret_n = VOCABULARIES[which].n;
    return VOCABULARIES[which].words;
}

int vocabulary_find(enum vocabulary which, struct str word)
{
    for (size_t i = 0; i < VOCABULARIES[which].n; i++)
        if (str_is(word, VOCABULARIES[which].words[i]))
            return VOCABULARIES[which].first + (int)i;
    return -1;
}

bool vocabulary_mask(enum vocabulary which, size_t skip, struct str text, uint32_t *mask,
                     struct str *ret_unknown)
{
    for (;;) {
        const char *comma = text.len > 0 ? memchr(text.ptr, ',', text.len) : NULL;
        const struct str word = {text.ptr, comma ? (size_t)(comma - text.ptr) : text.len};
        const int number = vocabulary_find(which, word);
        *ret_unknown = word;
        if (number < 0 || (size_t)number < skip)
            return false;
        *mask |= 1u << number;
        if (!comma)
            return true;
        text = (struct str){comma + 1, text.len - word.len - 1};
    }
}

const char *vocabulary_word(enum vocabulary which, int number)
{
    const int first = VOCABULARIES[which].first;
    if (number < first || (size_t)(number - first) >= VOCABULARIES[which].n)
        return "unknown";
    return VOCABULARIES[which].words[number - first];
}

static const struct {
    bool retried;
    bool counts;
    enum redrive_severity severity;
} CLASS_FACTS[] = {
#define XX(name, text, retried, counts, severity) {retried, counts, REDRIVE_SEVERITY_##severity},
    REDRIVE_CLASS_MAP(XX)
#undef XX
};

bool class_is_retried(enum redrive_class class_)
{
    return CLASS_FACTS[class_].retried;
}

bool class_blames_the_job(enum redrive_class class_)
{
    return class_ == REDRIVE_CLASS_PERMANENT || class_ == REDRIVE_CLASS_VALIDATION;
}

bool class_counts_for_breaker(enum redrive_class class_)
{
    return CLASS_FACTS[class_].counts;
}

enum redrive_severity class_severity(enum redrive_class class_)
{
    return CLASS_FACTS[class_].severity;
}

#define NAME_OF(function, type, words)              \
    const char *function(type number)               \
    {                                               \
        return vocabulary_word(words, (int)number); \
    }
NAME_OF(redrive_class_name, enum redrive_class, VOCABULARY_CLASS)
NAME_OF(redrive_severity_name, enum redrive_severity, VOCABULARY_SEVERITY)
NAME_OF(redrive_state_name, enum redrive_state, VOCABULARY_STATE)
NAME_OF(redrive_reason_name, enum redrive_reason, VOCABULARY_REASON)
NAME_OF(redrive_breaker_state_name, enum redrive_breaker_state, VOCABULARY_BREAKER_STATE)
NAME_OF(redrive_on_open_name, enum redrive_on_open, VOCABULARY_ON_OPEN)
NAME_OF(redrive_strategy_name, enum redrive_strategy, VOCABULARY_STRATEGY)
NAME_OF(redrive_jitter_name, enum redrive_jitter_mode, VOCABULARY_JITTER)
