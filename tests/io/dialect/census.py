#!/usr/bin/env python3
"""census.py DUMP_KEYS PLIMSOLL FOLDER...: every key of the configuration files in the folders is accounted for.

A key is a knob, has no effect, or is known and not modelled. One test per file: no key is unknown, except those that the
files have on purpose. Then a made-up key in a file of each framework is named by plan, in text and in JSON, and by check;
and settings that are not modelled are refused or noted.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KINDS = (".yaml", ".yml", ".json", ".toml", ".py", ".sh")
# Keys that belong to no framework, which the files have to show what happens then.
DELIBERATE = {"experiment", "handler", "data_loader.tokenization.padding"}
MADE_UP = "frobnicate_gradients"
FILES = {
    "axolotl.yaml": "base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 512\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\n"
                    "sample_packing: true\noptimizer: adamw_torch\nbf16: true\n",
    "llama_factory.yaml": "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"
                          "cutoff_len: 512\nper_device_train_batch_size: 1\nbf16: true\n",
    "torchtune.yaml": "model:\n  _component_: torchtune.models.phi3.phi3_mini\noptimizer:\n"
                      "  _component_: torch.optim.AdamW\nbatch_size: 1\ntokenizer:\n  max_seq_len: 512\ndtype: bf16\n"
                      "enable_activation_checkpointing: true\n",
    "trl.yaml": "model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 1\nmax_length: 512\nuse_peft: false\n"
                "bf16: true\npacking: false\n",
}
WORDS = "not understood, so not counted: "
V1 = ("model: %s\ndist_config:\n  name: fsdp2\ntrain_dataset: data.yaml\nmicro_batch_size: 1\ncutoff_len: 512\n"
      "kernel_config:\n  name: auto\n")
V1_LORA = V1 % "Qwen/Qwen3-32B" + "peft_config:\n  name: lora\n  r: 16\n"
V1_FULL = V1 % "Qwen/Qwen3-0.6B"
TIED = ("# tune run --nproc_per_node 8 full_finetune_distributed --config x\nmodel:\n  _component_: torchtune.models.qwen2_5.qwen2_5_0_5b\n"
        "optimizer:\n  _component_: torch.optim.AdamW\nbatch_size: 1\ntokenizer:\n  max_seq_len: 512\n"
        "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\ncustom_sharded_layers: [%s]\n")
SCRIPT = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer, GRPOConfig, GRPOTrainer
from peft import GraloraConfig, LoraConfig, get_peft_model
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype="bfloat16")
"""
# A file of FILES with more lines, or a script; and what plan says about it.
SAID = [
    ("axolotl.yaml", "qat:\n  weight_dtype: int8\n", "Axolotl refuses 8-bit weights without an activation_dtype, so the run will not start"),
    ("axolotl.yaml", "fsdp_config:\n  min_num_params: 1000\n", "wrapping modules by their size is not modelled"),
    ("axolotl.yaml", "tiled_mlp: true\n", "the tiled MLP is not modelled; the run needs less memory and more time than predicted"),
    ("axolotl.yaml", "tiled_mlp: false\nqat:\n", None),
    ("axolotl.yaml", "attn_implementation: flash_attention_2\n", "--attention flash --mask packed"),
    ("pads.yaml", "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 1\nsample_packing: false\npad_to_sequence_len: false\n",
     "padding to the longest sample"),
    ("sees.yaml", "base_model: Qwen/Qwen2.5-VL-3B-Instruct\nprocessor_type: AutoProcessor\nmicro_batch_size: 1\nsample_packing: false\n",
     "padding to the longest sample; texts without images (the part of the model that reads images is loaded but idle, with the gradients"),
    ("axolotl.yaml", "plugins:\n  - axolotl.integrations.diffusion.DiffusionPlugin\nattn_implementation: sdpa\n",
     "samples are packed to rows of 512 tokens (micro batch x sequence length), which all see each other; an attention mask of ones"),
    ("axolotl.yaml", "plugins:\n  - axolotl.integrations.diffusion.DiffusionPlugin\nattn_implementation: sdpa\n", None),
    ("axolotl.yaml", "diffusion:\n  mask_token_id: 5\n", "which copies the logits, is not modelled; the run needs more"),
    ("apertus.yaml", "base_model: swiss-ai/Apertus-8B-Instruct-2509\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_linear: true\nmicro_batch_size: 1\n",
     "not every size of swiss-ai/Apertus-8B-Instruct-2509 is confirmed"),
    ("apertus.yaml", "base_model: swiss-ai/Apertus-8B-Instruct-2509\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_linear: true\nmicro_batch_size: 1\n",
     "unless the package xielu is installed: the run stops before it trains"),
    ("latent.yaml", "base_model: mistralai/Mistral-Small-4-119B-2603\nadapter: lora\nlora_r: 8\nlora_target_modules: [o_proj]\n"
     "micro_batch_size: 1\nlora_dropout: 0\n", None),
    ("moe.yaml", "base_model: Qwen/Qwen3-Next-80B-A3B-Instruct\nadapter: lora\nlora_r: 8\nlora_target_modules: [shared_expert.gate_proj, "
     "shared_expert.up_proj, shared_expert.down_proj]\nmicro_batch_size: 1\nlora_dropout: 0\n",
     "all 512 experts: they get adapters of rank 16 on gate_up_proj and 8 on down_proj, and the shared expert gets none"),
    ("phi.yaml", "base_model: microsoft/Phi-3.5-mini-instruct\nmicro_batch_size: 1\nplugins:\n  - axolotl.integrations.liger.LigerPlugin\n"
     "liger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true\nliger_fused_linear_cross_entropy: true\n", None),
    ("phi.yaml", "base_model: microsoft/Phi-4-mini-instruct\nmicro_batch_size: 1\nplugins:\n  - axolotl.integrations.liger.LigerPlugin\n"
     "liger_rope: true\nliger_rms_norm: true\nliger_glu_activation: true\nliger_fused_linear_cross_entropy: true\n",
     "Liger-Kernel's modules are not modelled for this architecture"),
    ("tables.yaml", "base_model: google/gemma-2-9b\nadapter: qlora\nload_in_4bit: true\nembeddings_skip_upcast: true\nlora_r: 8\nlora_target_linear: true\nmicro_batch_size: 1\n", None),
    ("gemma.yaml", "base_model: google/gemma-4-31B\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_modules: [q_proj]\nlora_qkv_kernel: false\n"
     "micro_batch_size: 1\ngemma4_hybrid_attn_impl: true\nliger_rms_norm_gated: true\nfreeze_mm_modules: true\n",
     "so the run stops at its first layer; set gemma4_hybrid_attn_impl: false and attn_implementation: sdpa"),
    ("gemma.yaml", "base_model: google/gemma-4-E2B\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj]\nmicro_batch_size: 1\n"
     "plugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_glu_activation: true\n",
     "Liger-Kernel's modules are not modelled for this architecture; the run needs less memory and more or less time than predicted"),
    ("gemma.yaml", "base_model: google/gemma-4-E2B\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj]\nmicro_batch_size: 1\n",
     "Axolotl runs the norms and rotary positions of the attention in kernels of its own"),
    ("seed.yaml", "base_model: ByteDance-Seed/Seed-OSS-36B-Instruct\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_linear: true\nmicro_batch_size: 1\n",
     "and the MLP loses its dropout (lora_mlp_kernel: false keeps it)"),
    ("nemotron.yaml", "base_model: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16\nmicro_batch_size: 1\nsample_packing: true\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj]\n",
     "so the run stops with a TypeError; set sample_packing: false and gradient_checkpointing: false"),
    ("granite.yaml", "base_model: ibm-granite/granite-4.0-tiny-preview\nmicro_batch_size: 1\nsample_packing: true\n",
     "Axolotl runs the parts of Mamba's fused kernel one by one"),
    ("granite.yaml", "base_model: ibm-granite/granite-4.0-tiny-preview\nmicro_batch_size: 1\nsequence_len: 512\nsample_packing: true\nadapter: lora\n"
     "lora_r: 8\nlora_target_modules: [q_proj]\nbf16: true\n", "FITS if what is not modelled (see the notes) needs at most"),
    ("axolotl.yaml", "tokens:\n  bos_token: <s>\n", "so the run will not start; write them under special_tokens"),
    ("axolotl.yaml", "full_finetune: true\nliger_rms_norm_gated: true\nfreeze_mm_modules: true\n", None),
    ("axolotl.yaml", "gradient_checkpointing: true\nfsdp_config:\n  activation_checkpointing: true\n", "so the run will not start; set gradient_checkpointing: false"),
    ("axolotl.yaml", "kd_trainer: true\n", "knowledge distillation is not supported yet"),
    ("axolotl.yaml", "adapter: lora\nlora_r: 8\nlora_target_linear: true\n", "Axolotl's LoRA kernels, which it turns on by itself, are not modelled; the run needs less memory and usually less time"),
    ("axolotl.yaml", "adapter: lora\nlora_r: 8\nlora_target_linear: true\nmodel_quantization_config: Mxfp4Config\n",
     "a checkpoint that is quantised in this way is not modelled"),
    ("axolotl.yaml", "model_quantization_config: Mxfp4Config\nmodel_quantization_config_kwargs:\n  dequantize: true\n", None),
    ("axolotl.yaml", "llama4_linearized_experts: true\n", "a checkpoint with linear experts that is not from axolotl-quants"),
    ("axolotl.yaml", "gptq: true\n", "quantised with GPTQ is not modelled; the run needs less"),
    ("axolotl.yaml", "do_causal_lm_eval: true\n", "generating text during evaluation is not modelled; the run may need"),
    ("axolotl.yaml", "val_set_size: 0.1\neval_strategy: epoch\neval_batch_size: 64\neval_sample_packing: false\n", "evaluation does not fit: a batch of 64 x 512 tokens has 46.4 GiB of logits"),
    ("axolotl.yaml", "val_set_size: 0.1\neval_steps: 20\neval_batch_size: 30\neval_sample_packing: false\n", "evaluation is not modelled: a batch of 30 x 512"),
    ("axolotl.yaml", "val_set_size: 0.1\neval_strategy: epoch\neval_batch_size: 64\n", "eval_batch_size has no effect"),
    ("axolotl.yaml", "val_set_size: 0.1\nevals_per_epoch: 2\neval_batch_size: 4\neval_sample_packing: false\n", None),
    ("axolotl.yaml", "val_set_size: 0.1\neval_batch_size: 64\n", None),
    ("axolotl.yaml", "val_set_size: 0.1\nevals_per_epoch: 2\neval_sequence_len: 15360\n", "evaluation is not modelled: a batch of 1 x 15360"),
    ("axolotl.yaml", "flash_attn_rms_norm: true\n", "Axolotl 0.19 refuses flash_attn_rms_norm, so the run will not start; remove it"),
    ("axolotl.yaml", "flash_attn_rms_norm: false\n", None),
    ("axolotl.yaml", "attn_implementation: xformers\n", "predicted with sdpa; the run needs about as much memory, or less where"),
    ("axolotl.yaml", "attn_implementation: flash_attention_2\nflash_attn_fuse_mlp: true\n", None),
    ("fused.yaml", "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 512\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\n"
     "attn_implementation: flash_attention_2\nflash_attn_fuse_mlp: true\n", "xformers' SwiGLU, which takes the place of the MLPs"),
    ("axolotl.yaml", "rl: dpo\nrpo_alpha: 0.0\n", "refuses rpo_alpha, so"),
    ("axolotl.yaml", "rope_scaling:\n  type: linear\n", "refuses rope_scaling, so the run will not start; write it under model_config"),
    ("axolotl.yaml", "early_stopping_patience: 3\nevals_per_epoch: 2\nsaves_per_epoch: 2\n",
     "refuses early_stopping_patience without save_steps, so the run will not start; set save_steps and eval_steps"),
    ("axolotl.yaml", "early_stopping_patience: 3\neval_steps: 20\nsave_steps: 20\n", None),
    ("axolotl.yaml", "evals_per_epoch: 2\neval_strategy: epoch\n", "refuses evals_per_epoch with eval_strategy, so"),
    ("axolotl.yaml", "datasets:\n  - path: a\n    type: sharegpt\n", "so the run will not start; use type: chat_template"),
    ("axolotl.yaml", "rl: ipo\n", "refuses sample_packing with rl, so the run will not start; set sample_packing: false"),
    ("llama_factory.yaml", "use_asft_loss: true\n", "ASFT) is not supported yet"),
    ("llama_factory.yaml", "use_badam: true\n", "predicted as adamw, which needs more memory than the run"),
    ("torchtune.yaml", "loss:\n  _component_: torchtune.rlhf.loss.DPOLoss\n", "DPO as in torchtune's recipe"),
    ("torchtune.yaml", "teacher_model:\n  _component_: my.teacher\n", "no model is called \"my.teacher\""),
    ("tune.yaml", "model:\n  _component_: torchtune.models.qwen2_5.qwen2_5_0_5b\noptimizer:\n  _component_: torch.optim.AdamW\n  fused: false\nbatch_size: 1\n",
     "--optimizer adamw-loop"),
    ("tune.yaml", "# tune run --nproc_per_node 2 lora_finetune_distributed --config tune\nmodel:\n  _component_: torchtune.models.llama2.qlora_llama2_7b\n"
     "  lora_attn_modules: [q_proj]\n  lora_rank: 8\noptimizer:\n  _component_: torch.optim.AdamW\nbatch_size: 1\n",
     "torchao shards the scales of 4-bit weights"),
    ("rounded.yaml", TIED.replace("custom_sharded_layers: [%s]", "quantizer:\n  _component_: torchtune.training.quantization."
     "Int8DynActInt4WeightQATQuantizer"), "torchtune 0.7 with torchao 0.18"),
    ("tied.yaml", TIED % "'output'", "uses the embedding's weight, which is sharded whenever the embedding itself does not run"),
    ("untied.yaml", TIED.replace("0_5b", "7b_base") % "'tok_embeddings', 'output'", "no option for custom_sharded_layers"),
    ("torchtune.yaml", "optimizer_in_bwd: true\n", "must be 1 when the optimizer steps during backward"),
    ("tune.yaml", "model:\n  _component_: torchtune.models.phi3.phi3_mini\noptimizer:\n  _component_: torch.optim.AdamW\nbatch_size: 1\nenable_activation_offloading: true\n",
     "torchtune offloads activations only with checkpointing, and the search keeps what these files have"),
    ("trl.yaml", "beta: 0.1\n", "assuming TRL 1.16 for DPO; before 1.15"),
    ("trl.yaml", "beta: 0.1\nrpo_alpha: 1.0\n", "the additional loss of the chosen answers is not modelled; the run needs more"),
    ("trl.yaml", "beta: 0.1\nuse_weighting: false\n", None),
    ("trl.yaml", "beta: 0.1\nrpo_alpha: null\n", "TRL has no rpo_alpha since 0.29"),
    ("trl.yaml", "loss_type: apo_zero\n", "apo_zero differs only by a few numbers"),
    ("axolotl.yaml", "rl: orpo\n", "assuming TRL 1.9 for ORPO"),
    ("axolotl.yaml", "rl: orpo\n", "every version of TRL keeps all logits"),
    ("trl.yaml", "optim: galore_adafactor_layerwise\noptim_target_modules: all-linear\n", "does not work with a learning rate"),
    ("trl.yaml", "optim: rmsprop_bnb_8bit\ndtype: bfloat16\n", "its RMSprop does not take bf16 gradients"),
    ("trl.yaml", "optim: rmsprop_bnb\ndtype: float32\n", None),
    ("axolotl.yaml", "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n# a later key counts\noptimizer: paged_adamw_8bit\n",
     "the optimizers of bitsandbytes fail with the tensors of FSDP2"),
    ("rm.yaml", "model_name_or_path: google-t5/t5-small\nper_device_train_batch_size: 2\nmax_length: 512\ncenter_rewards_coefficient: 0.01\n",
     "reward models are not supported yet for encoder-decoders"),
    ("trl.yaml", "num_generations: 8\n", "training with generated answers is not supported"),
    ("trl.yaml", "eval_strategy: steps\nper_device_eval_batch_size: 64\nloss_type: nll\n", "set per_device_eval_batch_size to 24 or less"),
    ("predict.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_predict: true\nfinetuning_type: full\n"
     "cutoff_len: 512\n", "only predicts: do_predict is set, and do_train is not"),
    ("export.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\nfinetuning_type: lora\nexport_dir: o\n", "merges and exports a model"),
    ("merge.yaml", "model_name_or_path: Qwen/Qwen3-4B\nadapter_name_or_path: a\ntemplate: qwen3\nexport_dir: o\n", "merges and exports a model"),
    ("chat.yaml", "model_name_or_path: Qwen/Qwen3-4B\ntemplate: qwen3\ninfer_backend: huggingface\n", "configures inference"),
    ("v1.yaml", V1_LORA, "needs 62.5 GiB while loading the model: DOES NOT FIT"),
    ("v1.yaml", V1_LORA, "with init_config: {name: init_on_rank0}, each GPU gets only its part"),
    ("v1.yaml", V1_LORA + "init_config:\n  name: init_on_rank0\n", "GiB: FITS"),
    ("v1.yaml", V1_LORA + "init_config:\n  name: init_on_meta\n",
     "refuses init_config.name: init_on_meta with peft_config.name: lora, so the run will not start"),
    ("v1.yaml", "model: Qwen/Qwen3-4B\npeft_config:\n  name: lora\n  export_dir: o\n", "merges and exports a model"),
    ("v1.yaml", V1_LORA.replace("fsdp2", "fsdp2\n  offload_params: true"),
     "with offload_params, LLaMA-Factory v1 has no process group for parameters on the host, and the search keeps what these files have"),
    ("v1.yaml", V1_LORA + "quant_config:\n  quantization_bit: 4\n", "destroys them; set quant_config.compute_dtype: bfloat16"),
    ("v1.yaml", V1_LORA + "quant_config:\n  quantization_bit: 4\n  compute_dtype: bfloat16\n", None),
    ("llama_factory.yaml", "use_v1_kernels: true\n", None),
    ("llama_factory.yaml", "", "padding to the longest sample"),
    ("llama_factory.yaml", "frob: 3\n", "refuses keys that it does not have, unless ALLOW_EXTRA_ARGS=1 is set"),
    ("v1.yaml", V1_LORA + "frob: 3\n", "refuses keys that it does not have, unless ALLOW_EXTRA_KEYS=1 is set"),
    ("v1.yaml", V1_FULL.replace("auto", "liger_kernel"), "Liger's cross entropy, which keeps no log-probabilities and is not modelled; the run needs less memory"),
    ("v1.yaml", V1_FULL.replace("auto", "liger_kernel"), "Liger-Kernel's modules were not checked"),
    ("v1.yaml", V1_FULL.replace("auto", "liger_kernel").replace("Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-1B"), "the trainer does not use it there"),
    ("v1.yaml", V1_FULL.replace("auto", "cuda_fused_moe"),
     "kernel_config.name: this choice of kernels is not modelled; the run may need more or less memory and time than predicted"),
    ("v1.yaml", V1_FULL.replace("name: auto", "name: liger_kernel\n  block_size: 64"), "kernel_config: this choice of kernels is not modelled"),
    ("v1.yaml", V1_LORA, "each matrix of the adapters is sharded on its own"),
    ("v1.yaml", V1_FULL, "FSDP's own code is not counted: a step that waits for the CPU takes longer than predicted"),
    ("axolotl.yaml", "fsdp_version: 2\nfsdp_config:\n  offload_params: true\n  cpu_offload_pin_memory: false\n  transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n",
     "are counted at 8 and 15 GB/s"),
    ("axolotl.yaml", "dense_mixer: true\n", "the run needs more memory and time than predicted"),
    ("axolotl.yaml", "batch_flattening: true\n", "the run needs less memory and time than predicted"),
    ("tune.yaml", FILES["torchtune.yaml"].replace("enable_activation_checkpointing: true", "ac_mode: selective\nac_option: 2"),
     "the run needs less memory and more time than predicted"),
    ("v1.yaml", V1_FULL.replace("auto", "cuda_fused_moe"), "FITS if what is not modelled (see the notes) needs at most"),
    ("v1.yaml", V1_FULL + "batching_strategy: dynamic_batching\n", "refuses batching_strategy: dynamic_batching without max_steps, so the run will not start"),
    ("v1.yaml", V1_FULL + "batching_strategy: dynamic_batching\nmax_steps: 9\n",
     "each micro batch takes as many samples, padded to the longest, as fit into 512 tokens (micro batch x sequence length)"),
    ("v1.yaml", V1_FULL + "batching_strategy: padding_free\nflash_attn: flash_attention_2\n",
     "the samples of a micro batch are one row without padding, of up to 512 tokens"),
    ("v1.yaml", V1_FULL + "batching_strategy: padding_free\n", "refuses batching_strategy: padding_free without flash_attn: flash_attention_2"),
    ("v1.yaml", V1_FULL + "batching_strategy: dynamic_padding_free\n", "makes a mask that separates the samples of a row, which is not modelled; the run needs more"),
    ("v1.yaml", V1_FULL + "batching_strategy: dynamic_padding_free\nflash_attn: flash_attention_2\n", None),
    ("v1.yaml", V1_FULL + "optim_config:\n  name: adamw\n", "refuses optim_config.name: adamw, so the run will not start"),
    ("torchtune.yaml", "frob: 3\n", "the run differs from the prediction note: assuming one GPU"),
    ("llama_factory.yaml", "gradient_checkpointing: true\n", "checkpoint will not be changed: Trainer turns checkpointing on as well"),
    ("llama_factory.yaml", "gradient_checkpointing: true\ndisable_gradient_checkpointing: true\n", "checkpointing by Trainer, which it turns on beside"),
    ("llama_factory.yaml", "gradient_checkpointing: false\n", None),
    ("llama_factory.yaml", "fp8: true\nfp8_enable_fsdp_float8_all_gather: true\n", "strategy will not be changed: it needs FSDP2"),
    ("llama_factory.yaml", "use_liger_kernel: true\n", "Liger-Kernel, which Trainer turns on, is not modelled; the run needs less"),
    ("llama_factory.yaml", "fsdp: full_shard\nfsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n",
     "has no fsdp_transformer_layer_cls_to_wrap since 5.0: predicted as transformers 4.57"),
    ("llama_factory.yaml", "group_by_length: true\n", "transformers has no group_by_length since 5.2: predicted as transformers 5.1"),
    ("llama_factory.yaml", "overwrite_output_dir: true\n", None),
    ("llama_factory.yaml", "cutoff_len: 508\n", "padding in every batch"),
    ("galore.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_train: true\nfinetuning_type: full\nuse_galore: true\n"
     "cutoff_len: 512\nper_device_train_batch_size: 1\npure_bf16: true\n", "to do by hand 1. LLaMA-Factory stops with NotImplementedError"),
    ("axolotl.yaml", "flash_attn_rms_norm: true\n", "to do by hand 1. axolotl.yaml:8: Axolotl 0.19 refuses flash_attn_rms_norm"),
    ("lfm2.yaml", "base_model: LiquidAI/LFM2-350M\nmicro_batch_size: 1\nsequence_len: 512\n",
     "causal-conv1d not installed (with it, Axolotl stops with an ImportError)"),
    ("llama_factory.yaml", "fp8: true\n", "precision fp8 is not modelled: predicted with bf16"),
    ("llama_factory.yaml", "# accelerate launch --config_file fsdp.yaml src/train.py x.yaml\n", "in a comment uses fsdp.yaml, which is not read"),
    ("axolotl.yaml", "adapter: lora\nlora_r: 8\nlora_target_linear: true\nunfrozen_parameters:\n  - ^lm_head.*\n", "so Axolotl freezes the adapters too and trains nothing"),
    ("go.sh", "python run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --do_train --per_device_train_batch_size 1 --frob 3\n",
     "not understood, so not counted: --frob."),
    ("script.py", 'Trainer(model=model, args=TrainingArguments("o", per_device_train_batch_size=1)).evaluate()\n',
     "the script only evaluates"),
    ("script.py", 'model = get_peft_model(model, GraloraConfig(r=8))\nTrainer(model=model, '
     'args=TrainingArguments("o", per_device_train_batch_size=1)).train()\n', "adapters of GraloraConfig are not supported"),
    ("script.py", "SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=1)).train()\n"
     "GRPOTrainer(model=model, args=GRPOConfig(num_generations=8)).train()\n", "not supported yet (GRPOTrainer)"),
    ("script.py", 'model = get_peft_model(model, LoraConfig(r=8, use_dora=True))\nTrainer(model=model, '
     'args=TrainingArguments("o", per_device_train_batch_size=1, neftune_noise_alpha=5, frobnicate=1)).train()\n',
     "--neftune"),
    ("axolotl.yaml", "plugins:\n  - axolotl.integrations.liger.LigerPlugin\n  - my.own.Plugin\n", "a plugin that does not come with Axolotl is not modelled"),
    ("axolotl.yaml", "plugins:\n  - axolotl.integrations.swanlab.SwanLabPlugin\n", None),
    ("axolotl.yaml", "lora_model_dir: ./old\n", "whose own rank and modules count, is not modelled"),
    ("axolotl.yaml", "optim_args:\n  amsgrad: true\n", "this argument of the optimizer is not modelled"),
    ("axolotl.yaml", "optim_args:\n  eps: 1.0e-8\n", None),
    ("axolotl.yaml", "selective_checkpointing:\n  offload: true\n", "this selection of what checkpointing keeps is not modelled"),
    ("axolotl.yaml", "device: cpu\n", "a run without CUDA is not modelled"),
    ("axolotl.yaml", "accelerator_config:\n  split_batches: true\n", "splitting each batch between the GPUs is not modelled; the run needs less"),
    ("axolotl.yaml", "peft_init_lora_weights: pissa_niter_16\n", "it needs memory of its own for a short time before the first step"),
    ("axolotl.yaml", "adapter: lora\nlora_r: 8\nlora_target_linear: true\nlora_qkv_kernel: false\npeft_autocast_adapter_dtype: false\n", "--lora-dtype bf16"),
    ("axolotl.yaml", "bnb_config_kwargs:\n  llm_int8_skip_modules: [head]\n", "this option of bitsandbytes is not modelled"),
    ("axolotl.yaml", "rl: dpo\ndpo_use_liger_kernel: true\n", "Liger's loss for preferences, which never has all logits, is not modelled"),
    ("llama_factory.yaml", "resize_vocab: true\n", "(embed_tokens,lm_head trained in full)"),
    ("llama_factory.yaml", "add_tokens: <a>,<b>\n", "add_tokens makes LLaMA-Factory train the embedding and the head"),
    ("llama_factory.yaml", "resize_vocab: true\nadditional_target: lm_head\n", "(lm_head trained in full)"),
    ("llama_factory.yaml", "adapter_name_or_path: saves/sft\n", "whose own rank and modules count, is not modelled"),
    ("llama_factory.yaml", "pissa_init: true\n", "it needs memory of its own for a short time before the first step"),
    ("llama_factory.yaml", "freeze_vision_tower: false\n", "training the part of the model that sees images is not modelled"),
    ("llama_factory.yaml", "freeze_vision_tower: true\nfreeze_language_model: false\n", None),
    ("llama_factory.yaml", "stage: dpo\nref_model: Qwen/Qwen2.5-0.5B\n", "a reference model that is loaded beside the adapters is not modelled"),
    ("torchtune.yaml", "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n  num_output_chunks: 4\n", "a loss in another number of chunks"),
    ("torchtune.yaml", "profiler:\n  enabled: true\n", "profiling is not modelled; a step may take longer"),
    ("torchtune.yaml", "profiler:\n  enabled: false\n  wait_steps: 5\n", None),
    ("torchtune.yaml", "compile:\n  model: true\n", "torch.compile is not modelled"),
    ("trl.yaml", "loss_type: dft\n", "this loss, which needs probabilities of all tokens, is not modelled"),
    ("trl.yaml", "model_init_kwargs:\n  tp_plan: auto\n", "is not modelled"),
    ("trl.yaml", "fsdp: full_shard\nfsdp_config:\n  auto_wrap_policy: NO_WRAP\n", "FSDP units that are not the layers"),
    ("hf.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 1\nlearning_rate: 1.0e-5\noutput_dir: o\nadafactor: true\nbf16: true\n",
     "--optimizer adafactor"),
    ("hf.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 1\nlearning_rate: 1.0e-5\noutput_dir: o\nbf16: true\n",
     "the files set no dtype: assuming transformers 5"),
    ("script.py", "SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=1, neftune_noise_alpha=5)).train()\n",
     "--neftune"),
    ("script.py", "SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=1, loss_type='dft')).train()\n",
     "this loss, which needs probabilities of all tokens, is not modelled"),
    ("script.py", 'model = get_peft_model(model, LoraConfig(r=8), autocast_adapter_dtype=False)\nTrainer(model=model, '
     'args=TrainingArguments("o", per_device_train_batch_size=1)).train()\n', "--lora-dtype bf16"),
    ("go.sh", "python trl/scripts/dpo.py --model_name_or_path Qwen/Qwen2.5-0.5B --learning_rate 5.0e-7 --output_dir o\n", "go.sh (TRL)"),
    ("go.sh", "python trl/scripts/distillation.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir o\n", "a second model is the teacher"),
    ("go.sh", "python run_ner.py --model_name_or_path bert-base-uncased --do_train --output_dir o\n", "micro batch (8)"),
    ("go.sh", "python x.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 1 --use_peft --output_dir o\n", "LoRA rank 16"),
    ("go.sh", "python run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --do_train --batch_size 4 --output_dir o\n",
     "not understood, so not counted: --batch_size."),
    ("go.sh", "python run_summarization.py --model_name_or_path google-t5/t5-small --do_train --max_target_length 64 --output_dir o\n",
     "and its labels 64 (shorter"),
    ("script.py", "trainer = Trainer(model=model, args=TrainingArguments('o', per_device_train_batch_size=1))\n"
     "trainer.train(resume_from_checkpoint=False)\n", None),
    ("script.py", "class DataTrainingArguments:\n  my_field: int = 3\nTrainer(model=model, args=TrainingArguments('o', "
     "per_device_train_batch_size=1)).train()\n", None),
    ("own.py", "from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments\n"
     "model = AutoModelForSequenceClassification.from_pretrained('bert-base-uncased', problem_type='multi_label_classification')\nTrainer(model=model, "
     "args=TrainingArguments('o', per_device_train_batch_size=1)).train()\n", "which differs from cross entropy by a few numbers"),
]


