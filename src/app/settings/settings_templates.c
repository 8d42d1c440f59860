// The templates of the settings: what a person would write for a trainer, with the usual values. Afterwards, the settings in
// the key tables of io/dialect are written into the text where they differ; a key that the template has gets its value
// there.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "suggest.h"
#include "trainer_settings.h"

#define LEARNING_RATE "2.0e-4"

// clang-format off
// Lines that scripts of transformers have in common.
#define QUANTISATION                                                                               \
  "    quantization_config=BitsAndBytesConfig(load_in_8bit=True),<?8bit>\n"                        \
  "    quantization_config=BitsAndBytesConfig(<?4bit>\n"                                           \
  "        load_in_4bit=True,<?4bit>\n"                                                            \
  "        bnb_4bit_quant_type=\"nf4\",<?4bit>\n"                                                  \
  "        bnb_4bit_use_double_quant=True,<?4bit><?double>\n"                                      \
  "        bnb_4bit_compute_dtype=torch.<compute_dtype>,<?4bit>\n"                                 \
  "    ),<?4bit>\n"

#define MODEL                                                                                      \
  "model = AutoModelForCausalLM.from_pretrained(\n"                                                \
  "    \"<model>\",\n"                                                                             \
  "    dtype=torch.<dtype>,\n"                                                                     \
  "    attn_implementation=\"<attention>\",\n" QUANTISATION ")\n"

#define LORA_CONFIG(start, end)                                                                    \
  start "LoraConfig(<?lora>\n"                                                                     \
        "    r=<rank>,\n"                                                                          \
        "    lora_alpha=<alpha>,\n"                                                                \
        "    lora_dropout=<dropout>,\n"                                                            \
        "    target_modules=\"all-linear\",<?everywhere>\n"                                        \
        "    target_modules=<targets>,\n"                                                          \
        "    exclude_modules=<excluded>,<?lora>\n"                                                 \
        "    layers_to_transform=<layers>,<?lora>\n"                                               \
        "    modules_to_save=<saved>,<?lora>\n"                                                    \
        "    bias=\"<bias>\",<?lora>\n"                                                            \
        "    use_dora=True,<?lora><?dora>\n"                                                       \
        "    task_type=\"CAUSAL_LM\",<?lora>\n" end "<?lora>\n"

#define ENVIRONMENT                                                                                \
  "import os<?conf>\n"                                                                             \
  "<?conf>\n"                                                                                      \
  "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"<conf>\"\n<?conf>\n"

// The arguments that transformers' and TRL's classes share.
#define ARGUMENTS                                                                                  \
  "    per_device_train_batch_size=<batch>,\n"                                                     \
  "    gradient_accumulation_steps=<accumulate>,\n"                                                \
  "    gradient_checkpointing=True,<?checkpoint>\n"                                                \
  "    gradient_checkpointing=False,<!checkpoint>\n"                                               \
  "    gradient_checkpointing_kwargs={\"use_reentrant\": True},<?reentrant>\n"                     \
  "    gradient_checkpointing_kwargs={\"use_reentrant\": False},<?checkpoint><!reentrant>\n"       \
  "    bf16=True,<?bf16>\n"                                                                        \
  "    fp16=True,<?fp16>\n"                                                                        \
  "    bf16=False,<!bf16>\n"                                                                       \
  "    optim=\"adamw_torch_fused\",\n"                                                             \
  "    learning_rate=" LEARNING_RATE ",\n"                                                         \
  "    num_train_epochs=1,\n"                                                                      \
  "    max_grad_norm=1.0,<?clipped>\n"                                                             \
  "    max_grad_norm=0.0,<!clipped>\n"                                                             \
  "    neftune_noise_alpha=5,<?noise>\n"

