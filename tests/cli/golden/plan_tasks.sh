# Commands in a pyproject.toml, a justfile and VS Code's launch.json.
export COLUMNS=80
cat >train.py <<'Y'
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser

parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script, training, model = parser.parse_args_and_config()
SFTTrainer(model=model.model_name_or_path, args=training, train_dataset=None).train()
Y
plan() { $PLIMSOLL plan "$@" --gpu 80GiB --fix micro_batch=8 --out plan.json 2>&1; }
parts() { sed -n '/^files:/,/^assumes/p; /^error/,$p; /^to do/,/^if you/p; /^diff/,/^$/p' | grep -v ^assumes; }
flags="--model_name_or_path Qwen/Qwen2.5-0.5B --max_length 1024 --bf16 true --gradient_checkpointing false"
flags+=" --loss_type nll --gradient_accumulation_steps 1 --per_device_train_batch_size"
toml() { printf '[project]\nname = "mine"\n%s\n' "$1" >pyproject.toml; shift; plan "${@:-pyproject.toml}" | parts; }
echo "== poe"
toml "[tool.poe.tasks]
lint = \"ruff check .\"
train = \"accelerate launch train.py $flags 32\"" .
cp pyproject.toml before && $PLIMSOLL apply plan.json && grep -o 'size.*' pyproject.toml && $PLIMSOLL undo && cmp before pyproject.toml && echo same
toml "[tool.poe.tasks.train]
env = {PYTORCH_CUDA_ALLOC_CONF = \"max_split_size_mb:8\"}
cmd = '''
python train.py $flags
  32'''"
echo "== pdm, hatch, taskipy, rye"
words() { printf '"python"'; for word in train.py $flags 32; do printf ', "%s"' "$word"; done; }
toml "[tool.pdm.scripts]
train = {cmd = [$(words)]}"
toml "[tool.hatch.envs.default.scripts]
train = [\"python prepare.py\", \"python train.py $flags 32\"]"
toml "[tool.taskipy.tasks]
train = {cmd = \"python train.py $flags 32\", help = \"trains\"}" | grep ^files
toml "[tool.rye.scripts]
train = \"python train.py $flags 32\"
more = \"python train.py $flags 64\""
echo "== entry points"
toml '[project.scripts]
mine = "mine.cli:main"'
toml '[tool.poe.tasks]
mine.script = "mine.cli:main"'
rm pyproject.toml
echo "== just"
cat >justfile <<Y
model := "Qwen/Qwen2.5-0.5B"
set shell := ["bash", "-c"]

# trains
train size="32" *args:
    @echo {{size}}
    python train.py ${flags} {{size}} --model_name_or_path {{model}} {{args}}

fast:
    python train.py $flags \\
        32
test:
    pytest
Y
plan . | parts
plan justfile:train | parts
plan justfile:fast | parts
rm justfile
echo "== launch.json"
mkdir .vscode
cat >.vscode/launch.json <<'Y'
{
  // a comment
  "configurations": [
    {"name": "the open file", "type": "debugpy", "program": "${file}"},
    {
      "name": "train: small",
      "type": "debugpy",
      "program": "${workspaceFolder}/train.py",
      "args": [
        "--model_name_or_path", "Qwen/Qwen2.5-0.5B", "--max_length", "1024", "--bf16", "true",
        "--loss_type", "nll", "--gradient_checkpointing", "false", "--gradient_accumulation_steps", "1",
        "--per_device_train_batch_size", "32",
      ],
      "env": {"CUDA_VISIBLE_DEVICES": "0"}
    }
  ]
}
Y
plan . | parts
plan ".vscode/launch.json:train: smal" | parts
sed -i 's/"32"/"${input:size}"/' .vscode/launch.json && plan . | parts
rm -r .vscode
echo "== Taskfile"
cat >Taskfile.yml <<Y
version: '3'
vars:
  SIZE: 32
  COUNT: {sh: nproc}
env: {CUDA_VISIBLE_DEVICES: "0"}
tasks:
  default: {cmds: [pytest]}
  train:
    deps: [default]
    vars: {LENGTH: "1024"}
    cmds:
      - mkdir -p out
      - cmd: python train.py $flags 32 --max_length {{.LENGTH}} {{.CLI_ARGS}}
  small: python train.py $flags {{.SIZE}}
  counted: python train.py $flags {{.COUNT}}
Y
plan . | parts
plan Taskfile.yml:train | parts
plan Taskfile.yml:small | parts
plan Taskfile.yml:counted | parts | sed -n 1,2p
