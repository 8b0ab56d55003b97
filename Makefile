PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Tests that compute: what another processor, thread count, shell or order of tests could change.
COMPUTING := tests/auditing tests/cli tests/estimators tests/frontier tests/inference tests/methods \
	tests/metrics tests/networks tests/predictors tests/runs tests/storage tests/tables \
	experiments/tests/theory tests/training tests/test_density_ratio.py tests/test_divergences.py tests/test_penalty.py
SEED ?= 1
MINUTES ?= 30
TARGET ?= table2
# Tests start many processes, which would each compile all modules again where this is set.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-portable portable-old portable-shell portable-threads fuzz lint bench reproduce clean

demo: $(INSTALLED)
	$(BIN)/equipoise demo --out demo-output/adult --overwrite

# One thread for each of the two test processes: more would only get in each other's way.
test: lint
	OMP_NUM_THREADS=1 $(PYTEST)

# The same tests as other machines and shells would run them; CONTRIBUTING.md says what differs.
test-portable: portable-old portable-shell portable-threads

portable-old: $(INSTALLED)
	OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem \
		$(PYTEST) $(COMPUTING)

portable-shell: $(INSTALLED)
	trap '' INT; OMP_NUM_THREADS=1 ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell \
		LC_ALL=C TERM=dumb COLUMNS=40 \
		$(PYTEST) --random-order --random-order-seed=$(SEED) $(COMPUTING) </dev/null

# One process, or the threads of two would wait for each other; they wait without using a core.
portable-threads: $(INSTALLED)
	OMP_NUM_THREADS=2 EQUIPOISE_TEST_THREADS=2 OMP_WAIT_POLICY=PASSIVE \
		$(BIN)/python -m pytest --random-order --random-order-seed=$(SEED)2 $(COMPUTING)

# Random inputs into every public entry, until the minutes are over.
fuzz: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A table or figure of the paper, small enough for a laptop; see experiments/README.md.
reproduce: $(INSTALLED)
	$(BIN)/python -m experiments reproduce $(TARGET) --quick

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache demo-output reproduction

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	# dcor compiles itself when first imported; two test processes must not do so at once.
	$(BIN)/python -c "import dcor"
	touch $@
