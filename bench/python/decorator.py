#!/usr/bin/env python3
"""What a decorated call costs: Redrive, tenacity and backoff, in one run and in turns.

    build/python-env/bin/python bench/python/decorator.py [--calls N] [--rounds N] [--json]

Two calls are measured: one that succeeds, and one that fails once and is retried without delay. Each round
measures every library, so that all see the same machine; the figure is the best round, in CPU time.
"""

import argparse
import asyncio
import json
import sys
import time

import backoff
import redrive
import tenacity


class Failing:
    """Fails in every second call."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls % 2:
            raise ConnectionError("no")


def plain():
    return None


async def plain_async():
    return None


def wrap_redrive(function):
    return redrive.retry(max_attempts=3, strategy="immediate")(function)


def wrap_tenacity(function):
    return tenacity.retry(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_none(), reraise=True)(function)


def wrap_backoff(function):
    return backoff.on_exception(backoff.constant, Exception, max_tries=3, interval=0, jitter=None)(function)


LIBRARIES = {
    "redrive": wrap_redrive,
    "tenacity": wrap_tenacity,
    "backoff": wrap_backoff,
}


def function_that_fails():
    failing = Failing()

    def function():
        return failing()

    return function


def measure(call, n):
    began = time.process_time()
    for _ in range(n):
        call()
    return (time.process_time() - began) / n * 1e6


def measure_async(call, n):
    async def main():
        began = time.process_time()
        for _ in range(n):
            await call()
        return (time.process_time() - began) / n * 1e6

    return asyncio.run(main())


def run(n, rounds):
    cases = {
        "succeeds": {name: (measure, wrap(plain)) for name, wrap in LIBRARIES.items()},
        "succeeds, coroutine": {name: (measure_async, wrap(plain_async)) for name, wrap in LIBRARIES.items()},
        "retried once": {name: (measure, wrap(function_that_fails())) for name, wrap in LIBRARIES.items()},
    }
    best = {case: dict.fromkeys(LIBRARIES, float("inf")) for case in cases}
    for _ in range(rounds):
        for case, calls in cases.items():
            for name, (how, call) in calls.items():
                best[case][name] = min(best[case][name], how(call, n))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail unless Redrive costs at most what tenacity costs",
    )
    options = parser.parse_args()
    best = run(options.calls, options.rounds)
    if options.json:
        print(json.dumps(best, indent=2))
    else:
        print(f"{'microseconds a call':<22}" + "".join(f"{name:>10}" for name in LIBRARIES))
        for case, figures in best.items():
            print(f"{case:<22}" + "".join(f"{figures[name]:>10.2f}" for name in LIBRARIES))
    slower = [case for case, figures in best.items() if figures["redrive"] > figures["tenacity"]]
    if options.check and slower:
        sys.exit(f"slower than tenacity: {', '.join(slower)}")


if __name__ == "__main__":
    main()
