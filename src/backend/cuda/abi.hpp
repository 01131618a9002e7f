// SPDX-License-Identifier: Apache-2.0
/// Our own declarations of the few types of the CUDA driver's binary interface that `driver.inc`
/// speaks of. Layouts and numbers are facts of that interface; `tests/abi` compares each of them
/// with the vendor's header where one is installed. Nothing here needs such a header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millstream::backend::cuda::abi {

// Enumerations are listed as far as they are used; a driver may answer other values.

enum class result : std::uint32_t {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  call_requires_newer_driver = 36,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  peer_access_unsupported = 217,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  contained = 226,
  shared_object_symbol_not_found = 302,
  operating_system = 304,
  invalid_handle = 400,
  illegal_state = 401,
  lossy_query = 402,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  primary_context_active = 708,
  context_is_destroyed = 709,
  assertion = 710,
  too_many_peers = 711,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  cooperative_launch_too_large = 720,
  tensor_memory_leak = 721,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_merge = 902,
  stream_capture_unmatched = 903,
  stream_capture_unjoined = 904,
  stream_capture_isolation = 905,
  stream_capture_implicit = 906,
  captured_event = 907,
  stream_capture_wrong_thread = 908,
  graph_update_failure = 910,
  external_device = 911,
  invalid_cluster_size = 912,
  invalid_resource_type = 914,
  invalid_resource_configuration = 915,
  unknown = 999,
};

/// An ordinal, 0 .. count-1.
using device = int;
/// An address in the unified address space.
using device_pointer = std::uint64_t;
using allocation_handle = std::uint64_t;

using context = struct context_object*;
using stream = struct stream_object*;
using event = struct event_object*;
using module = struct module_object*;
using function = struct function_object*;
using library = struct library_object*;
using kernel = struct kernel_object*;
using graph = struct graph_object*;
using graph_node = struct graph_node_object*;
using executable_graph = struct executable_graph_object*;
using user_object = struct user_object_object*;
using memory_pool = struct memory_pool_object*;
using array = struct array_object*;
using green_context = struct green_context_object*;
using resource_descriptor = struct resource_descriptor_object*;

enum class device_attribute : std::uint32_t {
  max_threads_per_block = 1,
  max_block_x = 2,
  max_block_y = 3,
  max_block_z = 4,
  max_grid_x = 5,
  max_grid_y = 6,
  max_grid_z = 7,
  max_shared_bytes = 8,
  max_pitch = 11,
  multiprocessor_count = 16,
  compute_mode = 20,
  async_engine_count = 40,
  unified_addressing = 41,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  managed_memory = 83,
  concurrent_managed_access = 89,
  max_shared_bytes_optin = 97,
  host_register_supported = 99,
  virtual_memory_management_supported = 102,
  memory_pools_supported = 115,
  can_use_64_bit_stream_mem_ops = 122,
};

enum class pointer_attribute : std::uint32_t {
  owner_context = 1,
  memory_type = 2,
  seen_by_device = 3,
  seen_by_host = 4,
  is_managed = 8,
  device_ordinal = 9,
  range_start = 11,
  range_size = 12,
};

enum class memory_type : std::uint32_t {
  unset = 0,
  on_host = 1,
  on_device = 2,
  in_array = 3,
  unified = 4
};

enum class proc_address_flags : std::uint64_t { legacy_stream = 1 };
enum class proc_address_answer : std::uint32_t { found = 0, not_found = 1, version_too_low = 2 };

enum class context_flags : std::uint32_t { schedule_auto = 0 };
enum class stream_flags : std::uint32_t { default_stream = 0, non_blocking = 1 };
enum class event_flags : std::uint32_t { blocking_sync = 1, disable_timing = 2 };
enum class event_record_flags : std::uint32_t { none = 0, external = 1 };
enum class event_wait_flags : std::uint32_t { none = 0, external = 1 };
enum class host_alloc_flags : std::uint32_t { portable = 1, device_map = 2 };
enum class host_register_flags : std::uint32_t { portable = 1, device_map = 2, read_only = 8 };
enum class attach_flags : std::uint32_t { global = 1 };
enum class wait_value_flags : std::uint32_t { greater_or_equal = 0, equal = 1 };
enum class write_value_flags : std::uint32_t { none = 0 };

enum class capture_mode : std::uint32_t { global = 0, thread_local_mode = 1, relaxed = 2 };
enum class capture_status : std::uint32_t { none = 0, active = 1, invalidated = 2 };

