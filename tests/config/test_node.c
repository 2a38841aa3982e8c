#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "config/document/node.h"

static struct arena arena;
static struct redrive_err err;

static int fresh(void **state)
{
    (void)state;
    arena_init(&arena);
    memset(&err, 0, sizeof err);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct node *yaml(const char *text)
{
    struct node *root = NULL;
    int rc = node_from_yaml(&arena, str_of(text), "f.yaml", &root, &err);
    if (rc < 0)
        fail_msg("%s", err.message);
    return root;
}

static int refused(const char *text, const char *message)
{
    struct node *root = NULL;
    int rc = node_from_yaml(&arena, str_of(text), "f.yaml", &root, &err);
    assert_true(rc < 0);
    assert_null(root);
    assert_int_equal(err.code, rc);
    assert_string_equal(err.message, message);
    return rc;
}

#define FIXTURE_TEST(test) TEST_AROUND(test, fresh, drop)

/* ---- YAML ------------------------------------------------------------------------------------ */

FIXTURE_TEST(yaml_becomes_a_tree_with_lines)
{
    struct node *root = yaml("a: 1\nb:\n  - x\n  - \"y\"\nc: {d: e}\n");
    assert_int_equal(root->type, NODE_MAP);
    assert_int_equal(root->n_children, 3);

    struct node *b = node_find(root, STR("b"));
    assert_int_equal(b->type, NODE_LIST);
    assert_int_equal(b->n_children, 2);
    assert_int_equal(b->key_line, 2);
    assert_int_equal(b->last->line, 4);
    assert_int_equal(b->first->style, NODE_PLAIN);
    assert_int_equal(b->last->style, NODE_QUOTED);
    check_str(b->last->text, "y");

    struct node *d = node_find(node_find(root, STR("c")), STR("d"));
    check_str(d->text, "e");
    assert_int_equal(d->line, 5);
    assert_string_equal(d->source, "f.yaml");
    assert_null(node_find(root, STR("x")));
    assert_null(node_find(d, STR("x")));
    assert_null(node_find(NULL, STR("x")));
}

FIXTURE_TEST(nothing_at_all_is_an_empty_map)
{
    static const char *const TEXTS[] = {"", "# only a comment\n", "---\n", "null\n",
                                        "\xEF\xBB\xBF"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct node *root = yaml(TEXTS[i]);
        assert_int_equal(root->type, NODE_MAP);
        assert_int_equal(root->n_children, 0);
    }
}

FIXTURE_TEST(null_and_truth_are_words_without_quotes)
{
    struct node *root = yaml("[~, null, '', true, False, 'true', yes, \"~\", TRUE]");
    static const struct {
        bool null;
        int truth;
    } EXPECTED[] = {{1, -1}, {1, -1}, {0, -1}, {0, 1}, {0, 0}, {0, -1}, {0, -1}, {0, -1}, {0, 1}};
    const struct node *item = root->first;
    for (size_t i = 0; i < sizeof EXPECTED / sizeof EXPECTED[0]; i++, item = item->next) {
        assert_int_equal(node_is_null(item), EXPECTED[i].null);
        assert_int_equal(node_truth(item), EXPECTED[i].truth);
    }
}

FIXTURE_TEST(aliases_anchors_and_tags_are_refused)
{
    refused("a: &x 1\nb: *x\n", "f.yaml:1: anchors and aliases are not supported");
    refused("a: 1\nb: *x\n", "f.yaml:2: anchors and aliases are not supported");
    refused("a: &x [1]", "f.yaml:1: anchors and aliases are not supported");
    refused("a: &x {b: 1}", "f.yaml:1: anchors and aliases are not supported");
    assert_string_not_equal(err.hint, "");
    refused("a: !!str 5\n", "f.yaml:1: tags such as !!str are not supported");
    refused("a:\n  !thing {b: 1}\n", "f.yaml:2: tags such as !!str are not supported");
    refused("a: !!seq [1]", "f.yaml:1: tags such as !!str are not supported");
}

FIXTURE_TEST(a_billion_laughs_are_not_laughed)
{
    refused("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
            "f.yaml:1: anchors and aliases are not supported");
}

FIXTURE_TEST(a_key_that_is_given_twice_is_refused)
{
    refused("a: 1\nb: 2\na: 3\n", "f.yaml:3: key 'a' is given twice");
    assert_string_equal(err.detail, "first on line 1");
    refused("x: {a: 1,\n a: 2}\n", "f.yaml:2: key 'a' is given twice");
    /* A key that begins like another is another. */
    yaml("ab: 1\na: 2\nabc: 3\n");
}

FIXTURE_TEST(a_second_document_is_refused)
{
    refused("a: 1\n---\nb: 2\n", "f.yaml:2: a second document begins");
    yaml("---\na: 1\n...\n");
}

FIXTURE_TEST(keys_must_be_text)
{
    refused("? [a]\n: b\n", "f.yaml:1: a key must be text, not a list or a map");
    refused("{{a: b}: c}", "f.yaml:1: a key must be text, not a list or a map");
}

FIXTURE_TEST(nesting_has_a_limit)
{
    char text[NODE_MAX_DEPTH * 2 + 8] = "";
    for (int i = 0; i < NODE_MAX_DEPTH; i++)
        strcat(text, "[");
    for (int i = 0; i < NODE_MAX_DEPTH; i++)
        strcat(text, "]");
    yaml(text);
    memmove(text + 1, text, strlen(text) + 1);
    assert_int_equal(refused(text, "f.yaml:1: nested too deeply"), REDRIVE_E_TOO_DEEP);
}

FIXTURE_TEST(the_number_of_values_has_a_limit)
{
    char *text = malloc(3 * NODE_MAX_COUNT + 8);
    char *p = text;
    *p++ = '[';
    for (int i = 0; i < NODE_MAX_COUNT - 1; i++)
        p = stpcpy(p, "1,");
    strcpy(p, "]");
    yaml(text);
    strcpy(p, "1]");
    assert_int_equal(refused(text, "f.yaml:1: too many values"), REDRIVE_E_TOO_BIG);
    free(text);
}

FIXTURE_TEST(the_size_has_a_limit)
{
    char *text = malloc(NODE_MAX_BYTES + 2);
    memset(text, '#', NODE_MAX_BYTES + 1);
    text[NODE_MAX_BYTES + 1] = '\0';
    assert_int_equal(refused(text, "f.yaml: input is over the size limit"), REDRIVE_E_TOO_BIG);
    text[NODE_MAX_BYTES] = '\0';
    yaml(text);
    free(text);
}

FIXTURE_TEST(text_that_is_not_utf8_is_refused_with_its_line)
{
    refused("a: 1\nb: \xFF\n", "f.yaml:2: not UTF-8");
    /* Which also is what UTF-16 looks like. */
    refused("\xFF\xFE\x61", "f.yaml:1: not UTF-8");
    refused("a: \"x\\0y\"\n", "f.yaml:1: text holds a NUL character");
    refused("a: \x01\n", "f.yaml:1: not valid YAML");
}

FIXTURE_TEST(broken_syntax_is_explained)
{
    refused("a:\n\t- x\n", "f.yaml:2: not valid YAML");
    assert_string_equal(err.hint,
                        "indent with spaces, not tabs; quote text that begins with @, ` or %");
    refused("a: b: c\n", "f.yaml:1: not valid YAML");
    assert_string_equal(err.hint, "quote text that holds ': ' or ends with ':'");
    refused("a:\n  b: 1\n c: 2\n", "f.yaml:3: not valid YAML");
    assert_string_equal(err.hint, "is this line indented like its neighbours?");
    refused("a: 'x\n", "f.yaml:2: not valid YAML");
    assert_non_null(strstr(err.detail, "begun on line 1"));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

FIXTURE_TEST(json_becomes_the_same_tree)
{
    struct node *root = NULL;
    assert_int_equal(
        node_from_json(&arena, STR("{\"a\": [1, \"\\u0041\", null, true], \"b\": {\"c\": 2.5}}"),
                       &root, &err),
        0);
    struct node *a = node_find(root, STR("a"));
    assert_int_equal(a->n_children, 4);
    check_str(a->first->next->text, "A");
    assert_int_equal(a->first->next->style, NODE_QUOTED);
    assert_true(node_is_null(a->first->next->next));
    assert_int_equal(node_truth(a->last), 1);
    check_str(node_find(node_find(root, STR("b")), STR("c"))->text, "2.5");
    assert_int_equal(root->line, 0);
}

FIXTURE_TEST(json_is_held_to_the_same_limits)
{
    struct node *root = NULL;
    assert_int_equal(node_from_json(&arena, STR("{\"a\":1,\"a\":2}"), &root, &err),
                     REDRIVE_E_PARSE);
    assert_int_equal(node_from_json(&arena, STR("{\"a\":1} x"), &root, &err), REDRIVE_E_PARSE);
    assert_int_equal(node_from_json(&arena, STR("{\"a\":\"\\u0000\"}"), &root, &err),
                     REDRIVE_E_PARSE);
    assert_non_null(strstr(err.message, "NUL"));
    assert_int_equal(node_from_json(&arena, STR("{\"\\u0000\":1}"), &root, &err), REDRIVE_E_PARSE);
    assert_int_equal(node_from_json(&arena, STR(""), &root, &err), REDRIVE_E_PARSE);

    char deep[2 * NODE_MAX_DEPTH + 4];
    memset(deep, '[', NODE_MAX_DEPTH + 1);
    memset(deep + NODE_MAX_DEPTH + 1, ']', NODE_MAX_DEPTH + 1);
    assert_int_equal(
        node_from_json(&arena, (struct str){deep, 2 * NODE_MAX_DEPTH + 2}, &root, &err),
        REDRIVE_E_TOO_DEEP);

    char *many = malloc(2 * NODE_MAX_COUNT + 8);
    char *p = stpcpy(many, "[1");
    for (int i = 0; i < NODE_MAX_COUNT; i++)
        p = stpcpy(p, ",1");
    strcpy(p, "]");
    assert_int_equal(node_from_json(&arena, str_of(many), &root, &err), REDRIVE_E_TOO_BIG);
    free(many);
    assert_null(root);
}

/* ---- Writing and showing --------------------------------------------------------------------- */

static const struct node *as_json(const char *text, const char *expected)
{
    struct buf out;
    struct json_writer writer;
    buf_init(&out, 1000);
    json_writer_init(&writer, &out);
    const struct node *bad = node_write_json(yaml(text), &writer);
    if (expected)
        assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
    return bad;
}

FIXTURE_TEST(plain_scalars_become_what_json_has)
{
    assert_null(as_json("{a: 1, b: -2.5e3, c: text, d: 'true', e: true, f: ~, g: [], h: '5'}",
                        "{\"a\":1,\"b\":-2.5e3,\"c\":\"text\",\"d\":\"true\",\"e\":true,"
                        "\"f\":null,\"g\":[],\"h\":\"5\"}"));
    assert_null(as_json("[2026-05-01, 12:30:00, 1.2.3, -, 1-2, +, 5s, .5s, 0xZZ, e5, .]",
                        "[\"2026-05-01\",\"12:30:00\",\"1.2.3\",\"-\",\"1-2\",\"+\",\"5s\","
                        "\".5s\",\"0xZZ\",\"e5\",\".\"]"));
}

FIXTURE_TEST(what_readers_of_yaml_disagree_about_is_refused)
{
    static const char *const AMBIGUOUS[] = {"yes",   "No",   "ON",  "off",  "0x1F",  "0o17",
                                            "007",   "+5",   ".5",  "5.",   "1_000", ".inf",
                                            "-.inf", ".nan", "0b1", "-0x1", "1.5e+", "00"};
    for (size_t i = 0; i < sizeof AMBIGUOUS / sizeof AMBIGUOUS[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{a: 1, b: [x, %s]}", AMBIGUOUS[i]);
        const struct node *bad = as_json(text, "{\"a\":1,\"b\":[\"x\",null]}");
        assert_non_null(bad);
        check_str(bad->text, AMBIGUOUS[i]);
    }
}

FIXTURE_TEST(a_path_names_keys_and_places)
{
    char path[NODE_PATH_MAX];
    struct node *root = yaml("a: {b: [x, {c: 1}]}");
    struct node *b = node_find(node_find(root, STR("a")), STR("b"));
    assert_string_equal(node_path(root, path), "");
    assert_string_equal(node_path(b, path), "a.b");
    assert_string_equal(node_path(node_find(b->last, STR("c")), path), "a.b[1].c");
}

FIXTURE_TEST(a_long_path_loses_its_front)
{
    char path[NODE_PATH_MAX];
    struct node *node =
        yaml("{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: {bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
             ": {ccccccccccccccccccccccccccccccccccccccccccc: {d: 1}}}}");
    while (node->first)
        node = node->first;
    node_path(node, path);
    assert_true(strlen(path) < NODE_PATH_MAX);
    assert_non_null(strstr(path, ".d"));
    assert_null(strstr(path, "aaa"));
}

FIXTURE_TEST(a_long_source_loses_its_front)
{
    char source[300], where[NODE_WHERE_MAX];
    memset(source, 'd', sizeof source);
    strcpy(source + 280, "/redrive.yaml");
    struct node node = {.source = source};
    node_where(&node, 12, where);
    assert_memory_equal(where, "...ddd", 6);
    assert_non_null(strstr(where, "/redrive.yaml:12: "));
    node.source = "";
    assert_string_equal(node_where(&node, 0, where), "");
}

FIXTURE_TEST(shown_text_is_harmless_and_short)
{
    char shown[NODE_SHOW_MAX];
    assert_string_equal(node_show(STR("a\x1b[31m\n\x7f"), shown), "'a?[31m?"
                                                                  "?'");
    assert_string_equal(node_show(STR("\xC2\x9B"
                                      "31m"),
                                  shown),
                        "'??31m'");
    assert_string_equal(node_show(STR("\xC3\xA9"), shown), "'\xC3\xA9'");
    char text[100];
    memset(text, 'x', sizeof text);
    node_show((struct str){text, sizeof text}, shown);
    assert_true(strlen(shown) < NODE_SHOW_MAX);
    assert_non_null(strstr(shown, "x...'"));
}

FIXTURE_TEST(a_node_can_be_taken_out)
{
    struct node *root = yaml("{a: 1, b: 2, c: 3}");
    node_remove(root, STR("x"));
    assert_int_equal(root->n_children, 3);
    node_remove(root, STR("c"));
    node_remove(root, STR("a"));
    assert_ptr_equal(root->first, root->last);
    check_str(root->first->key, "b");
    node_remove(root, STR("b"));
    assert_null(root->first);
    assert_null(root->last);
    assert_int_equal(root->n_children, 0);
}

FIXTURE_TEST(memory_that_cannot_be_had_sticks)
{
    assert_non_null(arena_alloc(&arena, 100000));
    assert_string_equal(arena_printf(&arena, "%s-%d", "a", 5), "a-5");
    assert_false(arena.failed);
    assert_null(arena_alloc(&arena, SIZE_MAX - 10));
    assert_true(arena.failed);
    arena.failed = false;
    assert_null(arena_array(&arena, SIZE_MAX / 2, 16));
    assert_true(arena.failed);
}