static const char transformers[] =
    ENVIRONMENT
    "import torch\n"
    "from datasets import load_dataset\n"
    "from peft import LoraConfig, get_peft_model<?lora><!prepared>\n"
    "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training<?lora><?prepared>\n"
    "from transformers import (\n"
    "    AutoModelForCausalLM,\n"
    "    AutoTokenizer,\n"
    "    BitsAndBytesConfig,<?quantised>\n"
    "    DataCollatorForLanguageModeling,\n"
    "    Trainer,\n"
    "    TrainingArguments,\n"
    ")\n"
    "\n"
    "args = TrainingArguments(\n"
    "    output_dir=\"out\",\n" ARGUMENTS ")\n"
    "\n"
    MODEL
    "model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)<?prepared><?lora><!checkpoint>\n"
    "model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)<?prepared><?lora><?checkpoint>\n"
    LORA_CONFIG("config = ", ")")
    "model = get_peft_model(model, config)<?lora>\n"
    "\n"
    "tokenizer = AutoTokenizer.from_pretrained(\"<model>\")\n"
    "tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token\n"
    "data = load_dataset(\"json\", data_files=\"train.jsonl\", split=\"train\")\n"
    "data = data.map(lambda row: tokenizer(row[\"text\"], truncation=True, max_length=<seq>))\n"
    "\n"
    "trainer = Trainer(\n"
    "    model=model,\n"
    "    args=args,\n"
    "    train_dataset=data,\n"
    "    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),\n"
    ")\n"
    "trainer.train()\n";

static const char trl[] =
    ENVIRONMENT
    "import torch\n"
    "from datasets import load_dataset\n"
    "from peft import LoraConfig<?lora>\n"
    "from transformers import AutoModelForCausalLM<!quantised>\n"
    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig<?quantised>\n"
    "from trl import SFTConfig, SFTTrainer\n"
    "\n"
    "args = SFTConfig(\n"
    "    output_dir=\"out\",\n"
    "    max_length=<seq>,\n"
    "    packing=True,<?packed>\n"
    "    activation_offloading=True,<?offloaded_activations>\n" ARGUMENTS ")\n"
    "\n"
    MODEL
    LORA_CONFIG("config = ", ")")
    "\n"
    "trainer = SFTTrainer(\n"
    "    model=model,\n"
    "    args=args,\n"
    "    train_dataset=load_dataset(\"json\", data_files=\"train.jsonl\", split=\"train\"),\n"
    "    peft_config=config,<?lora>\n"
    ")\n"
    "trainer.train()\n";

// The layers that get adapters are those of Unsloth's notebooks.
static const char unsloth[] =
    ENVIRONMENT
    "from unsloth import FastLanguageModel\n"
    "\n"
    "import torch\n"
    "from datasets import load_dataset\n"
    "from trl import SFTConfig, SFTTrainer\n"
    "\n"
    "model, tokenizer = FastLanguageModel.from_pretrained(\n"
    "    model_name=\"<model>\",\n"
    "    max_seq_length=<seq>,\n"
    "    dtype=torch.<dtype>,\n"
    "    load_in_4bit=True,<?4bit>\n"
    "    load_in_4bit=False,<!4bit>\n"
    "    load_in_8bit=True,<?8bit>\n"
    "    full_finetuning=True,<!lora>\n"
    "    use_gradient_checkpointing=\"unsloth\",<!lora><?offloaded_checkpoints>\n"
    "    use_gradient_checkpointing=True,<!lora><?checkpoint><!offloaded_checkpoints>\n"
    "    use_gradient_checkpointing=False,<!lora><!checkpoint>\n"
    ")\n"
    "model = FastLanguageModel.get_peft_model(<?lora>\n"
    "    model,<?lora>\n"
    "    r=<rank>,\n"
    "    lora_alpha=<alpha>,\n"
    "    lora_dropout=<dropout>,\n"
    "    target_modules=[\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\", \"gate_proj\", \"up_proj\", \"down_proj\"],<?everywhere>\n"
    "    target_modules=<targets>,\n"
    "    modules_to_save=<saved>,<?lora>\n"
    "    bias=\"<bias>\",<?lora>\n"
    "    use_gradient_checkpointing=\"unsloth\",<?lora><?offloaded_checkpoints>\n"
    "    use_gradient_checkpointing=True,<?lora><?checkpoint><!offloaded_checkpoints>\n"
    "    use_gradient_checkpointing=False,<?lora><!checkpoint>\n"
    ")<?lora>\n"
    "\n"
    "args = SFTConfig(\n"
    "    output_dir=\"out\",\n"
    "    packing=True,<?packed>\n"
    "    per_device_train_batch_size=<batch>,\n"
    "    gradient_accumulation_steps=<accumulate>,\n"
    "    bf16=True,<?bf16>\n"
    "    fp16=True,<?fp16>\n"
    "    bf16=False,<!bf16>\n"
    "    optim=\"adamw_torch_fused\",\n"
    "    learning_rate=" LEARNING_RATE ",\n"
    "    num_train_epochs=1,\n"
    "    max_grad_norm=1.0,<?clipped>\n"
    "    max_grad_norm=0.0,<!clipped>\n"
    "    neftune_noise_alpha=5,<?noise>\n"
    ")\n"
    "trainer = SFTTrainer(\n"
    "    model=model,\n"
    "    processing_class=tokenizer,\n"
    "    train_dataset=load_dataset(\"json\", data_files=\"train.jsonl\", split=\"train\"),\n"
    "    args=args,\n"
    ")\n"
    "trainer.train()\n";

