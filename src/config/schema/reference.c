/* reference.c - the keys as tables for people: docs/configuration.md, `redrive help config-keys`.
 */
#include "config/schema/schema.h"

#include <string.h>

#include "base/text/buf.h"
#include "config/config.h"

const struct table *section_at(size_t index)
{
    static const struct table *const TABLES[] = {
        &TABLE_ROOT,       &TABLE_LISTEN,       &TABLE_TLS,       &TABLE_LOG,
        &TABLE_DEFAULTS,   &TABLE_RETRY,        &TABLE_JITTER,    &TABLE_BREAKER,
        &TABLE_CLASS_RULE, &TABLE_TASK,         &TABLE_RUN,       &TABLE_HTTP,
        &TABLE_LIMITS,     &TABLE_RETRY_BUDGET, &TABLE_CLASSIFY,  &TABLE_CRON,
        &TABLE_EXPERIMENT, &TABLE_ARM,          &TABLE_TOKEN,     &TABLE_FAKTORY_PASSWORD,
        &TABLE_ALERT,      &TABLE_HEALTH,       &TABLE_RETENTION, &TABLE_PATHS,
    };
    return index < sizeof TABLES / sizeof TABLES[0] ? TABLES[index] : NULL;
}

const char *config_section(size_t index)
{
    const struct table *table = section_at(index);
    return table ? table->name : NULL;
}

static bool is_asked_for(const struct table *table, const char *section)
{
    return !section || strcmp(section, table->name) == 0;
}

static const char *default_of(const struct table *table, const struct field *field)
{
    if (table == &TABLE_CLASS_RULE)
        return "inherited";
    return field->default_text ? field->default_text : field->required ? "required" : "";
}

/* A cell, in which no character means something to Markdown. */
static void put_cell(struct buf *out, const char *text)
{
    buf_putc(out, ' ');
    for (const char *at = text; *at; at++) {
        if (*at == '*' || *at == '|')
            buf_putc(out, '\\');
        buf_putc(out, *at);
    }
    buf_puts(out, " |");
}

static void put_section(const struct table *table, struct buf *out)
{
    char expects[EXPECTS_MAX];
    buf_puts(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct field *field = &table->fields[i];
        buf_printf(out, "| `%s` |", field->name);
        put_cell(out, field_expects(field, expects));
        put_cell(out, default_of(table, field));
        put_cell(out, field->help);
        buf_putc(out, '\n');
    }
}

void config_reference(const char *section, struct buf *out)
{
    const struct table *table;
    for (size_t i = 0; (table = section_at(i)); i++) {
        if (!is_asked_for(table, section))
            continue;
        if (!section)
            buf_printf(out, "%s### `%s`\n\n", i ? "\n" : "", table->name);
        put_section(table, out);
    }
}

static void section_as_json(const struct table *table, struct json_writer *w)
{
    char expects[EXPECTS_MAX];
    json_begin_object(w);
    json_field_cstr(w, "name", table->name);
    json_key(w, "keys");
    json_begin_array(w);
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct field *field = &table->fields[i];
        json_begin_object(w);
        json_field_cstr(w, "name", field->name);
        json_field_cstr(w, "value", field_expects(field, expects));
        json_field_cstr(w, "default", field->default_text);
        json_field_bool(w, "required", field->required);
        json_field_cstr(w, "help", field->help);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

void config_reference_json(const char *section, struct json_writer *w)
{
    const struct table *table;
    json_begin_object(w);
    json_key(w, "sections");
    json_begin_array(w);
    for (size_t i = 0; (table = section_at(i)); i++)
        if (is_asked_for(table, section))
            section_as_json(table, w);
    json_end_array(w);
    json_end_object(w);
}