enum class capture_dependencies_flags : std::uint32_t { add = 0, set = 1 };

enum class node_type : std::uint32_t {
  launch = 0,
  copy = 1,
  fill = 2,
  host = 3,
  child = 4,
  empty = 5,
  wait_event = 6,
  record_event = 7,
  memory_allocation = 10,
  memory_free = 11,
  memory_words = 12,
  conditional = 13,
};
enum class graph_update_result : std::uint32_t {
  success = 0,
  error = 1,
  topology_changed = 2,
  node_type_changed = 3,
  function_changed = 4,
  parameters_changed = 5,
  not_supported = 6,
  unsupported_function_change = 7,
  attributes_changed = 8,
};
enum class graph_instantiate_result : std::uint32_t {
  success = 0,
  error = 1,
  invalid_structure = 2,
  node_operation_not_supported = 3,
  multiple_contexts_not_supported = 4,
};

enum class jit_option : std::uint32_t {
  info_log_buffer = 3,
  info_log_buffer_bytes = 4,
  error_log_buffer = 5,
  error_log_buffer_bytes = 6,
};
/// Keys of the `extra` list of a launch: a packed argument block and the address of its size.
inline void* const launch_end = nullptr;
enum class launch_key : std::uintptr_t { buffer_pointer = 1, buffer_bytes = 2 };

enum class function_attribute : std::uint32_t {
  max_threads_per_block = 0,
  shared_bytes = 1,
  max_dynamic_shared_bytes = 8,
};

enum class pool_attribute : std::uint32_t {
  reuse_follow_event_dependencies = 1,
  reuse_allow_opportunistic = 2,
  reuse_allow_internal_dependencies = 3,
  release_threshold = 4,
  reserved_bytes_now = 5,
  used_bytes_now = 7,
};
enum class graph_memory_attribute : std::uint32_t {
  used_now = 0,
  used_high = 1,
  reserved_now = 2,
  reserved_high = 3,
};
enum class allocation_type : std::uint32_t { unset = 0, pinned = 1 };
enum class allocation_handle_type : std::uint32_t { none = 0 };
enum class location_type : std::uint32_t {
  unset = 0,
  at_device = 1,
  at_host = 2,
  at_host_numa = 3
};
enum class access_flags : std::uint32_t { none = 0, read = 1, read_write = 3 };
enum class granularity : std::uint32_t { minimum = 0, recommended = 1 };

enum class resource_type : std::uint32_t { invalid = 0, multiprocessors = 1 };
enum class green_context_flags : std::uint32_t { default_stream = 1 };

/// Nobody can wait for the end of the object.
enum class user_object_flags : std::uint32_t { no_destructor_sync = 1 };
/// The graph takes over the caller's references.
enum class retain_user_object_flags : std::uint32_t { move = 1 };

/// The functions that a driver calls back.
using host_function = void (*)(void* data);

struct uuid {
  unsigned char bytes[16];
};

struct copy_2d {
  std::size_t from_x_bytes;
  std::size_t from_y;
  memory_type from_type;
  const void* from_host;
  device_pointer from_device;
  array from_array;
  std::size_t from_pitch;
  std::size_t to_x_bytes;
  std::size_t to_y;
  memory_type to_type;
  void* to_host;
  device_pointer to_device;
  array to_array;
  std::size_t to_pitch;
  std::size_t width_bytes;
  std::size_t height;
};

struct copy_3d {
  std::size_t from_x_bytes;
  std::size_t from_y;
  std::size_t from_z;
  std::size_t from_level;
  memory_type from_type;
  const void* from_host;
  device_pointer from_device;
  array from_array;
  void* reserved_0;
  std::size_t from_pitch;
  std::size_t from_height;
  std::size_t to_x_bytes;
  std::size_t to_y;
  std::size_t to_z;
  std::size_t to_level;
  memory_type to_type;
  void* to_host;
  device_pointer to_device;
  array to_array;
  void* reserved_1;
  std::size_t to_pitch;
  std::size_t to_height;
  std::size_t width_bytes;
  std::size_t height;
  std::size_t depth;
};

