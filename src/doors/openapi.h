/* openapi.h - docs/openapi.yaml, embedded when the program is built. */
#ifndef DOORS_OPENAPI_H
#define DOORS_OPENAPI_H

extern const char *const OPENAPI_TEXTS[];
extern const int OPENAPI_TEXTS_COUNT;

#endif
