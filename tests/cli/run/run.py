#!/usr/bin/env python3
"""run.py PLIMSOLL FAKE_TRAINER [TEST...]: `plimsoll run` and `plimsoll runs` with a program that ends as trainings end.
The last line is "N passed, N failed"."""
import http.server
import json
import os
import shutil
import signal
import sqlite3
import socket
import subprocess
import sys
import tempfile
import threading
import time

PLIMSOLL, TRAINER = (os.path.abspath(p) for p in sys.argv[1:3])
MOST_SECONDS = 120  # that anything may take on a busy machine
passed = failed = 0


def check(is_met, text, shown=None):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met and shown is not None:
        print(shown)


class Bench:
    """A folder with a state folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.state = os.path.join(folder, "state")
        self.work = os.path.join(folder, "work")
        os.makedirs(self.work)
        shutil.copy(TRAINER, os.path.join(self.work, "trainer"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PYTORCH") and k not in ("TOKENIZERS_PARALLELISM", "OMP_NUM_THREADS")}
        self.env.update(XDG_STATE_HOME=self.state, HOME=folder, PLIMSOLL_NVML="/nowhere", NO_COLOR="1")

    def start(self, options, command, **more):
        words = [PLIMSOLL, "run"] + options + ["--"] + command
        return subprocess.Popen(words, cwd=self.work, env=dict(self.env, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, options, command, **more):
        process = self.start(options, command, **more)
        out, err = process.communicate(timeout=MOST_SECONDS)
        return process.returncode, out, err

    def runs(self, *words):
        done = subprocess.run([PLIMSOLL, "runs", "--json"] + list(words), cwd=self.work, env=self.env, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    def show(self, *words):
        """What a person sees, of both streams."""
        return subprocess.run([PLIMSOLL, "runs"] + list(words), cwd=self.work, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    def newest(self):
        return self.runs(str(self.runs()["runs"][0]["run"]))

    def files(self):
        found = {}
        for folder, _, names in os.walk(self.work):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    found[os.path.relpath(os.path.join(folder, name), self.work)] = f.read()
        return found


def until(condition):
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


TRAIN = ["./trainer", "--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "2", "--max_steps", "6"]


def passes_through(b):
    status, out, err = b.run([], TRAIN)
    check(status == 0 and out.count("16 samples of 8 at a time") == 6, "a program that ends well", err)
    check("finished after 6 optimizer steps" in err, "its end is told", err)
    check("expandable_segments:True" in err and "TOKENIZERS_PARALLELISM=false" in err, "what was set is told", err)
    status, out, err = b.run([], ["sh", "-c", "env; exit 7"], PYTORCH_ALLOC_CONF="max_split_size_mb:64")
    check(status == 7, "the exit status is the program's")
    check("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64" in out.split("\n"), "the user's allocator settings have both names", out)
    with open(os.path.join(b.work, "train.py"), "w") as f:
        f.write("from transformers import TrainingArguments, Trainer\nTrainer(args=TrainingArguments(per_device_train_batch_size=2)).train()\n")
    shutil.copy("/bin/true", os.path.join(b.work, "torchrun"))
    status, out, err = b.run([], ["./torchrun", "--nproc-per-node", "2", "train.py"])
    check("OMP_NUM_THREADS=" in err, "several processes share the cores", err)
    status, out, err = b.run([], TRAIN + ["--end", "kill"])
    check(status == 128 + signal.SIGKILL and "was killed (signal 9)" in err, "a killed program", err)
    one = b.newest()
    is_counted = "the kernel counted no out-of-memory kill" in err  # the kernel may not tell
    check(one["end"] == ("killed" if is_counted else "out of memory"), "a kill is called out of memory only if it may have been that", one)
    check(one["steps"] == 6 and one["end"] != "finished" and os.path.exists(one["log"]), "it is in the record", one)
    with open(one["log"]) as f:
        check("step 6: 16 samples" in f.read(), "the log has its output")
    status, out, err = b.run(["--resume=--from $LAST"], TRAIN)
    check(status == 2 and "--resume" in err and not out, "a --resume that only a shell could read", err)
    status, out, err = b.run([], ["no-such-program"])
    check(status == 127 and "no-such-program" in err and "plimsoll: " not in err, "a program that is missing is not a run", err)
    for path in "./train.py", "./":
        status, out, err = b.run([], [path])
        check(status == 126 and "cannot run " + path in err, "a program that cannot be run: " + path, err)


def recovers(b):
    status, out, err = b.run(["--resume=--resume --note 'two words'"], TRAIN + ["--long-step", "4", "--card-mib", "800", "--checkpoint", "last"])
    check(status == 0, "a run that fails, is explained, goes on and finishes", err)
    check("note: two words." in err, "--resume is read as a shell would", err)
    check("out of memory: 3 steps fitted, then a batch was longer than all before it: 1024 tokens per sample, at most 512 before" in err, "the lengths are told", err)
    check("micro batch 4 and 4 accumulation steps instead of 8 and 2" in err, "the cause and the cure are told", err)
    steps = [line for line in out.split("\n") if line.startswith("step")]
    check(steps == ["step %d: 16 samples of %d at a time" % (n, 8 if n < 4 else 4) for n in range(1, 7)], "it resumes, with the same effective batch", out)
    kinds = [e["kind"] for e in b.newest()["events"]]
    check("failure" in kinds and "recovery" in kinds, "both are in the record", kinds)


def recovers_in_files(b):
    before = b.files()
    script = os.path.join(b.work, "train.sh")
    text = "#!/bin/sh\n# our training\n" + " ".join(TRAIN) + " --card-mib 400\n"
    with open(script, "w") as f:
        f.write(text)
    status, out, err = b.run([], ["sh", "train.sh"])
    check(status == 0 and "16 samples of 4 at a time" in out, "settings in a file are changed", err)
    check(b.files() == dict(before, **{"train.sh": text.encode()}), "and are as before afterwards", set(b.files()))
    status, out, err = b.run(["--keep"], ["sh", "train.sh"])
    check(status == 0 and "batch_size 4" in open(script).read(), "with --keep they stay", err)
    subprocess.run([PLIMSOLL, "undo"], cwd=b.work, env=b.env, stdout=subprocess.DEVNULL)
    check(open(script).read() == text, "and undo restores them", os.listdir(b.work))


def says_json(b):
    status, out, err = b.run(["--json"], TRAIN + ["--card-mib", "400"])
    said = [json.loads(line) for line in err.split("\n") if line.startswith("{")]
    check(status == 0 and {"start", "failure", "recovery", "end"} <= {s["event"] for s in said} and "plimsoll: " not in err, "with --json, objects", err)


def restores_after_a_kill(b):
    script = os.path.join(b.work, "train.sh")
    text = "#!/bin/sh\n" + " ".join(TRAIN) + " --card-mib 400 --end wait\n"
    with open(script, "w") as f:
        f.write(text)
    before = b.files()
    process = b.start([], ["sh", "train.sh"])
    changed = until(lambda: "batch_size 4" in open(script).read())
    process.kill()
    process.communicate()
    check(changed and until(lambda: b.files() == before), "a killed run leaves the files as they were", set(b.files()) ^ set(before))
    check(until(lambda: not running(b)), "and no process", running(b))


def write_script(b, name, more):
    path = os.path.join(b.work, name)
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + " ".join(TRAIN) + " " + more + "\n")
    return path


def signal_all(b, number):
    """Whether there were any processes."""
    pids = running(b)
    for pid in pids:
        try:
            os.kill(int(pid), number)
        except ProcessLookupError:
            pass
    return bool(pids)


def restores_after_everything_was_killed(b):
    """As when a container is killed: nobody is left to clean up, so the next run does."""
    script = write_script(b, "train.sh", "--card-mib 400 --end wait")
    before = b.files()
    temporary = os.path.join(b.folder, "tmp")
    os.mkdir(temporary)
    process = b.start(["--hook"], ["sh", "train.sh"], TMPDIR=temporary)
    changed = until(lambda: "batch_size 4" in open(script).read() and "step 6" in log_of(b))
    signal_all(b, signal.SIGSTOP)
    until(lambda: not signal_all(b, signal.SIGKILL))  # nobody holds a lock any more
    process.communicate()
    check(os.listdir(temporary) == [], "it has left nothing among the temporary files", os.listdir(temporary))
    check(changed and b.files() != before, "everything is killed")
    done = subprocess.run([PLIMSOLL, "check", "train.sh"], cwd=b.work, env=b.env, stdout=subprocess.PIPE, text=True)
    check("plimsoll run was killed in this folder" in done.stdout, "check says so", done.stdout)
    status, out, err = b.run([], ["true"])
    check(status == 0 and "restored now: train.sh" in err, "the next run restores the files, and says so", err)
    check(b.files() == before, "they are as they were", set(b.files()) ^ set(before))
    check(not leftovers(b), "and only the log of the killed run stays", leftovers(b))


def leftovers(b):
    """What runs have left in the state folder beside their logs."""
    runs = os.path.join(b.state, "plimsoll", "run")
    return [os.path.join(n, f) for n in os.listdir(runs) for f in os.listdir(os.path.join(runs, n)) if f != "log"]


def log_of(b):
    runs = b.runs()["runs"]
    return open(runs[0]["log"]).read() if runs else ""


def restores_beside_others(b):
    """Two runs in one folder, which end in the order in which they began."""
    for names in ["a.sh", "b.sh"], ["a.sh", "a.sh"]:
        scripts = [write_script(b, name, "--card-mib $CARD --end wait") for name in names]
        before = b.files()
        first = b.start([], ["sh", names[0]], CARD="400")
        ready = until(lambda: "4 at a time" in log_of(b))
        second = b.start([], ["sh", names[1]], CARD="250")
        ready = ready and until(lambda: "2 at a time" in log_of(b))
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=MOST_SECONDS)
        check(ready and "batch_size 2" in open(scripts[1]).read(), "the second run goes on with its settings: %s" % names)
        if names[0] != names[1]:
            check("batch_size 8" in open(scripts[0]).read(), "the first has restored its file")
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=MOST_SECONDS)
        check(b.files() == before, "in the end all files are as they were: %s" % names, set(b.files()) ^ set(before))


def keeps_no_settings_that_failed(b):
    script = write_script(b, "train.sh", "--card-mib 210")
    before = b.files()
    status, out, err = b.run(["--keep", "--retries", "1"], ["sh", "train.sh"])
    check(status == 1 and "starting again" in err and "kept" not in err, "--keep after a failure claims nothing", err)
    check(b.files() == before, "and the files are as before", set(b.files()) ^ set(before))


def running(b):
    """Processes that were started in the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/cwd" % pid) == b.work:
                found.append(pid)
        except OSError:
            pass
    return found


