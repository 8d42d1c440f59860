"""Records what tests/truth/recorded holds: allocator behaviour that training seldom shows.

usage: recorded.py OUTDIR [NAME...]        needs a GPU and torch
"""

import os, sys, json, random, torch, traceback, ctypes

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
M = 1 << 20
G = 1 << 30
KEYS = (
    "allocated_bytes.all.peak",
    "reserved_bytes.all.peak",
    "active_bytes.all.peak",
    "requested_bytes.all.peak",
    "allocated_bytes.all.current",
    "reserved_bytes.all.current",
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "segment.all.allocated",
    "segment.all.freed",
    "allocation.all.allocated",
)


def u8(n):
    return torch.empty(n, dtype=torch.uint8, device="cuda")


def size(r):
    k = r.random()
    if k < 0.25:
        return r.randint(1, 4096)
    if k < 0.45:
        return r.randint(4096, M)
    if k < 0.60:
        return r.choice(
            [
                511,
                512,
                513,
                M - 512,
                M - 1,
                M,
                M + 1,
                2 * M,
                10 * M - 512,
                10 * M - 1,
                10 * M,
                10 * M + 1,
                20 * M,
                32 * M,
                32 * M - 512,
                64 * M,
                40 * M,
                41 * M,
                19 * M,
                9 * M,
            ]
        )
    if k < 0.85:
        return r.randint(M, 24 * M)
    return r.randint(24 * M, 160 * M)


def fuzz(seed, ops, budget, busy=False, nstreams=1, huge=None, keep=None):
    r = random.Random(seed)
    live = []
    used = 0
    sides = [torch.cuda.Stream() for _ in range(nstreams)]
    for i in range(ops):
        k = r.random()
        if k < 0.004:
            torch.cuda.empty_cache()
            continue
        if busy and k > 0.98:
            with torch.cuda.stream(r.choice(sides)):
                torch.cuda._sleep(r.randint(100_000, 3_000_000))
            continue
        if live and (k < 0.47 or used > budget * r.uniform(0.7, 1.0)):
            j = r.randrange(len(live)) if r.random() < 0.7 else len(live) - 1
            t, n = live.pop(j)
            used -= n
            if r.random() < (0.25 if busy else 0.03):
                for s in r.sample(sides, r.randint(1, len(sides))):
                    t.record_stream(s)
            del t
            continue
        n = size(r) if not (huge and r.random() < 0.003) else huge
        try:
            if r.random() < 0.08:
                with torch.cuda.stream(r.choice(sides)):
                    t = u8(n)
            else:
                t = u8(n)
            live.append((t, n))
            used += n
            del t
        except torch.OutOfMemoryError:
            for _ in range(min(len(live), r.randint(1, 6))):
                t, n = live.pop(r.randrange(len(live)))
                used -= n
                del t
    if keep is not None:
        keep.extend(live)


def trunc_test():
    # cap = 40 MiB - 0.4 bytes: rounded, two 20 MiB segments fit; truncated, they do not
    a = u8(20 * M)
    try:
        b = u8(20 * M)
    except torch.OutOfMemoryError:
        print("fraction is truncated")
    else:
        print("fraction is rounded")


def sync_release():
    # a block waits for a busy side stream; a request that only that block could serve arrives at the cap
    s = torch.cuda.Stream()
    a = u8(600 * M)
    b = u8(600 * M)
    c = u8(100 * M)
    with torch.cuda.stream(s):
        torch.cuda._sleep(2_000_000_000)
    a.record_stream(s)
    del a
    try:
        d = u8(500 * M)
        print("served after sync")
    except torch.OutOfMemoryError:
        print("oom although the block completed")
        d = None
    torch.cuda.synchronize()
    del b, c, d
    # the same, but with a split block that cannot be released as a whole segment
    a = u8(500 * M)
    torch.cuda.empty_cache()
    x = u8(900 * M)
    del x
    p = u8(300 * M)
    q = u8(300 * M)
    z = u8(200 * M)
    with torch.cuda.stream(s):
        torch.cuda._sleep(2_000_000_000)
    q.record_stream(s)
    del q
    try:
        d = u8(280 * M)
        print("split: served")
        del d
    except torch.OutOfMemoryError:
        print("split: oom although the block completed")
    torch.cuda.synchronize()
    e = u8(290 * M)


