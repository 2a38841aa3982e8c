/* manual.c - writes commands and options as mdoc: the part of docs/redrive.1 that is in the tables.
 */
#include "cli/frame/command.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* So many options that an earlier command has word for word are named in one sentence, with the
 * earlier command, and not described again. */
#define MANY_SHARED 5

#define COMMANDS_MAX 128

struct manual {
    struct buf *out;
    struct command_path path;
    struct command_path described[COMMANDS_MAX];
    size_t n_described;
};

/* ---- Text ------------------------------------------------------------------------------------ */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '-';
}

/* `-o` or `--option` */
static bool is_option_word(const char *at, char before)
{
    const char *name = at + (at[1] == '-' ? 2 : 1);
    return at[0] == '-' && !is_word_char(before) && islower((unsigned char)*name);
}

static bool ends_sentence(const char *at)
{
    return strchr(".?!", *at) && at[1] == ' ' && !islower((unsigned char)at[2]);
}

/* A dash between letters may be a hyphen, all others are to be typed. A quotation mark is an
 * apostrophe between letters only. A line must not begin with a full stop, which is for requests.
 */
static void put_char(struct buf *out, const char *at, char before, bool is_literal)
{
    const bool is_inside = isalpha((unsigned char)before) && isalpha((unsigned char)at[1]);
    const bool begins_line = out->len > 0 && out->data[out->len - 1] == '\n';
    if (*at == '\\')
        buf_puts(out, "\\e");
    else if (*at == '^' || *at == '~')
        buf_puts(out, *at == '^' ? "\\(ha" : "\\(ti");
    else if (*at == '-' && (is_literal || !is_inside))
        buf_puts(out, "\\-");
    else if (*at == '\'' && !is_inside)
        buf_puts(out, "\\(aq");
    else
        buf_printf(out, "%s%c", *at == '.' && begins_line ? "\\&" : "", *at);
}

/* Prose of the tables, a sentence on each line: a change of one is a short diff. `code` and options
 * become bold, an empty line a paragraph. */
static void put_prose(struct buf *out, const char *text)
{
    bool in_code = false, in_option = false;
    char before = ' ';
    for (const char *at = text; *at; before = *at++) {
        if (in_option && !is_word_char(*at)) {
            buf_puts(out, "\\fR");
            in_option = false;
        } else if (!in_code && is_option_word(at, before)) {
            buf_puts(out, "\\fB");
            in_option = true;
        }
        if (*at == '`') {
            in_code = !in_code;
            buf_puts(out, in_code ? "\\fB" : "\\fR");
        } else if (ends_sentence(at)) {
            buf_printf(out, "%c\n", *at++);
        } else if (at[0] == '\n' && at[1] == '\n') {
            buf_puts(out, "\n.Pp\n");
            at++;
        } else {
            put_char(out, at, before, in_code || in_option);
        }
    }
    buf_puts(out, in_option ? "\\fR\n" : "\n");
}

/* "print the version" as "Print the version." */
static void put_as_sentence(struct buf *out, const char *text)
{
    RELEASED_BY(buf_release) struct buf sentence = BUF_MAX(HELP_MAX_BYTES);
    buf_printf(&sentence, "%s.", text);
    if (buf_failed(&sentence) == 0)
        sentence.data[0] = (char)toupper((unsigned char)sentence.data[0]);
    put_prose(out, buf_cstr(&sentence));
}

/* ---- Options --------------------------------------------------------------------------------- */

static void put_option_placeholder(struct buf *out, const struct field *o)
{
    if (o->kind != &FIELD_BOOL)
        buf_printf(out, " Ar %s", o->placeholder ? o->placeholder : "VALUE");
}

static void put_option_entry(struct buf *out, const struct field *o)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(HELP_MAX_BYTES);
    buf_puts(out, ".It Fl ");
    if (o->letter) {
        buf_putc(out, o->letter);
        put_option_placeholder(out, o);
        buf_puts(out, " , Fl ");
    }
    buf_printf(out, "-%s%s", o->negatable ? "[no-]" : "", o->name);
    put_option_placeholder(out, o);
    buf_putc(out, '\n');
    help_option_text(o, &text);
    put_as_sentence(out, buf_cstr(&text));
}

static bool is_equal_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool has_same_option(const struct field *table, const struct field *o)
{
    const struct field *other = option_find(table, str_of(o->name));
    return other && is_equal_text(other->help, o->help) &&
           is_equal_text(other->default_text, o->default_text);
}

static size_t count_shared_options(const struct field *table, const struct field *earlier)
{
    size_t n = 0;
    for (const struct field *o = table; o && o->name; o++)
        n += has_same_option(earlier, o);
    return n;
}

/* The first of the commands described so far that has the most of these options; NULL: none has
 * many. */
