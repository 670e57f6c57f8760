# Every target works alone from a clean clone. Needed: Debian 12 or newer (or any Linux with
# Python >= 3.11 and, for Spark, Java >= 17). What is missing is installed first: Python
# packages into .venv, system packages by apt, and those only if they are not there.

# The distribution's Python first: it is built with profile-guided optimisation, which that of a
# version manager often is not; some rows of the benchmark then take half as much processor time
# again (docs/decisions/0024).
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo /usr/bin/python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
SUDO   := $(shell test "$$(id -u)" = 0 || echo sudo)
APT    := $(SUDO) env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o Dpkg::Use-Pty=0

# Brokers are started by the hundred; each would compile its five hundred modules anew.
unexport PYTHONDONTWRITEBYTECODE

# Spark starts Python by name; it must be the one that has arneb.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python

.PHONY: help run docs test compiled pure test-compiled hunt commit-logs check graph pages demo bench bench-client bench-idle bench-pairs bench-pulsar bench-quorum bench-spark bench-spark-through bench-spark-beside bench-lake bench-delayed conformance client-suite pulsar-cluster mutants \
	cluster-demo soak-administration soak-attack soak-client soak-cluster soak-copies soak-cluster-mixed soak-crash soak-damage soak-exactly-once soak-fencing soak-image soak-journal soak-lake soak-page soak-programs soak-replay soak-room soak-spark soak-staged soak-shards soak-take-over soak-transactions spark-cluster clean java browser compiler headers tracer broker-tools client-tools

help:
	@echo "make run            a broker on 127.0.0.1:5672 (AMQP), :6650 (Pulsar), :15672 (HTTP), :8080 (Pulsar admin), data in ./arneb-data"
	@echo "make test           all tests"
	@echo "make compiled       compile the hot modules with mypyc, next to their sources; make pure undoes that"
	@echo "make test-compiled  the tests that reach compiled modules, on those, without a few long ones"
	@echo "make check          format, lint, types, import rules, generated code, tidiness, dead code"
	@echo "make graph          draw who imports whom into docs/graph.svg"
	@echo "make docs           the pages of docs as a site, in build/site"
	@echo "make pages          write the pages of docs that are made from the code"
	@echo "make demo           10,000 orders, a SIGKILL, three kinds of client, nothing lost: under a minute"
	@echo "make conformance    black-box scenarios by real clients, against RabbitMQ, Apache Pulsar and Arneb"
	@echo "make client-suite   the Pulsar client library against Arneb, Apache Pulsar and a cluster on it, with unloads and kills"
	@echo "make pulsar-cluster two Apache Pulsar brokers and three bookies on this machine until Ctrl-D (ARGS=\"--brokers 3\")"
	@echo "make bench          measure against RabbitMQ on this machine, results in bench/results/"
	@echo "make bench-pairs    CPU per message, compared with another commit: ARGS=REVISION"
	@echo "make bench-client   the client library compared with the official Python wheel: rates, CPU per message"
	@echo "make bench-idle     what 10,000 idle consumers of one client cost its process"
	@echo "make bench-quorum   three nodes on Apache Pulsar compared with RabbitMQ's quorum queues (ARGS=\"--rounds 3\")"
	@echo "make bench-pulsar   compare with Apache Pulsar standalone, with its own client"
	@echo "make bench-spark    reading the log in Spark compared with a floor and Parquet, in CPU seconds (ARGS=\"--linear 20000000\")"
	@echo "make bench-spark-through  rows through a broker: service.url, streams, micro-batches, the sink"
	@echo "make bench-spark-beside   what scans and large commits cost a broker's other clients"
	@echo "make bench-lake     an offload to the sealed tier, and reading a table compared with its files and its tail"
	@echo "make bench-delayed  ten million delayed messages on ten subscriptions: memory, index, rates"
	@echo "make mutants        seed each known mistake and prove that a test notices it"
	@echo "make hunt           run the tests with new random examples until one fails"
	@echo "make soak-crash     SIGKILLs and power cuts under load, also while the wall clock is changed"
	@echo "make soak-administration  SIGKILLs while a broker is administered: each change is made or not made"
	@echo "make soak-staged    SIGKILLs between a batch's stages, its commit and the answer"
	@echo "make soak-journal   kill a broker, damage its journal, start it again"
	@echo "make soak-damage    damage a store in one way after another: no command may crash"
	@echo "make soak-image     every step of the container image's build, with all that it fetches"
	@echo "make soak-lake      kill an offload to the sealed tier, and its broker, at random instants"
	@echo "make soak-page      what an operator does at the page, in a browser; pictures of every page in build/page"
	@echo "make soak-room      fill, drain and fill again a broker on 64 MiB of tmpfs and of ext4 (as root)"
	@echo "make spark-cluster  jobs on a Spark master and two workers that get arneb with the job, and Spark Connect"
	@echo "make soak-attack    hostile clients at every port: memory, turns, answers to others"
	@echo "make soak-client    SIGKILLs of a broker under the Pulsar client's load (ARGS=\"--broker cluster --kills 20 --seed 7\")"
	@echo "make cluster-demo   three nodes on a cluster of Apache Pulsar, the leader killed under load, all of it counted (ARGS=\"--messages 10000\")"
	@echo "make soak-cluster   SIGKILLs and SIGSTOPs of a shard's leader on a cluster of Apache Pulsar (ARGS=\"--kills 50 --stops 50 --seed 7\")"
	@echo "make soak-cluster-mixed  kills of nodes, brokers and bookies, network cuts and stops under the crash suite's load (ARGS=\"--times 5 --seed 7\")"
	@echo "make soak-copies    a cluster's log is trimmed by Apache Pulsar, a node is killed while it fetches a copy, the topic is lost (ARGS=\"--messages 50000\")"
	@echo "make soak-fencing   1,000 races for the log of a cluster: nothing is confirmed after a later leader's TAKE (ARGS=\"--races 1000\")"
	@echo "make soak-shards   several shards on Apache Pulsar: clients of both protocols at any node, a hand-over, a kill of each leader, all counted by Spark (ARGS=\"--seconds 60\")"
	@echo "make soak-take-over how long a cluster confirms nothing after its leader is lost, with 1,000,000 messages (ARGS=\"--kills 50 --stops 50\")"
	@echo "make soak-exactly-once  SIGKILLs of a broker and of Java clients that consume, process and produce: each task one result (ARGS=\"--kills 100 --seed 7\")"
	@echo "make soak-transactions  SIGKILLs of a broker under the transactions of Pulsar's clients: each task done once"
	@echo "make soak-programs  10,000 programs of the Pulsar client at a broker in memory that misbehaves"
	@echo "make soak-replay    SIGKILLs of a replay, its JVM and its broker: each message once, in order"
	@echo "make soak-spark     SIGKILLs of a streaming query and its broker: nothing lost, nothing doubled"

