#include "check.h"

#include "base/os/log.h"
#include "cli/frame/cli.h"
#include "cli/frame/command.h"
#include "cli/output/term.h"
#include "fake.h"

static struct buf out;

static int setup(void **state)
{
    (void)state;
    buf_init(&out, HELP_MAX_BYTES);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_release(&out);
    return 0;
}

static struct command_path path_to(const char *first, const char *second)
{
    struct command_path path = {.at = {&FAKE_ROOT}, .depth = 1};
    if (first)
        assert_int_equal(command_path_descend(&path, first, NULL), 0);
    if (second)
        assert_int_equal(command_path_descend(&path, second, NULL), 0);
    return path;
}

static const char *page(const char *first, const char *second, const struct term *term)
{
    struct command_path path = path_to(first, second);
    buf_reset(&out);
    help_page(&path, &FAKE_SOURCE, term, &out);
    return buf_cstr(&out);
}

static size_t widest_line(const char *text)
{
    size_t widest = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        size_t width = text_width((struct str){text, len});
        widest = width > widest ? width : widest;
        text += len + (text[len] == '\n');
    }
    return widest;
}

static const struct term PIPE = {0};

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

FIXTURE_TEST(page_shows_all_that_the_table_knows)
{
    assert_string_equal(
        page("simulate", NULL, &PIPE),
        "fake simulate - run a task in virtual time\n"
        "\n"
        "Usage: fake simulate [OPTIONS] TASK [FILE...]\n"
        "\n"
        "Options:\n"
        "  -p, --profile NAME        use the profile NAME\n"
        "  -n, --count N             how many (default: 10)\n"
        "      --any VALUE           a number without bounds\n"
        "      --rate SHARE          share of calls that fail (default: 0.5)\n"
        "      --delay TIME          how long to wait (default: 1s)\n"
        "      --strategy NAME       how delays grow: exponential, linear, fixed\n"
        "                            (default: linear)\n"
        "      --mode VALUE          a choice without a default: exponential, linear,\n"
        "                            fixed\n"
        "  -l, --label WORD          mark the run with WORD; may be repeated\n"
        "  -j, --[no-]jitter         spread the delays\n"
        "  -v, --verbose             say more\n"
        "\n"
        "Global options, before or after the command:\n"
        "  -c, --config FILE         read FILE\n"
        "      --json                print JSON\n"
        "  -h, --help                show help\n"
        "\n"
        "Examples:\n"
        "  fake simulate t\n"
        "      run t\n");
}

FIXTURE_TEST(page_of_a_group_lists_its_commands)
{
    const char *text = page("policy", NULL, &PIPE);
    assert_non_null(strstr(text, "Usage: fake policy [OPTIONS] COMMAND\n"));
    assert_non_null(strstr(text, "  explain       explain a policy\n"
                                 "  show          show all policies\n"));
    assert_non_null(strstr(text, "Run 'fake help policy COMMAND' to read about a command.\n"));
}

FIXTURE_TEST(page_of_the_program_names_the_configuration_but_no_hidden_command)
{
    const char *text = page(NULL, NULL, &PIPE);
    assert_non_null(strstr(text, "see 'fake help config-flags'."));
    assert_non_null(strstr(text, "  policy        look at policies\n"));
    assert_null(strstr(text, "ghost"));
}

FIXTURE_TEST(page_fits_the_terminal_up_to_a_hundred_columns)
{
    for (unsigned width = 50; width <= 200; width += 10) {
        const struct term term = {.is_tty = true, .width = width};
        size_t limit = width < HELP_WIDTH_MAX ? width : HELP_WIDTH_MAX;
        assert_true(widest_line(page("simulate", NULL, &term)) <= limit);
    }
    assert_true(widest_line(page("simulate", NULL, &PIPE)) <= HELP_WIDTH_DEFAULT);
}

/* ---- The manual page --------------------------------------------------------------------------
 */

static const struct field MANY_OPTIONS[] = {
    {.name = "a", .kind = &FIELD_BOOL, .help = "first"},
    {.name = "b", .kind = &FIELD_BOOL, .help = "second"},
    {.name = "c", .kind = &FIELD_BOOL, .help = "third"},
    {.name = "d", .kind = &FIELD_BOOL, .help = "fourth"},
    {.name = "e", .letter = 'e', .kind = &OPTION_STRING, .placeholder = "FILE", .help = "fifth"},
    {0},
};
static const struct field OTHER_OPTIONS[] = {
    {.name = "a", .kind = &FIELD_BOOL, .help = "first"},
    {.name = "b", .kind = &FIELD_BOOL, .help = "second"},
    {.name = "c", .kind = &FIELD_BOOL, .help = "third"},
    {.name = "d", .kind = &FIELD_BOOL, .help = "fourth"},
    {.name = "e", .letter = 'e', .kind = &OPTION_STRING, .placeholder = "FILE", .help = "fifth"},
    {.name = "f", .kind = &FIELD_BOOL, .negatable = true, .help = "the `sixth`"},
    {0},
};
static const struct command MANY = {
    .name = "many",
    .summary = "have many options",
    .arguments = "[ID...]",
    .description = "With --a-b, or '\\', time-out. Up to 1.5 s, -1 for\n\n.env. Not so.",
    .options = MANY_OPTIONS,
    .over_http = true,
};
static const struct command OTHER = {
    .name = "other", .summary = "have them too", .arguments = "A", .options = OTHER_OPTIONS};
static const struct command MANUAL_ROOT = {
    .name = "fake",
    .summary = "s",
    .commands = (const struct command *const[]){&MANY, &OTHER, NULL},
};

