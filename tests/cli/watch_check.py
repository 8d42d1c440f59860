#!/usr/bin/env python3
"""watch_check.py PROGRAM: `plimsoll watch` as a terminal view, in tmux, and as an endpoint for Prometheus. Waits for what
must appear instead of for a time, so that a busy machine fails nothing."""
import json, os, re, shutil, socket, subprocess, sys, tempfile, time, urllib.error, urllib.request

sys.dont_write_bytecode = True
import tmux_terminal
from tmux_terminal import DEADLINE, until

PROGRAM = os.path.realpath(sys.argv[1])
MIB = 1 << 20
WORK = tempfile.mkdtemp()
HANGS = f"{WORK}/hangs"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "PLIMSOLL_", "XDG_", "TMUX"))}
ENVIRONMENT.pop("NO_COLOR", None)
ENVIRONMENT.update(PLIMSOLL_NVML=f"{os.path.dirname(PROGRAM)}/libfake_nvml.so", XDG_STATE_HOME=f"{WORK}/state",
                   FAKE_NVML_BUSY="2", FAKE_NVML_HANGS=HANGS, LC_ALL="C.UTF-8", HOME=WORK, PS1="$ ")


def write_run(name, growth_mib):
    """A run of this process, with 200 steps."""
    folder = f"{WORK}/state/plimsoll/run/{name}"
    os.makedirs(folder)
    with open(f"{folder}/run.json", "w") as file:
        json.dump({"pid": os.getpid(), "command": "python train.py", "started": time.time(), "steps": 5000}, file)
    with open(f"{folder}/{os.getpid()}.live", "w") as file:
        for i in range(200):
            live = (8192 + growth_mib * i) * MIB
            print(json.dumps({"t": 1000 + i / 2, "step": i, "rank": 0, "phase": "training", "allocated": live,
                              "reserved": 16384 * MIB, "peak_allocated": live + 2048 * MIB, "free": 7168 * MIB,
                              "total": 24576 * MIB}), file=file)


def is_child(pid, parent):
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, rest = file.read().rsplit(")", 1)
    except OSError:  # it has ended
        return False
    return name.endswith("(plimsoll") and rest.split()[1] == parent


class Terminal(tmux_terminal.Terminal):
    def __init__(self, columns, rows, **variables):
        super().__init__(WORK, {**ENVIRONMENT, **variables}, columns, rows)

    def start(self, command="watch"):
        self.type(f"clear; {PROGRAM} {command}; echo status=$?")

    def process(self):
        shell = self.tmux("display-message", "-p", "-t", "t", "#{pane_pid}").strip()
        found = [pid for pid in os.listdir("/proc") if pid.isdigit() and is_child(pid, shell)]
        assert len(found) == 1, f"processes {found}"
        return int(found[0])


def shows_cards_and_runs():
    with Terminal(100, 40) as t:
        t.start()
        t.wait("^WARNING run leaks: memory grows by 12.0 MiB per step; full at about step 1,109")
        t.wait("^GPU 1  NVIDIA GeForce RTX 4090  3 % busy")
        t.wait("^  memory    \u2588+\u2591+  5.06 GiB of 24.0 GiB")
        t.wait("^  memory    [\u2581-\u2588]{3}")  # the history grows
        t.wait("^  progress  step 199 of 5,000  2 steps/s")
        t.keys("q")
        t.wait("^status=0$")
        assert t.is_restored(), t.screen()


def every_size_is_filled():
    with Terminal(80, 24) as t:
        t.start()
        t.wait("^GPU 0")
        t.resize(1, 1)  # shows nothing, and harms nothing
        for columns, rows in ((40, 10), (300, 100), (20, 4), (80, 24)):
            t.resize(columns, rows)
            until(lambda: t.screen().startswith(" plimsoll watch") and
                  t.screen().split("\n")[rows - 1].startswith(" 2 GPUs, 2 runs"), f"{columns}x{rows}")
            lines = t.screen().rstrip("\n").split("\n")
            assert len(lines) <= rows and all(len(line) <= columns for line in lines), t.screen()
        t.keys("q")
        t.wait("^status=0$")


def keys_scroll_pause_and_help():
    with Terminal(80, 10) as t:
        t.start()
        t.wait("lines 1-8 of 39")  # the history is there from the second sample on
        t.keys("Down")
        t.wait("lines 2-9 of ")
        t.keys("NPage")
        t.wait("lines 10-17 of ")
        t.keys("Home", "Up")
        t.wait("lines 1-8 of ")
        t.keys("End")
        t.wait(r"lines (\d+)-(\d+) of \2$")
        t.keys("h")
        t.wait("^  q                   quit")
        t.keys("h", "p")
        t.wait("PAUSED")
        before = t.screen().split("\n")[0]
        time.sleep(2.5)  # no new sample, however slow the machine
        assert t.screen().split("\n")[0] == before, t.screen()
        t.keys("p", "q")
        t.wait("^status=0$")


