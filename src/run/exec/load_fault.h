/* load_fault.h - whether a program ended as one does that could not be loaded.
 *
 * The interpreter, the script or a module that it imports is missing or broken: a fault of the
 * deployment that every job would meet. The facts are those of one run, and a job can bring about
 * the same ones (a handler that starts a program named in the payload), so the answer is "likely";
 * pool/suspects.h tells the two apart.
 */
#ifndef RUN_EXEC_LOAD_FAULT_H
#define RUN_EXEC_LOAD_FAULT_H

#include <stdbool.h>

#include "redrive.h"

bool load_fault_is_likely(const struct redrive_failure *failure);

#endif
