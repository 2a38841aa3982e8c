/* reference.c - the routes for people and programs: docs/http.md, `redrive help http-routes`. */
#include "server/rest/private.h"

#include <stdio.h>

static void put_route(const struct rest_route *route, struct buf *out)
{
    const enum config_scope scope = rest_route_scope(route);
    buf_printf(out, "| `%s /v1%s` |", http_method_name(rest_route_method(route)),
               rest_route_path(route));
    if (scope)
        buf_printf(out, " `%s`", config_scope_name(scope));
    buf_printf(out, " | %s |\n", rest_route_summary(route));
}

void rest_reference(struct buf *out)
{
    buf_puts(out, "| route | scope | what it does |\n|---|---|---|\n");
    for (size_t i = 0; REST_TABLES[i]; i++)
        for (const struct rest_route *route = REST_TABLES[i]; rest_route_path(route); route++)
            put_route(route, out);
}

/* A name that an operation has from the query must be there. */
static struct field_part parameters_of(const struct rest_route *route, struct field name[2])
{
    const struct operation *operation = route->operation;
    if (!operation)
        return route->own_parameters;
    if (!operation->parameter)
        return operation->parameters;
    name[0] = (struct field){operation->parameter, &FIELD_NAME, .required = true};
    name[1] = (struct field){0};
    return (struct field_part){name, 0};
}

static void route_as_json(const struct rest_route *route, struct json_writer *w)
{
    char path[160];
    struct field name[2];
    const enum config_scope scope = rest_route_scope(route);
    const struct field_part *body = route->operation ? &route->operation->body : &route->own_body;
    const struct field_part parameters = parameters_of(route, name);
    (void)snprintf(path, sizeof path, "/v1%s", rest_route_path(route));
    json_begin_object(w);
    json_field_cstr(w, "method", http_method_name(rest_route_method(route)));
    json_field_cstr(w, "path", path);
    json_field_cstr(w, "scope", scope ? config_scope_name(scope) : NULL);
    json_field_cstr(w, "summary", rest_route_summary(route));
    json_key(w, "parameters");
    fields_describe(&parameters, w);
    json_key(w, "body");
    if (body->fields)
        fields_describe(body, w);
    else
        json_put_null(w);
    json_end_object(w);
}

void rest_reference_json(struct json_writer *w)
{
    json_begin_object(w);
    json_open_array(w, "routes");
    for (size_t i = 0; REST_TABLES[i]; i++)
        for (const struct rest_route *route = REST_TABLES[i]; rest_route_path(route); route++)
            route_as_json(route, w);
    json_end_array(w);
    json_end_object(w);
}