def without_utf8_and_colour():
    with Terminal(80, 24, LC_ALL="C", NO_COLOR="1") as t:
        t.start()
        t.wait(r"^  memory    #+\.+  5.06 GiB of 24.0 GiB")
        assert t.screen().isascii(), t.screen()
        assert not re.search(r"\x1b\[[0-9;]*3[1-7]m", t.screen("-e")), "colours"
        t.keys("q")
        t.wait("^status=0$")
    with Terminal(80, 24) as t:
        t.start()
        t.wait("^  memory    \u2588")
        assert re.search(r"\x1b\[[0-9;]*3[1-7]m", t.screen("-e")), "no colours"


def the_terminal_is_restored_after_signals():
    for signal, status in (("TERM", 143), ("HUP", 129), ("INT", 130), ("SEGV", 139), ("ABRT", 134)):
        with Terminal(80, 24) as t:
            t.type("ulimit -c 0")
            t.start()
            t.wait("^GPU 0")
            os.kill(t.process(), getattr(__import__("signal"), f"SIG{signal}"))
            if signal == "INT":  # bash gives up the rest of the line
                until(lambda: not t.is_alternate(), "the view ends")
                t.type("echo status=$?")
            t.wait(f"^status={status}$")
            assert t.is_restored(), f"{signal}\n{t.screen()}"


def it_stops_and_goes_on():
    with Terminal(80, 24) as t:
        t.start()
        t.wait("^GPU 0")
        t.keys("C-z")
        t.wait("Stopped")
        assert t.is_restored(), t.screen()
        t.type("fg")
        t.wait("^GPU 0")
        t.keys("q")
        until(lambda: not t.is_alternate(), "the view ends")
        assert t.is_restored(), t.screen()


def a_driver_that_hangs_freezes_nothing():
    with Terminal(80, 40) as t:
        t.start()
        t.wait("^GPU 0.*97 % busy")
        open(HANGS, "w").close()
        t.wait(r"^GPUs: unknown \(the driver has not answered for \d+ s\)")
        t.wait("^GPU 0  NVIDIA GeForce RTX 4090  unknown$")
        t.wait("^  progress  step 199 of 5,000")  # runs are still shown
        t.keys("h")
        t.wait("^  q                   quit")
        t.keys("h")
        os.unlink(HANGS)
        t.wait("^GPU 0.*97 % busy")
        open(HANGS, "w").close()
        t.wait("has not answered for")
        t.keys("q")
        t.wait("^status=0$")
        os.unlink(HANGS)


def a_terminal_that_cannot_be_controlled_is_an_error():
    with Terminal(80, 24) as t:
        t.type(f"clear; TERM=no-such-terminal {PROGRAM} watch; echo status=$?")
        t.wait("^status=2$")
        t.wait(r"^error: this terminal cannot be controlled \(TERM is no-such-terminal\)")


def a_dumb_terminal_gets_one_sample():
    with Terminal(80, 40) as t:
        t.type(f"clear; TERM=dumb {PROGRAM} watch; echo status=$?")
        t.wait("^status=[01]$")
        t.wait("^host$")


def a_driver_that_hangs_is_unknown_in_json():
    open(HANGS, "w").close()
    done = subprocess.run([PROGRAM, "watch", "--json", "--once"], env=ENVIRONMENT, capture_output=True, text=True)
    os.unlink(HANGS)
    sample = json.loads(done.stdout)
    assert sample["driver"]["state"] == "silent" and sample["driver"]["silent_seconds"] >= 5, sample["driver"]
    assert sample["cards"] is None and len(sample["runs"]) == 2, sample


# ---- Prometheus -------------------------------------------------------------------------------------

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SERIES = re.compile(rf"([a-z_]+)(?:\{{{LABEL}(?:,{LABEL})*\}})? (-?[0-9.]+(?:e[-+]?[0-9]+)?)")


class Server:
    def __init__(self, *words):
        self.child = subprocess.Popen([PROGRAM, "watch", "--interval", "0.2", "--prometheus", *words], env=ENVIRONMENT,
                                      stdout=subprocess.PIPE, text=True)
        line = self.child.stdout.readline()
        found = re.fullmatch(r"serving http://127\.0\.0\.1:(\d+)/metrics; Ctrl-C ends it\n", line)
        assert found, line
        self.port = int(found[1])

    def get(self, path="/metrics", **more):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", **more)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=DEADLINE) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, None, ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()


