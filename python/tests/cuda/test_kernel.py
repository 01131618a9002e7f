# SPDX-License-Identifier: Apache-2.0
"""`cuda_kernel` on the CUDA machine: the test kernels, by their handles and as packages have them.

Objects of CuPy, Numba and Triton are stood for by classes with the attributes that are looked at;
test_kernel_packages.py has the real ones.
"""

import ctypes
import gc
import types
import weakref

import millstream as stf
import numpy as np
import pytest
from cuda_driver import KERNELS, DeviceArray, word

N = 300


def needs_graphs(machine):
    if "graphs" not in machine.capabilities:
        pytest.skip("needs a machine with graphs")


@pytest.fixture(params=[False, True], ids=["immediate", "recorded"])
def ctx(request, machine):
    if request.param:
        needs_graphs(machine)
    context = stf.context(use_graph=request.param, machine=machine)
    yield context
    context.finalize()


@pytest.fixture
def function(driver):
    """Handles of the test kernels, as CUfunction."""
    return driver._function


@pytest.fixture
def library_kernel(driver):
    """The same as CUkernel."""

    def call(name, *arguments):
        """Not all drivers export the name."""
        found, answer = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuGetProcAddress_v2", name, ctypes.byref(found), 12000, word(0), None)
        function = ctypes.CFUNCTYPE(ctypes.c_int)(found.value)
        assert function(ctypes.byref(answer), *arguments) == 0
        return answer

    image = ctypes.c_char_p(KERNELS.read_bytes() + b"\0")
    library = call(b"cuLibraryLoadData", image, None, None, 0, None, None, 0)
    return lambda name: call(b"cuLibraryGetKernel", library, name.encode()).value


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.ones(N), name="x")


@pytest.fixture
def y(ctx):
    return ctx.logical_data(np.zeros(N), name="y")


def launch_axpy(ctx, kernel, x, y, *factors):
    with ctx.cuda_kernel(x.read(), y.rw(), symbol="axpy") as k:
        dx, dy = k.get_arg(0), k.get_arg(1)
        for factor in factors:
            k.launch(kernel, (4,), (64,), [dy, dx, factor, N])


def test_function_as_an_int(ctx, function, x, y):
    launch_axpy(ctx, function("test_axpy_f64"), x, y, 1.0)
    launch_axpy(ctx, function("test_axpy_f64"), x, y, np.float64(2))
    assert ctx.wait(y).tolist() == [3] * N


def test_kernel_of_a_library_as_an_int(ctx, library_kernel, x, y):
    launch_axpy(ctx, library_kernel("test_axpy_f64"), x, y, 3.0)
    assert ctx.wait(y).tolist() == [3] * N


def test_object_with_a_handle(ctx, library_kernel, x, y):
    class Handle:
        def __int__(self):
            return library_kernel("test_axpy_f64")

    class Kernel:
        _handle = Handle()

    launch_axpy(ctx, Kernel(), x, y, 3.0)
    assert ctx.wait(y).tolist() == [3] * N


def test_fifty_accumulations(any_order, ctx, function, x, y):
    for i in range(50):
        launch_axpy(ctx, function("test_axpy_f64"), x, y, ctypes.c_double(i))
    assert ctx.wait(y).tolist() == [50 * 49 / 2] * N


@pytest.mark.parametrize("collections", [0, 5])
def test_a03_each_launch_keeps_its_own_arguments(any_order, ctx, function, x, y, collections):
    kernel, changed = function("test_axpy_f64"), ctypes.c_double()
    with ctx.cuda_kernel(x.read(), y.rw()) as k:
        dx, dy = k.get_arg(0), k.get_arg(1)
        for value in (1, 10, 100):
            changed.value = value
            k.launch(kernel, 4, 64, [dy, dx, changed, N])
        k.launch(kernel, 4, 64, [dy, dx, ctypes.c_double(1000), N])
        changed.value = 77
        for _ in range(collections):
            gc.collect()
    assert ctx.wait(y).tolist() == [1111] * N