struct copy_3d_peer {
  std::size_t from_x_bytes;
  std::size_t from_y;
  std::size_t from_z;
  std::size_t from_level;
  memory_type from_type;
  const void* from_host;
  device_pointer from_device;
  array from_array;
  context from_context;
  std::size_t from_pitch;
  std::size_t from_height;
  std::size_t to_x_bytes;
  std::size_t to_y;
  std::size_t to_z;
  std::size_t to_level;
  memory_type to_type;
  void* to_host;
  device_pointer to_device;
  array to_array;
  context to_context;
  std::size_t to_pitch;
  std::size_t to_height;
  std::size_t width_bytes;
  std::size_t height;
  std::size_t depth;
};

struct memory_location {
  location_type type;
  int id;
};

struct memory_pool_properties {
  allocation_type type;
  allocation_handle_type handle_types;
  memory_location location;
  void* security_attributes;
  std::size_t max_bytes;
  std::uint16_t usage;
  unsigned char reserved[54];
};

struct memory_access {
  memory_location location;
  access_flags flags;
};

struct allocation_properties {
  allocation_type type;
  allocation_handle_type handle_types;
  memory_location location;
  void* handle_data;
  unsigned char compression;
  unsigned char direct_rdma;
  std::uint16_t usage;
  unsigned char reserved[4];
};

enum class launch_attribute_id : std::uint32_t {
  ignored = 0,
  cooperative = 2,                        ///< value: one int
  cluster_dimension = 4,                  ///< value: three numbers of 32 bits
  programmatic_stream_serialization = 6,  ///< value: one int; of launches, not of graph nodes
};

struct launch_attribute_value {
  alignas(8) unsigned char bytes[64];
};

struct launch_attribute {
  launch_attribute_id id;
  unsigned char padding[4];
  launch_attribute_value value;
};

struct launch_config {
  std::uint32_t grid_x;
  std::uint32_t grid_y;
  std::uint32_t grid_z;
  std::uint32_t block_x;
  std::uint32_t block_y;
  std::uint32_t block_z;
  std::uint32_t shared_bytes;
  stream on;
  launch_attribute* attributes;
  std::uint32_t attribute_count;
};

/// Where an edge leaves a kernel: at its end, or when all its blocks have allowed it.
enum class edge_port : unsigned char {
  end = 0,
  programmatic = 1,
};
enum class edge_type : unsigned char {
  ordinary = 0,
  programmatic = 1,  ///< between kernels only
};
struct graph_edge {
  edge_port from_port;
  unsigned char to_port;
  edge_type type;
  unsigned char reserved[5];
};

struct kernel_node {
  function entry;
  std::uint32_t grid_x;
  std::uint32_t grid_y;
  std::uint32_t grid_z;
  std::uint32_t block_x;
  std::uint32_t block_y;
  std::uint32_t block_z;
  std::uint32_t shared_bytes;
  void** parameters;
  void** extra;
  kernel of_library;  ///< looked at where there is no entry
  context in;         ///< likewise
};

struct fill_node {
  device_pointer to;
  std::size_t pitch;
  std::uint32_t value;
  std::uint32_t element_bytes;
  std::size_t width;  ///< in elements
  std::size_t height;
};

struct host_node {
  host_function call;
  void* data;
};

/// What becomes of a graph that is added to another one.
enum class child_ownership : std::uint32_t {
  copied = 0,
  moved = 1,  // since 12.9
};
struct child_node {
  graph child;
  child_ownership ownership;
};
/// Parameters of a node of any kind, of which we use two.
struct any_node {
  node_type type;
  std::uint32_t reserved[3];
  union {
    std::uint64_t words[30];  // the first, so that `{}` clears all
    kernel_node launch;
    child_node nested;
  };
};

struct graph_update_info {
  graph_update_result result;
  graph_node node;
  graph_node from;
};

struct graph_instantiate_parameters {
  std::uint64_t flags;
  stream upload_on;
  graph_node error_node;
  graph_instantiate_result result;
};

struct multiprocessor_resource {
  std::uint32_t count;
  std::uint32_t smallest_part;  ///< filled in since driver 13.0, else anything
  std::uint32_t alignment;      ///< likewise
};

struct device_resource {
  resource_type type;
  unsigned char internal_padding[92];
  union {
    multiprocessor_resource multiprocessors;
    unsigned char external_bytes[48];
  };
};

/// `cuGetProcAddress_v2`, the one name that is looked up in the library itself; everything else is
/// asked for through it.
using get_proc_address = result (*)(const char* name, void** address, int version,
                                    proc_address_flags flags, proc_address_answer* answer);
inline constexpr const char* get_proc_address_name = "cuGetProcAddress_v2";

}  // namespace millstream::backend::cuda::abi
