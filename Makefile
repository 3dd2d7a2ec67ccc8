# The front door. `make run` and `make test` are the whole set-up on a fresh Debian machine.
PREFIX ?= /usr/local
# The operator's file is below it, whatever the prefix.
SYSCONFDIR ?= /etc
# Asked when it is needed: on a fresh machine there is no compiler before.
LIBDIR ?= $$(tools/libdir)
DIRECTORIES = -Dprefix=$(PREFIX) -Dsysconfdir=$(SYSCONFDIR) -Dlibdir=$(LIBDIR)
# In CI a warning is an error; not with sanitizers, where gcc warns of what their checks make of the code.
WERROR = $(if $(CI),--werror)

.PHONY: all help run tests test bench lint format fuzz cross install wheel deb clean

all: build/build.ninja ## build build/brig, build/libbrig.so and build/python; plain `make` does this
	@ninja -C build

build/build.ninja:
	@tools/setup build
	@meson setup build $(WERROR) $(DIRECTORIES) >/dev/null

build-asan/build.ninja:
	@tools/setup build test
	@meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

# One line for each target that has a comment behind ##.
help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS='	' read -r name text; do printf '  make %-9s%s\n' "$$name" "$$text"; done

run: all ## build, and show brig at work
	@tools/demo

# The build with the unit tests, which need packages that the rest does not.
tests: ## build with the unit tests, for tools/test STAGE...
	@tools/setup build test
	@[ ! -e build/build.ninja ] || [ -e build/tests ] || meson setup --reconfigure build >/dev/null
	@$(MAKE) --no-print-directory all

# Fresh roots are made by root alone.
test: ## install what is missing, build, and run every test
	@tools/setup build test probe npm vm cross lint $$([ "$$(id -u)" -ne 0 ] || echo fresh)
	@$(MAKE) --no-print-directory tests build-asan/build.ninja
	@ninja -C build-asan
	@tools/npm-setup
	@tools/test

bench: all ## run the benchmarks and write docs/BENCHMARKS.md
	@bench/run --write

lint: ## read the source with clang-format, clang-tidy, cppcheck, shellcheck, gcc -fanalyzer
	@tools/setup build test lint
	@$(MAKE) --no-print-directory build/build.ninja
	@tools/lint

format: ## lay out the C source by clang-format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

# For aarch64, by Debian's cross compiler, in build-aarch64.
cross: ## build for aarch64 in build-aarch64
	@tools/setup build test cross
	@tools/cross

fuzz: ## run the fuzz targets with libFuzzer; needs clang
	@fuzz/run

install: all ## install below PREFIX (/usr/local) and DESTDIR; SYSCONFDIR has the operator's file
	@meson configure build $(DIRECTORIES)
	@meson install -C build $(if $(DESTDIR),--destdir $(DESTDIR))

# A package that pip installs without the project; what it was built for is in its name.
wheel: all ## make a wheel of the Python package in build
	@tools/wheel build

# Packages for the Debian release that this machine has, in build/deb.
deb: ## make Debian packages for this release in build/deb
	@tools/setup build deb
	@tools/deb

clean: ## remove every build directory
	rm -rf build build-asan build-fuzz build-aarch64
