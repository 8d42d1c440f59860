#!/usr/bin/env python3
"""Checks what plimsoll_live writes about memory, and that a program sees its own peaks as if it were alone, with a torch that
only counts. The last line is "N passed, N failed"."""
import copy
import json
import os
import random
import sys
import tempfile
import types

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python"))
import plimsoll_live
import plimsoll_peaks

passed = failed = 0


def check(is_met, text, shown=""):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), shown if not is_met else "")


class Counters:
    """Of two GPUs, with a peak as PyTorch counts it: a reset makes it the present value."""

    def __init__(self):
        self.stats = [{name: {"all": {"current": 0, "peak": 0}, "small_pool": {"current": 0, "peak": 0}} for name in ("allocated_bytes", "reserved_bytes")} for _ in range(2)]
        for stats in self.stats:
            stats["num_alloc_retries"] = 0

    def each(self, device):
        return [pool for name in ("allocated_bytes", "reserved_bytes") for pool in self.stats[device][name].values()]

    def allocate(self, device, size):
        for counter in self.each(device):
            counter["current"] += size
            counter["peak"] = max(counter["peak"], counter["current"])

    def read(self, device):
        if device >= 2:
            raise RuntimeError("no such device")
        return copy.deepcopy(self.stats[device])

    def reset(self, device):
        self.read(device)
        for counter in self.each(device):
            counter["peak"] = counter["current"]


def fake_torch(counters):
    cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, mem_get_info=lambda device: (900, 1000), _lazy_call=lambda call: call())
    cuda.get_device_properties = lambda device: types.SimpleNamespace(name="card", uuid="GPU-%d" % device)
    c = types.SimpleNamespace(_cuda_memoryStats=counters.read, _cuda_resetPeakMemoryStats=counters.reset)
    c._accelerator_getDeviceStats, c._accelerator_resetPeakStats = counters.read, counters.reset
    c._cuda_attach_out_of_memory_observer = lambda observer: setattr(c, "observer", observer)
    return types.SimpleNamespace(cuda=cuda, _C=c)


def peaks_are_as_without_us():
    chance = random.Random(7)
    ours, alone = Counters(), Counters()
    torch = fake_torch(ours)
    plimsoll_peaks.install(torch)
    highest = {0: 0, 1: 0}  # since our last look
    wrong = 0
    for _ in range(5000):
        device, what = chance.randrange(2), chance.random()
        if what < 0.6:
            size = chance.randrange(-min(50, alone.stats[device]["allocated_bytes"]["all"]["current"]), 60)
            for counters in ours, alone:
                counters.allocate(device, size)
            highest[device] = max(highest[device], alone.stats[device]["allocated_bytes"]["all"]["current"])
        elif what < 0.7:
            chance.choice([torch._C._cuda_resetPeakMemoryStats, torch._C._accelerator_resetPeakStats])(device)
            alone.reset(device)
        elif what < 0.85:
            wrong += plimsoll_peaks.since_last(device)["allocated_bytes"]["all"]["peak"] != highest[device]
            highest[device] = alone.stats[device]["allocated_bytes"]["all"]["current"]
        else:
            wrong += torch._C._cuda_memoryStats(device) != alone.read(device) or torch._C._accelerator_getDeviceStats(device) != alone.read(device)
    check(wrong == 0, "5,000 reads, resets and looks in any order", wrong)
    for function in torch._C._cuda_resetPeakMemoryStats, torch._C._cuda_memoryStats:
        try:
            function(9)
            check(False, "a device that is not there")
        except RuntimeError as error:
            check(str(error) == "no such device", "a device that is not there", error)


class Training:
    """A program, as plimsoll_observed tells it; steps are as fast as the test."""

    def __init__(self, folder):
        os.environ.update(PLIMSOLL_LIVE=folder, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        self.counters, self.path, self.steps = Counters(), os.path.join(folder, "%d.live" % os.getpid()), 0
        self.torch = fake_torch(self.counters)
        plimsoll_live.install(self.torch)
        plimsoll_live.begin("loading")
        self.counters.allocate(0, 100)
        plimsoll_live.begin("training")

    def use(self, size):
        self.counters.allocate(0, size)
        self.counters.allocate(0, -size)

    def step(self, size, pause=1.0):
        self.use(size)
        plimsoll_live.begin("optimizer")
        self.steps += 1
        plimsoll_live.begin("training")
        plimsoll_live._last -= pause
        plimsoll_live.after_step(self.steps)

    def lines(self):
        with open(self.path) as f:
            return [json.loads(line) for line in f]


def lines_have_the_peaks_of_their_phase(t):
    for size in 10, 20, 10, 50, 10:
        t.step(size)
    lines = [line for line in t.lines() if line["step"]]
    check([(line["step"], line["peak_allocated"]) for line in lines] == [(1, 110), (2, 120), (3, 110), (4, 150), (5, 110)], "a line for each step, with its peak", lines)
    t.use(30)
    plimsoll_live.begin("evaluation")
    t.use(400)
    plimsoll_live.begin("training")
    t.step(10)
    found = [(line["phase"], line["peak_allocated"]) for line in t.lines()[-5:]]
    check(found == [("training", 130), ("evaluation", 100), ("evaluation", 500), ("training", 100), ("training", 110)], "the peak of an evaluation is not the training's", found)
    before = len(t.lines())
    for _ in range(100):
        t.step(10, pause=0)
    check(len(t.lines()) <= before + 3, "many fast steps share a line", len(t.lines()) - before)


def a_failure_has_the_lengths(t):
    for tokens in 64, 128, 32, 512:
        plimsoll_live.take_batch(tokens)
    t.torch._C.observer(0, 77, 0, 5)
    line = t.lines()[-1]
    check((line["oom_bytes"], line["sample_tokens"], line["longest_tokens"]) == (77, 512, 128), "the failing batch and the longest before it", line)
    plimsoll_live.take_batch(None)
    t.torch._C.observer(0, 77, 0, 5)
    check(t.lines()[-1]["sample_tokens"] is None, "in an evaluation the length is not known", t.lines()[-1])


def main():
    peaks_are_as_without_us()
    with tempfile.TemporaryDirectory() as folder:
        training = Training(folder)
        lines_have_the_peaks_of_their_phase(training)
        a_failure_has_the_lengths(training)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


sys.exit(main())