static const char axolotl[] =
    "base_model: <model>\n"
    "load_in_4bit: true<?4bit>\n"
    "bnb_config_kwargs:<?4bit><!double>\n"
    "  bnb_4bit_use_double_quant: false<?4bit><!double>\n"
    "load_in_8bit: true<?8bit>\n"
    "attn_implementation: <attention>\n"
    "\n"
    "adapter: lora<?lora><!4bit>\n"
    "adapter: qlora<?lora><?4bit>\n"
    "lora_r: <rank>\n"
    "lora_alpha: <alpha>\n"
    "lora_dropout: <dropout>\n"
    "lora_target_linear: true<?everywhere>\n"
    "lora_target_modules: <bare_targets>\n"
    "lora_exclude_modules: <excluded><?lora>\n"
    "peft_layers_to_transform: <layers><?lora>\n"
    "lora_modules_to_save: <saved><?lora>\n"
    "peft_use_dora: true<?lora><?dora>\n"
    "<?lora>\n"
    "datasets:\n"
    "  - path: train.jsonl\n"
    "    type: chat_template\n"
    "output_dir: out\n"
    "\n"
    "sequence_len: <seq>\n"
    "sample_packing: true<?packed>\n"
    "micro_batch_size: <batch>\n"
    "gradient_accumulation_steps: <accumulate>\n"
    "gradient_checkpointing: true<?checkpoint>\n"
    "activation_offloading: true<?offloaded_activations>\n"
    "gradient_checkpointing_kwargs:<?checkpoint>\n"
    "  use_reentrant: false<?checkpoint><!reentrant>\n"
    "  use_reentrant: true<?reentrant>\n"
    "bf16: true<?bf16>\n"
    "bf16: full<!bf16><!fp16><?loaded_in_bf16>\n"
    "bf16: false<!bf16><!loaded_in_bf16>\n"
    "fp16: true<?fp16>\n"
    "optimizer: adamw_torch_fused\n"
    "learning_rate: " LEARNING_RATE "\n"
    "num_epochs: 1\n"
    "max_grad_norm: 1.0<?clipped>\n"
    "max_grad_norm: 0<!clipped>\n"
    "neftune_noise_alpha: 5<?noise>\n"
    "plugins:<?fused_alone>\n"
    "  - axolotl.integrations.liger.LigerPlugin<?fused_alone>\n"
    "liger_fused_linear_cross_entropy: true<?fused_alone>\n";

static const char llama_factory[] =
    "model_name_or_path: <model>\n"
    "quantization_bit: 4<?4bit>\n"
    "double_quantization: false<?4bit><!double>\n"
    "quantization_bit: 8<?8bit>\n"
    "flash_attn: sdpa\n"
    "\n"
    "stage: sft\n"
    "do_train: true\n"
    "finetuning_type: lora<?lora>\n"
    "finetuning_type: full<!lora>\n"
    "lora_rank: <rank>\n"
    "lora_alpha: <alpha>\n"
    "lora_dropout: <dropout>\n"
    "lora_target: all<?everywhere>\n"
    "lora_target: <comma_targets>\n"
    "additional_target: <comma_saved><?lora>\n"
    "use_dora: true<?lora><?dora>\n"
    "\n"
    "dataset: train\n"
    "template: default\n"
    "cutoff_len: <seq>\n"
    "packing: true<?packed>\n"
    "output_dir: out\n"
    "\n"
    "per_device_train_batch_size: <batch>\n"
    "gradient_accumulation_steps: <accumulate>\n"
    "disable_gradient_checkpointing: true<!checkpoint>\n"
    "use_reentrant_gc: false<?checkpoint><!reentrant>\n"
    "pure_bf16: true<!bf16><!fp16><!lora><?loaded_in_bf16>\n"
    "bf16: true<?bf16>\n"
    "fp16: true<?fp16>\n"
    "optim: adamw_torch_fused\n"
    "learning_rate: " LEARNING_RATE "\n"
    "num_train_epochs: 1\n"
    "max_grad_norm: 1.0<?clipped>\n"
    "max_grad_norm: 0.0<!clipped>\n"
    "neftune_noise_alpha: 5<?noise>\n";

