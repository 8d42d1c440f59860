#!/usr/bin/env python3
"""terminal.py PLIMSOLL FAKE_TRAINER [TEST...]: `plimsoll run` on a terminal, in tmux: the program has the terminal, its size
and its keys, as if the shell had started it.
The last line is "N passed, N failed"."""
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tmux_terminal
from tmux_terminal import until

PLIMSOLL, TRAINER = (os.path.abspath(p) for p in sys.argv[1:3])
WORK = os.path.realpath(tempfile.mkdtemp(prefix="plimsoll-terminal-"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "PLIMSOLL_", "PYTHON", "PYTORCH", "TMUX", "XDG_"))}
ENVIRONMENT.update(PLIMSOLL_NVML="/nowhere", XDG_STATE_HOME=f"{WORK}/state", LC_ALL="C.UTF-8", HOME=WORK, PS1="$ ", NO_COLOR="1")
ENVIRONMENT.pop("TOKENIZERS_PARALLELISM", None)


class Terminal(tmux_terminal.Terminal):
    def __init__(self, columns=80, rows=24):
        super().__init__(WORK, ENVIRONMENT, columns, rows)
        self.type(f"cd {WORK}; alias run='{PLIMSOLL} run --no-check --'; clear")

    def run(self, command, before="", after=""):
        """Starts a program under plimsoll; its status is printed."""
        self.type(f"clear; {before} run {command} {after}; echo status=$?")


def write(name, text):
    with open(os.path.join(WORK, name), "w") as f:
        f.write(text)


def log():
    """What the newest run has printed."""
    folder = f"{WORK}/state/plimsoll/run"
    newest = max(os.listdir(folder), key=lambda n: os.path.getmtime(os.path.join(folder, n, "log")))
    with open(os.path.join(folder, newest, "log"), newline="") as f:
        return f.read()


def the_program_has_a_terminal_of_the_same_size():
    write("size.sh", "test -t 0 && test -t 1 && test -t 2 && echo all terminals\nstty size\nprintf '\\033[31mred\\033[0m\\n'\nexit 3\n")
    for columns, rows in ((80, 24), (40, 30)):
        with Terminal(columns, rows) as t:
            t.run("sh size.sh")
            t.wait("^status=3$")
            t.wait("^all terminals$")
            t.wait(f"^{rows} {columns}$")
            assert re.search(r"\x1b\[31mred", t.screen("-e")), t.screen("-e")
            assert t.is_restored(), t.screen()


def a_new_size_reaches_the_program():
    write("sizes.sh", "trap 'stty size' WINCH\necho begun\nwhile :; do sleep 0.1; done\n")
    with Terminal(80, 24) as t:
        t.run("bash sizes.sh")
        t.wait("^begun$")
        t.resize(100, 30)
        t.wait("^30 100$")
        t.keys("C-c")
        t.wait("^plimsoll: stopped")


def a_progress_bar_and_our_lines_share_the_screen():
    """The bar is drawn again and again with a carriage return. A warning of ours takes its place, and the bar goes on below."""
    write("bar.py", """
import json, os, sys, time
step = 0
with open(os.path.join(os.environ["PLIMSOLL_LIVE"], "%d.live" % os.getpid()), "a", buffering=1) as live:
    while not os.path.exists("go"):
        step += 1
        bytes = (100 + 10 * step) << 20
        live.write(json.dumps({"t": time.time(), "step": step, "phase": "training", "allocated": bytes, "reserved": bytes, "peak_allocated": bytes, "free": 9 << 30, "total": 10 << 30}) + "\\n")
        sys.stderr.write("\\r %3d steps [=====>    ]" % step)
        sys.stderr.flush()
        time.sleep(0.05)
sys.stderr.write("\\ndone\\n")
""")
    for columns in 80, 40:
        with Terminal(columns, 24) as t:
            t.run("python3 bar.py")
            t.wait(r"^plimsoll: memory grows by 10.0 MiB per\s+step")
            t.wait(r"^ +\d+ steps \[=====>    \]$")
            write("go", "")
            t.wait("^status=0$")
            shown = t.screen()
            assert len(re.findall(r"^ +\d+ steps \[", shown, re.M)) == 1, shown  # the one before our line was replaced
            os.remove(os.path.join(WORK, "go"))


def ctrl_c_is_the_programs():
    """A program that handles the first one goes on; the second ends it."""
    write("twice.py", "import time\nfor name in 'first', 'second':\n    try:\n        print('waiting', flush=True)\n        time.sleep(999)\n    except KeyboardInterrupt:\n        print(name, 'Ctrl-C', flush=True)\nraise KeyboardInterrupt\n")
    with Terminal() as t:
        t.run("python3 twice.py")
        t.wait("^waiting$")
        t.keys("C-c")
        t.wait("first Ctrl-C")
        t.keys("C-c")
        t.wait("second Ctrl-C")
        t.wait("^plimsoll: stopped")
        t.wait("^status=130$")
        assert t.is_restored(), t.screen()


