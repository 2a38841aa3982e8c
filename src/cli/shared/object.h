/* object.h - the members of a JSON object, by their names.
 *
 * A member that is missing, null or of another type gives the value for "not there", so that a
 * newer server can add words and members, and an older one can lack them.
 */
#ifndef CLI_SHARED_OBJECT_H
#define CLI_SHARED_OBJECT_H

#include "base/json/json.h"
#include "base/mem/arena.h"

/* Texts that members give have the lifetime of the arena. */
struct object {
    const struct json_member *members; /* NULL: there is no object */
    size_t n;
    struct arena *arena;
};

/* Lists are as long as a store makes them, and payloads in them as deep as one may be. */
extern const struct json_limits OBJECT_LIMITS;

/* The object of a text, which has none if it is no object. Where memory runs out, here and in what
 * follows, the arena has failed. */
struct object object_of(struct str json, struct arena *arena);

/* The objects of the array that a reader comes to, added to those that there are; another value
 * gives an empty one. 0 or what the reader says. */
int object_read_array(struct json_reader *r, struct arena *arena, struct object **ret,
                      size_t *ret_n);

struct str object_text(const struct object *o, const char *name); /* not there: absent */
int64_t object_int(const struct object *o, const char *name);     /* not there: 0 */
double object_double(const struct object *o, const char *name, double otherwise);
bool object_bool(const struct object *o, const char *name);
int64_t object_time(const struct object *o, const char *name); /* ms; not there: 0 */
int64_t object_span(const struct object *o, const char *name); /* ms, of seconds; not there: 0 */
struct object object_object(const struct object *o, const char *name);
/* The objects of an array; not there: none. */
size_t object_objects(const struct object *o, const char *name, struct object **ret);
/* Any value, as JSON; null, or not there: absent. */
struct str object_json(const struct object *o, const char *name);
/* A value as it was given: one that is no JSON is written as a text, and `bytes` names the member
 * that says how long it was. Not there: absent. */
struct str object_value(const struct object *o, const char *name, const char *bytes);

#endif
