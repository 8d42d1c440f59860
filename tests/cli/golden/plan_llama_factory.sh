# LLaMA-Factory's files: what does not train and what is refused says what to type; checkpoints on the host are its own key.
base=$PWD/sft.yaml
cat >"$base" <<'END'
model_name_or_path: Qwen/Qwen2.5-0.5B
stage: sft
do_train: true
finetuning_type: lora
template: qwen
lora_target: all
cutoff_len: 1024
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
END
short() { $PLIMSOLL plan "$@" --gpu 24GiB 2>&1 | sed -n '/^note: [^t]/,/^note: the files/p; /^error/p; /^help/p'; }
part "files that do not train"
for key in export_dir:\ out infer_backend:\ vllm do_predict:\ true do_eval:\ true; do
  (sed /do_train/d "$base"; echo "$key") >idle.yaml
  short idle.yaml
done
printf 'model: Qwen/Qwen3-0.6B\npeft_config:\n  name: lora\n  export_dir: out\nmicro_batch_size: 1\nquant_config: null\n' >v1.yaml
short v1.yaml
part "Megatron-core and KTransformers"
for keys in 'tensor_model_parallel_size: 4' 'expert_model_parallel_size: 2'; do
  (cat "$base"; echo "$keys") >megatron.yaml
  short megatron.yaml
done
(cat "$base"; echo "use_kt: true") >kt.yaml
short kt.yaml
part "a model with added layers"
(sed 's,Qwen/Qwen2.5-0.5B,models/llama3-8b-pro,; s/: lora/: freeze/; /lora_/d' "$base"; echo "use_llama_pro: true") >pro.yaml
short pro.yaml
short pro.yaml --model llama-3-8b
part losses
for loss in use_eaft_loss use_dft_loss; do
  (cat "$base"; echo "$loss: true") >loss.yaml
  short loss.yaml | sed '/^now/,$d'
done
part images
(sed 's/2.5-0.5B/3-VL-4B-Instruct/' "$base"; echo "image_max_pixels: 262144") >images.yaml
$PLIMSOLL plan images.yaml --gpu 24GiB | sed -n '/^assumes/,/^note: the/p; /^adapters/p'
(cat images.yaml; echo "freeze_vision_tower: false") >tower.yaml
$PLIMSOLL plan tower.yaml --gpu 24GiB | sed -n '/^assumes/,/^note: the files/p'
part "checkpoints on the host"
fixed() { $PLIMSOLL plan $1 --gpu 24GiB --fix micro_batch=2 --fix liger=off --fix checkpoint=$2 | grep -E "^checkpoint |^[-+][a-z]|yourself" | uniq; }
fixed "$base" offloaded
(cat "$base"; echo "use_unsloth_gc: true") >unsloth.yaml
fixed unsloth.yaml reentrant
(cat "$base"; echo "disable_gradient_checkpointing: true") >off.yaml
fixed off.yaml offloaded
(cat unsloth.yaml; echo "disable_gradient_checkpointing: true") >both.yaml
fixed both.yaml reentrant
part "a strategy that its file has no key for"
(sed 's/: lora/: full/; /lora_/d' "$base"; echo "deepspeed: ds.json") >full.yaml
echo '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}' >ds.json
$PLIMSOLL plan full.yaml --gpu 24GiB --world 4 | sed -n '/candidates/,/^times/p'
part "a checkpoint with 4 bits"
(sed 's,Qwen/Qwen2.5-0.5B,TechxGenus/Meta-Llama-3-8B-Instruct-AWQ,' "$base") >awq.yaml
$PLIMSOLL plan awq.yaml --gpu 24GiB | sed -n '/^note: the checkpoint/,/^note: the files/p'
$PLIMSOLL plan awq.yaml --gpu 24GiB --versions transformers=4.57 | sed -n '/^note: the checkpoint/,/^note: the files/p'
sed 's/AWQ/GPTQ/' awq.yaml >gptq.yaml
$PLIMSOLL plan gptq.yaml --gpu 24GiB | sed -n '/^note: the checkpoint/,/^note: the files/p'
true
