/* explain_json.c - a schedule as members of a JSON object. */
#include "core/explain.h"

static void write_row(struct json_writer *w, const struct explain_row *row)
{
    json_begin_object(w);
    json_field_int(w, "n", row->n);
    if (row->min_ms == row->max_ms) {
        json_field_int(w, "delay_ms", row->min_ms);
    } else {
        json_field_int(w, "min_ms", row->min_ms);
        json_field_int(w, "max_ms", row->max_ms);
    }
    if (row->total_min_ms == row->total_max_ms) {
        json_field_int(w, "total_ms", row->total_min_ms);
    } else {
        json_field_int(w, "total_min_ms", row->total_min_ms);
        json_field_int(w, "total_max_ms", row->total_max_ms);
    }
    if (!row->certain)
        json_field_bool(w, "certain", false);
    json_end_object(w);
}

void explain_write_members(struct explain *e, uint32_t max_rows, struct json_writer *w)
{
    json_key(w, "retries");
    json_begin_array(w);
    while (explain_next(e))
        if (e->row.n <= max_rows)
            write_row(w, &e->row);
    json_end_array(w);
    if (e->row.n > max_rows)
        json_field_bool(w, "more", true);
    if (e->certain < e->row.n) {
        json_field_int(w, "attempts_min", e->certain + 1);
        json_field_int(w, "attempts_usual", e->usual + 1);
        json_field_int(w, "attempts_max", e->row.n + 1);
    }
    json_field_cstr(w, "class", redrive_class_name(e->class_));
    json_field_cstr(w, "then", redrive_state_name(e->end.state));
    json_field_cstr(w, "reason", redrive_reason_name(e->end.reason));
}