def test_kinds_of_arguments(ctx, function, x, y):
    kernel = function("test_axpy_f64")
    pointers = [
        lambda k, i: k.get_arg(i),
        lambda k, i: k.get_arg_cai(i),
        lambda k, i: ctypes.c_void_p(k.get_arg(i)),
        lambda k, i: np.uint64(k.get_arg(i)),
        lambda k, i: types.SimpleNamespace(
            __cuda_array_interface__={"data": (k.get_arg(i), False)}
        ),
    ]
    counts = [N, np.int64(N), np.uint64(N), ctypes.c_uint64(N), np.array(N)]
    for pointer, count in zip(pointers, counts, strict=True):
        with ctx.cuda_kernel(x.read(), y.rw()) as k:
            k.launch(kernel, 4, 64, [pointer(k, 1), pointer(k, 0), 1.0, count])
    assert ctx.wait(y).tolist() == [len(counts)] * N


def test_an_int_has_the_size_of_its_parameter(ctx, function):
    data = ctx.logical_data_empty((N,), np.uint32)
    for value, expected in ((7, 7), (True, 1), (2**32 - 1, 2**32 - 1), (-1, 2**32 - 1)):
        with ctx.cuda_kernel(data.write()) as k:
            k.launch(function("test_fill_u32"), 4, 64, [k.get_arg(0), value, N])
        assert ctx.wait(data).tolist() == [expected] * N
    with ctx.cuda_kernel(data.write()) as k:
        for value in (2**32, -(2**31) - 1):
            with pytest.raises(ValueError, match="argument 1, which has 4 bytes there"):
                k.launch(function("test_fill_u32"), 4, 64, [k.get_arg(0), value, N])


def test_wrong_arguments_are_refused(ctx, function, x, y):
    kernel = function("test_axpy_f64")
    with ctx.cuda_kernel(x.read(), y.rw(), symbol="k") as k:
        good = [k.get_arg(1), k.get_arg(0), 1.0, N]
        with pytest.raises(ValueError, match=r"'k'.*'test_axpy_f64' with 3 arguments; it takes 4"):
            k.launch(kernel, 4, 64, good[:3])
        with pytest.raises(ValueError, match="argument 2 of 4 bytes, which has 8 bytes there"):
            k.launch(kernel, 4, 64, [*good[:2], np.float32(1), N])
        for wrong in (np.zeros(3), "text", b"text", None, object(), [1], np.str_("x")):
            with pytest.raises(TypeError, match="argument 2 of a kernel"):
                k.launch(kernel, 4, 64, [*good[:2], wrong, N])
        with pytest.raises(OverflowError):
            k.launch(kernel, 4, 64, [1 << 64, *good[1:]])
        k.launch(kernel, 4, 64, good)
    assert ctx.wait(y).tolist() == [1] * N


def test_order_of_checks(ctx, function, y):
    kernel = function("test_scale_f64")
    with ctx.cuda_kernel(y.rw()) as k:
        with pytest.raises(TypeError, match="kernel of type object cannot be launched"):
            k.launch(object(), 0, 0, [object()])
        with pytest.raises(ValueError, match=r"'grid'.*positive"):
            k.launch(kernel, 0, 0, [object()])
        with pytest.raises(ValueError, match=r"'block'.*positive"):
            k.launch(kernel, 1, (1, 0), [object()])
        with pytest.raises(TypeError, match="argument 0"):
            k.launch(kernel, 1, 1, [object()])
        with pytest.raises(OverflowError):
            k.launch(-1, 1, 1, [])
        with pytest.raises(OverflowError):
            k.launch(kernel, 1, 1, [], shmem=-1)


