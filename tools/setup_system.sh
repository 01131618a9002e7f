# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by tools/setup: what must be on the system, how to see whether it is, and which Debian or
# Ubuntu package brings it. Probes ask for the thing itself, not for the package, so that a
# compiler or an interpreter from elsewhere is as good.

# An interpreter that can make a venv and has the headers to build an extension.
base_python() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" - >/dev/null 2>&1 <<'PROBE'; then
import ensurepip, os, sys, sysconfig, venv
assert sys.version_info >= (3, 10)
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
PROBE
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

is_there() {
  case $1 in
    compiler) pick_compiler ;;
    python) base_python >/dev/null ;;
    gtest) pick_compiler && has_header gtest/gtest.h ;;
    benchmark) pick_compiler && has_header benchmark/benchmark.h ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

# Ubuntu 22.04 offers g++ 11 by that name, but also g++-12.
compiler_package() {
  local offered
  offered=$(apt-cache policy g++ 2>/dev/null |
    sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}\([0-9]*\).*/\2/p')
  if [ "${offered:-0}" -ge 12 ]; then echo g++; else echo g++-12; fi
}

packages_for() {
  case $1 in
    compiler) compiler_package ;;
    python) echo python3 python3-venv python3-dev ;;
    gtest) echo libgtest-dev ;;
    benchmark) echo libbenchmark-dev ;;
    *) echo "$1" ;;
  esac
}

# How to become root, or nothing. sudo may ask for a password only where someone can answer.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    echo env
  elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    echo sudo
  fi
}

missing_of() {
  local need
  for need in "$@"; do is_there "$need" || echo "$need"; done
}

apt_install() {
  $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
    >>build/setup/apt.log 2>&1 </dev/null
}

list_and_stop() {
  local need
  printf '[millstream] missing on this system:\n' >&2
  for need in "$@"; do
    printf '[millstream]   %-10s Debian and Ubuntu: apt-get install %s\n' \
      "$need" "$(packages_for "$need")" >&2
  done
  fail "$reason"
}

# system_packages <need>...: what is needed is there afterwards, or the script has ended.
# ccache, graphviz and pkg-config are asked for once and done without where they are not to be had.
system_packages() {
  local missing wanted packages=() need as_root reason
  mapfile -t missing < <(missing_of "$@")
  mkdir -p build/setup
  wanted=()
  [ -e build/setup/optional.stamp ] || mapfile -t wanted < <(missing_of ccache dot pkg-config)
  if [ ${#missing[@]} = 0 ] && [ ${#wanted[@]} = 0 ]; then
    touch build/setup/optional.stamp
    pick_compiler
    return
  fi

  as_root=$(root_prefix)
  if ! command -v apt-get >/dev/null 2>&1 || [ -z "$as_root" ]; then
    reason="install these and call make again (there is neither root nor sudo to do it for you)"
    command -v apt-get >/dev/null 2>&1 ||
      reason="install these with this system's package manager and call make again"
    [ ${#missing[@]} = 0 ] || list_and_stop "${missing[@]}"
  else
    say "installing system packages for: ${missing[*]} ${wanted[*]}"
    $as_root apt-get update -qq >>build/setup/apt.log 2>&1 </dev/null || true
    for need in "${missing[@]}"; do
      # shellcheck disable=SC2207  # package names hold no spaces
      packages+=($(packages_for "$need"))
    done
    reason="apt could not install these; its words are in build/setup/apt.log"
    if [ ${#packages[@]} != 0 ]; then apt_install "${packages[@]}" || true; fi
    for need in "${wanted[@]}"; do
      if [ "$need" = dot ]; then need=graphviz; fi
      apt_install "$need" || true
    done
    mapfile -t missing < <(missing_of "$@")
    [ ${#missing[@]} = 0 ] || list_and_stop "${missing[@]}"
  fi
  touch build/setup/optional.stamp
  pick_compiler
}
