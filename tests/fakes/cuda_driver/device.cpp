// SPDX-License-Identifier: Apache-2.0
// Start, errors and devices.
#include "tests/fakes/cuda_driver/device.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

namespace {

struct error_text {
  result code;
  const char* name;
  const char* text;
};

constexpr error_text error_texts[] = {
    {result::success, "CUDA_SUCCESS", "no error"},
    {result::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {result::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {result::deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {result::device_unavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device is busy or unavailable"},
    {result::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {result::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {result::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {result::no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {result::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {result::peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {result::invalid_ptx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {result::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {result::illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed now"},
    {result::lossy_query, "CUDA_ERROR_LOSSY_QUERY", "the answer would leave out kinds of edges"},
    {result::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {result::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {result::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {result::peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {result::peer_access_not_enabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
     "peer access has not been enabled"},
    {result::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {result::assertion, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {result::host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {result::host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {result::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {result::cooperative_launch_too_large, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks in cooperative launch"},
    {result::not_permitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {result::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {result::stream_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {result::stream_capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {result::stream_capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {result::stream_capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {result::stream_capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {result::stream_capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {result::stream_capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {result::captured_event, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {result::stream_capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {result::graph_update_failure, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints"},
    {result::invalid_cluster_size, "CUDA_ERROR_INVALID_CLUSTER_SIZE",
     "a cluster configuration is impossible"},
    {result::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const error_text* text_of(result code) {
  const auto* const found =
      std::find_if(std::begin(error_texts), std::end(error_texts),
                   [code](const error_text& one) { return one.code == code; });
  return found == std::end(error_texts) ? nullptr : found;
}

// What a device of compute capability 9.0 answers; a plan in the settings overrides it.
int default_attribute(device_attribute what) {
  switch (what) {
    case device_attribute::max_pitch:
    case device_attribute::max_grid_x: return 2147483647;
    case device_attribute::max_grid_y:
    case device_attribute::max_grid_z: return 65535;
    case device_attribute::max_block_z: return 64;
    case device_attribute::max_shared_bytes: return 48 << 10;
    case device_attribute::max_shared_bytes_optin: return 227 << 10;
    case device_attribute::max_threads_per_block:
    case device_attribute::max_block_x:
    case device_attribute::max_block_y: return 1024;
    case device_attribute::multiprocessor_count: return static_cast<int>(multiprocessors);
    case device_attribute::compute_mode: return 0;
    case device_attribute::async_engine_count: return 3;
    case device_attribute::compute_capability_major: return 9;
    case device_attribute::compute_capability_minor: return 0;
    case device_attribute::unified_addressing:
    case device_attribute::managed_memory:
    case device_attribute::concurrent_managed_access:
    case device_attribute::host_register_supported:
    case device_attribute::virtual_memory_management_supported:
    case device_attribute::memory_pools_supported:
    case device_attribute::can_use_64_bit_stream_mem_ops: return 1;
  }
  return 0;
}

}  // namespace

int attribute_of(const settings& config, device_attribute what) {
  const auto planned = config.attributes.find(static_cast<std::uint32_t>(what));
  return planned != config.attributes.end() ? planned->second : default_attribute(what);
}

namespace served {

result cuInit(call& in, std::uint32_t flags) {
  require(flags == 0);
  require(in.all.config.init_answer == result::success, in.all.config.init_answer);
  require(in.all.config.devices > 0, result::no_device);
  in.all.initialised = true;
  return result::success;
}

result cuDriverGetVersion(call& in, int* version) {
  require(version != nullptr);
  *version = in.all.config.version;
  return result::success;
}

result cuGetErrorName(call& /*in*/, result error, const char** name) {
  require(name != nullptr);
  const error_text* const found = text_of(error);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? result::invalid_value : result::success;
}

result cuGetErrorString(call& /*in*/, result error, const char** text) {
  require(text != nullptr);
  const error_text* const found = text_of(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? result::invalid_value : result::success;
}

result cuDeviceGetCount(call& in, int* count) {
  require(count != nullptr);
  *count = in.all.config.devices;
  return result::success;
}

result cuDeviceGet(call& in, device* ordinal, int index) {
  require(ordinal != nullptr);
  require(in.all.has_device(index), result::invalid_device);
  *ordinal = index;
  return result::success;
}

result cuDeviceGetName(call& in, char* name, int bytes, device of) {
  require(name != nullptr && bytes > 0);
  require(in.all.has_device(of), result::invalid_device);
  const std::string text = "look-alike device";
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(bytes) - 1);
  std::memcpy(name, text.data(), count);
  name[count] = '\0';
  return result::success;
}

result cuDeviceGetUuid(call& in, uuid* id, device of) {
  require(id != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  *id = uuid{};
  std::memcpy(id->bytes, "look-alike", 10);
  id->bytes[15] = static_cast<unsigned char>(of);
  return result::success;
}

result cuDeviceTotalMem(call& in, std::size_t* bytes, device of) {
  require(bytes != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  *bytes = in.all.config.device_bytes;
  return result::success;
}

result cuDeviceGetAttribute(call& in, int* value, device_attribute what, device of) {
  require(value != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  *value = attribute_of(in.all.config, what);
  return result::success;
}

result cuDeviceCanAccessPeer(call& in, int* can, device from, device to) {
  require(can != nullptr);
  require(in.all.has_device(from) && in.all.has_device(to), result::invalid_device);
  *can = in.all.config.peers && from != to ? 1 : 0;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
