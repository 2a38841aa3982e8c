#!/usr/bin/env python3
"""tracing - what spans cost, in instructions of the processor for each job.

    bench/tracing.py BUILD_DIR

`bench_engine alone` under valgrind's callgrind: lives of jobs on an SQLite file, without tracing, with one trace in ten and with
every trace sent to a collector on loopback. What is the same for any number of jobs is subtracted. The counts hold whatever else
the machine does. The last line says whether one in ten costs less than 5 %.
"""

import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

FEW, MANY = 6000, 12000


class Collector(http.server.BaseHTTPRequestHandler):
    spans = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Collector.spans += body.count(b'"spanId"')
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def instructions(program, jobs, variables):
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, "alone", "--dir", folder,
                   "--jobs", str(jobs)]
        result = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=600, check=True)
    return int(re.search(r"Collected : (\d+)", result.stderr)[1])


def main():
    program = str(pathlib.Path(sys.argv[1]) / "bench" / "bench_engine")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The queue holds all spans: none is dropped, so that each is paid for.
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "OTEL_BSP_MAX_QUEUE_SIZE": "65536",
              "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    rows = [("off", {}), ("one in ten", traced | {"OTEL_TRACES_SAMPLER_ARG": "0.1"}), ("all", traced | {"OTEL_TRACES_SAMPLER_ARG": "1"})]
    costs = {}
    for name, variables in rows:
        before = Collector.spans
        few, many = (instructions(program, jobs, variables) for jobs in (FEW, MANY))
        costs[name] = (many - few) / (MANY - FEW)
        print(f"{name:<12}{costs[name]:>10,.0f} instructions a job, {costs[name] / costs['off']:.3f} times off, "
              f"{Collector.spans - before} spans", flush=True)
    held = costs["one in ten"] < 1.05 * costs["off"]
    print(f"one in ten costs less than 5 %: {'held' if held else 'MISSED'}")
    return 0 if held else 1


sys.exit(main())