def stops_where_nothing_helps(b):
    status, out, err = b.run([], TRAIN + ["--end", "error"])
    check(status == 1 and "not because of memory" in err, "another error is not memory", err)
    status, out, err = b.run([], TRAIN + ["--end", "host"])
    check(status == 1 and "starting again" not in err, "host memory: the batch is not touched", err)
    status, out, err = b.run([], TRAIN[:2] + ["1"] + TRAIN[3:] + ["--card-mib", "120"])
    check(status == 1 and "plimsoll explain" in err, "a micro batch of 1 cannot be halved", err)
    status, out, err = b.run(["--retries", "1"], TRAIN + ["--card-mib", "210"])
    check(status == 1 and err.count("starting again") == 1, "it starts again a bounded number of times", err)
    status, out, err = b.run(["--retries", "0"], TRAIN + ["--card-mib", "400"])
    check(status == 1 and "starting again" not in err, "--retries 0: never", err)


def cures_fragmentation(b):
    fragmented = TRAIN + ["--card-mib", "800", "--stranded-mib", "400"]
    status, out, err = b.run([], fragmented)
    check(status == 0 and "starting again" not in err, "expandable segments are on from the start", err)
    status, out, err = b.run([], fragmented, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:512")
    check(status == 0 and "starting again with expandable segments in place of your" in err and "16 samples of 8" in out, "fragmentation is cured, and the batch is not touched", err)


def warns(b):
    steps = ["--max_steps", "60", "--leak-mib", "10", "--card-mib", "1500", "--step-ms", "60"]
    status, out, err = b.run([], TRAIN[:5] + steps)
    check(status == 0 and "memory grows by 10.0 MiB per step" in err, "a leak is announced", err)
    check("1 warning: plimsoll runs show 1" in err.split("\n")[-2], "the last line says that there was a warning", err)
    status, out, err = b.run([], TRAIN[:5] + ["--max_steps", "40", "--long-every", "3", "--card-mib", "5000", "--step-ms", "30"])
    check(status == 0 and err.count("the peak swings between 500 MiB and 900 MiB from step to step") == 1, "swings between steps are told once", err)
    status, out, err = b.run([], TRAIN[:5] + ["--max_steps", "40", "--card-mib", "5000", "--step-ms", "30"])
    check(status == 0 and "swings" not in err, "equal steps are no swings", err)
    steps[5] = "900"
    status, out, err = b.run([], TRAIN[:5] + steps)
    check(status == 1 and "a leak filled the GPU: memory grew by 10.0 MiB with each step" in err and "starting again" not in err, "a leak that fills the card is the cause", err)


def ranks(world, steps, of_rank_1):
    """A shell command that starts ranks 0 and 1, the second with other flags, and fails if one of them does."""
    start = "RANK=%%d WORLD_SIZE=%d LOCAL_WORLD_SIZE=2 ./trainer %s %%s & a%%d=$!;" % (world, " ".join(steps))
    return ["sh", "-c", start % (0, "", 0) + start % (1, of_rank_1, 1) + " wait $a0; x=$?; wait $a1 && exit $x"]


def follows_ranks(b):
    steps = ["--max_steps", "8", "--step-ms", "200"]
    status, out, err = b.run([], ranks(2, steps, "--sample-mib 70"))
    check(status == 0 and "finished after 8 optimizer steps; peak 660 MiB of 1000 MiB on the fullest GPU (rank 1)" in err, "the fullest rank is named at the end", err)
    newest = b.newest()
    check(newest["fullest_rank"] == 1 and {s["rank"] for s in newest["samples"]} == {0, 1}, "the record has both ranks", newest)
    shown = subprocess.run([PLIMSOLL, "runs", "show", str(newest["run"])], env=b.env, stdout=subprocess.PIPE, text=True).stdout
    check("at most 660 MiB of 1000 MiB were in use on the GPU of rank 1" in shown, "runs names it too", shown)
    status, out, err = b.run([], ranks(2, steps, "--card-mib 600"))
    check(status == 0 and "peak 500 MiB of 600 MiB on the fullest GPU (rank 1)" in err, "a smaller GPU with as much on it is fuller", err)
    steps = ["--max_steps", "60", "--card-mib", "1500", "--step-ms", "60"]
    status, out, err = b.run([], ranks(2, steps, "--leak-mib 10"))
    check(status == 0 and "rank 1: memory grows by 10.0 MiB per step" in err and "rank 0:" not in err, "the leak of one rank is announced with its number", err)


def stays_on_its_machine(b):
    status, out, err = b.run([], ranks(4, ["--max_steps", "4"], "--long-step 3 --sample-mib 70"))
    check("2 of the 4 ranks run on this machine; plimsoll sees only these" in err, "a training on two machines is recognised", err)
    check(status == 1 and "the program is not started again: it also runs on other machines" in err and "starting again" not in err, "and not started again on one of them", err)
    status, out, err = b.run([], ranks(4, ["--max_steps", "4"], "--end error"))
    check(status == 1 and "not because of memory on this machine; the cause may be on another one" in err, "a failure that may come from elsewhere", err)


def passes_signals(b):
    process = b.start([], TRAIN + ["--end", "wait"])
    log = until(lambda: b.runs()["runs"] and "step 6" in open(b.newest()["log"]).read())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=MOST_SECONDS)
    check(log and process.returncode == 128 + signal.SIGTERM and "stopped" in err, "a signal ends the program, and it is not started again", err)


