/* What people are told when a file is wrong: where, what, what was expected, and what to do. */
#include "sandbox.h"

static const struct bad {
    const char *yaml;
    const char *message;
    const char *detail; /* NULL: not looked at */
    const char *hint;
} BAD[] = {
    /* ---- keys ---- */
    {"tasks:\n  enrich:\n    retry:\n      max_dealy: 5s\n",
     "redrive.yaml:4: unknown key 'max_dealy' in tasks.enrich.retry",
     "expected one of strategy, initial_delay, max_delay, min_delay, multiplier, backoff_factor, "
     "exponent, jitter, delays, max_retries, max_attempts, total_timeout, enable_dlq, "
     "dlq_retention_days, "
     "retry_on, give_up_on, profile, base_backoff_minutes",
     "did you mean 'max_delay'?"},
    {"stroe: memory\n", "redrive.yaml:1: unknown key 'stroe'", NULL, "did you mean 'store'?"},
    {"defaults: {rety: {}}\n", "redrive.yaml:1: unknown key 'rety' in defaults", NULL,
     "did you mean 'retry'?"},
    {"\nmax_delay: 5s\n", "redrive.yaml:2: unknown key 'max_delay'", NULL,
     "did you mean 'defaults.retry.max_delay'?"},
    {"tasks: {a: {timeout: 5s}}\n", "redrive.yaml:1: unknown key 'timeout' in tasks.a", NULL,
     "did you mean 'run.timeout'?"},
    {"tasks: {a: {qqqqqq: 5s}}\n", "redrive.yaml:1: unknown key 'qqqqqq' in tasks.a",
     "expected one of queue, client_retries, payload, run, retry, on, breaker, limits, lease, "
     "heartbeat",
     ""},
    {"tasks: {a: {<<: {queue: b}}}\n", "redrive.yaml:1: unknown key '<<' in tasks.a", NULL,
     "merging is not supported: write the keys out"},
    {"\"\\e[31mred\": 1\n", "redrive.yaml:1: unknown key '?[31mred'", NULL, NULL},
    {"defaults: {retry: {max_retries: 1,\n max_attempts: 2}}\n",
     "redrive.yaml:2: both 'max_attempts' and 'max_retries' are given in defaults.retry",
     "they say the same thing in two ways", "keep one of them"},
    {"defaults: {retry: {base_backoff_minutes: 1, initial_delay: 2s}}\n",
     "redrive.yaml:1: both 'base_backoff_minutes' and 'initial_delay' are given in defaults.retry",
     NULL, NULL},
    {"cron:\n  a: {task: x}\n", "redrive.yaml:2: cron.a: key 'schedule' is missing",
     "expected a cron expression such as \"*/15 * * * *\" or @daily", NULL},
    {"tasks: {\"a b\": }\n", "redrive.yaml:1: 'a b' cannot be a name in tasks",
     "expected 1 to 128 bytes without spaces", NULL},
    {"tasks: {\"\": }\n", "redrive.yaml:1: '' cannot be a name in tasks", NULL, NULL},

    {"\nhealth: {healthy: 0.4}\n", "redrive.yaml:2: health: degraded is above healthy", NULL, NULL},

    /* ---- experiments ---- */
    {"tasks: {call: }\nexperiments:\n  p:\n    task: call\n    arms:\n      a: {share: 0.5}\n"
     "      b: {share: 0.4}\n",
     "redrive.yaml:6: experiments.p.arms: the shares add up to 0.9", "expected 1",
     "share: 0.5 for 'b' would make it 1"},
    {"tasks: {call: }\nexperiments: {p: {task: call, arms: {a: {share: 1}, b: {share: 1}}}}\n",
     "redrive.yaml:2: experiments.p.arms: the shares add up to 2", "expected 1",
     "a share is between 0 and 1: 0.5 is half of the jobs"},
    {"tasks: {call: }\nexperiments: {p: {task: call, arms: {a: {share: 50}, b: {share: 0.5}}}}\n",
     "redrive.yaml:2: experiments.p.arms.a.share: '50' is out of range",
     "expected a number above 0 and up to 1: half is 0.5", NULL},
    {"tasks: {call: }\nexperiments: {p: {task: call, arms: {a: {share: 1}}}}\n",
     "redrive.yaml:2: experiments.p.arms: has 1 of 2 to 16 arms", NULL,
     "an arm without `retry` has the policy of the task: control: {share: 0.5}"},
    {"tasks: {call: }\nexperiments: {p: {task: call, arms: }}\n",
     "redrive.yaml:2: experiments.p.arms: has 0 of 2 to 16 arms", NULL, NULL},
    {"tasks: {call: }\nexperiments: {p: {task: call, arms: []}}\n",
     "redrive.yaml:2: experiments.p.arms: found an empty list", NULL, NULL},
    {"tasks: {call: }\nexperiments: {p: {arms: {a: {share: 0.5}, b: {share: 0.5}}}}\n",
     "redrive.yaml:2: experiments.p: key 'task' is missing", NULL, NULL},
    {"tasks: {call: }\nexperiments: {p: {task: call}}\n",
     "redrive.yaml:2: experiments.p: key 'arms' is missing", NULL, NULL},
    {"tasks: {call: }\nexperiments:\n  p: {task: cal, arms: {a: {share: 0.5}, b: {share: 0.5}}}\n",
     "redrive.yaml:3: experiments.p.task: task 'cal' is not declared", NULL,
     "did you mean 'call'?"},
    {"experiments:\n  p: {task: call, arms: {a: {share: 0.5}, b: {share: 0.5}}}\n",
     "redrive.yaml:2: experiments.p.task: task 'call' is not declared", NULL,
     "declare it under `tasks:`"},
    {"tasks: {call: }\nexperiments:\n  p: {task: call, arms: {a: {share: 0.5}, b: {share: 0.5}}}\n"
     "  q: {task: call, arms: {a: {share: 0.5}, b: {share: 0.5}}}\n",
     "redrive.yaml:4: experiments.q.task: task 'call' takes part in experiment 'p' already", NULL,
     "a job has one policy: let one experiment end before the next begins"},
    {"tasks: {call: }\nexperiments:\n  p:\n    task: call\n    arms:\n      a: {share: 0.5}\n"
     "      b: {share: 0.5, retry: {profile: faktroy}}\n",
     "redrive.yaml:7: experiments.p.arms.b.retry.profile: unknown profile 'faktroy'", NULL,
     "did you mean 'faktory'?"},
    {"tasks: {call: }\nexperiments:\n  p:\n    task: call\n    arms:\n      a: {share: 0.5}\n"
     "      b: {share: 0.5, on: {netwrok: }}\n",
     "redrive.yaml:7: unknown class 'netwrok' in experiments.p.arms.b.on", NULL,
     "did you mean 'network'?"},
    {"tasks: {call: }\nexperiments:\n  p:\n    task: call\n    arms:\n      a: {share: 0.5}\n"
     "      a: {share: 0.5}\n",
     "redrive.yaml:7: key 'a' is given twice", "first on line 6", NULL},
    {"tasks: {call: }\nexperiments: {p: {task: call, arms: {a/b: {share: 0.5}, b: {share: "
     "0.5}}}}\n",
     "redrive.yaml:2: 'a/b' cannot be the name of an experiment or an arm",
     "expected 1 to 64 letters, digits, dots, dashes and underscores", NULL},
    {"tasks: {call: }\nexperiments: {\"p\\\"\": {task: call, arms: {a: {share: 0.5}, b: {share: "
     "0.5}}}}\n",
     "redrive.yaml:2: 'p\"' cannot be the name of an experiment or an arm", NULL, NULL},
    {"tasks: {call: {experiment: }}\n", "redrive.yaml:1: unknown key 'experiment' in tasks.call",
     NULL, NULL},

    /* ---- kinds of values ---- */
    {"store:\n", "redrive.yaml:1: store: has no value", NULL, NULL},
    {"store: [a]\n", "redrive.yaml:1: store: found a list", NULL, NULL},
    {"store: redrive.db\n", "redrive.yaml:1: store: the value is not a store",
     "expected sqlite:PATH, postgres://..., redis://..., rediss://..., memory: or {shards: [...]}",
     "put 'sqlite:' in front of a file's path"},
    {"store: postgrse://u:secret@h/db\n", "redrive.yaml:1: store: the value is not a store", NULL,
     "did you mean 'postgres'?"},
    {"store: \"memory:x\"\n", "redrive.yaml:1: store: the value is not a store", NULL, NULL},
    {"store: \"sqlite:\"\n", "redrive.yaml:1: store: the value is not a store", NULL, NULL},
    {"store: postgres:db\n", "redrive.yaml:1: store: the value is not a store", NULL, NULL},
    {"listen: 7070\n", "redrive.yaml:1: listen: found a plain value",
     "expected a map of http, faktory, metrics, max_connections, max_per_address, drain, "
     "socket_mode, tls, insecure",
     NULL},
    {"listen: {http: 7070}\n", "redrive.yaml:1: listen.http: '7070' is not understood",
     "expected an address such as 127.0.0.1:7070 or [::1]:7070, unix: and the path of a socket, or "
     "off",
     NULL},
    {"listen: {http: \"127.0.0.1:x\"}\n",
     "redrive.yaml:1: listen.http: '127.0.0.1:x' is not understood", NULL, NULL},
    {"listen: {http: \"127.0.0.1:65536\"}\n",
     "redrive.yaml:1: listen.http: '127.0.0.1:65536' is not understood", NULL, NULL},
    {"listen: {http: \"::1:80\"}\n", "redrive.yaml:1: listen.http: '::1:80' is not understood",
     NULL, NULL},
    {"listen: {http: \":80\"}\n", "redrive.yaml:1: listen.http: ':80' is not understood", NULL,
     NULL},
    {"listen: {http: \"a b:80\"}\n", "redrive.yaml:1: listen.http: 'a b:80' is not understood",
     NULL, NULL},
    {"listen: {http: \"a:\"}\n", "redrive.yaml:1: listen.http: 'a:' is not understood", NULL, NULL},
    {"listen: {http: [a]}\n", "redrive.yaml:1: listen.http: found a list", NULL, NULL},
    {"strict_tasks: yes\n", "redrive.yaml:1: strict_tasks: 'yes' is neither true nor false",
     "expected true or false", "did you mean 'true'?"},
    {"strict_tasks: 0\n", "redrive.yaml:1: strict_tasks: '0' is neither true nor false", NULL,
     "did you mean 'false'?"},
    {"strict_tasks: \"true\"\n",
     "redrive.yaml:1: strict_tasks: 'true', in quotes, is not understood", NULL,
     "write true, without quotes"},
    {"strict_tasks: {a: b}\n", "redrive.yaml:1: strict_tasks: found a map", NULL, NULL},
    {"log: {level: inof}\n", "redrive.yaml:1: log.level: there is no 'inof'",
     "expected one of debug, info, warning, error, off", "did you mean 'info'?"},
    {"log: {level: [info]}\n", "redrive.yaml:1: log.level: found a list", NULL, NULL},
    {"tasks: [a]\n", "redrive.yaml:1: tasks: found a list",
     "expected a map by name, such as NAME: {...}", NULL},
    {"tasks: {a: 5}\n", "redrive.yaml:1: tasks.a: found a plain value", NULL, NULL},
    {"classify: {a: b}\n", "redrive.yaml:1: classify: found a map", "expected a list of maps",
     NULL},
    {"tasks: {a: {queue: \"a b\"}}\n", "redrive.yaml:1: tasks.a.queue: 'a b' is not understood",
     "expected a name of at most 128 letters, digits, '.', '_' and '-'", NULL},
    {"tasks: {a: {queue: \"\"}}\n", "redrive.yaml:1: tasks.a.queue: '' is not understood", NULL,
     NULL},
    {"paths: {retry_queue: \"\"}\n", "redrive.yaml:1: paths.retry_queue: it is empty",
     "expected a text of up to 4096 bytes", NULL},

    /* ---- numbers ---- */
    {"defaults: {retry: {max_retries: -1}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '-1' is out of range",
     "expected a whole number from 0 to 100000", NULL},
    {"defaults: {retry: {max_retries: 100001}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '100001' is out of range", NULL, NULL},
    {"defaults: {retry: {max_retries: 99999999999999999999}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '99999999999999999999' is out of range", NULL,
     NULL},
    {"defaults: {retry: {max_retries: 5.0}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '5.0' is not a whole number", NULL, NULL},
    {"defaults: {retry: {max_retries: 1e3}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '1e3' is not a whole number", NULL, NULL},
    {"defaults: {retry: {max_retries: five}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: 'five' is not a whole number", NULL, NULL},
    {"defaults: {retry: {max_retries: -}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '-' is not a whole number", NULL, NULL},
    {"defaults: {retry: {max_retries: \"5\"}}\n",
     "redrive.yaml:1: defaults.retry.max_retries: '5', in quotes, is not understood", NULL, NULL},
    {"defaults: {retry: {max_attempts: 0}}\n",
     "redrive.yaml:1: defaults.retry.max_attempts: '0' is out of range",
     "expected a whole number from 1 to 100001", NULL},
    {"defaults: {retry: {multiplier: 0.5}}\n",
     "redrive.yaml:1: defaults.retry.multiplier: '0.5' is out of range",
     "expected a number from 1 to 1000", NULL},
    {"defaults: {retry: {multiplier: .nan}}\n",
     "redrive.yaml:1: defaults.retry.multiplier: '.nan' is not a number", NULL, NULL},
    {"defaults: {retry: {multiplier: .inf}}\n",
     "redrive.yaml:1: defaults.retry.multiplier: '.inf' is not a number", NULL, NULL},
    {"defaults: {retry: {backoff_factor: -1}}\n",
     "redrive.yaml:1: defaults.retry.backoff_factor: '-1' is out of range", NULL, NULL},
    {"defaults: {retry: {base_backoff_minutes: -2}}\n",
     "redrive.yaml:1: defaults.retry.base_backoff_minutes: '-2' is out of range", NULL, NULL},
    {"defaults: {breaker: {failure_rate: 50}}\n",
     "redrive.yaml:1: defaults.breaker.failure_rate: '50' is out of range",
     "expected a number from 0 to 1", NULL},
    {"defaults: {breaker: {half_open_max: 17}}\n",
     "redrive.yaml:1: defaults.breaker.half_open_max: '17' is out of range", NULL, NULL},

    /* ---- durations ---- */
    {"defaults:\n  retry: {max_delay: 5}\n",
     "redrive.yaml:2: defaults.retry.max_delay: '5' has no unit",
     "expected a duration such as 500ms, 2m or 1h30m", "add a unit: 5s"},
    {"defaults: {retry: {max_delay: -5s}}\n",
     "redrive.yaml:1: defaults.retry.max_delay: '-5s' is negative", NULL, ""},
    {"defaults: {retry: {max_delay: 5sec}}\n",
     "redrive.yaml:1: defaults.retry.max_delay: '5sec' is not a duration", NULL, NULL},
    {"defaults: {retry: {max_delay: 200000d}}\n",
     "redrive.yaml:1: defaults.retry.max_delay: '200000d' is out of range", NULL, NULL},
    {"defaults: {retry: {max_delay: [5s]}}\n",
     "redrive.yaml:1: defaults.retry.max_delay: found a list", NULL, NULL},
    {"tasks: {a: {lease: 500ms}}\n", "redrive.yaml:1: tasks.a.lease: '500ms' is out of range",
     "expected a duration such as 500ms, 2m or 1h30m, from 1s to 7d", NULL},

    /* ---- policies ---- */
    {"defaults: {retry: {max_delay: 50ms}}\n",
     "redrive.yaml:1: defaults.retry.max_delay: max_delay is below min_delay",
     "max_delay is 50ms, min_delay is 100ms", NULL},
    {"tasks:\n  a:\n    retry:\n      min_delay: 2m\n",
     "redrive.yaml:4: tasks.a.retry.min_delay: max_delay is below min_delay", NULL, NULL},
    {"tasks: {a: {on: {network: {min_delay: 2m}}}}\n",
     "redrive.yaml:1: tasks.a.on.network.min_delay: max_delay is below min_delay", NULL, NULL},
    {"defaults: {retry: {strategy: exponental}}\n",
     "redrive.yaml:1: defaults.retry.strategy: there is no 'exponental'",
     "expected one of exponential, linear, fixed, immediate, polynomial, delays",
     "did you mean 'exponential'?"},
    {"defaults: {retry: {strategy: custom}}\n",
     "redrive.yaml:1: defaults.retry.strategy: there is no 'custom'", NULL, NULL},
    {"defaults: {retry: {profile: thmbnail}}\n",
     "redrive.yaml:1: defaults.retry.profile: unknown profile 'thmbnail'", NULL,
     "did you mean 'thumbnail'?"},
    {"defaults: {retry: {profile: [a]}}\n", "redrive.yaml:1: defaults.retry.profile: found a list",
     NULL, NULL},
    {"defaults: {retry: {jitter: ful}}\n",
     "redrive.yaml:1: defaults.retry.jitter: 'ful' is not understood", NULL,
     "did you mean 'full'?"},
    {"defaults: {retry: {jitter: [full]}}\n", "redrive.yaml:1: defaults.retry.jitter: found a list",
     NULL, NULL},
    {"defaults: {retry: {jitter: {max: 3}}}\n",
     "redrive.yaml:1: defaults.retry.jitter: key 'mode' is missing", NULL, NULL},
    {"defaults: {retry: {jitter: {mode: full, max: 3}}}\n",
     "redrive.yaml:1: defaults.retry.jitter.max: jitter mode 'full' takes no max", NULL, NULL},
    {"defaults: {retry: {jitter: {mode: spread, min: 0.5}}}\n",
     "redrive.yaml:1: defaults.retry.jitter.min: jitter mode 'spread' takes no min", NULL, NULL},
    {"defaults: {retry: {jitter: {mode: spread, max: 2}}}\n",
     "redrive.yaml:1: defaults.retry.jitter.max: '2' is out of range",
     "expected a number from 0 to 1", NULL},
    {"defaults: {retry: {jitter: {mode: add, min: 0.5}}}\n",
     "redrive.yaml:1: defaults.retry.jitter.min: min 0.5 is above max 0.3", NULL, NULL},
    {"defaults: {retry: {jitter: {mode: step, max: 5}}}\n",
     "redrive.yaml:1: defaults.retry.jitter.max: '5' has no unit", NULL, NULL},
    {"defaults: {retry: {jitter: {mode: step, max: }}}\n",
     "redrive.yaml:1: defaults.retry.jitter.max: has no value",
     "expected a number for add (to 10) and spread (to 1), a duration for step", NULL},
    {"defaults: {retry: {jitter: {mode: add, min: }}}\n",
     "redrive.yaml:1: defaults.retry.jitter.min: has no value", "expected a number from 0 to 10",
     NULL},
    {"defaults: {retry: {strategy: fixed, delays: [1s]}}\n",
     "redrive.yaml:1: defaults.retry.delays: is a strategy of its own",
     "'strategy' and 'delays' are given", "keep one of them"},
    {"defaults: {retry: {strategy: delays}}\n",
     "redrive.yaml:1: defaults.retry: strategy delays has no list of delays", NULL, NULL},
    {"defaults: {retry: {delays: 5s}}\n",
     "redrive.yaml:1: defaults.retry.delays: '5s' is not understood",
     "expected a list of durations such as [5s, 30s, 2m, 10m]", "write a list: [5s]"},
    {"defaults: {retry: {delays: [1s, 5]}}\n",
     "redrive.yaml:1: defaults.retry.delays[1]: '5' has no unit", NULL, NULL},
    {"defaults: {retry: {max_attempts: \"5\"}}\n",
     "redrive.yaml:1: defaults.retry.max_attempts: '5', in quotes, is not understood", NULL,
     "write 5, without quotes"},
    {"defaults: {retry: {jitter: \"true\"}}\n",
     "redrive.yaml:1: defaults.retry.jitter: 'true', in quotes, is not understood", NULL,
     "write true, without quotes"},
    {"defaults: {retry: {retry_on: network}}\n",
     "redrive.yaml:1: defaults.retry.retry_on: 'network' is not understood",
     "expected all, or a list of failure classes and error types", "write a list: [network]"},
    {"defaults: {retry: {retry_on: }}\n", "redrive.yaml:1: defaults.retry.retry_on: found nothing",
     NULL, ""},
    {"defaults: {retry: {retry_on: [success]}}\n",
     "redrive.yaml:1: defaults.retry.retry_on[0]: success is not a failure", NULL, NULL},
    {"defaults: {retry: {retry_on: [a, [b]]}}\n",
     "redrive.yaml:1: defaults.retry.retry_on[1]: found a list", NULL, NULL},
    {"defaults: {retry: {give_up_on: [\"a b\"]}}\n",
     "redrive.yaml:1: defaults.retry.give_up_on[0]: 'a b' is no class or error type", NULL, NULL},
    {"tasks:\n  a:\n    on:\n      netwrok: {}\n",
     "redrive.yaml:4: unknown class 'netwrok' in tasks.a.on", NULL, "did you mean 'network'?"},
    {"tasks: {a: {on: {success: {}}}}\n", "redrive.yaml:1: unknown class 'success' in tasks.a.on",
     NULL, NULL},
    {"tasks: {a: {on: [network]}}\n", "redrive.yaml:1: tasks.a.on: found a list",
     "expected a map of failure classes", NULL},
    {"tasks: {a: {on: {network: 5}}}\n", "redrive.yaml:1: tasks.a.on.network: found a plain value",
     NULL, NULL},
    {"tasks: {a: {on: {network: {total_timeout: 5s}}}}\n",
     "redrive.yaml:1: unknown key 'total_timeout' in tasks.a.on.network", NULL, NULL},

    /* ---- breakers and templates ---- */
    {"defaults: {breaker: {recovery_max: 1s}}\n",
     "redrive.yaml:1: defaults.breaker.recovery_max: recovery_max is below recovery_timeout",
     "recovery_max is 1s, recovery_timeout is 30s", NULL},
    {"defaults: {breaker: {on_open: parc}}\n",
     "redrive.yaml:1: defaults.breaker.on_open: there is no 'parc'",
     "expected one of park, dead_letter, reject", "did you mean 'park'?"},
    {"defaults: {breaker: {key: \"{tsk}\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: unknown placeholder 'tsk'", NULL,
     "did you mean 'task'?"},
    {"defaults: {breaker: {key: \"{payload}\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: unknown placeholder 'payload'", NULL, NULL},
    {"defaults: {breaker: {key: \"{payload.}\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: unknown placeholder 'payload.'", NULL, NULL},
    {"defaults: {breaker: {key: \"{payload..a}\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: unknown placeholder 'payload..a'", NULL, NULL},
    {"defaults: {breaker: {key: \"{payloads.a}\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: unknown placeholder 'payloads.a'", NULL, NULL},
    {"defaults: {breaker: {key: \"{task\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: '{' without '}'",
     "expected text with placeholders such as {task} or {payload.host}", NULL},
    {"defaults: {breaker: {key: \"task}\"}}\n",
     "redrive.yaml:1: defaults.breaker.key: '}' without '{'", NULL, NULL},
    {"defaults: {breaker: {key: {task: }}}\n", "redrive.yaml:1: defaults.breaker.key: found a map",
     NULL, NULL},

    /* ---- tasks ---- */
    {"tasks: {a: {run: {exec: echo hi}}}\n",
     "redrive.yaml:1: tasks.a.run.exec: 'echo hi' is not understood", "expected a list of text",
     "write a list: [echo, hi]"},
    {"tasks: {a: {run: {exec: []}}}\n", "redrive.yaml:1: tasks.a.run.exec: found an empty list",
     NULL, NULL},
    {"tasks: {a: {run: {exec: [a, [b]]}}}\n", "redrive.yaml:1: tasks.a.run.exec[1]: found a list",
     NULL, NULL},
    {"tasks: {a: {run: {exec: [a, ~]}}}\n", "redrive.yaml:1: tasks.a.run.exec[1]: found nothing",
     NULL, NULL},
    {"tasks: {a: {run: {exec: [a], http: \"http://x\"}}}\n",
     "redrive.yaml:1: tasks.a.run: says in several ways how to run",
     "expected one of exec, stream and http", NULL},
    {"tasks: {a: {run: {}}}\n", "redrive.yaml:1: tasks.a.run: does not say what to run",
     "expected one of exec, stream and http", NULL},
    {"tasks: {a: {run: {timeout: 5s}}}\n", "redrive.yaml:1: tasks.a.run: does not say what to run",
     NULL, NULL},
    {"tasks: {a: {run: {exec: [a], processes: 2}}}\n",
     "redrive.yaml:1: tasks.a.run.processes: only a stream has processes", NULL, NULL},
    {"tasks: {a: {run: {http: \"http://x\", in_flight: 2}}}\n",
     "redrive.yaml:1: tasks.a.run.in_flight: only a stream has jobs in flight",
     "jobs of exec and http run side by side by concurrency", NULL},
    {"tasks: {a: {run: {http: \"http://x\", kill_grace: 2s}}}\n",
     "redrive.yaml:1: tasks.a.run.kill_grace: only a program can be killed", NULL, NULL},
    {"tasks: {a: {run: {http: \"http://x\", pass_env: [A]}}}\n",
     "redrive.yaml:1: tasks.a.run.pass_env: only a program has an environment", NULL, NULL},
    {"tasks: {a: {run: {exec: [a], pass_env: [A=b]}}}\n",
     "redrive.yaml:1: tasks.a.run.pass_env[0]: is not the name of a variable", NULL,
     "names only: values are taken from the environment of the worker"},
    {"tasks: {a: {run: {stream: [a], allow_private: true}}}\n",
     "redrive.yaml:1: tasks.a.run.allow_private: only http has addresses", NULL, NULL},
    {"tasks: {a: {run: {exec: [a], connect_timeout: 2s}}}\n",
     "redrive.yaml:1: tasks.a.run.connect_timeout: only http has connections", NULL, NULL},
    {"tasks: {a: {run: {http: ftp://x}}}\n",
     "redrive.yaml:1: tasks.a.run.http: cannot be understood",
     "expected a URL that begins with http:// or https://, or a map", NULL},
    {"tasks: {a: {run: {http: \"http:///x\"}}}\n",
     "redrive.yaml:1: tasks.a.run.http: cannot be understood", NULL, NULL},
    {"tasks: {a: {run: {http: \"http://x/a b\"}}}\n",
     "redrive.yaml:1: tasks.a.run.http: cannot be understood", NULL, NULL},
    {"tasks: {a: {limits: {rate: 60/minute}}}\n",
     "redrive.yaml:1: tasks.a.limits.rate: '60/minute' is not a rate",
     "expected jobs a second, 1 to 1000000000, or a text such as 10/s, 90/min, 1000/h or 5000/d",
     NULL},
    {"tasks: {a: {limits: {rate: [1]}}}\n", "redrive.yaml:1: tasks.a.limits.rate: found a list",
     NULL, NULL},
    {"tasks: {a: {limits: {rate: 1/s, per: usr}}}\n",
     "redrive.yaml:1: tasks.a.limits.per: there is no 'usr'", NULL, "did you mean 'user'?"},
    {"tasks: {a: {limits: {rate: 1/s, per: key}}}\n",
     "redrive.yaml:1: tasks.a.limits: 'per: key' needs a key", NULL, "add key: \"{payload.NAME}\""},
    {"tasks: {a: {limits: {rate: 1/s, key: x}}}\n",
     "redrive.yaml:1: tasks.a.limits.key: is not used", NULL, "add per: key"},
    {"tasks: {a: {limits: {burst: 5}}}\n", "redrive.yaml:1: tasks.a.limits.burst: is not used",
     NULL, "add a rate"},
    {"tasks: {a: {limits: {concurrency: adapted}}}\n",
     "redrive.yaml:1: tasks.a.limits.concurrency: 'adapted' is not a whole number", NULL, NULL},
    {"tasks: {a: {limits: {concurrency: 3, max_concurrency: 9}}}\n",
     "redrive.yaml:1: tasks.a.limits.max_concurrency: is not used", NULL,
     "add concurrency: adaptive"},
    {"tasks: {a: {limits: {concurrency: adaptive, min_concurrency: 9, max_concurrency: 3}}}\n",
     "redrive.yaml:1: tasks.a.limits.min_concurrency: is above max_concurrency", NULL, NULL},
    {"tasks: {a: {limits: {concurrency: adaptive, min_concurrency: 0}}}\n",
     "redrive.yaml:1: tasks.a.limits.min_concurrency: '0' is out of range", NULL, NULL},
    {"tasks: {a: {limits: {retry_budget: 0.1}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget: found a plain value",
     "expected a map of ratio, window, min_per_second, max_tokens, token_ratio", NULL},
    {"tasks: {a: {limits: {retry_budget: {ratio: 1.5}}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget.ratio: '1.5' is out of range",
     "expected a number from 0 to 1", NULL},
    {"tasks: {a: {limits: {retry_budget: {min_per_second: 0}}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget.min_per_second: '0' is out of range",
     "expected a number from 0.01 to 100000", NULL},
    {"tasks: {a: {limits: {retry_budget: {window: 2h}}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget.window: '2h' is out of range", NULL, NULL},
    {"tasks: {a: {limits: {retry_budget: {token_ratio: 1}}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget.token_ratio: is not used", NULL,
     "add max_tokens"},
    {"tasks: {a: {limits: {retry_budget: {max_tokens: 4, ratio: 0.2}}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget.ratio: is not used", NULL,
     "with max_tokens, retries are not a share of first attempts"},
    {"tasks: {a: {limits: {retry_budget: {max_tokens: 4, window: 20s}}}}\n",
     "redrive.yaml:1: tasks.a.limits.retry_budget.window: is not used", NULL,
     "with max_tokens, retries are not a share of first attempts"},
    {"tasks: {a: {heartbeat: 30s}}\n",
     "redrive.yaml:1: tasks.a.heartbeat: is not shorter than the lease", NULL, NULL},
    {"tasks: {a: {payload: yes}}\n", "redrive.yaml:1: tasks.a.payload: there is no 'yes'",
     "expected one of optional, required", NULL},

    /* ---- classify ---- */
    {"classify: [{class: network}]\n", "redrive.yaml:1: classify[0]: does not say what to look at",
     "expected one of status, error_type, http_status, sqlstate, curl, errno, signal, exit_code "
     "and "
     "message",
     NULL},
    {"classify: [{curl: 1, errno: 1, class: network}]\n",
     "redrive.yaml:1: classify[0]: looks at several things", NULL, "write a row for each"},
    {"classify: [{curl: 1}]\n", "redrive.yaml:1: classify[0]: key 'class' is missing", NULL, NULL},
    {"classify:\n  - {curl: 1, class: network}\n  - {http_status: 5xx, class: transient}\n",
     "redrive.yaml:3: classify[1].http_status: bad http_status pattern '5xx'",
     "expected a number or a range such as 500-599", NULL},
    {"classify: [{message: \"(\", class: network}]\n",
     "redrive.yaml:1: classify[0].message: bad message pattern '('", NULL, NULL},
    {"classify: [{message: [a], class: network}]\n",
     "redrive.yaml:1: classify[0].message: found a list",
     "expected a POSIX extended regular expression", NULL},
    {"classify: [{curl: 1, class: netwrok}]\n",
     "redrive.yaml:1: classify[0].class: there is no 'netwrok'", NULL, "did you mean 'network'?"},

    /* ---- cron ---- */
    {"cron: {a: {task: x, schedule: \"61 * * * *\"}}\n",
     "redrive.yaml:1: cron.a.schedule: invalid cron expression: minute 61 is out of range", NULL,
     NULL},
    {"cron: {a: {task: x, schedule: [1]}}\n", "redrive.yaml:1: cron.a.schedule: found a list", NULL,
     NULL},
    {"cron: {a: {task: x, schedule: '@daily', timezone: Europe/Berln}}\n",
     "redrive.yaml:1: cron.a.timezone: unknown time zone 'Europe/Berln'", NULL,
     "a zone is named like Europe/Berlin; they come with the package tzdata"},
    {"cron: {a: {task: x, schedule: '@daily', timezone: ../../etc/passwd}}\n",
     "redrive.yaml:1: cron.a.timezone: unknown time zone '../../etc/passwd'", NULL, NULL},
    {"cron: {a: {task: x, schedule: '@daily', timezone: ~}}\n",
     "redrive.yaml:1: cron.a.timezone: has no value",
     "expected a time zone such as UTC or "
     "Europe/Berlin",
     NULL},
    {"cron: {a: {task: x, schedule: '@daily', timezone: [UTC]}}\n",
     "redrive.yaml:1: cron.a.timezone: found a list", NULL, NULL},
    {"cron:\n  a:\n    task: x\n    schedule: '@daily'\n    payload:\n      ok: yes\n",
     "redrive.yaml:6: cron.a.payload.ok: 'yes' could be text or not",
     "readers of YAML disagree about it", "put it in quotes, or write it as JSON does"},
    {"tasks: {x: {payload: required}}\ncron: {a: {task: x, schedule: '@daily'}}\n",
     "redrive.yaml:2: cron.a: task 'x' requires a payload", NULL, NULL},

    /* ---- run.http ---- */
    {"tasks: {a: {run: {http: {url: \"http://h\", secret: my-secret-token}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.secret: is not a signing secret",
     "expected whsec_ and the base64 of 16 to 64 bytes",
     "make one: echo \"whsec_$(openssl rand -base64 32)\""},
    {"tasks: {a: {run: {http: {url: \"http://h\", secret: whsec_c2hvcnQ=}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.secret: is not a signing secret", NULL, NULL},
    {"tasks: {a: {run: {http: {url: \"http://h\", secret: []}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.secret: found an empty list", NULL, NULL},
    {"tasks: {a: {run: {http: {url: \"http://h\", headers: {content-length: 5}}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.headers.content-length: is set by the request itself", NULL,
     "leave it out"},
    {"tasks: {a: {run: {http: {url: \"http://h\", headers: {X-A: \"${1 2}\"}}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.headers.X-A: '${' does not begin a reference",
     "expected ${NAME}, a variable of the environment", NULL},
    {"tasks: {a: {run: {http: {url: \"http://h\", headers: {X-A: \"a\\nb\"}}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.headers.X-A: holds a control character", NULL, NULL},
    {"tasks: {a: {run: {http: {url: \"http://h\", headers: [a]}}}}\n",
     "redrive.yaml:1: tasks.a.run.http.headers: found a list", NULL, NULL},
    {"tasks: {a: {run: {http: {headers: {X-A: b}}}}}\n",
     "redrive.yaml:1: tasks.a.run.http: key 'url' is missing", NULL, NULL},

    /* ---- tokens ---- */
    {"tokens: [{name: a, scopes: [admin], hash: my-secret-token}]\n",
     "redrive.yaml:1: tokens[0].hash: cannot be understood",
     "expected sha256: and the 64 hexadecimal digits of the token's hash",
     "printf %s \"$TOKEN\" | sha256sum"},
    {"tokens: [{name: a, scopes: [admin], hash: sha256:"
     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg}]\n",
     "redrive.yaml:1: tokens[0].hash: cannot be understood", NULL, NULL},
    {"tokens: [{name: a, scopes: [enque]}]\n",
     "redrive.yaml:1: tokens[0].scopes[0]: unknown scope 'enque'", NULL, "did you mean 'enqueue'?"},
    {"tokens: [{name: a, scopes: admin}]\n",
     "redrive.yaml:1: tokens[0].scopes: 'admin' is not understood",
     "expected a list of enqueue, work, read and admin", "write a list: [admin]"},
    {"tokens: [{name: a, scopes: [[admin]]}]\n",
     "redrive.yaml:1: tokens[0].scopes[0]: found a list", NULL, NULL},
    {"tokens:\n - {name: a}\n - {name: b}\n - {name: a}\n - {scopes: [admin]}\n",
     "redrive.yaml:4: tokens[2]: another token has the name 'a'", NULL, NULL},

    /* ---- alerts ---- */
    {"alerts: [{when: dead_leters > 5}]\n",
     "redrive.yaml:1: alerts[0].when: unknown metric 'dead_leters'",
     "expected dead_letters, retry_backlog, error_rate or health_score",
     "did you mean 'dead_letters'?"},
    {"alerts: [{when: error_rate > 10}]\n",
     "redrive.yaml:1: alerts[0].when: error_rate is never above 1", NULL,
     "write a share: 0.1 means 10 %"},
    {"alerts: [{when: dead_letters = 5}]\n",
     "redrive.yaml:1: alerts[0].when: 'dead_letters = 5' is not understood",
     "expected a condition such as \"dead_letters > 100\"", NULL},
    {"alerts: [{when: dead_letters > many}]\n",
     "redrive.yaml:1: alerts[0].when: 'dead_letters > many' is not understood", NULL, NULL},
    {"alerts: [{when: dead_letters > -1}]\n",
     "redrive.yaml:1: alerts[0].when: 'dead_letters > -1' is not understood", NULL, NULL},
    {"alerts: [{when: [a]}]\n", "redrive.yaml:1: alerts[0].when: found a list", NULL, NULL},
    {"alerts: [{when: dead_letters > 5, webhook: \"gopher://user:secret@x\"}]\n",
     "redrive.yaml:1: alerts[0].webhook: cannot be understood", NULL, NULL},
};

