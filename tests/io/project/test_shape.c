// Models that Megatron's flags describe: the resulting text for each set of flags, or the reason why there is none.
#include "project_shape.h"
#include "projects.h"

#define RUN "torchrun --nproc_per_node 4 pretrain_gpt.py --micro-batch-size 2 --seq-length 512 "
#define SIZES "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
#define GPT2 RUN SIZES "--max-position-embeddings 2048 --vocab-size 32000 "
#define GATES "--swiglu --normalization RMSNorm "
#define ROPE "--position-embedding-type rope "
#define ALIKE GPT2 GATES ROPE "--hidden-dropout 0 "
#define LLAMA ALIKE "--disable-bias-linear "

static bool contains(const char *text, const char *part) {
  return !part || strstr(text, part) != NULL;
}

static const char *text_of(const char *script) {
  if (read_text("run.sh", script)) return error.message;
  return value_of(PLIM_KNOB_MODEL);
}

// ---- what is built ----------------------------------------------------------------------------------

TEST(a_model_is_written_whole) {
  CHECK_STR(text_of(LLAMA),
            "model_type=llama num_hidden_layers=8 hidden_size=1024 intermediate_size=2688 "
            "num_attention_heads=16 num_key_value_heads=16 head_dim=64 vocab_size=32000 "
            "max_position_embeddings=2048 tie_word_embeddings=1 attention_dropout=0.1");
  CHECK_STR(text_of(GPT2),
            "model_type=gpt2 n_layer=8 n_embd=1024 n_inner=4096 n_head=16 vocab_size=32000 "
            "n_positions=2048 resid_pdrop=0.1 embd_pdrop=0.1 attn_pdrop=0.1");
  CHECK_STR(
      project.knobs[PLIM_KNOB_MODEL].why,
      "the model is built from Megatron's flags: 8 layers, hidden size 1024, vocabulary 32000");
}

static const struct {
  const char *script, *has, *lacks;
} built[] = {
    // Families by their layers.
    {LLAMA "--add-qkv-bias", "=qwen2 ", "bias"},
    {LLAMA "--qk-layernorm", "=qwen3 ", "bias"},
    {ALIKE, "=llama ", NULL},
    {ALIKE, " attention_bias=1 mlp_bias=1", NULL},
    {ALIKE "--add-qkv-bias", "=llama ", NULL},
    {LLAMA, "=llama ", "bias"},
    {GPT2 GATES "--use-rotary-position-embeddings --hidden-dropout 0", "=llama ", NULL},
    {GPT2 "--position-embedding-type learned_absolute", "=gpt2 ", NULL},
    {GPT2 "--normalization LayerNorm", "=gpt2 ", NULL},
    // Widths.
    {LLAMA "--ffn-hidden-size 3000", " intermediate_size=3000 ", NULL},
    {GPT2 "--ffn-hidden-size 3000", " n_inner=3000 ", NULL},
    {LLAMA "--kv-channels 128", " head_dim=128 ", NULL},
    {LLAMA "--group-query-attention --num-query-groups 4", " num_key_value_heads=4 ", NULL},
    {LLAMA "--group-query-attention", " num_key_value_heads=1 ", NULL},
    {LLAMA "--num-query-groups 4", " num_key_value_heads=16 ", NULL},
    {LLAMA "--hidden-size 1000 --num-attention-heads 10", " intermediate_size=2624 ", NULL},
    {LLAMA "--hidden-size 4096", " intermediate_size=10880 ", NULL},
    {"LAYERS=3\n" LLAMA "--num-layers $((LAYERS * 2))", " num_hidden_layers=6 ", NULL},
    // The head and the vocabulary.
    {LLAMA "--untie-embeddings-and-output-weights", " tie_word_embeddings=0", NULL},
    {LLAMA "--vocab-size 32001", " vocab_size=32128 ", NULL},
    {LLAMA "--vocab-size 32127", " vocab_size=32128 ", NULL},
    {LLAMA "--vocab-size 32001 --make-vocab-size-divisible-by 64", " vocab_size=32064 ", NULL},
    {LLAMA "--vocab-size 32001 --tensor-model-parallel-size 4", " vocab_size=32256 ", NULL},
    {LLAMA "--tokenizer-type NullTokenizer", " vocab_size=32128 ", NULL},
    {LLAMA "--tokenizer-type GPT2BPETokenizer", " vocab_size=32000 ", NULL},
    // Dropouts.
    {LLAMA "--attention-dropout 0.0", NULL, "dropout"},
    {LLAMA "--attention-dropout 0.25", " attention_dropout=0.25", NULL},
    {GPT2 "--hidden-dropout 0.2", " resid_pdrop=0.2 embd_pdrop=0.2 attn_pdrop=0.1", NULL},
    {GPT2 "--hidden-dropout 0 --attention-dropout 0", " resid_pdrop=0 embd_pdrop=0 attn_pdrop=0",
     NULL},
    {"DROP=0.3\n" GPT2 "--attention-dropout $DROP", " attn_pdrop=0.3", NULL},
    // Several commands, and other settings of the same flags.
    {LLAMA "--num-layers 4", " num_hidden_layers=4 ", NULL},
    {"NUM_LAYERS=99\n" LLAMA "\nHIDDEN_SIZE=7\n", " num_hidden_layers=8 hidden_size=1024 ", NULL},
    {LLAMA "\npython tools/preprocess_data.py --vocab-size 5\n", " vocab_size=32000 ", NULL},
    {"A=(--num-layers 8)\n" LLAMA "${A[@]} --num-layers 4\n", " num_hidden_layers=4 ", NULL},
    {"A=(--num-layers 4)\nB=(--num-layers 2)\n" LLAMA "${B[@]} ${A[@]}\n", " num_hidden_layers=4 ",
     NULL},
};

