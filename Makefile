.DEFAULT_GOAL := help
.PHONY: help demo test test-all flakes attacks explore explore-served parity-mutants parity-fresh soak memory durable-recorded lint types docs bench bench-peers check constraints clean setup-demo setup-dev

PYTHON := .venv/bin/python
ARGS ?=
COUNT ?= 100
# Tests start many processes, and each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  Needs Python 3.11 or newer, nothing else. ARGS=\"...\" is passed on to demo, test, soak and bench."

demo: setup-demo  ## Watch a support network answer a customer, offline
	@.venv/bin/agentkit demo $(ARGS)

test: setup-dev  ## Run the quick tests, on all cores
	@$(PYTHON) scripts/tiktoken_cache.py
	@echo "Quick tests: about 4 minutes on two cores. Left out: about 1,600 slow cases of tests/slow.txt (kills at every"
	@echo "point, growth by size, npm clients, pages in a browser, PostgreSQL twins, …). Everything: make test-all, about 15 minutes."
	@$(PYTHON) -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-all: setup-dev  ## Run all tests, on all cores
	@$(PYTHON) scripts/tiktoken_cache.py
	@echo "All tests: about 15 minutes on two cores. Left out: what needs a program that is not here (Chromium, Node.js,"
	@echo "the Inngest Dev Server); the last lines name it. Quick tests: make test."
	@$(PYTHON) -m pytest -n auto --dist worksteal $(ARGS)

flakes: setup-dev  ## Run all tests ten times beside busy processes: which do not always pass?
	@$(PYTHON) scripts/tiktoken_cache.py
	@$(PYTHON) scripts/flakes.py $(ARGS)

parity-mutants: setup-dev  ## Change recorded values one at a time: are the changes noticed?
	@$(PYTHON) scripts/tiktoken_cache.py
	@TIKTOKEN_CACHE_DIR=$(CURDIR)/.cache/tiktoken $(PYTHON) -m tests.parity.mutants $(ARGS)

parity-fresh: setup-dev  ## Record random scenarios with the npm package (needs Node), and compare
	@$(PYTHON) scripts/tiktoken_cache.py
	@TIKTOKEN_CACHE_DIR=$(CURDIR)/.cache/tiktoken $(PYTHON) -m tests.parity.fresh $(ARGS)

soak: setup-dev  ## Try a million random histories and processors (an hour or two)
	@$(PYTHON) tests/soak/run.py $(ARGS)

memory: setup-dev  ## Do a million random operations on memories of several tenants (some minutes)
	@MEMORY_OPERATIONS=1000000 $(PYTHON) -m pytest -q -o faulthandler_timeout=7200 tests/memory/test_tenants.py $(ARGS)

durable-recorded: setup-dev  ## Replay recorded conversations as Inngest functions (FILE=…)
	@test -f "$(FILE)" || { echo "usage: make durable-recorded FILE=conversations.jsonl" >&2; exit 2; }
	@$(PYTHON) scripts/tiktoken_cache.py
	@AGENTKIT_RECORDINGS="$(FILE)" AGENTKIT_RECORDED=$(COUNT) \
	  $(PYTHON) -m pytest -q -o faulthandler_timeout=1800 tests/durable/test_recorded.py $(ARGS)

attacks: setup-dev  ## Feed what strangers may write to every entry (time by size and shape); secrets in 100,000 networks (hours)
	@$(PYTHON) -m tests.attacks.growth $(ARGS)
	@$(PYTHON) -m tests.attacks.isolation

explore: setup-dev  ## Try every order of deliveries, kills, failures and answers of a small durable run (ARGS="--depth 2", "--program whole": hours)
	@$(PYTHON) -m tests.durable.small_states --faults
	@$(PYTHON) -m tests.durable.small_states --program whole --depth 0
	@$(PYTHON) -m tests.durable.small_states --shown $(ARGS)

explore-served: setup-dev  ## Try every order of answers, stops, kills and retries of one question (some minutes)
	@$(PYTHON) -m tests.server.small_states $(ARGS)

lint: setup-dev  ## Check style, format and the direction of imports
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/codespell *.md docs agentkit_py examples scripts
	$(PYTHON) scripts/pages.py --check
	.venv/bin/lint-imports --no-cache

types: setup-dev  ## Check types: pyright strict, and that the public ones are complete
	.venv/bin/pyright
	@# --verifytypes asks the python on PATH where the package is
	PATH="$(CURDIR)/.venv/bin:$$PATH" pyright --verifytypes agentkit_py --ignoreexternal

docs: setup-dev  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

bench: setup-dev  ## Measure this machine
	@$(PYTHON) scripts/tiktoken_cache.py
	@$(PYTHON) benchmarks/run.py --ours $(ARGS)

bench-peers: setup-dev  ## Compare with other frameworks, each in an environment of its own
	@$(PYTHON) scripts/tiktoken_cache.py
	@$(PYTHON) benchmarks/run.py $(ARGS)

crash: setup-dev  ## Kill writers of both databases a thousand times, and count what is lost
	@$(PYTHON) tests/soak/crash_stores.py --kills 520 $(ARGS)

check: lint types test-all docs  ## Everything that CI's gate checks

constraints:  ## Pin the newest releases in constraints.txt (needs uv)
	scripts/constraints

clean:  ## Remove what was built and cached, and .venv
	rm -rf .venv .cache .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist htmlcov site
	find agentkit_py tests examples benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

setup-demo:
	@scripts/setup demo

setup-dev:
	@scripts/setup dev