static const char torchtune[] =
    "model:\n"
    "  _component_: torchtune.models.<builder>\n"
    "  lora_attn_modules: <attention_targets>\n"
    "  apply_lora_to_mlp: true<?adapted_mlp>\n"
    "  apply_lora_to_mlp: false<?lora><!adapted_mlp>\n"
    "  apply_lora_to_output: true<?adapted_head>\n"
    "  lora_rank: <rank>\n"
    "  lora_alpha: <alpha>\n"
    "  lora_dropout: <dropout>\n"
    "  use_dora: true<?lora><?dora>\n"
    "  quantize_base: true<?4bit>\n"
    "\n"
    "tokenizer:\n"
    "<tokenizer>  max_seq_len: <seq>\n"
    "\n"
    "checkpointer:\n"
    "  _component_: torchtune.training.FullModelHFCheckpointer\n"
    "  checkpoint_dir: model\n"
    "  checkpoint_files: []  # the names of its .safetensors files\n"
    "  model_type: <model_type>\n"
    "  output_dir: out\n"
    "resume_from_checkpoint: false\n"
    "output_dir: out\n"
    "\n"
    "dataset:\n"
    "  _component_: torchtune.datasets.alpaca_cleaned_dataset\n"
    "  packed: true<?packed>\n"
    "  packed: false<!packed>\n"
    "seed: null\n"
    "shuffle: true\n"
    "\n"
    "device: cuda\n"
    "dtype: <short_dtype>\n"
    "batch_size: <batch>\n"
    "gradient_accumulation_steps: <accumulate>\n"
    "enable_activation_checkpointing: true<?checkpoint>\n"
    "enable_activation_checkpointing: false<!checkpoint>\n"
    "enable_activation_offloading: false\n"
    "optimizer:\n"
    "  _component_: torch.optim.AdamW\n"
    "  fused: true\n"
    "  lr: " LEARNING_RATE "\n"
    "optimizer_in_bwd: true<!lora><?in_backward>\n"
    "optimizer_in_bwd: false<!lora><!in_backward>\n"
    "loss:\n"
    "  _component_: torchtune.modules.loss.LinearCrossEntropyLoss<?eighths>\n"
    "  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss<?listed>\n"
    "  _component_: torch.nn.CrossEntropyLoss<!eighths><!listed>\n"
    "clip_grad_norm: 1.0<?clipped>\n"
    "clip_grad_norm: null<!clipped>\n"
    "epochs: 1\n"
    "max_steps_per_epoch: null\n"
    "compile: false\n";