SANDBOX_TEST(every_mistake_is_explained)
{
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        if (sandbox_load_text(s, BAD[i].yaml) != REDRIVE_E_CONFIG)
            fail_msg("was accepted: %s", BAD[i].yaml);
        const struct redrive_err *err = sandbox_error(s, BAD[i].message);
        assert_int_equal(err->code, REDRIVE_E_CONFIG);
        if (BAD[i].detail)
            assert_string_equal(err->detail, BAD[i].detail);
        if (BAD[i].hint)
            assert_string_equal(err->hint, BAD[i].hint);
    }
}

SANDBOX_TEST(a_refused_file_leaks_no_secret)
{
    sandbox_load_text(s, "store: postgrse://u:hunter2@h/db\n"
                         "tokens: [{name: a, scopes: [admin], hash: hunter2}]\n"
                         "alerts: [{when: dead_letters > 5, webhook: \"gopher://hunter2\"}]\n");
    assert_int_equal(s->report.n_errors, 3);
    for (size_t i = 0; i < s->report.n_errors; i++) {
        assert_null(strstr(s->report.errors[i].message, "hunter2"));
        assert_null(strstr(s->report.errors[i].detail, "hunter2"));
        assert_null(strstr(s->report.errors[i].hint, "hunter2"));
    }
}

