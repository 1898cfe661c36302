#!/usr/bin/env python3
"""Writes the linker script that puts the functions of the program's start next to each other.

    python3 .ci/startup_order.py PROGRAM... > crates/deepagents-cli/startup.ld

Needs valgrind, which records what runs from the start until the screens wait for a key. Run it again when the program
takes more memory at rest than `docs/src/screens.md` says: a function that is missing in the script costs a page.
"""

import bisect
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time


def record(program, home):
    """Starts the screens under valgrind, and returns its record once they have been still for five seconds, with the
    address at which the program was loaded."""
    out = os.path.join(home, "callgrind")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-instr=yes", "--log-file=/dev/null"]
    command += [program, "--model", "openai-chat:none", "--base-url", "http://127.0.0.1:9/v1"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tempfile.mkdtemp(dir=home))
        environment = {"HOME": home, "TERM": "xterm-256color", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        os.execvpe(command[0], command, environment | {"OPENAI_API_KEY": "none"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    last, seen = time.monotonic() + 60, b""
    while time.monotonic() < last + 5:
        if select.select([terminal], [], [], 0.1)[0]:
            data = os.read(terminal, 65536)
            seen, last = seen + data, time.monotonic()
            if b"\x1b[6n" in data:
                os.write(terminal, b"\x1b[1;1R")
            if b"\x1b[c" in data:
                os.write(terminal, b"\x1b[?62c")
    assert seen, "the program has drawn nothing"
    with open(f"/proc/{pid}/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))
    os.kill(pid, signal.SIGTERM)
    while select.select([terminal], [], [], 60)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:
            break
    os.waitpid(pid, 0)
    return open(out, errors="replace"), base


def executed(lines, program, base):
    """The addresses of the program's instructions in a record of callgrind."""
    names, addresses, file, address = {}, set(), None, 0
    for line in lines:
        if found := re.match(r"^c?ob=\((\d+)\)(?: (.*))?$", line):
            names.setdefault(found[1], found[2])
            if line.startswith("ob="):
                file = names[found[1]]
        elif found := re.match(r"^(?:([+-]?)(0x[0-9a-f]+|\d+)|\*) ", line):
            if found[2]:
                value = int(found[2], 0)
                address = {"": value, "+": address + value, "-": address - value}[found[1]]
            # Of a program whose functions are ordered already, valgrind does not know that they belong to it.
            if file in (program, "???"):
                addresses.add(address if file == program else address - base)
    return addresses


def path(symbol):
    """The parts of a symbol's name, without the hashes, which differ between builds and compilers."""
    if symbol.startswith("_ZN"):
        rest, parts = symbol[3:], []
        while (length := re.match(r"\d+", rest)) and not re.match(r"17h[0-9a-f]{16}E", rest):
            end = len(length[0]) + int(length[0])
            parts.append(rest[:end])
            rest = rest[end:]
        return ["_ZN", *parts, "17h"]
    if symbol.startswith("_R"):
        return [re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", symbol)]
    return [symbol + "\0"]


class Node:
    """The functions whose names begin with the same parts."""

    def __init__(self):
        self.children, self.size, self.used = {}, 0, 0

    def add(self, parts, size, used):
        self.size += size
        self.used += used
        if parts:
            self.children.setdefault(parts[0], Node()).add(parts[1:], size, used)

    def patterns(self, prefix=""):
        """Patterns for functions that run at the start, each with the share of its bytes that do. Where more than two
        thirds of the functions below a name run, it stands for all."""
        if not self.used:
            return
        if not self.children or (prefix and self.used > 2 * self.size / 3):
            yield prefix + "*", self.used / self.size
            return
        for part, child in self.children.items():
            yield from child.patterns(prefix + part)


def main():
    tree, total = Node(), 0
    for program in map(os.path.realpath, sys.argv[1:]):
        output = subprocess.run(["nm", "-S", "--defined-only", program], check=True, capture_output=True, text=True).stdout
        symbols = [line.split() for line in output.splitlines()]
        symbols = sorted((int(s[0], 16), int(s[1], 16), s[3]) for s in symbols if len(s) == 4 and s[2] in "tT")
        starts = [start for start, _, _ in symbols]
        used = set()
        with tempfile.TemporaryDirectory() as home:
            lines, base = record(program, home)
            for address in executed(lines, program, base):
                at = bisect.bisect_right(starts, address) - 1
                if at >= 0 and address < starts[at] + symbols[at][1]:
                    used.add(at)
        assert len(used) > 1000, f"the record names only {len(used)} functions of {program}"
        for at, (_, size, symbol) in enumerate(symbols):
            tree.add(path(symbol), size, size if at in used else 0)
    patterns = sorted(tree.patterns())
    print("/* Puts the functions of the program's start next to each other. Written by .ci/startup_order.py. */")
    print("SECTIONS\n{\n    .text.startup_order :\n    {")
    # Most instances of a generic function do not run at the start. They come last, so that they do not spread the others.
    for wanted in (True, False):
        names = [name.replace("\0*", "") for name, share in patterns if (share >= 0.4) == wanted]
        print("        *(\n            .text.{}\n        )".format("\n            .text.".join(names)))
    print("    }\n}\nINSERT BEFORE .text")
    print(f"{len(patterns)} patterns for {tree.used} bytes of functions", file=sys.stderr)


main()
