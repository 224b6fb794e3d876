# Two commands: `make run` and `make test`. Both need only python3 (3.11 or newer), python3-venv and make.
# All paths are relative, so any folder will do; every tool is run as a module of .venv.

PYTHON ?= python3
PORT ?=
DRIVER ?=
SECONDS ?=
SCENE ?=
ARGS ?=
LANES ?= auto
MINUTES ?= 10
DATA ?= ../shared/data
VALUES ?=
VENV_PYTHON = .venv/bin/python

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test test-all explore flaky check conformance contracts bench figures faults world kubernetes cgroup2 sbom crds manifests rehearse lock clean environment environment-dev
unexport PYTHONPATH PYTHONHOME
# Dozens of processes start from this tree: without its bytecode each of them compiles it again.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

# make ends with 2 for every status but 0: the last line of a run, a bench and run-summary.json have the program's own.
run: environment ## the demo on this machine; SECONDS=120 ends by itself, SCENE=lend|memory|cache|cpu|quotas|moves|cpus runs one scene
	@exec $(VENV_PYTHON) -m slackwater.cli up --demo $(if $(SECONDS),--seconds $(SECONDS)) \
	  $(if $(PORT),--port $(PORT)) $(if $(DRIVER),--driver $(DRIVER)) $(if $(SCENE),--scene $(SCENE)) $(ARGS)

test: environment-dev ## checks and tests against real servers, seven minutes; ARGS="tests/*/bus -k NAME", LANES=1
	@exec $(VENV_PYTHON) -m tests.suite quick --lanes $(LANES) $(ARGS)

test-all: environment-dev ## make test, then types and what is slow: browser, Kubernetes, faults, seeds, rehearsals
	@exec $(VENV_PYTHON) -m tests.suite all --lanes $(LANES) $(ARGS)

explore: environment-dev ## fresh examples, new seeds, hostile values, for MINUTES=10; prints each finding as a regression
	@exec $(VENV_PYTHON) -m tests.explore --minutes $(MINUTES) $(ARGS)

flaky: environment-dev ## make test again and again; ARGS="20", ARGS="10 --busy 2", ARGS="3 --disk"
	@exec $(VENV_PYTHON) -m tests.flaky $(ARGS)

check: environment-dev ## style, types, import contracts, generated files
	@exec $(VENV_PYTHON) tools/checks.py --types

conformance: environment-dev ## the vectors of the field: make conformance VECTORS=<file or folder>
	@PYTHONPATH=services:libs:. exec $(VENV_PYTHON) tests/conformance/run.py $(VECTORS)

contracts: environment-dev ## write the generated contracts anew: schemas, AsyncAPI, OpenAPI, flow
	@exec $(VENV_PYTHON) -m contracts.generate

bench: environment-dev ## the figures: delays, memory, CPU; written to .slackwater/bench.json
	@exec $(VENV_PYTHON) -m tests.bench $(ARGS)

figures: environment-dev ## repeats the commands beside the figures in docs/how-to, two minutes; ARGS=--write, DATA=FOLDER
	@exec $(VENV_PYTHON) tools/figures.py --data $(DATA) $(ARGS)

faults: environment-dev ## kills, partitions, poison, full disks: all, or ARGS="kill-* poison"; ARGS=--list
	@exec $(VENV_PYTHON) -m tests.faults $(ARGS)

world: environment-dev ## 200 seeded histories of the control plane; ARGS="--seeds 2000", ARGS="--seed 4711 --shrink", ARGS=--mutants
	@exec $(VENV_PYTHON) -m tests.world $(ARGS)

kubernetes: environment-dev ## build the API server that tests/kubernetes run on: once, 11 minutes of a core (needs Go 1.26)
	@exec $(VENV_PYTHON) -m tests.kubernetes.build

cgroup2: environment-dev ## tests of real cgroups in an emulated machine with cgroup v2 (needs QEMU, says how to have it); ARGS="COMMAND"
	@exec $(VENV_PYTHON) tools/cgroup2_guest.py $(ARGS)

sbom: environment-dev ## what the image contains, as CycloneDX: .slackwater/sbom.cdx.json
	@exec $(VENV_PYTHON) tools/sbom.py

crds: environment ## CustomResourceDefinitions, admission policies and roles as a plain manifest: .slackwater/crds.yaml
	@exec $(VENV_PYTHON) -m contracts.crds .slackwater/crds.yaml

manifests: environment-dev ## the chart as plain manifests, for kubectl: .slackwater/manifests; VALUES=FILE of values
	@exec $(VENV_PYTHON) -m contracts.manifests .slackwater/manifests $(VALUES)

rehearse: environment-dev ## backup, disaster, restore on new servers: hashes and recovery time
	@exec $(VENV_PYTHON) -m deploy.backup.rehearse $(ARGS)

# The locks name no index and no file of this machine.
UV ?= .venv/bin/uv
RESOLVE = $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url --no-emit-find-links --quiet
lock: environment ## resolve requirements*.lock anew from pyproject.toml
	@$(RESOLVE) pyproject.toml --extra embedded --extra build --extra traces --output-file requirements.lock
	@$(RESOLVE) pyproject.toml --extra server --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	@$(RESOLVE) pyproject.toml --extra backup --constraint requirements.lock --output-file requirements-image.lock
	@$(RESOLVE) --group agent --constraint requirements.lock --output-file requirements-agent.lock
	@$(RESOLVE) --group wheel --constraint requirements.lock --output-file requirements-wheel.lock
	@$(RESOLVE) --group uv --output-file requirements-uv.lock

clean: ## remove the virtual environment, caches and the local state (refused while an instance runs)
	@for held in .slackwater .slackwater/demo; do \
	  if [ -e $$held/lock ] && ! flock --nonblock $$held/lock true; then \
	    echo "an instance is running in $$held: stop it first (Ctrl-C)" >&2; exit 1; fi; done
	@rm -rf .venv .slackwater .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find libs services tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(PYTHON) tools/environment.py

environment-dev:
	@$(PYTHON) tools/environment.py --dev
