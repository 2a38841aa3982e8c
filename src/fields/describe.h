/* describe.h - tables of fields, described for programs. */
#ifndef FIELDS_DESCRIBE_H
#define FIELDS_DESCRIBE_H

#include "fields/field.h"

/* The fields of a table that a reader with these `uses` may have. */
struct field_part {
    const struct field *fields; /* NULL: none */
    unsigned uses;
};

/* Writes an array with an object for each field: name and type; default, bounds and help of a field
 * that has them; "required" where the field is; "choices", the words that its value is one of. */
void fields_describe(const struct field_part *part, struct json_writer *w);

/* Writes the words that the value of a field is one of, as an array: empty for any other value. */
void field_describe_choices(const struct field *f, struct json_writer *w);

#endif
