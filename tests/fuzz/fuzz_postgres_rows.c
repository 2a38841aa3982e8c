/* Results as a PostgreSQL server could send them, from damaged or foreign tables: any values, NULLs
 * and errors, given to the verbs of a store. The input begins with the letters of verbs (verbs.h);
 * what follows is the results, in their order. Each begins with a character:
 *
 *     E  an error; the next five characters are its SQLSTATE
 *     !  the connection breaks; when the input is over, it does too, and no other can be made
 *
 * and any other is the number of rows, followed by the number of columns. All values are 1, as
 * bigint, but for those that follow, up to a '.': row, column, and a value as read_value says. */
#include "fuzz.h"

#include <endian.h>
#include <string.h>
#include <time.h>

#include "base/text/str.h"
#include "store/postgres/private.h"
#include "store_verbs.h"

#define ROWS_MAX    4
#define COLUMNS_MAX 64
#define SENT_MAX    64

enum sent_kind {
    SENT_SESSION,
    SENT_COMMAND,
    SENT_QUERY,
    SENT_SYNC
};

/* The server, and the state of the one connection to it. */
static struct {
    struct str left; /* of the input */
    bool is_helpful; /* the store is opened: it is as it should be */
    bool is_broken;
    bool is_aborted; /* the pipeline, by an error */
    bool is_told;    /* the result of the first statement was given */
    enum sent_kind sent[SENT_MAX];
    size_t n_sent;
    char state[6]; /* SQLSTATE of the last error */
} server;

/* ---- Results --------------------------------------------------------------------------------- */

static unsigned next_byte(void)
{
    if (server.left.len == 0)
        return '.';
    const unsigned char byte = (unsigned char)server.left.ptr[0];
    server.left = (struct str){server.left.ptr + 1, server.left.len - 1};
    return byte;
}

static struct str next_bytes(size_t n)
{
    const struct str bytes = {server.left.ptr, n < server.left.len ? n : server.left.len};
    server.left = (struct str){server.left.ptr + bytes.len, server.left.len - bytes.len};
    return bytes;
}

static void set_value(PGresult *result, int row, int column, const char *bytes, size_t n)
{
    char copy[256];
    FUZZ_CHECK(n < sizeof copy);
    if (n > 0)
        memcpy(copy, bytes, n);
    FUZZ_CHECK(PQsetvalue(result, row, column, bytes ? copy : NULL, bytes ? (int)n : -1));
}

static void set_number(PGresult *result, int row, int column, int64_t number)
{
    const uint64_t big = htobe64((uint64_t)number);
    set_value(result, row, column, (const char *)&big, sizeof big);
}

/* n: NULL; t, f: a boolean; i, j, k: a number of eight, four or two bytes; s: a length and so many
 * bytes; a digit: that number; anything else: the byte as a number. */
static void read_value(PGresult *result, int row, int column)
{
    const unsigned kind = next_byte();
    struct str bytes;
    switch (kind) {
    case 'n': set_value(result, row, column, NULL, 0); break;
    case 't': set_value(result, row, column, "\1", 1); break;
    case 'f': set_value(result, row, column, "\0", 1); break;
    case 'i':
    case 'j':
    case 'k':
        bytes = next_bytes(kind == 'i' ? 8 : kind == 'j' ? 4 : 2);
        set_value(result, row, column, bytes.ptr ? bytes.ptr : "", bytes.len);
        break;
    case 's':
        bytes = next_bytes(next_byte() & 127);
        set_value(result, row, column, bytes.ptr ? bytes.ptr : "", bytes.len);
        break;
    default:
        set_number(result, row, column, kind >= '0' && kind <= '9' ? (int)kind - '0' : (int)kind);
    }
}

