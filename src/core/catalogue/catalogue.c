#include "catalogue.h"

#include "families.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 64 };

// ---- the table --------------------------------------------------------------------------------------
//
// Keys are those of the model's config.json that change memory. The extents of the Llama, Mistral,
// Mixtral, Qwen, Gemma, Phi and Pythia models were compared with litgpt's table of the same checkpoints
// (not Yi, Mistral Nemo and Small, Phi-3 medium), those of tests/truth with its models.json; Llama 2, Code
// Llama, Yi, Gemma 2, Pythia 6.9B and Flan-T5 with copies of their config.json in public repositories.
// Parameters are as published, tied weights once; a test builds each model and compares, so a wrong
// extent shows. The hub's totals of safetensors, as public lists quote them, have the same of Llama 2 to
// 3.3, Mistral, Nemo and Small, Qwen 2.5 and 3, Gemma 2, Phi 3 to 4, SmolLM2, Yi 34B and Flan-T5 (less the
// buffers and second copies of tied weights that some files hold). Flan-T5's are those of its checkpoints, which hold a head of their own: transformers 5
// ties the head of a T5 built from a configuration, but not of one whose checkpoint has both
// (PreTrainedModel.tie_weights). mpnet-base is the encoder without its masked head, as
// sentence-transformers uses it. The two without an owner are the small models of tests/truth: they are
// found by exactly that name, and not listed.
//
// The type is what transformers 5 loads by default, dtype="auto" (modeling_utils.py, _get_dtype): that of
// config.json, or else the checkpoint's first weight. Only the instruct versions of Gemma 2 and OLMo 2 have
// another than their base; they are rows of their own. Confirmed in copies of config.json: Llama 2 (float16), Code
// Llama, Yi, Gemma 2 2B (float32), Pythia 6.9B and 12B (float16). Files without the key (GPT-2, T5, BERT,
// RoBERTa, MPNet) hold float32 weights by their published sizes. The other rows: from memory, unverified.
//
// OLMo 2: the 1B as fairseq2 0.8 has it, 7B and 13B as litgpt 0.5 and fairseq2 do, the 32B as OLMo-core does, which
// trained it; parameters are counted from these extents. The 13B's copy of config.json says float32; that the
// other bases are float32 and the instruct versions bf16 is from memory, unverified.
// Granite: copies of config.json in public repositories, whole for 3.3 8B; those of 3.3 2B and 3.1 2B leave
// attention_dropout out, which is taken for 0. The parameters of 3.3 8B are those of its safetensors, the others
// are counted from the extents.

