/* policy.h - retry policies: defaults, profiles, checks.
 *
 * The type is struct redrive_policy of include/redrive.h. A policy that has passed
 * redrive_policy_check can be used by the rest of the core without further checks.
 */
#ifndef CORE_RETRY_POLICY_H
#define CORE_RETRY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"
#include "redrive.h"

struct policy_profile {
    const char *name;
    const char *summary;
    struct redrive_policy policy;
};

/* The named profiles, in the order in which they are listed to people. */
const struct policy_profile *policy_profiles(size_t *ret_n);

/* NULL when there is none of that name. */
const struct policy_profile *policy_profile_find(struct str name);

/* The defaults of the durable queue, which differ from those of redrive_policy_init: no total
 * time-out, jitter only where delays grow by a factor, dead letters kept for 30 days. */
void policy_init_queue(struct redrive_policy *policy);

/* Checks one backoff; `where` opens the messages ("on.network: "), "" for the policy's own. */
int backoff_check(const struct redrive_backoff *backoff, const char *where,
                  struct redrive_err *err);

/* How many retries a job may have when its last failure was of this class. */
int32_t policy_max_retries(const struct redrive_policy *policy, enum redrive_class class_);

/* The most attempts that there can be, whatever the classes of the failures are: what people and
 * handlers are shown. */
uint32_t policy_max_attempts(const struct redrive_policy *policy);

/* The backoff for a failure of this class. */
const struct redrive_backoff *policy_backoff(const struct redrive_policy *policy,
                                             enum redrive_class class_);

/* Whether a list names the class, or one of the types of the failure. */
bool policy_matches(const struct redrive_match *match, enum redrive_class class_,
                    const struct redrive_failure *failure);

/* ---- Retry-After ----------------------------------------------------------------------------- */

/* How long to wait from now on; false for anything that RFC 9110 does not allow. Dates are read in
 * all three forms that it asks a recipient to read; one in the past gives 0. Seconds beyond a
 * hundred years are taken as that. */
bool retry_after_parse(struct str value, int64_t now_ms, int64_t *ret_ms);

#endif
