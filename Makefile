# Thin handles on Meson, for people. Each target prepares what it needs by itself.
#
#   make            build build/redrive and build/libredrive{,-queue}.{a,so}
#   make deps       install the Debian packages of all targets, which it names first; SETS="build test": of these
#   make demo       see it work; KEEP=1 keeps its server and dashboard
#   make check      unit tests without a server that a change can affect, and a few of the program; ALL=1: not only those
#   make test       all tests; the last line is "N passed, N failed"; T=PATTERN: those that match
#   make install    PREFIX=/usr/local DESTDIR=
#   make bench      measure, in one run with the rivals; writes build/bench.json; QUICK=1: one short round
#   make lint       format, layers, static analysis; linters of Python, shell scripts, workflows and the dashboard
#   make help       the rest

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
# Seconds for each fuzz target, and the seed (0: another one each time).
FUZZ_TIME ?= 20
FUZZ_SEED ?= 0
# How often workers, and batches, are killed; servers three times for each five of these.
KILLS ?= 500
# Where an example keeps its jobs: sqlite, postgres, redis; not set: what suits it best.
STORE ?=
# Servers for make versions: postgres-13, postgres-newest, valkey, …; not set: these and one more.
VERSIONS ?=
# Versions of Spark and Delta: python/tests/spark/requirements-PAIR.txt.
PAIR ?= 1
PAIRS = $(if $(ALL),1 2,$(PAIR))
EXAMPLES = example-tasks example-thumbnail example-webhook

.PHONY: all deps demo $(EXAMPLES) check test test-times test-web test-python test-spark spark-env bench-python bench-spark example-spark wheel sdist tests-ready tests-built install bench comparison lint format coverage fuzz asan tsan simulate mutants power-cuts faults torture history soak crash versions clean help

# What is installed, and nothing else: tests are built when they are to run.
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) installed

# Only when there is none: ninja notices changes by itself. What an interrupted setup has left
# behind cannot be built upon; figures of `make bench` stay.
$(BUILD)/build.ninja:
	@tools/bootstrap build
	@rm -rf $(BUILD)/meson-*
	@said=$$(meson setup $(BUILD) 2>&1) || { echo "$$said"; exit 1; }

# SETS: some of those that tools/bootstrap knows. The other targets install what they need in the same way.
SETS ?= all
deps:
	@tools/bootstrap $(SETS)

demo: $(BUILD)/build.ninja
	@tools/bootstrap demo || true
	@echo "building redrive"
	@ninja --quiet -C $(BUILD) redrive
	@tools/demo $(BUILD)

$(EXAMPLES): $(BUILD)/build.ninja
	@ninja --quiet -C $(BUILD) redrive
	@tools/example $(BUILD) $(@:example-%=%) $(STORE)

# Builds nothing but what it runs.
check: tests-ready
	@tools/run-tests $(BUILD) --quick $(if $(ALL),,--changed) --build

# With those of the Python package and of the dashboard; T leaves the package out.
test: tests-built
	@tools/bootstrap python browser
	@tools/run-tests $(BUILD) --with web $(if $(T),--match '$(T)',--with python)

# The same from nothing, and where the processor time goes.
test-times:
	@tools/bootstrap build test python browser
	@tools/test-times --with web --with python

tests-ready:
	@tools/bootstrap build test
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=enabled >/dev/null

tests-built: tests-ready
	@ninja -C $(BUILD)

# The dashboard in a real browser.
test-web:
	@tools/bootstrap build test browser
	@$(MAKE) --no-print-directory all
	@REDRIVE_BIN=$(CURDIR)/$(BUILD)/redrive PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -p no:cacheprovider tests/web

# The Python package: a wheel, and its tests in a virtual environment below the build folder.
wheel:
	@tools/bootstrap python
	@tools/python-env $(BUILD)
	@tools/wheel $(BUILD)

# The source distribution: it has the C sources with it. A wheel is made of it, to see that nothing is missing.
sdist:
	@tools/bootstrap python
	@tools/python-env $(BUILD)
	@tools/sdist $(BUILD)

test-python: $(BUILD)/build.ninja
	@ninja --quiet -C $(BUILD) redrive
	@tools/bootstrap python
	@tools/python-env $(BUILD)
	@tools/wheel $(BUILD)
	@tools/test-python $(BUILD)

# The parts of documents that the program prints, such as the options in docs/redrive.1.
.PHONY: docs
docs: $(BUILD)/build.ninja
	@ninja --quiet -C $(BUILD) redrive
	@tools/docs $(BUILD)/redrive

# The decorator beside tenacity and backoff, the worker beside Procrastinate and Celery.
bench-python: all wheel
	@tools/bootstrap test
	@tools/bench-python $(BUILD)

# redrive.spark on real Spark and Delta. PAIR=1: Spark 3.5; PAIR=2: Spark 4.1; ALL=1: both; QUICK=1: the crash points and a pipeline.
test-spark: $(BUILD)/build.ninja
	@ninja --quiet -C $(BUILD) redrive
	@$(MAKE) --no-print-directory spark-env
	@set -e; for pair in $(PAIRS); do tools/test-spark $(BUILD) $$pair $(if $(QUICK),-m "not long"); done

