# Everything here does its own set-up: Python 3.11 or later with venv, and make, are enough.
PYTHON ?= python3
BIN := .venv/bin
REQUEST := What time is it in Tokyo? Save it to now.txt and read it back.
# Not in this clone: its files came from elsewhere, and a session that reads one is told so.
DEMO := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/callboard-demo
# What is asynchronous: no rule of flake8-async is about another file, and reading all takes half as long again.
ASYNCHRONOUS = grep --recursive --files-with-matches --word-regexp --extended-regexp 'async|trio|anyio|asyncio' --include='*.py'
SOURCES = $(shell $(ASYNCHRONOUS) runtime actors tools providers config cli gateway src/callboard examples benchmarks)
TESTS = $(shell $(ASYNCHRONOUS) tests)
# 127 wants pipes that httpx does not have; 910 and 911 want a checkpoint on every path, 114 knows
# `started` only by one way of calling. Fakes may be async without awaiting.
LENIENT := ASYNC127,ASYNC910,ASYNC911,ASYNC114
LENIENT_IN_TESTS := ASYNC124,ASYNC112,ASYNC113
# In the whole check alone: the few that failed on a full machine run again, alone (docs/decisions/0056-red-beside-others-green-alone.md).
AGAIN = $(if $(CI),--cache-clear || PYTHONPATH=tests scripts/failed-again $$? $(BIN)/pytest)
# What was compiled is kept: each of a thousand processes and each round of tests would do it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test flows-on-postgres check check-pyright check-mypy check-style check-generated protocols console docs format bench instructions audit worlds soak soak-minute clean
.DEFAULT_GOAL := test

run: .venv/run-ready             ## the main job, in folders of its own
	@mkdir -p "$(DEMO)" && rm -f "$(DEMO)/now.txt"
	@$(BIN)/callboard run --data "$(DEMO)-data" --workspace "$(DEMO)" "$(REQUEST)"

test: .venv/dev-ready            ## the whole test suite
	$(BIN)/pytest -n 4 --dist worksteal $(ARGS) $(AGAIN)

check: .venv/dev-ready           ## format, lint, types, import contracts
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-pyright check-mypy check-style check-generated

check-pyright: .venv/dev-ready
	$(BIN)/pyright

check-mypy: .venv/dev-ready
	$(BIN)/mypy
	$(BIN)/pytest -q tests/typed_documents.py

check-style: .venv/dev-ready
	@! git grep --line-number --extended-regexp '^([<>|]{7}( |$$)|={7}$$)' -- ':!*.md' ':!*.jsonl' || { echo 'a conflict was not resolved'; false; }
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/flake8 --select=ASYNC --ignore=$(LENIENT) $(SOURCES)
	$(BIN)/flake8 --select=ASYNC --ignore=$(LENIENT),$(LENIENT_IN_TESTS) $(TESTS)
	$(BIN)/lint-imports --no-cache

# Files that a script writes, and are kept: they must be what it writes today.
check-generated: .venv/dev-ready
	$(BIN)/python scripts/tool-reference --check
	$(BIN)/python scripts/builtin-definitions --check
	$(BIN)/python scripts/protocol-reference --check
	$(BIN)/python scripts/plain-portal --check
	$(BIN)/python scripts/acp-types --check
	$(BIN)/python scripts/dependencies check

protocols: .venv/dev-ready       ## SDKs, servers and suites of others, from npm and PyPI, against callboard: a minute
	$(BIN)/python scripts/protocols

console: .venv/dev-ready         ## the web console: what is committed is what comes out, its tests, and flows in Chromium: three minutes
	$(BIN)/python scripts/console-build --check

flows-on-postgres: .venv/dev-ready ## an eighth of the flows that name no store, on PostgreSQL: a minute
	PYTHONPATH=tests $(BIN)/pytest -p support.flows.on_postgres -n 4 --dist worksteal tests/flows $(ARGS) $(AGAIN) -p support.flows.on_postgres

docs: .venv/dev-ready            ## the site build/site/index.html from docs/ and docstrings; a lost link fails
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html --doctree-dir build/doctrees docs build/site

format: .venv/dev-ready          ## what check wants, as far as a program can do it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/dev-ready           ## speed against the floor, two minutes; see docs/performance.md
	$(BIN)/python benchmarks/compare.py $(ARGS)

instructions: .venv/dev-ready    ## the same in instructions, by valgrind, on however busy a machine
	$(BIN)/python benchmarks/instructions.py $(ARGS)

audit: .venv/dev-ready           ## known vulnerabilities of what is locked, where somebody can be asked
	$(BIN)/python scripts/dependencies audit

worlds: .venv/dev-ready          ## played worlds with faults, as many as fit in half a minute (docs/simulation.md)
	$(BIN)/python -m tests.simulation check

soak: .venv/dev-ready            ## the tests that search, searching longer; then a daemon, in use until stopped
	CALLBOARD_SOAK=1 $(BIN)/pytest $(ARGS)
	$(if $(ARGS),,CALLBOARD_SOAK=1 $(MAKE) --no-print-directory flows-on-postgres)
	$(BIN)/pytest -o hang_seconds=0 tests/gateway/soak.py

soak-minute: .venv/dev-ready     ## a daemon, in use for a minute
	CALLBOARD_SOAK_MINUTES=1 $(BIN)/pytest -o hang_seconds=0 tests/gateway/soak.py

clean:                           ## everything that was made here, and git ignores
	rm -rf .venv "$(DEMO)" dist build .*_cache .hypothesis .coverage*

# The stamps make the set-up run again when pyproject.toml changes, and only then.
.venv/run-ready: pyproject.toml | .venv/made
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

# What is locked, by its hashes, and nothing else; scripts/dependencies writes the lock.
.venv/dev-ready: pyproject.toml .ci/requirements.txt | .venv/made
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .ci/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ .venv/run-ready

# Ray, for one test, in an environment of its own behind which lies this one. `.ci/run` makes both beside each other.
.venv/ray-ready: .ci/ray.txt | .venv/made
	$(BIN)/python -m venv --clear .venv/ray
	.venv/ray/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r .ci/ray.txt
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> "$$(.venv/ray/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/callboard.pth"
	@touch $@

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "callboard needs Python 3.11 or later, as in: make PYTHON=python3.12")'
	@$(BIN)/pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@touch $@
