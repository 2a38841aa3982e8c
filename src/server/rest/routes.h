/* routes.h - the tables of routes: one for each rest_*.c, and the list of them all. */
#ifndef SERVER_REST_ROUTES_H
#define SERVER_REST_ROUTES_H

#include "server/rest/rest.h"

/* Each ends with an empty row. */
extern const struct rest_route REST_BREAKERS[];
extern const struct rest_route REST_COUNTS[];
extern const struct rest_route REST_CRON[];
extern const struct rest_route REST_DEAD[];
extern const struct rest_route REST_DEAD_BULK[];
extern const struct rest_route REST_FIGURES[];
extern const struct rest_route REST_JOBS[];
extern const struct rest_route REST_RATES[];
extern const struct rest_route REST_SERVICE[];
extern const struct rest_route REST_SESSION[];
extern const struct rest_route REST_SUBMIT[];
extern const struct rest_route REST_TASKS[];
extern const struct rest_route REST_WATCH[];
extern const struct rest_route REST_WORK[];

/* Ends with NULL. */
extern const struct rest_route *const REST_TABLES[];

#endif
