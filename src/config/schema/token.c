/* token.c - the keys of `tokens` and `faktory_passwords`. */
#include "config/schema/schema.h"

#include "base/err.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"

/* ---- Kinds of values ------------------------------------------------------------------------- */

static bool parse_hash(struct str text, uint8_t hash[CONFIG_TOKEN_HASH_BYTES])
{
    static const struct str PREFIX = {"sha256:", 7};
    if (!str_starts_with(text, PREFIX) || text.len != PREFIX.len + 2 * CONFIG_TOKEN_HASH_BYTES)
        return false;
    const char *p = text.ptr + PREFIX.len;
    for (size_t i = 0; i < CONFIG_TOKEN_HASH_BYTES; i++, p += 2) {
        int high = str_hex_digit(p[0]), low = str_hex_digit(p[1]);
        if (high < 0 || low < 0)
            return false;
        hash[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* If the token itself was put here by mistake, it must not get into a log. */
static void bind_hash(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    uint8_t hash[CONFIG_TOKEN_HASH_BYTES];
    if (node->type == NODE_SCALAR && parse_hash(node->text, hash)) {
        memcpy(member, hash, sizeof hash);
        return;
    }
    struct redrive_err *err = bind_expected(b, field, node);
    err_hint(err, "printf %%s \"$TOKEN\" | sha256sum");
}

static void write_hash(const struct field *field, const void *member, struct json_writer *w)
{
    (void)member;
    json_field_cstr(w, field->name, "sha256:***");
}

static const struct field_kind TYPE_HASH = {
    .form = FORM_SCALAR,
    .bind = bind_hash,
    .write = write_hash,
    .expects = "sha256: and the 64 hexadecimal digits of the token's hash",
    .takes_all = true};

static const char *const SCOPES[] = {"enqueue", "work", "read", "admin"};
#define N_SCOPES (sizeof SCOPES / sizeof SCOPES[0])

const char *config_scope_name(enum config_scope scope)
{
    for (size_t i = 0; i < N_SCOPES; i++)
        if (scope & 1u << i)
            return SCOPES[i];
    return "";
}

static void bind_scope(struct binder *b, const struct field *field, const struct node *node,
                       uint32_t *scopes)
{
    char shown[NODE_SHOW_MAX];
    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
        return;
    }
    for (size_t i = 0; i < N_SCOPES; i++) {
        if (str_is(node->text, SCOPES[i])) {
            *scopes |= 1u << i;
            return;
        }
    }
    struct redrive_err *err = bind_error(b, node, "unknown scope %s", node_show(node->text, shown));
    bind_detail(err, field);
    err_suggest(err, suggest(node->text, SCOPES, N_SCOPES));
}

static void bind_scopes(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    if (node->type != NODE_LIST || node->n_children == 0) {
        bind_expected_list(b, field, node);
        return;
    }
    NODE_FOREACH (node, child)
        bind_scope(b, field, child, member);
}

static void write_scopes(const struct field *field, const void *member, struct json_writer *w)
{
    json_open_array(w, field->name);
    for (size_t i = 0; i < N_SCOPES; i++)
        if (*(const uint32_t *)member >> i & 1)
            json_put_cstr(w, SCOPES[i]);
    json_end_array(w);
}

static const struct field_kind TYPE_SCOPES = {.form = FORM_PART,
                                              .bind = bind_scopes,
                                              .write = write_scopes,
                                              .expects = "a list of enqueue, work, read and admin"};

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(member)      offsetof(struct config_token, member)
#define FAKTORY(member) offsetof(struct config_faktory_password, member)

static const struct field TOKEN_FIELDS[] = {
    ROW("name", TYPE_NAME, AT(name), "the name of its holder in logs", .required = true),
    ROW("hash", TYPE_HASH, AT(hash), "of the token; the token itself is not stored",
        .required = true, .secret = true),
    ROW("scopes", TYPE_SCOPES, AT(scopes), "what its holder may do", .required = true),
    ROW("tenant", TYPE_NAME, AT(tenant), "whose jobs its holder sees", DEFAULT("default")),
};

static void init(struct binder *b, void *object)
{
    struct config_token *token = object;
    (void)b;
    token->tenant = "default";
}

const struct table TABLE_TOKEN = {
    .name = "tokens", FIELDS(TOKEN_FIELDS), .size = sizeof(struct config_token), .init = init};

static const struct field FAKTORY_PASSWORD_FIELDS[] = {
    ROW("name", TYPE_NAME, FAKTORY(name), "the name of its holder in logs", .required = true),
    ROW("password_file", FIELD_TEXT, FAKTORY(password_file),
        "the file that holds it; read at start and reload"),
    ROW("password_env", FIELD_TEXT, FAKTORY(password_env),
        "the variable of the server's environment that holds it", .instead_of = "password_file"),
    ROW("scopes", TYPE_SCOPES, FAKTORY(scopes), "what its holder may do", .required = true),
    ROW("tenant", TYPE_NAME, FAKTORY(tenant), "whose jobs its holder sees", DEFAULT("default")),
};

static void init_faktory_password(struct binder *b, void *object)
{
    struct config_faktory_password *password = object;
    (void)b;
    password->tenant = "default";
}

static void finish_faktory_password(struct binder *b, const struct node *map, void *object)
{
    (void)object;
    if (node_find(map, STR("password_file")) || node_find(map, STR("password_env")))
        return;
    struct redrive_err *err = bind_lack(b, map, "password_file", "key 'password_file' is missing");
    err_detail(err, "a password is read from a file or from the environment");
    err_hint(err, "add password_file: PATH, or password_env: VARIABLE");
}

const struct table TABLE_FAKTORY_PASSWORD = {.name = "faktory_passwords",
                                             FIELDS(FAKTORY_PASSWORD_FIELDS),
                                             .size = sizeof(struct config_faktory_password),
                                             .init = init_faktory_password,
                                             .finish = finish_faktory_password};
