/* What each section of a good file becomes. */
#include "sandbox.h"

#include "core/retry/policy.h"

SANDBOX_TEST(built_in_defaults_hold)
{
    const struct config *c = sandbox_good(s, "");
    struct redrive_policy policy;
    struct redrive_breaker_config breaker;

    policy_init_queue(&policy);
    redrive_breaker_config_init(&breaker);
    assert_int_equal(c->defaults.retry.backoff.strategy, policy.backoff.strategy);
    assert_int_equal(c->defaults.retry.backoff.jitter.mode, policy.backoff.jitter.mode);
    assert_int_equal(c->defaults.retry.total_timeout_ms, 0);
    assert_int_equal(c->defaults.retry.dlq_retention_days, 30);
    assert_int_equal(c->defaults.breaker.config.window_ms, breaker.window_ms);
    assert_int_equal(c->defaults.breaker.config.probe_lease_ms, breaker.probe_lease_ms);
    assert_string_equal(c->defaults.breaker.key, "{task}");
    assert_string_equal(c->listen.http, "127.0.0.1:7070");
    assert_string_equal(c->listen.faktory, "127.0.0.1:7419");
    assert_int_equal(c->listen.max_connections, 10000);
    assert_int_equal(c->log.level, LOG_LEVEL_INFO);
    assert_int_equal(c->log.format, LOG_TEXT);
    assert_false(c->strict_tasks);
    assert_true(c->health.healthy == 0.8 && c->health.degraded == 0.5);
    assert_int_equal(c->retention.completed_ms, 86400000);
    assert_int_equal(c->retention.cancelled_ms, 86400000);
    assert_int_equal(c->n_tasks + c->n_cron + c->n_classify + c->n_tokens, 0);
    assert_int_equal(c->n_warnings, 0);
}

SANDBOX_TEST(an_undeclared_task_has_the_defaults)
{
    const struct config *c = sandbox_good(
        s, "defaults:\n  retry: {max_retries: 9}\n  on: {network: {initial_delay: 4s}}\n"
           "tasks: {b: {queue: q}, a: , c: }\n");
    assert_string_equal(sandbox_task(s, "a")->queue, "default");
    assert_string_equal(sandbox_task(s, "b")->queue, "q");
    const struct config_task *other = config_task(c, STR("nobody"));
    assert_ptr_equal(other, config_task(c, (struct str){0}));
    assert_ptr_equal(other, config_task(c, STR("bb")));
    assert_ptr_equal(other, config_task(c, STR("")));
    /* Longer than the declared name behind a NUL, as a client may send it. */
    char *text = calloc(1, 100000);
    assert_non_null(text);
    memcpy(text, c->tasks[0].name, strlen(c->tasks[0].name));
    assert_ptr_equal(other, config_task(c, (struct str){text, 100000}));
    free(text);
    assert_string_equal(other->name, "");
    assert_string_equal(other->queue, "default");
    assert_int_equal(other->run.kind, CONFIG_RUN_NONE);
    assert_int_equal(other->retry.max_retries, 9);
    assert_int_equal(other->retry.on[REDRIVE_CLASS_NETWORK]->backoff.initial_delay_ms, 4000);
    assert_int_equal(other->lease_ms, 30000);
    assert_int_equal(other->heartbeat_ms, 10000);
}

