/* admin_commands.c - INFO, FLUSH, QUEUE and MUTATE: steps of faktory/admin/admin.h until they are
 * done. */
#include "server/faktory/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "server/faktory/admin/admin.h"
#include "server/faktory/format/request.h"

#define NAMES_MAX 100

struct admin_call {
    struct faktory_call call;
    struct faktory_admin admin;
    struct faktory_mutation mutation;
    struct str *names;
    size_t capacity;
};

static struct admin_call *admin_of(struct faktory_call *call)
{
    return (struct admin_call *)(void *)call;
}

static void admin_answered(struct faktory_call *call)
{
    struct admin_call *a = admin_of(call);
    if (a->admin.op.code < 0) {
        faktory_put_failure(&call->reply, &a->admin.op.err);
    } else if (a->admin.more && call->conn->server->is_stopping) {
        faktory_put_error(&call->reply, "the server stops; the rest was not done");
    } else if (a->admin.more) {
        faktory_admin_next(&a->admin);
        faktory_call_send(call, &a->admin.op);
        return;
    } else if (a->admin.text.len > 0) {
        faktory_put_bulk(&call->reply, buf_str(&a->admin.text));
    } else {
        faktory_put_ok(&call->reply);
    }
    faktory_call_finish(call);
}

static void admin_release(struct faktory_call *call)
{
    struct admin_call *a = admin_of(call);
    faktory_admin_release(&a->admin);
    free(a->names);
}

static const struct faktory_call_kind ADMIN = {
    .answered = admin_answered,
    .release = admin_release,
};

static struct admin_call *admin_new(struct faktory_conn *conn, enum faktory_admin_kind kind)
{
    faktory_conn_seal(conn);
    struct admin_call *a = faktory_call_new(conn, &ADMIN, sizeof *a);
    if (a)
        faktory_admin_init(&a->admin, kind, conn->tenant);
    return a;
}

static void admin_refuse(struct admin_call *a, const char *text)
{
    faktory_put_error(&a->call.reply, "%s", text);
    faktory_call_finish(&a->call);
}

/* What this process has in memory; 0: unknown. */
static uint64_t resident_mb(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    (void)fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

void faktory_info(struct faktory_conn *conn, struct str args)
{
    const struct faktory_server *server = conn->server;
    struct admin_call *a = admin_new(conn, FAKTORY_INFO);
    (void)args;
    if (!a)
        return;
    a->admin.facts = (struct faktory_server_facts){
        .uptime_s = (clock_monotonic_ms() - server->started_ms) / 1000,
        .connections = server->n_conns,
        .commands = server->n_commands,
        .workers = server->workers.count,
        .reaped = server->n_reaped,
        .memory_mb = resident_mb(),
    };
    faktory_call_send(&a->call, &a->admin.op);
}

void faktory_flush(struct faktory_conn *conn, struct str args)
{
    struct admin_call *a = admin_new(conn, FAKTORY_FLUSH);
    (void)args;
    if (!a)
        return;
    log_event(conn->server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_flush",
              LOG_STR("tenant", conn->tenant));
    faktory_call_send(&a->call, &a->admin.op);
}

static const char *read_names(struct admin_call *a, struct str words)
{
    struct str word;
    while (faktory_word_next(&words, &word)) {
        if (!str_is(word, "*") && name_check_queue(word, NULL) < 0)
            return "queue names must match [a-zA-Z0-9._-]+";
        if (a->admin.n_names == NAMES_MAX)
            return "too many queues";
        if (!faktory_make_room((void **)&a->names, a->admin.n_names, &a->capacity,
                               sizeof *a->names))
            return "out of memory";
        a->names[a->admin.n_names++] = word;
    }
    a->admin.names = a->names;
    if (a->admin.n_names == 0)
        return "QUEUE needs the name of a queue";
    a->admin.all = a->admin.n_names == 1 && str_is(a->names[0], "*");
    return a->admin.all && a->admin.kind == FAKTORY_LATENCY
               ? "QUEUE LATENCY does not support wildcards"
               : NULL;
}

void faktory_queue(struct faktory_conn *conn, struct str args)
{
    static const struct {
        const char *word;
        enum faktory_admin_kind kind;
        enum config_scope scope;
    } KINDS[] = {
        {"PAUSE", FAKTORY_PAUSE, CONFIG_SCOPE_ADMIN},
        {"RESUME", FAKTORY_RESUME, CONFIG_SCOPE_ADMIN},
        {"REMOVE", FAKTORY_REMOVE, CONFIG_SCOPE_ADMIN},
        {"LATENCY", FAKTORY_LATENCY, CONFIG_SCOPE_READ},
    };
    struct str word = STR("");
    (void)faktory_word_next(&args, &word);
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        if (!str_eq_nocase(word, str_of(KINDS[i].word)))
            continue;
        if (!faktory_conn_may(conn, KINDS[i].scope, word))
            return;
        struct admin_call *a = admin_new(conn, KINDS[i].kind);
        const char *wrong = a ? read_names(a, args) : NULL;
        if (wrong)
            admin_refuse(a, wrong);
        else if (a)
            faktory_call_send(&a->call, &a->admin.op);
        return;
    }
    faktory_put_error(faktory_conn_reply(conn), "no such QUEUE subcommand: %.*s",
                      FAKTORY_QUOTE(word));
}

void faktory_mutate(struct faktory_conn *conn, struct str args)
{
    struct redrive_err err = {0};
    struct admin_call *a = admin_new(conn, FAKTORY_MUTATE);
    if (!a)
        return;
    int rc = faktory_mutation_read(args, &a->call.arena, &a->mutation, &err);
    if (rc == 0)
        rc = faktory_mutation_check(&a->mutation, &err);
    if (rc < 0) {
        admin_refuse(a, err.message);
        return;
    }
    a->admin.mutation = &a->mutation;
    faktory_call_send(&a->call, &a->admin.op);
}
