// What the keys that are no knobs do, one table per framework. The keys come from the frameworks' own sources: Axolotl 0.19
// (utils/schemas), LLaMA-Factory 0.9.5 (hparams and v1/config), torchtune 0.6.1 (recipes), transformers 5.23
// (TrainingArguments, from_pretrained), TRL 1.16 (the Config classes, scripts/utils.py), peft 0.21 (LoraConfig), accelerate
// 1.15 (commands), DeepSpeed 0.19 (runtime/config.py, zero/config.py), Lightning 2.6 (Trainer), Megatron-LM of 2026
// (training/arguments.py), and the documentation of
// the others.
#include "other_keys.h"

// clang-format off
#define FREE(why, keys_) {.keys = keys_, .effect = PLIM_EFFECT_NONE, .what = why}
#define READ(where, keys_) {.keys = keys_, .effect = PLIM_EFFECT_READ, .what = where}
#define MORE(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_MORE, .what = __VA_ARGS__}
#define LITTLE(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_LITTLE, .what = __VA_ARGS__}
#define CACHED(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_CACHED, .what = __VA_ARGS__}
#define EITHER(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_EITHER, .what = __VA_ARGS__}
#define LESS(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_LESS, .what = __VA_ARGS__}
#define START(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_START, .what = __VA_ARGS__}
#define TIME(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_TIME, .what = __VA_ARGS__}
#define REFUSED(keys_, ...) {.keys = keys_, .effect = PLIM_EFFECT_REFUSED, .what = __VA_ARGS__}
#define ONLY .only =
#define OFF .off =
#define UNLESS .unless =
#define TOGETHER_WITH .with =
#define OF_SEVERAL .is_of_several = true
#define SLOWER .pace = PLIM_PACE_SLOWER
#define FASTER .pace = PLIM_PACE_FASTER
#define EITHER_WAY .pace = PLIM_PACE_EITHER
#define END {.keys = NULL}

// Words that explain why a key is free.
#define LEARNING "it changes what is learned, not the size of anything"
#define DATA "it chooses and prepares the data before the step"
#define LOGS "it logs, saves or names things"
#define STARTS "it tells the processes how to find each other"
#define EVALUATES "evaluation has a note of its own"
#define WITH_RL "it belongs to a kind of training that is refused or predicted by its own key"
#define ON_THE_HOST "it affects the host alone"

// What several frameworks have.
#define WITHOUT_CUDA "a run without CUDA"
#define OTHER_DEVICES "cpu cpu:* mps mps:* npu npu:* xpu xpu:* hpu tpu musa*"
#define RESUMED "the adapter in this folder, whose own rank and modules count,"
#define DECOMPOSES "the decomposition of the weights from which the adapters start"
// Values of init_lora_weights that start from the weights; the others are random numbers or zeros.
#define DECOMPOSITIONS "pissa* olora corda eva loftq lora_ga* orthogonal"
#define WRAPPED_OTHERWISE "FSDP units that are not the layers"
#define OTHER_WRAPPING "NO_WRAP SIZE_BASED_WRAP"
// optim_args of GaLore and APOLLO.
#define PROJECTIONS "rank=* update_proj_gap=* scale_type=* scale=*"
#define SPLITS "splitting each batch between the GPUs"

// Heads that the tape does not have, for keys that name a class of transformers.
#define OTHER_HEADS "*ForSequenceClassification *ForTokenClassification *ForQuestionAnswering *ForMultipleChoice"

// ---- Axolotl ----------------------------------------------------------------------------------------

static const plim_other_key axolotl[] = {
  READ("project_follow.c", "deepspeed"),
  READ("project_counts.c, project_loads.c, project_fsdp.c", "batch_size device_map.* fsdp_config.fsdp_version fsdp_config"),
  READ("project_job_trained.c", "unfrozen_parameters.*"),
  READ("project_unmodelled.c", "sequence_parallel_degree dp_replicate_size expert_parallel_size"),
  READ("its plugin is read", "cut_cross_entropy"),
  READ("project_refusals.c", "max_packed_sequence_len rope_scaling.* s2_attention flash_attn_rms_norm rpo_alpha unsloth_* early_stopping_patience"),
  READ("project_rules.c: a micro batch that may change is not planned", "auto_find_batch_size"),
  READ("project_job_ecosystem.c", "peft_autocast_adapter_dtype lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel embeddings_skip_upcast quantize_moe_experts freeze_mm_modules"),

  REFUSED("adapter", "this kind of adapter", ONLY "llama-adapter mora remora ia3 oft"),
  REFUSED("mora.use_mora", "the adapter MoRA"),
  REFUSED("kd_trainer", "knowledge distillation"),
  REFUSED("plugins.*", "knowledge distillation", ONLY "*KDPlugin"),
  REFUSED("ebft.*", "energy-based fine-tuning"),
  REFUSED("model_type", "the head of this class", ONLY OTHER_HEADS),

  MORE("lora_target_parameters.*", "an adapter on these parameters", SLOWER),
  MORE("peft_trainable_token_indices.*", "training these rows of the embedding", SLOWER),
  MORE("peft_layer_replication.*", "replicating layers", SLOWER),
  READ("project_job_qat.c", "qat.*"),
  READ("project_job.c", "neftune_noise_alpha noisy_embedding_alpha"),
  MORE("grokfast_*", "Grokfast's moving average of the gradients", SLOWER),
  MORE("fp32_norms fp32_norm_classes.*", "norms in float32", SLOWER),
  MORE("float32", "weights in float32", SLOWER),
  MORE("model_config.output_router_logits overrides_of_model_config.output_router_logits", "the router's logits and their loss", SLOWER),
  MORE("use_eaft", "the entropy of the logits in this loss", SLOWER),
  MORE("processor_type", "training with images, for their tokens and activations,", SLOWER),
  MORE("generate_samples", "generating samples during training"),
  MORE("dense_mixer", "DenseMixer, which runs all experts,", SLOWER),
  MORE("lm_eval_tasks.*", "lm-eval after training", OFF "[]"),

  LESS("peft_layers_pattern", "an adapter on some layers only", FASTER),
  LESS("lisa_n_layers lisa_step_interval", "LISA, which trains a few layers at a time,", FASTER),
  LESS("spectrum_top_fraction", "Spectrum, which freezes most layers,", FASTER),
  LESS("tiled_mlp", "the tiled MLP", SLOWER),
  LESS("flash_attn_cross_entropy liger_cross_entropy", "the fused cross entropy, which keeps no float32 copies of the logits,", FASTER),
  LESS("gemma4_nf4_nonexpert gemma4_fp8_nonexpert", "quantising these weights", SLOWER),
  LESS("ple_cpu_offload", "keeping the per-layer embeddings on the host", SLOWER),
  LESS("batch_flattening", "flattening the batch, which leaves out the padding,", FASTER),

  EITHER("lora_rank_pattern.*", "a rank of its own for some layers"),
  // integrations/diffusion: the logits are copied to shift them, and what is masked again, in 16 bits and in float32.
  MORE("diffusion.*", "the loss of a diffusion language model, which copies the logits,", SLOWER),
  EITHER("relora", "ReLoRA, which merges and restarts the adapters,"),
  READ("job_family.c", "flash_attn_fuse_mlp"),
  FREE("nothing reads it any more", "flash_attn_fuse_qkv"),
  EITHER("sage_attention flash_optimum flex_attention", "this attention kernel"),
  EITHER("fused_attn_kernel gemma4_hybrid_attn_impl large_head_attention flash_attn_d512 sdpa_varlen scaling_softmax", "this attention kernel"),
  EITHER("llama4_linearized_experts", "a checkpoint with linear experts that is not from axolotl-quants", UNLESS "base_model=axolotl-quants/*"),
  EITHER("experts_implementation use_scattermoe use_sonicmoe expert_backend moe_*", "this implementation of the experts", OFF "eager"),
  EITHER("use_dsv4_kernels use_glm_dsa_kernels dsv4_* nvfp4_* nonexpert_quantization use_kernels use_onebitllms", "this set of kernels"),
  EITHER("liger_use_token_scaling liger_kernel_impl", "this kernel of Liger"),
  // integrations/liger/plugin.py reads it for these models alone.
  LESS("liger_rms_norm_gated", "this kernel of Liger", TOGETHER_WITH "base_model=*qwen3.5*", EITHER_WAY),
  // It is then loaded in the type of the computation, as predicted.
  EITHER("model_quantization_config", "a checkpoint that is quantised in this way", UNLESS "model_quantization_config_kwargs.dequantize=true"),
  LESS("gptq", "the smaller size of a checkpoint that is quantised with GPTQ", SLOWER),
  EITHER("overrides_of_model_config.* model_config.* overrides_of_model_kwargs.* base_model_config", "another configuration of the model"),
  EITHER("chunked_cross_entropy_num_chunks", "another number of chunks", OFF "8"),
  EITHER("deepcompile", "DeepCompile"),
  EITHER("trainer_cls", "a trainer of its own"),
  EITHER("resources_per_worker.*", "the number of GPUs per Ray worker", OFF "1"),
  FREE("ray_num_workers sets the number of GPUs", "use_ray"),
  EITHER("max_memory.* gpu_memory_limit", "this limit on where the model is placed"),
  EITHER("gc_steps", "emptying the cache every few steps"),
  MORE("skip_prepare_dataset", "leaving samples that are longer than sequence_len uncut", SLOWER),
  MORE("llmcompressor.*", "the masks of llm-compressor, a byte for each pruned weight,"),
  EITHER("hatchery.*", "training with this tool"),
  READ("project_job_projection.c", "optim_target_modules optim_target_modules.* optim_args.rank optim_args.scale_type"),
  FREE("how often a projection is made, and the size of the update", "optim_args.update_proj_gap optim_args.scale"),
  READ("project_job_engine.c", "accelerator_config.gradient_accumulation_kwargs.sync_each_batch"),
  TIME("ddp_find_unused_parameters", "searching for unused parameters", OF_SEVERAL),
  TIME("profiler_steps profiler_steps_start", "profiling"),
  TIME("gc_collect_steps", "collecting garbage between steps"),

  EITHER("lora_model_dir", RESUMED),
  FREE("the argument has no size", "optim_args.eps* optim_args.beta* optim_args.lr optim_args.weight_decay optim_args.bf16_stochastic_round"),
  EITHER("optim_args.*", "this argument of the optimizer", OFF PROJECTIONS),
  EITHER("selective_checkpointing.*", "this selection of what checkpointing keeps", OFF "[]"),
  EITHER("device", WITHOUT_CUDA, ONLY OTHER_DEVICES),
  EITHER("fsdp_config.*auto_wrap_policy", WRAPPED_OTHERWISE, ONLY OTHER_WRAPPING),
  LESS("accelerator_config.split_batches", SPLITS, FASTER),
  LESS("qlora_sharded_model_loading", "loading a quantised model in shards"),
  LESS("dpo_use_liger_kernel trl.use_liger_loss", "Liger's loss for preferences, which never has all logits,", EITHER_WAY),
  LESS("dpo_padding_free", "a batch without padding", FASTER),
  EITHER("bnb_config_kwargs.*", "this option of bitsandbytes", OFF "nf4 fp4 bfloat16 float16 torch.*"),
  EITHER("peft_ensure_weight_tying", "tied copies of the embedding and the head"),
  START("peft_init_lora_weights", DECOMPOSES, ONLY DECOMPOSITIONS),
  START("loftq_config.* peft.loftq_config.*", DECOMPOSES),
  START("mean_resizing_embeddings", "the covariance of the embeddings, from which new rows start,"),

  FREE(DATA, "datasets.* test_datasets.* pretraining_dataset.* datasets test_datasets dataset_* shuffle_* num_dataset_shards_to_save push_dataset_to_hub hf_use_auth_token train_on_inputs chat_template chat_template_* eot_tokens* default_system_message role_boundaries* excess_length_strategy min_sample_len max_prompt_len streaming* preprocess_iterable is_preprocess total_* remove_unused_columns conversation curriculum_sampling multipack_real_batches fix_untrained_tokens"),
  FREE("samples are taken at the longest length", "group_by_length pad_to_sequence_len pad_to_multiple_of sample_packing_* pretrain_multipack_* pretraining_sample_concatenation use_pose pose_*"),
  FREE(LEARNING, "learning_rate eta_min embedding_lr* lr_* cosine_* warmup_* weight_decay adam_* torchdistx_path dion_* qgalore_* loraplus_* jagged_restart_* relora_* seed lora_alpha_pattern.* peft_use_rslora lora_fan_in_fan_out reinit_weights mean_resizing_embeddings kd_* eaft_* scaling_softmax_* tiled_mlp_* lisa_layers_attribute model_config_type expert_parallel_* heads_k_stride ring_attn_func nvfp4_merge_aware_start_step spectrum_model_name liger_rms_norm_eps"),
  FREE("adapters have the same size however they start", "peft_init_lora_weights lora_on_cpu merge_lora merge_method peft mora.*"),
  MORE("dpo_use_weighting", "weighting pairs by their probabilities", SLOWER),
  FREE(WITH_RL, "trl.* vllm.* rl_* dpo_* orpo_* simpo_* cpo_* kto_* rpo_* precompute_ref_log_probs center_rewards_coefficient num_labels nemo_gym_* swanlab_*"),
  FREE(LOGS, "output_dir hub_* save_* saves_per_epoch logging_* wandb_* use_wandb mlflow_* use_mlflow hf_mlflow_* comet_* use_comet trackio_* use_trackio use_tensorboard use_otel_metrics otel_* use_swanlab gradio_* loss_watchdog_* include_* metric_for_best_model greater_is_better load_best_model_at_end resume_from_checkpoint auto_resume_from_checkpoints dynamic_checkpoint.* axolotl_config_path strict fsdp_final_state_dict_type ray_run_name"),
  EITHER("do_causal_lm_eval do_bench_eval eval_table_size", "generating text during evaluation", OFF "0"),
  READ("project_job_evaluation.c", "val_set_size eval_strategy evaluation_strategy eval_steps evals_per_epoch eval_batch_size eval_sample_packing eval_sequence_len"),
  FREE(EVALUATES, "eval_* bench_* lm_eval_* num_generation_samples generation_* quantization.*"),
  FREE("it sets how long the run is", "max_steps"),
  FREE("a few rows of the embedding at most", "special_tokens.* tokens.* added_tokens_overrides* resize_token_embeddings_to_32x shrink_embeddings"),
  FREE("it loads and names the model", "trust_remote_code tokenizer_* model_type cls_model_config revision_of_model type_of_model processor_kwargs* image_* is_*_derived_model low_cpu_mem_usage experimental_skip_move_to_device model_quantization_config_kwargs.* gptq_*"),
  FREE(ON_THE_HOST, "dataloader_* dataset_num_proc dataset_processes ddp ddp_timeout ddp_broadcast_buffers world_size local_rank device"),
  FREE("buckets of DDP differ by a few MiB", "ddp_bucket_cap_mb"),
  FREE("the precision of float32 products", "tf32"),
  FREE("Axolotl has no such key and ignores it", "full_finetune"),
  FREE("Axolotl does not pass it on", "flex_attn_compile_kwargs*"),
  FREE("it only matters with the key that turns the feature on", "fp8_* torch_compile_* gradient_checkpointing_kwargs.* accelerator_config.*"),
  FREE("FSDP: how it wraps, loads and saves", "fsdp_config.*auto_wrap_policy fsdp_config.*cls_to_wrap fsdp_config.*cpu_ram_efficient_loading fsdp_config.*state_dict_type fsdp_config.*sync_module_states fsdp_config.*use_orig_params"),
  READ("project_job_engine.c", "fsdp_config.*cpu_offload_pin_memory"),
  READ("FSDP 1 is predicted as FSDP2, with a note", "fsdp_config.*sharding_strategy fsdp_config.*limit_all_gathers fsdp_config.*backward_prefetch* fsdp_config.*forward_prefetch"),
  EITHER("fsdp_config.*min_num_params", "wrapping modules by their size"),
  EITHER("fsdp_config.*mixed_precision_policy fsdp_config.*mixed_precision*", "this precision of FSDP"),
  EITHER("plugins.*", "a plugin that does not come with Axolotl", ONLY "[!an]* a[!x]* n[!u]*"),
  END,
};

