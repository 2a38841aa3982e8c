/* claim_lines.c - lines of waiting claims, and which of them asks next. */
#include "server/claim_lines.h"

#include <stdlib.h>
#include <string.h>

void claim_lines_init(struct claim_lines *lines, unsigned max_width,
                      bool (*ask)(struct claim_turn *turn, void *ctx), uint64_t seed)
{
    *lines = (struct claim_lines){.max_width = max_width, .ask = ask};
    map_init(&lines->lines, seed);
}

void claim_lines_release(struct claim_lines *lines)
{
    map_release(&lines->lines);
}

static int compare_names(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

struct str claim_lines_key(struct buf *out, struct str tenant, struct str *queues, size_t n)
{
    buf_reset(out);
    buf_add_str(out, tenant);
    qsort(queues, n, sizeof *queues, compare_names);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && str_eq(queues[i], queues[i - 1]))
            continue;
        buf_putc(out, '\0');
        buf_add_str(out, queues[i]);
    }
    return buf_str(out);
}

bool claim_lines_join(struct claim_lines *lines, struct str key, struct claim_turn *turn)
{
    struct claim_line *line = map_get(&lines->lines, key);
    if (!line) {
        line = calloc(1, sizeof *line + key.len);
        if (!line || map_put(&lines->lines, key, line) < 0) {
            free(line);
            return false;
        }
        list_init(&line->waiting);
        line->key_len = key.len;
        memcpy(line->key, key.ptr, key.len);
    }
    turn->line = line;
    turn->asks = false;
    list_insert(&line->waiting, &turn->link);
    return true;
}

struct claim_line *claim_lines_leave(struct claim_lines *lines, struct claim_turn *turn)
{
    struct claim_line *line = turn->line;
    if (!line)
        return NULL;
    list_remove(&turn->link);
    line->n_asking -= turn->asks;
    *turn = (struct claim_turn){0};
    if (!list_empty(&line->waiting))
        return line;
    (void)map_remove(&lines->lines, (struct str){line->key, line->key_len});
    free(line);
    return NULL;
}

void claim_line_wake(struct claim_line *line)
{
    line->is_woken = true;
    if (line->width == 0)
        line->width = 1;
}

void claim_lines_ready(struct claim_lines *lines, void *ctx)
{
    MAP_FOREACH (&lines->lines, slot) {
        claim_line_wake(slot->value);
        claim_line_ask(lines, slot->value, ctx);
    }
}

void claim_turn_answered(const struct claim_lines *lines, struct claim_turn *turn, bool found)
{
    struct claim_line *line = turn->line;
    if (!line || !turn->asks)
        return;
    turn->asks = false;
    line->n_asking--;
    if (found)
        line->width = line->width * 2 < lines->max_width ? line->width * 2 : lines->max_width;
    else /* no other one asks in its place, as long as some still do */
        line->width = line->n_asking > 0 ? line->n_asking : line->is_woken;
}

void claim_line_ask(const struct claim_lines *lines, struct claim_line *line, void *ctx)
{
    if (!line)
        return;
    LIST_FOREACH (&line->waiting, link) {
        struct claim_turn *turn = LIST_ENTRY(link, struct claim_turn, link);
        if (line->n_asking >= line->width)
            return;
        if (turn->asks || !lines->ask(turn, ctx))
            continue;
        line->is_woken = false;
        line->n_asking++;
        turn->asks = true;
    }
}
