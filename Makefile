# Every command a developer or CI needs. A clean clone needs git, make and Python 3.11 or later; `make test` sets up
# the rest by itself.

VENV := .venv
PY := $(VENV)/bin/python
WORKERS ?= 2       # pytest processes in the suites that run in parallel
PYTEST_FLAGS ?=    # more pytest arguments: make unit PYTEST_FLAGS="-k jws"
SECONDS ?= 20      # make fuzz: for each parser
TARGETS ?=         # make fuzz: some of tests/fuzz_targets.py, all if empty
MODULES ?=         # make mutants: packages or modules below src/kubevouch: MODULES="pki signers/file"; all of its own if empty
PACKAGES ?=        # make coverage: some of those with a floor in pyproject.toml, all if empty
ABUSE_SECONDS ?= 20 # make attack: how long each abuse goes on at most
ENDURANCE_SECONDS ?= 1200 # make endurance
TORTURE_SECONDS ?= 300 # make torture: for each system
PEERS ?=           # more peer binaries: make peers PEERS="kubectl-1.20 etcd"

# Two at once, begun in this order: one that waits for processes beside one that reckons.
SUITES := lint layers integration unit attacks types interop property contract

.PHONY: help venv demo demo-attest test real peers bench fuzz mutants coverage bench-large attack endurance torture reference man docs docs/demo.svg release audit clean $(SUITES)
.DEFAULT_GOAL := help
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

help:
	@echo 'make demo      watch a machine join a cluster'
	@echo 'make demo-attest  machines prove what they are, and thieves are refused'
	@echo 'make test      everything CI runs: $(SUITES)'
	@echo 'make unit …    one suite alone; PYTEST_FLAGS="-k name" narrows it'
	@echo 'make real      the tests against Kubernetes'"'"' own programs, in the folder that KUBEBUILDER_ASSETS names'
	@echo 'make venv      .venv from requirements-dev.lock'
	@echo 'make peers     the real clients the tests talk to, into .peers; PEERS="name …" for others'
	@echo 'make docs      the manual, into site'
	@echo 'make reference docs/reference/cli.md, findings.md, attacks.md … and docs/compatibility.md;  make man: manual pages, into build/man'
	@echo 'make fuzz      the parsers under a coverage-guided fuzzer, and the fuzz tests with many more examples'
	@echo 'make mutants   small changes of the code that no test notices, module by module; MODULES="pki signers/file"'
	@echo 'make coverage  what the unit tests of the packages that decide about trust reach, against the floors in pyproject.toml'
	@echo 'make bench     the benchmarks, into bench-results; make bench-large: with 100,000 objects and 5,000 watchers too'
	@echo 'make attack    abuses against a running server, their curves into attack-results; ABUSE_SECONDS=20'
	@echo 'make endurance mixed work against a server for ENDURANCE_SECONDS=1200, where its memory is, and a fleet of 200 agents'
	@echo 'make torture   work under faults for TORTURE_SECONDS=300 a system, a checker after it, and the bugs that it has to find'
	@echo 'make release   sdist and wheel, built twice and compared, their sums and a list of what is in them, into dist'
	@echo 'make audit     known faults of the dependencies; needs the internet'
	@echo 'make clean     remove everything the other targets made'

venv:
	@scripts/venv.sh dev

peers: venv
	@$(PY) scripts/fetch_peers.py fetch $(PEERS)
	@scripts/node_client.sh
	@scripts/debian_peers.sh

demo:
	@scripts/venv.sh runtime
	@$(PY) -m kubevouch.demo

# With a TPM in software and a cloud that is played, which the tests have, and Debian's packages for them.
demo-attest: venv
	@scripts/debian_peers.sh
	@PYTHONPATH=tests $(PY) scripts/demo_attest.py

# The picture of the README, from a real run.
docs/demo.svg: venv
	@(echo '$$ make demo'; FORCE_COLOR=1 $(PY) -m kubevouch.demo) | $(PY) scripts/svg_terminal.py --title kubevouch > $@

test: venv peers
	+@$(PY) scripts/run_suites.py $(SUITES)

# Not part of `make test`: Kubernetes' own programs come from the machine. Clusters are shared by the tests of a file.
real: venv peers
	@test -x "$$KUBEBUILDER_ASSETS/kube-apiserver" || { echo "error: got KUBEBUILDER_ASSETS=$$KUBEBUILDER_ASSETS," \
	    "expected the folder of kube-apiserver, etcd and kubectl; setup-envtest fetches one" >&2; exit 2; }
	$(PY) -m pytest tests/real -n $(strip $(WORKERS)) --dist loadfile $(PYTEST_FLAGS)