static PGresult *new_result(ExecStatusType status, int columns)
{
    static char name[] = "c";
    PGresAttDesc columns_of[COLUMNS_MAX];
    PGresult *result = PQmakeEmptyPGresult(NULL, status);
    FUZZ_CHECK(result);
    for (int i = 0; i < columns; i++)
        columns_of[i] = (PGresAttDesc){.name = name, .format = 1};
    FUZZ_CHECK(columns == 0 || PQsetResultAttrs(result, columns, columns_of));
    return result;
}

static PGresult *read_result(void)
{
    const unsigned first = server.left.len > 0 ? next_byte() : '!';
    if (first == '!') {
        server.is_broken = true;
        return NULL;
    }
    if (first == 'E') {
        (void)str_copy(server.state, sizeof server.state, next_bytes(5));
        server.is_aborted = true;
        return new_result(PGRES_FATAL_ERROR, 0);
    }
    const int rows = (int)(first % (ROWS_MAX + 1)),
              columns = (int)(next_byte() % (COLUMNS_MAX + 1));
    PGresult *result = new_result(PGRES_TUPLES_OK, columns);
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < columns; k++)
            set_number(result, i, k, 1);
    for (unsigned row; (row = next_byte()) != '.';) {
        const unsigned column = next_byte();
        if (rows > 0 && columns > 0)
            read_value(result, (int)(row % (unsigned)rows), (int)(column % (unsigned)columns));
    }
    return result;
}

/* A result in text, as statements outside of pipelines ask for. */
static PGresult *text_result(int number)
{
    char text[16];
    PGresult *result = new_result(PGRES_TUPLES_OK, 1);
    const int n = snprintf(text, sizeof text, "%d", number);
    set_value(result, 0, 0, text, (size_t)n);
    return result;
}

/* ---- In place of libpq's connection ---------------------------------------------------------- */

static PGconn *the_connection(void)
{
    static char connection;
    return (PGconn *)(void *)&connection;
}

PGconn *PQconnectdbParams(const char *const *names, const char *const *values, int expand)
{
    (void)names;
    (void)values;
    (void)expand;
    server.is_broken = !server.is_helpful && server.left.len == 0;
    server.is_aborted = server.is_told = false;
    server.n_sent = 0;
    return the_connection();
}

ConnStatusType PQstatus(const PGconn *conn)
{
    (void)conn;
    return server.is_broken ? CONNECTION_BAD : CONNECTION_OK;
}

void PQfinish(PGconn *conn)
{
    (void)conn;
}

char *PQerrorMessage(const PGconn *conn)
{
    static char text[] = "broken";
    (void)conn;
    return text;
}

int PQserverVersion(const PGconn *conn)
{
    (void)conn;
    return 150000;
}

const char *PQparameterStatus(const PGconn *conn, const char *name)
{
    (void)conn;
    return strcmp(name, "server_encoding") == 0 ? "UTF8" : "15.0";
}

int PQbackendPID(const PGconn *conn)
{
    (void)conn;
    return 1;
}

int PQsocket(const PGconn *conn)
{
    (void)conn;
    return -1;
}

int PQenterPipelineMode(PGconn *conn)
{
    (void)conn;
    return 1;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver receiver, void *arg)
{
    (void)conn;
    (void)receiver;
    (void)arg;
    return NULL;
}

int PQisBusy(PGconn *conn)
{
    (void)conn;
    return 0;
}

int PQconsumeInput(PGconn *conn)
{
    (void)conn;
    return !server.is_broken;
}

PGnotify *PQnotifies(PGconn *conn)
{
    (void)conn;
    return NULL;
}

/* Settings, the version of the schema and numbers of types: right ones. */
PGresult *PQexec(PGconn *conn, const char *sql)
{
    (void)conn;
    if (strncmp(sql, "SET ", 4) == 0)
        return new_result(PGRES_COMMAND_OK, 0);
    return text_result(POSTGRES_SCRIPTS_COUNT);
}

/* ---- Statements and their results ------------------------------------------------------------ */

