# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by every script: where things are and which tools are used. Installs nothing.
#   $root    the checkout            $jobs   parallel jobs
#   $python  the interpreter in use: $MILLSTREAM_PYTHON, else .venv/bin/python

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=$(nproc 2>/dev/null || echo 2)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1

say() { printf '[millstream] %s\n' "$*"; }
fail() {
  printf '[millstream] %s\n' "$@" >&2
  exit 1
}

if [ -n "${MILLSTREAM_PYTHON:-}" ]; then
  python=$(command -v "$MILLSTREAM_PYTHON") ||
    fail "MILLSTREAM_PYTHON=$MILLSTREAM_PYTHON is no program"
  case $python in /*) ;; *) python=$PWD/$python ;; esac
  PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH
else
  python=$root/.venv/bin/python
  PATH=$root/.venv/bin:$PATH
fi
export PATH

# The first compiler that has the C++20 of g++ 12. Ubuntu 22.04 has an older g++ by default.
pick_compiler() {
  local candidate
  for candidate in ${CXX:-} g++ g++-15 g++-14 g++-13 g++-12 c++ clang++; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -std=c++20 -fsyntax-only -x c++ - >/dev/null 2>&1 <<'PROBE'; then
#include <atomic>
#include <concepts>
#include <source_location>
#include <span>
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error "g++ 12 is the oldest that is supported"
#endif
void probe(std::atomic<int>& a, std::span<int>) { a.wait(1); }
PROBE
      export CXX=$candidate
      return 0
    fi
  done
  return 1
}

# One object cache for every clone and every build folder on this machine.
use_ccache() {
  if command -v ccache >/dev/null 2>&1; then
    export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
    export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  fi
}

has_header() { printf '#include <%s>\n' "$1" | "$CXX" -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# A fingerprint of the files and folders named, and of the words after `--`.
fingerprint() {
  local paths=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    if [ -e "$1" ]; then paths+=("$1"); fi
    shift
  done
  {
    find "${paths[@]}" -type f ! -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z |
      xargs -0 sha256sum
    printf '%s\n' "$@"
  } | sha256sum | cut -c1-32
}
