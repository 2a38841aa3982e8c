/* describe.h - the tables of frame/command.h for machines, as one JSON object.
 *
 *     {"name":"redrive","usage":…,"summary":…,"options":[{"name":"config","letter":"c",
 *      "type":"string","placeholder":"FILE","help":…,"default":null,"choices":[]}, …],
 *      "commands":[…],"examples":[{"line":…,"meaning":…}]}
 *
 * Commands nest; hidden ones are left out.
 */
#ifndef CLI_FRAME_DESCRIBE_H
#define CLI_FRAME_DESCRIBE_H

#include "base/text/buf.h"
#include "cli/frame/command.h"

/* Appends the command that `path` leads to and all below it. */
void describe_command(const struct command_path *path, struct buf *out);

/* Appends the options of a source: {"options":[…]}. */
void describe_source(const struct option_source *source, struct buf *out);

#endif