def survives_a_silent_driver(b):
    hangs = os.path.join(b.folder, "hangs")
    driver = dict(PLIMSOLL_NVML=os.path.join(os.path.dirname(PLIMSOLL), "libfake_nvml.so"), FAKE_NVML_HANGS=hangs, PLIMSOLL_NVML_SECONDS="0.5")
    open(hangs, "w").close()
    status, out, err = b.run([], TRAIN, **driver)
    check(status == 0 and out.count("16 samples") == 6, "a driver that never answers holds up neither start nor end", err)
    check("the NVIDIA driver does not answer" in err and "no NVIDIA GPU" not in err, "and it is told", err)
    os.unlink(hangs)
    program = ["sh", "-c", "touch %s; %s --card-mib 400 || exit $?; rm %s" % (hangs, " ".join(TRAIN), hangs)]
    status, out, err = b.run(["--retries", "0"], program, **driver)
    check(status == 1 and "does not answer, so it is not known which other processes" in err and "out of memory: " in err, "one that stops answering: the failure is explained without it", err)
    driver["FAKE_NVML_HANGS_IN"] = "Processes"
    status, out, err = b.run([], TRAIN, **driver)
    check(status == 0 and "it is not known which processes use its GPUs" in err, "likewise one that does not list the processes", err)
    reader, writer = os.pipe()
    process = subprocess.Popen([PLIMSOLL, "run", "--", "true"], cwd=b.work, env=dict(b.env, **driver), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer)
    os.close(writer)
    with open(reader) as f:
        check("finished" in f.read() and process.wait(MOST_SECONDS) == 0, "nobody keeps its output open")