FIXTURE_TEST(manual_is_made_of_the_tables)
{
    manual_part(&MANUAL_ROOT, &out);
    assert_string_equal(buf_cstr(&out),
                        ".Sh GLOBAL OPTIONS\n"
                        ".Sh COMMANDS\n.Bl -tag -width Ds\n"
                        ".It Nm Cm many Op Ar ID ...\n"
                        "Have many options.\n"
                        "With \\fB\\-\\-a\\-b\\fR, or \\(aq\\e\\(aq, time-out.\n"
                        "Up to 1.5 s, \\-1 for\n.Pp\n\\&.env.\nNot so.\n"
                        ".Bl -tag -width Ds\n"
                        ".It Fl -a\nFirst.\n.It Fl -b\nSecond.\n.It Fl -c\nThird.\n"
                        ".It Fl -d\nFourth.\n.It Fl e Ar FILE , Fl -e Ar FILE\nFifth.\n.El\n"
                        ".It Nm Cm other Ar A\n"
                        "Have them too.\n"
                        ".Bl -tag -width Ds\n.It Fl -[no-]f\nThe \\fBsixth\\fR.\n.El\n"
                        ".Pp\nUnderstands\n.Fl -a , -b , -c , -d , -e\nas\n.Nm Cm many\ndoes.\n"
                        ".El\n"
                        ".Sh COMMANDS OVER HTTP\nWith\n.Fl -server\n"
                        "these commands ask a server over HTTP, and print what they print on its "
                        "store:\n.Cm many .\n"
                        "All others that use a store need the store itself, and say so.\n");
}

FIXTURE_TEST(long_names_stand_on_a_line_of_their_own)
{
    const struct field options[] = {
        {.name = "a-very-long-name-of-an-option", .kind = &FIELD_BOOL, .help = "what it does"},
        {0},
    };
    const struct command c = {.name = "x", .summary = "s", .options = options};
    const struct command_path path = {.at = {&c}, .depth = 1};
    help_page(&path, NULL, &PIPE, &out);
    assert_non_null(strstr(buf_cstr(&out), "      --a-very-long-name-of-an-option\n"
                                           "                            what it does\n"));
}

FIXTURE_TEST(headings_are_bold_on_a_terminal_with_colour)
{
    const struct term term = {.is_tty = true, .width = 80, .color = true};
    assert_non_null(strstr(page("simulate", NULL, &term), "\033[1mOptions:\033[0m\n"));
    assert_null(strstr(page("simulate", NULL, &PIPE), "\033"));
}

FIXTURE_TEST(overview_lists_commands_only)
{
    const struct command_path path = path_to(NULL, NULL);
    help_overview(&path, &PIPE, &out);
    assert_string_equal(buf_cstr(&out),
                        "fake - a program for tests\n"
                        "\n"
                        "Usage: fake [OPTIONS] COMMAND [ARGUMENTS]\n"
                        "\n"
                        "Commands:\n"
                        "  simulate      run a task in virtual time\n"
                        "  policy        look at policies\n"
                        "\n"
                        "See 'fake help COMMAND' for a command, 'fake --help' for all options.\n");
}

FIXTURE_TEST(source_is_listed_like_a_table)
{
    help_source(&FAKE_SOURCE, &PIPE, &out);
    const char *text = buf_cstr(&out);
    assert_non_null(strstr(text, "      --retry-max-delay TIME            longest delay\n"
                                 "      --retry-mode VALUE                mode of the delays:"));
    assert_true(widest_line(text) <= HELP_WIDTH_DEFAULT);
}

FIXTURE_TEST(description_nests_commands_and_leaves_out_hidden_ones)
{
    const struct command_path path = path_to("policy", NULL);
    describe_command(&path, &out);
    assert_string_equal(
        buf_cstr(&out),
        "{\"name\":\"policy\",\"usage\":\"fake policy [OPTIONS] COMMAND\","
        "\"summary\":\"look at policies\",\"description\":null,\"options\":[],\"examples\":[],"
        "\"commands\":["
        "{\"name\":\"explain\",\"usage\":\"fake policy explain [OPTIONS] TASK\","
        "\"summary\":\"explain a policy\",\"description\":null,\"options\":[],\"examples\":[],"
        "\"commands\":[]},"
        "{\"name\":\"show\",\"usage\":\"fake policy show [OPTIONS]\","
        "\"summary\":\"show all policies\",\"description\":null,\"options\":[],\"examples\":[],"
        "\"commands\":[]}]}\n");
    buf_reset(&out);
    const struct command_path root = path_to(NULL, NULL);
    describe_command(&root, &out);
    assert_null(strstr(buf_cstr(&out), "ghost"));
}

FIXTURE_TEST(description_tells_all_about_an_option)
{
    describe_source(&FAKE_SOURCE, &out);
    assert_non_null(strstr(buf_cstr(&out),
                           "{\"name\":\"retry-mode\",\"letter\":null,\"type\":\"string\","
                           "\"negatable\":false,\"placeholder\":null,"
                           "\"help\":\"mode of the delays\",\"default\":null,"
                           "\"choices\":[\"exponential\",\"linear\",\"fixed\"]}"));
}

/* --log-level gives the number of a level: program and log must count them alike. */
FIXTURE_TEST(log_levels_stand_in_the_order_of_the_log)
{
    const struct field *o = option_find(GLOBAL_OPTIONS, STR("log-level"));
    for (int level = LOG_LEVEL_DEBUG; level <= LOG_LEVEL_OFF; level++)
        assert_string_equal(o->words[level], log_level_name((enum log_level)level));
    assert_null(o->words[LOG_LEVEL_OFF + 1]);
}
