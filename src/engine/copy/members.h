/* members.h - the tables that say which members a record has, for what writes, reads and compares
 * records. */
#ifndef ENGINE_COPY_MEMBERS_H
#define ENGINE_COPY_MEMBERS_H

#include "core/vocabulary.h"
#include "engine/copy/record.h"

enum member_type {
    MEMBER_STR,
    MEMBER_BOOL,
    MEMBER_I32,
    MEMBER_U32,
    MEMBER_I64,
    MEMBER_HEX, /* uint64_t */
    MEMBER_CLASS,
    MEMBER_REASON,
    MEMBER_STATE, /* always written, and must be there */
    MEMBER_OBJECT,
    MEMBER_ATTEMPTS, /* of a struct imported_job */
    MEMBER_EDGES,    /* the same */
};

/* A table ends with a row without a name. Rows are written in their order. */
struct member {
    const char *name;
    enum member_type type;
    size_t offset;
    const struct member *of; /* the members of an object */
    bool is_required;        /* a string that must not be empty */
};

/* A kind of record; one without members is never copied. */
struct record_table {
    const char *name;
    const struct member *members;
};
extern const struct record_table RECORD_TABLES[RECORD_KIND_COUNT];
extern const struct member ERROR_MEMBERS[];
extern const struct member ATTEMPT_MEMBERS[];
extern const struct member EDGE_MEMBERS[];

/* A value in a struct, by its type. Enums are as wide as an int. */
union value_at {
    const struct str *str;
    const bool *truth;
    const int32_t *i32;
    const uint32_t *u32;
    const int64_t *i64;
    const uint64_t *u64;
    const int *number;
    const void *any;
};

static inline union value_at value_of(const struct member *m, const void *base)
{
    return (union value_at){.any = (const char *)base + m->offset};
}

static inline enum vocabulary words_of(const struct member *m)
{
    return m->type == MEMBER_CLASS    ? VOCABULARY_CLASS
           : m->type == MEMBER_REASON ? VOCABULARY_REASON
                                      : VOCABULARY_STATE;
}

#endif