static const struct command_path *find_like(const struct manual *m, const struct field *table)
{
    const struct command_path *found = NULL;
    size_t most = MANY_SHARED - 1;
    for (size_t i = 0; i < m->n_described; i++) {
        const struct command *earlier = command_path_last(&m->described[i]);
        const size_t n = count_shared_options(table, earlier->options);
        if (n > most) {
            found = &m->described[i];
            most = n;
        }
    }
    return found;
}

/* "jobs list", without the name of the program. */
static const char *short_name(const struct command_path *path, char out[COMMAND_NAME_MAX])
{
    return command_path_name(path, out) + strlen(path->at[0]->name) + 1;
}

static void put_shared_options(struct manual *m, const struct field *table,
                               const struct command_path *like)
{
    char name[COMMAND_NAME_MAX];
    const char *between = "Understands\n.Fl";
    buf_puts(m->out, ".Pp\n");
    for (const struct field *o = table; o->name; o++) {
        if (!has_same_option(command_path_last(like)->options, o))
            continue;
        buf_printf(m->out, "%s -%s", between, o->name);
        between = " ,";
    }
    buf_printf(m->out, "\nas\n.Nm Cm %s\ndoes.\n", short_name(like, name));
}

static void put_option_list(struct manual *m, const struct field *table)
{
    const struct command_path *like = find_like(m, table);
    const struct field *elsewhere = like ? command_path_last(like)->options : NULL;
    bool is_open = false;
    for (const struct field *o = table; o && o->name; o++) {
        if (has_same_option(elsewhere, o))
            continue;
        if (!is_open)
            buf_puts(m->out, ".Bl -tag -width Ds\n");
        is_open = true;
        put_option_entry(m->out, o);
    }
    if (is_open)
        buf_puts(m->out, ".El\n");
    if (like)
        put_shared_options(m, table, like);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void put_command_heading(struct manual *m, const struct command *command)
{
    char name[COMMAND_NAME_MAX];
    struct argument a;
    buf_printf(m->out, ".It Nm Cm %s%s", short_name(&m->path, name),
               command->commands ? " Ar COMMAND" : "");
    for (size_t i = 0; command_argument(command, i, &a); i++) {
        buf_printf(m->out, "%s Ar %.*s%s", a.required ? "" : " Op", (int)a.name.len, a.name.ptr,
                   a.repeated ? " ..." : "");
        if (a.repeated)
            break;
    }
    buf_putc(m->out, '\n');
}

static void put_command_entry(struct manual *m)
{
    const struct command *command = command_path_last(&m->path);
    put_command_heading(m, command);
    put_as_sentence(m->out, command->summary);
    if (command->description)
        put_prose(m->out, command->description);
    put_option_list(m, command->options);
    assert(m->n_described < COMMANDS_MAX);
    m->described[m->n_described++] = m->path;
    for (const struct command *const *c = command->commands; c && *c; c++) {
        if ((*c)->hidden)
            continue;
        command_path_push(&m->path, *c);
        put_command_entry(m);
        m->path.depth--;
    }
}

/* ---- Commands that ask a server -------------------------------------------------------------- */

static bool asks_server(const struct command *command)
{
    bool all = command->run_on_store || command->over_http || command->commands;
    for (const struct command *const *c = command->commands; all && c && *c; c++)
        all = asks_server(*c);
    return all;
}

/* A group by its name where all of its commands ask a server. */
static void put_commands_over_http(struct manual *m, const char **between)
{
    const struct command *command = command_path_last(&m->path);
    char name[COMMAND_NAME_MAX];
    if (m->path.depth > 1 && asks_server(command)) {
        buf_printf(m->out, "%s %s", *between, short_name(&m->path, name));
        *between = " ,";
        return;
    }
    for (const struct command *const *c = command->commands; c && *c; c++) {
        command_path_push(&m->path, *c);
        put_commands_over_http(m, between);
        m->path.depth--;
    }
}

void manual_part(const struct command *root, struct buf *out)
{
    struct manual m = {.out = out, .path = {.at = {root}, .depth = 1}};
    const char *between = ".Cm";
    buf_puts(out, ".Sh GLOBAL OPTIONS\n");
    put_option_list(&m, root->options);
    buf_puts(out, ".Sh COMMANDS\n.Bl -tag -width Ds\n");
    for (const struct command *const *c = root->commands; *c; c++) {
        if ((*c)->hidden)
            continue;
        command_path_push(&m.path, *c);
        put_command_entry(&m);
        m.path.depth--;
    }
    buf_puts(out,
             ".El\n"
             ".Sh COMMANDS OVER HTTP\n"
             "With\n.Fl -server\n"
             "these commands ask a server over HTTP, and print what they print on its store:\n");
    put_commands_over_http(&m, &between);
    buf_puts(out, " .\nAll others that use a store need the store itself, and say so.\n");
}