# What these tests need: environments with the package, and jars.
spark-env: wheel
	@tools/bootstrap spark
	@set -e; for pair in $(PAIRS); do tools/spark-env $(BUILD) $$pair; done

# Time and bytes of a batch beside a straightforward PySpark version; takes some minutes.
# RECORDS: new ones in each batch; ALONE=1: without the other versions; PROFILE=1: where the time goes;
# SMALL=1: what a first batch of few records costs, in a session without settings.
RECORDS ?= 1000000
BATCHES ?= 3
bench-spark: spark-env
	@tools/bench-spark $(BUILD) $(PAIR) --records $(RECORDS) --batches $(BATCHES) $(if $(ALONE),--rivals) $(if $(PROFILE),--profile) $(if $(SMALL),--small)

example-spark: spark-env
	@examples/spark/run.sh $(BUILD)/spark-env-$(PAIR) $(BUILD)/example-spark

install: $(BUILD)/build.ninja
	@tools/install $(BUILD) "$(PREFIX)" "$(DESTDIR)"

.PHONY: dist sbom deb test-packages
# The committed sources as a tarball: the same commit gives the same bytes.
dist:
	@tools/dist $(BUILD)

# The bill of materials of what is installed.
sbom: all
	@tools/sbom $(BUILD)/redrive.spdx.json $(BUILD)/redrive $(BUILD)/libredrive.so $(BUILD)/libredrive-queue.so
	@echo $(BUILD)/redrive.spdx.json

# Debian packages; packaging/README.md says how they are made.
deb: $(BUILD)/build.ninja
	@tools/bootstrap build packages
	@tools/deb $(BUILD)

# Build them, install them in a throw-away root, start the service, and purge them.
test-packages: all deb
	@REDRIVE_BUILD=$(CURDIR)/$(BUILD) REDRIVE_BIN=$(CURDIR)/$(BUILD)/redrive PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -rs -p no:cacheprovider tests/installed_package
	@REDRIVE_BUILD=$(CURDIR)/$(BUILD) REDRIVE_BIN=$(CURDIR)/$(BUILD)/redrive PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -rs -p no:cacheprovider tests/packaging

bench:
	@tools/bootstrap build bench
	@tools/bench $(BUILD) $(if $(QUICK),--quick)

# docs/comparison.md, from the figures of the last `make bench`.
comparison:
	@/usr/bin/python3 bench/comparison.py $(BUILD)/bench.json docs/comparison.md

lint:
	@tools/bootstrap build test lint
	@$(MAKE) --no-print-directory all
	@tools/lint $(BUILD)

format:
	@tools/bootstrap lint
	@clang-format -i $$(tools/c-files)

coverage:
	@tools/bootstrap build test coverage
	@tools/coverage $(if $(ALL),--all)

# Unit tests and a part of the black-box tests under sanitizers: memory and undefined behaviour, then data races.
asan:
	@tools/bootstrap build test fuzz
	@tools/sanitize address,undefined

tsan:
	@tools/bootstrap build test fuzz
	@tools/sanitize thread

# MINIMISE=1: chooses the inputs to keep, instead of new ones.
fuzz:
	@tools/bootstrap build fuzz
	@tools/fuzz $(if $(MINIMISE),--minimise,$(FUZZ_TIME) $(FUZZ_SEED))

# The whole queue with faults, from seeds; SEED=random MINUTES=60 for a night.
SEED ?= 1
RUNS ?= 1000
simulate: tests-built
	@tools/simulate $(BUILD) $(SEED) $(RUNS) $(MINUTES)

# A real file system loses its power under a server, N times (100); STORE=sqlite, postgres or redis. Needs root.
power-cuts: tests-built
	@REDRIVE_BIN=$(CURDIR)/$(BUILD)/redrive python3 -m tests.torture.power --cuts $(or $(N),100) --store $(or $(STORE),sqlite)

# Plants each bug of tests/mutants/bugs.txt in a copy of the source, and says which suite finds it; SUITES=history: whole servers under faults.
mutants: tests-built
	@tools/mutants $(BUILD) $(if $(T),--only '$(T)') $(if $(SUITES),--suites $(SUITES))

# Each call of a program fails in turn: allocations, files, sockets, threads, processes. EVERY=N: each N-th call only;
# ON=PATH: one command or server of tests/faults/paths.py and live.py.
EVERY ?= 1
faults: tests-built
	@REDRIVE_BUILD=$(CURDIR)/$(BUILD) PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m tests.faults.sweep --every $(EVERY) $(if $(ON),--path $(ON))

torture: tests-built
	@tools/bootstrap python
	@tools/torture $(BUILD) --kills $(KILLS)

