# Every target works from a fresh clone: the environment is made on first use and again when its files change.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help run demo test test-real test-deploy bench bench-rehearsal bench-growth bench-peer bench-turns check format screenshots clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/embedded.stamp ## Run everything on this machine (PORT=8000, DATA_DIR=.parley, ENGINES=external, WEB=2, FANOUT=2); Ctrl-C stops it
	@exec $(BIN)/python manage.py dev

demo: .venv/embedded.stamp ## Make people, chats and messages to look at in the run under way
	@$(BIN)/python manage.py demo

test: .venv/dev.stamp ## Run the whole test suite (PYTEST_ARGS="-k name" for a part, WORKERS=0 for one process)
	$(BIN)/pytest -n $(WORKERS) $(PYTEST_ARGS)

test-real: .venv/dev.stamp ## Run the suites on Apache Kafka, DynamoDB Local and Redis (needs Java and Maven)
	@$(BIN)/python -m tests.engines.java
	$(BIN)/pytest -n $(WORKERS) --engines=real $(PYTEST_ARGS)

test-deploy: .venv/dev.stamp ## Check the alert rules and the systemd units (needs promtool and systemd-analyze)
	$(BIN)/pytest tests/tools $(PYTEST_ARGS)

bench: .venv/dev.stamp ## Measure the workloads (W="W1 W2 storm" for some, RUNS=3, CLIENTS=1)
	$(BIN)/python -m bench $(W) --runs $(or $(RUNS),3) --clients $(or $(CLIENTS),1)

bench-rehearsal: .venv/dev.stamp ## Smoke-test every workload, small and short (W="W1 W2" for some)
	$(BIN)/python -m bench $(W) --rehearse

bench-growth: .venv/dev.stamp ## Measure how cost grows (W="messages members connections" for some)
	$(BIN)/python -m bench growth $(W)

bench-peer: .venv/dev.stamp ## Measure in turns with ejabberd on PostgreSQL (W="W1 W2 W3" for some, RUNS=3, AS=bare|shipped|acknowledging; needs both installed)
	$(BIN)/python -m bench peer $(W) --runs $(or $(RUNS),3) --as $(if $(filter default,$(origin AS)),acknowledging,$(AS))

bench-turns: .venv/dev.stamp ## Measure in turns with another checkout of Parley (BASE=../other, W="W1 W2" for some, RUNS=3)
	$(BIN)/python -m bench turns --base $(or $(BASE),$(error BASE=../other is the checkout to compare with)) $(W) --runs $(or $(RUNS),3)

check: .venv/dev.stamp ## Check format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports

format: .venv/dev.stamp ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: .venv/dev.stamp ## Make the pictures in docs/screenshots anew (needs Chromium)
	$(BIN)/python -m demo.screenshots

clean: ## Remove the environment, the engines and the caches; the data directory stays
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Parley needs Python 3.11 or newer: make PYTHON=python3.11")'
	@echo "Making the virtual environment"
	@$(PYTHON) -m venv .venv

.venv/embedded.stamp: requirements.txt requirements-embedded.txt constraints.txt | .venv/bin/pip
	@echo "Installing what the run needs"
	@$(PIP) install -r requirements-embedded.txt -c constraints.txt
	@touch $@

.venv/dev.stamp: .venv/embedded.stamp requirements-dev.txt
	@echo "Installing what the tests and checks need"
	@$(PIP) install -r requirements-dev.txt -c constraints.txt
	@touch $@