class Wrong(Exception):
    pass


def configurations(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in KINDS and p.name != "truth.json")


def kinds_of(dump, paths):
    """The unknown keys of each file that can be read."""
    done = subprocess.run([dump, *map(str, paths)], capture_output=True, text=True, check=True)
    unknown = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if "error" not in row:
            unknown.setdefault(row["file"], []).extend([row["key"]] if row["kind"] == "unknown" else [])
    return unknown


def plimsoll(program, folder, *words):
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise Wrong(f"{' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def one_line(text):
    return " ".join(text.split())


def say_made_up(program, name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_text(text)
        plan = ("plan", name, "--gpu", "24GiB", "--try", "micro_batch=1")
        if WORDS in one_line(plimsoll(program, folder, *plan)):
            raise Wrong("a known key is called unknown")
        path.write_text(f"{text}{MADE_UP}: 3\n")
        if WORDS + MADE_UP not in one_line(plimsoll(program, folder, *plan)):
            raise Wrong("plan does not name the unknown key")
        notes = json.loads(plimsoll(program, folder, *plan, "--json"))["notes"]
        if not any(n["code"] == "unknown.keys" and MADE_UP in n["message"] for n in notes):
            raise Wrong("plan --json does not name the unknown key")
        check = plimsoll(program, folder, "check", name, "--gpu", "24GiB", "--json")
        if MADE_UP not in check:
            raise Wrong("check --json does not name the unknown key")


def say(program, name, more, words):
    """What plan says about a file is `words`; None: no note about a key."""
    with tempfile.TemporaryDirectory() as folder:
        base = FILES.get(name, SCRIPT if name == "script.py" else "")
        (pathlib.Path(folder) / name).write_text(base + more)
        done = subprocess.run([program, "plan", name, "--gpu", "24GiB", "--try", "micro_batch=1", "--seq", "512"],
                              cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        said = one_line(done.stdout.replace("\n      ", " ") + done.stderr)
        if words is None and ("is not modelled" in said or WORDS in said):
            raise Wrong(f"a note where nothing is turned on: {said}")
        if words and words not in said:
            raise Wrong(f"{words!r} is not in: {said[:600]}")


def main():
    dump, program, *folders = sys.argv[1:]
    dump, program = os.path.abspath(dump), os.path.abspath(program)
    os.environ |= {"HF_HOME": "nowhere", "PLIMSOLL_NVML": "none"}
    passed = failed = skipped = 0
    for folder in map(pathlib.Path, folders):
        paths = configurations(folder)
        if not paths:
            print("skipped: there is no", folder)
            skipped += 1
            continue
        for path, keys in kinds_of(dump, paths).items():
            keys = [k for k in keys if k not in DELIBERATE]
            failed += bool(keys)
            passed += not keys
            if keys:
                print(f"FAIL {path}: unknown keys: {', '.join(keys)}")
    for name, text in FILES.items():
        try:
            say_made_up(program, name, text)
            passed += 1
            print("ok   a made-up key in", name)
        except Wrong as why:
            failed += 1
            print(f"FAIL a made-up key in {name}: {why}")
    for name, more, words in SAID:
        try:
            say(program, name, more, words)
            passed += 1
            print("ok  ", name, "says", words)
        except Wrong as why:
            failed += 1
            print(f"FAIL {name}: {why}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return failed != 0


sys.exit(main())
