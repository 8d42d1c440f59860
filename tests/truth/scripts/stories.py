"""Records tests/truth/stories: small training programs, each with a known story.

usage: stories.py OUTDIR        needs a GPU and torch
"""

import os, sys, json, torch, traceback, copy, collections

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
M = 1 << 20
KEYS = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")


class Block(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up = torch.nn.Linear(d, 4 * d)
        self.down = torch.nn.Linear(4 * d, d)
        self.norm = torch.nn.LayerNorm(d)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self, d=512, n=6, v=8000):
        super().__init__()
        self.emb = torch.nn.Embedding(v, d)
        self.blocks = torch.nn.ModuleList([Block(d) for _ in range(n)])
        self.head = torch.nn.Linear(d, v)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(x)


def batch(i=0):
    return torch.randint(0, 8000, (4, 128), device="cuda")


def loss_of(net, ids):
    return torch.nn.functional.cross_entropy(net(ids).view(-1, 8000), ids.view(-1))


def leak_graph():  # the classic: total += loss keeps every step's graph
    net = Net().cuda()
    opt = torch.optim.AdamW(net.parameters())
    total = 0
    for i in range(8):
        loss = loss_of(net, batch())
        total = total + loss
        loss.backward(retain_graph=False)
        opt.step()
        opt.zero_grad()
    globals()["k"] = (net, opt, total)


def leak_list():  # embeddings kept for a later metric
    net = Net().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    kept = []
    for i in range(12):
        ids = batch()
        h = net.emb(ids)
        kept.append(h.detach().clone())
        loss_of(net, ids).backward()
        opt.step()
        opt.zero_grad()
    globals()["k"] = (net, kept)


def bounded_queue():  # a queue of fixed length is no leak
    net = Net().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    q = collections.deque(maxlen=4)
    for i in range(16):
        ids = batch()
        h = net.emb(ids)
        q.append(h.detach().clone())
        loss_of(net, ids).backward()
        opt.step()
        opt.zero_grad()
    globals()["k"] = (net, q)


def reference_model():  # DPO style: a frozen copy of the policy
    net = Net().cuda().bfloat16()
    ref = copy.deepcopy(net).eval().requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters())
    for i in range(4):
        ids = batch()
        with torch.no_grad():
            r = ref(ids).float().mean()
        (loss_of(net, ids) + r.detach()).backward()
        opt.step()
        opt.zero_grad()
    globals()["k"] = (net, ref)


def two_models():  # two different models: no duplicate
    a = Net().cuda()
    b = Net(384, 4, 5000).cuda()
    oa = torch.optim.AdamW(a.parameters())
    ob = torch.optim.AdamW(b.parameters())
    for i in range(4):
        ids = batch()
        loss_of(a, ids).backward()
        oa.step()
        oa.zero_grad()
        ids = torch.randint(0, 5000, (4, 128), device="cuda")
        torch.nn.functional.cross_entropy(b(ids).view(-1, 5000), ids.view(-1)).backward()
        ob.step()
        ob.zero_grad()
    globals()["k"] = (a, b)


def accumulate():  # gradient accumulation over 4 micro batches
    net = Net().cuda()
    opt = torch.optim.AdamW(net.parameters())
    for i in range(5):
        for _ in range(4):
            (loss_of(net, batch()) / 4).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
    globals()["k"] = (net, opt)


def keep_grads():  # zero_grad(set_to_none=False): gradients live for ever
    net = Net().cuda()
    opt = torch.optim.AdamW(net.parameters())
    for i in range(5):
        loss_of(net, batch()).backward()
        opt.step()
        opt.zero_grad(set_to_none=False)
    globals()["k"] = (net, opt)


def own_loop():  # no torch.optim: an update by hand
    net = Net().cuda()
    ps = list(net.parameters())
    for i in range(6):
        loss_of(net, batch()).backward()
        with torch.no_grad():
            for p in ps:
                p -= 0.01 * p.grad
                p.grad = None
    globals()["k"] = net


def evaluate():  # training with an evaluation in between, and empty_cache
    net = Net().cuda()
    opt = torch.optim.AdamW(net.parameters(), fused=True)
    for i in range(6):
        loss_of(net, batch()).backward()
        opt.step()
        opt.zero_grad()
        if i % 2:
            with torch.no_grad():
                net(torch.randint(0, 8000, (16, 256), device="cuda")).softmax(-1).mean().item()
            torch.cuda.empty_cache()
    globals()["k"] = (net, opt)


CASES = [
    (f.__name__.replace("_", "-"), "python", f, None, "")
    for f in (
        leak_graph,
        leak_list,
        bounded_queue,
        reference_model,
        two_models,
        accumulate,
        keep_grads,
        own_loop,
        evaluate,
    )
] + [
    ("cpp-stacks", "all", accumulate, None, ""),
    ("evaluate-exp", "python", evaluate, None, "expandable_segments:True"),
]
for name, stacks, fn, cap, conf in CASES:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        continue
    try:
        if conf:
            os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
        torch.manual_seed(0)
        torch.cuda.init()
        total = torch.cuda.get_device_properties(0).total_memory
        if cap:
            torch.cuda.set_per_process_memory_fraction(cap / total)
        torch.cuda.memory._record_memory_history(
            enabled="all", context="all", stacks=stacks, max_entries=4_000_000
        )
        fn()
        torch.cuda.synchronize()
        st = torch.cuda.memory_stats()
        info = {
            "name": name,
            "alloc_conf": conf,
            "cap_bytes": cap,
            "total_memory": total,
            "torch": torch.__version__,
            "status": "ok",
        }
        for k in KEYS:
            info[k] = st.get(k)
        torch.cuda.memory._dump_snapshot(f"{out}/{name}.pickle")
        json.dump(info, open(f"{out}/{name}.json", "w"), indent=1)
        print(
            name, os.path.getsize(f"{out}/{name}.pickle"), info["reserved_bytes.all.peak"] >> 20, flush=True
        )
    except Exception:
        print("FAILED", name)
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(0)
