// SPDX-License-Identifier: Apache-2.0
// The names a program finds in the library itself. The product asks for everything through
// `cuGetProcAddress_v2`; the others are for small programs (ctypes, dlsym) of tests, under the
// names that the driver's library has for them.
#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/proc.hpp"

#define FAKE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))
#define FAKE_CUDA_RUN(name) entry<row::name, &served::name>::run

namespace fake_cuda {

FAKE_CUDA_EXPORT result cuGetProcAddress_v2(const char* name, void** address, int version,
                                            proc_address_flags /*flags*/,
                                            proc_address_answer* answer) {
  return answer_proc_address(name, address, version, answer);
}

FAKE_CUDA_EXPORT result cuInit(std::uint32_t flags) {
  return FAKE_CUDA_RUN(cuInit)(flags);
}

FAKE_CUDA_EXPORT result cuDriverGetVersion(int* version) {
  return FAKE_CUDA_RUN(cuDriverGetVersion)(version);
}

FAKE_CUDA_EXPORT result cuGetErrorName(result error, const char** name) {
  return FAKE_CUDA_RUN(cuGetErrorName)(error, name);
}

FAKE_CUDA_EXPORT result cuGetErrorString(result error, const char** text) {
  return FAKE_CUDA_RUN(cuGetErrorString)(error, text);
}

FAKE_CUDA_EXPORT result cuDeviceGetCount(int* count) {
  return FAKE_CUDA_RUN(cuDeviceGetCount)(count);
}

FAKE_CUDA_EXPORT result cuDeviceGet(device* ordinal, int index) {
  return FAKE_CUDA_RUN(cuDeviceGet)(ordinal, index);
}

FAKE_CUDA_EXPORT result cuDeviceGetAttribute(int* value, device_attribute what, device of) {
  return FAKE_CUDA_RUN(cuDeviceGetAttribute)(value, what, of);
}

FAKE_CUDA_EXPORT result cuDevicePrimaryCtxRetain(context* primary, device of) {
  return FAKE_CUDA_RUN(cuDevicePrimaryCtxRetain)(primary, of);
}

FAKE_CUDA_EXPORT result cuDevicePrimaryCtxRelease_v2(device of) {
  return FAKE_CUDA_RUN(cuDevicePrimaryCtxRelease)(of);
}

FAKE_CUDA_EXPORT result cuCtxGetCurrent(context* now) {
  return FAKE_CUDA_RUN(cuCtxGetCurrent)(now);
}

FAKE_CUDA_EXPORT result cuCtxSetCurrent(context next) {
  return FAKE_CUDA_RUN(cuCtxSetCurrent)(next);
}

FAKE_CUDA_EXPORT result cuCtxPushCurrent_v2(context next) {
  return FAKE_CUDA_RUN(cuCtxPushCurrent)(next);
}

FAKE_CUDA_EXPORT result cuCtxPopCurrent_v2(context* popped) {
  return FAKE_CUDA_RUN(cuCtxPopCurrent)(popped);
}

FAKE_CUDA_EXPORT result cuCtxGetDevice(device* ordinal) {
  return FAKE_CUDA_RUN(cuCtxGetDevice)(ordinal);
}

FAKE_CUDA_EXPORT result cuCtxCreate_v2(context* made, std::uint32_t flags, device on) {
  return FAKE_CUDA_RUN(cuCtxCreate)(made, flags, on);
}

FAKE_CUDA_EXPORT result cuCtxDestroy_v2(context gone) {
  return FAKE_CUDA_RUN(cuCtxDestroy)(gone);
}

FAKE_CUDA_EXPORT result cuCtxSynchronize() {
  return FAKE_CUDA_RUN(cuCtxSynchronize)();
}

FAKE_CUDA_EXPORT result cuStreamCreate(stream* made, stream_flags flags) {
  return FAKE_CUDA_RUN(cuStreamCreate)(made, flags);
}

FAKE_CUDA_EXPORT result cuStreamDestroy_v2(stream gone) {
  return FAKE_CUDA_RUN(cuStreamDestroy)(gone);
}

FAKE_CUDA_EXPORT result cuStreamQuery(stream of) {
  return FAKE_CUDA_RUN(cuStreamQuery)(of);
}

FAKE_CUDA_EXPORT result cuStreamSynchronize(stream of) {
  return FAKE_CUDA_RUN(cuStreamSynchronize)(of);
}

FAKE_CUDA_EXPORT result cuStreamWaitEvent(stream on, event mark, event_wait_flags flags) {
  return FAKE_CUDA_RUN(cuStreamWaitEvent)(on, mark, flags);
}

FAKE_CUDA_EXPORT result cuLaunchHostFunc(stream on, host_function call, void* data) {
  return FAKE_CUDA_RUN(cuLaunchHostFunc)(on, call, data);
}

FAKE_CUDA_EXPORT result cuStreamBeginCapture_v2(stream on, capture_mode mode) {
  return FAKE_CUDA_RUN(cuStreamBeginCapture)(on, mode);
}

FAKE_CUDA_EXPORT result cuStreamEndCapture(stream on, graph* captured) {
  return FAKE_CUDA_RUN(cuStreamEndCapture)(on, captured);
}

FAKE_CUDA_EXPORT result cuStreamIsCapturing(stream of, capture_status* now) {
  return FAKE_CUDA_RUN(cuStreamIsCapturing)(of, now);
}

FAKE_CUDA_EXPORT result cuEventCreate(event* made, event_flags flags) {
  return FAKE_CUDA_RUN(cuEventCreate)(made, flags);
}

FAKE_CUDA_EXPORT result cuEventDestroy_v2(event gone) {
  return FAKE_CUDA_RUN(cuEventDestroy)(gone);
}

FAKE_CUDA_EXPORT result cuEventRecord(event mark, stream on) {
  return FAKE_CUDA_RUN(cuEventRecord)(mark, on);
}

FAKE_CUDA_EXPORT result cuEventQuery(event of) {
  return FAKE_CUDA_RUN(cuEventQuery)(of);
}

FAKE_CUDA_EXPORT result cuEventSynchronize(event of) {
  return FAKE_CUDA_RUN(cuEventSynchronize)(of);
}

FAKE_CUDA_EXPORT result cuMemAlloc_v2(device_pointer* block, std::size_t bytes) {
  return FAKE_CUDA_RUN(cuMemAlloc)(block, bytes);
}

FAKE_CUDA_EXPORT result cuMemFree_v2(device_pointer block) {
  return FAKE_CUDA_RUN(cuMemFree)(block);
}

FAKE_CUDA_EXPORT result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return FAKE_CUDA_RUN(cuMemGetInfo)(free, total);
}

