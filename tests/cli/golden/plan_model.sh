# Which model it is: defaults of environment variables, custom keys, files that others refer to; and the reason if it is
# unknown or not supported.
plan() {
  $PLIMSOLL plan "$@" --gpu 24GiB --seq 128 2>&1 |
    grep -E -A1 '^(error|help|.*(, bf16|, fp32)|note: .* is the default|note: .* does not exist)' | grep -v -E '^(--|GPU:|files:)'
}
say() { echo "== $1"; shift; plan "$@"; }
cat > train.py <<'END'
import os
MODEL = os.environ.get("MODEL", "qwen2.5-0.5b")
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="bfloat16")
args = TrainingArguments("o", per_device_train_batch_size=2)
END
say "a default of the environment" train.py
sed 's/os.environ.get(\(.*\)$/os.getenv(\1/' train.py > other.py
say "asked otherwise" other.py
sed -i 's/MODEL = .*/pass/; s/(MODEL,/(os.environ.get("MODEL", default_model()),/' other.py
say "a default that is computed" other.py
printf 'export MODEL=gpt2\npython train.py\n' > run.sh
say "the launch script sets it" run.sh
printf 'MODEL=${MODEL:-gpt2}\npython x.py --model_name_or_path $MODEL --per_device_train_batch_size 2\n' > run.sh
say "a default of the shell" run.sh
printf 'model: bert-large-uncased\nbatch_size: 8\n' > own.yaml
say "a key of one's own" own.yaml
printf '[model]\npretrained = "Qwen/Qwen2.5-0.5B"\n[train]\nbatch_size = 8\n' > own.toml
say "TOML" own.toml
printf 'model: nets.Encoder\nbatch_size: 8\n' > class.yaml
say "a class" class.yaml
printf 'judge: {model: gpt2}\nbatch_size: 8\n' > judge.yaml
say "the model of something else" judge.yaml
mkdir -p conf/model alone
printf 'defaults:\n  - _self_\n  - model: small\nbatch_size: 4\n' | tee alone/config.yaml > conf/config.yaml
printf 'name: Qwen/Qwen2.5-0.5B\nhidden: 4\n' > conf/model/small.yaml
say "a file of Hydra's group" conf/config.yaml
say "which is not here" alone/config.yaml
cat > reads.py <<'END'
cfg = json.load(open("train_config.json"))
model = AutoModelForCausalLM.from_pretrained(cfg["model"], dtype="bfloat16")
args = TrainingArguments("o", per_device_train_batch_size=2)
END
say "a script's file is not here" reads.py
echo '{"model": "qwen2.5-0.5b", "lr": 1e-4}' > train_config.json
say "and is" reads.py
printf 'python y.py --config mine.yaml --batch_size 4\n' > run.sh
say "nor that of a command" run.sh
for model in google/recurrentgemma-2b google/paligemma-3b-pt-224 databricks/dbrx-base ai21labs/Jamba-v0.1 meta-llama/Llama-4-Scout-17B-16E; do
  say "$model" own.yaml --model "$model"
done
say "and not" own.yaml --model someone/Llama-3.1-8B-Stories
cat > last.yaml <<'END'
base_model: google/paligemma-3b
micro_batch_size: 1
gradient_accumulation_steps: 1
sequence_len: 128
context_parallel_size: 2
fsdp_version: 2
fsdp_config: {offload_params: false, reshard_after_forward: true}
END
say "what no option mends comes first" last.yaml
sed -i 's|google/paligemma-3b|nobody/knows|' last.yaml
say "then what the run is" last.yaml
sed -i '/context/d' last.yaml
say "then its name" last.yaml
sed -i 's|nobody/knows|llama-3.2-1b\nadapter: lora\nlora_r: 8|' last.yaml
say "then by how many GPUs it is shared" last.yaml
