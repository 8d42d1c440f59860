# FSDP2 in the keys of a trainer: as keyword arguments, as flags, in YAML, and in Axolotl's keys. Each result is read by
# its real parser, planned again, and undone to the byte.
work=$(mktemp -d) && cp -r fixtures/share "$work/project" && cd "$work/project" || exit 9
cat >args.yaml <<'END'
model_name_or_path: llama-3.1-8b
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
gradient_checkpointing: true
bf16: true
END
cat >args.json <<'END'
{
  "model_name_or_path": "llama-3.1-8b",
  "per_device_train_batch_size": 4,
  "gradient_accumulation_steps": 2,
  "gradient_checkpointing": true,
  "bf16": true
}
END
cat >axolotl.yaml <<'END'
base_model: llama-3.1-8b
sequence_len: 2048
micro_batch_size: 4
gradient_accumulation_steps: 2
gradient_checkpointing: true
optimizer: adamw_torch_fused
bf16: true
END
cp -r . ../before
hold="--world 8 --seq 2048 --gpu 80GiB --fix strategy=fsdp2 --fix micro_batch=4 --fix checkpoint=on --fix liger=off --fix chunked_loss=0 --fix alloc_conf=default"
for file in hf/launch.sh flags/launch.sh args.yaml args.json axolotl.yaml; do
  for offload in none parameters; do
    echo "== $file, offload $offload"
    $PLIMSOLL plan $file $hold --fix offload=$offload --out ../plan.json >../plan.txt
    grep -E "^planned|^to do by hand" ../plan.txt | cut -c1-24
    sed -n '/^to do by hand/,/^changes to/p' ../plan.txt | grep -E "^ *(torchrun|axolotl|accelerate|deepspeed|distributed_type|transformers)"
    $PLIMSOLL apply ../plan.json --dry-run >../plan.diff && grep -E "^[-+]" ../plan.diff
    git init -q . && git apply --check ../plan.diff && $PLIMSOLL apply ../plan.json >/dev/null
    $PLIMSOLL plan $file --world 8 --seq 2048 --gpu 80GiB --try alloc_conf=default | grep "^now:" | cut -c1-18
    python3 - $file <<'END'
import ast, json, pathlib, shlex, sys, yaml
path = pathlib.Path(sys.argv[1])
if path.parts[0] == "hf":
    call = [n for n in ast.walk(ast.parse(pathlib.Path("hf/train.py").read_text()))
            if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "TrainingArguments"][0]
    said = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
elif path.suffix == ".sh":
    words = shlex.split(path.read_text(), comments=True)
    said = {a[2:]: b for a, b in zip(words, words[1:]) if a.startswith("--")}
    said["fsdp_config"] = json.loads(said["fsdp_config"])
else:
    said = (json.loads if path.suffix == ".json" else yaml.safe_load)(path.read_text())
print({k: v for k, v in said.items() if "fsdp" in k}, "checkpointing", said["gradient_checkpointing"])
END
    $PLIMSOLL undo >/dev/null && diff -r --exclude=.git --exclude=.plimsoll . ../before && echo "as before"
  done
done
rm -rf "$work"
