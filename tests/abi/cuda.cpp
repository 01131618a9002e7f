// SPDX-License-Identifier: Apache-2.0
/// Compares our declarations of the CUDA driver's binary interface with the vendor's header, row by
/// row and field by field, at compile time. There is nothing to run.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/abi.hpp"

namespace abi = millstream::backend::cuda::abi;

namespace {

template <class T, class = void>
struct is_complete : std::false_type {};
template <class T>
struct is_complete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (std::is_class_v<Ours> || std::is_class_v<Theirs>) {
    if constexpr (!is_complete<Ours>::value || !is_complete<Theirs>::value) {
      return !is_complete<Ours>::value && !is_complete<Theirs>::value;
    } else {
      return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
    }
  } else if constexpr (std::is_enum_v<Ours> || std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

/// Whether a parameter of one type can be handed over as the other.
template <class Ours, class Theirs>
struct same : std::bool_constant<same_value<Ours, Theirs>()> {};
template <class Ours, class Theirs>
struct same<Ours*, Theirs*> : same<std::remove_cv_t<Ours>, std::remove_cv_t<Theirs>> {};
template <class OurAnswer, class... Ours, class TheirAnswer, class... Theirs>
struct same<OurAnswer(Ours...), TheirAnswer(Theirs...)>
    : std::bool_constant<sizeof...(Ours) == sizeof...(Theirs)> {};
template <class... Ours, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct same<abi::result(Ours...), CUresult(Theirs...)>
    : std::bool_constant<(same<Ours, Theirs>::value && ...)> {};

static_assert(same<int*, int*>::value && !same<int*, unsigned*>::value);
static_assert(!same<std::uint32_t, std::uint64_t>::value && !same<abi::stream, abi::uuid*>::value);

}  // namespace

namespace millstream::backend::cuda::abi {
namespace {

// The vendor's name of a function type ends with its version, so a wrong version does not compile.
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters)                                    \
  static_assert(same<result parameters, std::remove_pointer_t<PFN_##name##_v##version>>::value, \
                #name " is declared wrongly");
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW

}  // namespace
}  // namespace millstream::backend::cuda::abi

namespace {

static_assert(same<abi::get_proc_address, PFN_cuGetProcAddress_v12000>::value);

#define MILLSTREAM_FIELD(ours, field, theirs, their_field)                    \
  static_assert(offsetof(abi::ours, field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(abi::ours::field) == sizeof(theirs::their_field))
#define MILLSTREAM_STRUCT(ours, theirs) \
  static_assert(sizeof(abi::ours) == sizeof(theirs) && alignof(abi::ours) == alignof(theirs))

MILLSTREAM_STRUCT(uuid, CUuuid);

MILLSTREAM_STRUCT(copy_2d, CUDA_MEMCPY2D);
MILLSTREAM_FIELD(copy_2d, from_x_bytes, CUDA_MEMCPY2D, srcXInBytes);
MILLSTREAM_FIELD(copy_2d, from_y, CUDA_MEMCPY2D, srcY);
MILLSTREAM_FIELD(copy_2d, from_type, CUDA_MEMCPY2D, srcMemoryType);
MILLSTREAM_FIELD(copy_2d, from_host, CUDA_MEMCPY2D, srcHost);
MILLSTREAM_FIELD(copy_2d, from_device, CUDA_MEMCPY2D, srcDevice);
MILLSTREAM_FIELD(copy_2d, from_array, CUDA_MEMCPY2D, srcArray);
MILLSTREAM_FIELD(copy_2d, from_pitch, CUDA_MEMCPY2D, srcPitch);
MILLSTREAM_FIELD(copy_2d, to_x_bytes, CUDA_MEMCPY2D, dstXInBytes);
MILLSTREAM_FIELD(copy_2d, to_y, CUDA_MEMCPY2D, dstY);
MILLSTREAM_FIELD(copy_2d, to_type, CUDA_MEMCPY2D, dstMemoryType);
MILLSTREAM_FIELD(copy_2d, to_host, CUDA_MEMCPY2D, dstHost);
MILLSTREAM_FIELD(copy_2d, to_device, CUDA_MEMCPY2D, dstDevice);
MILLSTREAM_FIELD(copy_2d, to_array, CUDA_MEMCPY2D, dstArray);
MILLSTREAM_FIELD(copy_2d, to_pitch, CUDA_MEMCPY2D, dstPitch);
MILLSTREAM_FIELD(copy_2d, width_bytes, CUDA_MEMCPY2D, WidthInBytes);
MILLSTREAM_FIELD(copy_2d, height, CUDA_MEMCPY2D, Height);

#define MILLSTREAM_FIELDS_3D(ours, theirs)                   \
  MILLSTREAM_STRUCT(ours, theirs);                           \
  MILLSTREAM_FIELD(ours, from_x_bytes, theirs, srcXInBytes); \
  MILLSTREAM_FIELD(ours, from_y, theirs, srcY);              \
  MILLSTREAM_FIELD(ours, from_z, theirs, srcZ);              \
  MILLSTREAM_FIELD(ours, from_level, theirs, srcLOD);        \
  MILLSTREAM_FIELD(ours, from_type, theirs, srcMemoryType);  \
  MILLSTREAM_FIELD(ours, from_host, theirs, srcHost);        \
  MILLSTREAM_FIELD(ours, from_device, theirs, srcDevice);    \
  MILLSTREAM_FIELD(ours, from_array, theirs, srcArray);      \
  MILLSTREAM_FIELD(ours, from_pitch, theirs, srcPitch);      \
  MILLSTREAM_FIELD(ours, from_height, theirs, srcHeight);    \
  MILLSTREAM_FIELD(ours, to_x_bytes, theirs, dstXInBytes);   \
  MILLSTREAM_FIELD(ours, to_y, theirs, dstY);                \
  MILLSTREAM_FIELD(ours, to_z, theirs, dstZ);                \
  MILLSTREAM_FIELD(ours, to_level, theirs, dstLOD);          \
  MILLSTREAM_FIELD(ours, to_type, theirs, dstMemoryType);    \
  MILLSTREAM_FIELD(ours, to_host, theirs, dstHost);          \
  MILLSTREAM_FIELD(ours, to_device, theirs, dstDevice);      \
  MILLSTREAM_FIELD(ours, to_array, theirs, dstArray);        \
  MILLSTREAM_FIELD(ours, to_pitch, theirs, dstPitch);        \
  MILLSTREAM_FIELD(ours, to_height, theirs, dstHeight);      \
  MILLSTREAM_FIELD(ours, width_bytes, theirs, WidthInBytes); \
  MILLSTREAM_FIELD(ours, height, theirs, Height);            \
  MILLSTREAM_FIELD(ours, depth, theirs, Depth)
MILLSTREAM_FIELDS_3D(copy_3d, CUDA_MEMCPY3D);
MILLSTREAM_FIELDS_3D(copy_3d_peer, CUDA_MEMCPY3D_PEER);
MILLSTREAM_FIELD(copy_3d_peer, from_context, CUDA_MEMCPY3D_PEER, srcContext);
MILLSTREAM_FIELD(copy_3d_peer, to_context, CUDA_MEMCPY3D_PEER, dstContext);

MILLSTREAM_STRUCT(memory_location, CUmemLocation);
MILLSTREAM_FIELD(memory_location, type, CUmemLocation, type);
MILLSTREAM_FIELD(memory_location, id, CUmemLocation, id);

MILLSTREAM_STRUCT(memory_pool_properties, CUmemPoolProps);
MILLSTREAM_FIELD(memory_pool_properties, type, CUmemPoolProps, allocType);
MILLSTREAM_FIELD(memory_pool_properties, handle_types, CUmemPoolProps, handleTypes);
MILLSTREAM_FIELD(memory_pool_properties, location, CUmemPoolProps, location);
MILLSTREAM_FIELD(memory_pool_properties, max_bytes, CUmemPoolProps, maxSize);
MILLSTREAM_FIELD(memory_pool_properties, usage, CUmemPoolProps, usage);

MILLSTREAM_STRUCT(memory_access, CUmemAccessDesc);
MILLSTREAM_FIELD(memory_access, location, CUmemAccessDesc, location);
MILLSTREAM_FIELD(memory_access, flags, CUmemAccessDesc, flags);

MILLSTREAM_STRUCT(allocation_properties, CUmemAllocationProp);
MILLSTREAM_FIELD(allocation_properties, type, CUmemAllocationProp, type);
MILLSTREAM_FIELD(allocation_properties, handle_types, CUmemAllocationProp, requestedHandleTypes);
MILLSTREAM_FIELD(allocation_properties, location, CUmemAllocationProp, location);
MILLSTREAM_FIELD(allocation_properties, handle_data, CUmemAllocationProp, win32HandleMetaData);
static_assert(offsetof(abi::allocation_properties, compression) ==
              offsetof(CUmemAllocationProp, allocFlags));

MILLSTREAM_STRUCT(launch_attribute_value, CUlaunchAttributeValue);
static_assert(sizeof(CUlaunchAttributeValue::cooperative) == sizeof(int));
static_assert(sizeof(CUlaunchAttributeValue::clusterDim) == 3 * sizeof(std::uint32_t));
static_assert(sizeof(CUlaunchAttributeValue::programmaticStreamSerializationAllowed) ==
              sizeof(int));
MILLSTREAM_STRUCT(launch_attribute, CUlaunchAttribute);
MILLSTREAM_FIELD(launch_attribute, id, CUlaunchAttribute, id);
MILLSTREAM_FIELD(launch_attribute, value, CUlaunchAttribute, value);

MILLSTREAM_STRUCT(launch_config, CUlaunchConfig);
MILLSTREAM_FIELD(launch_config, grid_x, CUlaunchConfig, gridDimX);
MILLSTREAM_FIELD(launch_config, grid_y, CUlaunchConfig, gridDimY);
MILLSTREAM_FIELD(launch_config, grid_z, CUlaunchConfig, gridDimZ);
MILLSTREAM_FIELD(launch_config, block_x, CUlaunchConfig, blockDimX);
MILLSTREAM_FIELD(launch_config, block_y, CUlaunchConfig, blockDimY);
MILLSTREAM_FIELD(launch_config, block_z, CUlaunchConfig, blockDimZ);
MILLSTREAM_FIELD(launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes);
MILLSTREAM_FIELD(launch_config, on, CUlaunchConfig, hStream);
MILLSTREAM_FIELD(launch_config, attributes, CUlaunchConfig, attrs);
MILLSTREAM_FIELD(launch_config, attribute_count, CUlaunchConfig, numAttrs);

MILLSTREAM_STRUCT(graph_edge, CUgraphEdgeData);
MILLSTREAM_FIELD(graph_edge, from_port, CUgraphEdgeData, from_port);
MILLSTREAM_FIELD(graph_edge, to_port, CUgraphEdgeData, to_port);
MILLSTREAM_FIELD(graph_edge, type, CUgraphEdgeData, type);

MILLSTREAM_STRUCT(kernel_node, CUDA_KERNEL_NODE_PARAMS_v2);
MILLSTREAM_FIELD(kernel_node, entry, CUDA_KERNEL_NODE_PARAMS_v2, func);
MILLSTREAM_FIELD(kernel_node, grid_x, CUDA_KERNEL_NODE_PARAMS_v2, gridDimX);
MILLSTREAM_FIELD(kernel_node, grid_y, CUDA_KERNEL_NODE_PARAMS_v2, gridDimY);
MILLSTREAM_FIELD(kernel_node, grid_z, CUDA_KERNEL_NODE_PARAMS_v2, gridDimZ);
MILLSTREAM_FIELD(kernel_node, block_x, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX);
MILLSTREAM_FIELD(kernel_node, block_y, CUDA_KERNEL_NODE_PARAMS_v2, blockDimY);
MILLSTREAM_FIELD(kernel_node, block_z, CUDA_KERNEL_NODE_PARAMS_v2, blockDimZ);
MILLSTREAM_FIELD(kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
MILLSTREAM_FIELD(kernel_node, parameters, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
MILLSTREAM_FIELD(kernel_node, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
MILLSTREAM_FIELD(kernel_node, of_library, CUDA_KERNEL_NODE_PARAMS_v2, kern);
MILLSTREAM_FIELD(kernel_node, in, CUDA_KERNEL_NODE_PARAMS_v2, ctx);

MILLSTREAM_STRUCT(fill_node, CUDA_MEMSET_NODE_PARAMS_v1);
MILLSTREAM_FIELD(fill_node, to, CUDA_MEMSET_NODE_PARAMS_v1, dst);
MILLSTREAM_FIELD(fill_node, pitch, CUDA_MEMSET_NODE_PARAMS_v1, pitch);
MILLSTREAM_FIELD(fill_node, value, CUDA_MEMSET_NODE_PARAMS_v1, value);
MILLSTREAM_FIELD(fill_node, element_bytes, CUDA_MEMSET_NODE_PARAMS_v1, elementSize);
MILLSTREAM_FIELD(fill_node, width, CUDA_MEMSET_NODE_PARAMS_v1, width);
MILLSTREAM_FIELD(fill_node, height, CUDA_MEMSET_NODE_PARAMS_v1, height);

MILLSTREAM_STRUCT(host_node, CUDA_HOST_NODE_PARAMS_v1);
MILLSTREAM_FIELD(host_node, call, CUDA_HOST_NODE_PARAMS_v1, fn);
MILLSTREAM_FIELD(host_node, data, CUDA_HOST_NODE_PARAMS_v1, userData);

MILLSTREAM_STRUCT(any_node, CUgraphNodeParams);
MILLSTREAM_FIELD(any_node, type, CUgraphNodeParams, type);
MILLSTREAM_FIELD(any_node, launch, CUgraphNodeParams, kernel);
MILLSTREAM_FIELD(any_node, nested.child, CUgraphNodeParams, graph.graph);
MILLSTREAM_FIELD(any_node, nested.ownership, CUgraphNodeParams, graph.ownership);
static_assert(static_cast<int>(abi::edge_port::programmatic) ==
              CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
static_assert(static_cast<int>(abi::edge_type::programmatic) ==
              CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
static_assert(static_cast<int>(abi::child_ownership::moved) == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);

MILLSTREAM_STRUCT(graph_update_info, CUgraphExecUpdateResultInfo);
MILLSTREAM_FIELD(graph_update_info, result, CUgraphExecUpdateResultInfo, result);
MILLSTREAM_FIELD(graph_update_info, node, CUgraphExecUpdateResultInfo, errorNode);
MILLSTREAM_FIELD(graph_update_info, from, CUgraphExecUpdateResultInfo, errorFromNode);

MILLSTREAM_STRUCT(graph_instantiate_parameters, CUDA_GRAPH_INSTANTIATE_PARAMS);
MILLSTREAM_FIELD(graph_instantiate_parameters, flags, CUDA_GRAPH_INSTANTIATE_PARAMS, flags);
MILLSTREAM_FIELD(graph_instantiate_parameters, upload_on, CUDA_GRAPH_INSTANTIATE_PARAMS,
                 hUploadStream);
MILLSTREAM_FIELD(graph_instantiate_parameters, error_node, CUDA_GRAPH_INSTANTIATE_PARAMS,
                 hErrNode_out);
MILLSTREAM_FIELD(graph_instantiate_parameters, result, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out);

MILLSTREAM_STRUCT(multiprocessor_resource, CUdevSmResource);
MILLSTREAM_FIELD(multiprocessor_resource, count, CUdevSmResource, smCount);
MILLSTREAM_FIELD(multiprocessor_resource, smallest_part, CUdevSmResource, minSmPartitionSize);
MILLSTREAM_FIELD(multiprocessor_resource, alignment, CUdevSmResource, smCoscheduledAlignment);
MILLSTREAM_STRUCT(device_resource, CUdevResource);
MILLSTREAM_FIELD(device_resource, type, CUdevResource, type);
MILLSTREAM_FIELD(device_resource, multiprocessors, CUdevResource, sm);

template <class Ours, class Theirs>
constexpr bool equal(Ours ours, Theirs theirs) {
  return static_cast<std::uint64_t>(ours) == static_cast<std::uint64_t>(theirs);
}
#define MILLSTREAM_NUMBER(ours, theirs) static_assert(equal(abi::ours, theirs))

MILLSTREAM_NUMBER(result::success, CUDA_SUCCESS);
MILLSTREAM_NUMBER(result::invalid_value, CUDA_ERROR_INVALID_VALUE);
MILLSTREAM_NUMBER(result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
MILLSTREAM_NUMBER(result::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
MILLSTREAM_NUMBER(result::deinitialized, CUDA_ERROR_DEINITIALIZED);
MILLSTREAM_NUMBER(result::stub_library, CUDA_ERROR_STUB_LIBRARY);
MILLSTREAM_NUMBER(result::call_requires_newer_driver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
MILLSTREAM_NUMBER(result::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
MILLSTREAM_NUMBER(result::no_device, CUDA_ERROR_NO_DEVICE);
MILLSTREAM_NUMBER(result::invalid_device, CUDA_ERROR_INVALID_DEVICE);
MILLSTREAM_NUMBER(result::invalid_image, CUDA_ERROR_INVALID_IMAGE);
MILLSTREAM_NUMBER(result::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
MILLSTREAM_NUMBER(result::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
MILLSTREAM_NUMBER(result::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
MILLSTREAM_NUMBER(result::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
MILLSTREAM_NUMBER(result::invalid_ptx, CUDA_ERROR_INVALID_PTX);
MILLSTREAM_NUMBER(result::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
MILLSTREAM_NUMBER(result::jit_compiler_not_found, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
MILLSTREAM_NUMBER(result::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
MILLSTREAM_NUMBER(result::contained, CUDA_ERROR_CONTAINED);
MILLSTREAM_NUMBER(result::shared_object_symbol_not_found,
                  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
MILLSTREAM_NUMBER(result::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
MILLSTREAM_NUMBER(result::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
MILLSTREAM_NUMBER(result::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
MILLSTREAM_NUMBER(result::lossy_query, CUDA_ERROR_LOSSY_QUERY);
MILLSTREAM_NUMBER(result::not_found, CUDA_ERROR_NOT_FOUND);
MILLSTREAM_NUMBER(result::not_ready, CUDA_ERROR_NOT_READY);
MILLSTREAM_NUMBER(result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
MILLSTREAM_NUMBER(result::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
MILLSTREAM_NUMBER(result::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
MILLSTREAM_NUMBER(result::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
MILLSTREAM_NUMBER(result::peer_access_not_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
MILLSTREAM_NUMBER(result::primary_context_active, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
MILLSTREAM_NUMBER(result::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
MILLSTREAM_NUMBER(result::assertion, CUDA_ERROR_ASSERT);
MILLSTREAM_NUMBER(result::too_many_peers, CUDA_ERROR_TOO_MANY_PEERS);
MILLSTREAM_NUMBER(result::host_memory_already_registered,
                  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
MILLSTREAM_NUMBER(result::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
MILLSTREAM_NUMBER(result::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
MILLSTREAM_NUMBER(result::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
MILLSTREAM_NUMBER(result::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
MILLSTREAM_NUMBER(result::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
MILLSTREAM_NUMBER(result::invalid_pc, CUDA_ERROR_INVALID_PC);
MILLSTREAM_NUMBER(result::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
MILLSTREAM_NUMBER(result::cooperative_launch_too_large, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
MILLSTREAM_NUMBER(result::tensor_memory_leak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
MILLSTREAM_NUMBER(result::not_permitted, CUDA_ERROR_NOT_PERMITTED);
MILLSTREAM_NUMBER(result::not_supported, CUDA_ERROR_NOT_SUPPORTED);
MILLSTREAM_NUMBER(result::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
MILLSTREAM_NUMBER(result::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
MILLSTREAM_NUMBER(result::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
MILLSTREAM_NUMBER(result::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
MILLSTREAM_NUMBER(result::stream_capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
MILLSTREAM_NUMBER(result::stream_capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
MILLSTREAM_NUMBER(result::stream_capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
MILLSTREAM_NUMBER(result::stream_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
MILLSTREAM_NUMBER(result::stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
MILLSTREAM_NUMBER(result::captured_event, CUDA_ERROR_CAPTURED_EVENT);
MILLSTREAM_NUMBER(result::stream_capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
MILLSTREAM_NUMBER(result::graph_update_failure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
MILLSTREAM_NUMBER(result::invalid_cluster_size, CUDA_ERROR_INVALID_CLUSTER_SIZE);
MILLSTREAM_NUMBER(result::external_device, CUDA_ERROR_EXTERNAL_DEVICE);
MILLSTREAM_NUMBER(result::invalid_resource_type, CUDA_ERROR_INVALID_RESOURCE_TYPE);
MILLSTREAM_NUMBER(result::invalid_resource_configuration,
                  CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
MILLSTREAM_NUMBER(result::unknown, CUDA_ERROR_UNKNOWN);

MILLSTREAM_NUMBER(device_attribute::max_pitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
MILLSTREAM_NUMBER(device_attribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
MILLSTREAM_NUMBER(device_attribute::compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
MILLSTREAM_NUMBER(device_attribute::async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
MILLSTREAM_NUMBER(device_attribute::unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
MILLSTREAM_NUMBER(device_attribute::compute_capability_major,
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
MILLSTREAM_NUMBER(device_attribute::compute_capability_minor,
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
MILLSTREAM_NUMBER(device_attribute::managed_memory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
MILLSTREAM_NUMBER(device_attribute::concurrent_managed_access,
                  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
MILLSTREAM_NUMBER(device_attribute::host_register_supported,
                  CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
MILLSTREAM_NUMBER(device_attribute::virtual_memory_management_supported,
                  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
MILLSTREAM_NUMBER(device_attribute::memory_pools_supported,
                  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
MILLSTREAM_NUMBER(device_attribute::can_use_64_bit_stream_mem_ops,
                  CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);

MILLSTREAM_NUMBER(pointer_attribute::owner_context, CU_POINTER_ATTRIBUTE_CONTEXT);
MILLSTREAM_NUMBER(pointer_attribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
MILLSTREAM_NUMBER(pointer_attribute::seen_by_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
MILLSTREAM_NUMBER(pointer_attribute::seen_by_host, CU_POINTER_ATTRIBUTE_HOST_POINTER);
MILLSTREAM_NUMBER(pointer_attribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
MILLSTREAM_NUMBER(pointer_attribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
MILLSTREAM_NUMBER(pointer_attribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
MILLSTREAM_NUMBER(pointer_attribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);

MILLSTREAM_NUMBER(memory_type::on_host, CU_MEMORYTYPE_HOST);
MILLSTREAM_NUMBER(memory_type::on_device, CU_MEMORYTYPE_DEVICE);
MILLSTREAM_NUMBER(memory_type::in_array, CU_MEMORYTYPE_ARRAY);
MILLSTREAM_NUMBER(memory_type::unified, CU_MEMORYTYPE_UNIFIED);

MILLSTREAM_NUMBER(proc_address_flags::legacy_stream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

MILLSTREAM_NUMBER(proc_address_answer::found, CU_GET_PROC_ADDRESS_SUCCESS);
MILLSTREAM_NUMBER(proc_address_answer::not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
MILLSTREAM_NUMBER(proc_address_answer::version_too_low, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

MILLSTREAM_NUMBER(stream_flags::default_stream, CU_STREAM_DEFAULT);
MILLSTREAM_NUMBER(stream_flags::non_blocking, CU_STREAM_NON_BLOCKING);

MILLSTREAM_NUMBER(event_flags::blocking_sync, CU_EVENT_BLOCKING_SYNC);
MILLSTREAM_NUMBER(event_flags::disable_timing, CU_EVENT_DISABLE_TIMING);

MILLSTREAM_NUMBER(event_record_flags::none, CU_EVENT_RECORD_DEFAULT);
MILLSTREAM_NUMBER(event_record_flags::external, CU_EVENT_RECORD_EXTERNAL);

MILLSTREAM_NUMBER(event_wait_flags::none, CU_EVENT_WAIT_DEFAULT);
MILLSTREAM_NUMBER(event_wait_flags::external, CU_EVENT_WAIT_EXTERNAL);

MILLSTREAM_NUMBER(host_alloc_flags::portable, CU_MEMHOSTALLOC_PORTABLE);
MILLSTREAM_NUMBER(host_alloc_flags::device_map, CU_MEMHOSTALLOC_DEVICEMAP);

MILLSTREAM_NUMBER(host_register_flags::portable, CU_MEMHOSTREGISTER_PORTABLE);
MILLSTREAM_NUMBER(host_register_flags::device_map, CU_MEMHOSTREGISTER_DEVICEMAP);
MILLSTREAM_NUMBER(host_register_flags::read_only, CU_MEMHOSTREGISTER_READ_ONLY);

MILLSTREAM_NUMBER(attach_flags::global, CU_MEM_ATTACH_GLOBAL);

MILLSTREAM_NUMBER(wait_value_flags::greater_or_equal, CU_STREAM_WAIT_VALUE_GEQ);
MILLSTREAM_NUMBER(wait_value_flags::equal, CU_STREAM_WAIT_VALUE_EQ);

MILLSTREAM_NUMBER(write_value_flags::none, CU_STREAM_WRITE_VALUE_DEFAULT);

MILLSTREAM_NUMBER(capture_mode::global, CU_STREAM_CAPTURE_MODE_GLOBAL);
MILLSTREAM_NUMBER(capture_mode::thread_local_mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
MILLSTREAM_NUMBER(capture_mode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);

MILLSTREAM_NUMBER(capture_status::none, CU_STREAM_CAPTURE_STATUS_NONE);
MILLSTREAM_NUMBER(capture_status::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
MILLSTREAM_NUMBER(capture_status::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);

MILLSTREAM_NUMBER(jit_option::info_log_buffer, CU_JIT_INFO_LOG_BUFFER);
MILLSTREAM_NUMBER(jit_option::info_log_buffer_bytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
MILLSTREAM_NUMBER(jit_option::error_log_buffer, CU_JIT_ERROR_LOG_BUFFER);
MILLSTREAM_NUMBER(jit_option::error_log_buffer_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

MILLSTREAM_NUMBER(capture_dependencies_flags::add, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
MILLSTREAM_NUMBER(capture_dependencies_flags::set, CU_STREAM_SET_CAPTURE_DEPENDENCIES);

MILLSTREAM_NUMBER(node_type::launch, CU_GRAPH_NODE_TYPE_KERNEL);
MILLSTREAM_NUMBER(node_type::copy, CU_GRAPH_NODE_TYPE_MEMCPY);
MILLSTREAM_NUMBER(node_type::fill, CU_GRAPH_NODE_TYPE_MEMSET);
MILLSTREAM_NUMBER(node_type::host, CU_GRAPH_NODE_TYPE_HOST);
MILLSTREAM_NUMBER(node_type::child, CU_GRAPH_NODE_TYPE_GRAPH);
MILLSTREAM_NUMBER(node_type::empty, CU_GRAPH_NODE_TYPE_EMPTY);
MILLSTREAM_NUMBER(node_type::wait_event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
MILLSTREAM_NUMBER(node_type::record_event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
MILLSTREAM_NUMBER(node_type::memory_allocation, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
MILLSTREAM_NUMBER(node_type::memory_free, CU_GRAPH_NODE_TYPE_MEM_FREE);
MILLSTREAM_NUMBER(node_type::memory_words, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
MILLSTREAM_NUMBER(node_type::conditional, CU_GRAPH_NODE_TYPE_CONDITIONAL);

MILLSTREAM_NUMBER(graph_update_result::success, CU_GRAPH_EXEC_UPDATE_SUCCESS);
MILLSTREAM_NUMBER(graph_update_result::error, CU_GRAPH_EXEC_UPDATE_ERROR);
MILLSTREAM_NUMBER(graph_update_result::topology_changed,
                  CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
MILLSTREAM_NUMBER(graph_update_result::node_type_changed,
                  CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
MILLSTREAM_NUMBER(graph_update_result::function_changed,
                  CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED);
MILLSTREAM_NUMBER(graph_update_result::parameters_changed,
                  CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
MILLSTREAM_NUMBER(graph_update_result::not_supported, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
MILLSTREAM_NUMBER(graph_update_result::unsupported_function_change,
                  CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
MILLSTREAM_NUMBER(graph_update_result::attributes_changed,
                  CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);

MILLSTREAM_NUMBER(graph_instantiate_result::success, CUDA_GRAPH_INSTANTIATE_SUCCESS);
MILLSTREAM_NUMBER(graph_instantiate_result::error, CUDA_GRAPH_INSTANTIATE_ERROR);
MILLSTREAM_NUMBER(graph_instantiate_result::invalid_structure,
                  CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
MILLSTREAM_NUMBER(graph_instantiate_result::node_operation_not_supported,
                  CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
MILLSTREAM_NUMBER(graph_instantiate_result::multiple_contexts_not_supported,
                  CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED);

MILLSTREAM_NUMBER(launch_attribute_id::ignored, CU_LAUNCH_ATTRIBUTE_IGNORE);
MILLSTREAM_NUMBER(launch_attribute_id::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
MILLSTREAM_NUMBER(launch_attribute_id::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
MILLSTREAM_NUMBER(launch_attribute_id::programmatic_stream_serialization,
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

MILLSTREAM_NUMBER(function_attribute::max_threads_per_block,
                  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
MILLSTREAM_NUMBER(function_attribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
MILLSTREAM_NUMBER(function_attribute::max_dynamic_shared_bytes,
                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

MILLSTREAM_NUMBER(graph_memory_attribute::used_now, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
MILLSTREAM_NUMBER(graph_memory_attribute::used_high, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
MILLSTREAM_NUMBER(graph_memory_attribute::reserved_now, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
MILLSTREAM_NUMBER(graph_memory_attribute::reserved_high, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
MILLSTREAM_NUMBER(pool_attribute::reuse_follow_event_dependencies,
                  CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
MILLSTREAM_NUMBER(pool_attribute::reuse_allow_opportunistic,
                  CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
MILLSTREAM_NUMBER(pool_attribute::reuse_allow_internal_dependencies,
                  CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
MILLSTREAM_NUMBER(pool_attribute::release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
MILLSTREAM_NUMBER(pool_attribute::reserved_bytes_now, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
MILLSTREAM_NUMBER(pool_attribute::used_bytes_now, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

MILLSTREAM_NUMBER(allocation_type::pinned, CU_MEM_ALLOCATION_TYPE_PINNED);

MILLSTREAM_NUMBER(allocation_handle_type::none, CU_MEM_HANDLE_TYPE_NONE);

MILLSTREAM_NUMBER(location_type::at_device, CU_MEM_LOCATION_TYPE_DEVICE);
MILLSTREAM_NUMBER(location_type::at_host, CU_MEM_LOCATION_TYPE_HOST);
MILLSTREAM_NUMBER(location_type::at_host_numa, CU_MEM_LOCATION_TYPE_HOST_NUMA);

MILLSTREAM_NUMBER(access_flags::none, CU_MEM_ACCESS_FLAGS_PROT_NONE);
MILLSTREAM_NUMBER(access_flags::read, CU_MEM_ACCESS_FLAGS_PROT_READ);
MILLSTREAM_NUMBER(access_flags::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

MILLSTREAM_NUMBER(granularity::minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
MILLSTREAM_NUMBER(granularity::recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

MILLSTREAM_NUMBER(resource_type::invalid, CU_DEV_RESOURCE_TYPE_INVALID);
MILLSTREAM_NUMBER(resource_type::multiprocessors, CU_DEV_RESOURCE_TYPE_SM);

MILLSTREAM_NUMBER(green_context_flags::default_stream, CU_GREEN_CTX_DEFAULT_STREAM);

}  // namespace
