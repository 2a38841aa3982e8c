/* info.h - the documents that INFO and QUEUE LATENCY are answered with. */
#ifndef SERVER_FAKTORY_ADMIN_INFO_H
#define SERVER_FAKTORY_ADMIN_INFO_H

#include "server/faktory/admin/admin.h"

/* Each writes into the `text` of the operation; what the store fails with is handed on. */
int faktory_write_info(struct engine *e, struct faktory_admin *a, struct redrive_err *err);
int faktory_write_latency(struct engine *e, struct faktory_admin *a, struct redrive_err *err);

#endif