def parse(text):
    """The series, after checking that each has a help and a type before it."""
    series, typed = {}, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            found = SERIES.fullmatch(line)
            assert found and found[1] in typed, line
            name = line[: found.start(2) - 1]
            assert name not in series, f"{name} twice"
            series[name] = float(found[2])
    return series


def prometheus_reads_the_samples():
    with Server() as server:
        status, kind, text = server.get()
        assert status == 200 and kind.startswith("text/plain; version=0.0.4"), (status, kind)
        series = parse(text)
    card = '{gpu="0",uuid="GPU-0",name="NVIDIA GeForce RTX 4090"}'
    assert series[f"plimsoll_gpu_memory_used_bytes{card}"] == (1081 + 4096) * MIB
    assert series[f"plimsoll_gpu_busy_ratio{card}"] == 0.97 and series["plimsoll_driver_up"] == 1
    run = f'{{run="leaks",rank="0",pid="{os.getpid()}"}}'
    assert series[f"plimsoll_run_step{run}"] == 199 and series[f"plimsoll_run_full_step{run}"] == 1109
    assert series[f"plimsoll_run_growth_bytes_per_step{run}"] == 12 * MIB
    odd = f'{{run="a\\"b\\\\c",rank="0",pid="{os.getpid()}"}}'
    assert series[f"plimsoll_run_step{odd}"] == 199
    assert not any(name.startswith("plimsoll_gpu_process") and 'pid="900"' in name for name in series), "unknown is no 0"


def other_requests_are_refused():
    with Server("0") as server:
        assert server.get("/")[0] == 404 and server.get("/metricsx")[0] == 404
        assert server.get(data=b"x", method="POST")[0] == 405
        assert server.get(headers={"Host": "evil.example"})[0] == 403
        assert server.get(headers={"Host": "localhost:1"})[0] == 200
        assert server.get("/" + "x" * 10000)[0] == 431
        assert server.get("/metrics?x=1")[0] == 200


def slow_clients_hold_up_nobody():
    with Server() as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        slow[0].send(b"GET /met")
        slow[1].close()
        assert server.get()[0] == 200
        for client in slow:
            client.close()
        assert server.get()[0] == 200


def only_this_machine_is_served():
    with Server() as server:
        with open("/proc/net/tcp") as table:
            bound = [row.split()[1] for row in table if row.split()[1].endswith(f":{server.port:04X}") and row.split()[3] == "0A"]
        assert bound == [f"0100007F:{server.port:04X}"], bound
        taken = subprocess.run([PROGRAM, "watch", "--prometheus", str(server.port)], env=ENVIRONMENT, capture_output=True, text=True)
        assert taken.returncode == 2 and "cannot listen on 127.0.0.1" in taken.stderr, taken.stderr


def a_driver_that_hangs_is_absent_from_the_metrics():
    open(HANGS, "w").close()
    try:
        with Server() as server:
            series = parse(server.get()[2])
    finally:
        os.unlink(HANGS)
    assert series["plimsoll_driver_up"] == 0 and not any("gpu" in name for name in series), series


TERMINAL = [shows_cards_and_runs, every_size_is_filled, keys_scroll_pause_and_help, without_utf8_and_colour,
            the_terminal_is_restored_after_signals, it_stops_and_goes_on, a_driver_that_hangs_freezes_nothing,
            a_terminal_that_cannot_be_controlled_is_an_error, a_dumb_terminal_gets_one_sample]
OTHERS = [a_driver_that_hangs_is_unknown_in_json, prometheus_reads_the_samples, other_requests_are_refused,
          slow_clients_hold_up_nobody, only_this_machine_is_served, a_driver_that_hangs_is_absent_from_the_metrics]


def main():
    write_run("leaks", 12)
    write_run('a"b\\c', 0)
    passed = failed = skipped = 0
    names = sys.argv[2:]
    if not tmux_terminal.can_open():
        print("skipped: no terminal can be opened here")
        skipped = len(TERMINAL)
    for test in (OTHERS if skipped else TERMINAL + OTHERS):
        if names and test.__name__ not in names:
            continue
        try:
            test()
            print(f"ok   {test.__name__}")
            passed += 1
        except AssertionError as error:
            print(f"{error!s}\nFAIL {test.__name__}")
            failed += 1
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return failed > 0


sys.exit(main())
