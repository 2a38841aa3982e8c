/* What the section `experiments` of a good file becomes. */
#include "sandbox.h"

static const struct config_task *task(const struct sandbox *s, const char *name)
{
    const struct config_task *found = config_task(s->config, str_of(name));
    assert_string_equal(found->name, name);
    return found;
}

SANDBOX_TEST(an_arm_changes_the_policy_of_its_task)
{
    const struct config *c = sandbox_good(
        s, "experiments:\n"
           "  patience:\n"
           "    task: call\n"
           "    arms:\n"
           "      control: {share: 0.25}\n"
           "      slow: {share: 0.5, retry: {initial_delay: 30s}, on: {database: {max_retries: "
           "9}}}\n"
           "      records: {share: 0.25, retry: {profile: records}}\n"
           "tasks:\n"
           "  mail:\n"
           "  call: {retry: {max_retries: 3, initial_delay: 2s}, on: {network: {initial_delay: "
           "4s}}}\n");
    assert_int_equal(c->n_experiments, 1);
    const struct experiment *x = &c->experiments[0];
    assert_ptr_equal(task(s, "call")->experiment, x);
    assert_null(task(s, "mail")->experiment);
    assert_null(c->undeclared.experiment);
    assert_string_equal(x->name, "patience");
    assert_string_equal(x->task, "call");
    assert_int_equal(x->n_arms, 3);
    const struct arm *control = &x->arms[0], *slow = &x->arms[1], *records = &x->arms[2];
    assert_true(control->share == 0.25 && slow->share == 0.5);
    assert_int_equal(control->policy.backoff.initial_delay_ms, 2000);
    assert_int_equal(control->policy.on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 4000);
    assert_int_equal(control->max_attempts, 4);
    assert_int_equal(slow->policy.backoff.initial_delay_ms, 30000);
    assert_int_equal(slow->policy.max_retries, 3);
    assert_int_equal(slow->policy.on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 4000);
    assert_int_equal(slow->max_attempts, 10); /* for database */
    assert_null(task(s, "call")->retry.on[REDRIVE_CLASS_DATABASE]);
    assert_int_equal(records->policy.backoff.initial_delay_ms, 120000);
    /* What jobs keep is the whole policy, whatever the task's is by then. */
    assert_non_null(strstr(slow->members, "\"experiment\":\"patience/slow\",\"strategy\":"));
    assert_non_null(strstr(slow->members, "\"on\":{\"network\":"));
    struct redrive_policy other = c->defaults.retry;
    struct config_part *box = NULL;
    char kept[4096];
    other.max_retries = 77;
    other.retry_on.classes = 1u << REDRIVE_CLASS_DATABASE;
    snprintf(kept, sizeof kept, "{%s", control->members);
    assert_int_equal(policy_parse_kept(str_of(kept), &other, &box, NULL), 0);
    assert_int_equal(box->policy.max_retries, 3);
    assert_int_equal(box->policy.backoff.initial_delay_ms, 2000);
    assert_int_equal(box->policy.retry_on.classes, 0);
    assert_int_equal(box->policy.on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 4000);
    config_part_free(box);
    /* A policy of the job's own is on top of the task's. */
    box = NULL;
    assert_int_equal(policy_parse_kept(STR("{\"initial_delay\":\"9s\"}"), &other, &box, NULL), 0);
    assert_int_equal(box->policy.max_retries, 77);
    config_part_free(box);
}
