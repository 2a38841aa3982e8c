/* json.h - reads JSON objects by tables of fields.
 *
 *     fields_json_open(&r, text, arena, now_ms, err);
 *     rc = fields_json_object(&r, FIELDS, &ask, &given);
 *     if (rc == 0) rc = fields_json_end(&r);
 *     fields_json_close(&r);
 *
 * `null` is as good as absent.
 */
#ifndef FIELDS_JSON_H
#define FIELDS_JSON_H

#include "fields/field.h"

/* Starts on `text`, which the results may point into. */
void fields_json_open(struct field_reader *r, struct str text, struct arena *arena, int64_t now_ms,
                      struct redrive_err *err);
/* The same of a text in which a payload lies so many levels down, where it may be as deep as by
 * itself. */
void fields_json_open_deeper(struct field_reader *r, struct str text, unsigned levels,
                             struct arena *arena, int64_t now_ms, struct redrive_err *err);
void fields_json_close(struct field_reader *r);

/* Reads an object into `ret`, which has the defaults. `ret_given` has a bit for each row of the
 * table that was there; at most 64 rows. */
int fields_json_object(struct field_reader *r, const struct field *fields, void *ret,
                       uint64_t *ret_given);

/* Steps into an array and over its items: 1, 0 after the last, or a code. `name` is the field that
 * has it ("": the input is the array), `i` its number. */
int fields_json_enter(struct field_reader *r, const char *name);
int fields_json_next(struct field_reader *r, const char *name, size_t i);

/* How many items the text of an array has; no more than `max` + 1 are counted, and none of what is
 * no array. */
size_t fields_json_count(struct str array, size_t max);

/* Nothing but space may follow. */
int fields_json_end(struct field_reader *r);

/* Whether the outermost value is an array. */
bool fields_json_is_array(struct field_reader *r);

#endif
