/* complete.h - completes a word of a shell's command line, from the tables of frame/command.h.
 *
 * The shell's script passes the words of the line to `redrive __complete` and shows what it
 * prints: a word a line, and a line `:files` where names of files fit as well. The answer always
 * comes from the program itself, so it cannot be older than the program.
 */
#ifndef CLI_FRAME_COMPLETE_H
#define CLI_FRAME_COMPLETE_H

#include "base/text/buf.h"
#include "cli/frame/command.h"

/* A line that is being completed. */
struct completion {
    const struct command *root;
    const struct option_source *source; /* may be NULL */
    struct command_path path;           /* the command on the line so far */
    const char *const *args;            /* its arguments before the cursor */
    size_t n_args;
    struct str word;   /* the part before the cursor */
    struct str prefix; /* the part of the cursor's word that is not being completed: `--opt=` */
    struct buf *out;
};

/* Appends the answer for `words`, the first of which is the program; the cursor is at the end of
 * words[cursor], which may lie just behind the last word. Words may come as bash splits them:
 * `--opt`, `=`, `value`. A line that is wrong so far gives no words. */
int complete_line(const struct command *root, const struct option_source *source,
                  const char *const *words, size_t n_words, size_t cursor, struct buf *out,
                  struct redrive_err *err);

/* For the `complete` function of a command: offers a word if it begins like the cursor's. */
void completion_offer(struct completion *c, const char *word);
void completion_offer_words(struct completion *c, const struct words *words);

#endif