FAKE_CUDA_EXPORT result cuMemAllocAsync(device_pointer* block, std::size_t bytes, stream on) {
  return FAKE_CUDA_RUN(cuMemAllocAsync)(block, bytes, on);
}

FAKE_CUDA_EXPORT result cuMemFreeAsync(device_pointer block, stream on) {
  return FAKE_CUDA_RUN(cuMemFreeAsync)(block, on);
}

FAKE_CUDA_EXPORT result cuMemHostAlloc(void** block, std::size_t bytes, host_alloc_flags flags) {
  return FAKE_CUDA_RUN(cuMemHostAlloc)(block, bytes, flags);
}

FAKE_CUDA_EXPORT result cuMemFreeHost(void* block) {
  return FAKE_CUDA_RUN(cuMemFreeHost)(block);
}

FAKE_CUDA_EXPORT result cuMemAllocManaged(device_pointer* block, std::size_t bytes,
                                          attach_flags flags) {
  return FAKE_CUDA_RUN(cuMemAllocManaged)(block, bytes, flags);
}

FAKE_CUDA_EXPORT result cuPointerGetAttribute(void* value, pointer_attribute what,
                                              device_pointer of) {
  return FAKE_CUDA_RUN(cuPointerGetAttribute)(value, what, of);
}

FAKE_CUDA_EXPORT result cuMemcpy(device_pointer to, device_pointer from, std::size_t bytes) {
  return FAKE_CUDA_RUN(cuMemcpy)(to, from, bytes);
}

FAKE_CUDA_EXPORT result cuMemcpyAsync(device_pointer to, device_pointer from, std::size_t bytes,
                                      stream on) {
  return FAKE_CUDA_RUN(cuMemcpyAsync)(to, from, bytes, on);
}

FAKE_CUDA_EXPORT result cuMemcpyHtoD_v2(device_pointer to, const void* from, std::size_t bytes) {
  return FAKE_CUDA_RUN(cuMemcpyHtoD)(to, from, bytes);
}

FAKE_CUDA_EXPORT result cuMemcpyDtoH_v2(void* to, device_pointer from, std::size_t bytes) {
  return FAKE_CUDA_RUN(cuMemcpyDtoH)(to, from, bytes);
}

FAKE_CUDA_EXPORT result cuMemcpyDtoD_v2(device_pointer to, device_pointer from, std::size_t bytes) {
  return FAKE_CUDA_RUN(cuMemcpyDtoD)(to, from, bytes);
}

FAKE_CUDA_EXPORT result cuMemcpyHtoDAsync_v2(device_pointer to, const void* from, std::size_t bytes,
                                             stream on) {
  return FAKE_CUDA_RUN(cuMemcpyHtoDAsync)(to, from, bytes, on);
}

