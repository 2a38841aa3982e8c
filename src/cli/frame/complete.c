/* complete.c - finds the words that fit at the cursor. */
#include "cli/frame/command.h"

#include <stdlib.h>

#include "base/err.h"

/* The line up to the cursor. */
struct walk {
    struct completion c;
    const char **args;
    bool options_ended;
    bool wrong;           /* a word that is not allowed there */
    struct field pending; /* an option whose value comes next, if it has a name */
};

void completion_offer(struct completion *c, const char *word)
{
    if (!str_starts_with(str_of(word), c->word))
        return;
    buf_add_str(c->out, c->prefix);
    buf_puts(c->out, word);
    buf_putc(c->out, '\n');
}

void completion_offer_words(struct completion *c, const struct words *words)
{
    for (size_t i = 0; i < words->n; i++)
        completion_offer(c, words->items[i]);
}

static void offer_files_if_named(struct completion *c, struct str placeholder)
{
    if (str_contains(placeholder, STR("FILE")))
        buf_puts(c->out, ":files\n");
}

/* ---- Before the cursor ----------------------------------------------------------------------- */

/* An option of the path or the source; false when there is none. */
static bool find_option(const struct completion *c, struct str name, struct field *ret)
{
    for (size_t level = c->path.depth; level-- > 0;) {
        const struct field *table = c->path.at[level]->options;
        const struct field *o = option_find(table, name);
        if (!o)
            o = option_find_negated(table, name);
        if (o) {
            *ret = *o;
            return true;
        }
    }
    return option_source_find(c->source, name, ret);
}

/* The letters of a word up to the first that takes a value; that one's value comes next if the
 * word ends with it. */
static void pass_letters(struct walk *w, const char *letters)
{
    for (const char *at = letters; *at; at++) {
        const struct field *o = NULL;
        for (size_t level = w->c.path.depth; !o && level-- > 0;)
            o = option_find_letter(w->c.path.at[level]->options, *at);
        if (o && o->kind == &FIELD_BOOL)
            continue;
        if (o && at[1] == '\0')
            w->pending = *o;
        return;
    }
}

static void pass_word(struct walk *w, const char *word)
{
    const bool is_option = !w->options_ended && word[0] == '-' && word[1] != '\0';

    if (w->pending.name) {
        /* bash gives `=` as a word of its own; the value is still to come. */
        if (strcmp(word, "=") != 0)
            w->pending = (struct field){0};
    } else if (is_option && strcmp(word, "--") == 0) {
        w->options_ended = true;
    } else if (is_option && word[1] != '-') {
        pass_letters(w, word + 1);
    } else if (is_option) {
        struct field o;
        if (!strchr(word, '=') && find_option(&w->c, str_of(word + 2), &o) && o.kind != &FIELD_BOOL)
            w->pending = o;
    } else if (command_path_last(&w->c.path)->commands) {
        w->wrong = w->wrong || command_path_descend(&w->c.path, word, NULL) < 0;
    } else {
        w->args[w->c.n_args++] = word;
    }
}

/* ---- At the cursor --------------------------------------------------------------------------- */

static void offer_value(struct completion *c, const struct field *o)
{
    for (const char *const *choice = o->words; choice && *choice; choice++)
        completion_offer(c, *choice);
    offer_files_if_named(c, str_of(o->placeholder));
}

static void offer_options(struct completion *c)
{
    struct words bare = WORDS_INIT, words = WORDS_INIT;
    for (size_t level = c->path.depth; level-- > 0;)
        option_words(c->path.at[level]->options, &bare);
    option_source_words(c->source, command_path_last(&c->path), &bare);
    for (size_t i = 0; i < bare.n; i++)
        words_add(&words, "--", str_of(bare.items[i]));
    completion_offer_words(c, &words);
    words_release(&bare);
    words_release(&words);
}

static void offer_at_cursor(struct walk *w)
{
    struct completion *c = &w->c;
    const struct command *command = command_path_last(&c->path);
    const char *equals = c->word.len ? memchr(c->word.ptr, '=', c->word.len) : NULL;
    bool is_option = !w->options_ended && str_starts_with(c->word, STR("-"));
    struct words words = WORDS_INIT;
    struct argument a;
    struct field o;

    if (w->pending.name) {
        if (str_is(c->word, "="))
            c->word = STR("");
        offer_value(c, &w->pending);
    } else if (is_option && equals) {
        size_t name_len = (size_t)(equals - c->word.ptr);
        if (name_len < 2 || !find_option(c, (struct str){c->word.ptr + 2, name_len - 2}, &o))
            return;
        c->prefix = (struct str){c->word.ptr, name_len + 1};
        c->word = (struct str){equals + 1, c->word.len - name_len - 1};
        offer_value(c, &o);
    } else if (is_option) {
        offer_options(c);
    } else if (command->commands) {
        command_words(command, &words);
        completion_offer_words(c, &words);
        words_release(&words);
    } else if (command->complete) {
        command->complete(c);
    } else if (command_argument(command, c->n_args, &a)) {
        offer_files_if_named(c, a.name);
    }
}

int complete_line(const struct command *root, const struct option_source *source,
                  const char *const *words, size_t n_words, size_t cursor, struct buf *out,
                  struct redrive_err *err)
{
    if (cursor < 1 || cursor > n_words) {
        err_set(err, REDRIVE_E_USAGE, "the cursor is not on the line");
        err_detail(err, "word %zu of %zu", cursor, n_words);
        return REDRIVE_E_USAGE;
    }
    struct walk w = {
        .c = {.root = root,
              .source = source,
              .path = {.at = {root}, .depth = 1},
              .word = str_of(cursor < n_words ? words[cursor] : ""),
              .out = out},
        .args = calloc(cursor, sizeof *w.args),
    };
    if (!w.args)
        return err_nomem(err);
    w.c.args = w.args;
    for (size_t i = 1; i < cursor; i++)
        pass_word(&w, words[i]);
    if (!w.wrong)
        offer_at_cursor(&w);
    free(w.args);
    return buf_failed(out);
}
