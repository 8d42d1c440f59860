#!/usr/bin/env python3
"""names_check.py CARD FOLDER: every function of the CUDA runtimes (libcudart) below FOLDER has a stand-in in CARD, the library
libplimsoll-card.so. A library that refers to one that is missing does not load. The last line is "N passed, N failed"."""
import glob
import os
import subprocess
import sys


def names(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def main():
    card, failed = names(sys.argv[1]), 0
    libraries = sorted(glob.glob(os.path.join(sys.argv[2], "**", "libcudart.so.*"), recursive=True))
    for library in libraries:
        missing = sorted(n for n in names(library) if n.startswith(("cuda", "__cuda")) and n not in card)
        failed += bool(missing)
        print("%s %s: %s" % ("FAIL" if missing else "ok  ", os.path.basename(library), " ".join(missing) or "every function is there"))
    if not libraries:
        failed = 1
        print("FAIL no CUDA runtime in %s" % sys.argv[2])
    print("%d passed, %d failed" % (max(len(libraries), 1) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
