/* What a rule makes of the state of a parent: the tables of core/after.h, written out by hand. */
#include "check.h"

#include "core/after.h"

#define WAITS AFTER_OPEN
#define MET   AFTER_MET
#define MISS  AFTER_MISSED

/* The states that a parent may end in, and `gone`: it was removed as a dead letter. */
static const struct {
    struct after_rule rule;
    enum after_outcome completed, dead, failed, cancelled, gone;
} TABLE[] = {
    {{AFTER_SUCCESS, AFTER_DEAD_WAIT}, MET, WAITS, WAITS, MISS, MISS},
    {{AFTER_SUCCESS, AFTER_DEAD_CANCEL}, MET, MISS, MISS, MISS, MISS},
    {{AFTER_SUCCESS, AFTER_DEAD_RUN}, MET, MET, MET, MET, MET},
    {{AFTER_END, AFTER_DEAD_WAIT}, MET, MET, MET, MET, MET},
    {{AFTER_END, AFTER_DEAD_CANCEL}, MET, MET, MET, MET, MET},
    {{AFTER_END, AFTER_DEAD_RUN}, MET, MET, MET, MET, MET},
    {{AFTER_FAILURE, AFTER_DEAD_WAIT}, MISS, MET, MET, MET, MET},
    {{AFTER_FAILURE, AFTER_DEAD_CANCEL}, MISS, MET, MET, MET, MET},
    {{AFTER_FAILURE, AFTER_DEAD_RUN}, MISS, MET, MET, MET, MET},
};
#define RULES (sizeof TABLE / sizeof TABLE[0])

TEST(every_rule_decides_every_end)
{
    assert_int_equal(RULES, AFTER_ON_COUNT * AFTER_DEAD_COUNT);
    for (size_t i = 0; i < RULES; i++) {
        const struct after_rule rule = TABLE[i].rule;
        assert_int_equal(after_decide(rule, REDRIVE_STATE_COMPLETED, false), TABLE[i].completed);
        assert_int_equal(after_decide(rule, REDRIVE_STATE_DEAD_LETTER, false), TABLE[i].dead);
        assert_int_equal(after_decide(rule, REDRIVE_STATE_FAILED, false), TABLE[i].failed);
        assert_int_equal(after_decide(rule, REDRIVE_STATE_CANCELLED, false), TABLE[i].cancelled);
        assert_int_equal(after_decide(rule, REDRIVE_STATE_DEAD_LETTER, true), TABLE[i].gone);
    }
}

TEST(rule_is_open_while_the_parent_lives)
{
    static const enum redrive_state LIVE[] = {REDRIVE_STATE_SCHEDULED, REDRIVE_STATE_RETRYING,
                                              REDRIVE_STATE_QUEUED,    REDRIVE_STATE_RUNNING,
                                              REDRIVE_STATE_PARKED,    REDRIVE_STATE_WAITING};
    for (size_t i = 0; i < RULES; i++)
        for (size_t k = 0; k < sizeof LIVE / sizeof LIVE[0]; k++)
            assert_int_equal(after_decide(TABLE[i].rule, LIVE[k], false), AFTER_OPEN);
}

TEST(words_and_numbers_lead_back)
{
    for (size_t i = 0; i < RULES; i++) {
        const struct after_rule rule = TABLE[i].rule;
        const struct after_rule again = after_rule_numbered(after_rule_number(rule));
        enum after_on on;
        enum after_dead on_dead;
        assert_int_equal(again.on, rule.on);
        assert_int_equal(again.on_dead, rule.on_dead);
        assert_true(after_on_find(str_of(after_on_name(rule.on)), &on));
        assert_true(after_dead_find(str_of(after_dead_name(rule.on_dead)), &on_dead));
        assert_int_equal(on, rule.on);
        assert_int_equal(on_dead, rule.on_dead);
    }
    for (int i = 0; i < AFTER_OUTCOME_COUNT; i++)
        assert_int_equal(after_outcome_numbered(i), i);
    assert_string_equal(after_outcome_name(AFTER_MISSED), "missed");
}

TEST(what_is_none_of_them_is_said_or_harmless)
{
    static const int64_t NUMBERS[] = {-1, AFTER_ON_COUNT * AFTER_DEAD_COUNT, INT64_MAX, INT64_MIN};
    enum after_on on;
    enum after_dead on_dead;
    assert_false(after_on_find(STR("succes"), &on));
    assert_false(after_dead_find(STR(""), &on_dead));
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        assert_int_equal(after_rule_number(after_rule_numbered(NUMBERS[i])), 0);
        assert_int_equal(after_outcome_numbered(NUMBERS[i]), AFTER_OPEN);
    }
}
