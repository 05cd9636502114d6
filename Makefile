# One command per need; each makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo serve test fuzz chaos hostile test-trainers test-peers truth lint bench shots clean

demo: $(VENV)/.installed  ## set up, load the example runs, serve http://127.0.0.1:8000
	VANTAGE_DATA_DIR=$${VANTAGE_DATA_DIR:-.demo-data} $(BIN)/vantage demo

serve: $(VENV)/.installed  ## set up and serve the data in ./vantage-data
	$(BIN)/vantage serve

test: $(VENV)/.dev  ## set up, install what tests need (a browser included), run everything
	@./.ci/browser
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile

fuzz: $(VENV)/.dev  ## 10,000 damaged uploads and many odd requests, as every night; VANTAGE_FUZZ_SEED=2 for others
	VANTAGE_FUZZ_FILES=$${VANTAGE_FUZZ_FILES:-10000} VANTAGE_FUZZ_REQUESTS=$${VANTAGE_FUZZ_REQUESTS:-100} \
	  $(BIN)/python -m pytest tests/ingest/test_fuzz.py tests/api/test_schemathesis.py

chaos: $(VENV)/.dev  ## clients at work while processes are killed, frozen, restarted; then every number is checked. SECONDS=600 SEED=0
	$(BIN)/python -m tests.chaos.run --database sqlite --seconds $${SECONDS:-600} --seed $${SEED:-0}
	$(BIN)/python -m tests.chaos.run --database postgresql --seconds $${SECONDS:-600} --seed $${SEED:-0}

hostile: $(VENV)/.dev  ## files that would take all memory or time, requests that nobody means well, 10,000 damaged uploads
	VANTAGE_FUZZ_FILES=$${VANTAGE_FUZZ_FILES:-10000} $(BIN)/python -m pytest tests/ingest/test_parquet_bombs.py \
	  tests/ingest/test_amounts.py tests/inert tests/ingest/test_broken.py tests/ingest/test_fuzz.py tests/security

test-trainers: $(VENV)/.dev  ## the client inside the real TRL and verl, in a venv of their own (downloads them)
	$(BIN)/python client/trainers/run.py

test-peers: $(VENV)/.dev  ## our advantages beside the frameworks' own functions, in the benchmark's venv (downloads them)
	$(BIN)/python benchmarks/agreement.py --write
	$(BIN)/python scripts/option_names.py --wheels .bench/wheels --check

truth: $(VENV)/.dev  ## what is said of 5,000 batches of each class, correct and wrong, as every night; writes docs/truth.md
	VANTAGE_TRUTH=$${VANTAGE_TRUTH:-5000} $(BIN)/python -m tests.truth.write

lint: $(VENV)/.dev  ## ruff, mypy --strict, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## side by side with the peers, in a venv of its own; writes docs/performance.md
	$(BIN)/python benchmarks/run.py

shots: $(VENV)/.dev  ## screenshots of every page, light and dark, wide and narrow, in .shots/
	@./.ci/browser
	$(BIN)/python docs/screenshots/take.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed client/pyproject.toml
	$(PIP) install -c constraints.txt -e '.[dev]' -e client
	@touch $@

clean:
	rm -rf $(VENV) .trainers .demo-data .bench .shots .fuzz