// ---- LLaMA-Factory ----------------------------------------------------------------------------------

static const plim_other_key llama_factory[] = {
  REFUSED("finetuning_type", "this kind of adapter", ONLY "oft"),
  REFUSED("use_asft_loss", "a loss with a second model as reference (ASFT)"),
  REFUSED("export_dir", "merging and exporting a model"),
  REFUSED("use_kt", "training with KTransformers"),
  REFUSED("reward_model_type", "this reward model", ONLY "full api"),

  // train/trainer_utils.py: both take the logits that the usual loss takes. On a simulated GPU, dft_loss_func has the peak of
  // the usual loss, and _eaft_cross_entropy 0.2 % more allocated and one copy of the logits more reserved.
  CACHED("use_eaft_loss", "the float32 copy of all logits that this loss makes, and frees before the backward pass,"),
  FREE("it needs what the usual loss needs", "use_dft_loss"),
  MORE("upcast_lmhead_output", "logits in float32", SLOWER),
  MORE("moe_aux_loss_coef", "the router's logits and their loss", SLOWER),
  MORE("enable_torch_profiler profiler_profile_memory", "profiling", SLOWER),

  READ("project_job_projection.c", "galore_rank galore_target galore_layerwise apollo_rank apollo_target apollo_layerwise apollo_scale_type"),
  EITHER("galore_proj_type apollo_proj_type", "projecting another side of the gradients", OFF "std"),
  MORE("apollo_proj", "APOLLO's projection on singular vectors", OFF "random", SLOWER),

  EITHER("adapter_name_or_path", RESUMED),
  MORE("ref_model", "a reference model that is loaded beside the adapters", SLOWER),
  LESS("ref_model_quantization_bit", "a quantised reference model", SLOWER),
  MORE("freeze_vision_tower", "training the part of the model that sees images", ONLY "false", SLOWER),
  MORE("freeze_multi_modal_projector", "training the layers that connect images to the text", ONLY "false", SLOWER),
  LESS("freeze_language_model", "freezing the language model", FASTER),
  START("pissa_init", DECOMPOSES),
  EITHER("mixture_of_depths", "mixture of depths, in which some layers see a part of the tokens,"),
  EITHER("shift_attn", "shifted sparse attention"),
  FREE("its kernels are those of v1's auto, which has some for NPUs alone", "use_v1_kernels"),
  EITHER("use_unsloth", "Unsloth's layers"),
  EITHER("block_diag_attn", "attention within each packed sample"),
  EITHER("quantization_method quantization_type", "this way to quantise", ONLY "hqq eetq gptq awq aqlm fp4 fp8 mxfp4"),
  EITHER("quantization_device_map", "placing the quantised model"),
  EITHER("ray_num_workers", "the number of GPUs that Ray uses (give it with --world)", OFF "1"),
  EITHER("use_hyper_parallel hyper_parallel_args*", "HyperParallel"),
  // bf16_mixed is the default (hparams/megatron_bridge_args.py), and is predicted as bf16 with autocast.
  EITHER("mixed_precision", "this precision of Megatron", OFF "bf16_mixed"),

  EITHER("hyper_parallel_cp_size", "HyperParallel's context parallelism", OFF "1"),
  // Trainer's own keys, which LLaMA-Factory's TrainingArguments have too.
  LESS("gradient_checkpointing", "checkpointing by Trainer, which it turns on beside disable_gradient_checkpointing,", ONLY "true", TOGETHER_WITH "disable_gradient_checkpointing=true", SLOWER),
  FREE("LLaMA-Factory checkpoints unless disable_gradient_checkpointing is set", "gradient_checkpointing"),
  LESS("use_liger_kernel", "Liger-Kernel, which Trainer turns on,", EITHER_WAY),
  READ("Megatron's keys", "use_megatron_bridge megatron_bridge_args* megatron_pretrained_checkpoint extra_config* account_for_*_in_pipeline_split masked_softmax_fusion cross_entropy_loss_fusion use_mca pipeline_model_parallel_size expert_model_parallel_size sequence_parallel moe_grouped_gemm moe_token_dispatcher_type overlap_param_gather overlap_grad_reduce bias_activation_fusion apply_rope_fusion expert_tensor_parallel_size virtual_pipeline_model_parallel_size recompute_* swiglu distributed_optimizer"),
  READ("project_job_ecosystem.c", "upcast_layernorm pure_bf16"),
  READ("project_job_trained.c", "freeze_trainable_* freeze_extra_modules use_llama_pro"),

  READ("project_job_ecosystem.c", "tokenized_path"),
  FREE(DATA, "dataset eval_dataset dataset_dir media_dir template train_on_prompt mask_history streaming buffer_size mix_strategy interleave_probs overwrite_cache preprocessing_* max_samples ignore_pad_token_for_loss tool_format default_system enable_thinking preserve_thinking data_shared_file_system disable_shuffling use_packed_sequences split_special_tokens"),
  // data/mm_plugin.py writes the tokens of images into the text before it is cut to cutoff_len; freeze_vision_tower is true by
  // default (hparams/finetuning_args.py), so the tower keeps nothing for a backward pass.
  LITTLE("image_max_pixels video_max_pixels video_maxlen", "the forward pass of the part that sees images, whose tokens count in cutoff_len,", SLOWER),
  FREE("it only matters with images", "image_* video_* crop_to_patches use_audio_in_video audio_sampling_rate freeze_vision_tower freeze_multi_modal_projector freeze_language_model"),
  FREE(EVALUATES, "val_size eval_on_each_dataset eval_num_beams compute_accuracy early_stopping_steps batch_size task* lang n_shot save_dir download_mode"),
  FREE(LEARNING, "loraplus_* use_rslora asft_alpha eaft_alpha galore_* apollo_* badam_* oft_* module_dropout"),
  FREE("adapters have the same size however they start", "pissa_* adapter_folder create_new_adapter"),
  FREE(WITH_RL, "pref_* dpo_* kto_* simpo_* ppo_* ref_model* reward_model* ld_alpha"),
  FREE("it is used when generating", "do_sample temperature top_p top_k num_beams max_new_tokens repetition_penalty length_penalty skip_special_tokens max_length infer_* vllm_* sglang_* use_kv_cache export_*"),
  FREE(LOGS, "plot_loss use_swanlab swanlab_* overwrite_output_dir include_effective_tokens_per_second print_param_status profiler_* profile_modules kt_* hf_hub_token ms_hub_token om_hub_token export_hf_on_finish calculate_per_token_loss"),
  FREE("it loads and names the model", "quantization_method quantization_type model_revision cache_dir use_fast_tokenizer trust_remote_code rope_scaling low_cpu_mem_usage offload_folder train_from_scratch device_map compute_dtype model_max_length"),
  READ("project_job_ecosystem.c: with adapters, the embedding and the head are trained", "resize_vocab add_tokens add_special_tokens new_special_tokens_config"),
  FREE("it sets the values of new rows", "init_special_tokens"),
  FREE(STARTS, "ray_* master_addr master_port placement_strategy resources_per_worker*"),
  FREE("with fp8, which has a note of its own", "fp8_*"),
  END,
};

