# One word sets up and runs, one word checks. `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.ready-run
DEV_STAMP := $(VENV)/.ready-dev
COMPILE := $(BIN)/uv pip compile --quiet --universal --exclude-newer "7 days" --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

LOCKS := pyproject.toml requirements-bootstrap.lock scripts/set-up

export PYTHON

# A checkout that was moved is set up again: the scripts in it name the place they were made for.
ifneq ($(shell cat $(RUN_STAMP) 2>/dev/null),$(CURDIR))
$(shell rm -f $(RUN_STAMP) $(DEV_STAMP))
endif

.DEFAULT_GOAL := help
.PHONY: help try setup test lint format types imports licences wheel-test lock check clean

help: ## List the words this file knows
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(RUN_STAMP): $(LOCKS) requirements.lock
	scripts/set-up run

$(DEV_STAMP): $(LOCKS) requirements-dev.lock
	scripts/set-up dev

try: $(RUN_STAMP) ## Set up what a user needs and talk to the bot in this terminal
	$(BIN)/pilothouse try

setup: $(DEV_STAMP) ## Set up what a developer needs

test: $(DEV_STAMP) ## Run every test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(DEV_STAMP) ## Rules and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(DEV_STAMP) ## Repair what `lint` can repair by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV_STAMP) ## Strict types
	$(BIN)/pyright

imports: $(DEV_STAMP) ## Who may import whom
	$(BIN)/lint-imports --no-logo

licences: $(DEV_STAMP) ## What the locked requirements are licensed under
	$(BIN)/python -m pytest -q tests/architecture/test_licences.py

wheel-test: $(DEV_STAMP) ## Build the wheel, install it elsewhere, run the command from an empty folder
	$(BIN)/python -m pytest -q tests/architecture/test_wheel.py

check: ## Exactly what CI does
	bash .ci/run

# The lock files are the pins; pyproject.toml holds only the ranges. The development lock is solved
# first and binds the other two, so that one version of a package serves everybody.
# No release younger than a week is taken: a stolen package is mostly found within days.
# `make lock UPGRADE=--upgrade` moves everything to the newest releases that remain.
lock: $(DEV_STAMP) ## Solve the requirements again and write the lock files
	$(COMPILE) pyproject.toml --group dev --output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --constraint requirements-dev.lock --output-file requirements.lock
	$(COMPILE) --group build --constraint requirements-dev.lock --output-file requirements-bootstrap.lock

clean: ## Remove the environment and everything built
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
