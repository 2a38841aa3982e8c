/* private.h - what the files of this module share. */
#ifndef FIELDS_PRIVATE_H
#define FIELDS_PRIVATE_H

#include "fields/field.h"

struct field_kind {
    /* Reads the value that comes next into `to`, or fails. */
    int (*read)(struct field_reader *r, const struct field *f, void *to);
    const char *expects; /* "a time"; NULL: `describe` says it, or `read` does */
    void (*describe)(const struct field_reader *r, const struct field *f, struct buf *out);
    bool takes_null;    /* null is a value, and not as good as absent */
    bool takes_nothing; /* so is a parameter without a value */
    bool is_list;       /* may be given several times */
};

static inline bool field_reads_text(const struct field_reader *r)
{
    return r->text.ptr != NULL;
}

/* Fails with what the kind expects as the detail. */
int field_wrong(struct field_reader *r, const struct field *f, int code, const char *what);

/* Fails as the JSON reader has. */
int field_not_json(struct field_reader *r);

/* Fails because the next value is of another type: "it is a number". */
int field_wrong_type(struct field_reader *r, const struct field *f);

/* Fails because the table has no field of that name; `what` it would be: "member". */
int field_unknown(struct field_reader *r, const struct field *fields, struct str name,
                  const char *what);

/* Whether a reader may have the field. */
static inline bool field_is_allowed(const struct field_reader *r, const struct field *f)
{
    return f->uses == 0 || (f->uses & r->uses) != 0;
}

#endif
