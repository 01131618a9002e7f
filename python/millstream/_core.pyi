"""The compiled part of millstream; import millstream instead."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy
import numpy.typing

import millstream
import millstream.viz


class data_place:
    """
    Where a copy of a datum is kept: a small value that the machine of the context resolves. Make one with `host`, `device`, `managed`, `affine`.
    """

    @staticmethod
    def host() -> data_place:
        """Host memory."""

    @staticmethod
    def managed() -> data_place:
        """
        Memory that host and devices both address; UnsupportedError when a task starts on a machine that has none.
        """

    @staticmethod
    def affine() -> data_place:
        """
        The memory nearest to where the task runs; the default of a dependency.
        """

    @staticmethod
    def device(dev_id: int) -> data_place:
        """
        Memory of device `dev_id`, counted from 0. InvalidPlaceError for a negative number.
        """

    @staticmethod
    def current_device() -> data_place:
        """
        Memory of the device that is current in this thread now, on the default machine.
        """

    @property
    def kind(self) -> str:
        """``"host"``, ``"managed"``, ``"affine"`` or ``"dev<i>"``."""

    @property
    def device_id(self) -> int:
        """Device number; -1 host, -2 managed, -3 affine."""

    def allocate(self, nbytes: int, stream: object = None) -> int:
        """
        Address of `nbytes` bytes of this memory on the default machine (page-locked for the host), aligned to 256; 0 for none. Ready for work queued on `stream` from now on; None is the default stream. MemoryError where there is no room and for `affine`, ValueError for a negative size and a device that is not there.
        """

    def deallocate(self, ptr: int, nbytes: int, stream: object = None) -> None:
        """
        Gives back what `allocate` gave, behind what is queued on `stream` now. DeviceError where the driver refuses.
        """

    @property
    def allocation_is_stream_ordered(self) -> bool:
        """True for devices: `allocate` and `deallocate` wait for nothing."""

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple[object, ...]:
        """Copies and pickles are equal places."""

    def __repr__(self) -> str: ...

class exec_place:
    """
    Where a task runs: a small value that the machine of the context resolves. Make one with `host` or `device`.
    """

    @staticmethod
    def host() -> exec_place:
        """
        On the host: the body runs on a worker thread of Millstream, or inside the `with` block.
        """

    @staticmethod
    def device(dev_id: int) -> exec_place:
        """
        On device `dev_id`, counted from 0. InvalidPlaceError for a negative number; a number that the machine lacks is a ValueError when the task starts.
        """

    @staticmethod
    def current_device() -> exec_place:
        """
        On the device that is current in this thread now, on the default machine; device 0 of a host machine.
        """

    @property
    def kind(self) -> str:
        """``"host"`` or ``"device"``."""

    @property
    def dims(self) -> tuple[int, ...]:
        """Extents of the place as a grid; ``(1,)``."""

    @property
    def size(self) -> int:
        """Number of members; 1."""

    @property
    def affine_data_place(self) -> data_place:
        """The memory nearest to this place."""

    def get_place(self, index: int) -> exec_place:
        """Member `index`; IndexError for any index but 0."""

    def __getitem__(self, index: int) -> exec_place:
        """Member `index`; IndexError for any index but 0."""

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple[object, ...]:
        """Copies and pickles are equal places."""

    def __repr__(self) -> str: ...

class machine:
    """
    A set of devices of one backend. One object per process for equal arguments; the devices are opened at first use.
    """

    def __init__(self, name: str | None = None, *, devices: int | None = None, seed: int | None = None) -> None: ...

    @property
    def name(self) -> str:
        """
        Name of the backend. Opens the machine; UnavailableError if it cannot be.
        """

    @property
    def device_count(self) -> int:
        """Number of devices. Opens the machine."""

    @property
    def capabilities(self) -> list[str]:
        """Names of what the machine can do. Opens it."""

    @property
    def call_counts(self) -> dict[str, int]:
        """
        Calls of the backend so far by name, where the machine counts them (null); else empty.
        """

    def __reduce__(self) -> tuple[object, ...]:
        """
        A copy is the object itself; a pickle is the machine of the same arguments where it is loaded.
        """

    def __repr__(self) -> str: ...

def synchronize(stream: int | object | None) -> None:
    """
    Blocks until everything queued so far on `stream` has ended: the result of `context.fence` or `task.stream_ptr`; None is stream 0. Lets other threads run and can be interrupted. ValueError for a number that is no stream.
    """

def has_host_memory() -> bool:
    """Whether device memory of the default machine is ordinary host memory."""

def to_dtype(what: object) -> numpy.dtype[Any]:
    """
    numpy.dtype(what); TypeError for what is none and for Python objects as elements.
    """

def copy_to_memory(array: object, ptr: int, stream: int) -> None:
    """Copies all bytes of a host array to other memory; waits for it."""

def copy_from_memory(array: object, ptr: int, stream: int) -> None:
    """Fills a host array from other memory; waits for it."""

def dlpack_device_of(ptr: int) -> tuple[int, int]:
    """Kind and number of the memory in DLPack."""

def dlpack_capsule(owner: object, ptr: int, size: int, dtype: numpy.dtype[Any], device: tuple[int, int]) -> object:
    """An unversioned capsule over memory that `owner` keeps alive."""

def dlpack_export(owner: object, data_ptr: int, shape: Iterable[int], dtype_code: int, dtype_bits: int, device_id: int) -> object:
    """
    An unversioned DLPack capsule (``dltensor``) over memory in C order that `owner` keeps alive, on GPU `device_id`; on machines without GPUs on the CPU. Codes of elements: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool. TypeError for elements that NumPy does not have, NumberRangeError for negative numbers.
    """

def order_streams(later: int, earlier: int) -> None:
    """Later work of the one stream comes after what is in the other one now."""

class dep:
    """
    One access of a task to a datum. `data.read()`, `data.write()` and `data.rw()` make it.
    """

    def __init__(self, ld: logical_data, mode: int, dplace: data_place | None = None) -> None:
        """`ld` and `dplace` are checked when a task takes the dep."""

    @property
    def ld(self) -> logical_data:
        """The datum."""

    @property
    def mode(self) -> millstream.AccessMode:
        """What the task does with it."""

    @property
    def dplace(self) -> data_place | None:
        """Where the copy is wanted; None is near to where the task runs."""

    def get_ld(self) -> logical_data:
        """The datum."""

    def __iter__(self) -> Iterator[object]:
        """Yields `ld`, `mode`, `dplace`."""

    def __reduce__(self) -> tuple[object, ...]:
        """
        A copy is an access to the same datum; TypeError for `deepcopy` and pickles, because data are not copied.
        """

    def __repr__(self) -> str: ...

def read(ld: logical_data, dplace: data_place | None = None) -> dep:
    """Read access to `ld`; checked when a task takes it."""

def write(ld: logical_data, dplace: data_place | None = None) -> dep:
    """
    Write access to `ld`, which overwrites all of it; checked when a task takes it.
    """

def rw(ld: logical_data, dplace: data_place | None = None) -> dep:
    """Read and write access to `ld`; checked when a task takes it."""

def fill_data(ctx: context, ld: logical_data, value: object, data_place: data_place | None = None, exec_place: exec_place | None = None) -> None:
    """
    What `context.logical_data_full` does to its data, for data that is there.
    """

class logical_data:
    """
    A value that may have copies in several memories. Contexts make it; dropping the last handle queues the write-back to a registered buffer and never waits.
    """

    def __init__(self, ctx: context | None = None, buf: object = None, dplace: data_place | None = None, shape: object = None, dtype: object = None, name: str | None = None) -> None:
        """
        As `context.logical_data`; `shape` and `dtype` are those of the array, whatever is said here. Without a context or an array the object belongs to none: no task takes it (ValueError), and what needs a context is a UsageError.
        """

    @staticmethod
    def token(ctx: context) -> logical_data:
        """As `context.token`."""

    @staticmethod
    def init_by_shape(ctx: context, shape: Iterable[int], dtype: object, name: str | None = None) -> logical_data:
        """As `context.logical_data_empty`."""

    def read(self, dplace: data_place | None = None) -> dep:
        """Read access, for a task. `dplace`: where the copy is wanted."""

    def write(self, dplace: data_place | None = None) -> dep:
        """
        Write access: the task overwrites the whole content, so no copy is fetched. ValueError for read-only data.
        """

    def rw(self, dplace: data_place | None = None) -> dep:
        """Read and write access. ValueError for read-only data."""

    @property
    def dtype(self) -> numpy.dtype[Any] | None:
        """Element type; None for a token."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Extents, last axis fastest; None for a token."""

    @property
    def symbol(self) -> str | None:
        """Name in messages and graphs, or None."""

    @property
    def readonly(self) -> bool:
        """True if the registered buffer may not be written."""

    def set_symbol(self, name: str) -> None:
        """Names the datum in messages and graphs."""

    def borrow_ctx_handle(self) -> context:
        """
        The context of the datum as an object that does all but `finalize`, which is a UsageError; `with` does not finalize it either.
        """

    def get(self) -> millstream.Future[numpy.typing.NDArray[Any] | None]:
        """
        A future of the content as the tasks submitted so far leave it: a new NumPy array of the same shape and dtype, None for a token. Later tasks do not change it. Does not block, unless another thread has a task open that writes the data. It raises what the failed task raised if nobody has seen that, else PoisonedError; errors that have nothing to do with the data are left to others. NotWrittenError, OutOfMemoryError, and UsageError after `finalize`, at once.
        """

    def empty_like(self) -> logical_data:
        """
        New data of the same context, shape and dtype, without content and name; of a token, another token.
        """

    def __repr__(self) -> str: ...