def test_exception_of_launch_leaves_the_data_as_they_were(ctx, function, x, y):
    def launch_with_grids(*grids):
        with ctx.cuda_kernel(x.read(), y.rw()) as k:
            for grid in grids:
                k.launch(function("test_axpy_f64"), grid, 64, [k.get_arg(1), k.get_arg(0), 1.0, N])

    with pytest.raises(ValueError, match="positive"):
        launch_with_grids(4, 0)
    launch_axpy(ctx, function("test_axpy_f64"), x, y, 2.0)
    assert ctx.wait(y).tolist() == [2] * N


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"grid": (1, 65536)}, r"grid \(1, 65536, 1\), .* takes at most 65535 in y"),
        ({"grid": (1, 1, 65536)}, r"grid \(1, 1, 65536\), .* takes at most 65535 in z"),
        ({"block": 2048}, r"block \(2048, 1, 1\), .* takes at most 1024 in x"),
        ({"block": (1, 1, 65)}, r"block \(1, 1, 65\), .* takes at most 64 in z"),
        ({"block": (64, 32)}, r"a block of 2048 threads, and .* takes at most 1024"),
        ({"shmem": 1 << 22}, r"4194304 bytes of dynamic shared memory, and .* has at most \d+"),
    ],
)
def test_launch_that_passes_a_limit_of_the_device_says_which(ctx, function, y, how, text):
    shape = {"grid": 1, "block": 64} | how
    with pytest.raises(ValueError, match=text) as caught, ctx.cuda_kernel(y.rw(), symbol="k") as k:
        k.launch(function("test_scale_f64"), **shape, args=[k.get_arg(0), 2.0, N])
    assert "'k'" in str(caught.value)
    launch_axpy(ctx, function("test_axpy_f64"), y, y, 1.0)  # nothing else has failed
    ctx.finalize()


def test_launch_that_passes_a_limit_of_the_kernel_says_which(ctx, function, y):
    text = r"asks for 65536 bytes of dynamic shared memory, and .* at most \d+ unless"
    with pytest.raises(stf.Error, match=text) as caught, ctx.cuda_kernel(y.rw(), symbol="k") as k:
        k.launch(function("test_scale_f64"), 1, 64, [k.get_arg(0), 2.0, N], shmem=1 << 16)
    assert "predecessor" not in str(caught.value)
    assert "'k'" in str(caught.value)


def test_two_devices_and_the_place_of_a_dependency(ctx, two_devices, driver, library_kernel, y):
    kernel = library_kernel("test_fill_f64")  # one handle serves every device
    for device in (1, 0):
        with ctx.cuda_kernel(stf.exec_place.device(device), y.write()) as k:
            k.launch(kernel, 4, 64, [k.get_arg(0), float(device), N])
        assert ctx.wait(y).tolist() == [device] * N
    with ctx.cuda_kernel(stf.exec_place.device(0), y.rw(stf.data_place.device(1))) as k:
        assert k.get_arg_cai(0).__dlpack_device__() == (2, 1)


def test_nothing_is_current_afterwards(ctx, driver, function, x, y):
    driver.use(None)
    launch_axpy(ctx, function_of_primary(driver), x, y, 1.0)
    with ctx.cuda_kernel(y.rw()) as k:
        k.get_arg_cai(0)
    assert driver.current() is None
    assert ctx.wait(y).tolist() == [1] * N


def function_of_primary(driver):
    driver.use(driver.primary())
    found = driver._function("test_axpy_f64")
    driver.use(None)
    return found


def test_one_launch_call_per_launch_and_nothing_else(look_alike, machine, function):
    ctx = stf.context(machine=machine)
    x, y = ctx.logical_data(np.ones(N)), ctx.logical_data(np.zeros(N))
    launch_axpy(ctx, function("test_axpy_f64"), x, y, 1.0)
    names = ("cuLaunchKernel", "cuLaunchKernelEx", "cuEventRecord", "cuStreamWaitEvent")
    before = [look_alike.count(name) for name in names]
    for _ in range(10):
        launch_axpy(ctx, function("test_axpy_f64"), x, y, 1.0, 2.0)
    after = [look_alike.count(name) for name in names]
    launches = after[0] - before[0] + after[1] - before[1]
    assert (launches, after[2:]) == (20, before[2:])
    ctx.finalize()


