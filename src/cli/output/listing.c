/* listing.c - opens and closes the JSON of a list. */
#include "cli/output/listing.h"

void listing_begin(struct json_writer *w, struct buf *out)
{
    json_writer_init(w, out);
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
}

void listing_end(struct json_writer *w, const char *next)
{
    json_end_array(w);
    json_field_cstr(w, "next", next);
    json_end_object(w);
    (void)buf_putc(w->out, '\n');
}