class Hook(http.server.BaseHTTPRequestHandler):
    got = []

    def do_POST(self):
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def notifies(b):
    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://127.0.0.1:%d/a" % server.server_port
    if not shutil.which("curl"):
        print("skipped: there is no curl")
        return
    b.run(["--notify", url], TRAIN + ["--card-mib", "400"])
    wanted = {"start", "failure", "recovery", "end"}
    check(until(lambda: wanted <= {g["event"] for g in Hook.got}), "a webhook is told", Hook.got)
    server.shutdown()
    status, out, err = b.run(["--notify", "http://127.0.0.1:9/"], TRAIN)
    check(status == 0 and err.count("the webhook could not be notified: ") == 1, "a webhook that is down harms nothing, and that is said once", err)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        status, out, err = b.run(["--notify", "http://127.0.0.1:%d/" % silent.getsockname()[1]], TRAIN)
    check(status == 0 and "waiting for the webhook" in err and "did not answer within 10 seconds" in err, "neither does one that is silent", err)


def keeps_going_without_a_record(b):
    with open(os.path.join(b.folder, "state", "plimsoll", "runs.sqlite"), "wb") as f:
        f.write(b"this is no database " * 99)
    status, out, err = b.run([], TRAIN)
    check(status == 0 and "not be listed" in err, "a damaged record harms nothing", err)


