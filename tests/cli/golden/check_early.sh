# Mistakes that would show only hours later, or never: check says what to type instead; exit 1.
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
export HF_HOME=nowhere PLIMSOLL_NVML="$(dirname "$PLIMSOLL")/libfake_nvml.so" PLIMSOLL_ROOT=fixtures/check/machine
cat >train.py <<'P'
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

bnb = BitsAndBytesConfig(bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="bfloat16")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=bnb)
args = TrainingArguments("out", per_device_train_batch_size=2, gradient_accumulation_steps=8, bf16=True,
                         eval_strategy="steps", gradient_checkpointing_kwargs={"use_reentrant": False})
Trainer(model, args, compute_metrics=accuracy).train()
P
cat >accelerate.yaml <<'Y'
distributed_type: DEEPSPEED
num_processes: 2
deepspeed_config:
  gradient_accumulation_steps: 8
  zero_stage: 3
  zero3_init_flag: false
Y
printf 'accelerate launch --config_file accelerate.yaml \\\n  # two cards\n  --num_processes 2 train.py\n' >run.sh
CUDA_VISIBLE_DEVICES=1,2 $PLIMSOLL check run.sh train.py
