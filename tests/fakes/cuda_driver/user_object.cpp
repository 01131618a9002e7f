// SPDX-License-Identifier: Apache-2.0
// Things that graphs keep.
#include "tests/fakes/cuda_driver/graph.hpp"

namespace fake_cuda {

namespace {

user_object_ptr object_of(call& in, user_object handle) {
  const user_object_ptr found = look_up(in.all.user_objects, handle);
  require(found != nullptr);
  return found;
}

void drop(call& in, const user_object_ptr& what, std::uint32_t references) {
  what->of_makers -= references;
  if (what->of_makers == 0) in.all.user_objects.erase(what->handle);
}

}  // namespace

namespace served {

result cuUserObjectCreate(call& in, user_object* made, void* what, host_function end,
                          std::uint32_t references, user_object_flags flags) {
  require(made != nullptr && end != nullptr && references > 0 &&
          flags == user_object_flags::no_destructor_sync);
  const user_object_ptr object(
      new user_object_state{in.new_handle<user_object>(), end, what, references},
      [all = &in.all](user_object_state* gone) {
        all->thread.run(gone->end, gone->what);
        delete gone;
      });
  in.all.user_objects[object->handle] = object;
  *made = object->handle;
  return result::success;
}

result cuUserObjectRelease(call& in, user_object of, std::uint32_t references) {
  const user_object_ptr found = object_of(in, of);
  require(references > 0 && references <= found->of_makers);
  drop(in, found, references);
  return result::success;
}

/// Allowed while the graph is captured into.
result cuGraphRetainUserObject(call& in, graph by, user_object what, std::uint32_t references,
                               retain_user_object_flags flags) {
  const graph_ptr found = graph_of(in, by);
  const user_object_ptr object = object_of(in, what);
  const bool moves = flags == retain_user_object_flags::move;
  require(references > 0 && (!moves || references <= object->of_makers));
  require(moves || static_cast<std::uint32_t>(flags) == 0);
  found->kept.insert(found->kept.end(), references, object);
  if (moves) drop(in, object, references);
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
