/* access.c - passwords in force, and what a client that knows one may do. */
#include "server/faktory/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "engine/engine.h"
#include "server/auth/audit.h"
#include "server/auth/auth.h"
#include "server/faktory/format/line.h"
#include "server/listen/address_counts.h"

struct str faktory_tenant(struct faktory_server *server, const char *name)
{
    char *known = map_get(&server->tenants, str_of(name));
    if (known)
        return str_of(known);
    char *copy = strdup(name);
    if (!copy || map_put(&server->tenants, str_of(name), copy) < 0) {
        free(copy);
        return (struct str){0};
    }
    return str_of(copy);
}

void faktory_tenants_release(struct faktory_server *server)
{
    MAP_FOREACH (&server->tenants, slot)
        free(slot->value);
    map_release(&server->tenants);
}

void faktory_conn_let_in(struct faktory_conn *conn, struct faktory_passwords *set,
                         const struct faktory_password *password)
{
    struct faktory_passwords *before = conn->passwords;
    conn->passwords = faktory_passwords_hold(set);
    conn->password = password;
    conn->scopes = password ? password->scopes : FAKTORY_SCOPES_ALL;
    conn->tenant =
        faktory_tenant(conn->server, password ? password->tenant : ENGINE_TENANT_DEFAULT);
    faktory_passwords_free(before);
    if (!conn->tenant.ptr)
        faktory_conn_close(conn);
}

/* ---- The log --------------------------------------------------------------------------------- */

static struct audit audit_of(const struct faktory_conn *conn, const char *action,
                             char client[ADDRESS_TEXT_MAX])
{
    return (struct audit){
        .interface = "faktory",
        .token = conn->password ? conn->password->name : "",
        .tenant = conn->tenant,
        .client = address_text((const struct sockaddr *)&conn->address, client),
        .action = action,
    };
}

static void faktory_audit_action(const struct faktory_conn *conn, struct str verb)
{
    char client[ADDRESS_TEXT_MAX], action[64];
    (void)snprintf(action, sizeof action, "%.*s", FAKTORY_QUOTE(verb));
    const struct audit what = audit_of(conn, action, client);
    audit_action(conn->server->options.log, &what, "asked");
}

void faktory_audit_refusal(struct faktory_conn *conn, struct str verb, const char *why)
{
    char client[ADDRESS_TEXT_MAX], action[64];
    (void)snprintf(action, sizeof action, "%.*s", FAKTORY_QUOTE(verb));
    const struct audit what = audit_of(conn, action, client);
    audit_refusal(conn->server->options.log, &conn->server->refusals, &what, why);
}

bool faktory_conn_may(struct faktory_conn *conn, enum config_scope scope, struct str verb)
{
    if (conn->scopes & scope) {
        if (scope == CONFIG_SCOPE_ADMIN)
            faktory_audit_action(conn, verb);
        return true;
    }
    faktory_audit_refusal(conn, verb, "the password lacks the scope");
    faktory_put_error(faktory_conn_reply(conn), "%.*s needs the scope '%s'", FAKTORY_QUOTE(verb),
                      auth_scope_name(scope));
    return false;
}

/* ---- Other passwords ------------------------------------------------------------------------- */

/* A client that has not said hello yet, or whose hello is being looked at, is judged by the
 * passwords that are in force then; one that was greeted without a salt cannot prove anything. */
static bool stays(struct faktory_conn *conn, struct faktory_passwords *set)
{
    if (!conn->has_said_hello)
        return conn->iterations > 0 || faktory_passwords_count(set) == 0;
    if (!conn->password)
        return faktory_passwords_count(set) == 0;
    const struct faktory_password *same = faktory_passwords_same(set, conn->password);
    if (same)
        faktory_conn_let_in(conn, set, same);
    return same;
}

void faktory_server_set_passwords(struct faktory_server *server,
                                  struct faktory_passwords *passwords)
{
    struct faktory_passwords *before = server->passwords;
    size_t n_ended = 0;
    server->passwords = faktory_passwords_hold(passwords);
    faktory_passwords_free(before);
    LIST_FOREACH (&server->conns, link) {
        struct faktory_conn *conn = LIST_ENTRY(link, struct faktory_conn, link);
        if (conn->is_ending || stays(conn, passwords))
            continue;
        conn->scopes = 0;
        faktory_conn_end(conn);
        n_ended++;
    }
    if (n_ended > 0)
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_clients_ended",
                  LOG_I("connections", (int64_t)n_ended),
                  LOG_S("error", "their password is not valid any more"));
}