class Lock:
    """The record, as another plimsoll has it that writes: nobody else can read or write."""

    def __init__(self, b):
        self.record = sqlite3.connect(os.path.join(b.state, "plimsoll", "runs.sqlite"), isolation_level=None, timeout=MOST_SECONDS)

    def __enter__(self):
        self.record.execute("BEGIN EXCLUSIVE")

    def __exit__(self, *_):
        self.record.execute("ROLLBACK")
        self.record.close()


def is_not_held_up_by_its_record(b):
    process = b.start([], TRAIN[:5] + ["--max_steps", "30", "--step-ms", "500"])
    check(process.stdout.readline().startswith("step 1:"), "the program prints")
    with Lock(b):
        begin, lines = time.monotonic(), 0
        while lines < 20 or time.monotonic() - begin < 12:  # longer than a writer waits for a lock
            lines += process.stdout.readline().startswith("step")
            if lines == 29:
                break
    out, err = process.communicate(timeout=MOST_SECONDS)
    one = b.newest()
    check(process.returncode == 0 and lines >= 20 and "record" not in err, "output goes on while the record is locked", (lines, err))
    check(one["end"] == "finished" and one["steps"] == 30 and len(one["samples"]) >= 5, "and nothing is missing from the record", one)
    check(one["samples"][-1]["step"] == 30 and one["samples"][-1]["peak_bytes"] == 500 << 20, "not even the last sample", one["samples"][-1])
    check([e["kind"] for e in one["events"]][-1] == "end", "or the last event", one["events"])


