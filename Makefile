# Everything from a fresh machine with a C++ compiler, make and Python >= 3.10: `make demo`, `make test`.
# All that is fetched or built goes into .venv and build/; tools/setup.py does the fetching.
PYTHON ?= python3
PRESET ?= release
JOBS ?= $(shell nproc)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export CCACHE_DIR ?= $(CURDIR)/build/ccache
# Paths count relative to the tree, so that a copy of it (tests/test_add_an_operator.py) finds these objects.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
# The compiler's own list of headers says what a file depends on: no run of the preprocessor for that alone.
export CCACHE_DEPEND ?= 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
# The tests start hundreds of interpreters, which read each other's compiled modules.
unexport PYTHONDONTWRITEBYTECODE

CMAKE_ARGS += -DDLBLAS_WERROR=$(if $(CI),ON,OFF)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo library test test-asan test-tsan fuzz mutate reliability build wheel release-wheel lint format check lock bench docs clean setup-demo setup-docs setup-test

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

# The operators that it calls alone, in build/demo; DEMO=release: with the whole library, in build.
DEMO := demo
ifeq ($(DEMO),demo)
DEMO_BUILD := build/demo
DEMO_BUILDS := the operators that it calls (some 3 minutes
else
DEMO_BUILD := build
DEMO_BUILDS := the library (some 12 minutes
endif
demo: setup-demo  ## set up, build, and tune a Llama-3-8B layer on this machine (writes build/demo.json)
	@echo "demo: builds $(DEMO_BUILDS) on 2 cores, once), then tunes for a minute"
	@$(MAKE) --no-print-directory library PRESET=$(DEMO)
	PYTHONPATH=$(DEMO_BUILD)/python .venv/bin/python -m dlblas demo --out build/demo.json --root build/demo

test: setup-test build lint  ## set up, build, run every test and check (DLBLAS_TEST_DEPTH=full: every case)
	ctest --preset release
	.venv/bin/python -m pytest -n 3 --dist loadgroup --tell-failures --durations=20

check: build  ## the C++ and Python tests without set-up for them and without lint
	ctest --preset release
	.venv/bin/python -m pytest -n 2 --dist loadgroup -x -q

test-asan: setup-test  ## the C++ tests under AddressSanitizer and UBSan
	$(MAKE) --no-print-directory build PRESET=asan
	ctest --preset asan

test-tsan: setup-test  ## the C++ tests under ThreadSanitizer
	$(MAKE) --no-print-directory build PRESET=tsan
	ctest --preset tsan

build: setup-demo  ## configure and build (PRESET=release|debug|asan|tsan)
	@mkdir -p build
	@flock build/.lock cmake --preset $(PRESET) --log-level=NOTICE $(CMAKE_ARGS) > build/configure.log || \
	  { cat build/configure.log; exit 1; }
	@flock build/.lock cmake --build --preset $(PRESET)

library: setup-demo  ## configure, and build the library and the Python package alone
	@mkdir -p build
	@flock build/.lock cmake --preset $(PRESET) --log-level=NOTICE $(CMAKE_ARGS) > build/configure.log || \
	  { cat build/configure.log; exit 1; }
	@flock build/.lock cmake --build --preset $(PRESET) --target python_stage

wheel: setup-test  ## build the py3-none wheel into dist/
	.venv/bin/python -m pip wheel . --no-deps --no-build-isolation --wheel-dir dist

release-wheel: setup-release  ## build and test the wheels for glibc 2.28, x86-64 and arm64, into dist/
	.venv/bin/python tools/release_wheel.py
	DLBLAS_TEST_WHEELS=$(CURDIR)/dist .venv/bin/python -m pytest -q tests/test_release_wheel.py

lint: setup-test build  ## every check of tools/, clang-format, clang-tidy names, ruff, mypy, codespell
	.venv/bin/python tools/lint.py

format: setup-test  ## format C++ and Python in place
	.venv/bin/python tools/lint.py --fix

fuzz: setup-test build  ## fuzz every parser (SECONDS=20 each; without clang, replay the corpora)
	.venv/bin/python tools/fuzz.py --seconds $(or $(SECONDS),20)

mutate: setup-test build  ## seed bugs into a copy of the tree; each must be caught by its test
	.venv/bin/python tools/mutate.py

reliability: setup-test build  ## the whole battery on store and cubins; writes docs/reliability.md
	.venv/bin/python tools/reliability.py

lock: setup-test  ## renew tools/requirements.lock: newest versions, hashes of every wheel
	.venv/bin/python tools/lock.py

bench: build  ## run the benchmarks (dlblas bench)
	.venv/bin/python -m dlblas bench

docs: setup-docs build  ## build the documentation site, build/site/index.html
	.venv/bin/python tools/make_docs.py

clean:  ## remove build/ and dist/ (.venv stays)
	rm -rf build dist

setup-demo:
	@$(PYTHON) tools/setup.py demo

setup-docs:
	@$(PYTHON) tools/setup.py docs

setup-test:
	@$(PYTHON) tools/setup.py test

setup-release:
	@$(PYTHON) tools/setup.py release
