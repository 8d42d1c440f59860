# Losses without all logits: Liger's, TRL's own depending on its version, and lines to paste.
(
part liger
# A loss without all logits: one that the files have a key for comes first, otherwise lines to paste.
cat >trainer.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-0.5B
output_dir: out
per_device_train_batch_size: 8
gradient_accumulation_steps: 1
gradient_checkpointing: true
bf16: true
END
sed 's|Qwen/Qwen2.5-0.5B|openai-community/gpt2|' trainer.yaml >gpt2.yaml
cat >trl.yaml <<'END'
model_name_or_path: Qwen/Qwen2.5-0.5B
dtype: bfloat16
max_length: 1024
packing: false
loss_type: nll
per_device_train_batch_size: 8
END
cat >axolotl.yaml <<'END'
base_model: Qwen/Qwen2.5-0.5B
sequence_len: 1024
micro_batch_size: 8
gradient_checkpointing: true
END
shown() { sed -n '/^changes/,/^budget/p; /^to do by hand/,/^$/p; /^in your Axolotl/,/^$/p; /^in your training/,/^$/p; /^@@/,/^$/p' | grep -v '^budget'; }
plan() { $PLIMSOLL plan "$@" --fix micro_batch=8 --fix checkpoint=on --fix alloc_conf=default; }
for files in "trainer.yaml --seq 1024" "gpt2.yaml --seq 1024 --gpu 6GiB" trl.yaml axolotl.yaml; do
  echo "== $files"
  plan --gpu 11GiB $files | shown
done
echo "== already on"
sed 's/^bf16/use_liger_kernel: true\nbf16/' trainer.yaml >on.yaml
plan on.yaml --seq 1024 --gpu 11GiB --json | grep -E '"(liger|chunked_loss)"' | head -2
echo "== Axolotl has plugins already: another is added below"
printf 'plugins:\n  - axolotl.integrations.spectrum.SpectrumPlugin\n' >>axolotl.yaml
$PLIMSOLL plan axolotl.yaml --gpu 10GiB --fix liger=on | grep "^[-+].*iger"
echo "== in brackets, what to add is said"
sed -i '/^plugins/,$d' axolotl.yaml && echo 'plugins: [axolotl.integrations.spectrum.SpectrumPlugin]' >>axolotl.yaml
$PLIMSOLL plan axolotl.yaml --gpu 10GiB --fix liger=on | grep -A9 "add to your Axolotl file"
echo "== a key of the ecosystem that is not there yet can be named"
printf 'model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\nfinetuning_type: lora\ntemplate: qwen\ncutoff_len: 1024\nper_device_train_batch_size: 8\nbf16: true\n' >lf.yaml
$PLIMSOLL plan lf.yaml --gpu 10GiB --fix liger=on --set liger=lf.yaml:enable_liger_kernel | grep "^[-+]enable"
) 2>&1 || echo "exit $?"
(
part trl_loss
# TRL's default loss depends on its version, which the plan says; it says what Liger saves only if there are logits.
cat > sft.yaml <<'YAML'
model_name_or_path: qwen2.5-0.5b
dataset_name: trl-lib/Capybara
per_device_train_batch_size: 4
max_length: 512
bf16: true
YAML
echo "accelerate launch trl/scripts/sft.py --config sft.yaml" > run.sh
say() { $PLIMSOLL plan run.sh --gpu 24GiB "$@" 2>&1 | grep -A1 -E '^(error|note: no loss_type|liger:)'; }
echo "== by default" && say
echo "== Liger, where all are" && echo 'loss_type: nll' >> sft.yaml && say --fix liger=on
echo "== Liger, where no logits are in the peak"
sed -i 's/qwen2.5-0.5b/llama-3.1-8b/; s/max_length: 512/max_length: 4096/; /loss_type/d; s/size: 4/size: 16/' sft.yaml
say --fix liger=on --fix chunked_loss=0 --fix strategy=fsdp2 --world 8 --gpu 141GiB | grep -A1 ^liger
) 2>&1 || echo "exit $?"
