# make demo and make test are all the set-up there is; both make .venv on their first call.
PYTHON ?= python3
unexport PYTHONDONTWRITEBYTECODE  # a test starts many processes, which would compile everything anew
BIN := .venv/bin
.DEFAULT_GOAL := help
export OMP_NUM_THREADS ?= 1

.PHONY: help setup demo check test test-records test-slow slurm-test lint bench docs site figures notebooks clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: .venv/.ok  ## the virtual environment with everything that demo, tests and notebooks need

.venv/.ok: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup  ## a small sweep on the CPU, its Pareto plot, and expected against got
	$(BIN)/python -m zoo.run -m experiment=demo results=results/demo
	$(BIN)/python -m analysis.pareto results/demo
	$(BIN)/python -m analysis.expected results/demo sweeps/demo.expected.csv

check: setup  ## lint, types, the laws of what changed against main, a smoke cell (a minute)
	$(BIN)/python -m tests.check

# one process more than the cores of CI: some tests wait; the order is tests/conftest.py's
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder
test: setup  ## the tests (minutes; no GPU, no SLURM)
	$(PYTEST) -m 'not slow and not gpu and not slurm and not records'

test-records: setup  ## that committed results, pictures, quoted numbers, notebooks and lists agree (minutes)
	$(PYTEST) -m 'records and not slow'

test-slow: setup  ## the tests that train to a score, and the exhaustive forms of others, on SLURM too (hours)
	$(BIN)/python -m pytest -m slow

slurm-test: setup  ## the tests on a real SLURM of one node, which is installed first (Debian, root; minutes)
	bash .ci/slurm
	$(BIN)/python -m pytest tests/slurm -ra -m 'not slow'

lint: setup  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

# one thread, and the cells that the tables are about
ONE := OMP_NUM_THREADS=1 $(BIN)/python
FIG2 := task=mqar_based optim=zoology --out benchmarks/tables
LONG := task=mqar_single task.seq_len=256 task.num_kv_pairs=64 task.vocab_size=8192 optim.batch_size=32 lr=0.001

bench: setup  ## the tables of benchmarks/ (an hour on an idle machine)
	$(ONE) -m zoo.bench train -m mixer=attention,based d_model=64,128 lr=0.001 $(FIG2)
	$(ONE) -m zoo.bench train -m 'mixer=glob(*)' 'model.layers=[mixer]' --forms zoo $(LONG) --out benchmarks/tables/mixers
	$(ONE) -m zoo.bench data $(FIG2)
	$(ONE) -m zoo.bench data -m 'task=glob(*)' max_examples=20000 --out benchmarks/tables/tasks
	$(ONE) -m zoo.bench prefill -m mixer=attention,based $(FIG2)
	$(ONE) -m zoo.bench decode -m mixer=attention,based $(FIG2)
	$(ONE) -m zoo.bench ops --out benchmarks/tables
	$(ONE) -m zoo.bench population -m mixer=attention,based,mamba2 d_model=16,64 optim.batch_size=4,64 --out benchmarks/tables

docs: setup  ## what is made by running: docs/mixers.md, tasks.md, state.md, independence.md, the notebooks' outputs (minutes)
	$(BIN)/python -m zoo.mixers --markdown > docs/mixers.md
	$(BIN)/python -m zoo.tasks --markdown > docs/tasks.md
	$(BIN)/python -m zoo.plan 'mixer=glob(*)' --markdown > docs/state.md
	$(BIN)/python -m tests.independence > docs/independence.md
	$(BIN)/jupyter execute --inplace analysis/notebooks/*.ipynb

site: setup  ## the documentation with search and Python pages, at http://127.0.0.1:8000 until Ctrl-C
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

notebooks: setup  ## open the notebooks in JupyterLab
	$(BIN)/pip install --quiet -c constraints.txt jupyterlab
	$(BIN)/jupyter lab analysis/notebooks

figures: setup  ## every picture and table of docs/figures, from the results in docs/results (minutes)
	$(BIN)/python -m analysis.figures --committed docs/results --out docs/figures
	$(BIN)/python -m analysis.recall_gap $(addprefix docs/results/mini_forgetting,.zip _mqar.zip) --out docs/figures/recall_gap

clean:  ## remove the environment and the caches; results/ stays
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