static const plim_other_key llama_factory_v1[] = {
  REFUSED("model_class", "this class of model", ONLY "cls other"),
  REFUSED("peft_config.name", "this kind of adapter", ONLY "oft ia3 prefix* prompt*"),
  READ("project_job_trained.c", "peft_config.freeze_*"),
  MORE("peft_config.use_dora", "DoRA, which also computes the norms of the adapted weights,", SLOWER),
  EITHER("kernel_config.name", "this choice of kernels", ONLY "*cuda* *npu* *flash*"),
  READ("the knobs; auto chooses kernels for NPUs alone (kernels/interface.py)", "kernel_config.name"),
  EITHER("kernel_config.*", "this choice of kernels"),
  EITHER("quant_config.*", "this way to quantise", OFF "bnb auto nf4 float16 bfloat16"),
  READ("project_job_ecosystem.c", "init_config.*"),
  READ("project_follow.c, the knobs", "dist_config.config_file cp_mode peft_config.name"),
  FREE(DATA, "train_dataset eval_dataset template batching_workers"),
  // distributed/fsdpturbo.py, shard_model; FSDP2 keeps them in float32 (core/model_engine.py).
  LESS("dist_config.name", "FSDPTurbo, which with bf16 keeps parameters, gradients and optimizer states in bf16,", ONLY "fsdpturbo", EITHER_WAY),
  EITHER("dist_config.ep_* dist_config.fsdp_ignored_modules* dist_config.hook_modules* dist_config.fsdp_implementation", "this option of the sharding", OFF "1 native eager []"),
  EITHER("mp_replicate_size", "hybrid sharding (shards replicated between groups of GPUs)", OFF "1"),
  EITHER("dp_size mp_shard_size", "a number of GPUs (give it with --world)"),
  TIME("full_determinism", "deterministic kernels"),
  FREE("it loads and names the model", "trust_remote_code custom_chat_template model_class quant_config"),
  READ("project_job_engine.c", "dist_config.pin_memory"),
  FREE("it loads or saves", "dist_config dist_config.dcp_path dist_config.mixed_precision dist_timeout"),
  FREE(LEARNING, "learning_rate lr_scheduler_config* optim_config.* seed peft_config.*"),
  EITHER("pref_* simpo_gamma dpo_label_smoothing ld_alpha", "training from preferences (llamafactory-cli dpo)"),
  FREE("it is used when generating", "sample_backend max_new_tokens"),
  FREE(LOGS, "output_dir save_* resume_from_checkpoint logging_steps"),
  FREE("it sets how long the run is", "max_steps"),
  END,
};

// ---- torchtune --------------------------------------------------------------------------------------

static const plim_other_key torchtune[] = {
  REFUSED("kd_loss._component_", "distillation with this loss", ONLY "*ReverseKL* *SymmetricKL*"),
  REFUSED("loss._component_", "training with a loss that compares or scores answers", ONLY "*RSOLoss *SimPOLoss *IPOLoss *PPOLoss *GRPO*Loss"),
  REFUSED("reward_and_value_model.* reward_checkpointer.* value_checkpointer.* policy_model.* ppo_epochs ppo_batch_size forward_batch_size", "PPO with its reward and value models"),
  REFUSED("ref_policy_checkpointer.*", "training with a reference model"),
  REFUSED("grpo_samples num_generations inference.* orchestration.* postprocessing.* reward_functions.*", "training with generated answers"),
  REFUSED("model._component_ policy_model._component_", "a builder of a classifier", ONLY "*classifier*"),

  REFUSED("model.decoder_trainable", "training with a frozen decoder", ONLY "False"),
  REFUSED("model._component_", "training with a frozen decoder, the default without decoder_trainable,", ONLY "*.llama3_2_vision.llama3_2_vision_*", UNLESS "model.decoder_trainable=*"),

  {.keys = "quantizer._component_", .effect = PLIM_EFFECT_READ, .what = "project_job_qat.c", ONLY "*Int8DynActInt4WeightQATQuantizer* *Int4WeightOnlyQATQuantizer*"},
  MORE("quantizer._component_", "quantisation-aware training of this kind", ONLY "*QAT*", SLOWER),
  MORE("model.encoder_trainable", "training the part that sees images", OFF "frozen", SLOWER),
  // Llama 4's projection of images has adapters only with apply_lora_to_output (lora_llama4_vision_projection_head).
  MORE("model.fusion_trainable", "training the part that sees images", OFF "frozen", UNLESS "model._component_=*.llama4.*lora_* model.apply_lora_to_output=false model.fusion_trainable=lora", SLOWER),
  LESS("model._component_", "routing each token to one expert, as torchtune does,", ONLY "*.llama4.*", FASTER),
  MORE("model.apply_lora_to_mlp", "training adapters on the routed experts", ONLY "true", TOGETHER_WITH "model._component_=*.llama4.*lora_*", SLOWER),
  READ("project_job.c", "optimizer_in_bwd"),
  LESS("memory_efficient_fsdp_wrap", "sharding the embedding and the head on their own"),
  // training/_distributed.py, get_shard_conditions: the names of modules, which models with images have below "decoder".
  LESS("custom_sharded_layers.*", "sharding the embedding and the head on their own", ONLY "decoder.*"),
  READ("project_job_tune.c", "custom_sharded_layers.*"),
  EITHER("quantizer._component_ quantizer", "this way to quantise"),
  LESS("ac_mode", "recomputing the layers that ac_mode and ac_option select", ONLY "full selective", UNLESS "enable_activation_checkpointing=true", SLOWER),
  FREE("beside enable_activation_checkpointing: true, it turns all checkpoints off, as predicted", "ac_mode"),
  READ("ac_mode", "ac_option"),
  MORE("model.decoder_trainable", "training the whole decoder beside the adapters", ONLY "full", SLOWER),
  READ("project_job_tune.c: all GPUs shard, unless they replicate", "data_parallel_shard_dim"),
  READ("project_job_tune.c; other values say what the builder's name says", "model.decoder_trainable"),
  EITHER("model.vision_* model.encoder_* model.decoder_* model.fusion_* model.image_size tokenizer.image_size", "the part of the model that sees images"),
  EITHER("data_parallel_replicate_dim", "hybrid sharding (shards replicated between groups of GPUs)", OFF "1"),
  FREE("it is used with tensor_parallel_dim above 1, which is refused", "tensor_parallel_plan.*"),
  EITHER("fsdp.*", "this setting of FSDP"),
  EITHER("use_loss_parallel_ctx_manager", "the loss over shards of the vocabulary"),
  EITHER("loss.num_output_chunks", "a loss in another number of chunks", OFF "8"),
  READ("project_job_tune.c", "loss.mask_ignored_tokens"),
  MORE("optimizer.amsgrad", "the third state of AMSGrad", SLOWER),
  EITHER("optimizer.foreach optimizer.capturable optimizer.differentiable optimizer.rank optimizer.block_size", "this option of the optimizer"),
  EITHER("compile.*", "torch.compile"),
  EITHER("device", WITHOUT_CUDA, ONLY OTHER_DEVICES),
  EITHER("model.head_dim model.*_bias", "another shape of the model"),
  TIME("profiler.enabled", "profiling"),
  TIME("cudnn_deterministic_mode", "the choice of kernels"),
  EITHER("collate_fn", "this way to form batches", OFF "*padded_collate_sft *padded_collate_packed *padded_collate_tiled_images_and_mask"),

  READ("project_job.c: the second model of DPO and of distillation", "teacher_model.* teacher_checkpointer.* kd_loss.* ref_checkpointer.*"),
  FREE(LEARNING, "kd_ratio"),
  FREE("a few rows of the embedding at most", "resize_token_embeddings"),
  READ("project_shape.c, project_model.c", "model.vocab_size model.num_layers model.num_heads model.num_kv_heads model.embed_dim model.max_seq_len model.intermediate_dim checkpointer.* base_model_path model.tie_word_embeddings"),
  FREE("neither has a size", "model.attn_dropout model.norm_eps model.rope_base model.scale_factor"),
  FREE(DATA, "dataset.* datasets.* dataloader.* shuffle seed tokenizer.* prompt_template packing* concat* column"),
  FREE(LEARNING, "optimizer.* loss.* lr_scheduler.* lr_scheduler decoder_trainable label_smoothing fake_quant_after_n_steps quantizer.*"),
  FREE("it sets how long the run is", "max_steps_per_epoch"),
  FREE(LOGS, "output_dir metric_logger.* log_* profiler.* resume_from_checkpoint save_* debug_* name keep_last_n_checkpoints enable_async_checkpointing"),
  FREE(EVALUATES, "run_val_every_n_steps batch_size_val dataset_val.*"),
  FREE(ON_THE_HOST, "low_cpu_ram device num_threads"),
  FREE("it is used when generating or evaluating", "max_generated_tokens max_new_tokens temperature top_k limit tasks.* enable_kv_cache max_seq_length stop_token_ids.* prompt.* prompt chat_format instruct_template quantizer include_path"),
  FREE(WITH_RL, "gamma lmbda kl_coeff whiten_rewards reward_penalty penalise_no_eos min_response_length num_steps training.*"),
  END,
};