def a_run_that_the_user_stopped_is_not_started_again():
    """It ran out of memory before, and its launcher exits with 1, as torchrun does."""
    write("caught.py", f"import subprocess, sys, time\nsubprocess.run(['{TRAINER}', '--card-mib', '300'])\nprint('waiting', flush=True)\ntry:\n    time.sleep(999)\nexcept KeyboardInterrupt:\n    sys.exit(1)\n")
    with Terminal() as t:
        t.run("python3 caught.py --per_device_train_batch_size 8")
        t.wait("^waiting$")
        t.keys("C-c")
        t.wait("^status=1$")
        assert "plimsoll: stopped" in t.screen() and "starting again" not in t.screen(), t.screen()


def ctrl_z_stops_it_and_fg_goes_on():
    write("count.sh", "i=0\nwhile [ ! -e enough ]; do i=$((i + 1)); echo line $i; sleep 0.05; done\nstty -a | grep -ow -e '-*icanon'\n")
    with Terminal() as t:
        t.run("sh count.sh")
        t.wait("^line 3$")
        t.keys("C-z")
        t.wait("Stopped")
        assert t.is_restored(), t.screen()
        before = log()
        t.type("clear; echo shell")
        t.wait("^shell$")
        assert log() == before, "the program goes on while it is stopped"
        t.type("fg")
        until(lambda: len(log()) > len(before), "it goes on")
        write("enough", "")
        t.wait("^icanon$")
        t.wait("^plimsoll: finished")
        assert t.is_restored(), t.screen()
        os.remove(os.path.join(WORK, "enough"))


def a_line_and_a_password_can_be_typed():
    write("ask.py", "import getpass\nname = input('name: ')\nword = getpass.getpass('password: ')\nprint('got', name, len(word))\n")
    with Terminal() as t:
        t.run("python3 ask.py")
        t.wait("^name:")
        t.type("ada")
        t.wait("^password:")
        t.type("secret")
        t.wait("^got ada 6$")
        assert "secret" not in t.screen() and "secret" not in log(), t.screen()
        t.wait("^status=0$")


def python_can_be_used_interactively():
    with Terminal() as t:
        t.run("python3 -q")
        t.wait("^>>>")
        t.type("6 * 7")
        t.wait("^42$")
        t.keys("C-d")
        t.wait("^plimsoll: finished")
        t.wait("^status=0$")
        assert t.is_restored(), t.screen()


def a_reader_that_goes_away_ends_the_program():
    write("many.sh", "i=0\nwhile i=$((i + 1)); do echo line $i || exit; done\n")
    with Terminal() as t:
        t.run("bash many.sh", after="| head -1")
        t.wait("^line 1$")
        t.wait("^status=0$")
        assert t.is_restored(), t.screen()


def input_from_a_file_and_through_pipes():
    write("words", "one\ntwo\n")
    with Terminal() as t:
        t.run("wc -l", after="< words")
        t.wait("^2$")
        t.wait("^status=0$")
        t.run("wc -c", before="printf abc |", after="| sed s/^/count=/")
        t.wait("^count=3$")
        t.run("sh -c 'echo out; echo err >&2'", after="2>errors; cat errors | grep -c err")
        t.wait("^out$")
        t.wait("^1$")


def it_runs_in_the_background():
    write("back.sh", "echo from the background\nwhile [ ! -e enough ]; do sleep 0.05; done\nread -p 'name: ' name\necho hello $name\n")
    with Terminal() as t:
        t.type("clear; run bash back.sh &")
        t.wait("^from the background$")
        t.type("echo shell is here")
        t.wait("^shell is here$")
        t.type("jobs")
        t.wait("Running")
        t.type("clear; fg")
        write("enough", "")
        t.wait("^name:")
        t.type("ada")
        t.wait("^hello ada$")
        t.wait("^plimsoll: finished")
        assert t.is_restored(), t.screen()
        os.remove(os.path.join(WORK, "enough"))


TESTS = [the_program_has_a_terminal_of_the_same_size, a_new_size_reaches_the_program, a_progress_bar_and_our_lines_share_the_screen,
         ctrl_c_is_the_programs, a_run_that_the_user_stopped_is_not_started_again, ctrl_z_stops_it_and_fg_goes_on,
         a_line_and_a_password_can_be_typed, python_can_be_used_interactively, a_reader_that_goes_away_ends_the_program,
         input_from_a_file_and_through_pipes, it_runs_in_the_background]


def main():
    passed = failed = 0
    if not tmux_terminal.can_open():
        print("skipped: no terminal can be opened here\n0 passed, 0 failed, %d skipped" % len(TESTS))
        return 0
    for test in TESTS:
        if sys.argv[3:] and test.__name__ not in sys.argv[3:]:
            continue
        try:
            test()
            print("ok   " + test.__name__, flush=True)
            passed += 1
        except AssertionError as error:
            print("%s\nFAIL %s" % (error, test.__name__), flush=True)
            failed += 1
    shutil.rmtree(WORK, ignore_errors=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
