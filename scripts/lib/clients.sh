# shellcheck shell=bash
# The clients in C, C++ and Python, made ready to run from one folder.
#
# Rule: they are compiled as a user would do it, against include/ and a built library, with all
# warnings as errors. Sourced after setup.sh.

# build_clients FOLDER LIBRARY-FOLDER [RPATH]: c/ cpp/ and python/ in FOLDER.
build_clients() {
    local folder="$1" library="$2" rpath="${3:-$2}" name language
    local flags=(-O2 -Wall -Wextra -pedantic -Werror "-I$ROOT/include")
    local link=("-L$library" -lllaisys_runtime "-Wl,-rpath,$rpath")
    mkdir -p "$folder/c" "$folder/cpp" "$folder/python"
    for name in "$ROOT"/tests/clients/c/*.c; do
        language="$folder/c/$(basename "$name" .c)"
        say "cc $(basename "$name")"
        cc -std=c11 "${flags[@]}" "$name" -o "$language" "${link[@]}" -lpthread
    done
    for name in "$ROOT"/tests/clients/cpp/*.cpp; do
        language="$folder/cpp/$(basename "$name" .cpp)"
        say "c++ $(basename "$name")"
        c++ -std=c++17 "${flags[@]}" "$name" -o "$language" "${link[@]}" -lpthread
    done
    cp "$ROOT"/tests/clients/python/*.py "$folder/python/"
    export PYTHONPATH="$ROOT/python${PYTHONPATH:+:$PYTHONPATH}"
}
