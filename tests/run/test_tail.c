#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "run/exec/child.h"

TEST(short_text_is_kept_whole)
{
    struct tail tail = {0};
    assert_null(tail_text(&tail));
    tail_add(&tail, "a\0b", 3);
    tail_add(&tail, "c\n", 2);
    char *text = tail_text(&tail);
    assert_string_equal(text, "a bc\n");
    free(text);
    tail_release(&tail);
}

TEST(long_text_keeps_its_end_from_a_line_on)
{
    struct tail tail = {0};
    for (int i = 0; i < 20000; i++) {
        char line[16];
        tail_add(&tail, line, (size_t)snprintf(line, sizeof line, "line %d\n", i));
    }
    char *text = tail_text(&tail);
    assert_true(strlen(text) <= TAIL_MAX_BYTES && strlen(text) > TAIL_MAX_BYTES - 16);
    assert_memory_equal(text, "line ", 5);
    assert_string_equal(text + strlen(text) - 11, "line 19999\n");
    free(text);
    tail_release(&tail);
}

TEST(one_piece_larger_than_the_ring_is_cut)
{
    struct tail tail = {0};
    size_t len = 3 * TAIL_MAX_BYTES + 7;
    char *piece = malloc(len);
    memset(piece, 'x', len);
    memcpy(piece + len - 3, "end", 3);
    tail_add(&tail, "before", 6);
    tail_add(&tail, piece, len);
    char *text = tail_text(&tail);
    assert_int_equal(strlen(text), TAIL_MAX_BYTES);
    assert_string_equal(text + TAIL_MAX_BYTES - 4, "xend");
    free(text);
    free(piece);
    tail_release(&tail);
}