// ---- transformers and TRL ---------------------------------------------------------------------------

static const plim_other_key training_arguments[] = {
  READ("project_follow.c", "deepspeed fsdp_config"),
  READ("project_rules.c: a micro batch that may change is not planned", "auto_find_batch_size"),
  READ("project_job_evaluation.c", "do_train do_eval do_predict do_test do_export eval_strategy evaluation_strategy per_device_eval_batch_size per_gpu_eval_batch_size eval_accumulation_steps prediction_loss_only predict_with_generate"),
  READ("FSDP 1 is predicted as FSDP2, with a note", "fsdp_config.*limit_all_gathers fsdp_config.*backward_prefetch fsdp_config.*forward_prefetch fsdp_config.*sharding_strategy"),

  READ("project_job.c", "neftune_noise_alpha"),
  MORE("label_smoothing_factor", "label smoothing, which needs the logits again,", SLOWER),
  MORE("use_cache", "keeping keys and values for generation"),
  MORE("batch_eval_metrics include_for_metrics.*", "what evaluation keeps for metrics"),
  FREE("the argument has no size", "optim_args.eps* optim_args.beta* optim_args.lr optim_args.weight_decay"),
  READ("project_job_projection.c", "optim_target_modules optim_target_modules.* optim_args.rank optim_args.scale_type"),
  EITHER("optim_args optim_args.*", "arguments of the optimizer", OFF PROJECTIONS),
  EITHER("torchdynamo", "torch.compile"),
  EITHER("fsdp_config.*auto_wrap_policy", WRAPPED_OTHERWISE, ONLY OTHER_WRAPPING),
  LESS("accelerator_config.split_batches split_batches", SPLITS, FASTER),
  TIME("debug", "checking every result for overflows", ONLY "*underflow_overflow*"),
  EITHER("parallelism_config*", "another way to share the model"),
  EITHER("liger_kernel_config*", "a selection of Liger's kernels"),
  EITHER("jit_mode_eval use_ipex tpu_num_cores use_cpu no_cuda use_mps_device", WITHOUT_CUDA),
  EITHER("fsdp_config.*min_num_params fsdp_min_num_params", "wrapping modules by their size", OFF "0"),
  EITHER("fsdp_config.*xla*", "FSDP on a TPU"),
  EITHER("half_precision_backend fp16_backend fp16_opt_level", "half precision by Apex", ONLY "apex O2 O3"),
  TIME("ddp_find_unused_parameters", "searching for unused parameters", OF_SEVERAL),
  READ("project_job_engine.c", "accelerator_config.gradient_accumulation_kwargs.sync_each_batch"),
  TIME("full_determinism ddp_static_graph", "deterministic kernels"),
  TIME("skip_memory_metrics", "measuring memory", ONLY "false"),

  FREE(LEARNING, "learning_rate lr_scheduler_type lr_scheduler_kwargs.* warmup_* weight_decay adam_* average_tokens_across_devices seed data_seed tf32 bf16_full_eval fp16_full_eval lr"),
  FREE("it sets how long the run is", "max_steps"),
  FREE("samples are taken at the longest length", "group_by_length length_column_name train_sampling_strategy sortish_sampler"),
  FREE(DATA, "remove_unused_columns label_names ignore_data_skip"),
  FREE(LOGS, "output_dir overwrite_output_dir logging_* log_* disable_tqdm report_to.* run_name project trackio_* save_* push_to_hub* hub_* load_best_model_at_end metric_for_best_model greater_is_better resume_from_checkpoint restore_callback_states_from_checkpoint enable_jit_checkpoint include_num_input_tokens_seen include_tokens_per_second include_inputs_for_metrics debug mp_parameters past_index"),
  FREE(EVALUATES, "eval_* generation_max_length generation_num_beams generation_config"),
  FREE(ON_THE_HOST, "dataloader_* local_rank dispatch_batches"),
  FREE(STARTS, "ddp_backend ddp_timeout xpu_backend ray_scope"),
  FREE("buckets of DDP differ by a few MiB", "ddp_bucket_cap_mb ddp_broadcast_buffers"),
  FREE("it only matters with the key that turns the feature on", "gradient_checkpointing_kwargs.* activation_checkpointing_kwargs.* accelerator_config.* skip_memory_metrics"),
  FREE("FSDP: how it wraps, loads and saves", "fsdp_transformer_layer_cls_to_wrap fsdp_config.*cls_to_wrap* fsdp_config.*cls_names_to_wrap* fsdp_config.*auto_wrap_policy fsdp_config.*cpu_ram_efficient_loading fsdp_config.*state_dict_type fsdp_config.*sync_module_states fsdp_config.*use_orig_params"),
  END,
};

// SFTConfig, and the arguments that TRL's trainers share.
static const plim_other_key sft_config[] = {
  MORE("router_aux_loss_coef", "the router's logits and their loss", SLOWER),
  LESS("padding_free", "a batch without padding", FASTER),
  EITHER("pad_to_multiple_of", "padding to a multiple", OFF "1 2 4 8 16 32 64 128"),
  FREE(DATA, "dataset_* chat_template* eos_token pad_token truncation_mode shuffle_dataset packing_strategy eval_packing completion_only_loss assistant_only_loss test_split_size num_of_sequences chars_per_token append_concat_token add_special_tokens skip_prepare_dataset dataset_kwargs* formatting_func remove_unused_columns"),
  FREE("it loads and names the model", "model_init_kwargs model_init_kwargs.revision model_init_kwargs.trust_remote_code model_init_kwargs.use_cache model_init_kwargs.cache_dir model_init_kwargs.token model_init_kwargs.low_cpu_mem_usage model_init_kwargs.attn_implementation model_init_kwargs.*dtype trust_remote_code"),
  EITHER("model_init_kwargs.*", "this argument of from_pretrained"),
  MORE("loss_type", "this loss, which needs probabilities of all tokens,", ONLY "dft", SLOWER),
  MORE("ld_alpha", "a second sum over the common part of both answers", SLOWER),
  FREE(WITH_RL, "beta max_prompt_length max_completion_length max_target_length label_smoothing loss_weights f_divergence_type f_alpha_divergence_coef use_weighting discopop_tau disable_dropout precompute_ref_* sync_ref_model ref_model_* reference_free rpo_alpha desirable_weight undesirable_weight center_rewards_coefficient simpo_gamma cpo_alpha num_generations temperature top_p top_k min_p repetition_penalty use_vllm vllm_* reward_* scale_rewards epsilon* num_iterations log_completions num_completions_to_print mask_truncated_completions steps_per_generation generation_batch_size generation_kwargs* cache_implementation delta importance_sampling_level ds3_gather_for_generation shuffle_dataset sft_alpha lmbda teacher_model* num_ppo_epochs num_mini_batches cliprange* vf_coef gamma lam whiten_rewards kl_coef entropy_* vespo_* sapo_* use_transformers_* transformers_* num_generations_eval off_policy_* use_bias_* cast_lm_head_to_fp32 multi_objective_* top_entropy_* max_tool_* normalize_advantages use_adaptive_entropy"),
  END,
};

// Keys that only the configurations of other methods have (DPOConfig, KTOConfig, GRPOConfig).
static const plim_other_key preference[] = {
  REFUSED("loss_type", "training with a loss that scores generated answers", ONLY "grpo dr_grpo dapo bnpo cispo sapo"),
  MORE("loss_type", "this loss, which needs probabilities of all tokens,", ONLY "dft", SLOWER),
  FREE(WITH_RL, "loss_type base_model_attribute_name model_adapter_name ref_adapter_name label_pad_token_id padding_value is_encoder_decoder"),
  MORE("force_use_ref_model", "a reference model beside the adapters", SLOWER),
  MORE("generate_during_eval", "generating answers during evaluation"),
  MORE("rpo_alpha", "the additional loss of the chosen answers", OFF "0", SLOWER),
  MORE("use_weighting", "weighting pairs by their probabilities", SLOWER),
  LESS("use_logits_to_keep", "keeping only the logits of the answers", FASTER),
  READ("project_job.c", "use_liger_loss"),
  REFUSED("num_generations max_completion_length reward_funcs.* reward_model_path num_ppo_epochs use_vllm vllm_mode", "training with generated answers"),
  REFUSED("teacher_model_name_or_path teacher_model_init_kwargs teacher_model", "distillation from a second model"),
  END,
};

// TRL's ModelConfig and the arguments of its scripts, of alignment-handbook and of transformers' examples.
static const plim_other_key script_arguments[] = {
  REFUSED("lora_task_type", "an adapter for this task", ONLY "SEQ_CLS TOKEN_CLS QUESTION_ANS"),
  MORE("lora_target_parameters.*", "an adapter on these parameters", SLOWER),
  EITHER("config_overrides", "another configuration of the model"),
  READ("which 4-bit weights FSDP shards, project_job_ecosystem.c", "bnb_4bit_quant_storage autocast_adapter_dtype"),
  READ("how the model is loaded, project_hydra.c", "device_map low_cpu_mem_usage config_name config_path config_dir"),
  FREE("it loads and names the model", "model_revision trust_remote_code tokenizer_name tokenizer_name_or_path base_model_revision use_fast_tokenizer cache_dir token use_auth_token model_type bnb_4bit_quant_type bnb_4bit_compute_dtype use_rslora lora_task_type model_code_revision torch_dtype"),
  FREE(DATA, "dataset dataset_* datasets.* dataset_mixer* dataset_mixture* dataset_splits* streaming train_file validation_file test_file train_dir validation_dir overwrite_cache validation_split_percentage preprocessing_num_workers max_train_samples max_eval_samples max_predict_samples pad_to_max_length line_by_line mlm_probability keep_linebreaks source_lang target_lang source_prefix text_column summary_column task_name ignore_bias_buffers ignore_pad_token_for_loss auto_insert_empty_system_msg chat_template text_column_name label_column_name return_entity_level_metrics version_2_with_negative doc_stride max_answer_length n_best_size null_score_diff_threshold fraction"),
  READ("project_job_ecosystem.c", "max_target_length"),
  READ("peft's examples: a rank turns adapters on", "use_peft_lora"),
  READ("which 4-bit weights FSDP shards, project_job_ecosystem.c", "bnb_4bit_quant_storage_dtype"),
  FREE("a negation of a key without effect", "no_remove_unused_columns"),
  FREE(DATA, "context_column question_column answer_column shuffle_train_dataset shuffle_seed remove_splits remove_columns metric_name text_column_name* text_column_delimiter *_split_name label_all_tokens do_regression splits chat_template_format add_special_tokens append_concat_token"),
  FREE(LOGS, "hub_* with_tracking checkpointing_steps gradient_checkpointing_kwargs sanity_check log_* with_* project*"),
  FREE(EVALUATES, "num_beams val_max_target_length resize_position_embeddings forced_bos_token"),
  END,
};