static const char lightning[] =
    ENVIRONMENT
    "import lightning as L\n"
    "import torch\n"
    "from datasets import load_dataset\n"
    "from peft import LoraConfig, get_peft_model<?lora><!prepared>\n"
    "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training<?lora><?prepared>\n"
    "from torch.utils.data import DataLoader\n"
    "from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling<!quantised>\n"
    "from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, DataCollatorForLanguageModeling<?quantised>\n"
    "\n"
    "\n"
    "class Model(L.LightningModule):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        model = AutoModelForCausalLM.from_pretrained(\n"
    "            \"<model>\",\n"
    "            dtype=torch.<dtype>,\n"
    "            attn_implementation=\"<attention>\",\n"
    "            quantization_config=BitsAndBytesConfig(load_in_8bit=True),<?8bit>\n"
    "            quantization_config=BitsAndBytesConfig(<?4bit>\n"
    "                load_in_4bit=True,<?4bit>\n"
    "                bnb_4bit_quant_type=\"nf4\",<?4bit>\n"
    "                bnb_4bit_use_double_quant=True,<?4bit><?double>\n"
    "                bnb_4bit_compute_dtype=torch.<compute_dtype>,<?4bit>\n"
    "            ),<?4bit>\n"
    "        )\n"
    "        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)<?prepared><?lora><!checkpoint>\n"
    "        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)<?prepared><?lora><?checkpoint>\n"
    "        model.gradient_checkpointing_enable()<?checkpoint>\n"
    "        model.enable_input_require_grads()<?lora><?checkpoint><!prepared>\n"
    "        config = LoraConfig(r=<rank>, lora_alpha=<alpha>, lora_dropout=<dropout>, target_modules=\"all-linear\")<?everywhere>\n"
    "        config = LoraConfig(r=<rank>, lora_alpha=<alpha>, lora_dropout=<dropout>, target_modules=<targets>)\n"
    "        model = get_peft_model(model, config)<?lora>\n"
    "        self.model = model\n"
    "\n"
    "    def training_step(self, batch, index):\n"
    "        return self.model(**batch).loss\n"
    "\n"
    "    def configure_optimizers(self):\n"
    "        return torch.optim.AdamW((p for p in self.parameters() if p.requires_grad), lr=" LEARNING_RATE ", fused=True)\n"
    "\n"
    "\n"
    "tokenizer = AutoTokenizer.from_pretrained(\"<model>\")\n"
    "tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token\n"
    "data = load_dataset(\"json\", data_files=\"train.jsonl\", split=\"train\")\n"
    "data = data.map(lambda row: tokenizer(row[\"text\"], truncation=True, max_length=<seq>), remove_columns=data.column_names)\n"
    "collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)\n"
    "\n"
    "trainer = L.Trainer(\n"
    "    devices=<world>,\n"
    "    precision=\"<precision>\",\n"
    "    accumulate_grad_batches=<accumulate>,\n"
    "    gradient_clip_val=1.0,<?clipped>\n"
    "    strategy=\"ddp\",<?ddp>\n"
    "    strategy=\"deepspeed_stage_<stage>\",\n"
    "    max_epochs=1,\n"
    ")\n"
    "trainer.fit(Model(), DataLoader(data, batch_size=<batch>, shuffle=True, collate_fn=collator))\n";

static const char deepspeed[] =
    "{\n"
    "  \"train_micro_batch_size_per_gpu\": <batch>,\n"
    "  \"gradient_accumulation_steps\": <accumulate>,\n"
    "  \"gradient_clipping\": 1.0,<?clipped>\n"
    "  \"bf16\": {\"enabled\": true},<?bf16>\n"
    "  \"fp16\": {\"enabled\": true},<?fp16>\n"
    "  \"zero_optimization\": {\n"
    "    \"stage\": <stage>,\n"
    "    \"stage\": 0,<!zero>\n"
    "    \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true},<?zero><?offloaded_optimizer>\n"
    "    \"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true},<?zero3><?offloaded_parameters>\n"
    "    \"stage3_gather_16bit_weights_on_model_save\": true,<?zero3>\n"
    "    \"contiguous_gradients\": true\n"
    "  }\n"
    "}\n";

static const char accelerate[] =
    "compute_environment: LOCAL_MACHINE\n"
    "distributed_type: \"NO\"<!shared>\n"
    "distributed_type: MULTI_GPU<?ddp>\n"
    "distributed_type: DEEPSPEED<?zero>\n"
    "distributed_type: FSDP<?fsdp>\n"
    "num_machines: <nodes>\n"
    "num_processes: <world>\n"
    "machine_rank: 0\n"
    "main_training_function: main\n"
    "mixed_precision: \"<mixed>\"\n"
    "deepspeed_config:<?zero>\n"
    "  zero_stage: <stage>\n"
    "  gradient_accumulation_steps: <accumulate><?zero>\n"
    "  gradient_clipping: 1.0<?zero><?clipped>\n"
    "  offload_optimizer_device: cpu<?zero><?offloaded_optimizer>\n"
    "  offload_param_device: cpu<?zero3><?offloaded_parameters>\n"
    "  zero3_init_flag: true<?zero3>\n"
    "  zero3_save_16bit_model: true<?zero3>\n"
    "fsdp_config:<?fsdp>\n"
    "  fsdp_version: 2<?fsdp>\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP<?fsdp>\n"
    "  fsdp_state_dict_type: FULL_STATE_DICT<?fsdp>\n"
    "  fsdp_reshard_after_forward: true<?fsdp><!keeps_full>\n"
    "  fsdp_reshard_after_forward: false<?fsdp><?keeps_full>\n"
    "  fsdp_offload_params: true<?fsdp><?offloaded_parameters>\n";

