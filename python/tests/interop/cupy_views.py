"""Our buffers and streams seen by CuPy, and CuPy's by us: one address on both sides."""

from __future__ import annotations

import gc

from checks import check, need, nvidia, run

cupy = need("cupy")
import llaisys_runtime as rt  # noqa: E402

device = nvidia()
N = 1 << 20


@check
def cupy_sees_our_buffer_through_the_array_interface() -> None:
    buffer = rt.Buffer(N, device)
    buffer.fill(5)
    array = cupy.asarray(buffer)
    assert array.data.ptr == buffer.address and array.dtype == cupy.uint8 and array.size == N
    assert bool((array == 5).all())
    array += 1
    cupy.cuda.Device().synchronize()
    out = bytearray(N)
    buffer.copy_to(out)
    assert out == b"\x06" * N
    buffer.close()
    del buffer
    gc.collect()
    other = rt.Buffer(N, device)
    other.fill(0)
    assert bool((array == 6).all())


@check
def cupy_sees_our_buffer_through_dlpack() -> None:
    with rt.Buffer(N, device) as buffer:
        buffer.fill(7)
        array = cupy.from_dlpack(buffer)
        assert array.data.ptr == buffer.address and bool((array == 7).all())
    del buffer
    gc.collect()
    assert bool((array == 7).all())


@check
def cupy_sees_it_on_a_stream_of_its_own() -> None:
    with rt.Stream(device) as ours, rt.Buffer(N, device) as buffer:
        buffer.fill(1, ours)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for array in (cupy.from_dlpack(buffer), cupy.asarray(buffer)):
                assert int(array.sum(dtype=cupy.int64)) == N
            stream.synchronize()


@check
def we_see_a_cupy_array() -> None:
    for array in (
        cupy.arange(N, dtype=cupy.float64),
        cupy.ones((3, 4, 5), dtype=cupy.complex64),
        cupy.zeros((0, 3)),
    ):
        with rt.Buffer.from_foreign(array) as foreign:
            assert foreign.nbytes == array.nbytes
            assert foreign.address == (array.data.ptr if array.size else 0)
            out = bytearray(array.nbytes)
            foreign.copy_to(out)
            assert out == cupy.asnumpy(array).tobytes()


class InterfaceOnly:
    """A CuPy array that has no DLPack."""

    def __init__(self, array) -> None:  # type: ignore[no-untyped-def]
        self.array = array

    @property
    def __cuda_array_interface__(self):  # type: ignore[no-untyped-def]
        return self.array.__cuda_array_interface__


@check
def we_see_it_through_the_array_interface_and_after_its_stream() -> None:
    with cupy.cuda.Stream(non_blocking=True), rt.Stream(device, non_blocking=True) as ours:
        array = cupy.zeros(N, dtype=cupy.uint8)
        for _ in range(50):
            array += 1
        for stream in (None, ours):
            with rt.Buffer.from_foreign(InterfaceOnly(array), stream) as foreign:
                assert foreign.address == array.data.ptr and foreign.device == device
                out = bytearray(N)
                foreign.copy_to(out, stream)
                assert out == b"\x32" * N


@check
def a_strided_array_is_refused() -> None:
    strided = cupy.zeros((8, 8))[:, ::2]
    for value in (strided, InterfaceOnly(strided)):
        try:
            rt.Buffer.from_foreign(value)
        except BufferError:
            continue
        raise AssertionError("taken")


@check
def cupys_streams_are_adopted() -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    array = cupy.zeros(N, dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    with rt.Stream.adopt(stream) as ours:
        assert ours.native_handle == stream.ptr
        rt.Buffer.from_foreign(array, ours).fill(4, ours)
        with stream:
            total = int(array.sum(dtype=cupy.int64))
        assert total == 4 * N
    with rt.Stream.adopt(cupy.cuda.Stream.null, device) as ours:
        ours.synchronize()
    stream.synchronize()


@check
def our_stream_is_used_by_cupy() -> None:
    with rt.Stream(device, non_blocking=True) as ours, rt.Buffer(N, device) as buffer:
        buffer.fill(1, ours)
        takes_protocol = hasattr(cupy.cuda.Stream, "from_external")
        external = (
            cupy.cuda.Stream.from_external(ours)
            if takes_protocol
            else cupy.cuda.ExternalStream(ours.native_handle)
        )
        assert external.ptr == ours.native_handle
        with external:
            array = cupy.ndarray(
                (N,),
                cupy.uint8,
                cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(buffer.address, N, buffer), 0),
            )
            array *= 3
        out = bytearray(N)
        buffer.copy_to(out, ours)
        assert out == b"\x03" * N


@check
def a_cublas_handle_lives_in_a_slot_of_our_stream() -> None:
    from cupy_backends.cuda.libs import cublas  # type: ignore[import-not-found]

    key, destroyed = rt.slot_key(), []

    def destroy(handle: int) -> None:
        cublas.destroy(handle)
        destroyed.append(handle)

    with rt.Stream(device) as ours:
        handle = cublas.create()
        ours.set_slot(key, handle, destroy)
        cublas.setStream(ours.get_slot(key), ours.native_handle)
    assert destroyed == [handle]


run()
