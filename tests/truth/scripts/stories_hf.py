"""Records more of tests/truth/stories, with transformers models.

usage: stories_hf.py OUTDIR        needs a GPU, torch, transformers
"""

import os, sys, json, random, torch, traceback, copy

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
M = 1 << 20
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

transformers.logging.set_verbosity_error()
KEYS = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms")


def llama(h=512, n=4, v=16000):
    return AutoModelForCausalLM.from_config(
        CONFIG_MAPPING["llama"](
            hidden_size=h,
            intermediate_size=4 * h,
            num_hidden_layers=n,
            num_attention_heads=8,
            num_key_value_heads=4,
            vocab_size=v,
        ),
        dtype=torch.bfloat16,
    )


def gpu(m):
    return m.to("cuda").train()


def step(m, opt, ids):
    l = m(input_ids=ids, labels=ids).loss
    l.backward()
    opt.step()
    opt.zero_grad()
    return l


def loss_plus_zero():
    m = gpu(llama())
    opt = torch.optim.AdamW(m.parameters())
    kept = []
    for i in range(20):
        kept.append(step(m, opt, torch.randint(0, 16000, (2, 128), device="cuda")) + 0)
    globals()["k"] = (m, kept)


def hidden_leak_varlen():
    m = gpu(llama())
    opt = torch.optim.AdamW(m.parameters(), fused=True)
    kept = []
    r = random.Random(1)
    for i in range(14):
        ids = torch.randint(0, 16000, (2, r.randint(50, 300)), device="cuda")
        o = m(input_ids=ids, labels=ids, output_hidden_states=True)
        o.loss.backward()
        opt.step()
        opt.zero_grad()
        kept.append(o.hidden_states[-1].detach())
    globals()["k"] = (m, kept)


def grad_leak_retain():
    m = gpu(llama())
    opt = torch.optim.AdamW(m.parameters())
    total = 0
    for i in range(8):
        ids = torch.randint(0, 16000, (2, 128), device="cuda")
        l = m(input_ids=ids, labels=ids).loss
        l.backward(retain_graph=True)
        total = total + l
        opt.step()
        opt.zero_grad()
    globals()["k"] = (m, total)


def state_dict_copy():
    m = gpu(llama())
    opt = torch.optim.AdamW(m.parameters())
    best = None
    for i in range(6):
        step(m, opt, torch.randint(0, 16000, (2, 128), device="cuda"))
        if i == 2:
            best = {k: v.clone() for k, v in m.state_dict().items()}
    globals()["k"] = (m, best)


def ema():
    m = gpu(llama()).float()
    e = copy.deepcopy(m)
    opt = torch.optim.AdamW(m.parameters())
    for i in range(6):
        step(m, opt, torch.randint(0, 16000, (2, 128), device="cuda"))
        with torch.no_grad():
            for a, b in zip(e.parameters(), m.parameters()):
                a.mul_(0.99).add_(b, alpha=0.01)
    globals()["k"] = (m, e)


def load_twice():
    sd = {k: v.cuda() for k, v in llama().state_dict().items()}
    m = gpu(llama())
    m.load_state_dict(sd)
    opt = torch.optim.AdamW(m.parameters())
    for i in range(4):
        step(m, opt, torch.randint(0, 16000, (2, 128), device="cuda"))
    globals()["k"] = (m, sd)


def trainer_eval():
    m = llama()
    ds = [
        {"input_ids": torch.randint(0, 16000, (64,)), "labels": torch.randint(0, 16000, (64,))}
        for _ in range(32)
    ]
    a = transformers.TrainingArguments(
        output_dir=os.path.join(out, "trainer"),
        per_device_train_batch_size=4,
        max_steps=6,
        eval_strategy="steps",
        eval_steps=2,
        per_device_eval_batch_size=8,
        report_to=[],
        save_strategy="no",
        bf16=True,
        logging_steps=1,
    )
    t = transformers.Trainer(model=m, args=a, train_dataset=ds, eval_dataset=ds)
    t.train()
    globals()["k"] = t


def inference():
    m = gpu(llama()).eval()
    with torch.no_grad():
        for i in range(6):
            m.generate(torch.randint(0, 16000, (2, 16), device="cuda"), max_new_tokens=8, do_sample=False)
    globals()["k"] = m


def lbfgs():
    m = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512)).cuda()
    o = torch.optim.LBFGS(m.parameters(), history_size=5, max_iter=3)
    x = torch.randn(64, 512, device="cuda")

    def c():
        o.zero_grad()
        l = m(x).pow(2).mean()
        l.backward()
        return l

    for i in range(15):
        o.step(c)
    globals()["k"] = (m, o)


FN = [
    loss_plus_zero,
    hidden_leak_varlen,
    grad_leak_retain,
    state_dict_copy,
    ema,
    load_twice,
    trainer_eval,
    inference,
    lbfgs,
]
CASES = [(f.__name__.replace("_", "-"), "python", f) for f in FN]
for name, stacks, fn in CASES:
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        continue
    try:
        torch.manual_seed(0)
        torch.cuda.init()
        torch.cuda.memory._record_memory_history(
            enabled="all", context="all" if stacks else None, stacks=stacks or "python", max_entries=4_000_000
        )
        fn()
        torch.cuda.synchronize()
        st = torch.cuda.memory_stats()
        info = {"name": name, "alloc_conf": "", "cap_bytes": None, "torch": torch.__version__, "status": "ok"}
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
