/* faktory_figures.h - the documents that INFO and QUEUE LATENCY are answered with. */
#ifndef DOORS_FAKTORY_FIGURES_H
#define DOORS_FAKTORY_FIGURES_H

#include "doors/faktory_admin.h"

/* Each writes into the `text` of the operation; what the store fails with is handed on. */
int faktory_write_info(struct engine *e, struct faktory_admin *a, struct redrive_err *err);
int faktory_write_latency(struct engine *e, struct faktory_admin *a, struct redrive_err *err);

#endif