// get_peft_model(model, config).
static const plim_other_key peft_model[] = {
  READ("project_job_ecosystem.c, the knobs", "autocast_adapter_dtype model peft_config"),
  EITHER("mixed", "several adapters at once"),
  LESS("low_cpu_mem_usage", "adapters without values"),
  FREE("it names the adapter", "adapter_name revision"),
  END,
};

static const plim_other_key lora_config[] = {
  MORE("target_parameters.*", "an adapter on these parameters", SLOWER),
  MORE("trainable_token_indices.*", "training these rows of the embedding", SLOWER),
  MORE("layer_replication.*", "replicating layers", SLOWER),
  MORE("bias", "training the biases", ONLY "all lora_only", SLOWER),
  MORE("lora_bias use_qalora use_bdlora alora_invocation_tokens* velora_config* monteclora_config* arrow_config* kasa_config*", "this variant of LoRA", SLOWER),
  LESS("layers_pattern", "an adapter on some layers only", FASTER),
  LESS("inference_mode", "adapters that are not trained", FASTER),
  EITHER("ensure_weight_tying", "tied copies of the embedding and the head"),
  EITHER("rank_pattern.*", "a rank of its own for some layers"),
  EITHER("megatron_config* runtime_config* ephemeral_gpu_offload", "this way to run the adapters"),
  START("init_lora_weights", DECOMPOSES, ONLY DECOMPOSITIONS),
  START("eva_config* corda_config* loftq_config* lora_ga_config*", DECOMPOSES),
  FREE("adapters have the same size however they start", "init_lora_weights qalora_group_size"),
  FREE(LEARNING, "use_rslora alpha_pattern* fan_in_fan_out task_type bias inference_mode base_model_name_or_path revision auto_mapping peft_type megatron_core peft_version"),
  END,
};

// from_pretrained of a model.
static const plim_other_key loading[] = {
  EITHER("quantization_config", "this way to quantise", ONLY "*GPTQ* *AWQ* *Hqq* *HQQ* *Eetq* *Aqlm* *Quanto* *TorchAo* *FineGrainedFP8* *Mxfp4* *FP8*"),
  EITHER("tp_plan tp_size device_mesh distributed_config", "splitting layers over GPUs"),
  EITHER("use_kernels kernel_config experts_implementation fusion_config gguf_file", "this choice of kernels"),
  EITHER("max_memory* offload_buffers offload_state_dict", "this limit on where the model is placed"),
  READ("project_loads.c, project_job_engine.c", "quantization_config.* device_map.* low_cpu_mem_usage pretrained_model_name_or_path config"),
  EITHER("problem_type", "the loss of several labels per text, which differs from cross entropy by a few numbers,", ONLY "multi_label_classification"),
  READ("project_unmodelled.c", "num_labels"),
  FREE("it loads and names the model", "trust_remote_code revision token use_auth_token cache_dir local_files_only force_download resume_download use_safetensors variant subfolder weights_only ignore_mismatched_sizes proxies state_dict output_loading_info adapter_* generation_config key_mapping offload_folder id2label* label2id* problem_type finetuning_task code_revision disable_mmap attn_implementation from_tf from_flax use_cache rope_scaling* pad_token_id bos_token_id eos_token_id mirror return_dict tqdm_class tokenizer_* model_kwargs config_kwargs backend similarity_fn_name prompts* truncate_dim model_card_data default_prompt_name"),
  FREE("it loads and names the model", "model_kwargs.trust_remote_code model_kwargs.revision model_kwargs.token model_kwargs.attn_implementation model_kwargs.*dtype"),
  EITHER("model_kwargs.* config_kwargs.*", "this argument of from_pretrained"),
  EITHER("*_dropout *dropout* layerdrop* mask_time* ctc_* vocab_size num_hidden_layers", "another configuration of the model"),
  END,
};

static const plim_other_key quantization_config[] = {
  LESS("llm_int8_enable_fp32_cpu_offload", "keeping layers on the host", SLOWER),
  EITHER("llm_int8_skip_modules.* llm_int8_threshold llm_int8_has_fp16_weight", "this option of 8-bit weights", OFF "6.0 6"),
  READ("which 4-bit weights FSDP shards, project_job_ecosystem.c", "bnb_4bit_quant_storage"),
  FREE("the same memory", "bnb_4bit_quant_type bnb_4bit_compute_dtype"),
  END,
};

// Trainer(...) and SFTTrainer(...).
static const plim_other_key trainer_arguments[] = {
  READ("project_job_evaluation.c", "compute_metrics preprocess_logits_for_metrics"),
  EITHER("optimizers optimizer_cls_and_kwargs", "an optimizer that the script makes itself"),
  EITHER("compute_loss_func", "a loss of its own"),
  READ("the knobs and other calls", "model args peft_config data_collator formatting_func max_seq_length packing loss max_length ref_model"),
  FREE(DATA, "train_dataset eval_dataset tokenizer processing_class dataset_* model_init callbacks.* data_collator evaluator* train_dataloader num_of_sequences chars_per_token infinite model_init_kwargs* compute_metrics reward_funcs* reward_processing_classes*"),
  END,
};

static const plim_other_key accelerator[] = {
  EITHER("fsdp_plugin deepspeed_plugin megatron_lm_plugin parallelism_config kwargs_handlers*", "a plugin that the script makes itself"),
  EITHER("dynamo_backend dynamo_plugin", "torch.compile", OFF "no"),
  EITHER("gradient_accumulation_plugin", "the accumulation that this plugin sets (give it with --accumulate)"),
  EITHER("cpu", WITHOUT_CUDA),
  LESS("split_batches", SPLITS, FASTER),
  FREE(LOGS, "log_with project_dir project_config step_scheduler_with_optimizer even_batches rng_types dispatch_batches device_placement dataloader_config mixed_precision gradient_accumulation_steps"),
  END,
};

static const plim_other_key unsloth[] = {
  MORE("finetune_vision_layers", "training the part of the model that sees images", SLOWER),
  LESS("finetune_language_layers finetune_attention_modules finetune_mlp_modules", "training a part of the layers only", ONLY "false", FASTER),
  LESS("layers_pattern", "an adapter on some layers only", FASTER),
  MORE("fast_inference gpu_memory_utilization max_lora_rank float8_kv_cache", "the inference engine beside the training", OFF "16 32 64 128"),
  MORE("bias", "training the biases", ONLY "all lora_only", SLOWER),
  MORE("return_logits", "logits that are returned beside the loss"),
  EITHER("float32_mixed_precision", "trained parameters of another type"),
  START("init_lora_weights", DECOMPOSES, ONLY DECOMPOSITIONS),
  START("loftq_config*", DECOMPOSES),
  EITHER("load_in_fp8 offload_embedding tiled_mlp unsloth_tiled_mlp qat_scheme", "this option of Unsloth"),
  READ("the knobs", "model dtype full_finetuning r peft_config"),
  FREE(LEARNING, "random_state use_rslora init_lora_weights use_exact_model_name use_gradient_checkpointing rope_scaling fix_tokenizer trust_remote_code token device_map max_seq_length task_type target_modules* attn_implementation revision disable_log_stats auto_model* tokenizer_name whisper_* temporary_location autotune"),
  END,
};

// ---- how a run is started: accelerate, DeepSpeed, launchers -----------------------------------------

static const plim_other_key accelerate[] = {
  READ("project_follow.c, project_job_engine.c", "deepspeed_config.deepspeed_config_file deepspeed_config.zero3_init_flag gpu_ids"),
  READ("FSDP 1 is predicted as FSDP2, with a note", "fsdp_config.fsdp_backward_prefetch* fsdp_config.fsdp_forward_prefetch fsdp_config.fsdp_limit_all_gathers"),
  READ("project_unmodelled.c", "parallelism_config.*"),
  EITHER("fsdp_config.fsdp_min_num_params", "wrapping modules by their size", OFF "0 100000000"),
  LESS("fsdp_config.fsdp_activation_checkpointing_offload", "keeping checkpoints on the host", SLOWER),
  EITHER("megatron_lm_config.*", "Megatron-LM by accelerate"),
  LESS("kt_config.*", "KTransformers, which keeps experts on the host,", SLOWER),
  EITHER("use_cpu ipex_config.* mpirun_config.* tpu_name tpu_zone tpu_vm*", WITHOUT_CUDA),
  EITHER("deepspeed_config.deepspeed_moe_layer_cls_names", "layers that ZeRO-3 keeps whole"),
  EITHER("deepspeed_config.deepspeed_*clusion_filter", "a choice of GPUs (give their number with --world)"),
  MORE("fsdp_config.fsdp_ignored_modules", "modules that FSDP does not shard"),
  EITHER("fsdp_config.fsdp_auto_wrap_policy", WRAPPED_OTHERWISE, ONLY OTHER_WRAPPING),
  FREE("FSDP and ZeRO: how they wrap, load and save", "fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_transformer_layer_cls_to_wrap fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_state_dict_type fsdp_config.fsdp_sync_module_states fsdp_config.fsdp_use_orig_params deepspeed_config.zero3_save_16bit_model deepspeed_config.offload_*nvme_path"),
  FREE(STARTS, "compute_environment debug machine_rank main_process_* main_training_function rdzv_* same_network downcast_bf16 tpu_* command_file commands* enable_cpu_affinity deepspeed_config.deepspeed_hostfile deepspeed_config.deepspeed_multinode_launcher fsdp_config deepspeed_config dynamo_config* ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version transformers_version py_version sagemaker_* additional_args*"),
  FREE("with fp8, which has a note of its own", "fp8_config.*"),
  END,
};

