/* describe.c - writes what a table says of its fields as JSON. */
#include "fields/describe.h"

static const char *const *choices_of(const struct field *f, size_t *ret_n)
{
    *ret_n = 0;
    if (f->kind == &FIELD_TERM || f->kind == &FIELD_TERMS) {
        const char *const *words = vocabulary_words(f->vocabulary, ret_n);
        *ret_n -= f->skip;
        return words + f->skip;
    }
    while (f->words && f->words[*ret_n])
        ++*ret_n;
    return f->words;
}

void field_describe_choices(const struct field *f, struct json_writer *w)
{
    size_t n;
    const char *const *words = choices_of(f, &n);
    json_begin_array(w);
    for (size_t i = 0; i < n; i++)
        json_put_cstr(w, words[i]);
    json_end_array(w);
}

/* The highest number of a type is no bound that a user needs to know. */
static void describe_bounds(const struct field *f, struct json_writer *w)
{
    if (f->kind == &FIELD_DOUBLE && f->min_double < f->max_double) {
        json_field_double(w, "min", f->min_double);
        json_field_double(w, "max", f->max_double);
    } else if (f->min < f->max) {
        json_field_int(w, "min", f->min);
        if (f->max < INT64_MAX)
            json_field_int(w, "max", f->max);
    }
}

static void describe_field(const struct field *f, struct json_writer *w)
{
    size_t n_choices;
    json_begin_object(w);
    json_field_cstr(w, "name", f->name);
    json_field_cstr(w, "type", f->kind->name);
    if (f->required)
        json_field_bool(w, "required", true);
    if (f->default_text)
        json_field_cstr(w, "default", f->default_text);
    describe_bounds(f, w);
    (void)choices_of(f, &n_choices);
    if (n_choices > 0) {
        json_key(w, "choices");
        field_describe_choices(f, w);
    }
    if (f->help)
        json_field_cstr(w, "help", f->help);
    json_end_object(w);
}

void fields_describe(const struct field_part *part, struct json_writer *w)
{
    const struct field_reader reader = {.uses = part->uses};
    json_begin_array(w);
    for (const struct field *f = part->fields; f && f->name; f++)
        if (field_is_allowed(&reader, f))
            describe_field(f, w);
    json_end_array(w);
}
