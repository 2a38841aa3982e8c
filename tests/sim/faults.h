/* faults.h - what goes wrong in random worlds, and what is true of it.
 *
 * The class of each fault, and which of them a pattern matches, is written down here by hand from
 * the documented table: it is what the classification and the lists are held against.
 */
#ifndef TESTS_SIM_FAULTS_H
#define TESTS_SIM_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "redrive.h"

struct fault {
    struct redrive_failure failure; /* the message names the fault */
    enum redrive_class class_;
    uint32_t patterns; /* bit 1u << number of each of FAULT_PATTERNS that matches its type */
    bool is_crash;
};

#define FAULT_N_PATTERNS 4
extern const char *const FAULT_PATTERNS[FAULT_N_PATTERNS];

/* Those that a service may be given come first; the simulator's own follow. */
extern const struct fault FAULTS[];
extern const size_t FAULTS_OF_SERVICES;
extern const size_t FAULTS_COUNT;

/* The fault with this message, or NULL. */
const struct fault *fault_find(const char *message);

#endif