class HandleHolder:
    """A kernel as cuda.core has it."""

    def __init__(self, handle):
        self._handle = handle


@pytest.mark.parametrize("use_graph", [False, True])
@pytest.mark.parametrize("as_int", [False, True])
def test_a_known_kernel_is_one_call(look_alike, machine, function, use_graph, as_int):
    """A handle may come again for another kernel, so one more call looks at it."""
    if use_graph:
        needs_graphs(machine)
    handle = function("test_axpy_f64")
    kernel = handle if as_int else HandleHolder(handle)
    with stf.context(use_graph=use_graph, machine=machine) as ctx:
        x, y = ctx.logical_data(np.ones(N)), ctx.logical_data(np.zeros(N))
        launch_axpy(ctx, kernel, x, y, 1.0)
        ctx.fence()
        names = ("cuLaunchKernel", "cuGraphAddKernelNode", "cuFuncGetParamInfo", "cuFuncGetName",
                 "cuKernelGetFunction")  # fmt: skip
        before = [look_alike.count(name) for name in names]
        for _ in range(10):
            launch_axpy(ctx, kernel, x, y, 1.0, 2.0)
        made = [look_alike.count(name) - old for name, old in zip(names, before, strict=True)]
        looks = 20 if as_int else 0
        assert made == [0 if use_graph else 20, 20 if use_graph else 0, looks, 0, 0]


def double(ctx, kernel, data, **how):
    with ctx.cuda_kernel(data.rw(), symbol="double") as k:
        k.launch(kernel, (4,), (64,), [k.get_arg(0), 2.0, N], **how)


def test_recorded_programmatic_launches(any_order, machine, function):
    """They may begin early, as far as these kernels allow it: they do not."""
    needs_graphs(machine)
    values = np.ones(N)
    with stf.context(use_graph=True, machine=machine) as ctx:
        x = ctx.logical_data(values)
        for programmatic in (True, False, True):
            for _ in range(10):
                double(ctx, function("test_scale_f64"), x, programmatic=programmatic)
            ctx.fence()
        stats = ctx.stats()
        assert (stats["instantiations"], stats["refused_updates"]) == (3, 0)
        double(ctx, function("test_scale_f64"), x)
        double(ctx, function("test_scale_f64"), x, programmatic=True)
    assert values.tolist() == [2.0**32] * N


def test_recorded_programmatic_launches_have_edges_of_their_own(look_alike, machine, function):
    needs_graphs(machine)
    names = ("cuGraphAddKernelNode", "cuGraphAddNode", "cuGraphKernelNodeSetAttribute")
    with stf.context(use_graph=True, machine=machine) as ctx:
        x = ctx.logical_data(np.ones(N))
        double(ctx, function("test_scale_f64"), x)
        ctx.fence()
        before = [look_alike.count(name) for name in names]
        for _ in range(10):
            double(ctx, function("test_scale_f64"), x, programmatic=True)
        made = [look_alike.count(name) - old for name, old in zip(names, before, strict=True)]
        assert made == [1, 9, 0]


def test_recorded_launch_is_one_node(machine, function):
    needs_graphs(machine)
    source = np.zeros(N)
    ctx = stf.context(use_graph=True, machine=machine)
    x, y = ctx.logical_data(np.ones(N)), ctx.logical_data(source)
    for stage in range(3):
        for _ in range(10):
            launch_axpy(ctx, function("test_axpy_f64"), x, y, 1.0, 10.0)
        ctx.fence()
        counts = ctx.stats()
        assert counts["nodes"] - counts["copies"] == 20 * (stage + 1)
        assert counts["child_graphs"] == 0
    assert (counts["stages"], counts["updates"]) == (3, 1)  # the first stage has the copies, too
    ctx.finalize()
    assert source.tolist() == [330] * N


