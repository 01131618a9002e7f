// SPDX-License-Identifier: Apache-2.0
/// The engine's interface without types: blocks of bytes, lists of dependencies, erased bodies.
/// The typed C++ API (context.hpp) and the Python package are thin layers over it; programs use
/// those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <millstream/access.hpp>
#include <millstream/error.hpp>
#include <millstream/export.hpp>
#include <millstream/machine.hpp>
#include <millstream/place.hpp>
#include <millstream/trace.hpp>

namespace millstream::core {
class context;
class data;
class given_graph;
class open_task;
class recorder_cache;
struct blocked_thread;
struct notice_positions;
}  // namespace millstream::core

namespace millstream::inline v1 {

struct task_dep;
struct kernel_launch;

/// A value that may have copies on many places, seen as bytes. Handles share the value. The last
/// handle lets it go: write-back to a registered buffer is queued, memory is freed in order, and
/// nothing waits. Any thread may use a handle, also after its context ended: then tasks and waits
/// that name it throw error(usage), and dropping it does nothing.
class MILLSTREAM_API untyped_data {
 public:
  untyped_data() noexcept = default;
  untyped_data(const untyped_data& other) noexcept;
  untyped_data(untyped_data&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  untyped_data& operator=(untyped_data other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~untyped_data() {
    if (state_ != nullptr) let_go();
  }

  /// Dependencies. `write` and `rw` throw error(invalid_value, "... read-only ...") for data
  /// registered read-only. The caller's line is kept for errors.
  [[nodiscard]] task_dep read(data_place place = {},
                              std::source_location at = std::source_location::current()) const;
  [[nodiscard]] task_dep write(data_place place = {},
                               std::source_location at = std::source_location::current()) const;
  [[nodiscard]] task_dep rw(data_place place = {},
                            std::source_location at = std::source_location::current()) const;

  [[nodiscard]] std::size_t bytes() const noexcept;  ///< 0 for a token
  [[nodiscard]] bool is_token() const noexcept;
  [[nodiscard]] bool is_readonly() const noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept;  ///< unique in its context, from 1
  [[nodiscard]] std::string symbol() const;         ///< "" = none
  void set_symbol(std::string_view name) const;
  /// Whether something was, or is going to be, written to it (registered data: always).
  [[nodiscard]] bool is_written() const noexcept;

  explicit operator bool() const noexcept { return state_ != nullptr; }
  friend bool operator==(const untyped_data& a, const untyped_data& b) noexcept {
    return a.state_ == b.state_;
  }
  [[nodiscard]] core::data* state() const noexcept { return state_; }
  /// Takes over one handle count.
  static untyped_data adopt(core::data* state) noexcept {
    untyped_data handle;
    handle.state_ = state;
    return handle;
  }

 private:
  void let_go() noexcept;
  core::data* state_ = nullptr;
};

/// One access of a task to a datum.
struct task_dep {
  untyped_data data;
  access_mode mode = access_mode::none;
  data_place place;
  source_site site;
};

/// What a body gets to work with.
struct body_call {
  std::span<void* const> pointers;  ///< one per dependency as declared; null for tokens
  void* stream = nullptr;           ///< native stream; null on host devices
  std::uint64_t queue = 0;          ///< number of the queue, never zero
  int device = -1;                  ///< device number; -1 = host
};

/// Erased user code. Called at most once, after `keep` any number of times, destroyed exactly once,
/// with none of the library's locks held: later on the queue's thread where the machine runs
/// bodies, else before `submit` returns; in a recorded context on a GPU, when its stage has run
/// and the context is next used, and on a stream that is being captured, with the captured graph.
class MILLSTREAM_API body {
 public:
  body() = default;
  body(const body&) = delete;
  body& operator=(const body&) = delete;
  /// An exception counts as the failure of the task.
  virtual void run(const body_call& call) = 0;
  /// It is in a graph that may be launched often, so nothing of it may be used up.
  virtual void keep() noexcept {}
  /// Destroys the object and gives its memory back.
  virtual void destroy() noexcept = 0;

 protected:
  virtual ~body() = default;
};
struct body_deleter {
  void operator()(body* what) const noexcept { what->destroy(); }
};
using body_ptr = std::unique_ptr<body, body_deleter>;

namespace detail {
/// Small blocks from the library's pool: no heap allocation in steady state.
[[nodiscard]] MILLSTREAM_API void* take_block(std::size_t bytes);
MILLSTREAM_API void give_block(void* block, std::size_t bytes) noexcept;

/// True for a null function pointer and an empty std::function.
template <class Call>
[[nodiscard]] bool is_empty([[maybe_unused]] const Call& call) {
  if constexpr (std::is_constructible_v<Call, std::nullptr_t> && requires { call == nullptr; }) {
    return call == nullptr;
  } else {
    return false;
  }
}
}  // namespace detail

/// Moves `call` (a callable taking `const body_call&`) into a body. An empty function pointer or
/// std::function gives none, which `submit` refuses.
template <class Call>
[[nodiscard]] body_ptr make_body(Call&& call) {
  using stored = std::decay_t<Call>;
  if (detail::is_empty<stored>(call)) return nullptr;
  class holder final : public body {
   public:
    explicit holder(Call&& what) : call_(std::forward<Call>(what)) {}
    void run(const body_call& arguments) override { call_(arguments); }
    void destroy() noexcept override {
      this->~holder();
      detail::give_block(this, sizeof(holder));
    }

   private:
    stored call_;
  };
  static_assert(alignof(holder) <= alignof(std::max_align_t), "over-aligned captures");
  void* block = detail::take_block(sizeof(holder));
  try {
    return body_ptr(new (block) holder(std::forward<Call>(call)));
  } catch (...) {
    detail::give_block(block, sizeof(holder));
    throw;
  }
}

/// What a task is, apart from its body. Views are only read during the call.
struct task_spec {
  task_kind kind = task_kind::task;
  exec_place place;
  std::string_view symbol;
  source_site site;
  std::span<const task_dep> deps;
  /// False: the body, a host function, makes no call of the driver, nor of the library where that
  /// needs it, and waits for no thread that does. In a recorded context on a GPU it then becomes a
  /// node, called on a thread of the driver's, and does not close the stage; elsewhere it changes
  /// nothing. error(invalid_value) for a device.
  bool uses_device = true;
};

/// A task or host function that failed after it had been submitted.
struct failure {
  std::exception_ptr cause;   ///< what the body threw
  std::uint64_t task_id = 0;  ///< rises in submission order
  std::string task;           ///< "task 'name'", or "task 12"
  std::string data;           ///< names of the data it was to write, "'a', 'b'"
  source_site site;
  std::uint64_t skipped = 0;  ///< tasks skipped because of it
  bool captured = false;      ///< its body ran while a device's queue was recorded
};

/// Throws nothing for an empty list; else one error(task_failed) that has the first cause nested
/// (std::rethrow_if_nested) and lists all of them in its text.
MILLSTREAM_API void raise(const std::vector<failure>& failures);

/// Tasks by number, both ends included.
struct task_range {
  std::uint64_t first = 0;
  std::uint64_t last = ~std::uint64_t{0};
};

/// What a notice says.
struct notice_outcome {
  /// Null = all that was asked for has ended, and the content is there. Else error(poisoned) for
  /// content that a failed task was to write, error(unavailable) at the end of the process, or the
  /// error of the device.
  std::exception_ptr why;
  std::uint64_t failed_task = 0;  ///< number of the failed task, if poisoned
  std::uint64_t last_task = 0;    ///< number of the last task submitted before the notice was made
};

/// Somebody who is told once that something has ended; see `untyped_context::notify`.
class MILLSTREAM_API notice {
 public:
  notice() = default;
  notice(const notice&) = delete;
  notice& operator=(const notice&) = delete;
  virtual ~notice() = default;
  /// On the one thread of the process that tells, with none of the library's locks held; others
  /// wait for it, so it should be short. It may use the library, but not wait for a notice.
  virtual void ended(const notice_outcome& how) noexcept = 0;
};

/// What has to end before a notice is told. Any thread.
class MILLSTREAM_API notice_ticket {
 public:
  notice_ticket() = default;
  explicit notice_ticket(std::shared_ptr<const core::notice_positions> positions) noexcept
      : positions_(std::move(positions)) {}

 private:
  friend class notice_wait;
  std::shared_ptr<const core::notice_positions> positions_;
};

/// Lives while its thread blocks, by its own means, until a notice was told. The constructor throws
/// error(deadlock) if that would never be: in a listener, or in a body that has to end first.
class MILLSTREAM_API notice_wait {
 public:
  explicit notice_wait(const notice_ticket& what);
  ~notice_wait();
  notice_wait(const notice_wait&) = delete;
  notice_wait& operator=(const notice_wait&) = delete;

 private:
  std::unique_ptr<core::blocked_thread> state_;
};

/// What an executable graph is, for a policy of what is kept.
struct executable_info {
  std::uint64_t nodes = 0;
  std::size_t bytes = 0;  ///< an estimate of the memory that it keeps
};

/// What contexts share that are given the same one: executable graphs, so that a shape which one of
/// them recorded is no new instantiation in another. Handles share it. Any thread.
class MILLSTREAM_API shared_resources {
 public:
  /// Executables that nobody uses are kept up to that many bytes; the one not used for longest goes
  /// first.
  explicit shared_resources(std::size_t limit_bytes = std::size_t{256} << 20U);
  /// From now on only executables for which `keep` says so are kept; an empty one keeps all. It is
  /// asked of each executable after each of its launches, in the thread whose call launched, when
  /// that call has let go of all locks of the library, and before it returns or throws. So it may
  /// use the library, the context too. Until it has answered the executable is kept, and none goes
  /// for it. What it declines is dropped, and a launch that is on its way goes on. One that throws
  /// has declined (recording_misses::lost), and the log has a warning.
  void set_policy(std::function<bool(const executable_info&)> keep);
  [[nodiscard]] std::size_t executables() const;  ///< kept at the moment
  [[nodiscard]] std::size_t bytes() const;

  [[nodiscard]] const std::shared_ptr<core::recorder_cache>& state() const noexcept {
    return state_;
  }

 private:
  std::shared_ptr<core::recorder_cache> state_;
};

/// A graph that a context recorded and gave out: see `untyped_context::to_graph`. It owns what its
/// nodes use, memory, bodies and the user's buffers, until neither it can run any more nor any copy
/// or executable that was made of it, of whoever made it. Handles share it. Any thread. Two
/// launches by `launch` never overlap; copies in other graphs share its memory, so whoever makes
/// them orders them, and if it has host functions begins one when the one before has ended: on a
/// GPU the buffers are read when a graph is launched. An empty handle throws error(usage) for
/// everything but `operator bool`.
class MILLSTREAM_API recorded_graph {
 public:
  recorded_graph() noexcept = default;
  explicit recorded_graph(std::shared_ptr<core::given_graph> state) noexcept
      : state_(std::move(state)) {}

  /// Queues one launch on a native stream of the caller's (on the host machine: on a queue of that
  /// number), or on a stream of ours; its number is the answer, for `synchronize`. Does not wait
  /// for the launch, but on a GPU for the one before if the graph has host functions, and perhaps,
  /// as its driver does, for copies to buffers that are not page-locked. error(interrupted) if the
  /// user wants out meanwhile. On a stream that is captured it becomes one node of what that is.
  std::uint64_t launch(std::optional<std::uint64_t> stream = {});
  /// The machine's own handle (a CUgraph), 0 where there is none. It stays this object's: it may be
  /// instantiated and copied, also into other graphs, and must not be changed or destroyed.
  [[nodiscard]] std::uint64_t handle() const;
  [[nodiscard]] std::size_t node_count() const;  ///< as recorded
  /// As the machine sees it, in the DOT language.
  [[nodiscard]] std::string native_dot() const;
  [[nodiscard]] machine where() const;
  /// Throws the oldest failure of a task in a launch that nobody has seen yet. A failed task spoils
  /// that launch only: what comes after it there is skipped, and its buffers are not written.
  void check_errors();
  /// The same without throwing, oldest first.
  [[nodiscard]] std::vector<failure> take_failures(std::size_t most = ~std::size_t{0});

  explicit operator bool() const noexcept { return state_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<core::given_graph>& state() const noexcept { return state_; }

 private:
  [[nodiscard]] core::given_graph& given() const;
  std::shared_ptr<core::given_graph> state_;
};

struct context_options {
  machine on{};
  /// Checker mode, on machines whose instances are host memory: what a task only reads must come
  /// back unchanged, what it only writes is filled with a pattern first. A breach is reported like
  /// a failure, or thrown by `end` of a task in the caller's thread.
  bool check = false;
  /// A native stream of the caller's (0 = the default stream): everything is ordered behind its
  /// work of now, `fence` gives it, and `finish` only queues the rest on it and returns at once.
  /// It may be captured by somebody else meanwhile. error(invalid_value) where there is no such
  /// stream.
  std::optional<std::uint64_t> stream;
  std::shared_ptr<trace_listener> listener;  ///< told everything; null = nobody
  /// Tasks are recorded into a graph of the machine, which `fence`, `finish` and the waits launch.
  /// error(unsupported) where the machine has no graphs.
  bool use_graph = false;
  std::optional<shared_resources> resources;  ///< none = the context has its own
};

/// A buffer of the user's that becomes the first instance of a datum.
struct registration {
  void* block = nullptr;  ///< address of the element with all indices 0
  std::size_t bytes = 0;  ///< of all elements together
  data_place place = data_place::host();
  bool readonly = false;
  /// Of a buffer that is not packed: its shape, the distance in bytes of two neighbours on each
  /// axis (0 and negative ones too), and the bytes of one element. Tasks then see packed copies,
  /// and the content comes back element by element. Where several elements share a byte, the data
  /// are read-only. No extents: the buffer is packed.
  std::span<const std::size_t> extents;
  std::span<const std::ptrdiff_t> strides;
  std::size_t element_bytes = 1;
  /// Sharing bytes with other data is no error: they get one order, and what one writes is seen in
  /// the others.
  bool allow_overlap = false;
  std::string_view symbol;
  source_site site;
  /// The content is ready once the work queued so far on this native stream has ended.
  std::optional<std::uint64_t> producer;
  /// Kept until nothing of the context touches the buffer any more. Its deleter is called without
  /// any lock of the library held, on any thread.
  std::shared_ptr<void> owner;
};

/// Why executables had to be made, by reason. Of a shape that is not kept any more the cache knows
/// why for the last thousand or so; the others count as new.
struct recording_misses {
  std::uint64_t new_shape = 0;  ///< nothing of this shape was launched before
  std::uint64_t evicted = 0;    ///< dropped since for others, by the limit of bytes
  std::uint64_t too_large = 0;  ///< larger by itself than the limit
  std::uint64_t policy = 0;     ///< the policy had said not to keep it
  std::uint64_t busy = 0;       ///< another context with the same resources was launching it
  std::uint64_t refused = 0;    ///< some were kept, but the machine refused to update those tried
  std::uint64_t lost = 0;  ///< its launch had failed, or it could not be kept: its policy threw, or
                           ///< memory was short
};

/// What a recorded context did with its stages (docs/design/0006-recording.md).
struct recording_stats {
  std::uint64_t stages = 0;          ///< launched
  std::uint64_t stage_breaks = 0;    ///< of these, because a body had to run in the caller's thread
  std::uint64_t nodes = 0;           ///< recorded, those of captured bodies included
  std::uint64_t child_graphs = 0;    ///< of these, bodies captured beside those of another thread
  std::uint64_t hits = 0;            ///< launches by an executable that was kept
  std::uint64_t instantiations = 0;  ///< executables made, one for each launch that was no hit
  std::uint64_t updates = 0;         ///< of executables that were kept, for these hits
  /// Tried, before another executable took the stage or was made: stages that look alike until the
  /// machine is asked, such as bodies of as many nodes.
  std::uint64_t refused_updates = 0;
  recording_misses misses;  ///< instantiations, those that failed included, by reason
  std::string last_miss;    ///< why the last executable had to be made; "" = none was
};

/// Numbers since the context was opened.
struct context_stats {
  std::uint64_t tasks = 0;
  std::uint64_t skipped = 0;  ///< because of a failed task
  std::uint64_t failed = 0;
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t records = 0;      ///< marks set for other queues
  std::uint64_t waits = 0;        ///< waits of a queue for a mark of another
  std::uint64_t host_waits = 0;   ///< times a thread blocked
  std::uint64_t allocations = 0;  ///< blocks taken from the machine
  std::uint64_t reused_blocks = 0;
  std::uint64_t queues = 0;
  recording_stats recording;  ///< zeros in an immediate context, but for graphs that were added
};

/// A context orders tasks and owns data. Handles share it. Any thread may use any context; no lock
/// is held while a body runs. Destroying the last handle abandons a context that was not
/// finalized: a warning goes to the log, nothing waits, queued work still ends by itself, and no
/// write-back happens.
class MILLSTREAM_API untyped_context {
 public:
  /// Opens nothing heavier than the machine. Throws error(unavailable) after a fork.
  explicit untyped_context(context_options options = {});
  untyped_context(const untyped_context&) noexcept = default;
  untyped_context(untyped_context&&) noexcept = default;
  untyped_context& operator=(const untyped_context&) noexcept = default;
  untyped_context& operator=(untyped_context&&) noexcept = default;
  ~untyped_context() = default;

  /// Registers the user's buffer. The identical bytes in the same order registered twice give the
  /// same datum; other live data that share a byte with it are error(invalid_value) naming both,
  /// unless both are read-only or `allow_overlap` is set. A task that writes one of two such data
  /// cannot use the other at the same time.
  [[nodiscard]] untyped_data register_data(const registration& what);
  /// Data without content: the first access must be `write`.
  [[nodiscard]] untyped_data make_data(std::size_t bytes, std::string_view symbol = {},
                                       source_site site = {});
  /// Data without bytes, for order only; may be read at once.
  [[nodiscard]] untyped_data make_token(std::string_view symbol = {}, source_site site = {});

  /// Submits a task that runs by itself. Never raises what the body throws: that comes from the
  /// next wait. Throws for broken rules (before anything changed) and when memory or the machine
  /// fails (then the outputs are poisoned). May block while another thread has a conflicting task
  /// open, and for work on a GPU until the host functions that it comes after have ended.
  void submit(const task_spec& what, body_ptr work);
  /// Overwrites a datum with a pattern of 1 to 16 bytes that divides its size.
  void fill(const task_dep& target, std::span<const std::byte> pattern, exec_place place = {},
            std::string_view symbol = {});

  /// A graph that was made elsewhere as one task, which uses the data that `what` declares. It does
  /// so at addresses of its own: declare a datum at the place of the buffer that it uses. In a
  /// recorded context it becomes one node, a copy of the nodes as they are now; else it is
  /// instantiated, or an executable of the same shape is updated, and launched; on a GPU that waits
  /// until such a buffer has its content, and so it is in a recorded context whose stage has host
  /// functions as nodes, or that had some if a buffer is used, and the stage is closed. A native
  /// graph (a CUgraph) stays the caller's and may be destroyed after this. Throws before anything
  /// changed: error(invalid_value) for the host place and for what is no graph of this machine,
  /// error(unsupported), naming the task, for native handles where there are none and for nodes
  /// that the machine takes in no part of a recording (memory allocations and frees, conditions).
  /// Like a kernel task it is skipped if an input is poisoned.
  void add_graph(const task_spec& what, std::uint64_t native);
  void add_graph(const task_spec& what, const recorded_graph& graph);
  /// Ends a recorded context without launching it: what was recorded, write-backs to the registered
  /// buffers included, becomes a graph, which from now on owns the context's data (`with` is kept
  /// as long as it is). Each launch does all of it once: it reads the buffers that were registered
  /// and writes them. The context cannot be used any more, and `finish` does nothing. Blocks until
  /// the memory is there. Throws error(usage), before anything changed: in an immediate context or
  /// one on a caller's stream, while a task is open, after something was launched already (`fence`,
  /// `wait`) or ran by itself (a body in the caller's thread, a host function on a GPU machine that
  /// is not declared not to use it). error(deadlock) from inside a body of this context. Does not
  /// look at failures.
  [[nodiscard]] recorded_graph give_graph(std::shared_ptr<void> with = {});
  /// raise(take_failures()), and then `give_graph`.
  [[nodiscard]] recorded_graph to_graph();

  /// What was recorded last, as the machine sees it, in the DOT language: the stage launched last,
  /// or the present one if there is none. error(usage) in an immediate context.
  [[nodiscard]] std::string native_dot() const;

  /// A stream number that ends when everything submitted so far has ended. Does not block, but on a
  /// GPU machine until the host functions submitted so far have ended.
  [[nodiscard]] std::uint64_t fence();

  /// Orders work that is queued from now on on the native stream `later`, somebody else's, behind
  /// what is in the queue of one of this context's tasks now. Does not block. Throws
  /// error(invalid_value) for what is no stream, error(usage) for another queue.
  void order(std::uint64_t later, std::uint64_t queue);

  /// Blocks until the content is known. Throws error(poisoned), error(not_written) and
  /// error(deadlock) as `read_back`, before anybody has to have memory for a copy.
  void await_content(const untyped_data& data);
  /// Blocks until the content is known and copies `data.bytes()` bytes to `to` (nothing for a
  /// token). Throws error(poisoned), error(not_written). Does not look at failures.
  void read_back(const untyped_data& data, void* to);
  /// Tells `told` when all tasks that were submitted or ended so far have ended. Does not block.
  /// Listeners are told one after the other; `finish` waits for those of its context. Throws
  /// error(usage) while the caller's stream is captured.
  [[nodiscard]] notice_ticket notify(std::unique_ptr<notice> told);
  /// Copies the content of now to `to` (`data.bytes()` bytes, which `told` keeps alive; null copies
  /// nothing) and then tells `told`. A reader like a task: it may block while another thread has a
  /// task open that writes, and throws error(usage) if this thread has, error(not_written).
  [[nodiscard]] notice_ticket fetch(const untyped_data& data, void* to,
                                    std::unique_ptr<notice> told);
  /// Blocks until all tasks and host functions ended and all notices were told, with what they add
  /// meanwhile; writes back; lets go of the data. Other threads can add nothing from its begin on:
  /// error(usage), as after it. A second call waits for the first, then does nothing. Does not look
  /// at failures. On a caller's stream it does not block: all is queued there instead, and the
  /// user's buffers and `with` are held until the context is dropped and the stream has passed, or,
  /// if it is captured, as long as what is captured may run. Throws error(usage) while a task is
  /// open, but for those that a body has open (a caller's stream: them too), error(deadlock) inside
  /// a body of this context, or a listener where notices are left, before anything changed.
  void finish(std::shared_ptr<void> with = {});
  /// Blocks until what was submitted so far, and what that submits, has ended. Throws
  /// error(deadlock) from inside a body of this context.
  void drain();
  /// Failures not yet handed out, in submission order, oldest first; at most `most`.
  [[nodiscard]] std::vector<failure> take_failures(std::size_t most = ~std::size_t{0});
  /// The same for some tasks, without handing them out: others get them, too, until
  /// `mark_failures_seen`.
  [[nodiscard]] std::vector<failure> look_at_failures(task_range of) const;
  void mark_failures_seen(const std::vector<std::uint64_t>& task_ids) noexcept;

  /// finish() + raise(take_failures()).
  void finalize();
  /// raise(take_failures(1)).
  void check_errors();

  /// Gives the context up without finalizing (see above). For bindings, which warn themselves.
  void abandon() noexcept;

  [[nodiscard]] bool is_finished() const noexcept;
  [[nodiscard]] context_stats stats() const;
  [[nodiscard]] machine where() const;
  [[nodiscard]] bool owns(const untyped_data& data) const noexcept;
  [[nodiscard]] const std::shared_ptr<core::context>& state() const noexcept { return state_; }

 private:
  /// Throws error(usage) for a context that was moved from.
  [[nodiscard]] core::context& engine() const;
  std::shared_ptr<core::context> state_;
};

/// A task whose body is written between `start` and `end` in the caller's thread. Not shared
/// between threads while it is being changed. One that was made without a context or moved from
/// throws error(usage) for everything but `is_open` and `is_ended`.
class MILLSTREAM_API untyped_task {
 public:
  untyped_task() noexcept = default;
  explicit untyped_task(const untyped_context& in, source_site site = {});
  untyped_task(untyped_task&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  untyped_task& operator=(untyped_task&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// A task that is still open counts as failed.
  ~untyped_task() {
    if (state_ != nullptr) let_go();
  }

  /// Before start; throw error(usage) later.
  void add_dep(task_dep dep);
  void set_place(exec_place place);
  void set_symbol(std::string_view name);
  void set_kind(task_kind kind);

  /// Makes the data ready. On host devices and for host places it blocks until they are; on others
  /// the stream is ordered behind them. Throws error(poisoned) when an input is, error(usage) when
  /// this thread has a conflicting task open, error(deadlock) when waiting would close a cycle.
  /// A task of kind cuda_kernel has no body of its own: it waits for nothing on the host, and with
  /// a poisoned input it `is_skipped`. error(invalid_value) if its place is the host.
  void start();
  /// Publishes the end of the task. Does not block. Of kind cuda_kernel: queues what it was told to
  /// launch, in the order of the calls; throws, and the outputs are poisoned, if the machine fails.
  void end();
  /// Ends it as failed: its outputs are poisoned. The cause is not reported again later.
  void fail(std::exception_ptr cause) noexcept;

  // Of kind cuda_kernel.

  /// Between start and end: one more launch. Throws error(invalid_value) for extents that are not
  /// positive and arguments that are not those of the kernel, error(unsupported) where there is
  /// nothing in it that the machine can run; then the task has as many launches as before.
  void launch(kernel_launch&& what);
  /// Ends it without any launch: its data are as before `start`.
  void abandon() noexcept;
  /// Open, but will not run, because an input is poisoned; its addresses are null.
  [[nodiscard]] bool is_skipped() const noexcept;

  [[nodiscard]] bool is_open() const noexcept;  ///< between start and end
  [[nodiscard]] bool is_ended() const noexcept;
  [[nodiscard]] std::size_t dep_count() const noexcept;
  [[nodiscard]] const task_dep& dep(std::size_t index) const;  ///< throws error(out_of_range)
  /// Address of dependency `index`. Throws error(usage) when not open or for a token,
  /// error(out_of_range) past the list.
  [[nodiscard]] void* pointer(std::size_t index) const;
  /// The whole call; throws error(usage) when not open.
  [[nodiscard]] body_call call() const;
  /// "task 'name'" or "task 12", for messages; "task" before `start` where it has no name.
  [[nodiscard]] std::string name() const;

 private:
  void let_go() noexcept;
  [[nodiscard]] core::open_task& task() const;
  core::open_task* state_ = nullptr;
};

}  // namespace millstream::inline v1