def poll_order():
    # first queued free unfinished, second (same side stream queue, then another stream) finished
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    a = u8(50 * M)
    b = u8(60 * M)
    c = u8(70 * M)
    with torch.cuda.stream(s1):
        torch.cuda._sleep(3_000_000_000)
    a.record_stream(s1)
    b.record_stream(s2)
    c.record_stream(s2)
    del b
    del a
    del c
    torch.cuda.current_stream().synchronize()
    s2.synchronize()
    for i in range(6):
        t = u8(40 * M + i * M)
        del t
    torch.cuda.synchronize()
    t = u8(55 * M)


def pools():
    r = random.Random(5)
    pool = torch.cuda.MemPool()
    live = []
    inp = []
    for i in range(3000):
        if live and r.random() < 0.5:
            live.pop(r.randrange(len(live)))
        elif r.random() < 0.3:
            with torch.cuda.use_mem_pool(pool):
                inp.append(u8(size(r) % (40 * M) + 1))
            if len(inp) > 20:
                inp.pop(r.randrange(len(inp)))
        else:
            live.append(u8(size(r)))
        if len(live) > 60:
            live.pop(r.randrange(60))
        if i == 1500:
            torch.cuda.empty_cache()
    inp.clear()
    del pool
    torch.cuda.empty_cache()
    live.append(u8(5 * M))


def graph():
    x = torch.randn(512, 1024, device="cuda")
    net = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
    ).cuda()
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            net(x).sum().backward()
    torch.cuda.current_stream().wait_stream(s)
    net.zero_grad(set_to_none=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = net(x)
        y.sum().backward()
    for _ in range(3):
        g.replay()
    z = [u8(30 * M) for _ in range(5)]
    del z
    torch.cuda.empty_cache()
    w = u8(7 * M)
    globals()["_k"] = (g, y, w)


def train(steps=6, rec_after=None, n=None):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)]).cuda()
    opt = torch.optim.AdamW(net.parameters(), fused=True)
    r = random.Random(1)
    for i in range(steps):
        if rec_after is not None and i == rec_after:
            torch.cuda.memory._record_memory_history(
                enabled="all", context="all", stacks="python", max_entries=n or 4_000_000
            )
            torch.cuda.reset_peak_memory_stats()
        x = torch.randn(r.randint(100, 4000), 1024, device="cuda")
        net(x).pow(2).mean().backward()
        opt.step()
        opt.zero_grad()
        if i == 3:
            torch.cuda.empty_cache()
    globals()["_n"] = (net, opt)


def late_fuzz(seed, n):
    keep = []
    fuzz(seed, 1500, 3 * G, nstreams=2, keep=keep)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=n or 4_000_000)
    torch.cuda.reset_peak_memory_stats()
    fuzz(seed + 1, 3000, 3 * G, nstreams=2)
    globals()["_f"] = keep


def real_oom():
    rt = ctypes.CDLL([l.split()[-1] for l in open("/proc/self/maps") if "libcudart" in l][0])
    free, total = torch.cuda.mem_get_info()
    p = ctypes.c_void_p()
    hog = free - 3 * G
    assert rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(hog)) == 0
    fuzz(77, 5000, 3.05 * G)