TEST(flags_become_a_model) {
  for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
    const char *text = text_of(built[i].script);
    bool is_right = strncmp(text, "model_type=", 11) == 0 && contains(text, built[i].has) &&
                    !(built[i].lacks && contains(text, built[i].lacks));
    CHECK(is_right, "%s\n%s", built[i].script, text);
  }
}

// ---- what is refused --------------------------------------------------------------------------------

static const struct {
  const char *script, *origin;
} refused[] = {
    {LLAMA "--num-experts 8", "--num-experts: a mixture of experts is not supported yet"},
    {LLAMA "--multi-latent-attention", "multi-latent attention is not supported yet"},
    {LLAMA "--mtp-num-layers 1", "multi-token prediction is not supported yet"},
    {LLAMA "--is-hybrid-model", "--is-hybrid-model: a hybrid of layer types is not supported yet"},
    {LLAMA "--hybrid-override-pattern M-M*", "--hybrid-override-pattern: a hybrid of layer types"},
    {GPT2 "--squared-relu", "a squared ReLU is not supported yet"},
    {LLAMA "--window-size 128,0", "sliding-window attention is not supported yet"},
    {LLAMA "--heterogeneous-layers-config-path a.json", "a mix of layer shapes"},
    // Missing flags, and values that are not numbers.
    {RUN "--num-layers 8", "but --hidden-size is missing"},
    {RUN "--hidden-size 8", "but --num-layers is missing"},
    {RUN "--num-layers 8 --hidden-size 8", "but --num-attention-heads is missing"},
    {RUN SIZES, "but --max-position-embeddings is missing"},
    {RUN SIZES "--max-position-embeddings 8", "but --vocab-size is missing"},
    {LLAMA "--num-layers $N",
     "the value of --num-layers, which is part of the model's shape, is not a known number"},
    {LLAMA "--ffn-hidden-size $N", "the value of --ffn-hidden-size, which"},
    {LLAMA "--kv-channels $N", "the value of --kv-channels, which"},
    {LLAMA "--num-query-groups $N", "the value of --num-query-groups, which"},
    {LLAMA "--vocab-size $N", "the value of --vocab-size, which"},
    {LLAMA "--make-vocab-size-divisible-by $N",
     "the value of --make-vocab-size-divisible-by, which"},
    {LLAMA "--tensor-model-parallel-size $N", "the value of --tensor-model-parallel-size, which"},
    // Layers that no family has.
    {GPT2 "--swiglu",
     "these layers: swiglu, LayerNorm, learned positions, with biases, a tied head"},
    {GPT2 GATES, "these layers: swiglu, RMSNorm, learned positions, with biases, a tied head"},
    {GPT2 GATES "--position-embedding-type yarn", "RMSNorm, yarn positions, with biases"},
    {GPT2 ROPE, "these layers: gelu, LayerNorm, rope positions, with biases, a tied head"},
    {GPT2 "--normalization RMSNorm", "these layers: gelu, RMSNorm, learned positions"},
    {GPT2 "--normalization Other", "these layers: gelu, LayerNorm, learned positions"},
    {GPT2 "--position-embedding-type none", "these layers: gelu, LayerNorm, none positions"},
    {GPT2 "--disable-bias-linear", "learned positions, without biases, a tied head"},
    {GPT2 "--disable-bias-linear --add-qkv-bias", "learned positions, only qkv biases"},
    {GPT2 "--qk-layernorm", "with biases, q and k norms, a tied head"},
    {GPT2 "--untie-embeddings-and-output-weights", "learned positions, with biases"},
    {GPT2 "--kv-channels 128", "these layers: gelu"},
    {GPT2 "--group-query-attention", "these layers: gelu"},
    {ALIKE "--qk-layernorm", "rope positions, with biases, q and k norms"},
    {LLAMA "--qk-layernorm --add-qkv-bias", "rope positions, only qkv biases, q and k norms"},
    // A dropout between them.
    {LLAMA "--hidden-dropout 0.25",
     "a dropout of 0.25 after each layer is not supported yet for the llama"},
    {GPT2 GATES ROPE,
     "a dropout of 0.1 after each layer is not supported yet for the llama architecture (it is "
     "Megatron's default)"},
};

