# -*- coding: utf-8 -*-
"""Settings of the baseline run; the scripts import them."""

# ---------------------------------------------------------------------------
# Model
# ---------------------------------------------------------------------------
MODEL_NAME = "org/instruct-7b"
MAX_SEQ_LENGTH = 1536  # less than the model could

QUANTIZATION = None
NEGATIVE, ZERO = -1, 0
OFFSET = - 3
PLUS = +0.5
LARGE = 123456789012345678901234567890
OCTAL, BINARY = 0o17, 0b1010
MASK = 0b1010_1010
IMAGINARY = 2j
RAW = r'\path\to'
BYTES = b"abc"
UNICODE = u"caf\u00e9 \x41 \101 \
joined"
TRIPLE = '''a
 "quoted" b'''
EMPTY = {}
NAMED = "\N{EM DASH}"
SURROGATE = "\ud800"
ZERO_CHAR = "a\0b"
A = B = 5
COUNT = 1; STEP = 2
PAREN = (((7)))
LIST = [1, 2, 3]
TUPLE = (1,)
SET = {1, 2}
COMPREHENSION = {k: v for k, v in zip("ab", (1, 2))}
GENERATED = [dict(a=n) for n in range(3)]
CHOICE = 4 if MAX_SEQ_LENGTH > 1024 else 8
COUNT += 1
nested = f"{ {'a': 1}['a']:>{10}} {{x=1}} {MODEL_NAME!r:^{len('x')}}"

LORA_CONFIG = {
    "r": 128, "lora_alpha": 256,
    "target_modules": ["q_proj", "k_proj"], "dropout": 0.05 }

TRAINING_CONFIG = {
    "output_dir": "out",
    "per_device_train_batch_size": 1,     # down from 2
    "gradient_accumulation_steps": 16,    # up from 8

    # precision
    "fp16": True,
    'bf16': False,
    "scheduler": {
        "name": "cosine",
        "warmup": {"ratio": 0.03, "steps": 0, },
    },
    1: "one", (2, 3): "pair", MODEL_NAME: "computed",
    **LORA_CONFIG,
    "seed": 42
}

TRAINING_CONFIG["learning_rate"] = 2e-4
TRAINING_CONFIG["scheduler"]["cycles"] = 1
OVERRIDDEN = {"a": 1, **LORA_CONFIG}

for STEP in range(3):
    print(STEP, end="")

with open("log.txt", "w") as log:
    INSIDE = 1

try:
    import flash_attn
    ATTENTION = "flash"
except ImportError:
    ATTENTION = "sdpa"


class Base(object, metaclass=type):
    width: int = 64; height = 32
    depth: "int"
    sizes = {"small": 1, "large": 2}
    name, other = "a", "b"

    if MAX_SEQ_LENGTH:
        chosen = 1

    @property
    def area(self, scale=2): return self.width * scale


class Settings(BaseModel):
    lr: float = Field(1e-4, gt=0)
    steps: int = Field(default=100, ge=1)
    path: str = Field(..., min_length=1)
    model_config = dict(extra="forbid", frozen=True)


def build(rate=1e-3, *rest, factor: float = 0.5, **others):
    global MAX_SEQ_LENGTH
    MAX_SEQ_LENGTH = 99
    local = 3
    optimizer = AdamW(model.parameters(), lr=rate, betas=(0.9, 0.999), weight_decay=0.01, fused=True,)
    schedule = make(optimizer, steps = 10)
    os.environ["OMP_NUM_THREADS"] = "4"
    return Trainer(
        model
        , args=local
        , seed=7
    ).fit(resume=False)


match COUNT:
    case 1: chosen = 2
    case {"x": y, **z}:
        other = 3

both = run(a=1, b=run(a=2), c=lambda x, y=2: x + y, d={"k": run(a=3)})
empty = run()
empty_lines = run(
)
commented = run(
    a=1,  # the first
    # b=2,
)
alone = run(
    a=1  # no comma
)
generator = run(x for x in [1])
unpacked = run(a=1, **LORA_CONFIG)
starred = run(*LIST, a=1)
chained = builder().option(x=1).build(y=2)
model.config.use_cache = False
