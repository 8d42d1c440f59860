# The few commands a person types. CMakeLists.txt knows how things are built, tests/ how they are
# tested; this file only calls them.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
.PHONY: build web test test-torch fuzz plan bench format bless manual simulated accuracy compare matrix install uninstall deb wheel clean help

ARCH ?= x86_64
PREFIX ?= /usr/local
DEMO ?= plan tests/fixtures/seed0/start_baseline.sh --gpu 24564MiB
FUZZ_SECONDS ?= 8

BUILD_PACKAGES := gcc libc6-dev cmake ninja-build pkg-config liblzma-dev zlib1g-dev \
  libjansson-dev libyaml-dev libsqlite3-dev libncurses-dev
WEB_PACKAGES := clang lld llvm wasi-libc "libclang-rt-14-dev-wasm32|libclang-rt-dev-wasm32" cmake ninja-build \
  dpkg-dev python3
TEST_PACKAGES := $(BUILD_PACKAGES) $(WEB_PACKAGES) "libclang-rt-14-dev|libclang-rt-dev" clang-format diffutils git patch \
  nodejs python3-yaml tmux curl dpkg-dev file
WHEEL_PACKAGES := make gcc libc6-dev cmake ninja-build pkg-config dpkg-dev tcl ncurses-bin python3 python3-venv python3-pip

# $(call compile,PRESET[,TARGET]): configures and builds; prints only what goes wrong.
compile = set -o pipefail; cmake --preset $(1) >/dev/null && \
  cmake --build --preset $(1) $(addprefix --target ,$(2)) -- --quiet | { grep -v '^ninja: no work to do' || true; }
COMPILE_OR_FAIL = || { echo "the build failed"; echo "0 passed, 1 failed"; exit 1; }

build: ## build the program to build/plimsoll, with man pages and completions beside it
	@tools/need.sh $(BUILD_PACKAGES)
	@[ -e build/release/plimsoll ] || echo "building; this takes a minute or two"
	@$(call compile,release)
	@ln -sfn release/plimsoll build/plimsoll
	@tools/pages.sh build/plimsoll build

web: ## build the page to build/plimsoll.html, one file that works offline
	@tools/need.sh $(WEB_PACKAGES)
	@$(call compile,wasm)
	@tools/page.py build/wasm/plimsoll.wasm build/plimsoll.html

test: ## build and run every test; the last line is "N passed, N failed"
	@tools/need.sh $(TEST_PACKAGES)
	@$(MAKE) build $(COMPILE_OR_FAIL)
	@$(call compile,release,test_programs) $(COMPILE_OR_FAIL)
	@$(call compile,asan) $(COMPILE_OR_FAIL)
	@$(MAKE) web $(COMPILE_OR_FAIL)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/all.sh build

test-torch: build web ## run recorded programs on the simulated GPU, and build and install the Python package (installs PyTorch into the cache folder)
	@tools/need.sh $(WHEEL_PACKAGES) binutils qemu-user libc6-arm64-cross
	@$(call compile,release,test_programs)
	@tests/torch/all.sh build

fuzz: ## try new random inputs on every parser and editor (FUZZ_SECONDS=8 each)
	@tools/need.sh $(TEST_PACKAGES)
	@$(call compile,asan)
	@for target in build/asan/tests/fuzz/fuzz_*; do FUZZ_SEED=0 FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz.sh $$target || exit 1; done

plan: build ## build, then run the demonstration
	@build/plimsoll $(DEMO) || [ $$? -eq 1 ] # 1: it found something

bench: build ## run the benchmarks (RECORD=1 writes them to docs/measurements.md)
	@tools/need.sh python3
	@$(call compile,release,bench_programs)
	@bench/run.sh

format: ## format all C files in place
	@tools/need.sh clang-format
	@tools/sources.sh | xargs clang-format -i

bless: build ## accept what the program prints now as the golden command-line output, and its options as those of Python
	@tests/cli/golden.sh --bless build/plimsoll
	@python3 tools/python_options.py build/plimsoll >python/plimsoll/_options.py

manual: build ## run the commands shown in README.md and docs/ again and redraw their picture
	@tools/manual.sh

simulated: build ## run the commands of docs/ that need PyTorch again (installs PyTorch into the cache folder)
	@tools/need.sh python3 python3-venv python3-pip
	@tools/simulated.sh

accuracy: build ## predict every measured run again and write docs/accuracy.md
	@tools/need.sh python3
	@tools/accuracy.py

compare: build ## ask other memory estimators about the measured runs and write docs/comparison.md (6 GB of packages)
	@tools/need.sh python3 python3-venv python3-pip
	@tools/compare.py

matrix: build ## run programs on the simulated GPU with PyTorch 2.4 to 2.15, recorded in docs/measurements.md (20 GB of packages)
	@tools/need.sh python3 python3-venv python3-pip
	@python3 tests/torch/matrix.py build/plimsoll --record docs/measurements.md

install: build ## install program, man pages, completions and, after make web, the page (PREFIX=/usr/local, DESTDIR=)
	@tools/install.sh build "$(DESTDIR)$(PREFIX)"

uninstall: ## remove what `make install` put there (with the same PREFIX and DESTDIR)
	@tools/install.sh --remove "$(DESTDIR)$(PREFIX)"

deb: build ## build a Debian package, build/plimsoll_VERSION_ARCH.deb
	@tools/need.sh dpkg-dev file binutils
	@tools/deb.sh build

wheel: build web ## build a Python package of the program for any Linux in build/wheel (ARCH=x86_64 or aarch64)
	@tools/need.sh $(WHEEL_PACKAGES)
	@tools/wheel.sh $(ARCH)

clean: ## remove everything that was built
	@rm -rf build

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; \
	  do printf '%-16s %s\n' "$$target" "$$text"; done
