# shellcheck shell=bash
# What the scripts need on a machine: looked for, and installed by name where it is missing.
#
# Rule: what is there is used and left as it is; what is installed is said, with the package's name.
# Sourced by the scripts beside this folder; sets ROOT (the repository) and works from any folder.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
# Read from Cargo.toml, so that there is one number.
RUST_NEEDED="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")"
readonly RUST_NEEDED
# Where rustup and cargo put their commands, also when the shell's profile does not say so.
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
# Where everything is built; a user's own target folder is respected, and means the same in every folder.
TARGET="$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")"
readonly TARGET
export CARGO_TARGET_DIR="$TARGET"

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        die "this needs root or sudo: $*"
    fi
}

# Installs Debian packages by name.
install_packages() {
    has apt-get || die "missing: $*; this system has no apt-get, so install them by hand"
    say "installing by apt-get: $*"
    if [ -z "${APT_IS_UP_TO_DATE:-}" ]; then
        as_root apt-get update -q >&2
        APT_IS_UP_TO_DATE=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >&2
}

# need_commands COMMAND=PACKAGE …: installs the packages of the commands that are missing.
need_commands() {
    local pair missing=()
    for pair in "$@"; do
        has "${pair%%=*}" || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

# A C and a C++ compiler with the C library's headers.
need_compilers() {
    need_commands cc=gcc c++=g++ ld=binutils
    printf '#include <stdlib.h>\n' | cc -E - >/dev/null 2>&1 || install_packages libc6-dev
}

# Whether cargo and rustc are there and new enough.
rust_is_fine() {
    local found
    has cargo && has rustc && found="$(rustc --version 2>/dev/null | cut -d' ' -f2)" &&
        [ "$(printf '%s\n' "$RUST_NEEDED" "$found" | sort -V | head -n1)" = "$RUST_NEEDED" ]
}

# Rust: what is there, else rustup's stable toolchain, else Debian's own newer packages.
need_rust() {
    rust_is_fine && return
    if has rustup; then
        say "installing by rustup: the stable toolchain (this project needs Rust $RUST_NEEDED)"
        rustup toolchain install stable --profile minimal -c rustfmt -c clippy >&2 || true
        export RUSTUP_TOOLCHAIN=stable
    else
        rustup_from_the_net || rust_from_debian
    fi
    hash -r
    rust_is_fine || die "Rust $RUST_NEEDED or newer is needed; found: $(rustc --version 2>&1)"
}

# cargo fmt and cargo clippy, for the tests.
need_rust_tools() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    if has rustup; then
        say "installing by rustup: rustfmt, clippy"
        rustup component add rustfmt clippy >&2
    else
        install_packages rustfmt-web rust-web-clippy
    fi
}

rustup_from_the_net() {
    local script
    need_commands curl=curl
    [ -e /etc/ssl/certs/ca-certificates.crt ] || install_packages ca-certificates
    script="$(mktemp)"
    say "installing by rustup: the stable toolchain"
    if curl --proto '=https' --tlsv1.2 -fsS --max-time 60 https://sh.rustup.rs -o "$script" &&
        sh "$script" -y -q --profile minimal -c rustfmt -c clippy --no-modify-path >&2; then
        # A cargo that is too old may stand before it on the path.
        export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
        rm -f "$script"
    else
        rm -f "$script"
        say "rustup cannot be reached"
        return 1
    fi
}

# Debian keeps a newer compiler beside its own, for the browsers.
rust_from_debian() {
    install_packages rustc-web cargo-web rustfmt-web rust-web-clippy ca-certificates
}

# valgrind, with the symbols of the C library that it cannot start without.
need_valgrind() {
    need_commands valgrind=valgrind
    valgrind -q /bin/true >/dev/null 2>&1 || install_packages libc6-dbg
}

need_python() { need_commands python3=python3; }

# The development dependencies of python/, in target/venv; sets PYTHON.
need_python_packages() {
    local folder="$TARGET/venv" wanted
    need_python
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
    wanted="$(python3 - "$ROOT/python/pyproject.toml" <<'PYTHON'
import re, sys
text = open(sys.argv[1]).read()
print(*re.findall(r'"([^"]+)"', re.search(r"^dev = \[(.*?)\]", text, re.M | re.S).group(1)))
PYTHON
)"
    PYTHON="$folder/bin/python"
    export PYTHON
    if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || ! "$PYTHON" -c '' 2>/dev/null; then
        say "installing by pip, into $folder: $wanted"
        rm -rf "$folder"
        python3 -m venv "$folder"
        # shellcheck disable=SC2086  # a list of names
        "$PYTHON" -m pip install --disable-pip-version-check --no-input $wanted >&2
        printf '%s\n' "$wanted" >"$folder/installed"
    fi
}
