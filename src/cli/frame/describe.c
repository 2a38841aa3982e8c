/* describe.c - writes the tables as JSON. */
#include "cli/frame/describe.h"

#include "base/json/writer.h"

static void put_option(struct json_writer *w, const struct option *o)
{
    const char letter[] = {o->letter, '\0'};

    json_begin_object(w);
    json_field_cstr(w, "name", o->name);
    json_field_cstr(w, "letter", o->letter ? letter : NULL);
    json_field_cstr(w, "type", option_type_name(o->type));
    json_field_bool(w, "negatable", o->negatable);
    json_field_cstr(w, "placeholder", o->placeholder);
    json_field_cstr(w, "help", o->help);
    json_field_cstr(w, "default", o->default_text);
    json_key(w, "choices");
    json_begin_array(w);
    for (const char *const *choice = o->choices; choice && *choice; choice++)
        json_put_cstr(w, *choice);
    json_end_array(w);
    json_end_object(w);
}

static void put_options(struct json_writer *w, const struct option *table)
{
    json_key(w, "options");
    json_begin_array(w);
    for (const struct option *o = table; o && o->name; o++)
        put_option(w, o);
    json_end_array(w);
}

static void put_examples(struct json_writer *w, const struct example *examples)
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

static void put_command(struct json_writer *w, struct command_path *path)
{
    const struct command *command = command_path_last(path);
    char usage[COMMAND_USAGE_MAX];

    json_begin_object(w);
    json_field_cstr(w, "name", command->name);
    json_field_cstr(w, "usage", command_path_usage(path, usage));
    json_field_cstr(w, "summary", command->summary);
    json_field_cstr(w, "description", command->description);
    put_options(w, command->options);
    put_examples(w, command->examples);
    json_key(w, "commands");
    json_begin_array(w);
    for (const struct command *const *c = command->commands; c && *c; c++) {
        if ((*c)->hidden)
            continue;
        command_path_push(path, *c);
        put_command(w, path);
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
    put_command(&w, &walk);
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
        struct option o = {.type = OPTION_STRING};
        if (!source->enumerate(source->ctx, i, &o))
            break;
        put_option(&w, &o);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_putc(out, '\n');
}
