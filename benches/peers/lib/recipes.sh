# shellcheck shell=bash
# What the recipes of peers.toml share. A need_… says in a line what is not there, and fails.

missing() {
    echo "$*"
    exit 1
}

# need_library NAME DEBIAN-PACKAGE
need_library() {
    # Not grep -q, which ends at the first match: ldconfig would then fail, and with it the pipe.
    PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | grep "^[[:space:]]*$1 " >/dev/null || missing "there is no $1: apt-get install $2"
}

# need_file PATH DEBIAN-PACKAGE
need_file() {
    [ -e "$1" ] || missing "there is no $1: apt-get install $2"
}

need_gpu() {
    "$PYTHON" - "${LLAISYS_CUDA_DRIVER:-libcuda.so.1}" <<'TEXT' || missing "there is no GPU of NVIDIA's"
import ctypes
import sys

try:
    driver = ctypes.CDLL(sys.argv[1])
except OSError:
    sys.exit(1)
count = ctypes.c_int(0)
sys.exit(0 if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value else 1)
TEXT
}

# The folder of a Python package, which is not imported.
package() {
    "$PYTHON" -c 'import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1])
places = list(found.submodule_search_locations or []) if found else []
print(places[0]) if places else sys.exit(1)' "$1"
}

# need_package NAME PACKAGE-OF-PYPI
need_package() {
    package "$1" >/dev/null 2>&1 || missing "Python has no $1: pip install $2"
}

# The folder of CUDA's headers.
cuda_headers() {
    local place folder torch compiler
    compiler="$(command -v nvcc || true)"
    torch="$(package torch 2>/dev/null || true)"
    for place in "${CUDA_HOME:-}" "${compiler:+$(dirname "$(dirname "$(readlink -f "$compiler")")")}" \
        /usr/local/cuda "${torch:+$torch/../nvidia/cu13}"; do
        for folder in "$place/include" "$place/targets/x86_64-linux/include"; do
            if [ -f "$folder/cuda_runtime_api.h" ] && [ -f "$folder/crt/host_defines.h" ]; then
                echo "$folder"
                return
            fi
        done
    done
    return 1
}

need_cuda_headers() {
    cuda_headers >/dev/null || missing "there are no headers of CUDA's: nvcc in the PATH, or CUDA_HOME"
}

cuda_flags() {
    echo "-isystem $(cuda_headers)"
}

# CUDA's runtime: PyTorch's, which is the one that its libraries use, else the toolkit's.
cudart() {
    local headers torch folder
    headers="$(cuda_headers)"
    torch="$(package torch 2>/dev/null || true)"
    for folder in "${torch:+$torch/../nvidia/cu13/lib}" "$headers/../lib64" "$headers/../lib" \
        "$headers/../../../lib64"; do
        if [ -e "$folder/libcudart.so.13" ]; then
            echo "-L$folder -Wl,-rpath,$folder -l:libcudart.so.13"
            return
        fi
    done
    echo "-lcudart"
}

torch_flags() {
    local torch
    torch="$(package torch)"
    echo "-isystem $torch/include -L$torch/lib -Wl,-rpath,$torch/lib"
}

rmm_flags() {
    local rmm logger
    rmm="$(package librmm)"
    logger="$(package rapids_logger)"
    echo "-isystem $rmm/include/rapids -isystem $rmm/include -isystem $logger/include" \
        "-L$rmm/lib64 -L$logger/lib64 -Wl,-rpath,$rmm/lib64 -Wl,-rpath,$logger/lib64"
}