class future_wait:
    """Entered by a thread that waits for a future."""

    def __enter__(self) -> None:
        """DeadlockError if the wait would never end."""

    def __exit__(self, *_: object) -> None:
        """The wait is over."""

class future_ticket:
    """What has to end before a future is done."""

    def check(self) -> None:
        """UnavailableError in a forked child."""

    def blocked(self) -> future_wait:
        """For the time of a wait."""

class view_lease:
    """How long the views of one task are valid."""

    @property
    def over(self) -> bool:
        """True once the task has ended."""

    def message(self, index: int) -> str:
        """Text for the use of view `index` after that."""

class stf_cai:
    """
    An array over memory of a task. On a GPU machine it offers the CUDA Array Interface, on a host machine `__array_interface__` and CPU DLPack. Valid until its task ends; then what leads to the memory raises UsageError, and `shape`, `dtype`, `stream` and `readonly` still answer.
    """

    def __init__(self, ptr: int, shape: tuple[int, ...], dtype: object, stream: int = 0) -> None:
        """
        A view of device memory of the caller's own. TypeError unless `shape` is a tuple.
        """

    @property
    def ptr(self) -> int:
        """Address of the first element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, last axis fastest."""

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Element type."""

    @property
    def stream(self) -> int:
        """Stream the view advertises; 0 = none."""

    @property
    def readonly(self) -> bool:
        """True for an argument that is only read."""

    @property
    def __array_interface__(self) -> dict[str, object]:
        """Array interface, version 3; AttributeError unless in host memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """CUDA Array Interface, version 3; AttributeError for host memory."""

    def __getitem__(self, key: str) -> object:
        """Entry of the interface."""

    def get(self, key: str, default: object = None) -> object:
        """Entry of the interface, or `default`."""

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """
        A DLPack capsule; never a copy, so `copy=True` and another device are a BufferError. `stream`, for device memory: work queued there from now on comes after what the task's stream has in it; None and 1 are the legacy default stream, 2 that of the thread, -1 asks for no order. Nothing waits on the host. While the task is recorded, a stream that is not is a UsageError: what is queued there runs at once. Read-only memory says so from ``max_version=(1, 0)`` on.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """
        Kind and number: ``(1, 0)`` the CPU, ``(2, i)`` GPU i, ``(3, 0)`` page-locked and ``(13, 0)`` managed memory in a body on a GPU.
        """

    def __repr__(self) -> str: ...

class task:
    """
    A task whose body is written between `start` and `end`, or inside `with`. On a GPU it launches work on `stream_ptr`; from the first look at that or at an argument until the end, the device of the task is current. On host devices the body is ordinary Python: `start` waits until the data are ready. A body that raises fails the task: data it was to write are poisoned.
    """

    def add_dep(self, dep: dep) -> None:
        """
        Adds an access, before `start`. TypeError for what is no dep of a logical_data, ValueError for data of a different context or writing to read-only data.
        """

    def set_exec_place(self, place: exec_place) -> None:
        """Where the task runs; before `start`."""

    def set_symbol(self, name: str) -> None:
        """Names the task in messages and graphs; before `start`."""

    def start(self) -> None:
        """
        Makes the data ready. Waits for them on host devices, letting other threads run. PoisonedError if an input is, NotWrittenError if nothing has written it, OutOfMemoryError, DeadlockError, UsageError when started twice or when this thread has a conflicting task open.
        """

    def end(self) -> None:
        """
        Ends the task; does not wait, but where it is recorded beside a task that another thread has open, for that one's end. UsageError unless started.
        """

    def __enter__(self) -> millstream.task:
        """`start`, then the task itself."""

    def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> Literal[False]:
        """
        `end`; after an exception the task has failed, and the exception goes on. If Ctrl-C ends a wait of `end`, the task has failed, too.
        """

    def __iter__(self) -> Iterator[Any]:
        """
        Iterates over `args()`, so that ``with ctx.task(a.read()) as (x,):`` works.
        """

    def __getitem__(self, key: int | logical_data) -> Any:
        """
        Array of a dependency, by position (tokens counted) or by datum. IndexError past the list, KeyError for other data, RuntimeError for a token.
        """

    def args(self) -> tuple[Any, ...]:
        """
        One array per dependency that is no token: NumPy arrays on host devices (read-only for `read` accesses), else the views of `args_cai`. Valid until the task ends.
        """

    def stream_ptr(self) -> millstream.CudaStream:
        """
        Stream of the task, never 0: a raw handle on a GPU machine, else the number of its queue. On the host of a GPU machine it is a stream of the current device, and `end` waits for what the body queued there. Only while the task is open.
        """

    def get_stream_ptrs(self) -> list[millstream.CudaStream]:
        """
        The streams of the members of the place: a list with `stream_ptr()`. Only while the task is open.
        """

    def get_stream_at_index(self, index: int) -> int:
        """
        The stream of member `index` of a grid. RuntimeError for a place that is none, as all are in this version.
        """

    def get_grid_dims(self) -> tuple[int, ...] | None:
        """
        Extents of the place as a grid; None for a place with one member. Only while the task is open.
        """

    def get_arg(self, index: int) -> int:
        """
        Address of dependency `index`, tokens counted. IndexError past the list, RuntimeError for a token or when the task is not open.
        """

    def get_arg_cai(self, index: int) -> stf_cai:
        """View of dependency `index`; errors as `get_arg`."""

    def args_cai(self) -> stf_cai | tuple[stf_cai, ...] | None:
        """Views of all dependencies but tokens: None, one view, or a tuple."""

    def __repr__(self) -> str: ...

class cuda_kernel:
    """
    A task whose kernels are described between `start` and `end`, or inside `with`, and launched by us: one node each in a recorded context, without any capture.
    """

    def add_dep(self, dep: dep) -> None:
        """Adds an access, before `start`; errors as in `task.add_dep`."""

    def set_exec_place(self, place: exec_place) -> None:
        """The device that runs the kernels; before `start`."""

    def set_symbol(self, name: str) -> None:
        """Names the task in messages and graphs; before `start`."""

    def get_arg(self, index: int) -> int:
        """
        Address that dependency `index` will have, tokens counted; 0 in a task that is skipped. IndexError past the list, RuntimeError for a token or when the task is not open.
        """

    def get_arg_cai(self, index: int) -> stf_cai:
        """
        View of dependency `index`, to be passed to `launch`; errors as `get_arg`.
        """

    def launch(self, kernel: object, grid: int | Sequence[int], block: int | Sequence[int] | None, args: Sequence[object], shmem: int = 0, *, cluster: int | Sequence[int] | None = None, cooperative: bool = False, programmatic: bool = False) -> None:
        """
        Describes one launch; those of a task run one after the other, in the order of the calls. `kernel`: a kernel of cuda.core, CuPy (RawKernel), Numba (compiled for one signature) or Triton (compiled; `block` is None), or the handle of a CUfunction or CUkernel as an int; it is kept until the context is finalized. On host machines a function of ctypes, or the address of one, which is called once per launch with exactly `args`. `grid`, `block`, `cluster`: up to three positive extents. `args` are copied: an int has the size of the kernel's parameter (a pointer's where the driver does not tell), a float is a double; scalars of ctypes and NumPy and structures of ctypes have their own types; views and device arrays are addresses. `shmem`: bytes of dynamic shared memory. `programmatic`: it may begin before the kernels that it comes after have ended, where these allow it, and waits for them by itself (`griddepcontrol.wait`) before it uses memory. ValueError and TypeError for what cannot be launched; the task goes on without it, and if the exception leaves the block, its data are as before.
        """

    def start(self) -> None:
        """
        Orders the task behind its data; waits for nothing. A task with a poisoned input is skipped: what it launches does not run, and its outputs are poisoned, too. Errors as in `task.start`, and ValueError for the host place.
        """

    def end(self) -> None:
        """
        Hands over what was described; does not wait. UsageError unless started, DeviceError if the device refuses.
        """

    def __enter__(self) -> millstream.cuda_kernel:
        """`start`, then the task."""

    def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> Literal[False]:
        """
        `end`. After an exception of `launch` the data are as before the task; after another one the task has failed. The exception goes on.
        """

    def __repr__(self) -> str: ...

class running_task:
    """
    The submitted function that is running in this thread, seen from inside. Valid until it returns; then every use raises UsageError.
    """

    def stream_ptr(self) -> millstream.CudaStream:
        """
        Stream of the task: a raw handle on a GPU machine, else the number of its queue. On the host of a GPU machine it is a stream of the current device, and the task ends when what the body queued there has.
        """

    @property
    def symbol(self) -> str | None:
        """Name of the task, or None."""

    @property
    def place(self) -> exec_place:
        """Where it runs."""

    def args(self) -> tuple[Any, ...]:
        """One array per dependency that is no token."""

    def get_arg(self, index: int) -> int:
        """
        Address of dependency `index`, tokens counted. IndexError past the list, RuntimeError for a token.
        """

    def get_arg_cai(self, index: int) -> stf_cai:
        """View of dependency `index`; errors as `get_arg`."""

    def args_cai(self) -> stf_cai | tuple[stf_cai, ...] | None:
        """The same as views: None, one view, or a tuple."""

    def __getitem__(self, key: int | logical_data) -> Any:
        """Array of a dependency, by position (tokens counted) or by datum."""

    def __repr__(self) -> str: ...

def current_task() -> running_task | None:
    """
    The submitted function that is running in this thread, or None outside of one.
    """

class recorded_graph:
    """
    A graph that `context.to_graph` gave. It keeps what its nodes use, memory, functions, arrays, until it is gone and so are all graphs and executables that were made of it, by whomever; one of them that leads to this object keeps it for good. Two launches by `launch` never overlap; copies in other graphs share its memory and are ordered by who makes them. Any thread may use it.
    """

    def launch(self, stream: object = None) -> millstream.CudaStream:
        """
        Queues one launch on a stream of the caller's (None: one of ours), and gives the stream, for `synchronize`. Does not wait for the launch, but on a GPU for the one before if the graph has host functions, and perhaps, as its driver does, for copies to arrays that are not page-locked. On host machines a stream is the number of a queue. On a stream that is captured it becomes one node of what is captured.
        """

    @property
    def handle(self) -> int:
        """
        The CUgraph, which stays this object's: instantiate or copy it, but neither change nor destroy it. 0 on host machines.
        """

    @property
    def node_count(self) -> int:
        """Nodes as recorded."""

    def native_dot(self) -> str:
        """The graph as the machine sees it, in the DOT language."""

    def check_errors(self) -> None:
        """
        Raises the oldest exception of a task in a launch that nobody has seen yet, if there is one. A failed task spoils its launch only: what comes after it there is skipped, and the arrays of these are not written. What is never asked for becomes a TaskFailedWarning.
        """

    @property
    def machine(self) -> millstream.machine:
        """The machine of the graph."""

    def __repr__(self) -> str: ...

class async_resources:
    """
    What contexts that get it as `handle` share: the streams of their machine, and the executable graphs of those that record. A context that ends leaves them, with what is queued, to the next one, so that opening one costs no calls of the driver, and a shape that one of them recorded is no new instantiation in another. Contexts keep it alive; any number may use it at a time, on any threads.
    """

    def __init__(self, *, limit_bytes: int = 268435456, policy: Callable[[int, int], bool] | None = None) -> None:
        """
        Nothing is made before a context needs it. `limit_bytes`: executable graphs that nobody uses are kept up to that many bytes (estimated), the one not used for longest goes first; 0 keeps none. TypeError for no integer, ValueError for a negative one. `policy`: as the property.
        """

    @property
    def policy(self) -> Callable[[int, int], bool] | None:
        """
        Says which executable graphs are kept; None keeps all, within `limit_bytes`. Called as `policy(nodes, nbytes)` for each executable after each of its launches, with the number of its nodes and an estimate of its memory in bytes; what is false is dropped, and a launch on its way goes on. It runs in the thread whose call launched (`fence`, `wait`, `finalize`, ...), before that call returns and without any lock of millstream, so it may use millstream, that context too. What it raises goes to `sys.unraisablehook`, and the executable is kept. TypeError for what is neither callable nor None.
        """

    @policy.setter
    def policy(self, policy: Callable[[int, int], bool] | None, /) -> None: ...

    @property
    def executables(self) -> int:
        """Executable graphs that are kept now and used by nobody."""

    @property
    def executable_bytes(self) -> int:
        """An estimate of their memory, in bytes."""

    def __repr__(self) -> str: ...

class context:
    """
    Orders tasks and owns data. Any thread may use it. Use it with `with`, or call `finalize`: a context that is dropped without gives a ResourceWarning and writes nothing back.
    """

    def __init__(self, use_graph: bool = False, borrowed: bool = False, stream: object = None, handle: millstream.async_resources | None = None, *, machine: millstream.machine | None = None, check: bool = False, trace: bool = False) -> None:
        """
        `stream`: a stream of the caller's (a handle, 0 for the default stream, or an object with `__cuda_stream__`); everything is ordered behind its work of now, and `finalize` queues the rest on it and returns at once. On host machines only the number of a queue, as from `fence`, is a stream; ValueError for others. `machine`: None is the default machine. `check`: checker mode. A body that changes what it only reads has failed; what it only writes holds a pattern before; an array used after its task raises UsageError, and a function that keeps one gives a ContractWarning. `trace`: keep what `graph` and `trace` show. `handle`: an `async_resources`, kept alive, or None. `borrowed`: True makes an object without a context, of which nothing can be asked (see `logical_data.borrow_ctx_handle`). `use_graph`: tasks are recorded into a graph of the machine, which `fence`, `wait`, `finalize`, and on host machines a task with a `with` body, launch; the same shape again costs an update of an executable graph instead of a new one.
        """

    def logical_data(self, buf: object, dplace: data_place | None = None, name: str | None = None, *, copy: Literal['pack'] | None = None, allow_overlap: bool = False) -> millstream.logical_data:
        """
        Registers an array: one with the CUDA Array Interface, NumPy's, DLPack's or one with `__array_interface__`, or any object with the buffer protocol. Its shape and dtype are those of the datum. It is kept alive and gets the result when the context is finalized or the last handle is dropped. Where it lives is asked of the machine; `dplace` only confirms it. Device memory may still be written by its producer: the first task is ordered behind the stream that the array names (entry ``stream`` of the interface, or the stream DLPack is asked for), and nothing waits on the host. `copy`: ``"pack"`` takes arrays that are not C-contiguous (strided, reversed, transposed, in Fortran order): tasks see packed copies of the same shape, and results go back element by element. An array in which one element has several indices (broadcast, sliding windows) is then read-only data. Without it such arrays are a ValueError (LayoutError). `allow_overlap`: arrays that have elements in common with other live data of the context are a ValueError unless both are read-only, or this is True: then they get one order, and what a task writes to one is seen in the other (one task cannot write one and use the other). ValueError, too, for stream 0, for device memory on a machine without GPUs and for another place than the array's; TypeError for other objects and for elements that are Python objects.
        """

    def logical_data_empty(self, shape: Iterable[int], dtype: object = None, name: str | None = None) -> millstream.logical_data:
        """
        Data without content; the first access must be `write`. `dtype`: None is float64. ValueError unless `shape` has at least one dimension and positive extents.
        """

    def logical_data_full(self, shape: Iterable[int], fill_value: object, dtype: object = None, where: data_place | None = None, exec_place: millstream.exec_place | None = None, name: str | None = None) -> millstream.logical_data:
        """
        Data filled with a scalar, as numpy.full. `dtype`: None is that of the value. `where`: memory of the first copy. `exec_place`: the device that fills; the host is a NotImplementedError.
        """

    def logical_data_zeros(self, shape: Iterable[int], dtype: object = None, where: data_place | None = None, exec_place: millstream.exec_place | None = None, name: str | None = None) -> millstream.logical_data:
        """`logical_data_full` with 0; `dtype`: None is float64."""

    def logical_data_ones(self, shape: Iterable[int], dtype: object = None, where: data_place | None = None, exec_place: millstream.exec_place | None = None, name: str | None = None) -> millstream.logical_data:
        """`logical_data_full` with 1; `dtype`: None is float64."""

    def token(self) -> millstream.logical_data:
        """Data without content, for order only; may be read at once."""

    def task(self, *args: dep | exec_place | object, symbol: str | None = None) -> millstream.task:
        """
        A task to be used with `with`, or `start` and `end`. Arguments: accesses such as `data.read()`, in order, and at most one execution place. Without one the task runs on the device that is current in this thread now, on host machines on device 0. TypeError for others, None among them, ValueError for two places or data of a different context.
        """

    def submit(self, fn: Callable[..., object], *deps: dep, args: Iterable[object] = (), place: millstream.exec_place | None = None, symbol: str | None = None, uses_device: bool = True) -> None:
        """
        Hands a function over and returns. It is called with one array per dependency that is no token (NumPy on host devices, else the views of `task.args_cai`), then `args`: later, on the queue of its device, on host machines; before `submit` returns on others. Arrays are valid during the call. What it returns is ignored; what it raises comes from the next `wait`, `finalize` or `check_errors`. `uses_device`: see `host_launch`; ValueError if false for a device.
        """

    def host_launch(self, *deps: dep, fn: Callable[..., object], args: Iterable[object] | None = None, symbol: str | None = None, uses_device: bool = True) -> None:
        """
        `submit` to a worker thread of the host: `fn` gets NumPy arrays (read-only for `read` accesses), then `args`. It may take long, and may use a GPU and wait for it. A task for a GPU that comes after it begins when it has ended, and that call returns then. ``uses_device=False`` declares that `fn` neither uses a GPU, nor this library on a GPU machine, nor waits for a thread that does: with `use_graph` on a GPU it is a node of the recording then, called on a thread of the driver's, and does not end the stage. Such calls in it raise UsageError. Elsewhere it changes nothing.
        """

    def wait(self, ld: millstream.logical_data) -> numpy.typing.NDArray[Any] | None:
        """
        Blocks until the content of `ld` is known and gives a copy; None for a token. Raises what tasks raised and nobody has seen yet: one as itself, several as an ExceptionGroup. PoisonedError, NotWrittenError, OutOfMemoryError. Other threads run, Ctrl-C works, and the context goes on.
        """

    def done(self) -> millstream.Future[None]:
        """
        A future of all tasks that were submitted or ended so far (not of tasks that are open, nor of what those tasks submit later). Does not block. Its value is None; it raises what these tasks raised and nobody has seen when it completes: one as itself, several as an ExceptionGroup. UsageError after `finalize` and while the caller's stream is being captured.
        """

    def fence(self) -> int:
        """
        Number of a stream that ends when everything submitted so far has ended, on a caller's stream that one. Does not block, but on a GPU machine until the host functions submitted so far have ended; see `synchronize`.
        """

    def check_errors(self) -> None:
        """
        Raises the oldest exception of a task that nobody has seen yet, if there is one.
        """

    def finalize(self) -> None:
        """
        Blocks until all work has ended, writes back to the registered buffers, lets go of the data; then raises what tasks raised and nobody has seen yet: one as itself, several as an ExceptionGroup. A second call does nothing, and one of another thread at the same time waits for the first. From its begin on, only this thread, submitted functions and callbacks of futures can submit to the context or ask it for anything; others get the UsageError of a finalized one. On a caller's stream it queues all that there instead and returns at once: wait for the stream before you look at the buffers, and ask `check_errors` (what is never asked for becomes a TaskFailedWarning). UsageError while a task is open, DeadlockError inside a body of this context.
        """

    def cuda_kernel(self, *args: dep | exec_place | object, symbol: str | None = None) -> millstream.cuda_kernel:
        """
        A task that launches kernels which are described to us, for `with` or `start` and `end`. Arguments as those of `task`.
        """

    def add_graph(self, graph: object, *deps: dep, place: millstream.exec_place | None = None, symbol: str | None = None) -> None:
        """
        A graph that was made elsewhere as one task, which uses the data of `deps`. It does so at addresses of its own, so declare each at the place of its buffer, a NumPy array as `data.rw(data_place.host())`. `graph`: what `to_graph` gave, or a CUgraph, as an int or as an object that has one (of cuda.core, cuda.bindings, or a torch.cuda.CUDAGraph that keeps its graph). With `use_graph` it becomes one node, a copy of the graph as it is now; else it is instantiated, or an executable of the same shape is updated, and launched; on a GPU that waits until such an array has its content, and ends the stage of a context with `use_graph` in which host functions are nodes (`uses_device=False`). The graph stays the caller's, and a handle may be destroyed after this; an object is kept until the context is finalized. TypeError for other objects, ValueError for the host place and for what is no graph of this machine, UnsupportedError (a RuntimeError), naming the task, for handles on host machines and for nodes that no recording takes (allocations, frees, conditions).
        """

    def to_graph(self) -> millstream.recorded_graph:
        """
        Ends a context with `use_graph` without launching it: what was recorded, write-backs included, becomes a graph that owns all that it uses. Each launch does all of it once: it reads the registered arrays as they are then, and writes them. The context is finalized. Raises what tasks raised and nobody has seen yet. UsageError, and the context goes on: without `use_graph` or on a caller's stream, while a task is open, after something was launched (`fence`, `wait`) or ran by itself (a `with` body on host machines, where `submit` is recorded, or a host function on a GPU machine).
        """

    def graph(self) -> millstream.viz.Graph:
        """The tasks so far and what orders them. Needs ``context(trace=True)``."""

    def trace(self) -> millstream.viz.Trace:
        """When and where the tasks so far ran. Needs ``context(trace=True)``."""

    def stats(self) -> dict[str, Any]:
        """
        Counts since the context was opened: tasks, copies, bytes, waits, blocks of memory. With `use_graph` also of its recordings: `stages` launched, `stage_breaks` (of these, because a body had to run in the caller's thread), `nodes`, `child_graphs`, `hits` (launches by an executable that was kept), `instantiations` (by one that was made), `updates` (one for each hit), `refused_updates` (tried before, of stages that look alike), `misses` (why executables had to be made: counts by 'new shape', 'evicted' by the limit of bytes, 'too large' for it, 'policy', 'busy' in another context, 'refused' updates, 'lost' to a failure), and `last_miss`, the reason of the last instantiation in words.
        """

    @property
    def machine(self) -> millstream.machine:
        """The machine of the context."""

    def __enter__(self) -> millstream.context:
        """The context itself; UsageError after `finalize`."""

    def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> Literal[False]:
        """
        `finalize`. After an exception that exception goes on, and what tasks raised and nobody has seen yet becomes notes of it.
        """

    def __repr__(self) -> str: ...

class stream_switch:
    """Makes a stream current in PyTorch. Does not change; any thread."""

    def __init__(self, current: Callable[[int], tuple[int, ...]], make_current: Callable[..., object], device: int, number: tuple[int, ...], tell: Callable[[tuple[Any, ...]], object]) -> None:
        """`current(device)` gives what ``make_current(*number)`` takes."""

    def enter(self, arguments: tuple[Any, ...] = ()) -> tuple[int, ...]:
        """
        Makes it current for a body with these arguments; gives what `leave` takes.
        """

    def leave(self, before: tuple[int, ...]) -> None:
        """Makes current what was so before."""

class pytorch_task:
    """
    A task around a ``with`` block, with its stream current in PyTorch.

    ``with pytorch_task(ctx, *args) as tensors``: `args` are those of `context.task`. The block gets a tuple of tensors, one for each dependency that is no token (see `tensor_arg`), or None where there are none. What raises in the block fails the task; an error of the clean-up is raised only after a clean block, that of the stream before that of the task. On host machines the tensors are in host memory and there is no stream.

    Raises what `context.task` and `task.start` raise, and ImportError without PyTorch.
    """

    def __init__(self, ctx: millstream.context, *args: object) -> None:
        """Makes the task."""

    def __enter__(self) -> tuple[Any, ...] | None:
        """Starts the task; the tensors."""

    def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> None:
        """Takes the stream back and ends the task, whatever happens."""

    def __repr__(self) -> str: ...

class numba_task:
    """
    A task around a ``with`` block.

    ``with numba_task(ctx, *args, symbol=None) as (arrays, stream)``: the arguments are those of `context.task`. `arrays` is a tuple with one array for each dependency that is no token (see `get_arg_numba`); `stream` is ``task.stream_ptr()``, which the algorithms of `cuda.compute` take, and kernels through `external_stream`. What raises in the block fails the task; an error of its end is raised only after a clean block.

    Raises what `context.task` and `task.start` raise, and ImportError without Numba.
    """

    def __init__(self, ctx: millstream.context, *args: object, symbol: str | None = None) -> None:
        """Makes the task."""

    def __enter__(self) -> tuple[tuple[Any, ...], millstream.CudaStream]:
        """Starts the task; its arrays and its stream."""

    def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> None:
        """Ends the task."""

    def __repr__(self) -> str: ...

class configured_kernel:
    """
    A kernel of `millstream.interop.numba.jit` with a grid, a block, and maybe a place and a context. Does not change.
    """

    def __init__(self, kernel: object, configuration: object) -> None:
        """
        TypeError unless the configuration is ``grid, block``, with a place and a context if wanted.
        """

    def __call__(self, *args: Any, **options: Any) -> None:
        """Launches the kernel as a task; its positional deps become arrays."""

    def __repr__(self) -> str: ...
