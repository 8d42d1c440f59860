#!/usr/bin/env python3
"""Grows a recorded snapshot to about TARGET_BYTES, for benchmarks.

usage: grow.py IN OUT TARGET_BYTES

IN is a snapshot (plain or .xz) that was recorded from an empty allocator. OUT is a plain pickle as
torch writes it: the trace of IN repeated, each time followed by the frees of what is still live and
by what empty_cache would then give back, so that every repetition starts from an empty allocator.
The last repetition is plain: the `segments` of IN are the end state of OUT, too. Prints the number
of trace entries.

Frame dicts are shared as in IN; frame lists are shared within a repetition as in IN and are new
objects in each, which is how a longer recording looks.
"""

import lzma
import pickle
import sys

GAP_US = 1000  # between one repetition and the next


def load(path):
    with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
        return pickle.load(file)


def live_blocks(trace):
    """Allocations never freed, in order, and those whose free is requested but not completed."""
    live, pending = {}, {}
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry
        elif entry["action"] == "free_requested":
            pending[entry["addr"]] = live.pop(entry["addr"], entry)
        elif entry["action"] == "free_completed":
            pending.pop(entry["addr"], None)
    return list(live.values()), list(pending.values())


def empty_cache_events(snapshot, device):
    """(action, segment) in the order of empty_cache: the large pool first, each by (stream, size, address)."""
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    segments.sort(key=lambda s: (s["segment_type"] != "large", s["stream"], s["total_size"], s["address"]))
    return [("segment_unmap" if s["is_expandable"] else "segment_free", s) for s in segments]


def tear_down(snapshot, device, trace):
    """The entries that lead from the end of the trace to an empty allocator."""
    end = trace[-1]["time_us"]
    blank = {"compile_context": "N/A", "user_metadata": "", "time_us": end}

    def free(action, entry):
        return {
            "action": action,
            "addr": entry["addr"],
            "size": entry["size"],
            "stream": entry["stream"],
            **blank,
            "frames": entry.get("frames", []),
        }

    live, pending = live_blocks(trace)
    entries = [free("free_completed", entry) for entry in pending]
    for entry in live:
        entries += [free("free_requested", entry), free("free_completed", entry)]
    for action, segment in empty_cache_events(snapshot, device):
        entries.append(
            {
                "action": action,
                "addr": segment["address"],
                "size": segment["total_size"],
                "stream": segment["stream"],
                **blank,
                "frames": [],
            }
        )
    return entries


def copy_trace(entries, shift_us):
    """New entries with shifted times and new frame lists, shared where `entries` shares them."""
    lists = {}
    copies = []
    for entry in entries:
        copy = dict(entry)
        copy["time_us"] = entry["time_us"] + shift_us
        if "frames" in entry:
            frames = entry["frames"]
            if id(frames) not in lists:
                lists[id(frames)] = list(frames)
            copy["frames"] = lists[id(frames)]
        copies.append(copy)
    return copies


def grow(snapshot, times, device):
    trace = snapshot["device_traces"][device]
    again = trace + tear_down(snapshot, device, trace)
    period = again[-1]["time_us"] - again[0]["time_us"] + GAP_US
    grown, annotations = [], []
    for turn in range(times):
        shift = turn * period
        grown += copy_trace(trace if turn == times - 1 else again, shift)
        annotations += [{**note, "time_us": note["time_us"] + shift} for note in snapshot["external_annotations"]]
    traces = list(snapshot["device_traces"])
    traces[device] = grown
    return {**snapshot, "device_traces": traces, "external_annotations": annotations}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, target, target_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    snapshot = load(source)
    device = max(range(len(snapshot["device_traces"])), key=lambda i: len(snapshot["device_traces"][i]))
    sizes = [len(pickle.dumps(grow(snapshot, times, device), protocol=4)) for times in (2, 6)]
    per_turn = (sizes[1] - sizes[0]) / 4
    times = max(1, round(2 + (target_bytes - sizes[0]) / per_turn))
    grown = grow(snapshot, times, device)
    with open(target, "wb") as file:
        pickle.dump(grown, file, protocol=4)
    print(sum(len(trace) for trace in grown["device_traces"]))


if __name__ == "__main__":
    main()
