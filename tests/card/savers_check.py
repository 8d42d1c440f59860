#!/usr/bin/env python3
"""Checks what plimsoll_savers and plimsoll_history do after steps, with a torch that only writes down what it is asked for. The
last line is "N passed, N failed"."""
import importlib
import os
import sys
import tempfile
import types

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "card", "python"))
passed = failed = 0


def check(is_met, text):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text))


class Torch:
    """What it was asked for is in `asked`."""

    def __init__(self):
        self.asked = asked = []
        memory = types.SimpleNamespace(
            _record_memory_history=lambda enabled="all", **kwargs: asked.append("record " + str(enabled)), _snapshot=lambda: ["a snapshot"]
        )
        self.cuda = types.SimpleNamespace(
            memory=memory, is_initialized=lambda: True, empty_cache=lambda: asked.append("empty"), _lazy_call=lambda function: function()
        )


def load(name, **variables):
    for key in "PLIMSOLL_EMPTY_CACHE_EVERY", "PLIMSOLL_GC_EVERY", "PLIMSOLL_CHUNKED_LOSS", "PLIMSOLL_FIRST", "PLIMSOLL_OUT":
        os.environ.pop(key, None)
    os.environ.update(variables)
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def savers():
    module, torch = load("plimsoll_savers", PLIMSOLL_EMPTY_CACHE_EVERY="2", PLIMSOLL_GC_EVERY="3"), Torch()
    for steps in 1, 2, 2, 3, 4, 5, 6:  # another optimizer steps after the second step
        module.after_step(torch, steps)
    check(torch.asked == ["empty"] * 3 and module.report() == {"empty_cache": 3, "gc": 2, "chunked_loss": None}, "every second step, every third")
    module, torch = load("plimsoll_savers"), Torch()
    module.after_step(torch, 1)
    check(not torch.asked and module.report() == {"empty_cache": None, "gc": None, "chunked_loss": None}, "nothing without a wish")
    module = load("plimsoll_savers", PLIMSOLL_CHUNKED_LOSS="512")
    check("does not use transformers" in module.report()["chunked_loss"]["off"], "a program without transformers has no chunked loss")


def first_step(folder):
    module, torch = load("plimsoll_history", PLIMSOLL_OUT=folder, PLIMSOLL_FIRST="1"), Torch()
    module.install(torch, False)
    check(torch.asked == ["record all"], "history is on from the start")
    path = os.path.join(folder, "%d.first.pickle" % os.getpid())
    module.after_step()
    check(os.path.exists(path) and torch.asked == ["record all", "record None"], "and off after the first step, which is written")
    os.remove(path)
    module.after_step()
    module.finish_first()
    check(not os.path.exists(path) and len(torch.asked) == 2, "once")
    module, torch = load("plimsoll_history", PLIMSOLL_OUT=folder, PLIMSOLL_FIRST="1"), Torch()
    module.install(torch, True)
    module.finish_first()
    check(os.path.exists(path) and torch.asked == ["record all"], "a run that is recorded as a whole goes on being recorded")
    module, torch = load("plimsoll_history", PLIMSOLL_OUT=os.path.join(folder, "gone"), PLIMSOLL_FIRST="1"), Torch()
    module.install(torch, False)
    module.after_step()
    check(torch.asked == ["record all", "record None"], "a folder that cannot be written does no harm")


def requests(folder):
    module, torch = load("plimsoll_history", PLIMSOLL_OUT=folder), Torch()
    module.install(torch, False)
    ask, now, looks, stat = os.path.join(folder, "%d.ask" % os.getpid()), [100.0], [], os.stat
    module.time = types.SimpleNamespace(monotonic=lambda: now[0])
    module.os = types.SimpleNamespace(**{**vars(os), "stat": lambda path: looks.append(path) or stat(path)})

    def step(text, seconds):
        if text:
            with open(ask, "wb") as f:
                f.write(text.encode("latin-1"))
        now[0] += seconds
        module.after_step()
        return os.path.exists(ask)

    for _ in range(1000):
        step(None, 0.01)
    check(10 <= len(looks) <= 11 and not torch.asked, "1,000 steps in 10 seconds look %d times, and do nothing else" % len(looks))
    check(not step("history on\n", 1.5) and torch.asked == ["record all"], "history on")
    check(step("snapshot later.pickle", 0.1) and not step(None, 1.5), "a request is seen after a second at most")
    check(os.path.exists(os.path.join(folder, "later.pickle")) and torch.asked[1:] == ["record None"], "a snapshot ends the history")
    before = sorted(os.listdir(folder))
    for text in "", "snapshot", "snapshot ../x.pickle", "snapshot a b", "\x00\xff", "history off":
        check(not step(text or " ", 1.5) and sorted(os.listdir(folder)) == before, "%r is not understood and removed" % text)
    os.mkdir(ask)
    check(step(None, 1.5), "a folder of that name does no harm")


with tempfile.TemporaryDirectory() as folder:
    savers()
    first_step(folder)
    requests(folder)
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