static const plim_other_key deepspeed[] = {
  READ("project_job_engine.c", "zero_optimization.reduce_bucket_size zero_optimization.sub_group_size zero_optimization.overlap_comm zero_optimization.offload_*.pin_memory"),
  // Either name of a field of zero/config.py that has an alias.
  READ("project_job_engine.c", "zero_optimization.stage3_prefetch_bucket_size zero_optimization.prefetch_bucket_size zero_optimization.stage3_max_live_parameters zero_optimization.max_live_parameters zero_optimization.stage3_max_reuse_distance zero_optimization.max_reuse_distance zero_optimization.stage3_param_persistence_threshold zero_optimization.param_persistence_threshold"),
  MORE("zero_optimization.zero_hpz_partition_size", "a second shard of the weights", OFF "1"),
  LESS("bf16.bf16_master_weights_and_grads fp16.fp16_master_weights_and_grads bf16.bf16_optimizer_states bf16.immediate_grad_update", "optimizer states in 16 bits"),
  LESS("zero_optimization.zero_quantized_*", "quantised communication", EITHER_WAY),
  EITHER("zero_optimization.zenflow.* zero_optimization.offload_optimizer.super_offload zero_optimization.offload_optimizer.ratio zero_optimization.leaf_module*", "this option of ZeRO", OFF "1 1.0"),
  EITHER("zero_optimization.mics_* zero_optimization.stage3_allgather_sequential zero_optimization.allgather_sequential", "this option of ZeRO", OFF "-1"),
  EITHER("activation_checkpointing.partition_activations activation_checkpointing.cpu_checkpointing activation_checkpointing.contiguous_memory_optimization", "DeepSpeed's own checkpointing, which only models that call it use"),
  EITHER("elasticity.enabled autotuning.enabled", "a batch that DeepSpeed chooses itself"),
  EITHER("zero_optimization.contiguous_gradients zero_optimization.reduce_scatter zero_optimization.memory_efficient_linear", "this option of ZeRO", ONLY "false"),
  EITHER("communication_data_type", "communication in float32", ONLY "fp32 float32"),
  EITHER("graph_harvesting", "CUDA graphs"),
  TIME("flops_profiler.enabled wall_clock_breakdown", "profiling"),
  EITHER("data_types.grad_accum_dtype grad_accum_dtype", "gradients of this type"),
  EITHER("zero_optimization.stage3_model_persistence_threshold zero_optimization.model_persistence_threshold zero_optimization.parameter_alignment zero_optimization.save_muon_momentum_buffer_in_memory managed_gradient_accumulation use_data_before_expert_parallelism", "this option of ZeRO"),
  EITHER("compile.* deepcompile", "DeepCompile"),
  EITHER("pipeline.* tensor_parallel.* autotp* sequence_parallel_size", "splitting layers over GPUs"),
  EITHER("compression_training.* data_efficiency.* curriculum_learning.* progressive_layer_drop.* sparse_attention.* sparse_gradients quantize_training.* hybrid_engine.* eigenvalue.* amp.enabled", "this option of DeepSpeed"),
  FREE(ON_THE_HOST, "zero_optimization.offload_optimizer.nvme_path zero_optimization.offload_optimizer.buffer_count zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_optimizer.pipeline_read zero_optimization.offload_optimizer.pipeline_write zero_optimization.offload_optimizer.fast_init zero_optimization.offload_optimizer.ratio zero_optimization.offload_optimizer.super_offload zero_optimization.offload_optimizer.cpuadam_cores_perc zero_optimization.offload_param.nvme_path zero_optimization.offload_param.buffer_count zero_optimization.offload_param.buffer_size zero_optimization.offload_param.max_in_cpu zero_optimization.offload_param.pin_memory aio.* nebula.* checkpoint.* zero_force_ds_cpu_optimizer"),
  FREE("it changes the time of communication by little", "zero_optimization.allgather_partitions zero_optimization.allgather_bucket_size zero_optimization.reduce_scatter zero_optimization.contiguous_gradients zero_optimization.round_robin_gradients zero_optimization.use_multi_rank_bucket_allreduce zero_optimization.stage3_module_granularity_threshold zero_optimization.module_granularity_threshold zero_optimization.stage3_use_all_reduce_for_fetch_params zero_optimization.use_all_reduce_for_fetch_params zero_optimization.compute_grad_norm gradient_allreduce_op communication_data_type gradient_predivide_factor prescale_gradients disable_allgather seq_parallel_communication_data_type"),
  FREE("it saves, loads or checks", "zero_optimization.stage3_gather_16bit_weights_on_model_save zero_optimization.gather_16bit_weights_on_model_save zero_optimization.stage3_gather_fp16_weights_on_model_save zero_optimization.load_from_fp32_weights zero_optimization.elastic_checkpoint zero_optimization.ignore_unused_parameters zero_optimization.legacy_stage1 zero_optimization.memory_efficient_linear zero_optimization.pipeline_loading_checkpoint zero_optimization.override_module_apply zero_optimization.log_trace_cache_warnings zero_optimization.enable_sanity_checks zero_optimization.cpu_offload_use_pin_memory"),
  FREE(LEARNING, "optimizer.* scheduler.* fp16.* bf16.* zero_allow_untested_optimizer torch_autocast.* amp.*"),
  // comm/config.py and monitor/config.py read comms_logger, tensorboard and the others at the top.
  FREE("DeepSpeed reads no such section", "comms_config* monitor_config*"),
  FREE(LOGS, "steps_per_print wall_clock_breakdown memory_breakdown dump_state tensorboard.* wandb.* comet.* csv_monitor.* comms_logger.* flops_profiler.* autotuning.* activation_checkpointing.* comment* _comment* dataloader_drop_last elasticity.* disable_python_gc graph_harvesting"),
  END,
};

static const plim_other_key fsdp_file[] = {
  READ("FSDP 1 is predicted as FSDP2, with a note", "*backward_prefetch *forward_prefetch *limit_all_gathers *sharding_strategy"),
  EITHER("*min_num_params", "wrapping modules by their size", OFF "0"),
  EITHER("*auto_wrap_policy", WRAPPED_OTHERWISE, ONLY OTHER_WRAPPING),
  EITHER("xla*", "FSDP on a TPU"),
  FREE("FSDP: how it wraps, loads and saves", "*auto_wrap_policy *cls_to_wrap* *cls_names_to_wrap* *cpu_ram_efficient_loading *state_dict_type *sync_module_states *use_orig_params"),
  END,
};

const plim_other_key plim_launcher_keys[] = {
  READ("project_follow.c and the files it reads", "config_file config deepspeed use_deepspeed use_fsdp zero_stage offload_*_device deepspeed_config_file zero3_init_flag fsdp_* parallelism_config_* multi_gpu include hostfile gpu_ids"),
  EITHER("use_megatron_lm megatron_lm_*", "Megatron-LM by accelerate"),
  EITHER("use_cpu cpu tpu ipex mps", WITHOUT_CUDA),
  EITHER("dynamo_*", "torch.compile", OFF "no"),
  EITHER("deepspeed_moe_layer_cls_names", "layers that ZeRO-3 keeps whole"),
  EITHER("exclude deepspeed_*clusion_filter", "a choice of GPUs (give their number with --world)"),
  FREE("with fp8, which has a note of its own", "fp8_*"),
  READ("project_unmodelled.c", "use_parallelism_config"),
  FREE(STARTS, "no_tpu_cluster vm offload_*_nvme_path aws_* mpirun_* machine_rank main_process_* main_training_function master_* node_rank rdzv_* rdzv* standalone max_restarts monitor_interval start_method role log_dir redirects r tee t local_addr module m no_python no_local_rank num_cpu_threads_per_process same_network deepspeed_hostfile deepspeed_multinode_launcher launcher launcher_args force_multi save_pid enable_each_rank_log bind_* quiet q debug tpu_* env downcast_bf16 numa_binding enable_cpu_affinity local_ranks_filter ssh_port no_ssh* venv_script autotuning run_path signals_to_handle virtual_local_rank event_log_handler logs_specs duplicate_*_filters zero3_save_16bit_model gradient_clipping rdzv_id job* nodes ntasks* gres gpus* cpus* time mem* partition account exclusive qos mail*"),
  END,
};

// ---- Lightning --------------------------------------------------------------------------------------

static const plim_other_key lightning_trainer[] = {
  MORE("callbacks.*", "a second copy of the weights for their average", ONLY "*WeightAverag* *EMA*", SLOWER),
  EITHER("callbacks.*", "a batch or an accumulation that a callback changes", ONLY "*BatchSizeFinder* *GradientAccumulationScheduler*"),
  MORE("detect_anomaly", "anomaly detection", SLOWER),
  EITHER("plugins.*", "plugins of the Trainer"),
  EITHER("sync_batchnorm", "synchronised batch norms"),
  EITHER("accelerator", WITHOUT_CUDA, ONLY "cpu tpu mps hpu"),
  EITHER("strategy.init_args.* strategy.*", "this option of the strategy"),
  TIME("deterministic benchmark", "the choice of kernels"),
  TIME("profiler.*", "profiling"),
  READ("the knobs", "strategy.class_path precision strategy devices num_nodes max_epochs gradient_clip_val"),
  FREE(LOGS, "logger.* callbacks.* log_every_n_steps enable_* default_root_dir fast_dev_run barebones model_registry weights_save_path weights_summary checkpoint_callback progress_bar_refresh_rate"),
  FREE("it sets how long the run is", "max_steps min_steps min_epochs max_time limit_* overfit_batches"),
  FREE(EVALUATES, "val_check_interval check_val_every_n_epoch num_sanity_val_steps inference_mode"),
  FREE(DATA, "use_distributed_sampler replace_sampler_ddp reload_dataloaders_every_n_epochs accelerator gradient_clip_algorithm"),
  END,
};

static const plim_other_key lightning_file[] = {
  MORE("trainer.callbacks.*", "a second copy of the weights for their average", ONLY "*WeightAverag* *EMA*", SLOWER),
  EITHER("trainer.callbacks.*", "a batch or an accumulation that a callback changes", ONLY "*BatchSizeFinder* *GradientAccumulationScheduler*"),
  MORE("trainer.detect_anomaly", "anomaly detection", SLOWER),
  EITHER("trainer.plugins trainer.plugins.*", "plugins of the Trainer"),
  EITHER("trainer.sync_batchnorm", "synchronised batch norms"),
  EITHER("trainer.accelerator", WITHOUT_CUDA, ONLY "cpu tpu mps hpu"),
  READ("the knobs, project_model.c", "trainer.strategy.class_path model.* data.* model data optimizer.* dtype"),
  EITHER("trainer.strategy.*", "this option of the strategy"),
  TIME("trainer.deterministic trainer.benchmark", "the choice of kernels"),
  TIME("trainer.profiler trainer.profiler.*", "profiling"),
  FREE("it logs, or sets how long the run is", "trainer trainer._target_ trainer.logger* trainer.callbacks* trainer.log_every_n_steps trainer.enable_* trainer.default_root_dir trainer.fast_dev_run trainer.barebones trainer.max_steps trainer.min_steps trainer.min_epochs trainer.max_time trainer.limit_* trainer.overfit_batches trainer.val_check_interval trainer.check_val_every_n_epoch trainer.num_sanity_val_steps trainer.inference_mode trainer.use_distributed_sampler trainer.reload_dataloaders_every_n_epochs trainer.accelerator trainer.gradient_clip_algorithm trainer.weights_summary trainer.progress_bar_refresh_rate trainer.checkpoint_callback trainer.strategy trainer.replace_sampler_ddp trainer.gpus trainer.terminate_on_nan trainer.profiler"),
  FREE(LEARNING, "seed_everything lr_scheduler* ckpt_path verbose seed lr learning_rate weight_decay betas* warmup*"),
  FREE(LOGS, "hydra.* defaults.* logger.* callbacks.* experiment* output_dir log_dir paths.* wandb.* name project task_name tags* train test"),
  END,
};

