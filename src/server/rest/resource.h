/* resource.h - what the resources share: finding a job, pages, refusals. */
#ifndef SERVER_REST_RESOURCE_H
#define SERVER_REST_RESOURCE_H

#include "api/api.h"
#include "api/job_query.h"
#include "api/redact.h"
#include "core/limit/limit.h"
#include "fields/json.h"
#include "server/rest/rest.h"
#include "store/store.h"

/* Fails with a field that may be empty. */
void kit_fail(struct rest_call *call, const struct redrive_err *err, const char *field);
/* Fails with a code and a fact. */
void kit_refuse(struct rest_call *call, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a hint, and with another status than the code's, unless it is 0. */
void kit_refuse_as(struct rest_call *call, int status, int code, const char *message,
                   const char *hint);
void kit_nomem(struct rest_call *call);
/* Zeroed memory with the lifetime of the request; NULL: it has been answered with 503. */
void *kit_alloc(struct rest_call *call, size_t size);

/* What an operation is given by this call; its parameters, which are those of the query, are in
 * `input`. */
struct api_context rest_context(struct rest_call *call, struct api_input *input);

/* Whether anything is hidden from the client: what the configuration's `redact` says, unless its
 * token has the scope `admin`. */
bool kit_redacts(const struct rest_call *call);

/* The number of a run over many jobs, which the path names. False: it is no number. */
bool kit_run_id(struct rest_call *call, int64_t *ret);
/* Stops that run: 204, or 404 with `what`, "run" or "retry". On a
 * reader: stopping waits for a timer that is firing. */
void kit_stop_run(struct rest_call *call, const char *what);

/* A parameter of the query; when it is not there `ret` gets the default of the field, or stays as
 * it is without one. False: it has been answered. */
bool kit_parameter(struct rest_call *call, const struct field *field, void *ret);

/* Adds the header that says where a job can be looked at. */
void kit_add_location(struct rest_call *call, struct str id);

#endif