def test_poisoned_input_skips_the_task(ctx, function, x, y):
    def fail(view):
        raise ValueError("boom")

    ctx.submit(fail, x.rw(), symbol="bad")
    with ctx.cuda_kernel(x.read(), y.rw()) as k:
        assert (k.get_arg(0), k.get_arg_cai(1).ptr) == (0, 0)
        k.launch(function("test_axpy_f64"), 4, 64, [0, 0, 1.0, N])
    with pytest.raises(ValueError, match="boom"):
        ctx.wait(y)
    with pytest.raises(stf.PoisonedError, match="'bad'"):
        ctx.wait(y)


@pytest.mark.parametrize("use_graph", [False, True])
def test_a14_kernel_object_is_kept_until_the_context_ends(machine, function, use_graph):
    if use_graph:
        needs_graphs(machine)

    class Kernel:
        def __init__(self):
            self._handle = function("test_axpy_f64")
            self.cycle = self

    source = np.zeros(N)
    with stf.context(use_graph=use_graph, machine=machine) as ctx:
        x, y = ctx.logical_data(np.ones(N)), ctx.logical_data(source)
        kernel = Kernel()
        alive = weakref.ref(kernel)
        launch_axpy(ctx, kernel, x, y, 1.0)
        del kernel
        for _ in range(3):
            launch_axpy(ctx, Kernel(), x, y, 1.0)
            gc.collect()
        assert alive() is not None
    gc.collect()
    assert alive() is None
    assert source.tolist() == [4] * N


def test_handle_that_comes_again_for_another_kernel(look_alike, ctx, y):
    """A handle says nothing about its kernel once its owner has unloaded it."""
    image = ctypes.c_char_p(KERNELS.read_bytes() + b"\0")
    for name, arguments in (("test_fill_f64", [2.0, N]), ("test_scale_f64", [3.0, N])) * 4:
        module = look_alike.get(ctypes.c_void_p, "cuModuleLoadData", image)
        handle = look_alike.get(ctypes.c_void_p, "cuModuleGetFunction", ctypes.c_void_p(module),
                                name.encode())  # fmt: skip
        with ctx.cuda_kernel(y.rw()) as k:
            k.launch(handle, 4, 64, [k.get_arg(0), *arguments])
        assert ctx.wait(y).tolist() == [6 if name == "test_scale_f64" else 2] * N
        look_alike.call("cuModuleUnload", ctypes.c_void_p(module))


# --- kernels as other packages have them


def test_raw_kernel_of_cupy(ctx, driver, function, x, y):
    compiled = []

    class RawKernel:
        enable_cooperative_groups = False

        @property
        def kernel(self):
            compiled.append(driver.current() == driver.primary(0))
            return types.SimpleNamespace(ptr=function("test_axpy_f64"))

    driver.use(None)
    kernel = RawKernel()
    launch_axpy(ctx, kernel, x, y, 0.5, 0.5)
    launch_axpy(ctx, kernel, x, y, 1.0)
    assert compiled == [True]  # it is asked once
    assert driver.current() is None
    assert ctx.wait(y).tolist() == [2] * N


class Array:
    def __init__(self, ndim, dtype):
        self.ndim, self.dtype = ndim, dtype

    def __str__(self):
        return f"array({self.dtype}, {self.ndim}d, C)"


class Float:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


class Integer(Float):
    pass


def numba_kernel(function, name, *argument_types, versions=1):
    cufunc = types.SimpleNamespace(handle=ctypes.c_void_p(function(name)))
    compiled = types.SimpleNamespace(
        bind=lambda: None, cooperative=False, argument_types=argument_types,
        _codelibrary=types.SimpleNamespace(get_cufunc=lambda: cufunc),
    )  # fmt: skip
    return types.SimpleNamespace(overloads=dict(enumerate([compiled] * versions)))