def keeps_a_record_of_runs_side_by_side(b):
    several = [b.start([], TRAIN + ["--step-ms", "100"]) for _ in range(4)]
    said = [p.communicate(timeout=MOST_SECONDS)[1] for p in several]
    found = b.runs()
    check(found["run_count"] == 4 and all(r["end"] == "finished" and r["steps"] == 6 for r in found["runs"]), "four runs at once are all recorded", (found, said))


def says_that_a_run_was_killed(b):
    process = b.start([], TRAIN + ["--end", "wait"])
    check(until(lambda: b.runs()["runs"] and b.newest()["steps"] == 6), "all samples are in the record while the program waits", b.newest())
    check(b.newest()["end"] == "running", "a run that goes on", b.newest())
    process.kill()
    process.communicate()
    one = b.newest()
    check(one["end"] == "killed" and one["ended"] is None and one["steps"] == 6 and one["peak_bytes"] == 500 << 20, "a run that was killed", one)
    shown = b.show("1")
    check("run 1: killed, began " in shown and "plimsoll was killed, the last report came after" in shown, "is said to be so", shown)
    check(until(lambda: not running(b)), "nothing of it runs", running(b))


def lists_thousands(b):
    b.run([], TRAIN)
    with sqlite3.connect(os.path.join(b.state, "plimsoll", "runs.sqlite")) as record:
        columns = "began, ended, pid, status, command, folder, log, card, how, total, peak, steps"
        record.executemany("INSERT INTO run(%s) SELECT %s FROM run WHERE id=1" % (columns, columns), [()] * 1999)
        record.executemany("INSERT INTO sample SELECT ?, time, rank, step, allocated, reserved, used, peak FROM sample WHERE run=1", [(2 + i % 1999,) for i in range(20000)])
    record.close()
    shown = b.show()
    check(len(shown.split("\n")) == 23 and "the newest 20 of 2,000 runs; to list all: plimsoll runs -n 2000" in shown, "of two thousand runs, the newest are listed", shown)
    check(len(b.show("-n", "2000").split("\n")) == 2002, "and all if asked")
    check(b.runs("-n", "3")["run_count"] == 2000 and len(b.runs("-n", "3")["runs"]) == 3, "likewise in JSON")
    os.remove(b.runs("1")["log"])
    check("(it was removed)" in b.show("1") and b.runs("1")["has_log"] is False, "a log that is gone is said to be", b.show("1"))


def refuses_records_that_are_not_its_own(b):
    path = os.path.join(b.state, "plimsoll", "runs.sqlite")
    b.run([], TRAIN)
    with sqlite3.connect(path) as record:
        record.execute("PRAGMA user_version=99")
    record.close()
    check("written by a newer version of plimsoll" in b.show(), "a record of a newer version", b.show())
    status, out, err = b.run([], TRAIN)
    check(status == 0 and "newer version" in err, "with which a run goes on", err)
    os.remove(path)
    with sqlite3.connect(path) as record:
        record.execute("CREATE TABLE songs(title)")
    record.close()
    before = open(path, "rb").read()
    check("is not a record of runs" in b.show(), "a database of another program", b.show())
    status, out, err = b.run([], TRAIN)
    check(status == 0 and "is not a record of runs" in err and open(path, "rb").read() == before, "is left as it is", err)
    with open(path, "wb") as f:
        f.write(b"SQLite format 3\0" + b"\x5a" * 5000)
    check("the file is damaged: move it away" in b.show(), "a damaged file", b.show())
    open(path, "wb").close()
    check("There are no runs yet" in b.show(), "an empty file")


