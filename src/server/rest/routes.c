/* routes.c - the list of all tables of routes. */
#include "server/rest/routes.h"

const struct rest_route *const REST_TABLES[] = {
    REST_SUBMIT,    REST_JOBS,    REST_WORK,    REST_BREAKERS, REST_DEAD,
    REST_DEAD_BULK, REST_FIGURES, REST_COUNTS,  REST_RATES,    REST_TASKS,
    REST_CRON,      REST_SERVICE, REST_SESSION, REST_WATCH,    NULL,
};