run: $(VENV)/.base
	$(BIN)/arneb serve

# On several cores; see tests/side_by_side.py.
test: $(VENV)/.dev java compiler tracer
	$(BIN)/pytest --numprocesses=auto --maxprocesses=4 $(ARGS)

compiled: $(VENV)/.dev headers
	$(BIN)/python hatch_build.py

pure: $(VENV)/.dev
	$(BIN)/python hatch_build.py --clean

# What is left out, and why, is in tests/compiled_run.py. Whatever was compiled is taken away at the end.
test-compiled: compiled java compiler tracer
	$(BIN)/pytest --numprocesses=auto --maxprocesses=4 --on-compiled tests $(ARGS); \
		status=$$?; $(BIN)/python hatch_build.py --clean; exit $$status

# Crash tests and those of whole processes have no examples to vary.
hunt: $(VENV)/.dev
	for seed in $$(shuf -i 1-1000000 -n $(or $(ROUNDS),20)); do \
		$(BIN)/pytest --quiet -x --hypothesis-seed=$$seed tests/core tests/amqp_frontend \
			tests/pulsar_frontend tests/spark_connector $(ARGS) || exit 1; \
	done

# The core's tests over other commit logs: one in memory that is late with every commit, and more
# than one commit under way.
commit-logs: $(VENV)/.dev
	for log in memory-1 memory-8 local-8; do \
		$(BIN)/pytest --quiet -x --commit-log $$log tests/core/engine $(ARGS) || exit 1; \
	done

check: $(VENV)/.dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m arneb_pulsar.wire.proto.generate --check
	$(BIN)/python docs/settings_page.py --check
	$(BIN)/python docs/spark_page.py --check
	$(BIN)/python docs/man_page.py --check
	$(BIN)/python docs/page_parts.py --check
	$(BIN)/python -m docs.graph --check
	$(BIN)/pytest --quiet tests/test_tidy.py tests/test_dead_code.py

# The pages of docs that are generated from the code.
pages: $(VENV)/.dev
	$(BIN)/python docs/settings_page.py
	$(BIN)/python docs/spark_page.py
	$(BIN)/python docs/man_page.py

# The site, into build/site. No warning, and no link that leads nowhere.
docs: $(VENV)/.dev
	$(BIN)/python docs/site.py

# Fails where there is a circle. That the drawing is of the code as it is, `make check` looks at.
graph: $(VENV)/.dev
	$(BIN)/python -m docs.graph

