/* policy_copy.h - a copy of a policy that borrows nothing. */
#ifndef LIB_HANDLER_POLICY_COPY_H
#define LIB_HANDLER_POLICY_COPY_H

#include "redrive.h"

/* Copies the policy with its rules and lists into one block, which free() frees; contexts of
 * custom strategies stay borrowed. NULL when memory is out. */
struct redrive_policy *policy_copy(const struct redrive_policy *policy);

#endif