SANDBOX_TEST(levels_and_formats_are_those_of_the_log)
{
    for (int level = LOG_LEVEL_DEBUG; level <= LOG_LEVEL_OFF; level++) {
        char text[64];
        snprintf(text, sizeof text, "log: {level: %s, format: json}\n",
                 log_level_name((enum log_level)level));
        assert_int_equal(sandbox_good(s, text)->log.level, level);
        assert_int_equal(s->config->log.format, LOG_JSON);
    }
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

SANDBOX_TEST(a_task_runs_in_one_of_four_ways)
{
    sandbox_good(s, "tasks:\n"
                    "  a: {run: {exec: [./a.sh, --fast, 5], timeout: 0}}\n"
                    "  b: {run: {stream: [python3, b.py], processes: 3}}\n"
                    "  b1: {run: {stream: [b], concurrency: 7}}\n"
                    "  c: {run: {http: \"https://example.com/hook\", concurrency: 9}}\n"
                    "  d: {run: }\n");
    const struct config_run *run = &sandbox_task(s, "a")->run;
    assert_int_equal(run->kind, CONFIG_RUN_EXEC);
    assert_int_equal(run->exec.n, 3);
    assert_string_equal(run->exec.items[2], "5");
    assert_null(run->exec.items[3]);
    assert_int_equal(run->timeout_ms, 0);
    assert_int_equal(run->concurrency, 4);
    run = &sandbox_task(s, "b")->run;
    assert_int_equal(run->kind, CONFIG_RUN_STREAM);
    assert_int_equal(run->processes, 3);
    assert_int_equal(run->concurrency, 3);
    assert_int_equal(run->timeout_ms, 300000);
    assert_int_equal(sandbox_task(s, "b1")->run.processes, 1);
    assert_int_equal(sandbox_task(s, "b1")->run.concurrency, 7);
    run = &sandbox_task(s, "c")->run;
    assert_int_equal(run->kind, CONFIG_RUN_HTTP);
    assert_string_equal(run->http.url, "https://example.com/hook");
    assert_int_equal(run->concurrency, 9);
    assert_int_equal(sandbox_task(s, "d")->run.kind, CONFIG_RUN_NONE);
}

SANDBOX_TEST(requests_can_be_signed_and_have_headers)
{
    static const char *const environ[] = {
        "HOOK_SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZg==", "API_TOKEN=t0ken", NULL};
    s->environ = environ;
    sandbox_write(".env", "OLD_SECRET='whsec_ZmVkY2JhOTg3NjU0MzIxMA=='\nAPI_TOKEN=weaker\n");
    sandbox_good(
        s, "tasks:\n"
           "  a:\n"
           "    run:\n"
           "      http:\n"
           "        url: https://example.com/hook\n"
           "        secret: [\"${HOOK_SECRET}\", \"${OLD_SECRET}\"]\n"
           "        headers: {Authorization: \"Bearer ${API_TOKEN}!\", X-Cost: 5 $}\n"
           "  b: {run: {http: {url: \"https://h/\", secret: whsec_MDEyMzQ1Njc4OWFiY2RlZg==}}}\n"
           "  c: {run: {http: {url: \"https://h/\"}}}\n");
    const struct config_http *http = &sandbox_task(s, "a")->run.http;
    assert_string_equal(http->url, "https://example.com/hook");
    assert_int_equal(http->n_secrets, 2);
    assert_int_equal(http->secrets[0].len, 16);
    assert_memory_equal(http->secrets[0].bytes, "0123456789abcdef", 16);
    assert_memory_equal(http->secrets[1].bytes, "fedcba9876543210", 16);
    assert_int_equal(http->n_headers, 2);
    assert_string_equal(http->headers[0].name, "Authorization");
    assert_string_equal(http->headers[0].value, "Bearer t0ken!");
    assert_string_equal(http->headers[1].value, "5 $");
    check_dumped(s, "tasks.a.run.http.headers.Authorization", "Bearer ${API_TOKEN}!");
    check_dumped(s, "tasks.a.run.http.headers.X-Cost", "***");
    check_dumped(s, "tasks.c.run.http", "https://h/");
    assert_null(http->missing);
    sandbox_good(s, "tasks: {a: {run: {http: {url: \"https://h/\", secret: \"${NOT_SET}\"}}}}\n");
    assert_string_equal(sandbox_task(s, "a")->run.http.missing,
                        "redrive.yaml:1: tasks.a.run.http.secret: the variable NOT_SET is not set");
}

SANDBOX_TEST(each_way_to_run_has_keys_of_its_own)
{
    sandbox_good(s, "tasks:\n"
                    "  a: {run: {exec: [a], kill_grace: 2s, pass_env: [TOKEN, HOST]}}\n"
                    "  b: {run: {stream: [b], processes: 3, in_flight: 5}}\n"
                    "  b1: {run: {stream: [b], processes: 1024, in_flight: 10000}}\n"
                    "  c: {run: {http: \"https://{payload.host}/\", allow_private: true,\n"
                    "            connect_timeout: 3s}}\n"
                    "  c1: {run: {http: \"https://example.com/\"}}\n");
    const struct config_run *run = &sandbox_task(s, "a")->run;
    assert_int_equal(run->kill_grace_ms, 2000);
    assert_int_equal(run->pass_env.n, 2);
    assert_string_equal(run->pass_env.items[1], "HOST");
    assert_null(run->pass_env.items[2]);
    run = &sandbox_task(s, "b")->run;
    assert_int_equal(run->in_flight, 5);
    assert_int_equal(run->concurrency, 15);
    assert_int_equal(run->kill_grace_ms, 5000);
    assert_int_equal(sandbox_task(s, "b1")->run.concurrency, 100000);
    run = &sandbox_task(s, "c")->run;
    assert_true(run->allow_private);
    assert_int_equal(run->connect_timeout_ms, 3000);
    assert_false(sandbox_task(s, "c1")->run.allow_private);
    assert_int_equal(sandbox_task(s, "c1")->run.connect_timeout_ms, 10000);
}

SANDBOX_TEST(limits_have_a_rate_and_what_they_are_counted_for)
{
    sandbox_good(s, "tasks:\n"
                    "  a: {limits: {burst: 5, rate: 60/min, per: user, concurrency: 10}}\n"
                    "  b: {limits: {rate: 2/s, per: key, key: \"{payload.host}\"}}\n"
                    "  c: {limits: {rate: 2/h}}\n"
                    "  d: {limits: {rate: 2/d}}\n");
    const struct config_limits *limits = &sandbox_task(s, "a")->limits;
    assert_int_equal(limits->rate.count, 60);
    assert_int_equal(limits->rate.period_s, 60);
    assert_int_equal(limits->rate.burst, 5);
    assert_int_equal(limits->per, CONFIG_PER_USER);
    assert_int_equal(limits->concurrency, 10);
    assert_int_equal(sandbox_task(s, "b")->limits.per, CONFIG_PER_KEY);
    assert_string_equal(sandbox_task(s, "b")->limits.key, "{payload.host}");
    check_dumped(s, "tasks.a.limits.rate", "60/min");
    check_dumped(s, "tasks.b.limits.rate", "2/s");
    check_dumped(s, "tasks.c.limits.rate", "2/h");
    check_dumped(s, "tasks.d.limits.rate", "2/d");
    assert_int_equal(sandbox_task(s, "d")->limits.per, CONFIG_PER_TASK);
}

SANDBOX_TEST(a_retry_budget_is_a_share_or_tokens)
{
    sandbox_good(s, "tasks:\n"
                    "  a: {limits: {retry_budget: {}}}\n"
                    "  b: {limits: {retry_budget: {ratio: 0, window: 1m, min_per_second: 0.5}}}\n"
                    "  c: {limits: {retry_budget: {max_tokens: 4, token_ratio: 1.6}}}\n"
                    "  d: {limits: {retry_budget: }}\n"
                    "  e: {limits: {rate: 2/s}}\n");
    const struct budget_config *budget = &sandbox_task(s, "a")->limits.budget;
    assert_true(budget->ratio == 0.1 && budget->min_per_second == 1 && budget->max_tokens == 0);
    assert_int_equal(budget->window_ms, 10000);
    budget = &sandbox_task(s, "b")->limits.budget;
    assert_true(budget->ratio == 0 && budget->min_per_second == 0.5);
    assert_int_equal(budget->window_ms, 60000);
    budget = &sandbox_task(s, "c")->limits.budget;
    assert_true(budget->max_tokens == 4 && budget->token_ratio == 1.6 && budget->ratio == 0);
    assert_false(budget_is_set(&sandbox_task(s, "d")->limits.budget));
    assert_false(budget_is_set(&sandbox_task(s, "e")->limits.budget));
    check_dumped(s, "tasks.b.limits.retry_budget.ratio", "0");
    check_dumped(s, "tasks.c.limits.retry_budget.token_ratio", "1.6");
}

SANDBOX_TEST(a_heartbeat_is_a_third_of_the_lease_unless_given)
{
    sandbox_good(s, "tasks: {a: {lease: 6s}, b: {lease: 1m, heartbeat: 59s, payload: required}}\n");
    assert_int_equal(sandbox_task(s, "a")->heartbeat_ms, 2000);
    assert_int_equal(sandbox_task(s, "b")->heartbeat_ms, 59000);
    assert_int_equal(sandbox_task(s, "b")->payload, CONFIG_PAYLOAD_REQUIRED);
    assert_int_equal(sandbox_task(s, "a")->payload, CONFIG_PAYLOAD_OPTIONAL);
}

SANDBOX_TEST(a_breaker_inherits_key_by_key)
{
    sandbox_good(s, "defaults: {breaker: {key: \"{service}\", min_calls: 7}}\n"
                    "tasks: {a: {breaker: {window: 20s}}, "
                    "b: {breaker: {key: \"x:{task}:{payload.a.b}:{user}{tenant}{queue}\"}}}\n");
    assert_string_equal(sandbox_task(s, "a")->breaker.key, "{service}");
    assert_int_equal(sandbox_task(s, "a")->breaker.config.min_calls, 7);
    assert_int_equal(sandbox_task(s, "a")->breaker.config.window_ms, 20000);
    assert_string_equal(sandbox_task(s, "b")->breaker.key,
                        "x:{task}:{payload.a.b}:{user}{tenant}{queue}");
}

/* ---- The rest -------------------------------------------------------------------------------- */

SANDBOX_TEST(every_source_can_classify)
{
    sandbox_good(s, "tasks: {t: }\n"
                    "classify:\n"
                    "  - {status: DONE, class: success}\n"
                    "  - {error_type: \"Quota*\", class: rate_limited, severity: critical}\n"
                    "  - {http_status: 500-599, class: transient, queue: q, service: s, user: u}\n"
                    "  - {sqlstate: 40, class: database}\n"
                    "  - {curl: 28, class: network}\n"
                    "  - {errno: ECONNRESET, class: network}\n"
                    "  - {signal: SIGKILL, class: system}\n"
                    "  - {exit_code: 3, class: validation}\n"
                    "  - {message: \"no such bucket\", class: permanent, task: t}\n");
    const struct redrive_classify_row *rows = s->config->classify;
    assert_int_equal(s->config->n_classify, REDRIVE_SOURCE_COUNT);
    for (int i = 0; i < REDRIVE_SOURCE_COUNT; i++)
        assert_int_equal(rows[i].source, i);
    assert_int_equal(rows[0].class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(rows[0].severity, REDRIVE_SEVERITY_OF_CLASS);
    assert_string_equal(rows[1].pattern, "Quota*");
    assert_int_equal(rows[1].class_, REDRIVE_CLASS_RATE_LIMITED);
    assert_int_equal(rows[1].severity, REDRIVE_SEVERITY_CRITICAL);
    assert_string_equal(rows[2].queue, "q");
    assert_string_equal(rows[2].service, "s");
    assert_string_equal(rows[2].user, "u");
    assert_null(rows[2].task);
    assert_string_equal(rows[8].task, "t");
}

SANDBOX_TEST(cron_entries_have_a_zone_and_a_payload)
{
    sandbox_good(s, "tasks: {t: }\n"
                    "cron:\n"
                    "  a: {task: t, schedule: \"*/2 * * * *\"}\n"
                    "  b:\n"
                    "    task: t\n"
                    "    schedule: \"@daily\"\n"
                    "    timezone: Europe/Berlin\n"
                    "    payload: {n: 5, s: five, ok: true, none: , list: [1, {}]}\n"
                    "    overlap: queue_one\n"
                    "  c: {task: t, schedule: \"@daily\", timezone: Europe/Berlin, payload: ~}\n"
                    "  d: {task: t, schedule: \"@daily\", timezone: UTC, overlap: allow}\n");
    const struct config_cron *cron = s->config->cron;
    assert_int_equal(s->config->n_cron, 4);
    assert_string_equal(cron[0].name, "a");
    assert_string_equal(cron[0].payload, "null");
    assert_int_equal(cron[0].overlap, CONFIG_OVERLAP_SKIP);
    assert_ptr_equal(cron[0].tz, tz_utc());
    assert_string_equal(cron[1].payload,
                        "{\"n\":5,\"s\":\"five\",\"ok\":true,\"none\":null,\"list\":[1,{}]}");
    assert_int_equal(cron[1].overlap, CONFIG_OVERLAP_QUEUE_ONE);
    assert_string_equal(cron[1].timezone, "Europe/Berlin");
    /* 2026-07-01 in Berlin */
    assert_int_equal(tz_offset_at(cron[1].tz, INT64_C(1782864000)), 7200);
    /* Read once, shared. */
    assert_ptr_equal(cron[1].tz, cron[2].tz);
    assert_int_equal(cron[3].overlap, CONFIG_OVERLAP_ALLOW);
    int64_t next;
    assert_int_equal(cron_next(&cron[0].cron, cron[0].tz, 0, &next), 0);
    assert_int_equal(next, 120000);
}

SANDBOX_TEST(tzdir_says_where_zones_are)
{
    const char *variables[] = {"TZDIR=zones", NULL};
    s->environ = variables;
    assert_int_equal(sandbox_load_text(s, "tasks: {t: }\ncron: {a: {task: t, schedule: '@daily', "
                                          "timezone: Europe/Berlin}}\n"),
                     REDRIVE_E_CONFIG);
    assert_string_equal(
        sandbox_error(s, "redrive.yaml:2: cron.a.timezone: unknown time zone 'Europe/Berlin'")
            ->detail,
        "there is no such file below zones");
    assert_int_equal(mkdir("zones", 0700), 0);
    sandbox_write("zones/Mine", "not a zone");
    assert_int_equal(sandbox_load_text(s, "tasks: {t: }\ncron: {a: {task: t, schedule: '@daily', "
                                          "timezone: Mine}}\n"),
                     REDRIVE_E_CONFIG);
    sandbox_error(s, "redrive.yaml:2: cron.a.timezone: unknown time zone 'Mine'");
}

SANDBOX_TEST(tokens_have_scopes_and_a_tenant)
{
    sandbox_good(s, "tokens:\n"
                    "  - {name: ci, scopes: [enqueue, read], tenant: acme,\n"
                    "     hash: \"sha256:00ff0123456789abcdefABCDEF0123456789abcdef0123456789abcd"
                    "ef012345\"}\n"
                    "  - {name: root, scopes: [admin, work],\n"
                    "     hash: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789"
                    "abcdef}\n");
    const struct config_token *tokens = s->config->tokens;
    assert_int_equal(s->config->n_tokens, 2);
    assert_int_equal(tokens[0].scopes, CONFIG_SCOPE_ENQUEUE | CONFIG_SCOPE_READ);
    assert_string_equal(tokens[0].tenant, "acme");
    assert_int_equal(tokens[0].hash[0], 0);
    assert_int_equal(tokens[0].hash[1], 0xff);
    assert_int_equal(tokens[0].hash[31], 0x45);
    assert_string_equal(tokens[1].tenant, "default");
    assert_int_equal(tokens[1].scopes, CONFIG_SCOPE_ADMIN | CONFIG_SCOPE_WORK);
}

SANDBOX_TEST(four_alerts_are_shipped_and_a_list_replaces_them)
{
    sandbox_good(s, "");
    const struct config_alert *alerts = s->config->alerts;
    assert_int_equal(s->config->n_alerts, 4);
    assert_int_equal(alerts[0].when.metric, CONFIG_METRIC_DEAD_LETTERS);
    assert_true(alerts[0].when.number == 100);
    assert_int_equal(alerts[3].when.metric, CONFIG_METRIC_HEALTH_SCORE);
    assert_int_equal(alerts[3].when.compare, CONFIG_BELOW);
    assert_true(alerts[3].when.number == 0.5);
    assert_int_equal(alerts[3].min_runs, 10);

    sandbox_good(s, "tasks: {t: }\nalerts:\n"
                    "  - {when: retry_backlog>=5000, command: [./page, me], task: t}\n"
                    "  - {when: \"health_score  <= 0.25\", webhook: \"http://127.0.0.1:9/a\"}\n"
                    "  - {when: error_rate < 1, min_runs: 3}\n"
                    "  - {when: dead_letters > 1e3}\n");
    alerts = s->config->alerts;
    assert_int_equal(s->config->n_alerts, 4);
    assert_int_equal(alerts[0].when.compare, CONFIG_AT_LEAST);
    assert_true(alerts[0].when.number == 5000);
    assert_string_equal(alerts[0].command.items[1], "me");
    assert_string_equal(alerts[0].task, "t");
    assert_int_equal(alerts[1].when.compare, CONFIG_AT_MOST);
    assert_string_equal(alerts[1].webhook, "http://127.0.0.1:9/a");
    assert_int_equal(alerts[2].when.compare, CONFIG_BELOW);
    assert_int_equal(alerts[1].min_runs, 10);
    assert_int_equal(alerts[2].min_runs, 3);
    assert_true(alerts[3].when.number == 1000);

    assert_int_equal(sandbox_good(s, "alerts: []\n")->n_alerts, 0);
    assert_int_equal(sandbox_good(s, "alerts:\n")->n_alerts, 0);
}

SANDBOX_TEST(unknown_tasks_are_warned_of_or_refused)
{
    static const char TEXT[] = "tasks: {enrich: }\n"
                               "cron: {a: {task: enrihc, schedule: '@daily'}}\n"
                               "alerts: [{when: dead_letters > 1, task: x}]\n"
                               "classify: [{curl: 1, class: network, task: y}]\n";
    sandbox_good(s, TEXT);
    assert_int_equal(s->config->n_warnings, 3);
    assert_string_equal(
        sandbox_warning(s, "redrive.yaml:2: cron.a.task: task 'enrihc' is not declared")->hint,
        "did you mean 'enrich'?");
    sandbox_warning(s, "redrive.yaml:3: alerts[0].task: task 'x' is not declared");
    sandbox_warning(s, "redrive.yaml:4: classify[0].task: task 'y' is not declared");

    static const struct config_setting strict = {"strict-tasks", "true"};
    s->flags = &strict;
    s->n_flags = 1;
    assert_int_equal(sandbox_load(s), REDRIVE_E_CONFIG);
    assert_int_equal(s->report.n_errors, 3);
    sandbox_error(s, "redrive.yaml:2: cron.a.task: task 'enrihc' is not declared");
}

SANDBOX_TEST(servers_open_to_others_need_tokens_and_tls)
{
    static const char TOKENS[] =
        "tokens: [{name: a, scopes: [admin], hash: sha256:"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}]\n";
    static const struct {
        const char *address;
        bool loopback;
    } ADDRESSES[] = {
        {"127.0.0.1:1", true},
        {"127.1.2.3:0", true},
        {"localhost:65535", true},
        {"\"[::1]:1\"", true},
        {"off", true},
        {"0.0.0.0:1", false},
        {"10.0.0.1:1", false},
        {"\"[::]:1\"", false},
        {"example.com:1", false},
        {"127.evil.com:1", false},
        {"127.0.0.1.evil.com:1", false},
    };
    for (size_t i = 0; i < sizeof ADDRESSES / sizeof ADDRESSES[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, "listen: {http: %s, faktory: %s}\n", ADDRESSES[i].address,
                 ADDRESSES[i].address);
        int rc = sandbox_load_text(s, text);
        assert_int_equal(rc == 0, ADDRESSES[i].loopback);
        if (rc < 0) {
            sandbox_error(s, "redrive.yaml:1: listen.http: is open to other machines, but there "
                             "are no tokens");
            assert_int_equal(s->report.n_errors, 4);
        }
        strcat(text, TOKENS);
        if (!ADDRESSES[i].loopback) {
            assert_int_equal(sandbox_load_text(s, text), REDRIVE_E_CONFIG);
            sandbox_error(s, "redrive.yaml:1: listen.http: is open to other machines, but there is "
                             "no TLS");
            assert_int_equal(s->report.n_errors, 2);
        }
        snprintf(text, sizeof text, "listen: {http: %s, faktory: %s, insecure: true}\n%s",
                 ADDRESSES[i].address, ADDRESSES[i].address, TOKENS);
        assert_true(sandbox_good(s, text)->listen.insecure);
        snprintf(text, sizeof text, "listen: {http: %s, tls: {cert: a.pem, key: a.key}}\n%s",
                 ADDRESSES[i].address, TOKENS);
        sandbox_good(s, text);
    }
}

