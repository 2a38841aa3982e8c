/* query.h - reads parameters, which have a name and a text, by tables of fields. */
#ifndef FIELDS_QUERY_H
#define FIELDS_QUERY_H

#include "fields/field.h"

/* `uses` chooses among the fields of a table. */
void fields_query_open(struct field_reader *r, unsigned uses, struct arena *arena, int64_t now_ms,
                       struct redrive_err *err);

/* Reads one parameter into `ret`, which may point into `value`, and sets the bit of its row.
 * Refuses unknown names, a second value of a field that is not a list, text that is not UTF-8, and
 * empty values: a script with an empty variable must not get everything. */
int fields_query_add(struct field_reader *r, const struct field *fields, struct str name,
                     struct str value, void *ret, uint64_t *given);

/* Whether a text can be the value of a field, which `label` names in the error: for an option whose
 * text is sent on as it is, also of kinds that are JSON. */
int fields_check_text(const struct field *field, const char *label, struct str text,
                      struct redrive_err *err);

/* Writes such a text as a member of an object that is read by the table of the field. */
void fields_write_text(const struct field *field, struct str text, struct json_writer *w);

#endif