def reads_a_record_that_may_not_be_written(b):
    b.run([], TRAIN)
    folder = os.path.join(b.state, "plimsoll")
    os.chmod(b.folder, 0o755)  # of the temporary folder; its user may be another one now
    os.chmod(os.path.join(folder, "runs.sqlite"), 0o444)
    for path in b.state, folder:
        os.chmod(path, 0o555)
    try:
        user = {"user": 65534} if os.geteuid() == 0 else {}  # root may write everywhere
        done = subprocess.run([PLIMSOLL, "runs"], cwd="/", env=b.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **user)
        check(done.returncode == 0 and "finished" in done.stdout, "a record in a folder that may not be written is read", done.stdout)
    except PermissionError:
        print("skipped: another user cannot run plimsoll here")
    for path in b.state, folder:
        os.chmod(path, 0o755)


def reads_a_record_of_the_first_version(b):
    path = os.path.join(b.state, "plimsoll", "runs.sqlite")
    b.run([], TRAIN)
    with sqlite3.connect(path) as record:
        record.execute("ALTER TABLE sample DROP COLUMN peak")
        record.execute("PRAGMA user_version=1")
    record.close()
    one = b.newest()
    check(one["end"] == "finished" and one["samples"][-1]["peak_bytes"] is None, "a record of version 1 is read", one)
    status, out, err = b.run([], TRAIN)
    check(status == 0 and b.newest()["samples"][-1]["peak_bytes"] == 500 << 20, "and written", err)


def survives_its_readers(b):
    process = b.start([], ["sh", "-c", "grep SigIgn /proc/self/status; sleep 0.5; exit 3"])
    first = process.stderr.readline()
    ignored = int(process.stdout.readline().split()[1], 16)
    process.stderr.close()
    status = process.wait(timeout=MOST_SECONDS)
    check(first.startswith("plimsoll: run") and status == 3 and b.newest()["end"] == "failed", "nobody reads what is told: the run goes on, and its end is recorded", (status, b.newest()))
    check(not ignored >> (signal.SIGPIPE - 1) & 1, "the program does not inherit it", hex(ignored))