SANDBOX_TEST(all_mistakes_are_told_from_top_to_bottom)
{
    sandbox_load_text(s, "lgo: {}\n"
                         "tasks: {a: {qeue: b}}\n"
                         "defaults: {retry: {max_delay: 5}}\n"
                         "strict_tasks: maybe\n"
                         "store: x\n");
    assert_int_equal(s->report.n_errors, 5);
    assert_int_equal(s->report.n_omitted, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(s->report.lines[i], i + 1);
}

SANDBOX_TEST(the_report_keeps_what_is_nearest_to_the_top)
{
    char text[4000] = "x0: 1\ntasks:\n", line[64];
    for (int i = 3; i < 33; i++) {
        snprintf(line, sizeof line, "  t%d: {qeue: x}\n", i);
        strcat(text, line);
    }
    sandbox_load_text(s, text);
    assert_int_equal(s->report.n_errors, CONFIG_MAX_ERRORS);
    assert_int_equal(s->report.n_omitted, 11);
    assert_string_equal(s->report.errors[0].message, "redrive.yaml:1: unknown key 'x0'");
    assert_int_equal(s->report.lines[CONFIG_MAX_ERRORS - 1], 21);
}

SANDBOX_TEST(text_has_a_limit)
{
    char text[6000] = "paths: {retry_queue: ";
    memset(text + strlen(text), 'x', 5000);
    strcat(text, "}\n");
    assert_int_equal(sandbox_load_text(s, text), REDRIVE_E_CONFIG);
    /* One is about the store, which is in that directory. */
    for (size_t i = 0; i < s->report.n_errors; i++)
        assert_null(strstr(s->report.errors[i].message, "xxx"));
    const struct redrive_err *err =
        sandbox_error(s, "redrive.yaml:1: paths.retry_queue: it is too long");
    assert_non_null(err);
}

SANDBOX_TEST(mistakes_in_inherited_rules_are_told_once)
{
    sandbox_load_text(s, "defaults:\n  on: {network: {max_dealy: 5s}}\ntasks: {a: , b: , c: }\n");
    assert_int_equal(s->report.n_errors, 1);
    sandbox_error(s, "redrive.yaml:2: unknown key 'max_dealy' in defaults.on.network");
}
