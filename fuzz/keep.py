#!/usr/bin/env python3
"""Reduces a corpus to a few inputs.

Keeps every input with a name of its own, because it once found a bug. Then it repeatedly adds the input that covers the
most code that no earlier one covers, up to MOST_FILES.

    keep.py TARGET KEPT FOUND
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Upper bound on the chosen inputs per target. The repository contains them, and every test run decodes them.
MOST_FILES = 14
# Upper bound on the size of a chosen input, in bytes. Larger inputs are hard to read and slow to decode.
MOST_BYTES = 4_096


def broke_something(file):
    return not re.fullmatch("[0-9a-f]{16}|seed-.*", file.name)


def reached(target, files):
    """Returns for each file the code locations that it covers."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        inputs, merged, control = directory / "inputs", directory / "merged", directory / "control"
        inputs.mkdir()
        merged.mkdir()
        for number, file in enumerate(files):
            shutil.copy(file, inputs / f"{number:06}")
        command = [target, "-merge=1", f"-merge_control_file={control}", merged, inputs]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(directory)})
        lines = control.read_text().splitlines()
    count = int(lines[0])
    names = [pathlib.Path(line).name for line in lines[2 : 2 + count]]
    places = {}
    for line in lines[2 + count :]:
        kind, number, *rest = line.split()
        if kind in ("FT", "COV"):
            places.setdefault(files[int(names[int(number)])], set()).update((kind, place) for place in rest)
    return places


def main():
    target, kept, found = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    stays = [(file.name, file.read_bytes()) for file in sorted(kept.iterdir()) if broke_something(file)]
    files = [file for file in sorted(kept.iterdir()) if not broke_something(file)] + sorted(found.iterdir())
    files = [file for file in files if file.stat().st_size <= MOST_BYTES]
    # Prefer small inputs, because developers read them.
    files.sort(key=lambda file: file.stat().st_size)
    left = reached(target.resolve(), files)
    chosen, covered = [], set()
    while left and len(chosen) < MOST_FILES:
        best = max(left, key=lambda file: (len(left[file] - covered), -file.stat().st_size))
        if not left[best] - covered:
            break
        covered |= left.pop(best)
        chosen.append((best.name if best.parent == kept else None, best.read_bytes()))
    shutil.rmtree(kept)
    kept.mkdir()
    for name, content in stays + chosen:
        (kept / (name or hashlib.sha256(content).hexdigest()[:16])).write_bytes(content)
    print(f"{kept}: {len(stays) + len(chosen)} of {len(stays) + len(files)} kept")


if __name__ == "__main__":
    main()
