#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

const char *const FAULT_PATTERNS[FAULT_N_PATTERNS] = {
    "QuotaError",       /* 0: the last component of acme.QuotaError */
    "acme.SchemaError", /* 1: the whole name */
    "*Disconnect*",     /* 2: a glob, over both kinds of disconnect */
    "NobodyRaisesThis", /* 3: none */
};

#define QUOTA      (1u << 0)
#define SCHEMA     (1u << 1)
#define DISCONNECT (1u << 2)

static const char *const DERIVED[] = {"acme.BurstError", "acme.QuotaError", "acme.Error"};

const struct fault FAULTS[] = {
    {{.http_status = 500, .message = "http 500"}, REDRIVE_CLASS_TRANSIENT, 0, false},
    {{.http_status = 503, .message = "http 503"}, REDRIVE_CLASS_TRANSIENT, 0, false},
    {{.http_status = 503, .retry_after_ms = 7000, .message = "http 503, retry after 7 s"},
     REDRIVE_CLASS_RATE_LIMITED,
     0,
     false},
    {{.http_status = 429, .retry_after_ms = 90000, .message = "http 429, retry after 90 s"},
     REDRIVE_CLASS_RATE_LIMITED,
     0,
     false},
    {{.http_status = 429, .retry_after_ms = INT64_C(9000000), .message = "http 429, 2.5 h"},
     REDRIVE_CLASS_RATE_LIMITED,
     0,
     false},
    {{.http_status = 404, .message = "http 404"}, REDRIVE_CLASS_PERMANENT, 0, false},
    {{.http_status = 422, .message = "http 422"}, REDRIVE_CLASS_VALIDATION, 0, false},
    {{.http_status = 401, .message = "http 401"}, REDRIVE_CLASS_AUTHENTICATION, 0, false},
    {{.sqlstate = "40001", .message = "sqlstate 40001"}, REDRIVE_CLASS_DATABASE, 0, false},
    {{.errnum = ECONNRESET, .message = "errno reset"}, REDRIVE_CLASS_NETWORK, 0, false},
    {{.errnum = ENOSPC, .message = "errno no space"}, REDRIVE_CLASS_SYSTEM, 0, false},
    {{.exit_code = 75, .message = "exit 75"}, REDRIVE_CLASS_TRANSIENT, 0, false},
    {{.status = "TRANSIENT_FAIL", .message = "own word"}, REDRIVE_CLASS_TRANSIENT, 0, false},
    {{.status = "PERMANENT_FAIL", .message = "own no"}, REDRIVE_CLASS_PERMANENT, 0, false},
    {{.status = "rate_limited", .error_type = "acme.QuotaError", .message = "quota type"},
     REDRIVE_CLASS_RATE_LIMITED,
     QUOTA,
     false},
    {{.status = "rate_limited", .error_types = DERIVED, .n_error_types = 3, .message = "a base"},
     REDRIVE_CLASS_RATE_LIMITED,
     QUOTA,
     false},
    {{.status = "validation", .error_type = "acme.SchemaError", .message = "schema type"},
     REDRIVE_CLASS_VALIDATION,
     SCHEMA,
     false},
    {{.status = "network", .error_type = "ServerDisconnected", .message = "disconnect one"},
     REDRIVE_CLASS_NETWORK,
     DISCONNECT,
     false},
    {{.status = "permanent", .error_type = "io.DisconnectError", .message = "disconnect two"},
     REDRIVE_CLASS_PERMANENT,
     DISCONNECT,
     false},
    {{.status = "system", .signal = SIGSEGV, .message = "signal segv"},
     REDRIVE_CLASS_SYSTEM,
     0,
     true},
    {{.failed = true, .message = "nobody knows"}, REDRIVE_CLASS_TRANSIENT, 0, false},
    /* The simulated service's own. */
    {{.message = "connection refused"}, REDRIVE_CLASS_NETWORK, 0, false},
    {{.message = "timed out"}, REDRIVE_CLASS_NETWORK, 0, false},
    {{.message = "overloaded"}, REDRIVE_CLASS_TRANSIENT, 0, false},
    {{.message = "too many requests"}, REDRIVE_CLASS_RATE_LIMITED, 0, false},
};
const size_t FAULTS_COUNT = sizeof FAULTS / sizeof FAULTS[0];
const size_t FAULTS_OF_SERVICES = sizeof FAULTS / sizeof FAULTS[0] - 4;

const struct fault *fault_find(const char *message)
{
    for (size_t i = 0; message && i < FAULTS_COUNT; i++)
        if (FAULTS[i].failure.message == message || !strcmp(FAULTS[i].failure.message, message))
            return &FAULTS[i];
    return NULL;
}