// clang-format off
const plim_catalogue_model plim_catalogue[] = {
    {"meta-llama/Llama-3.2-1B", "llama-3.2-1b", 1235814400, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=2048 intermediate_size=8192 num_hidden_layers=16 num_attention_heads=32 num_key_value_heads=8 head_dim=64 vocab_size=128256 max_position_embeddings=131072 tie_word_embeddings=true"},
    {"meta-llama/Llama-3.2-3B", "llama-3.2-3b", 3212749824, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=3072 intermediate_size=8192 num_hidden_layers=28 num_attention_heads=24 num_key_value_heads=8 head_dim=128 vocab_size=128256 max_position_embeddings=131072 tie_word_embeddings=true"},
    {"meta-llama/Llama-3.1-8B", "llama-3.1-8b", 8030261248, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=128256 max_position_embeddings=131072 tie_word_embeddings=false"},
    {"meta-llama/Llama-3.1-70B", "llama-3.1-70b", 70553706496, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=8192 intermediate_size=28672 num_hidden_layers=80 num_attention_heads=64 num_key_value_heads=8 vocab_size=128256 max_position_embeddings=131072 tie_word_embeddings=false"},
    {"meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b", 70553706496, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=8192 intermediate_size=28672 num_hidden_layers=80 num_attention_heads=64 num_key_value_heads=8 head_dim=128 vocab_size=128256 max_position_embeddings=131072 tie_word_embeddings=false"},
    {"meta-llama/Meta-Llama-3-8B", "llama-3-8b", 8030261248, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=128256 max_position_embeddings=8192 tie_word_embeddings=false"},
    {"meta-llama/Meta-Llama-3-70B", "llama-3-70b", 70553706496, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=8192 intermediate_size=28672 num_hidden_layers=80 num_attention_heads=64 num_key_value_heads=8 vocab_size=128256 max_position_embeddings=8192 tie_word_embeddings=false"},
    {"meta-llama/Llama-2-7b-hf", "llama-2-7b", 6738415616, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=llama hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=32000 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"meta-llama/Llama-2-13b-hf", "llama-2-13b", 13015864320, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=llama hidden_size=5120 intermediate_size=13824 num_hidden_layers=40 num_attention_heads=40 num_key_value_heads=40 vocab_size=32000 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"meta-llama/Llama-2-70b-hf", "llama-2-70b", 68976648192, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=llama hidden_size=8192 intermediate_size=28672 num_hidden_layers=80 num_attention_heads=64 num_key_value_heads=8 vocab_size=32000 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"codellama/CodeLlama-7b-hf", "codellama-7b", 6738546688, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=32016 max_position_embeddings=16384 tie_word_embeddings=false"},
    {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b", 1100048384, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=2048 intermediate_size=5632 num_hidden_layers=22 num_attention_heads=32 num_key_value_heads=4 vocab_size=32000 max_position_embeddings=2048 tie_word_embeddings=false"},
    {"HuggingFaceTB/SmolLM2-135M", "smollm2-135m", 134515008, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=576 intermediate_size=1536 num_hidden_layers=30 num_attention_heads=9 num_key_value_heads=3 vocab_size=49152 max_position_embeddings=8192 tie_word_embeddings=true"},
    {"HuggingFaceTB/SmolLM2-360M", "smollm2-360m", 361821120, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=960 intermediate_size=2560 num_hidden_layers=32 num_attention_heads=15 num_key_value_heads=5 vocab_size=49152 max_position_embeddings=8192 tie_word_embeddings=true"},
    {"HuggingFaceTB/SmolLM2-1.7B", "smollm2-1.7b", 1711376384, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=2048 intermediate_size=8192 num_hidden_layers=24 num_attention_heads=32 num_key_value_heads=32 vocab_size=49152 max_position_embeddings=8192 tie_word_embeddings=true"},
    {"01-ai/Yi-6B", "yi-6b", 6061035520, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=4 vocab_size=64000 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"01-ai/Yi-34B", "yi-34b", 34388917248, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=7168 intermediate_size=20480 num_hidden_layers=60 num_attention_heads=56 num_key_value_heads=8 vocab_size=64000 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "deepseek-r1-distill-llama-8b", 8030261248, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=llama hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=128256 max_position_embeddings=131072 tie_word_embeddings=false"},
    {"tiny-llama", "tiny-llama", 44372480, PLIM_HEAD_CAUSAL, PLIM_DTYPE_COUNT, "model_type=llama hidden_size=512 intermediate_size=1376 num_hidden_layers=4 num_attention_heads=8 num_key_value_heads=4 vocab_size=32000 max_position_embeddings=4096 tie_word_embeddings=false"},

    {"mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1", 7241732096, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mistral hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=32000 max_position_embeddings=32768 sliding_window=4096 tie_word_embeddings=false"},
    {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b", 7241732096, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mistral hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=32000 max_position_embeddings=32768 sliding_window=null tie_word_embeddings=false"},
    {"mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3", 7248023552, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mistral hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=32768 max_position_embeddings=32768 sliding_window=null tie_word_embeddings=false"},
    {"mistralai/Mistral-Nemo-Base-2407", "mistral-nemo", 12247782400, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mistral hidden_size=5120 intermediate_size=14336 num_hidden_layers=40 num_attention_heads=32 num_key_value_heads=8 head_dim=128 vocab_size=131072 max_position_embeddings=128000 sliding_window=null tie_word_embeddings=false"},
    {"mistralai/Mistral-Small-24B-Base-2501", "mistral-small-24b", 23572403200, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mistral hidden_size=5120 intermediate_size=32768 num_hidden_layers=40 num_attention_heads=32 num_key_value_heads=8 head_dim=128 vocab_size=131072 max_position_embeddings=32768 sliding_window=null tie_word_embeddings=false"},

    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b", 46702792704, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mixtral hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 num_local_experts=8 num_experts_per_tok=2 vocab_size=32000 max_position_embeddings=32768 sliding_window=null tie_word_embeddings=false"},
    {"mixtral-tiny", "mixtral-tiny", 795427840, PLIM_HEAD_CAUSAL, PLIM_DTYPE_COUNT, "model_type=mixtral hidden_size=1024 intermediate_size=3584 num_hidden_layers=8 num_attention_heads=16 num_key_value_heads=8 num_local_experts=8 num_experts_per_tok=2 vocab_size=32000 sliding_window=null"},

    {"Qwen/Qwen2.5-0.5B", "qwen2.5-0.5b", 494032768, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=896 intermediate_size=4864 num_hidden_layers=24 num_attention_heads=14 num_key_value_heads=2 vocab_size=151936 max_position_embeddings=32768 use_sliding_window=false tie_word_embeddings=true"},
    {"Qwen/Qwen2.5-1.5B", "qwen2.5-1.5b", 1543714304, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=1536 intermediate_size=8960 num_hidden_layers=28 num_attention_heads=12 num_key_value_heads=2 vocab_size=151936 max_position_embeddings=131072 use_sliding_window=false tie_word_embeddings=true"},
    {"Qwen/Qwen2.5-3B", "qwen2.5-3b", 3085938688, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=2048 intermediate_size=11008 num_hidden_layers=36 num_attention_heads=16 num_key_value_heads=2 vocab_size=151936 max_position_embeddings=32768 use_sliding_window=false tie_word_embeddings=true"},
    {"Qwen/Qwen2.5-7B", "qwen2.5-7b", 7615616512, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=3584 intermediate_size=18944 num_hidden_layers=28 num_attention_heads=28 num_key_value_heads=4 vocab_size=152064 max_position_embeddings=131072 use_sliding_window=false tie_word_embeddings=false"},
    {"Qwen/Qwen2.5-14B", "qwen2.5-14b", 14770033664, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=5120 intermediate_size=13824 num_hidden_layers=48 num_attention_heads=40 num_key_value_heads=8 vocab_size=152064 max_position_embeddings=131072 use_sliding_window=false tie_word_embeddings=false"},
    {"Qwen/Qwen2.5-32B", "qwen2.5-32b", 32763876352, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=5120 intermediate_size=27648 num_hidden_layers=64 num_attention_heads=40 num_key_value_heads=8 vocab_size=152064 max_position_embeddings=131072 use_sliding_window=false tie_word_embeddings=false"},
    {"Qwen/Qwen2.5-72B", "qwen2.5-72b", 72706203648, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen2 hidden_size=8192 intermediate_size=29568 num_hidden_layers=80 num_attention_heads=64 num_key_value_heads=8 vocab_size=152064 max_position_embeddings=131072 use_sliding_window=false tie_word_embeddings=false"},

    {"Qwen/Qwen3-0.6B", "qwen3-0.6b", 596049920, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen3 hidden_size=1024 intermediate_size=3072 num_hidden_layers=28 num_attention_heads=16 num_key_value_heads=8 head_dim=128 vocab_size=151936 max_position_embeddings=40960 use_sliding_window=false tie_word_embeddings=true"},
    {"Qwen/Qwen3-1.7B", "qwen3-1.7b", 1720574976, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen3 hidden_size=2048 intermediate_size=6144 num_hidden_layers=28 num_attention_heads=16 num_key_value_heads=8 head_dim=128 vocab_size=151936 max_position_embeddings=40960 use_sliding_window=false tie_word_embeddings=true"},
    {"Qwen/Qwen3-4B", "qwen3-4b", 4022468096, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen3 hidden_size=2560 intermediate_size=9728 num_hidden_layers=36 num_attention_heads=32 num_key_value_heads=8 head_dim=128 vocab_size=151936 max_position_embeddings=40960 use_sliding_window=false tie_word_embeddings=true"},
    {"Qwen/Qwen3-8B", "qwen3-8b", 8190735360, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen3 hidden_size=4096 intermediate_size=12288 num_hidden_layers=36 num_attention_heads=32 num_key_value_heads=8 head_dim=128 vocab_size=151936 max_position_embeddings=40960 use_sliding_window=false tie_word_embeddings=false"},
    {"Qwen/Qwen3-14B", "qwen3-14b", 14768307200, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen3 hidden_size=5120 intermediate_size=17408 num_hidden_layers=40 num_attention_heads=40 num_key_value_heads=8 head_dim=128 vocab_size=151936 max_position_embeddings=40960 use_sliding_window=false tie_word_embeddings=false"},
    {"Qwen/Qwen3-32B", "qwen3-32b", 32762123264, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=qwen3 hidden_size=5120 intermediate_size=25600 num_hidden_layers=64 num_attention_heads=64 num_key_value_heads=8 head_dim=128 vocab_size=151936 max_position_embeddings=40960 use_sliding_window=false tie_word_embeddings=false"},

    {"google/gemma-2-2b", "gemma-2-2b", 2614341888, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gemma2 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 num_attention_heads=8 num_key_value_heads=4 head_dim=256 vocab_size=256000 max_position_embeddings=8192 sliding_window=4096 query_pre_attn_scalar=256 attn_logit_softcapping=50 final_logit_softcapping=30 hidden_activation=gelu_pytorch_tanh"},
    {"google/gemma-2-2b-it", "gemma-2-2b-it", 2614341888, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=gemma2 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 num_attention_heads=8 num_key_value_heads=4 head_dim=256 vocab_size=256000 max_position_embeddings=8192 sliding_window=4096 query_pre_attn_scalar=256 attn_logit_softcapping=50 final_logit_softcapping=30 hidden_activation=gelu_pytorch_tanh"},
    {"google/gemma-2-9b", "gemma-2-9b", 9241705984, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gemma2 hidden_size=3584 intermediate_size=14336 num_hidden_layers=42 num_attention_heads=16 num_key_value_heads=8 head_dim=256 vocab_size=256000 max_position_embeddings=8192 sliding_window=4096 query_pre_attn_scalar=256 attn_logit_softcapping=50 final_logit_softcapping=30 hidden_activation=gelu_pytorch_tanh"},
    {"google/gemma-2-9b-it", "gemma-2-9b-it", 9241705984, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=gemma2 hidden_size=3584 intermediate_size=14336 num_hidden_layers=42 num_attention_heads=16 num_key_value_heads=8 head_dim=256 vocab_size=256000 max_position_embeddings=8192 sliding_window=4096 query_pre_attn_scalar=256 attn_logit_softcapping=50 final_logit_softcapping=30 hidden_activation=gelu_pytorch_tanh"},
    {"google/gemma-2-27b", "gemma-2-27b", 27227128320, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gemma2 hidden_size=4608 intermediate_size=36864 num_hidden_layers=46 num_attention_heads=32 num_key_value_heads=16 head_dim=128 vocab_size=256000 max_position_embeddings=8192 sliding_window=4096 query_pre_attn_scalar=144 attn_logit_softcapping=50 final_logit_softcapping=30 hidden_activation=gelu_pytorch_tanh"},
    {"google/gemma-2-27b-it", "gemma-2-27b-it", 27227128320, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=gemma2 hidden_size=4608 intermediate_size=36864 num_hidden_layers=46 num_attention_heads=32 num_key_value_heads=16 head_dim=128 vocab_size=256000 max_position_embeddings=8192 sliding_window=4096 query_pre_attn_scalar=144 attn_logit_softcapping=50 final_logit_softcapping=30 hidden_activation=gelu_pytorch_tanh"},

    {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini", 3821079552, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=phi3 hidden_size=3072 intermediate_size=8192 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=32064 max_position_embeddings=4096 sliding_window=2047 tie_word_embeddings=false"},
    {"microsoft/Phi-3.5-mini-instruct", "phi-3.5-mini", 3821079552, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=phi3 hidden_size=3072 intermediate_size=8192 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=32064 max_position_embeddings=131072 sliding_window=262144 tie_word_embeddings=false"},
    {"microsoft/Phi-3-medium-4k-instruct", "phi-3-medium", 13960238080, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=phi3 hidden_size=5120 intermediate_size=17920 num_hidden_layers=40 num_attention_heads=40 num_key_value_heads=10 vocab_size=32064 max_position_embeddings=4096 sliding_window=2047 tie_word_embeddings=false"},
    {"microsoft/phi-4", "phi-4", 14659507200, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=phi3 hidden_size=5120 intermediate_size=17920 num_hidden_layers=40 num_attention_heads=40 num_key_value_heads=10 vocab_size=100352 max_position_embeddings=16384 sliding_window=null tie_word_embeddings=false"},
    {"microsoft/Phi-4-mini-instruct", "phi-4-mini", 3836021760, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=phi3 hidden_size=3072 intermediate_size=8192 num_hidden_layers=32 num_attention_heads=24 num_key_value_heads=8 vocab_size=200064 max_position_embeddings=131072 sliding_window=262144 partial_rotary_factor=0.75 tie_word_embeddings=true"},

    {"ibm-granite/granite-3.3-2b-instruct", "granite-3.3-2b", 2533539840, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=granite hidden_size=2048 intermediate_size=8192 num_hidden_layers=40 num_attention_heads=32 num_key_value_heads=8 vocab_size=49159 max_position_embeddings=131072 tie_word_embeddings=true"},
    {"ibm-granite/granite-3.3-8b-instruct", "granite-3.3-8b", 8170864640, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=granite hidden_size=4096 intermediate_size=12800 num_hidden_layers=40 num_attention_heads=32 num_key_value_heads=8 vocab_size=49159 max_position_embeddings=131072 tie_word_embeddings=true"},
    {"ibm-granite/granite-3.1-2b-base", "granite-3.1-2b", 2533531648, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=granite hidden_size=2048 intermediate_size=8192 num_hidden_layers=40 num_attention_heads=32 num_key_value_heads=8 vocab_size=49155 max_position_embeddings=131072 tie_word_embeddings=true"},

    {"allenai/OLMo-2-0425-1B", "olmo-2-1b", 1484916736, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=olmo2 hidden_size=2048 intermediate_size=8192 num_hidden_layers=16 num_attention_heads=16 num_key_value_heads=16 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-0425-1B-Instruct", "olmo-2-1b-instruct", 1484916736, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=olmo2 hidden_size=2048 intermediate_size=8192 num_hidden_layers=16 num_attention_heads=16 num_key_value_heads=16 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-1124-7B", "olmo-2-7b", 7298617344, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=olmo2 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-1124-7B-Instruct", "olmo-2-7b-instruct", 7298617344, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=olmo2 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-1124-13B", "olmo-2-13b", 13716198400, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=olmo2 hidden_size=5120 intermediate_size=13824 num_hidden_layers=40 num_attention_heads=40 num_key_value_heads=40 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-1124-13B-Instruct", "olmo-2-13b-instruct", 13716198400, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=olmo2 hidden_size=5120 intermediate_size=13824 num_hidden_layers=40 num_attention_heads=40 num_key_value_heads=40 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-0325-32B", "olmo-2-32b", 32234279936, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=olmo2 hidden_size=5120 intermediate_size=27648 num_hidden_layers=64 num_attention_heads=40 num_key_value_heads=8 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},
    {"allenai/OLMo-2-0325-32B-Instruct", "olmo-2-32b-instruct", 32234279936, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=olmo2 hidden_size=5120 intermediate_size=27648 num_hidden_layers=64 num_attention_heads=40 num_key_value_heads=8 vocab_size=100352 max_position_embeddings=4096 tie_word_embeddings=false"},

    {"openai-community/gpt2", "gpt2", 124439808, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gpt2 n_embd=768 n_layer=12 n_head=12 n_positions=1024 vocab_size=50257"},
    {"openai-community/gpt2-medium", "gpt2-medium", 354823168, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gpt2 n_embd=1024 n_layer=24 n_head=16 n_positions=1024 vocab_size=50257"},
    {"openai-community/gpt2-large", "gpt2-large", 774030080, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gpt2 n_embd=1280 n_layer=36 n_head=20 n_positions=1024 vocab_size=50257"},
    {"openai-community/gpt2-xl", "gpt2-xl", 1557611200, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gpt2 n_embd=1600 n_layer=48 n_head=25 n_positions=1024 vocab_size=50257"},
    {"distilbert/distilgpt2", "distilgpt2", 81912576, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=gpt2 n_embd=768 n_layer=6 n_head=12 n_positions=1024 vocab_size=50257"},

    {"EleutherAI/pythia-70m", "pythia-70m", 70426624, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=512 intermediate_size=2048 num_hidden_layers=6 num_attention_heads=8 vocab_size=50304 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-160m", "pythia-160m", 162322944, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 vocab_size=50304 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-410m", "pythia-410m", 405334016, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 vocab_size=50304 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-1b", "pythia-1b", 1011781632, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=2048 intermediate_size=8192 num_hidden_layers=16 num_attention_heads=8 vocab_size=50304 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-1.4b", "pythia-1.4b", 1414647808, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=2048 intermediate_size=8192 num_hidden_layers=24 num_attention_heads=16 vocab_size=50304 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-2.8b", "pythia-2.8b", 2775208960, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=2560 intermediate_size=10240 num_hidden_layers=32 num_attention_heads=32 vocab_size=50304 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-6.9b", "pythia-6.9b", 6857302016, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=4096 intermediate_size=16384 num_hidden_layers=32 num_attention_heads=32 vocab_size=50432 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},
    {"EleutherAI/pythia-12b", "pythia-12b", 11846072320, PLIM_HEAD_CAUSAL, PLIM_FP16, "model_type=gpt_neox hidden_size=5120 intermediate_size=20480 num_hidden_layers=36 num_attention_heads=40 vocab_size=50688 max_position_embeddings=2048 rotary_pct=0.25 tie_word_embeddings=false"},

    {"google-t5/t5-small", "t5-small", 60506624, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=512 d_ff=2048 d_kv=64 num_heads=8 num_layers=6 num_decoder_layers=6 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=relu tie_word_embeddings=true"},
    {"google-t5/t5-base", "t5-base", 222903552, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=768 d_ff=3072 d_kv=64 num_heads=12 num_layers=12 num_decoder_layers=12 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=relu tie_word_embeddings=true"},
    {"google-t5/t5-large", "t5-large", 737668096, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=1024 d_ff=4096 d_kv=64 num_heads=16 num_layers=24 num_decoder_layers=24 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=relu tie_word_embeddings=true"},
    {"google/flan-t5-small", "flan-t5-small", 76961152, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=512 d_ff=1024 d_kv=64 num_heads=6 num_layers=8 num_decoder_layers=8 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu tie_word_embeddings=false checkpoint_has_lm_head=true"},
    {"google/flan-t5-base", "flan-t5-base", 247577856, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=768 d_ff=2048 d_kv=64 num_heads=12 num_layers=12 num_decoder_layers=12 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu tie_word_embeddings=false checkpoint_has_lm_head=true"},
    {"google/flan-t5-large", "flan-t5-large", 783150080, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=1024 d_ff=2816 d_kv=64 num_heads=16 num_layers=24 num_decoder_layers=24 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu tie_word_embeddings=false checkpoint_has_lm_head=true"},
    {"google/flan-t5-xl", "flan-t5-xl", 2849757184, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=2048 d_ff=5120 d_kv=64 num_heads=32 num_layers=24 num_decoder_layers=24 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu tie_word_embeddings=false checkpoint_has_lm_head=true"},
    {"google/flan-t5-xxl", "flan-t5-xxl", 11135332352, PLIM_HEAD_CAUSAL, PLIM_FP32, "model_type=t5 d_model=4096 d_ff=10240 d_kv=64 num_heads=64 num_layers=24 num_decoder_layers=24 vocab_size=32128 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu tie_word_embeddings=false checkpoint_has_lm_head=true"},

    {"google-bert/bert-base-uncased", "bert-base", 109514298, PLIM_HEAD_MASKED, PLIM_FP32, "model_type=bert hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},
    {"google-bert/bert-large-uncased", "bert-large", 335174458, PLIM_HEAD_MASKED, PLIM_FP32, "model_type=bert hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},
    {"sentence-transformers/all-MiniLM-L6-v2", "minilm-l6", 22713216, PLIM_HEAD_NONE, PLIM_FP32, "model_type=bert hidden_size=384 intermediate_size=1536 num_hidden_layers=6 num_attention_heads=12 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},
    {"sentence-transformers/all-MiniLM-L12-v2", "minilm-l12", 33360000, PLIM_HEAD_NONE, PLIM_FP32, "model_type=bert hidden_size=384 intermediate_size=1536 num_hidden_layers=12 num_attention_heads=12 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},
    {"BAAI/bge-small-en-v1.5", "bge-small", 33360000, PLIM_HEAD_NONE, PLIM_FP32, "model_type=bert hidden_size=384 intermediate_size=1536 num_hidden_layers=12 num_attention_heads=12 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},
    {"BAAI/bge-base-en-v1.5", "bge-base", 109482240, PLIM_HEAD_NONE, PLIM_FP32, "model_type=bert hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},
    {"BAAI/bge-large-en-v1.5", "bge-large", 335141888, PLIM_HEAD_NONE, PLIM_FP32, "model_type=bert hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 vocab_size=30522 type_vocab_size=2 max_position_embeddings=512"},

    {"FacebookAI/roberta-base", "roberta-base", 124697433, PLIM_HEAD_MASKED, PLIM_FP32, "model_type=roberta hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 vocab_size=50265 type_vocab_size=1 max_position_embeddings=514"},
    {"FacebookAI/roberta-large", "roberta-large", 355412057, PLIM_HEAD_MASKED, PLIM_FP32, "model_type=roberta hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 vocab_size=50265 type_vocab_size=1 max_position_embeddings=514"},
    {"sentence-transformers/all-distilroberta-v1", "distilroberta", 82118400, PLIM_HEAD_NONE, PLIM_FP32, "model_type=roberta hidden_size=768 intermediate_size=3072 num_hidden_layers=6 num_attention_heads=12 vocab_size=50265 type_vocab_size=1 max_position_embeddings=514"},

    {"microsoft/mpnet-base", "mpnet-base", 109486464, PLIM_HEAD_NONE, PLIM_FP32, "model_type=mpnet hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 vocab_size=30527 max_position_embeddings=514 relative_attention_num_buckets=32"},
    {"sentence-transformers/all-mpnet-base-v2", "all-mpnet-base", 109486464, PLIM_HEAD_NONE, PLIM_FP32, "model_type=mpnet hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 vocab_size=30527 max_position_embeddings=514 relative_attention_num_buckets=32"},
};
// clang-format on

const size_t plim_catalogue_count = sizeof plim_catalogue / sizeof *plim_catalogue;
_Static_assert(sizeof plim_catalogue / sizeof *plim_catalogue <= PLIM_MAX_MODELS,
               "more models than lists of them hold");

// ---- configurations ---------------------------------------------------------------------------------

typedef struct {
  char key[WORD_BYTES], value[WORD_BYTES];
} pair;

// The next "key=value" of a row, or NULL behind the last. Rows are our own: a test reads them all.
static const char *next_pair(const char *at, pair *p) {
  size_t key = strcspn(at, "="), value = at[key] ? strcspn(at + key + 1, " ") : 0;
  if (!at[key] || key >= WORD_BYTES || value >= WORD_BYTES) return NULL;
  memcpy(p->key, at, key);
  memcpy(p->value, at + key + 1, value);
  p->key[key] = p->value[value] = '\0';
  at += key + 1 + value;
  return at + (*at == ' ');
}

static void set_pair(plim_config *c, const pair *p) {
  char *end;
  double number = strtod(p->value, &end);
  bool is_flag = strcmp(p->value, "true") == 0 || strcmp(p->value, "false") == 0;
  if (is_flag || strcmp(p->value, "null") == 0)
    plim_config_number(c, p->key, strcmp(p->value, "true") == 0);
  else if (*end) plim_config_text(c, p->key, p->value);
  else plim_config_number(c, p->key, number);
}

plim_err plim_catalogue_config(const plim_catalogue_model *model, plim_config *c,
                               plim_error *error) {
  pair p;
  const char *at = next_pair(model->keys, &p); // model_type
  plim_err err = plim_config_init(c, at ? p.value : "", error);
  if (err) return err;
  while ((at = next_pair(at, &p))) set_pair(c, &p);
  c->head = model->head;
  return plim_config_finish(c, error);
}