FAKE_CUDA_EXPORT result cuMemcpyDtoHAsync_v2(void* to, device_pointer from, std::size_t bytes,
                                             stream on) {
  return FAKE_CUDA_RUN(cuMemcpyDtoHAsync)(to, from, bytes, on);
}

FAKE_CUDA_EXPORT result cuMemcpyDtoDAsync_v2(device_pointer to, device_pointer from,
                                             std::size_t bytes, stream on) {
  return FAKE_CUDA_RUN(cuMemcpyDtoDAsync)(to, from, bytes, on);
}

FAKE_CUDA_EXPORT result cuMemsetD8_v2(device_pointer to, unsigned char value, std::size_t count) {
  return FAKE_CUDA_RUN(cuMemsetD8)(to, value, count);
}

FAKE_CUDA_EXPORT result cuMemsetD32_v2(device_pointer to, std::uint32_t value, std::size_t count) {
  return FAKE_CUDA_RUN(cuMemsetD32)(to, value, count);
}

FAKE_CUDA_EXPORT result cuMemsetD8Async(device_pointer to, unsigned char value, std::size_t count,
                                        stream on) {
  return FAKE_CUDA_RUN(cuMemsetD8Async)(to, value, count, on);
}

FAKE_CUDA_EXPORT result cuMemsetD32Async(device_pointer to, std::uint32_t value, std::size_t count,
                                         stream on) {
  return FAKE_CUDA_RUN(cuMemsetD32Async)(to, value, count, on);
}

FAKE_CUDA_EXPORT result cuModuleLoadData(module* loaded, const void* image) {
  return FAKE_CUDA_RUN(cuModuleLoadData)(loaded, image);
}

FAKE_CUDA_EXPORT result cuModuleUnload(module gone) {
  return FAKE_CUDA_RUN(cuModuleUnload)(gone);
}

FAKE_CUDA_EXPORT result cuModuleGetFunction(function* found, module in, const char* name) {
  return FAKE_CUDA_RUN(cuModuleGetFunction)(found, in, name);
}

FAKE_CUDA_EXPORT result cuLaunchKernel(function what, std::uint32_t grid_x, std::uint32_t grid_y,
                                       std::uint32_t grid_z, std::uint32_t block_x,
                                       std::uint32_t block_y, std::uint32_t block_z,
                                       std::uint32_t shared_bytes, stream on, void** parameters,
                                       void** extra) {
  return FAKE_CUDA_RUN(cuLaunchKernel)(what, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                       shared_bytes, on, parameters, extra);
}

FAKE_CUDA_EXPORT result cuGraphInstantiateWithFlags(executable_graph* made, graph from,
                                                    std::uint64_t flags) {
  return FAKE_CUDA_RUN(cuGraphInstantiateWithFlags)(made, from, flags);
}

FAKE_CUDA_EXPORT result cuDeviceGraphMemTrim(device of) {
  return FAKE_CUDA_RUN(cuDeviceGraphMemTrim)(of);
}

FAKE_CUDA_EXPORT result cuDeviceGetGraphMemAttribute(device of, graph_memory_attribute what,
                                                     void* value) {
  return FAKE_CUDA_RUN(cuDeviceGetGraphMemAttribute)(of, what, value);
}

FAKE_CUDA_EXPORT result cuDeviceSetGraphMemAttribute(device on, graph_memory_attribute what,
                                                     void* value) {
  return FAKE_CUDA_RUN(cuDeviceSetGraphMemAttribute)(on, what, value);
}

FAKE_CUDA_EXPORT result cuGraphLaunch(executable_graph what, stream on) {
  return FAKE_CUDA_RUN(cuGraphLaunch)(what, on);
}

FAKE_CUDA_EXPORT result cuGraphExecDestroy(executable_graph gone) {
  return FAKE_CUDA_RUN(cuGraphExecDestroy)(gone);
}

FAKE_CUDA_EXPORT result cuGraphDestroy(graph gone) {
  return FAKE_CUDA_RUN(cuGraphDestroy)(gone);
}

FAKE_CUDA_EXPORT result cuGraphGetNodes(graph in, graph_node* nodes, std::size_t* count) {
  return FAKE_CUDA_RUN(cuGraphGetNodes)(in, nodes, count);
}

FAKE_CUDA_EXPORT result cuGraphGetEdges(graph in, graph_node* from, graph_node* to,
                                        std::size_t* count) {
  return FAKE_CUDA_RUN(cuGraphGetEdges)(in, from, to, nullptr, count);
}

FAKE_CUDA_EXPORT result cuGraphNodeGetType(graph_node of, node_type* type) {
  return FAKE_CUDA_RUN(cuGraphNodeGetType)(of, type);
}

}  // namespace fake_cuda
