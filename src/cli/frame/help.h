/* help.h - help pages and JSON for machines, made from the tables of frame/command.h. */
#ifndef CLI_FRAME_HELP_H
#define CLI_FRAME_HELP_H

#include "base/text/buf.h"
#include "cli/frame/command.h"
#include "cli/output/term.h"

/* Lines are filled to the width of the terminal, but to no more than this; without a terminal to
 * HELP_WIDTH_DEFAULT. */
#define HELP_WIDTH_MAX     100
#define HELP_WIDTH_DEFAULT 80

/* The most a page may have. */
#define HELP_MAX_BYTES (1024u * 1024)

/* Appends the whole page of a command. */
void help_page(const struct command_path *path, const struct option_source *source,
               const struct term *term, struct buf *out);

/* Appends what the program says when it is called without arguments: its commands only. */
void help_overview(const struct command_path *path, const struct term *term, struct buf *out);

/* Appends the list of the options that a source has. */
void help_source(const struct option_source *source, const struct term *term, struct buf *out);

/* The name under which `help` shows that list. */
#define HELP_SOURCE_TOPIC "config-flags"

/* ---- As JSON -----------------------------------------------------------------------------------
 *
 *     {"name":"redrive","usage":…,"summary":…,"options":[{"name":"config","letter":"c",
 *      "type":"string","placeholder":"FILE","help":…,"default":null,"choices":[]}, …],
 *      "commands":[…],"examples":[{"line":…,"meaning":…}]}
 *
 * Commands nest; hidden ones are left out.
 */

/* Appends the command that `path` leads to and all below it. */
void describe_command(const struct command_path *path, struct buf *out);

/* Appends the options of a source: {"options":[…]}. */
void describe_source(const struct option_source *source, struct buf *out);

#endif