def takes_any_bytes(b):
    odd = b"a\xffb\x1b[31m\n"
    words = [PLIMSOLL, "run", "--json", "--", "sh", "-c", "cat \"$PLIMSOLL_LIVE/run.json\"; printf '\\377\\000'; exit 5", odd]
    done = subprocess.run(words, cwd=b.work, env=b.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    about, end, rest = done.stdout.partition(b"}")
    check(done.returncode == 5 and rest == b"\xff\x00", "output that is no text", done.stdout)
    check("a?b" in json.loads(about + end)["command"], "watch finds a run whose command is no text", about)
    for words in ["runs"], ["runs", "1"]:
        done = subprocess.run([PLIMSOLL] + words, cwd=b.work, env=b.env, stdout=subprocess.PIPE)
        check(b"\x1b" not in done.stdout and b"\xff" not in done.stdout, "%s does not control the terminal" % words, done.stdout)


def knows_what_still_runs(b):
    """A process with the number of a run that was killed long ago is another one."""
    b.run([], ["true"])
    with sqlite3.connect(os.path.join(b.state, "plimsoll", "runs.sqlite")) as db:
        db.execute("INSERT INTO run(began, pid, command) VALUES(1e9, ?, 'old')", [os.getpid()])
        db.execute("INSERT INTO run(began, pid, command) VALUES(?, ?, 'new')", [time.time(), os.getpid()])
    check([r["end"] for r in b.runs()["runs"]][:2] == ["running", "killed"], "what still runs", b.runs())


def says_what_it_cannot_see(b):
    for options in ["-I"], ["-uE"], ["-W", "error", "-S"], ["-Xdev", "-IS"]:
        status, out, err = b.run([], ["python3"] + options + ["-c", "pass"])
        check(status == 0 and "Python's option %s keeps it" % options[-1] in err and "no optimizer step was seen" in err, "python %s" % options, err)
    for options in ["-u"], ["-W", "Ignore"], ["-WIgnore"]:
        status, out, err = b.run([], ["python3"] + options + ["-c", "import sys; sys.argv", "-I"])
        check(status == 0 and "keeps it from loading" not in err, "python %s" % options, err)


def takes_any_numbers(b):
    status, out, err = b.run(["--spill", "99999999999999999"], ["sh", "-c", "echo $PLIMSOLL_HOOK_SPILL"])
    check(out == "%d\n" % (2**64 - 2), "--spill of more than there can be", (out, err))
    sample = '{"t": 1, "step": 3, "reserved": 50, "peak_reserved": 50, "free": 200, "total": 100}'
    status, out, err = b.run([], ["sh", "-c", "echo '%s' >$PLIMSOLL_LIVE/$$.live" % sample])
    check(b.newest()["peak_bytes"] == 50, "a card with more free memory than it has", b.newest())


def draws(b):
    b.run([], TRAIN)
    picture = os.path.join(b.folder, "memory.svg")
    done = subprocess.run([PLIMSOLL, "runs", "show", "1", "--svg", picture], cwd=b.work, env=b.env, stdout=subprocess.PIPE, text=True)
    check(done.returncode == 0 and "peak: 500 MiB, step " in open(picture).read(), "a run is drawn")
    b.run(["--resume=--resume"], TRAIN + ["--long-step", "4", "--card-mib", "800", "--checkpoint", "last", "--step-ms", "300"])
    subprocess.run([PLIMSOLL, "runs", "show", "2", "--svg", picture], cwd=b.work, env=b.env, stdout=subprocess.DEVNULL)
    check(">start 1</text>" in open(picture).read() and ">start 2</text>" in open(picture).read(), "both starts of a recovered run are marked", open(picture).read())
    check(done.returncode == 0 and "<svg" in open(picture).read(), "a run is drawn")
    sample = '{"t": 5, "step": 0, "rank": 0, "world": 1, "phase": "loading", "allocated": 0, "reserved": 0, "free": 1000, "total": 2000}'
    b.run([], ["sh", "-c", "echo '%s' > $PLIMSOLL_LIVE/$$.live; exit 1" % sample])
    done = subprocess.run([PLIMSOLL, "runs", "show", "3", "--svg", picture], cwd=b.work, env=b.env, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 2 and "made none" in done.stderr, "a run without a step has no picture", done.stderr)
    done = subprocess.run([PLIMSOLL, "runs", "99"], env=b.env, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 2 and "there is no run 99" in done.stderr, "a run that is not there", done.stderr)


def main():
    names = sys.argv[3:]
    for test in passes_through, recovers, recovers_in_files, says_json, restores_after_a_kill, restores_after_everything_was_killed, restores_beside_others, keeps_no_settings_that_failed, stops_where_nothing_helps, cures_fragmentation, warns, survives_a_silent_driver, follows_ranks, stays_on_its_machine, passes_signals, notifies, survives_its_readers, takes_any_bytes, knows_what_still_runs, says_what_it_cannot_see, takes_any_numbers, draws, keeps_going_without_a_record, is_not_held_up_by_its_record, keeps_a_record_of_runs_side_by_side, says_that_a_run_was_killed, lists_thousands, refuses_records_that_are_not_its_own, reads_a_record_that_may_not_be_written, reads_a_record_of_the_first_version:
        if names and test.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="plimsoll-run-") as folder:
            bench = Bench(os.path.realpath(folder))
            os.makedirs(os.path.join(bench.state, "plimsoll"), exist_ok=True)
            test(bench)
            if not test.__name__.startswith("restores_after") and test is not says_that_a_run_was_killed:
                check(not leftovers(bench) and not running(bench), "%s: nothing is left but the log" % test.__name__, (leftovers(bench), running(bench)))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
