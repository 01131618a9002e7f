// SPDX-License-Identifier: Apache-2.0
// What the library costs on a GPU, most of it next to the same work written by hand in the same
// run. Prints a line a row and writes --json FILE; bench/run.py makes a table of it. Ends with 77
// where there is no GPU, and with 2 for a wrong argument.
//
// On the look-alike driver (MILLSTREAM_CUDA_DRIVER=<...>/libmillstream_fake_cuda.so --quick)
// everything runs and no value means anything.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "bench/cuda/groups.hpp"

namespace {

std::optional<millstream::machine> find_gpus() {
  try {
    return millstream::machine({.name = "cuda", .devices = 1, .seed = {}});
  } catch (const millstream::error& reason) {
    if (reason.code() != millstream::errc::unavailable) throw;
    std::fprintf(stderr, "millstream_bench_cuda: %s\n", reason.what());
    return {};
  }
}

int run(const bench::options& how) {
  const auto found = find_gpus();
  if (!found) return 77;
  const char* const library = std::getenv("MILLSTREAM_CUDA_DRIVER");
  const bench::gpu by_hand(library == nullptr ? "" : library);
  bench::report report(how);
  const bench::session session{report, by_hand, *found};
  bench::measure_tasks(session);
  bench::measure_graphs(session);
  bench::measure_patterns(session);
  bench::measure_copies(session);
  report.write(by_hand.name());
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(bench::parse(count, arguments));
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "millstream_bench_cuda: %s\n", failed.what());
    return 1;
  }
}
