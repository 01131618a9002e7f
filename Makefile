# SPDX-License-Identifier: Apache-2.0
# Every target does its own set-up first (tools/setup), and all are safe to call again.
# MILLSTREAM_PYTHON=<python> makes each use that interpreter and install only our own package.

SHELL := /bin/bash
ARGS ?=
export MILLSTREAM_PYTHON
.PHONY: help demo test check format stub asan tsan gpu-test bench gpu-bench install-check clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || \
	  sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1   \2/p' Makefile

demo:  ## set-up, then the main job (make demo ARGS="--help" lists its options)
	@tools/setup demo
	@tools/package
	@. tools/env.sh && "$$python" examples/python/digits/main.py $(ARGS)

test:  ## set-up, then the whole test suite
	@tools/setup test
	@tools/run_tests cpp python examples

check:  ## static checks: format, tidy, types, layers, exports, stub, headers
	@tools/setup lint
	@tools/check

format:  ## formats C++ and Python sources in place
	@tools/setup lint
	@tools/format

stub:  ## writes python/millstream/_core.pyi anew
	@tools/setup test
	@tools/package
	@. tools/env.sh && "$$python" tools/check_stub.py --write

asan:  ## C++ tests under the address and undefined-behaviour sanitizers
	@tools/setup test
	@tools/run_tests asan

tsan:  ## C++ tests under the thread sanitizer
	@tools/setup test
	@tools/run_tests tsan

gpu-test:  ## the suites on a machine with an NVIDIA GPU (needs its driver only)
	@tools/setup test
	@tools/run_tests gpu

bench:  ## micro benchmarks (ARGS go to Google Benchmark)
	@tools/setup bench
	@tools/build release
	@build/release/bench/millstream_bench $(ARGS)

gpu-bench:  ## benchmarks on a machine with an NVIDIA GPU; OUT=<folder> takes the results
	@tools/setup bench
	@tools/gpu_bench $(ARGS)

install-check:  ## installs static and shared builds, and builds a user's project against them
	@tools/setup test
	@tools/check_install

clean:  ## removes what was built; the .venv stays
	rm -rf build dist out
