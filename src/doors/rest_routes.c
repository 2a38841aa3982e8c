#include "doors/rest_routes.h"

const struct rest_route *const REST_TABLES[] = {
    REST_SERVICE,
    NULL,
};
