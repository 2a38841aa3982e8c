#include "core/vocabulary.h"

#include "check.h"

#include "core/state.h"

TEST(every_word_finds_its_number)
{
    for (int v = 0; v < VOCABULARY_COUNT; v++) {
        size_t n;
        const char *const *words = vocabulary_words((enum vocabulary)v, &n);
        const int first = v == VOCABULARY_SEVERITY ? REDRIVE_SEVERITY_INFO : 0;
        assert_true(n > 0);
        for (int i = 0; i < (int)n; i++) {
            assert_int_equal(vocabulary_find((enum vocabulary)v, str_of(words[i])), first + i);
            assert_string_equal(vocabulary_word((enum vocabulary)v, first + i), words[i]);
        }
        assert_int_equal(vocabulary_find((enum vocabulary)v, STR("no such word")), -1);
        assert_string_equal(vocabulary_word((enum vocabulary)v, first - 1), "unknown");
        assert_string_equal(vocabulary_word((enum vocabulary)v, first + (int)n), "unknown");
    }
}

TEST(public_names_come_from_the_same_tables)
{
    assert_string_equal(redrive_class_name(REDRIVE_CLASS_RATE_LIMITED), "rate_limited");
    assert_string_equal(redrive_severity_name(REDRIVE_SEVERITY_INFO), "info");
    assert_string_equal(redrive_severity_name(REDRIVE_SEVERITY_CRITICAL), "critical");
    assert_string_equal(redrive_severity_name(REDRIVE_SEVERITY_OF_CLASS), "unknown");
    assert_string_equal(redrive_state_name(REDRIVE_STATE_DEAD_LETTER), "dead_letter");
    assert_string_equal(redrive_reason_name(REDRIVE_REASON_POISON), "poison");
    assert_string_equal(redrive_breaker_state_name(REDRIVE_BREAKER_HALF_OPEN), "half_open");
    assert_string_equal(redrive_on_open_name(REDRIVE_ON_OPEN_REJECT), "reject");
    assert_string_equal(redrive_strategy_name(REDRIVE_STRATEGY_POLYNOMIAL), "polynomial");
    assert_string_equal(redrive_jitter_name(REDRIVE_JITTER_DECORRELATED), "decorrelated");
}

TEST(classes_know_their_facts)
{
    assert_true(class_is_retried(REDRIVE_CLASS_RATE_LIMITED));
    assert_false(class_counts_for_breaker(REDRIVE_CLASS_RATE_LIMITED));
    assert_false(class_is_retried(REDRIVE_CLASS_AUTHENTICATION));
    assert_true(class_counts_for_breaker(REDRIVE_CLASS_AUTHENTICATION));
    assert_int_equal(class_severity(REDRIVE_CLASS_SYSTEM), REDRIVE_SEVERITY_ERROR);
}

/* The table as people read it, against the table as the code has it. */
TEST(jobs_make_these_moves_and_no_others)
{
    static const struct {
        const char *from;
        const char *to;
    } MOVES[] = {
        {"scheduled", "queued failed dead_letter cancelled"},
        {"retrying", "queued failed dead_letter cancelled"},
        {"queued", "running parked failed dead_letter cancelled"},
        {"running", "completed retrying failed dead_letter queued scheduled cancelled"},
        {"parked", "queued failed dead_letter cancelled"},
        {"completed", ""},
        {"failed", "queued waiting"},
        {"dead_letter", "queued waiting"},
        {"cancelled", ""},
        {"waiting", "queued scheduled failed dead_letter cancelled"},
    };
    for (int from = 0; from < REDRIVE_STATE_COUNT; from++) {
        assert_string_equal(redrive_state_name((enum redrive_state)from), MOVES[from].from);
        for (int to = 0; to < REDRIVE_STATE_COUNT; to++) {
            const char *word = redrive_state_name((enum redrive_state)to);
            bool listed = strstr(MOVES[from].to, word) != NULL;
            assert_int_equal(state_may_become((enum redrive_state)from, (enum redrive_state)to),
                             listed);
        }
        bool ended = from >= REDRIVE_STATE_COMPLETED && from <= REDRIVE_STATE_CANCELLED;
        assert_int_equal(state_has_ended((enum redrive_state)from), ended);
    }
}
