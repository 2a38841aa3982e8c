/* openapi.h - docs/openapi.yaml, embedded when the program is built. */
#ifndef SERVER_REST_OPENAPI_H
#define SERVER_REST_OPENAPI_H

extern const char *const OPENAPI_TEXTS[];
extern const int OPENAPI_TEXTS_COUNT;

#endif
