#!/usr/bin/env python3
"""on_card.py PLIMSOLL PYTHON [OPTIONS of profile]: `plimsoll profile --compare` of a small LoRA training on the real
GPU of this machine. PYTHON has torch and transformers. Nothing else tests profile with a real driver.
The last line is "N passed, N failed"."""
import json
import os
import subprocess
import sys

MIB = 1 << 20
WORST = 0.005, 0.01  # in allocated and in reserved memory, as in rows.py
FIXTURE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures", "simulate", "lora.py")
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)


def profile(plimsoll, options, command):
    """Shows the text, which is for people, then returns the JSON of another run and its exit status."""
    subprocess.run([plimsoll, "profile"] + options + ["--"] + command)
    done = subprocess.run([plimsoll, "profile", "--json"] + options + ["--"] + command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout), done.returncode


def main():
    plimsoll, command, options = sys.argv[1], [sys.argv[2], FIXTURE], sys.argv[3:]
    result, status = profile(plimsoll, ["--compare"] + options, command)
    compared = result["comparison"]
    check(status == 0 and result["end"] == "ran" and result["was_ended"], "ran, and was ended after its steps")
    for which, worst in zip(("allocated", "reserved"), WORST):
        pair = compared["peak_" + which] if compared else {"predicted_bytes": 0, "measured_bytes": 1}
        off = (pair["predicted_bytes"] - pair["measured_bytes"]) / pair["measured_bytes"]
        check(abs(off) <= worst, "%s: simulated %d, measured %d (%+.3f %%)" % (which, pair["predicted_bytes"], pair["measured_bytes"], 100 * off))
    outside = result["outside_first_bytes"], result["outside_peak_bytes"]
    check(None not in outside and 100 * MIB < outside[0] <= outside[1] < 4096 * MIB, "CUDA and its libraries: %s bytes" % (outside,))
    check(result["other_processes_bytes"] is not None, "other processes: %s, %s after it" % (result["other_processes_bytes"], result["other_processes_after_bytes"]))
    check(result["seconds_per_step"] and result["seconds_per_step"] > 0, "seconds of each step: %s" % result["step_seconds"])
    full, status = profile(plimsoll, ["--steps", "2"], command + ["--fraction", "0.01", "--batch-size", "64"])
    check(status == 1 and full["end"] == "out_of_memory" and full["run"]["replay"]["ooms"], "running out of memory is reported")
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