# Faults under load, and a judgement on the history that clients and handlers wrote. STORE=sqlite, postgres or redis: one store;
# SECONDS: how long, on each; FAULTS: those of tests/history/run.py, separated by commas; UPGRADE=COMMIT: the other build.
history: tests-built
	@REDRIVE_BIN=$(CURDIR)/$(BUILD)/redrive REDRIVE_BUILD=$(CURDIR)/$(BUILD) PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m tests.history.run \
		--store $(or $(STORE),all) --seconds $(or $(SECONDS),20) --seed $(SEED) $(if $(FAULTS),--faults $(FAULTS)) \
		$(if $(UPGRADE),--upgrade $(UPGRADE))

# Everything at once, for HOURS (2) or MINUTES: fails when something grows or a job is lost. Writes $(BUILD)/soak/.
soak: tests-built
	@REDRIVE_BIN=$(CURDIR)/$(BUILD)/redrive PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m tests.soak.run \
		$(if $(MINUTES),--minutes $(MINUTES),--hours $(or $(HOURS),2))

# Power cuts: at about how many points of each workload (0: at each), and how often at each.
POINTS ?= 0
CUTS ?= 12
crash: tests-built
	@REDRIVE_CRASH_POINTS=$(POINTS) REDRIVE_CRASH_CUTS=$(CUTS) REDRIVE_CRASH_SEED=$(SEED) \
		$(BUILD)/tests/crash/test_crash

# One part of the whole check, as on a clean clone: ci-test, ci-lint, ci-asan … (tests/README.md).
ci-%:
	@.ci/run $*

versions: tests-built
	@tools/versions $(BUILD) $(VERSIONS)

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-coverage build-bench

help:
	@sed -n 's/^#   //p' Makefile
	@echo 'make example-tasks, example-thumbnail, example-webhook'
	@echo '                small systems, on a throw-away server; STORE=sqlite|postgres|redis'
	@echo 'make test-times all tests from nothing, and the processor time of each part'
	@echo 'make test-web   the dashboard in a real Chromium'
	@echo 'make wheel      the Python package, as a wheel in build/wheel/'
	@echo 'make sdist      the Python package as a source distribution in build/sdist/'
	@echo 'make test-python'
	@echo '                its tests, type checker and linter; packages come from PyPI'
	@echo 'make test-spark PAIR=1|2, ALL=1, QUICK=1'
	@echo '                tests of redrive.spark on Spark and Delta, from PyPI and Maven; QUICK=1: crash points and a pipeline'
	@echo 'make comparison'
	@echo '                docs/comparison.md, from the figures of the last make bench'
	@echo 'make bench-python'
	@echo '                the decorator beside tenacity and backoff, the worker beside Procrastinate and Celery'
	@echo 'make bench-spark'
	@echo '                a batch on Spark beside a straightforward PySpark version: RECORDS=, BATCHES=, ALONE=1, PROFILE=1, PAIR='
	@echo 'make example-spark'
	@echo '                a pipeline of records on Spark under a moving clock, drawn as SVG'
	@echo 'make dist       the committed sources as build/dist/redrive-VERSION.tar.xz'
	@echo 'make deb        Debian packages, in build/deb/'
	@echo 'make sbom       the bill of materials (SPDX), as build/redrive.spdx.json'
	@echo 'make test-packages'
	@echo '                build the Debian packages, install, start and purge them in a throw-away root'
	@echo 'make docs       write the parts of documents that the program prints: options and keys'
	@echo 'make format     apply the house format'
	@echo 'make coverage   line and branch coverage of base and core; ALL=1: of all; writes build-coverage/'
	@echo 'make asan tsan  unit tests and a part of the black-box tests under sanitizers'
	@echo 'make fuzz       every parser and whole sessions, FUZZ_TIME seconds each (20)'
	@echo 'make simulate   several processes with faults from a seed: SEED=1 RUNS=1000, or MINUTES=n'
	@echo 'make mutants    plant bugs in a copy of the source: each must be found by a suite'
	@echo 'make power-cuts a file system loses its power under a server, N times (100); STORE=sqlite, postgres, redis'
	@echo 'make faults     fail each call of memory, files and sockets in turn; EVERY=n: each n-th; ON=path: one command or server'
	@echo 'make torture    kill workers, batches and servers KILLS times (500), lose nothing'
	@echo 'make history    kills, pauses, partitions, clocks that are off and upgrades under load, and a judgement on the history:'
	@echo '                STORE=, SECONDS=20, FAULTS=kill,pause,partition,skew,upgrade, UPGRADE=COMMIT, SEED='
	@echo 'make soak       all stores and interfaces at once for HOURS (2) or MINUTES, a picture, and a failure if anything grows'
	@echo 'make crash      cut the power at every call to the disk of a SQLite store; POINTS=, CUTS=, SEED='
	@echo 'make versions   the stores on other versions of their servers, from package registries'
	@echo 'make ci-PART    one part of .ci/run, the whole check: test, lint, asan, tsan, coverage, demo, spark, fuzz, simulate, torture, bench'
	@echo 'make clean      remove what was built'