// ---- those with a global batch ----------------------------------------------------------------------

static const plim_other_key megatron[] = {
  REFUSED("perform_rl_step", "training with generated answers"),
  REFUSED("vision_pretraining", "pre-training on images"),
  REFUSED("logits_load_dir", "distillation from stored logits"),
  READ("project_megatron.c", "num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups group_query_attention kv_channels max_position_embeddings vocab_size make_vocab_size_divisible_by padded_vocab_size swiglu normalization disable_bias_linear add_qkv_bias untie_embeddings_and_output_weights position_embedding_type use_rotary_position_embeddings rotary_base rotary_percent qk_layernorm tokenizer_type num_experts moe_* multi_latent_attention mtp_num_layers is_hybrid_model hybrid_* squared_relu window_size heterogeneous_layers_config_path use_checkpoint_args pipeline_model_parallel_size expert_model_parallel_size sequence_parallel vocab_file merge_file tokenizer_model recompute_* distribute_saved_activations openai_gelu quick_geglu"),
  READ("project_megatron.c", "hidden_dropout attention_dropout"),
  LESS("main_params_dtype main_grads_dtype exp_avg_dtype exp_avg_sq_dtype", "optimizer states of this type", ONLY "fp16 bf16 fp8"),
  EITHER("transformer_impl", "this choice of layers", OFF "transformer_engine local"),
  EITHER("overlap_* tp_comm_* delay_wgrad_compute cpu_offloading* offload_*", "overlapping communication"),
  EITHER("fp8_* fp4_* first_last_layers_bf16", "fp8"),
  EITHER("cross_entropy_loss_fusion cross_entropy_fusion_impl no_*_fusion masked_softmax_fusion bias_*_fusion apply_rope_fusion", "this choice of fused kernels"),
  EITHER("num_layers_per_virtual_pipeline_stage virtual_pipeline_model_parallel_size", "pipeline parallelism"),
  EITHER("enable_cuda_graph cuda_graph_*", "CUDA graphs"),
  FREE(LEARNING, "lr lr_* min_lr weight_decay* adam_* sgd_momentum init_method_std seed clip_grad loss_scale initial_loss_scale min_loss_scale hysteresis norm_epsilon layernorm_epsilon rotary_* use_rope_scaling rope_scaling_factor rampup_batch_size override_opt_param_scheduler start_weight_decay end_weight_decay muon_*"),
  FREE(DATA, "data_path split data_* train_data_path valid_data_path test_data_path *_samples num_dataset_builder_threads reset_* eod_mask_loss dataloader_type mock_data no_create_attention_mask* no_mmap_* create_attention_mask* tiktoken_* legacy_tokenizer"),
  FREE("it sets how long the run is", "train_iters exit_*"),
  FREE(EVALUATES, "eval_*"),
  FREE(LOGS, "log_* save save_* load load_* no_load_* no_save_* tensorboard_* wandb_* timing_log_* ckpt_* use_dist_ckpt* dist_ckpt_* auto_detect_ckpt_format finetune pretrained_checkpoint async_save profile* use_pytorch_profiler non_persistent_* use_mcore_models"),
  MORE("torch_fsdp2_no_reshard_after_forward", "keeping the gathered weights until the backward pass", FASTER),
  MORE("use_nccl_ub gtp_*nccl_ub keep_fp8_transpose_cache attention_softmax_in_fp32", "the buffers of this option"),
  LESS("use_precision_aware_optimizer grad_reduce_in_bf16 fp16_lm_cross_entropy", "16 bits instead of float32"),
  LESS("freeze_all_layers", "freezing the layers", FASTER),
  EITHER("optimizer_offload_fraction", "a part of the optimizer on the host", OFF "1 1.0"),
  EITHER("megatron_fsdp_* outer_dp_sharding_strategy enable_full_sharding_in_hsdp num_distributed_optimizer_instances gtp_* suggested_communication_unit_size", "this option of Megatron's sharding", OFF "1"),
  EITHER("decoder_*_pipeline_num_layers pipeline_model_parallel_layout num_virtual_stages_per_pipeline_rank model_parallel_size", "pipeline parallelism", OFF "1"),
  EITHER("linear_attention_freq heterogeneous_layers_config_encoded_json mamba_* spec encoder_num_layers decoder_num_layers decoder_seq_length encoder_seq_length window_attn_skip_freq", "another kind of layer"),
  EITHER("te_precision_config_file kitchen_* output_logit_dtype optimizer_cuda_graph reuse_grad_buf_for_mxfp8_param_ag mla_down_proj_fusion checkpoint_activations batch_size yaml_cfg", "this option of Megatron"),
  READ("gradients are taken as float32; multi-latent attention is refused", "accumulate_allreduce_grads_in_fp32 kv_lora_rank q_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim cache_mla_latents"),
  FREE("the usual type", "main_params_dtype main_grads_dtype exp_avg_dtype exp_avg_sq_dtype"),
  FREE("the positions have no size of their own", "mscale* yarn_* no_yarn_* rope_type no_rope_freq no_position_embedding relative_attention_* cp_comm_type"),
  FREE(LEARNING, "lion_* decoupled_* apply_wd_to_qk_layernorm no_weight_decay_cond_type head_lr_mult init_method_xavier_uniform loss_scale_window warmup check_for_large_grads no_check_for_nan_in_loss_and_grad use_same_sampling_seed_across_dp_ranks sft*"),
  FREE(DATA, "fim_* dataloader_* short_seq_prob allow_ambiguous_pad_tokens mid_level_dataset_surplus per_*_path no_data_sharding phase_transition_iterations object_storage_cache_path *msc mask_* sample_rate"),
  FREE("buckets of DDP differ by a few MiB", "ddp_* no_align_param_gather no_use_layer_wise_param_layout no_overlap_p2p_communication create_all_gather_group disable_symmetric_registration no_persist_layer_norm"),
  FREE("it belongs to another program of Megatron", "rl_* grpo_* inference_* dino_* ict_* bert_* biencoder_* retriever_* indexer_* img_* swin_* vision_* num_channels num_classes classes_fraction patch_dim iter_per_epoch block_data_path embedding_path evidence_data_path titles_data_path query_in_block_prob use_one_sent_docs output_bert_embeddings logits_* langrl_* refit_method enable_chunked_prefill decode_only_cuda_graphs num_speculative_tokens max_tokens_to_oom use_legacy_static_engine use_torch_optimizer_for_cpu_offload onnx_safe"),
  FREE(LOGS, "adlr_* app_tag_* calc_ft_* ft_* enable_ft_package enable_experimental inprocess_* one_logger_* no_one_logger otel_* result_rejected_tracker_filename run_workload_inspector_server override_ckpt_iteration dump_param_* fake_process_group no_pin_cpu_*"),
  FREE(STARTS, "distributed_backend distributed_timeout_minutes local_rank use_tp_pp_dp_mapping lazy_mpu_init manual_gc* account_for_* nccl_*"),
  END,
};

// Configurations in which a section decides what a key is about.
static const plim_other_key megatron_bridge[] = {
  READ("project_megatron.c", "model model._target_ model.num_* model.hidden_size model.ffn_hidden_size model.vocab_size model.seq_length model.*_parallel* model.kv_channels model.recompute_* model.make_vocab_size_divisible_by model.share_embeddings_and_output_weights model.position_embedding_type model.rotary_* model.gated_linear_unit model.normalization model.add_bias_linear model.add_qkv_bias model.qk_layernorm model.*dropout"),
  EITHER("comm_overlap.* peft.target_modules* peft.exclude_modules* peft._target_ optimizer.*_dtype optimizer.optimizer optimizer.use_precision_aware_optimizer optimizer.optimizer_cpu_offload optimizer.*offload*", "this option of Megatron", OFF "adam"),
  EITHER("ddp.use_distributed_optimizer ddp.use_megatron_fsdp ddp.use_custom_fsdp ddp.data_parallel_sharding_strategy ddp.grad_reduce_in_fp32 ddp.num_distributed_optimizer_instances", "this option of Megatron's sharding", OFF "1 no_shard"),
  EITHER("model.fp8* model.fp4* model.cpu_offloading* model.*overlap* model.moe_* model.enable_cuda_graph model.cuda_graph_* model.transformer_impl model.cross_entropy_* model.*_fusion", "this option of Megatron", OFF "transformer_engine"),
  EITHER("dataset.packed_sequence*", "packing by Megatron"),
  EITHER("train.empty_unused_memory_level", "emptying the cache"),
  TIME("profiling.use_*", "profiling"),
  FREE(DATA, "dataset.* tokenizer.*"),
  FREE(LEARNING, "optimizer optimizer.lr optimizer.min_lr optimizer.weight_decay optimizer.adam_* optimizer.sgd_momentum optimizer.clip_grad optimizer.*loss_scale* optimizer.hysteresis optimizer.bf16 optimizer.fp16 optimizer.params_dtype optimizer.overlap_* optimizer._target_ optimizer.decoupled_* optimizer.start_weight_decay optimizer.end_weight_decay optimizer.barrier_with_L1_time optimizer.log_num_zeros_in_grad scheduler.* rng.* model.init_method_std model.*epsilon model.seed model.rampup*"),
  FREE("buckets of DDP differ by a few MiB", "ddp ddp._target_ ddp.overlap_* ddp.bucket_size ddp.average_in_collective ddp.check_for_* ddp.align_param_gather ddp.pad_* ddp.*_buffers_*"),
  FREE("it logs, saves or sets how long the run is", "train train.train_iters train.train_samples train.eval_* train.exit_* train.manual_gc* train.check_weight_hash* train.train_sync_interval train.skip_train train.rampup_batch_size train.iterations_to_skip* train.decrease_batch_size_if_needed train._target_ logger.* checkpoint.* dist.* profiling.* validation.* rerun_state_machine.* peft peft.*dropout* peft.lora_* peft.network_alpha peft.a2a_*"),
  END,
};

