/* answer - the least that a stream program can do: it answers every job with success. */
#include <stdio.h>
#include <string.h>

static const char BEFORE[] = "{\"id\":\"";

int main(void)
{
    static char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        size_t before = sizeof BEFORE - 1;
        if (strncmp(line, BEFORE, before) != 0)
            return 1;
        size_t id_len = strcspn(line + before, "\"");
        printf("{\"id\":\"%.*s\",\"status\":\"SUCCESS\"}\n", (int)id_len, line + before);
        fflush(stdout);
    }
    return 0;
}