lint: venv
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: venv
	$(PY) -m mypy src tests scripts $(if $(wildcard benchmarks/*.py),benchmarks)

layers: venv
	$(VENV)/bin/lint-imports --no-logo

# A suite whose first test is not written yet says so; pytest would fail on finding none.
define pytest
	@if find tests/$@ -name 'test_*.py' 2>/dev/null | grep -q .; then \
	    set -x; $(PY) -m pytest tests/$@ -n $(strip $(WORKERS)) $(1) $(PYTEST_FLAGS); \
	else echo '$@: no tests yet'; fi
endef

contract: venv
	$(call pytest,--dist worksteal)

unit property: venv peers
	$(call pytest,--dist worksteal)

# Servers and stores are shared by the tests of a file, so a file stays in one process.
integration attacks interop: venv peers
	$(call pytest,--dist loadfile)

# Commands and findings from the program itself, differences from docs/compatibility.toml; a test compares them.
reference: venv
	$(PY) scripts/reference.py

man: venv
	$(PY) scripts/reference.py --man build/man

docs: venv
	$(PY) -m pip install --disable-pip-version-check -qq --require-hashes --upgrade --target .docs/site \
	    -r requirements-docs.lock
	PYTHONPATH=.docs/site $(PY) -m sphinx -W --keep-going -q -b html docs site

# Not part of `make test`: it takes as long as it is given. What it finds becomes a seed in tests/fuzz_parsers.py.
fuzz: venv
	$(PY) -m pip install --disable-pip-version-check -qq --require-hashes --upgrade --target .fuzz/site \
	    -r requirements-fuzz.lock
	PYTHONPATH=.fuzz/site:tests $(PY) scripts/fuzz.py --seconds $(strip $(SECONDS)) $(TARGETS)
	$(PY) -m pytest tests/property tests/attacks -k 'fuzz or no_field_holds' -n $(strip $(WORKERS)) --hypothesis-profile=long --timeout=3600 $(PYTEST_FLAGS)
	KUBEVOUCH_DAMAGED_PLACES=2000 $(PY) -m pytest tests/attacks/test_lost_writes.py tests/attacks/test_store_verify.py \
	    -k flipped -n $(strip $(WORKERS)) --timeout=3600 $(PYTEST_FLAGS)

# Not part of `make test`: hours, one process, behind everything else. It may be interrupted and goes on where it was.
mutants: venv
	$(PY) -m pip install --disable-pip-version-check -qq --require-hashes --no-deps --upgrade --target .mutants/site \
	    -r requirements-mutants.lock
	$(PY) scripts/mutants.py $(MODULES)
	$(PY) scripts/mutants.py --report

# Not part of `make test`: a minute and more of processor time. Each package by its own unit tests.
coverage: venv
	$(PY) scripts/coverage_floors.py $(PACKAGES)

bench: venv
	$(PY) benchmarks/run.py --into bench-results

bench-large: venv
	$(PY) benchmarks/run.py --into bench-results --runs 3 --lists 20000 100000 --crowd 5000

# Not part of `make test`, whose suite `attacks` has the same rules as bounds: this is what they are worth.
attack: venv
	$(PY) benchmarks/attack.py --into attack-results --seconds $(strip $(ABUSE_SECONDS))

# Mixed work for as long as it is given, and where the memory is meanwhile.
endurance: venv
	$(PY) benchmarks/endurance.py --seconds $(strip $(ENDURANCE_SECONDS))
	KUBEVOUCH_AGENTS=200 KUBEVOUCH_KILLS=15 KUBEVOUCH_STRIDE=1 $(PY) -m pytest tests/integration/test_agent_fleet.py \
	    tests/integration/test_up_kill.py tests/integration/test_node_recovery.py -n $(strip $(WORKERS)) $(PYTEST_FLAGS)

# Systems of several processes that are killed, stopped and cut off, then what the checker says (docs/torture.md).
torture: venv peers
	PYTHONPATH=tests $(PY) -m torture --bugs
	PYTHONPATH=tests $(PY) -m torture --seconds $(strip $(TORTURE_SECONDS)) $(TORTURE_FLAGS)

# Twice, compared; then what is in it, and from where (CycloneDX). The result is for the people who publish.
release: venv
	rm -rf dist
	$(PY) scripts/release.py dist
	$(PY) -m pip install --disable-pip-version-check -qq --require-hashes --upgrade --target .release/site \
	    -r requirements-release.lock
	PYTHONPATH=.release/site $(PY) -m cyclonedx_py requirements requirements.lock --pyproject pyproject.toml \
	    --of JSON --output-reproducible -o dist/kubevouch.cdx.json

# Known faults of what requirements.lock names; asks PyPI and osv.dev, so it is no part of the tests.
audit: venv
	$(PY) -m pip install --disable-pip-version-check -qq --require-hashes --upgrade --target .release/site \
	    -r requirements-release.lock
	PYTHONPATH=.release/site $(PY) -m pip_audit -r requirements.lock --no-deps --disable-pip

clean:
	rm -rf $(VENV) .peers .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage* \
	    bench-results attack-results torture-results build dist site .fuzz .mutants .docs .release
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
