/* move_tenant.h - `redrive move --tenant`: one tenant from one shard of the store to another. */
#ifndef CLI_COMMANDS_MOVE_TENANT_H
#define CLI_COMMANDS_MOVE_TENANT_H

#include "cli/frame/cli.h"

struct move_tenant_options {
    const char *tenant;
    const char *to; /* a shard: its number, from 1, or its URL; NULL: that of an interrupted move */
    int64_t wait_ms;
    bool dry_run;
    bool back; /* takes a move back that is under way */
};

int move_tenant(struct cli *cli, const struct move_tenant_options *options,
                struct redrive_err *err);

#endif
