/* help.c - lays out the help pages, and writes the tables as JSON. */
#include "cli/frame/command.h"

#include "base/json/writer.h"
#include "cli/output/term.h"
#include "fields/describe.h"

/* Column at which the right side of a list starts. An entry too long for its column gets a line of
 * its own. */
#define OPTION_COLUMN  28
#define SOURCE_COLUMN  40 /* the names of configuration keys are long */
#define COMMAND_COLUMN 16
#define EXAMPLE_INDENT 6

/* A page while it is written. */
struct page {
    struct buf *out;
    size_t width;
    bool color;
};

static struct page page_of(const struct term *term, struct buf *out)
{
    size_t width = term->width ? term->width : HELP_WIDTH_DEFAULT;
    if (width > HELP_WIDTH_MAX)
        width = HELP_WIDTH_MAX;
    return (struct page){.out = out, .width = width, .color = term->color};
}

static void put_heading(struct page *p, const char *text)
{
    buf_putc(p->out, '\n');
    style_add(p->out, p->color, STYLE_BOLD, str_of(text));
    buf_putc(p->out, '\n');
}

static void put_paragraph(struct page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_paragraph(struct page *p, const char *format, ...)
{
    va_list args;

    RELEASED_BY(buf_release) struct buf text = BUF_MAX(HELP_MAX_BYTES);
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    buf_putc(p->out, '\n');
    text_add_wrapped(p->out, buf_str(&text), 0, 0, p->width);
    buf_putc(p->out, '\n');
}

static void put_usage(struct page *p, const struct command_path *path)
{
    char usage[COMMAND_USAGE_MAX];
    style_add(p->out, p->color, STYLE_BOLD, STR("Usage:"));
    buf_putc(p->out, ' ');
    text_add_wrapped(p->out, str_of(command_path_usage(path, usage)), 7, 9, p->width);
    buf_putc(p->out, '\n');
}

/* A line of a list: `left` at two columns, `right` filled from `column` on. */
static void put_entry(struct page *p, struct str left, struct str right, size_t column)
{
    size_t at = 2 + text_width(left);
    text_add_spaces(p->out, 2);
    buf_add_str(p->out, left);
    if (at + 2 > column) {
        buf_putc(p->out, '\n');
        at = 0;
    }
    text_add_spaces(p->out, column - at);
    text_add_wrapped(p->out, right, column, column, p->width);
    buf_putc(p->out, '\n');
}

static void put_commands(struct page *p, const struct command *command)
{
    if (!command->commands)
        return;
    put_heading(p, "Commands:");
    for (const struct command *const *c = command->commands; *c; c++)
        if (!(*c)->hidden)
            put_entry(p, str_of((*c)->name), str_of((*c)->summary), COMMAND_COLUMN);
}

/* "-c, --config FILE" */
static void add_option_name(struct buf *out, const struct field *o)
{
    if (o->letter)
        buf_printf(out, "-%c, ", o->letter);
    else
        text_add_spaces(out, 4);
    buf_printf(out, "--%s%s", o->negatable ? "[no-]" : "", o->name);
    if (o->kind != &FIELD_BOOL)
        buf_printf(out, " %s", o->placeholder ? o->placeholder : "VALUE");
}

void help_option_text(const struct field *o, struct buf *out)
{
    buf_puts(out, o->help ? o->help : "");
    for (size_t i = 0; o->words && o->words[i]; i++)
        buf_printf(out, "%s%s", i ? ", " : ": ", o->words[i]);
    if (o->kind->is_list)
        buf_puts(out, "; may be repeated");
    if (o->default_text)
        buf_printf(out, " (default: %s)", o->default_text);
}

static void put_option(struct page *p, const struct field *o, size_t column)
{
    RELEASED_BY(buf_release) struct buf left = BUF_MAX(HELP_MAX_BYTES);
    RELEASED_BY(buf_release) struct buf right = BUF_MAX(HELP_MAX_BYTES);
    add_option_name(&left, o);
    help_option_text(o, &right);
    put_entry(p, buf_str(&left), buf_str(&right), column);
}

static void put_options(struct page *p, const char *heading, const struct field *table)
{
    if (!table || !table->name)
        return;
    put_heading(p, heading);
    for (const struct field *o = table; o->name; o++)
        put_option(p, o, OPTION_COLUMN);
}

static void put_examples(struct page *p, const struct example *examples)
{
    if (!examples)
        return;
    put_heading(p, "Examples:");
    for (const struct example *e = examples; e->line; e++) {
        buf_printf(p->out, "  %s\n", e->line);
        text_add_spaces(p->out, EXAMPLE_INDENT);
        text_add_wrapped(p->out, str_of(e->meaning), EXAMPLE_INDENT, EXAMPLE_INDENT, p->width);
        buf_putc(p->out, '\n');
    }
}

void help_page(const struct command_path *path, const struct option_source *source,
               const struct term *term, struct buf *out)
{
    const struct command *command = command_path_last(path);
    struct page p = page_of(term, out);
    char name[COMMAND_NAME_MAX];

    buf_printf(out, "%s - %s\n\n", command_path_name(path, name), command->summary);
    put_usage(&p, path);
    if (command->description)
        put_paragraph(&p, "%s", command->description);
    put_commands(&p, command);
    for (size_t level = path->depth; level-- > 1;)
        put_options(&p, level + 1 == path->depth ? "Options:" : "Options of the whole group:",
                    path->at[level]->options);
    put_options(&p, "Global options, before or after the command:", path->at[0]->options);
    if (source && path->depth == 1)
        put_paragraph(&p, "Every configuration key is an option too: see '%s help %s'.",
                      command->name, HELP_SOURCE_TOPIC);
    put_examples(&p, command->examples);
    if (command->commands)
        put_paragraph(&p, "Run '%s help%s COMMAND' to read about a command.", path->at[0]->name,
                      name + strlen(path->at[0]->name));
}

void help_overview(const struct command_path *path, const struct term *term, struct buf *out)
{
    const struct command *command = command_path_last(path);
    struct page p = page_of(term, out);

    buf_printf(out, "%s - %s\n\n", command->name, command->summary);
    put_usage(&p, path);
    put_commands(&p, command);
    put_paragraph(&p, "See '%s help COMMAND' for a command, '%s --help' for all options.",
                  command->name, command->name);
}

void help_source(const struct option_source *source, const struct term *term, struct buf *out)
{
    struct page p = page_of(term, out);

    buf_puts(out, HELP_SOURCE_TOPIC " - the keys of the configuration as options\n");
    put_paragraph(&p, "%s",
                  "Every key of the configuration is an option of the commands that it has an "
                  "effect on, and overrides the environment and the configuration file: "
                  "retry.max_delay is --retry-max-delay on "
                  "the command line and REDRIVE_RETRY_MAX_DELAY in the environment.");
    put_heading(&p, "Options:");
    for (size_t i = 0;; i++) {
        struct field o = {.kind = &OPTION_STRING};
        if (!source->enumerate(source->ctx, i, &o))
            break;
        put_option(&p, &o, SOURCE_COLUMN);
    }
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void option_as_json(struct json_writer *w, const struct field *o)
{
    const char letter[] = {o->letter, '\0'};

    json_begin_object(w);
    json_field_cstr(w, "name", o->name);
    json_field_cstr(w, "letter", o->letter ? letter : NULL);
    json_field_cstr(w, "type", (o->sets && !o->kind->is_list ? o->sets : o)->kind->name);
    json_field_bool(w, "negatable", o->negatable);
    json_field_cstr(w, "placeholder", o->placeholder);
    json_field_cstr(w, "help", o->help);
    json_field_cstr(w, "default", o->default_text);
    json_key(w, "choices");
    field_describe_choices(o, w);
    json_end_object(w);
}

static void options_as_json(struct json_writer *w, const struct field *table)
{
    json_key(w, "options");
    json_begin_array(w);
    for (const struct field *o = table; o && o->name; o++)
        option_as_json(w, o);
    json_end_array(w);
}

static void examples_as_json(struct json_writer *w, const struct example *examples)
{
    json_key(w, "examples");
    json_begin_array(w);
    for (const struct example *e = examples; e && e->line; e++) {
        json_begin_object(w);
        json_field_cstr(w, "line", e->line);
        json_field_cstr(w, "meaning", e->meaning);
        json_end_object(w);
    }
    json_end_array(w);
}

static void command_as_json(struct json_writer *w, struct command_path *path)
{
    const struct command *command = command_path_last(path);
    char usage[COMMAND_USAGE_MAX];

    json_begin_object(w);
    json_field_cstr(w, "name", command->name);
    json_field_cstr(w, "usage", command_path_usage(path, usage));
    json_field_cstr(w, "summary", command->summary);
    json_field_cstr(w, "description", command->description);
    options_as_json(w, command->options);
    examples_as_json(w, command->examples);
    json_key(w, "commands");
    json_begin_array(w);
    for (const struct command *const *c = command->commands; c && *c; c++) {
        if ((*c)->hidden)
            continue;
        command_path_push(path, *c);
        command_as_json(w, path);
        path->depth--;
    }
    json_end_array(w);
    json_end_object(w);
}

void describe_command(const struct command_path *path, struct buf *out)
{
    struct command_path walk = *path;
    struct json_writer w;

    json_writer_init(&w, out);
    command_as_json(&w, &walk);
    buf_putc(out, '\n');
}

void describe_source(const struct option_source *source, struct buf *out)
{
    struct json_writer w;

    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "options");
    json_begin_array(&w);
    for (size_t i = 0;; i++) {
        struct field o = {.kind = &OPTION_STRING};
        if (!source->enumerate(source->ctx, i, &o))
            break;
        option_as_json(&w, &o);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_putc(out, '\n');
}