demo: $(VENV)/.dev java
	$(BIN)/python -m arneb.demo

# ARGS="--messages 10000".
soak-copies: $(VENV)/.dev java client-tools
	$(BIN)/python -m conformance.cluster_demo.copies $(ARGS)

cluster-demo: $(VENV)/.dev java client-tools
	$(BIN)/python -m conformance.cluster_demo $(ARGS)

bench: $(VENV)/.dev broker-tools
	$(BIN)/python -m bench $(ARGS)

bench-pairs: $(VENV)/.dev compiler broker-tools
	$(BIN)/python -m bench.pairs $(ARGS)

bench-client: $(VENV)/.dev
	$(BIN)/python -m bench.client $(ARGS)

bench-idle: $(VENV)/.dev
	$(BIN)/python -m bench.idle_consumers $(ARGS)

bench-quorum: $(VENV)/.dev broker-tools java client-tools
	$(BIN)/python -m bench.quorum $(ARGS)

bench-pulsar: $(VENV)/.dev java client-tools
	$(BIN)/python -m bench.pulsar $(ARGS)

bench-spark: $(VENV)/.dev java
	$(BIN)/python -m bench.spark $(ARGS)

bench-spark-through: $(VENV)/.dev java compiler
	$(BIN)/python -m bench.spark_through $(ARGS)

bench-spark-beside: $(VENV)/.dev java compiler
	$(BIN)/python -m bench.spark_beside $(ARGS)

bench-lake: $(VENV)/.dev java
	$(BIN)/python -m bench.lake $(ARGS)

bench-delayed: $(VENV)/.dev
	$(BIN)/python -m bench.delayed $(ARGS)

conformance: $(VENV)/.dev java broker-tools client-tools
	$(BIN)/python -m conformance $(ARGS)

# The same scenarios thrice, and once more while topics are unloaded and brokers are killed.
# ARGS="--client-brokers arneb" leaves brokers out, ARGS="--client-disturb none" the disturbance.
client-suite: $(VENV)/.dev java client-tools
	$(BIN)/pytest --client-brokers arneb,pulsar,cluster --client-backends all tests/pulsar_client $(ARGS)
	$(BIN)/pytest --client-brokers arneb,pulsar,cluster --client-backends all --client-disturb kill tests/pulsar_client $(ARGS)

pulsar-cluster: $(VENV)/.dev java client-tools
	$(BIN)/python -m conformance.brokers.pulsar_cluster $(ARGS)

# The known mistakes, one after the other, in a copy of the code: the tests must see each
# (ARGS=--black-box: the scenarios of real clients must).
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants.run $(ARGS)

# Each soak prints its seed and figures, takes options (ARGS="--help" lists them), and has a short
# form among the tests.
soak-crash: $(VENV)/.dev compiler
	$(BIN)/python -m tests.crash.sigkill --kills $(or $(KILLS),300)
	$(BIN)/python -m tests.crash.mixed --kills $(or $(KILLS),300)
	$(BIN)/python -m tests.crash.mixed --kills $(or $(KILLS),300) --set-clock

soak-administration: $(VENV)/.dev
	$(BIN)/python -m tests.crash.administration --kills $(or $(KILLS),100) $(ARGS)

soak-staged: $(VENV)/.dev
	$(BIN)/python -m tests.crash.staged --kills $(or $(KILLS),300) $(ARGS)

soak-journal: $(VENV)/.dev compiler
	$(BIN)/python -m tests.crash.damaged --kills $(or $(KILLS),200) $(ARGS)

soak-damage: $(VENV)/.dev
	$(BIN)/python -m tests.damage.soak $(ARGS)

# Mounts the file systems that it fills. ARGS="--rounds 10 --seed 1 --on tmpfs ext4 --mib 64".
soak-room: $(VENV)/.dev
	$(SUDO) $(BIN)/python -m tests.crash.room_soak $(ARGS)

soak-image: $(VENV)/.dev
	IMAGE=whole $(BIN)/pytest tests/docs/test_installation.py -k every_line_that

soak-lake: $(VENV)/.dev
	$(BIN)/python tests/spark_connector/lake_crash.py --kills $(or $(KILLS),100) $(ARGS)

# A standalone cluster on this machine: a master, two workers, executors without arneb.
spark-cluster: $(VENV)/.dev java
	$(BIN)/python -m tests.spark_cluster

# Seconds a listener, a seed and listeners by choice: ARGS="60 --seed 7 --listener amqp".
soak-page: $(VENV)/.dev browser
	$(BIN)/pytest -o "python_files=check_*.py" tests/browser $(ARGS)

