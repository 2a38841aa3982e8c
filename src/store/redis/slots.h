/* slots.h - the functions of struct store_ops, by subject. */
#ifndef STORE_REDIS_SLOTS_H
#define STORE_REDIS_SLOTS_H

#include "store/store.h"

int redis_facts(struct store *store, struct store_facts *ret, struct redrive_err *err);
int redis_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                 struct redrive_err *err);

int redis_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                int64_t *ret_shared_version, struct redrive_err *err);
int redis_commit(struct store *store, struct redrive_err *err);
void redis_rollback(struct store *store);
int redis_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
               struct redrive_err *err);
int redis_elect(struct store *store, int64_t keep_ms, bool claims, struct store_around *ret,
                struct redrive_err *err);
void redis_upkeep(struct store *store);

int redis_submit(struct store *store, const struct job_spec *specs, size_t n,
                 struct submit_result *ret, struct arena *arena, struct redrive_err *err);
int redis_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                struct redrive_err *err);
void redis_look_ahead(struct store *store, const struct claim_filter *filter);
int redis_scan(struct store *store, struct scan *scan, struct job_page *ret,
               struct redrive_err *err);
int redis_move(struct store *store, const struct move_list *list, struct move_result *ret,
               struct redrive_err *err);
int redis_import(struct store *store, const struct imported_job *jobs, size_t n,
                 struct move_result *ret, struct redrive_err *err);
int redis_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                      struct redrive_err *err);

int redis_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                     struct move_result *ret, struct redrive_err *err);
int redis_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                      struct shared_page *ret, struct redrive_err *err);
int redis_counters_add(struct store *store, const struct counter *counters, size_t n,
                       struct redrive_err *err);
int redis_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                        struct redrive_err *err);

int redis_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
               struct redrive_err *err);
int redis_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                 struct redrive_err *err);
int redis_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                  struct redrive_err *err);
int redis_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                          size_t limit, struct remembered_key_page *ret, struct redrive_err *err);
int redis_counts(struct store *store, enum count_kind kind, struct str tenant,
                 struct count_page *ret, struct redrive_err *err);
int redis_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                 struct redrive_err *err);
int redis_causes(struct store *store, const struct job_filter *filter,
                 void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                 struct redrive_err *err);

#endif
