"""Times what a newcomer waits for: from the wheel, the Debian package and the page to the plan of a 7B LoRA training, a change of a
setting in the page, and a snapshot of 1 GB in it.

usage: newcomer.py PLIMSOLL WORKDIR [--record PAGE]
PLIMSOLL is build/plimsoll; the wheel and the page are built if they are not there.
"""

import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv

from compare import grown, machine, record

ROOT = pathlib.Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "tests/truth/snapshots/stacks-leak-logits.pickle.xz"
CASE = ["plan", str(ROOT / "tests/fixtures/seed0/start_baseline.sh"), "--gpu", "24564MiB"]
PLAN_SECONDS, CHANGE_MS, SNAPSHOT_SECONDS = 60, 50, 60


def make(target):
    if subprocess.run(["make", "-C", ROOT, target], stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"failed: make {target}")


def plan(program):
    done = subprocess.run([program, *CASE], capture_output=True, text=True)
    if done.returncode not in (0, 1) or "planned:" not in done.stdout:
        sys.exit(f"no plan: {done.stderr}")


def wheel_seconds(folder):
    """A new environment, the wheel, a plan."""
    wheel = glob.glob(str(ROOT / "build/wheel/plimsoll_gpu-*_x86_64.whl"))[0]
    began = time.monotonic()
    venv.create(folder / "environment", with_pip=True)
    subprocess.run([folder / "environment/bin/pip", "install", "-q", "--no-index", wheel], check=True)
    plan(folder / "environment/bin/plimsoll")
    return time.monotonic() - began


def package_seconds(folder):
    """dpkg into a system of its own, a plan. What the package depends on is installed on this machine already."""
    package = glob.glob(str(ROOT / "build/plimsoll_*.deb"))[0]
    system = folder / "system"
    for name in ("info", "updates"):
        (system / "var/lib/dpkg" / name).mkdir(parents=True)
    (system / "var/lib/dpkg/status").touch()
    began = time.monotonic()
    subprocess.run(["dpkg", f"--root={system}", "--log=/dev/null", "--force-depends", "--force-script-chrootless", "--install", package],
                   check=True, capture_output=True)
    plan(system / "usr/bin/plimsoll")
    return time.monotonic() - began


def page_figures(plimsoll, workdir):
    snapshot = grown(str(SNAPSHOT), workdir)
    done = subprocess.run([ROOT / "tests/web/page.sh", plimsoll, ROOT / "build/plimsoll.html", snapshot], capture_output=True, text=True,
                          env=os.environ | {"SCRIPT": str(ROOT / "bench/page.mjs")})
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        print("not measured: the page:", lines[0] if lines else done.stderr)
        return None
    return json.loads(lines[-1]) | {"bytes": os.path.getsize(snapshot)}


def rows(plimsoll, workdir):
    most = f"under {PLAN_SECONDS} s"
    with tempfile.TemporaryDirectory() as folder:
        seconds = wheel_seconds(pathlib.Path(folder))
        yield "the wheel: a new environment, `pip install`, the plan of a 7B LoRA run", f"{seconds:.1f} s", most, seconds < PLAN_SECONDS
        if os.geteuid() == 0:
            seconds = package_seconds(pathlib.Path(folder))
            yield "the Debian package: `dpkg --install`, the same plan", f"{seconds:.1f} s", most, seconds < PLAN_SECONDS
    found = page_figures(plimsoll, workdir)
    if found:
        seconds = found["plan_ms"] / 1000
        yield "the page: opened from disk, until the plan of a 7B LoRA run is there", f"{seconds:.1f} s", most, seconds < PLAN_SECONDS
        yield ("the page: a change of the micro batch, until numbers and curve are drawn",
               f"{found['change_ms']:.0f} ms (median of {found['changes']}; nine of ten within {found['slow_change_ms']:.0f} ms)",
               f"under {CHANGE_MS} ms", found["change_ms"] < CHANGE_MS)
        seconds = found["snapshot_ms"] / 1000
        yield (f"the page: a snapshot of {found['bytes'] / 1e6:,.0f} MB, {found['entries']:,} entries, until its report is there",
               f"{seconds:.1f} s", f"under {SNAPSHOT_SECONDS} s", seconds < SNAPSHOT_SECONDS)


def main(plimsoll, workdir, *options):
    for target in ("web", "wheel", "deb"):
        make(target)
    found = list(rows(os.path.abspath(plimsoll), workdir))
    table = ["| what | measured | target |", "|---|---|---|"] + [f"| {what} | {measured} | {target} |" for what, measured, target, _ in found]
    text = f"{machine()}, {time.strftime('%Y-%m-%d')}, `make bench`:\n\n" + "\n".join(table)
    print(text)
    if options[:1] == ("--record",):
        record(options[1], "newcomer", text)
    sys.exit(not all(met for *_, met in found))


if __name__ == "__main__":
    main(*sys.argv[1:])