soak-attack: $(VENV)/.dev
	$(BIN)/python -m tests.attack $(ARGS)

# ARGS="--seed 7": the same dice again. Kills of a cluster's broker take half a minute each.
soak-client: $(VENV)/.dev
	$(BIN)/python -m tests.pulsar_client.soak $(ARGS)

# Seconds between what is done: ARGS="--seconds 60".
soak-shards: $(VENV)/.dev java client-tools
	$(BIN)/python -m conformance.cluster_demo.shards --spark $(ARGS)

soak-cluster: $(VENV)/.dev java client-tools
	$(BIN)/python -m tests.cluster.kills $(ARGS)

soak-cluster-mixed: $(VENV)/.dev java client-tools
	$(BIN)/python -m tests.cluster.kills.mixed $(ARGS)

soak-fencing: $(VENV)/.dev java client-tools
	$(BIN)/python -m tests.cluster.fencing $(ARGS)

soak-take-over: $(VENV)/.dev java client-tools
	$(BIN)/python -m tests.cluster.kills.take_over $(ARGS)

# ARGS="--kills 100 --seed 7".
soak-exactly-once: $(VENV)/.dev java client-tools
	$(BIN)/python -m conformance.pulsar.exactly_once $(ARGS)

soak-transactions: $(VENV)/.dev
	$(BIN)/python -m tests.pulsar_client.transaction_soak $(ARGS)

# On a clock that jumps. ARGS="--programs 1000 --seed 7": other programs.
soak-programs: $(VENV)/.dev
	$(BIN)/python -m tests.pulsar_frontend.client.testing.test_programs $(ARGS)

# ARGS="--seed 7": the same dice again.
soak-spark: $(VENV)/.dev java
	$(BIN)/python -m tests.spark_connector.stream.soak --kills $(or $(KILLS),20) $(ARGS)

soak-replay: $(VENV)/.dev java
	$(BIN)/python -m tests.spark_connector.pipeline.replay_crash --kills $(or $(KILLS),20) $(ARGS)

clean:
	rm -rf $(VENV) .clients .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# ---- What the targets stand on ---------------------------------------------------------

# A stamp is younger than what it was installed from, so nothing is installed twice. The
# installation is editable: a change of code needs no new one.
$(VENV)/.base: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,lake,spark]'
	@touch $@ $(VENV)/.base

$(VENV)/bin/pip:
	@command -v $(PYTHON) >/dev/null || { $(APT) update && $(APT) install python3 >/dev/null; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ $(APT) update && $(APT) install python3-venv >/dev/null; }
	$(PYTHON) -m venv $(VENV)

java:
	@command -v java >/dev/null || { $(APT) update && $(APT) install default-jre-headless >/dev/null; }

# Debian's, for Playwright, which downloads none; axe looks for what people would stumble over.
browser:
	@command -v chromium >/dev/null || { $(APT) update && $(APT) install --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@command -v npm >/dev/null || { $(APT) update && $(APT) install nodejs npm >/dev/null; }
	@command -v nginx >/dev/null || { $(APT) update && $(APT) install --no-install-recommends nginx-light >/dev/null; }

compiler:
	@command -v cc >/dev/null || { $(APT) update && $(APT) install gcc libc6-dev >/dev/null; }

# What compiles modules of Python needs its headers.
headers: compiler $(VENV)/bin/pip
	@$(BIN)/python -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || \
		{ $(APT) update && $(APT) install python3-dev >/dev/null; }

# What a broker does before it confirms is seen by its system calls.
tracer:
	@command -v strace >/dev/null || { $(APT) update && $(APT) install strace >/dev/null; }

# RUNLEVEL=1 above keeps Debian from starting a RabbitMQ that nobody asked for.
broker-tools: compiler
	@test -x /usr/sbin/rabbitmq-server -a -e /usr/include/amqp.h -a -x /usr/bin/amqp-publish || \
		{ $(APT) update && $(APT) install rabbitmq-server librabbitmq-dev amqp-tools >/dev/null; }

# For the clients of other languages; their libraries, and the clients in Python that the
# scenarios bring with them, are fetched and built once, into .clients.
client-tools:
	@command -v npm >/dev/null || { $(APT) update && $(APT) install nodejs npm >/dev/null; }
	@command -v mvn >/dev/null && command -v javac >/dev/null || \
		{ $(APT) update && $(APT) install default-jdk-headless maven >/dev/null; }
	@command -v cargo >/dev/null || { $(APT) update && $(APT) install cargo-web >/dev/null; }
	@command -v go >/dev/null || test -x /usr/local/go/bin/go || \
		{ $(APT) update && $(APT) install golang-go >/dev/null; }
