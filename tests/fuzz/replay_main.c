/* replay_main.c - runs a fuzz target on files: those named, and all in the directories named. A
 * file *.inputs has one input on a line, and names of inputs on lines that begin with #
 * (inputs.py). */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static int n_replayed;

static void die(const char *what, const char *path)
{
    fprintf(stderr, "replay: %s: ", path);
    perror(what);
    exit(1);
}

/* The bytes are given in memory of exactly their size, so that reading past them is noticed. */
static void replay_bytes(const char *bytes, size_t size)
{
    uint8_t *data = malloc(size ? size : 1);
    if (!data)
        die("no memory", "an input");
    memcpy(data, bytes, size);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_replayed++;
}

static char *read_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    char *text = malloc(size + 1);
    if (!file)
        die("cannot open", path);
    if (!text || fread(text, 1, size, file) != size)
        die("cannot read", path);
    fclose(file);
    text[size] = '\0';
    return text;
}

/* In place: \\ is a backslash, \x and two digits a byte. */
static size_t unescape(char *line)
{
    char *to = line;
    unsigned byte;
    for (const char *from = line; *from; to++) {
        if (from[0] == '\\' && sscanf(from, "\\x%2x", &byte) == 1) {
            *to = (char)byte;
            from += 4;
        } else {
            from += *from == '\\';
            *to = *from++;
        }
    }
    return (size_t)(to - line);
}

static void replay_lines(char *text)
{
    for (char *end; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        if (text[0] != '#')
            replay_bytes(text, unescape(text));
    }
}

static void replay_file(const char *path, size_t size)
{
    char *text = read_file(path, size);
    const char *suffix = strrchr(path, '.');
    if (suffix && strcmp(suffix, ".inputs") == 0)
        replay_lines(text);
    else
        replay_bytes(text, size);
    free(text);
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        die("cannot find", path);
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return;
    }
    DIR *dir = opendir(path);
    if (!dir)
        die("cannot open", path);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        replay(name);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (n_replayed == 0) {
        fprintf(stderr, "usage: %s file-or-directory...\n", argv[0]);
        return 2;
    }
    printf("%d inputs replayed\n", n_replayed);
    return 0;
}
