#!/usr/bin/env python3
"""layouts_check.py DUMP: compares the layouts that the simulated card and the hook library use, and the versions of the
functions that the library stands in front of, with CUDA's headers, for every version of them that is found: $CUDA_HOME, /usr/local/cuda*, and NVIDIA's packages for Python. Skipped with a notice if there are none.

DUMP is tests/card/dump_layouts. The last line is "N passed, N failed"."""
import glob
import os
import re
import subprocess
import sys
import tempfile

# The names of device attributes are those of the properties in another spelling; a few are not.
ATTRIBUTES = {
    "sharedMemPerBlock": "MaxSharedMemoryPerBlock", "regsPerBlock": "MaxRegistersPerBlock", "memPitch": "MaxPitch",
    "maxThreadsDim[0]": "MaxBlockDimX", "maxThreadsDim[1]": "MaxBlockDimY", "maxThreadsDim[2]": "MaxBlockDimZ",
    "maxGridSize[0]": "MaxGridDimX", "maxGridSize[1]": "MaxGridDimY", "maxGridSize[2]": "MaxGridDimZ",
    "totalConstMem": "TotalConstantMemory", "major": "ComputeCapabilityMajor", "minor": "ComputeCapabilityMinor",
    "pciBusID": "PciBusId", "memoryBusWidth": "GlobalMemoryBusWidth", "sharedMemPerMultiprocessor": "MaxSharedMemoryPerMultiprocessor",
    "regsPerMultiprocessor": "MaxRegistersPerMultiprocessor", "sharedMemPerBlockOptin": "MaxSharedMemoryPerBlockOptin",
    "maxBlocksPerMultiProcessor": "MaxBlocksPerMultiprocessor", "reservedSharedMemPerBlock": "ReservedSharedMemoryPerBlock",
    "maxThreadsPerMultiProcessor": "MaxThreadsPerMultiProcessor",
}  # fmt: skip


NO_QUALIFIERS = """
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define __host__
#define __device__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __cuda_builtin_vector_align8(tag, members) struct __align__(8) tag { members }
"""


def headers():
    """Folders with CUDA's headers, one for each version."""
    roots = [os.environ.get("CUDA_HOME", ""), *glob.glob("/usr/local/cuda*")]
    found = [os.path.join(r, "include") for r in roots if r]
    for folder in [*sys.path, *os.environ.get("PLIMSOLL_CUDA_HEADERS", "").split(":")]:
        found += glob.glob(os.path.join(folder or ".", "nvidia/*/include"))
    by_version = {}
    for folder in found:
        path = os.path.join(folder, "cuda_runtime_api.h")
        if os.path.exists(path):
            with open(path, errors="replace") as f:
                version = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", f.read())
            by_version.setdefault(int(version.group(1)) if version else 0, folder)
    return by_version


def program(rows):
    """A C program that prints what the headers say about the rows, in their order."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <cuda.h>", "#include <driver_types.h>", "int main(void) {"]
    for kind, *words in rows:
        if kind == "property":
            lines.append('  printf("%%zu\\n", offsetof(struct cudaDeviceProp, %s));' % words[0])
            name = ATTRIBUTES.get(words[0], words[0][0].upper() + words[0][1:])
            lines.append('  printf("%%d\\n", (int)cudaDevAttr%s);' % name if int(words[1]) else '  printf("0\\n");')
        elif kind == "driver" and words[1] == "sizeof":
            lines.append('  printf("%%zu\\n", sizeof(%s));' % words[0])
        elif kind == "driver":
            lines.append('  printf("%%zu\\n", offsetof(%s, %s));' % (words[0], words[1]))
        elif kind == "constant":
            lines.append('  printf("%%d\\n", (int)%s);' % words[0])
        elif kind == "struct":
            lines.append('  printf("%%zu\\n", sizeof(struct %s));' % words[0])
        else:
            type_ = words[0] if words[0].endswith("_t") else "struct " + words[0]
            lines.append('  printf("%%zu\\n", offsetof(%s, %s));' % (type_, words[1]))
    return "\n".join(lines + ["}", ""])


def is_in_version(row, major):
    """CUDA 11 has shorter structures: fields that it lacks are not written there."""
    if row[0] == "struct":
        return int(row[2]) == major
    if row[0] == "hooked":
        return False  # functions_check looks at them
    if row[0] == "constant" and "LOCATION_TYPE_HOST" in row[1]:
        return major >= 13  # since 12.2
    return not (major == 11 and row[0] == "field" and row[1] == "cudaLaunchConfig_t")


def check_functions(version, folder, rows):
    """cudaTypedefs.h has a type for each function, named after the version since which a name means it: the list must have the
    newest, and every one of its own must be there."""
    path = os.path.join(folder, "cudaTypedefs.h")
    if not os.path.exists(path):
        return []
    with open(path, errors="replace") as f:
        found = set(re.findall(r"\bPFN_(\w+?)_v(\d+)(_ptsz)?\)", f.read()))
    wrong, hooked = [], [r for r in rows if r[0] == "hooked"]
    for row in hooked:
        _, base, since, stream = row
        names = {(base, since, "_ptsz" if stream == "PER_THREAD" else "")}
        newest = max((int(v) for b, v, _ in found if b == base), default=0)
        known = max(int(r[2]) for r in hooked if r[1] == base)
        if int(since) <= version and not names <= found:
            wrong.append((row, "a function", "none"))
        if newest > known:
            wrong.append((row, "up to version %d" % known, newest))
        if not stream == "PER_THREAD" and (base, since, "_ptsz") in found and ["hooked", base, since, "PER_THREAD"] not in hooked:
            wrong.append((row, "one default stream", "also one for each thread"))
    return wrong


def check(version, folder, rows):
    major = version // 1000
    rows = [r for r in rows if is_in_version(r, major)]
    with tempfile.TemporaryDirectory() as work:
        source, binary = os.path.join(work, "layouts.c"), os.path.join(work, "layouts")
        with open(source, "w") as f:
            f.write(program(rows))
        os.mkdir(os.path.join(work, "crt"))  # comes in another package, and changes no layout
        with open(os.path.join(work, "crt", "host_defines.h"), "w") as f:
            f.write(NO_QUALIFIERS)
        built = subprocess.run(["cc", "-I", folder, "-I", work, source, "-o", binary], capture_output=True, text=True)
        if built.returncode:
            return [(r, "does not compile", built.stderr[-300:]) for r in rows[:1]]
        said = subprocess.run([binary], capture_output=True, text=True).stdout.split()
    wrong, at = [], 0
    for row in rows:
        ours = row[3 if major < 13 else 4] if row[0] == "property" else row[-1]
        theirs = said[at]
        at += 1
        if theirs != ours:
            wrong.append((row, ours, theirs))
        if row[0] == "property":
            if said[at] != row[2] and row[1] != "pciBusID":
                wrong.append((row, "attribute " + row[2], said[at]))
            at += 1
    return wrong


def main():
    dumped = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in dumped.splitlines()]
    found = headers()
    if not found:
        print("skipped: no headers of CUDA are installed")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    failed = 0
    for version, folder in sorted(found.items()):
        wrong = check(version, folder, rows) + check_functions(version, folder, rows)
        for row, ours, theirs in wrong:
            print("CUDA %d: %s: ours %s, its headers %s" % (version, " ".join(row[:3]), ours, theirs))
        print("%s CUDA %d: %d layouts" % ("FAIL" if wrong else "ok  ", version, len(rows)))
        failed += bool(wrong)
    print("%d passed, %d failed" % (len(found) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