CASES = [  # name, conf, cap bytes, record from start?, max_entries, fn
    ("trunc", "", 40 * M - 0.4, True, None, trunc_test),
    ("sync-release-cap", "", 1400 * M, True, None, sync_release),
    ("sync-release-exp-cap", "expandable_segments:True", 1400 * M, True, None, sync_release),
    ("poll-order", "", None, True, None, poll_order),
    ("busy3", "", None, True, None, lambda: fuzz(11, 5000, 3 * G, True, 3)),
    ("busy2-cap2", "", 2 * G, True, None, lambda: fuzz(12, 5000, 2.04 * G, True, 2)),
    (
        "busy2-split32-cap2",
        "max_split_size_mb:32",
        2 * G,
        True,
        None,
        lambda: fuzz(13, 5000, 2.04 * G, True, 2),
    ),
    (
        "busy2-exp-cap2",
        "expandable_segments:True",
        2 * G,
        True,
        None,
        lambda: fuzz(14, 5000, 2.04 * G, True, 2),
    ),
    (
        "large40-exp-cap3",
        "large_segment_size_mb:40,expandable_segments:True",
        3 * G,
        True,
        None,
        lambda: fuzz(15, 4000, 3.05 * G),
    ),
    (
        "large40-split64-cap3",
        "large_segment_size_mb:40,max_split_size_mb:64",
        3 * G,
        True,
        None,
        lambda: fuzz(16, 4000, 3.05 * G),
    ),
    (
        "gc0.3-split20-cap2",
        "garbage_collection_threshold:0.3,max_split_size_mb:20",
        2 * G,
        True,
        None,
        lambda: fuzz(17, 5000, 2.04 * G, huge=2 * G + 5 * M),
    ),
    ("huge-cap2", "", 2 * G, True, None, lambda: fuzz(18, 4000, 2 * G, huge=2 * G + 5 * M)),
    (
        "round4-exp-cap7.25",
        "roundup_power2_divisions:[256:4,512:2,>:8],expandable_segments:True",
        7.25 * G,
        True,
        None,
        lambda: fuzz(19, 4000, 7.3 * G),
    ),
    ("mempool", "", None, True, None, pools),
    ("graph", "", None, True, None, graph),
    ("graph-exp", "expandable_segments:True", None, True, None, graph),
    ("late-train", "", None, False, None, lambda: train(6, 2)),
    ("late-train-exp", "expandable_segments:True", None, False, None, lambda: train(6, 2)),
    ("ring-train", "", None, False, 600, lambda: train(10, 0, 600)),
    ("late-fuzz", "", None, False, None, lambda: late_fuzz(21, None)),
    ("ring-fuzz", "", None, False, 3000, lambda: late_fuzz(22, 3000)),
    ("ring-fuzz-exp", "expandable_segments:True", None, False, 3000, lambda: late_fuzz(23, 3000)),
    ("ring-fuzz-cap3", "", 3 * G, False, 3000, lambda: late_fuzz(24, 3000)),
    ("real-oom", "", None, True, None, real_oom),
    ("real-oom-exp", "expandable_segments:True", None, True, None, real_oom),
]
only = sys.argv[2:]
for name, conf, cap, rec, n, fn in CASES:
    if only and name not in only:
        continue
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        continue
    try:
        if conf:
            os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
        torch.cuda.init()
        total = torch.cuda.get_device_properties(0).total_memory
        if cap:
            torch.cuda.set_per_process_memory_fraction(cap / total)
        if rec:
            torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=4_000_000)
        info = {
            "name": name,
            "alloc_conf": conf,
            "cap_bytes": cap,
            "total_memory": total,
            "torch": torch.__version__,
            "status": "ok",
            "from_start": rec,
        }
        try:
            fn()
        except torch.OutOfMemoryError as e:
            info["status"] = "oom"
            info["error"] = str(e)
        torch.cuda.synchronize()
        st = torch.cuda.memory_stats()
        for k in KEYS:
            info[k] = st.get(k)
        torch.cuda.memory._dump_snapshot(f"{out}/{name}.pickle")
        json.dump(info, open(f"{out}/{name}.json", "w"), indent=1)
        print(
            name,
            os.path.getsize(f"{out}/{name}.pickle"),
            info["reserved_bytes.all.peak"] >> 20,
            "retries",
            info["num_alloc_retries"],
            "ooms",
            info["num_ooms"],
            flush=True,
        )
    except Exception:
        print("FAILED", name)
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(0)