static int note_sent(enum sent_kind kind)
{
    if (server.is_broken || server.n_sent == SENT_MAX)
        server.is_broken = true;
    else
        server.sent[server.n_sent++] = kind;
    return !server.is_broken;
}

/* Only asks for the number of the session, outside of a pipeline. */
int PQsendQuery(PGconn *conn, const char *sql)
{
    (void)conn;
    (void)sql;
    return note_sent(SENT_SESSION);
}

int PQsendPrepare(PGconn *conn, const char *name, const char *sql, int n, const Oid *types)
{
    (void)conn;
    (void)name;
    (void)sql;
    (void)n;
    (void)types;
    return note_sent(SENT_COMMAND);
}

int PQsendQueryPrepared(PGconn *conn, const char *name, int n, const char *const *values,
                        const int *lengths, const int *formats, int format)
{
    (void)conn;
    (void)n;
    (void)values;
    (void)lengths;
    (void)formats;
    (void)format;
    const bool is_command = strcmp(name, "redrive_BEGIN") == 0 ||
                            strcmp(name, "redrive_COMMIT") == 0 ||
                            strcmp(name, "redrive_ROLLBACK") == 0;
    return note_sent(is_command ? SENT_COMMAND : SENT_QUERY);
}

int PQsendQueryParams(PGconn *conn, const char *sql, int n, const Oid *types,
                      const char *const *values, const int *lengths, const int *formats, int format)
{
    (void)conn;
    (void)sql;
    (void)n;
    (void)types;
    (void)values;
    (void)lengths;
    (void)formats;
    (void)format;
    return note_sent(SENT_QUERY);
}

int PQpipelineSync(PGconn *conn)
{
    (void)conn;
    return note_sent(SENT_SYNC);
}

static void take_sent(void)
{
    memmove(server.sent, server.sent + 1, --server.n_sent * sizeof server.sent[0]);
}

/* As in a pipeline: NULL follows the result of each statement, and after an error those up to the
 * end of the pipeline have none. */
PGresult *PQgetResult(PGconn *conn)
{
    (void)conn;
    if (server.is_broken || server.n_sent == 0)
        return NULL;
    const enum sent_kind kind = server.sent[0];
    if (kind == SENT_SYNC) {
        take_sent();
        server.is_aborted = false;
        return new_result(PGRES_PIPELINE_SYNC, 0);
    }
    server.is_told = !server.is_told;
    if (!server.is_told) {
        take_sent();
        return NULL;
    }
    if (server.is_aborted)
        return new_result(PGRES_PIPELINE_ABORTED, 0);
    if (kind == SENT_QUERY)
        return read_result();
    return kind == SENT_SESSION ? text_result(1) : new_result(PGRES_COMMAND_OK, 0);
}

char *PQresultErrorField(const PGresult *result, int field)
{
    static char text[] = "no";
    if (PQresultStatus(result) != PGRES_FATAL_ERROR)
        return NULL;
    return field == PG_DIAG_SQLSTATE ? server.state : text;
}

char *PQcmdStatus(PGresult *result)
{
    static char text[] = "COMMIT";
    (void)result;
    return text;
}

char *PQcmdTuples(PGresult *result)
{
    static char one[] = "1", none[] = "0";
    return PQntuples(result) == 1 ? one : none;
}

/* Pauses between tries take no time. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    return 0;
}

/* ---- The target ------------------------------------------------------------------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = verbs_length(data, size);
    const struct store_options options = {.caller_time = true, .busy_wait_ms = 1};
    struct store *store = NULL;
    server.left = (struct str){(const char *)data + n, size - n};
    server.is_helpful = true;
    FUZZ_CHECK(store_open("postgres://h/d", &options, &store, NULL) == 0);
    server.is_helpful = false;
    store->to_compact = 0; /* it begins by chance */
    verbs_obey(store, data, n, NULL);
    store_close(store);
    return 0;
}