static const plim_other_key nemo[] = {
  READ("project_megatron.c", "model model.num_* model.hidden_size model.ffn_hidden_size model.encoder_seq_length model.max_position_embeddings model.restore_from_path model.*_parallel* model.mcore_gpt model.megatron_amp_O2 model.peft.peft_scheme model.kv_channels model.*dropout model.normalization model.activation model.bias model.position_embedding_type model.rotary_percentage model.share_embeddings_and_output_weights model.make_vocab_size_divisible_by model.init_method_std"),
  EITHER("model.activations_checkpoint_*", "this kind of checkpointing", ONLY "block"),
  EITHER("model.fsdp_* model.fp8* model.transformer_engine model.*offload* model.sequence_parallel model.*_fusion model.overlap_* model.use_flash_attention model.grad_allreduce_chunk_size_mb", "this option of NeMo", OFF "false"),
  EITHER("model.peft.lora_tuning.target_modules* model.peft.lora_tuning.layer_selection* model.peft.adapter_tuning.* model.peft.p_tuning.* model.peft.ia3_tuning.*", "this choice of adapters"),
  EITHER("trainer.accumulate_grad_batches", "accumulation by the Trainer", OFF "1"),
  TIME("model.nsys_profile.enabled", "profiling"),
  FREE(LEARNING, "model.optim.* model.seed model.layernorm_epsilon model.apply_query_key_layer_scaling model.hysteresis model.native_amp_* model.fp16_lm_cross_entropy model.use_cpu_initialization model.init_method_std trainer.gradient_clip_val model.activations_checkpoint_*"),
  FREE(DATA, "model.data.* model.tokenizer.* model.answer_only_loss model.pre_process model.post_process model.sync_batch_comm"),
  FREE("it logs, saves or sets how long the run is", "trainer trainer.accelerator trainer.logger trainer.enable_* trainer.max_* trainer.log_every_n_steps trainer.val_check_interval trainer.limit_* trainer.num_sanity_val_steps trainer.check_val_every_n_epoch trainer.benchmark trainer.use_distributed_sampler trainer.replace_sampler_ddp trainer.gradient_clip_algorithm exp_manager.* name restore_from_path model.resume_from_checkpoint model.save_* model.hidden_states* model.nsys_profile.* model.gradient_as_bucket_view model.gc_interval model.precision model.target model.nemo_version model.inference.* model.peft.restore_from_* model.peft.lora_tuning.*dropout model.peft.lora_tuning.*_init_method model.peft.lora_tuning.weight_tying model.peft.lora_tuning.*strategy"),
  FREE(LOGS, "hydra.* inference.* defaults.*"),
  END,
};

static const plim_other_key torchtitan[] = {
  READ("the knobs, project_unmodelled.c", "model model.name parallelism.* model.hf_assets_path model.tokenizer_path"),
  EITHER("float8.* mx.* quantize.* model.converters* model.print_after_conversion", "fp8", OFF "[]"),
  EITHER("optimizer.early_step_in_backward", "the optimizer step during the backward pass"),
  EITHER("training.mixed_precision_reduce", "reducing gradients in this type", OFF "float32"),
  EITHER("activation_checkpoint.selective_ac_option activation_checkpoint.per_op_* activation_checkpoint.memory_budget activation_checkpoint.early_stop", "this choice of what checkpointing keeps", OFF "2"),
  EITHER("experimental.* model.use_flex_attn model.attn_mask_type model.norm_type", "this option of torchtitan", OFF "rmsnorm causal"),
  EITHER("training.data_parallel_* training.tensor_parallel_degree training.compile", "this option of an older torchtitan", OFF "1 -1"),
  TIME("training.deterministic debug.deterministic", "the choice of kernels"),
  TIME("profiling.enable_profiling", "profiling"),
  MORE("profiling.enable_memory_snapshot", "recording snapshots of memory"),
  FREE(LEARNING, "optimizer optimizer.lr optimizer.beta* optimizer.eps optimizer.weight_decay lr_scheduler.* training.warmup_steps training.seed debug.seed"),
  FREE("it logs, saves, prepares data or sets how long the run is", "job.* profiling.* metrics.* training training.steps training.dataset* training.gc_* checkpoint.* comm.* validation.* compile compile.components* compile.model compile.loss activation_checkpoint fault_tolerance.* memory_estimation.* debug.*"),
  END,
};

static const plim_other_key litgpt[] = {
  READ("the knobs, project_model.c", "model_config* tokenizer_dir initial_checkpoint_dir resume"),
  EITHER("train.tie_embeddings", "tied embeddings"),
  EITHER("multi_head_latent_attention* optimizer.init_args.rank", "this option of litgpt"),
  MORE("optimizer.init_args.amsgrad", "the third state of AMSGrad", SLOWER),
  FREE(DATA, "data data.*"),
  FREE(LEARNING, "optimizer.init_args.lr optimizer.init_args.weight_decay optimizer.init_args.betas* optimizer.init_args.eps train.lr_* train.min_lr train.learning_rate train.weight_decay train.beta?"),
  FREE("it logs, saves, evaluates or sets how long the run is", "out_dir train train.save_interval train.log_interval train.max_tokens train.max_steps train.max_time eval.* logger_name logger_args* seed access_token log.*"),
  END,
};

static const plim_other_key llm_foundry[] = {
  READ("the knobs, project_shape.c", "model model.name model.pretrained model.pretrained_model_name_or_path model.d_model model.n_heads model.n_layers model.expansion_ratio model.max_seq_len model.vocab_size model.attn_config.* model.ffn_config.* model.no_bias model.learned_pos_emb model.emb_pdrop model.resid_pdrop model.use_flash_attention_2 model.use_auth_token model.config_overrides.* fsdp_config fsdp_config.sharding_strategy fsdp_config.mixed_precision"),
  EITHER("algorithms.* tp_config.* compile_config.*", "this option of Composer"),
  EITHER("model.loss_fn model.norm_type model.fc_type* model.peft_config* model.init_config* model.tie_word_embeddings", "this option of the model", OFF "fused_crossentropy true"),
  LESS("fsdp_config.cpu_offload", "keeping parameters on the host", SLOWER),
  EITHER("precision", "fp8", ONLY "*fp8*"),
  EITHER("optimizer.amsgrad", "the third state of AMSGrad"),
  FREE("FSDP: how it wraps, loads and saves", "fsdp_config.limit_all_gathers fsdp_config.*_prefetch fsdp_config.use_orig_params fsdp_config.sync_module_states fsdp_config.state_dict_type fsdp_config.load_* fsdp_config.sharded_ckpt_prefix_dir fsdp_config.verbose fsdp_config.keep_low_precision_grads fsdp_config.process_group"),
  FREE(LEARNING, "optimizer optimizer.lr optimizer.betas* optimizer.eps optimizer.weight_decay scheduler.* seed global_seed model.init_device model.verbose model.z_loss"),
  FREE("it logs, saves, prepares data or sets how long the run is", "variables.* tokenizer.* train_loader.* eval_loader.* eval_* max_duration device_eval_batch_size loggers.* callbacks.* save_* run_name load_* console_log_interval progress_bar log_to_console python_log_level autoresume dist_timeout data_* icl_* precision expandable_segments max_split_size_mb"),
  END,
};

static const plim_other_key nanogpt[] = {
  READ("project_shape.c", "n_layer n_head n_embd dropout bias vocab_size"),
  FREE(LEARNING, "learning_rate max_iters weight_decay beta1 beta2 decay_lr warmup_iters lr_decay_iters min_lr seed"),
  FREE(LOGS, "out_dir eval_* log_interval always_save_checkpoint wandb_* dataset backend device"),
  END,
};

// ---- which framework has which tables ---------------------------------------------------------------

const plim_other_key *const plim_tables_of_dialect[PLIM_DIALECTS][PLIM_KEY_TABLES] = {
  [PLIM_DIALECT_HF] = {preference, training_arguments, script_arguments, sft_config},
  [PLIM_DIALECT_TRL] = {preference, training_arguments, sft_config, script_arguments},
  [PLIM_DIALECT_SENTENCE] = {training_arguments, script_arguments},
  [PLIM_DIALECT_UNSLOTH] = {preference, training_arguments, sft_config, script_arguments, unsloth},
  [PLIM_DIALECT_ACCELERATE] = {accelerate},
  [PLIM_DIALECT_DEEPSPEED] = {deepspeed},
  [PLIM_DIALECT_FSDP] = {fsdp_file},
  [PLIM_DIALECT_AXOLOTL] = {axolotl},
  [PLIM_DIALECT_LLAMA_FACTORY] = {llama_factory, training_arguments},
  [PLIM_DIALECT_LLAMA_FACTORY_V1] = {llama_factory_v1},
  [PLIM_DIALECT_TORCHTUNE] = {torchtune},
  [PLIM_DIALECT_LIGHTNING] = {lightning_file},
  [PLIM_DIALECT_MEGATRON] = {megatron},
  [PLIM_DIALECT_MEGATRON_BRIDGE] = {megatron_bridge},
  [PLIM_DIALECT_NEMO] = {nemo},
  [PLIM_DIALECT_TORCHTITAN] = {torchtitan},
  [PLIM_DIALECT_LITGPT] = {litgpt},
  [PLIM_DIALECT_LLM_FOUNDRY] = {llm_foundry},
  [PLIM_DIALECT_NANOGPT] = {nanogpt},
};

const plim_known_call plim_known_calls[] = {
  {"trainingarguments *[!a]trainingarguments", NULL, {training_arguments, sft_config}},
  {"sftconfig dpoconfig grpoconfig ktoconfig orpoconfig cpoconfig rewardconfig rlooconfig gkdconfig ppoconfig", NULL,
   {sft_config, training_arguments}},
  {"loraconfig", NULL, {lora_config}},
  {"bitsandbytesconfig", NULL, {quantization_config}},
  {"get_peft_model", "peft", {peft_model}},
  {"from_pretrained get_peft_model", "fastlanguagemodel fastmodel fastvisionmodel", {unsloth, loading, lora_config}},
  {"from_pretrained", "*automodel* *for* *lmheadmodel", {loading, quantization_config}},
  {"trainer", "l pl lightning pytorch_lightning", {lightning_trainer, trainer_arguments}},
  {"sfttrainer seq2seqtrainer", NULL, {trainer_arguments, sft_config, training_arguments}},
  {"accelerator", NULL, {accelerator}},
};
const size_t plim_known_call_count = sizeof plim_known_calls / sizeof *plim_known_calls;
// clang-format on
