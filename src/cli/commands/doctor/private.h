/* private.h - what `redrive doctor` looks at, and what it has found.
 *
 * A check adds one finding or several. Nothing but repair.c changes the store: it is opened as it
 * is, and one temporary file is written and removed beside it to time the disk.
 */
#ifndef CLI_COMMANDS_DOCTOR_PRIVATE_H
#define CLI_COMMANDS_DOCTOR_PRIVATE_H

#include <stddef.h>

#include "cli/frame/cli.h"
#include "config/config.h"
#include "store/store.h"

enum health_level {
    DOCTOR_OK,
    DOCTOR_WARN,
    DOCTOR_FAIL,
};

#define DOCTOR_TEXT_MAX     320
#define DOCTOR_MAX_FINDINGS 100

struct finding {
    enum health_level level;
    const char *check; /* a literal */
    char text[DOCTOR_TEXT_MAX];
    char hint[DOCTOR_TEXT_MAX];
};

struct doctor {
    struct cli *cli;
    struct config *config;    /* NULL: it could not be loaded */
    struct store *store;      /* NULL: it could not be opened */
    struct store_facts facts; /* of the store */
    bool is_current;          /* the store has the schema of this program, and can be read */
    int64_t now_ms;
    struct finding findings[DOCTOR_MAX_FINDINGS];
    size_t n;
    struct store_repaired repaired; /* by --repair */
    const char *aside;              /* the file that has the jobs; NULL: none was set aside */
    size_t repair_finding;          /* the finding about it, counted from 1; 0: none */
};

/* ---- host.c: findings, and the machine around the store -------------------------------------- */

/* Adds a finding; those that do not fit are left out. */
void doctor_say(struct doctor *d, enum health_level level, const char *check, const char *format,
                ...) __attribute__((format(printf, 4, 5)));
/* Adds a hint to the last one. */
void doctor_hint(struct doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An error as a finding. */
void doctor_blame(struct doctor *d, const char *check, const struct redrive_err *why);

void doctor_check_disk(struct doctor *d);
void doctor_check_zones(struct doctor *d);
void doctor_check_limits(struct doctor *d);
void doctor_check_programs(struct doctor *d);
void doctor_check_tls(struct doctor *d);
void doctor_check_secrets(struct doctor *d);

/* ---- repair.c -------------------------------------------------------------------------------- */

/* Sets damaged jobs aside, in this file; one finding says what was done. */
void doctor_repair(struct doctor *d, const char *path);

/* ---- store.c: the store itself, then the jobs in it ------------------------------------------ */

void doctor_check_store(struct doctor *d);
void doctor_check_jobs(struct doctor *d);

#endif
