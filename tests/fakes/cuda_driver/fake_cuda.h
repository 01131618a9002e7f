/* SPDX-License-Identifier: Apache-2.0 */
/* How tests steer the look-alike driver. Look the functions up in the library by name (dlsym,
 * ctypes), in the same file that the program under test opened. Any thread may call any of them at
 * any time, except `fake_cuda_reset`. README.md says what the driver does and which environment
 * variables set the same things. */
#ifndef MILLSTREAM_TESTS_FAKE_CUDA_H
#define MILLSTREAM_TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets everything (objects, memory, queued work, log, counts, faults) and reads the environment
 * again. Nobody may be inside a driver call or hold anything of the driver; a host function that
 * runs is waited for. */
void fake_cuda_reset(void);

/* --- order of execution --- */
void fake_cuda_seed(uint64_t seed);      /* 0 = round robin */
size_t fake_cuda_step(size_t limit);     /* runs up to `limit` operations; how many did run */
size_t fake_cuda_pending(void);          /* queued and not executed */
uint64_t fake_cuda_executed(void);       /* executed since the reset */
void fake_cuda_background(int on);       /* 0: the driver's thread runs host functions and nothing
                                            else; see README.md */
void fake_cuda_park_limit(size_t limit); /* 0 = none */
uint64_t fake_cuda_stalls(void);         /* how often the limit held work up */

/* --- what was called --- */
struct fake_cuda_call {
  const char* name;
  int result;
  int thread;            /* 0, 1, ... in the order in which threads made their first call */
  int arguments;         /* how many of the next are meaningful */
  uint64_t argument[12]; /* as words; of created objects the handle, not where it was stored */
};
void fake_cuda_log(int on); /* off at first; turning it on empties it */
size_t fake_cuda_log_size(void);
int fake_cuda_log_entry(size_t index, struct fake_cuda_call* entry); /* 0 = no such entry */
uint64_t fake_cuda_count(const char* name); /* calls of one entry point; NULL: all calls */
void fake_cuda_clear_counts(void);
/* Of the last launch or kernel node: bit n for the launch attribute with the number n. */
uint64_t fake_cuda_launch_attributes(void);

/* --- faults --- */
/* The nth call from now (1 = the next one) of `name` (NULL: of any entry point that does something)
 * answers `result` and has no other effect. `sticky`: from then on, the caller's current context
 * answers it to every call. Several may be planned. nth = 0 forgets all plans. */
void fake_cuda_fail(const char* name, uint64_t nth, int result, int sticky);
uint64_t fake_cuda_faults_fired(void);
/* Copies the text of the last fault of executed work; its length without the final zero. */
size_t fake_cuda_last_fault(char* text, size_t bytes);

/* --- what the driver is --- */
void fake_cuda_pose(int version);                   /* 12020 = "12.2" */
void fake_cuda_hide(const char* name, int hidden);  /* NULL: show everything again */
void fake_cuda_devices(int count);                  /* before cuInit, or for the next count */
void fake_cuda_fail_init(int result);               /* 0 = cuInit works */
void fake_cuda_device_memory(size_t bytes);         /* of each device */
void fake_cuda_peers(int on);                       /* 0 = no device can reach another */
void fake_cuda_refuse_node(int type);               /* no graph with a node of this type (the
                                                       driver's number) is instantiated with
                                                       parameters; -1 = none */
void fake_cuda_attribute(int attribute, int value); /* cuDeviceGetAttribute, all devices */

/* --- leaks --- */
/* Objects alive. Kinds: context (made or retained), stream, event, device_memory, host_memory,
 * managed_memory, registration, pool, range, physical, module, library, graph, executable_graph,
 * green_context. NULL: their sum. -1: no such kind. Default pools do not count. */
int64_t fake_cuda_live(const char* kind);
/* Objects that ended only because their context did. */
uint64_t fake_cuda_abandoned(void);
uint64_t fake_cuda_used_bytes(int device);

#ifdef __cplusplus
}
#endif

#endif