SANDBOX_TEST(tls_is_two_files_which_only_a_server_reads)
{
    const struct config *config =
        sandbox_good(s, "listen:\n  tls:\n    cert: no-such.pem\n    key: no-such.key\n");
    assert_string_equal(config->listen.tls.cert, "no-such.pem");
    assert_string_equal(config->listen.tls.cert_at, "redrive.yaml:3: listen.tls.cert: ");
    assert_string_equal(config->listen.tls.key_at, "redrive.yaml:4: listen.tls.key: ");
    assert_null(sandbox_good(s, "listen: {http: off}\n")->listen.tls.cert);
    assert_int_equal(sandbox_load_text(s, "listen: {tls: {cert: a.pem}}\n"), REDRIVE_E_CONFIG);
    sandbox_error(s, "redrive.yaml:1: listen.tls: a certificate needs its key");
    assert_int_equal(sandbox_load_text(s, "listen: {tls: {key: a.key}}\n"), REDRIVE_E_CONFIG);
    sandbox_error(s, "redrive.yaml:1: listen.tls: a key needs its certificate");

    static const struct config_setting flags[] = {{"listen-tls-cert", "b.pem"},
                                                  {"listen-tls-key", "b.key"}};
    s->flags = flags;
    s->n_flags = 2;
    config = sandbox_good(s, "listen: {tls: {cert: a.pem, key: a.key}}\n");
    assert_string_equal(config->listen.tls.key, "b.key");
    assert_string_equal(config->listen.tls.key_at, "--listen-tls-key: ");
}

SANDBOX_TEST(stores_are_known_by_their_scheme)
{
    static const char *const GOOD[] = {
        "sqlite:a.db",      "sqlite:/var/a.db", "memory:",
        "postgres://h/db",  "postgresql:///db", "redis://h:1/0",
        "rediss://u:p@h/1", "sqlite::memory:",  "redis:/run/redis.sock"};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "store: \"%s\"\n", GOOD[i]);
        assert_string_equal(sandbox_good(s, text)->store, GOOD[i]);
    }
    assert_string_equal(sandbox_good(s, "store: memory\n")->store, "memory:");
}
