"""LLAISYS's runtime test over our library, from nothing but LLAISYS's own ABI.

Rule: this client knows ctypes, two exported functions and the struct of twelve function pointers as
LLAISYS has them, and nothing of this repository: it is what an existing LLAISYS user runs.

    python llaisys_test_runtime.py --device cpu|nvidia --library target/release/libllaisys_runtime.so
"""

import argparse
import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, c_int, c_size_t, c_void_p

H2D, D2H, D2D = 1, 2, 3
DEVICE_TYPES = {"cpu": 0, "nvidia": 1}
SIZE = 64 << 10


class LlaisysRuntimeAPI(ctypes.Structure):
    _fields_ = [
        ("get_device_count", CFUNCTYPE(c_int)),
        ("set_device", CFUNCTYPE(None, c_int)),
        ("device_synchronize", CFUNCTYPE(None)),
        ("create_stream", CFUNCTYPE(c_void_p)),
        ("destroy_stream", CFUNCTYPE(None, c_void_p)),
        ("stream_synchronize", CFUNCTYPE(None, c_void_p)),
        ("malloc_device", CFUNCTYPE(c_void_p, c_size_t)),
        ("free_device", CFUNCTYPE(None, c_void_p)),
        ("malloc_host", CFUNCTYPE(c_void_p, c_size_t)),
        ("free_host", CFUNCTYPE(None, c_void_p)),
        ("memcpy_sync", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int)),
        ("memcpy_async", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int, c_void_p)),
    ]


def pattern(seed: int) -> bytes:
    return bytes((seed + 7 * index) % 251 for index in range(SIZE))


def check(what: str, found: bytes, wanted: bytes) -> None:
    if found != wanted:
        first = next(i for i, (f, w) in enumerate(zip(found, wanted)) if f != w)
        raise SystemExit(f"{what}: byte {first} is {found[first]}, not {wanted[first]}")


def test_sync(api: LlaisysRuntimeAPI) -> None:
    """Host → device → other device buffer → host with memcpy_sync."""
    wanted = pattern(1)
    source = ctypes.create_string_buffer(wanted, SIZE)
    target = ctypes.create_string_buffer(SIZE)
    first, second = api.malloc_device(SIZE), api.malloc_device(SIZE)
    if not first or not second:
        raise SystemExit("malloc_device returned NULL")
    api.memcpy_sync(first, ctypes.addressof(source), SIZE, H2D)
    api.memcpy_sync(second, first, SIZE, D2D)
    api.memcpy_sync(ctypes.addressof(target), second, SIZE, D2H)
    check("memcpy_sync", target.raw, wanted)
    api.free_device(first)
    api.free_device(second)


def test_async(api: LlaisysRuntimeAPI) -> None:
    """The same with memcpy_async on a stream, from and to pinned memory."""
    wanted = pattern(2)
    stream = api.create_stream()
    if not stream:
        raise SystemExit("create_stream returned NULL")
    source, target = api.malloc_host(SIZE), api.malloc_host(SIZE)
    first, second = api.malloc_device(SIZE), api.malloc_device(SIZE)
    if not (source and target and first and second):
        raise SystemExit("an allocation returned NULL")
    ctypes.memmove(source, wanted, SIZE)
    ctypes.memset(target, 0, SIZE)
    api.memcpy_async(first, source, SIZE, H2D, stream)
    api.memcpy_async(second, first, SIZE, D2D, stream)
    api.memcpy_async(target, second, SIZE, D2H, stream)
    api.stream_synchronize(stream)
    check("memcpy_async", ctypes.string_at(target, SIZE), wanted)
    api.device_synchronize()
    for pointer in (first, second):
        api.free_device(pointer)
    for pointer in (source, target):
        api.free_host(pointer)
    api.destroy_stream(stream)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=sorted(DEVICE_TYPES), default="cpu")
    parser.add_argument("--library", required=True, help="the path of libllaisys_runtime.so")
    arguments = parser.parse_args()

    library = ctypes.CDLL(arguments.library)
    library.llaisysGetRuntimeAPI.argtypes = [c_int]
    library.llaisysGetRuntimeAPI.restype = POINTER(LlaisysRuntimeAPI)
    library.llaisysSetContextRuntime.argtypes = [c_int, c_int]
    library.llaisysSetContextRuntime.restype = None

    device_type = DEVICE_TYPES[arguments.device]
    api = library.llaisysGetRuntimeAPI(device_type).contents
    count = api.get_device_count()
    print(f"Found {count} {arguments.device} devices")
    if count <= 0:
        print(f"Test skipped: there is no {arguments.device} device", file=sys.stderr)
        return 1
    for device in range(count):
        print(f"Testing device {device}")
        library.llaisysSetContextRuntime(device_type, device)
        api.set_device(device)
        test_sync(api)
        test_async(api)
    print("Test passed!")
    return 0


if __name__ == "__main__":
    sys.exit(main())
