# The front door. `make run` and `make test` are the whole set-up on a fresh Debian machine.
PREFIX ?= /usr/local

.PHONY: all run test bench lint format fuzz install wheel clean

all: build/build.ninja
	@ninja -C build

build/build.ninja:
	@tools/setup build
	@meson setup build --prefix $(PREFIX) >/dev/null

build-asan/build.ninja:
	@tools/setup build test
	@meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

run: all
	@tools/demo

test:
	@tools/setup build test vm
	@[ ! -e build/build.ninja ] || [ -e build/tests ] || meson setup --reconfigure build >/dev/null
	@$(MAKE) --no-print-directory all build-asan/build.ninja
	@ninja -C build-asan
	@tools/npm-setup
	@tools/test

bench: all
	@bench/run --write

lint:
	@tools/setup build test lint
	@$(MAKE) --no-print-directory build/build.ninja
	@tools/lint

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

fuzz:
	@fuzz/run

install: all
	@meson configure build -Dprefix=$(PREFIX)
	@meson install -C build

# A package that pip installs without the project; what it was built for is in its name.
wheel: all
	@tools/wheel build

clean:
	rm -rf build build-asan build-fuzz
