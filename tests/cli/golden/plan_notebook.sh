# Notebooks: their cells are read as one script, and never written.
export COLUMNS=80
cat >train.ipynb <<'Y'
{"cells": [
  {"cell_type": "markdown", "source": ["# per_device_train_batch_size=64 is not a setting here"]},
  {"cell_type": "code", "source": ["!pip install trl\n", "%cd /content\n", "if True:\n", "    !nvidia-smi\n"]},
  {"cell_type": "code", "source": "%%bash\npython other.py --per_device_train_batch_size 512\n"},
  {"cell_type": "code", "source": ["from transformers import AutoModelForCausalLM, TrainingArguments, Trainer\n",
    "model = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-0.5B\", dtype=\"bfloat16\")\n", "model.forward?"]},
  {"cell_type": "code", "source": ["args = TrainingArguments(\"out\", per_device_train_batch_size=32,\n", "    gradient_accumulation_steps=1, bf16=True)\n",
    "Trainer(model=model, args=args).train()"]}
 ], "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4, "nbformat_minor": 5}
Y
echo "== a plan"
$PLIMSOLL plan train.ipynb --gpu 24GiB --seq 1024 --out plan.json | sed -n '1,/^planned/p;/^to do/,$p'
echo "== nothing is written"
cp train.ipynb before && $PLIMSOLL apply plan.json; cmp before train.ipynb && echo same
echo "== check, and a folder"
$PLIMSOLL check train.ipynb --gpu 24GiB | tail -1
mkdir nb && mv train.ipynb nb/ && $PLIMSOLL plan nb --gpu 80GiB --seq 1024 | sed -n 1,3p
echo "== mistakes"
echo '{"cells": 3}' >bad.ipynb && $PLIMSOLL plan bad.ipynb --gpu 24GiB 2>&1
echo '{"cells": [{"cell_type": "code"}]}' >bad.ipynb && $PLIMSOLL plan bad.ipynb --gpu 24GiB 2>&1
echo '{"cells": [' >bad.ipynb && $PLIMSOLL plan bad.ipynb --gpu 24GiB 2>&1
echo '{"cells": []}' >bad.ipynb && $PLIMSOLL plan bad.ipynb --gpu 24GiB 2>&1
echo '{"cells": [{"cell_type": "code", "source": "x = (1,\\ny = 2"}]}' >bad.ipynb && $PLIMSOLL plan bad.ipynb --gpu 24GiB 2>&1
