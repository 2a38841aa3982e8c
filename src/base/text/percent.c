/* percent.c - encodes text for a URL. */
#include "base/text/percent.h"

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c));
}

void percent_encode(struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if (is_plain(c))
            buf_putc(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}