static bool is_refused(const char *script, const char *origin) {
  error = (plim_error){0};
  if (!read_text("run.sh", script) && plim_project_refuse_shape(&project, &error))
    return contains(error.message, origin) && *error.hint && strcmp(error.file, "run.sh") == 0;
  return false;
}

TEST(layers_that_no_family_has_are_refused_by_their_flag) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    CHECK(is_refused(refused[i].script, refused[i].origin), "%s\n%s", refused[i].script,
          error.message);
    CHECK(strncmp(value_of(PLIM_KNOB_MODEL), "model_type=", 11) != 0, "%s", refused[i].script);
  }
}

// ---- several commands -------------------------------------------------------------------------------

TEST(commands_of_one_model_are_read_and_of_two_are_told_apart) {
  static const char *const more[] = {
      "--num-layers 4",
      "--hidden-size 512",
      "--ffn-hidden-size 512",
      "--num-attention-heads 8",
      "--group-query-attention",
      "--num-query-groups 2",
      "--kv-channels 32",
      "--max-position-embeddings 4096",
      "--vocab-size 1000",
      "--make-vocab-size-divisible-by 64",
      "--tensor-model-parallel-size 2",
      "--tokenizer-type NullTokenizer",
      "--swiglu",
      "--normalization LayerNorm",
      "--disable-bias-linear",
      "--add-qkv-bias",
      "--qk-layernorm",
      "--untie-embeddings-and-output-weights",
      "--position-embedding-type none",
      "--use-rotary-position-embeddings",
      "--hidden-dropout 0.125",
      "--attention-dropout 0.125",
  };
  CHECK_STR(text_of(LLAMA "\n" LLAMA "\n"), text_of(LLAMA));
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    char script[2048], origin[128];
    int size = (int)strcspn(more[i], " ");
    snprintf(origin, sizeof origin, "several commands define a model, and they differ in %.*s",
             size, more[i]);
    snprintf(script, sizeof script, "%s\n%s %s\n", GPT2, GPT2, more[i]);
    CHECK(is_refused(script, origin) && !strchr(error.message, '#'), "%s", error.message);
    snprintf(script, sizeof script, "%s %s\n%s\n", GPT2, more[i], GPT2);
    CHECK(is_refused(script, origin) && !strchr(error.message, '#'), "%s", error.message);
  }
}

TEST(flags_of_another_ecosystem_are_not_a_shape) {
  CHECK(!read_text("run.sh", "torchrun t.py --per_device_train_batch_size 4 --num-layers 8\n"),
        "%s", error.message);
  CHECK(!plim_project_refuse_shape(&project, &error), "%s", error.message);
  plim_project_clear(&project);
}

TEST_MAIN