def test_numba_kernel_with_scalars(ctx, function):
    data = ctx.logical_data_empty((N,), np.float64)
    kernel = numba_kernel(function, "test_fill_f64", Integer("uint64"), Float("float64"),
                          Integer("int64"))  # fmt: skip
    with ctx.cuda_kernel(data.write()) as k:
        k.launch(kernel, 4, 64, [k.get_arg(0), 2, N])
        with pytest.raises(TypeError, match="takes 3 arguments, not 2"):
            k.launch(kernel, 4, 64, [k.get_arg(0), 2])
        with pytest.raises(TypeError, match="2 compiled versions"):
            k.launch(numba_kernel(function, "test_fill_f64", versions=2), 4, 64, [])
    assert ctx.wait(data).tolist() == [2] * N


def test_numba_array_is_expanded(ctx):
    from millstream import _kernel

    data = ctx.logical_data_empty((3, 5), np.float32)
    with ctx.cuda_kernel(data.write()) as k:
        view, pointer = k.get_arg_cai(0), k.get_arg(0)
        expanded = _kernel._expand_numba([Array(2, "float32")], [view])
        assert expanded == [0, 0, 15, 4, pointer, 3, 5, 20, 4]
        for wrong in (Array(1, "float32"), Array(2, "float64")):
            with pytest.raises(TypeError, match="argument 0 of a Numba kernel is array"):
                _kernel._expand_numba([wrong], [view])
        with pytest.raises(TypeError, match=r"pass get_arg_cai\(i\)"):
            _kernel._expand_numba([Array(2, "float32")], [pointer])


def triton_kernel(function, name, signature, **more):
    metadata = types.SimpleNamespace(num_warps=2, num_ctas=1, shared=48, cluster_dims=(1, 1, 1),
                                     **more)  # fmt: skip
    source = types.SimpleNamespace(signature=signature, constants={})
    return types.SimpleNamespace(function=function(name), metadata=metadata, src=source)


def test_compiled_kernel_of_triton(ctx, function, x, y):
    signature = {"y": "*fp64", "x": "*fp64", "a": "fp64", "n": "i64", "BLOCK": "constexpr"}
    kernel = triton_kernel(function, "test_axpy_f64", signature)
    with ctx.cuda_kernel(x.read(), y.rw()) as k:
        args = [k.get_arg_cai(1), k.get_arg(0), 3, N]
        k.launch(kernel, (4,), None, args)
        k.launch(kernel, 4, 64, args)
        with pytest.raises(ValueError, match="compiled for 64 threads"):
            k.launch(kernel, 4, 32, args)
        with pytest.raises(TypeError, match="leave the constexpr ones out"):
            k.launch(kernel, 4, None, [*args, 64])
        scratch = triton_kernel(function, "test_axpy_f64", signature, global_scratch_size=128)
        with pytest.raises(stf.UnsupportedError, match="scratch memory"):
            k.launch(scratch, 4, None, args)
    assert ctx.wait(y).tolist() == [6] * N


def test_hidden_arguments_of_triton(ctx, function):
    signature = {"y": "*fp64", "x": "*fp64"}
    kernel = triton_kernel(function, "test_add_f64", signature, global_scratch_size=0,
                           profile_scratch_size=0)  # fmt: skip
    data = ctx.logical_data(np.full(N, 4.0))
    with ctx.cuda_kernel(data.rw()) as k:
        k.launch(kernel, 4, None, [k.get_arg(0), k.get_arg(0)])  # y, x, 0, 0: adds nothing
    assert ctx.wait(data).tolist() == [4] * N


def test_scalars_of_ml_dtypes(ctx):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from millstream import _kernel

    converted = _kernel.convert(ml_dtypes.bfloat16(1.0), 0)
    assert (type(converted), converted.value) == (ctypes.c_uint16, 0x3F80)


def test_device_arrays_of_the_user(ctx, driver, function, y):
    own = DeviceArray(driver, np.full(N, 5.0))
    with ctx.cuda_kernel(y.rw()) as k:
        k.launch(function("test_axpy_f64"), 4, 64, [k.get_arg(0), own, 2.0, word(N)])
    assert ctx.wait(y).tolist() == [10] * N
    driver.free(own.pointer)