// ---- what starts them -------------------------------------------------------------------------------

#define CONF "PYTORCH_CUDA_ALLOC_CONF=<conf> "
#define MACHINES " --nnodes <nodes> --nproc_per_node <each> "

#define START_SCRIPT                                                                               \
  "python train.py<!shared>\n"                                                                     \
  "torchrun --nproc_per_node <each> train.py<?shared><!several_nodes>\n"                           \
  "torchrun" MACHINES "train.py<?shared><?several_nodes>\n"
#define START_AXOLOTL "axolotl train train.yaml<!conf>\n" CONF "axolotl train train.yaml\n"
#define START_FACTORY                                                                              \
  "llamafactory-cli train train.yaml<!conf><!shared>\n" CONF                                       \
  "llamafactory-cli train train.yaml<!shared>\n"                                                   \
  "FORCE_TORCHRUN=1 llamafactory-cli train train.yaml<!conf><?shared>\n" CONF                      \
  "FORCE_TORCHRUN=1 llamafactory-cli train train.yaml<?shared>\n"
#define START_RECIPE(recipe, when)                                                                 \
  "tune run " recipe "_single_device --config train.yaml<!conf><!shared>" when "\n" CONF           \
  "tune run " recipe "_single_device --config train.yaml<!shared>" when "\n"                       \
  "tune run --nproc_per_node <each> " recipe                                                       \
  "_distributed --config train.yaml<!conf><?shared>" when "\n" CONF                                \
  "tune run --nproc_per_node <each> " recipe "_distributed --config train.yaml<?shared>" when "\n"

const settings_dialect settings_dialects[] = {
    {"axolotl", "Axolotl", PLIM_DIALECT_AXOLOTL, SETTINGS_TRAIN, "yaml", "train.yaml", axolotl,
     START_AXOLOTL},
    {"llama-factory", "LLaMA-Factory", PLIM_DIALECT_LLAMA_FACTORY, SETTINGS_TRAIN, "yaml",
     "train.yaml", llama_factory, START_FACTORY},
    {"transformers", "transformers' Trainer", PLIM_DIALECT_HF, SETTINGS_TRAIN, "python", "train.py",
     transformers, START_SCRIPT},
    {"trl", "TRL", PLIM_DIALECT_TRL, SETTINGS_TRAIN, "python", "train.py", trl, START_SCRIPT},
    {"unsloth", "Unsloth", PLIM_DIALECT_UNSLOTH, SETTINGS_TRAIN, "python", "train.py", unsloth,
     START_SCRIPT},
    {"torchtune", "torchtune", PLIM_DIALECT_TORCHTUNE, SETTINGS_TRAIN, "yaml", "train.yaml",
     torchtune, START_RECIPE("lora_finetune", "<?lora>") START_RECIPE("full_finetune", "<!lora>")},
    {"lightning", "Lightning", PLIM_DIALECT_LIGHTNING, SETTINGS_TRAIN, "python", "train.py",
     lightning, START_SCRIPT},
    {"deepspeed", "DeepSpeed", PLIM_DIALECT_DEEPSPEED, SETTINGS_PART, "json", "ds_config.json",
     deepspeed, ""},
    {"accelerate", "accelerate", PLIM_DIALECT_ACCELERATE, SETTINGS_PART, "yaml", "accelerate.yaml",
     accelerate, "accelerate launch --config_file accelerate.yaml train.py"},
    {"plimsoll", "plimsoll estimate", PLIM_DIALECTS, SETTINGS_LINE, "shell", NULL, "", ""},
    {0},
};
// clang-format on

plim_err settings_dialect_named(const char *name, const settings_dialect **out, plim_error *error) {
  enum { MOST = 16 };
  const char *names[MOST];
  char list[200] = "";
  size_t count = 0;
  *out = NULL;
  for (const settings_dialect *d = settings_dialects; d->name; d++) {
    if (strcasecmp(d->name, name) == 0) *out = d;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", d->name);
    if (count < MOST) names[count++] = d->name;
  }
  if (*out) return PLIM_OK;
  const char *near = plim_suggest(name, names, count);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "there is no dialect \"%.64s\"", name);
  if (near) plim_error_hint(error, "did you mean \"%s\"?", near);
  else plim_error_hint(error, "one of %s", list);
  return err;
}
