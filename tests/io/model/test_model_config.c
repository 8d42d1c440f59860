// A model is found by path, in the local Hugging Face cache or in the catalogue. An invalid config.json is refused with
// the reason and what to do.
#include <stdlib.h>

#include "families.h"
#include "folder.h"
#include "model_config.h"
#include "test.h"

static plim_model_source source;
static plim_error error;

static plim_err parse(const char *text) {
  error = (plim_error){0};
  return plim_model_config_parse(text, strlen(text), &source, &error);
}

static bool has_family(const char *model_type) {
  for (size_t i = 0; i < plim_family_count; i++)
    if (strcmp(plim_families[i]->model_type, model_type) == 0) return true;
  return false;
}

// The keys that transformers writes, with some that do not change memory.
static const char qwen[] =
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"attention_dropout\": 0.0, \"bos_token_id\": "
    "151643,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 896, \"initializer_range\": 0.02,"
    " \"intermediate_size\": 4864, \"max_position_embeddings\": 32768, \"max_window_layers\": 24,"
    " \"model_type\": \"qwen2\", \"num_attention_heads\": 14, \"num_hidden_layers\": 24,"
    " \"num_key_value_heads\": 2, \"rope_scaling\": null, \"sliding_window\": 32768,"
    " \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"use_sliding_window\": false,"
    " \"vocab_size\": 151936}";

// ---- what a file says -------------------------------------------------------------------------------

TEST(config_of_a_model_is_read) {
  CHECK(!parse(qwen), "%s", error.message);
  const plim_config *c = &source.config;
  CHECK(c->hidden == 896 && c->layers == 24 && c->kv_heads == 2 && c->head_dim == 64, "extents");
  CHECK(c->vocabulary == 151936 && c->ties_embeddings, "vocabulary");
  CHECK(!plim_config_slides(c, 40), "a window that is not used: %d", (int)c->sliding_window);
  CHECK(source.dtype == PLIM_BF16 && !*source.quantization && !*source.note, "the rest");
}

TEST(config_says_the_checkpoints_dtype) {
  static const struct {
    const char *text;
    plim_dtype dtype;
  } cases[] = {
      {"{\"model_type\": \"llama\", \"dtype\": \"float16\"}", PLIM_FP16},
      {"{\"model_type\": \"llama\", \"torch_dtype\": \"torch.float32\"}", PLIM_FP32},
      {"{\"model_type\": \"llama\", \"torch_dtype\": 3}", PLIM_DTYPE_COUNT},
      {"{\"model_type\": \"llama\"}", PLIM_DTYPE_COUNT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(!parse(cases[i].text), "%s", error.message);
    CHECK(source.dtype == cases[i].dtype, "%s: %d", cases[i].text, (int)source.dtype);
  }
}

TEST(config_says_how_weights_are_quantized) {
  static const struct {
    const char *quantization, *method;
    int bits;
  } cases[] = {
      {"{\"quant_method\": \"gptq\", \"bits\": 4}", "gptq", 4},
      {"{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}", "bitsandbytes", 4},
      {"{\"load_in_8bit\": true}", "unnamed", 8},
      {"{\"quant_method\": \"fbgemm_fp8\"}", "fbgemm_fp8", 8},
      {"{\"quant_method\": \"awq\", \"bits\": 1e300}", "awq", 0},
      {"null", "", 0},
  };
  char text[256];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(text, sizeof text, "{\"model_type\": \"llama\", \"quantization_config\": %s}",
             cases[i].quantization);
    CHECK(!parse(text), "%s", error.message);
    CHECK_STR(source.quantization, cases[i].method);
    CHECK(source.quantized_bits == cases[i].bits, "%s: %d bits", text, source.quantized_bits);
  }
}

TEST(config_reads_the_share_of_heads_that_is_rotated) {
  CHECK(
      !parse("{\"model_type\": \"phi3\", \"rope_parameters\": {\"partial_rotary_factor\": 0.75}}"),
      "%s", error.message);
  CHECK(source.config.rotary_share == 0.75, "%f", source.config.rotary_share);
}

// ---- heads ------------------------------------------------------------------------------------------

static void check_head(const char *model_type, const char *name, plim_head head, const char *note) {
  char text[256];
  snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"architectures\": [\"%s\"]}", model_type,
           name);
  CHECK(!parse(text), "%s", error.message);
  CHECK(source.config.head == head, "%s: head %d", name, (int)source.config.head);
  CHECK_STR(source.note, note);
}

// MPT has an object for attention.
TEST(config_reads_what_is_said_of_attention) {
  CHECK(
      !parse(
          "{\"model_type\": \"mpt\", \"attn_config\": {\"attn_pdrop\": 0.2, \"clip_qkv\": null}}"),
      "%s", error.message);
  CHECK(source.config.attention_dropout == 0.2, "%g", source.config.attention_dropout);
  CHECK(parse("{\"model_type\": \"mpt\", \"attn_config\": {\"clip_qkv\": 6}}"),
        "a bound is refused");
  CHECK(strstr(error.message, "clipped queries"), "%s", error.message);
}

TEST(config_reads_a_pattern_of_windows_in_letters) {
  CHECK(!parse("{\"model_type\": \"exaone4\", \"sliding_window_pattern\": \"LLG\"}"), "%s",
        error.message);
  CHECK(source.config.window_pattern == 3, "%d", (int)source.config.window_pattern);
  CHECK(parse("{\"model_type\": \"exaone4\", \"sliding_window_pattern\": \"GGL\"}"),
        "another order");
}

TEST(config_of_a_decoder_has_the_causal_head) {
  check_head("llama", "LlamaForCausalLM", PLIM_HEAD_CAUSAL, "");
  check_head("gpt2", "GPT2LMHeadModel", PLIM_HEAD_CAUSAL, "");
  check_head("mistral", "MistralModel", PLIM_HEAD_CAUSAL,
             "MistralModel is treated as a language model with a language-modelling head");
  check_head("llama", "LlamaForSequenceClassification", PLIM_HEAD_TEXTS, "");
}

TEST(config_of_an_encoder_has_the_head_it_names) {
  if (!has_family("bert")) SKIP("bert is no program yet");
  check_head("bert", "BertForMaskedLM", PLIM_HEAD_MASKED, "");
  check_head("bert", "BertModel", PLIM_HEAD_NONE, "");
  check_head("bert", "BertForSequenceClassification", PLIM_HEAD_TEXTS, "");
  check_head("bert", "BertForPreTraining", PLIM_HEAD_MASKED,
             "BertForPreTraining is treated as a masked language model");
}

// ---- refusals ---------------------------------------------------------------------------------------

static const struct {
  const char *text;
  plim_err code;
  const char *message, *hint;
} refused[] = {
    {"{\"model_type\": \"llama\",\n \"hidden_size\": }", PLIM_ERR_PARSE,
     "this is not valid JSON: line 2, unexpected token near '}'", ""},
    {"[]", PLIM_ERR_PARSE, "this is not a model configuration: it must be a JSON object", ""},
    {"", PLIM_ERR_PARSE, "the file is empty", ""},
    {"{\"hidden_size\": 8}", PLIM_ERR_PARSE, "the configuration has no model_type",
     "a config.json of transformers sets it, for example \"model_type\": \"llama\""},
    {"{\"model_type\": 5}", PLIM_ERR_PARSE, "the configuration has no model_type", NULL},
    {"{\"model_type\": \"lama\"}", PLIM_ERR_UNSUPPORTED,
     "model_type \"lama\" is not supported yet; did you mean \"llama\"?", NULL},
    {"{\"model_type\": \"jamba\"}", PLIM_ERR_UNSUPPORTED,
     "model_type \"jamba\" is not supported yet", NULL},
    {"{\"model_type\": \"paligemma\"}", PLIM_ERR_UNSUPPORTED,
     "model_type \"paligemma\" is not supported yet", NULL},
    {"{\"model_type\": \"paligemma\", \"text_config\": {\"model_type\": \"gemma\"}}",
     PLIM_ERR_UNSUPPORTED,
     "model_type \"paligemma\" is a multimodal model (it has text_config), which is not supported "
     "yet",
     "give the config.json of a text-only language model"},
    {"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}, "
     "\"vision_config\": {\"model_type\": \"siglip_vision_model\"}}",
     PLIM_ERR_UNSUPPORTED, "llava with this vision tower is not supported yet", NULL},
    {"{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\"}, "
     "\"vision_feature_layer\": [-2, -5]}",
     PLIM_ERR_UNSUPPORTED, "llava with several layers in vision_feature_layer is not supported yet",
     NULL},
    {"{\"model_type\": \"gemma4_unified\", \"text_config\": {\"use_bidirectional_attention\": "
     "\"all\"}}",
     PLIM_ERR_UNSUPPORTED, "gemma4_unified with bidirectional attention is not supported yet",
     NULL},
    {"{\"model_type\": \"internvl\", \"downsample_ratio\": 0}", PLIM_ERR_UNSUPPORTED,
     "internvl with this downsample_ratio is not supported yet", NULL},
    {"{\"model_type\": \"internvl\", \"vision_config\": {\"image_size\": [448, 224]}}",
     PLIM_ERR_ARGUMENT, "the size of an image is not between 0 and 65536", NULL},
    {"{\"model_type\": \"llama\", \"hidden_size\": \"4096\"}", PLIM_ERR_ARGUMENT,
     "hidden_size is not a number", ""},
    {"{\"model_type\": \"llama\", \"intermediate_size\": [1, 2]}", PLIM_ERR_ARGUMENT,
     "intermediate_size is not a number", ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": -4096}", PLIM_ERR_ARGUMENT,
     "the hidden size is missing or not a positive number", ""},
    {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1e300}", PLIM_ERR_ARGUMENT,
     "num_hidden_layers is 1e+300, the largest allowed is 1073741824", ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": 2147483648}", PLIM_ERR_ARGUMENT,
     "hidden_size is 2147483648, the largest allowed is 1073741824", ""},
    {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1.5}", PLIM_ERR_ARGUMENT,
     "num_hidden_layers is 1.5: it must be a whole number", ""},
    {"{\"model_type\": \"llama\", \"num_hidden_layers\": true}", PLIM_ERR_ARGUMENT,
     "num_hidden_layers is true: it must be a whole number", ""},
    {"{\"model_type\": \"llama\", \"intermediate_size\": 0}", PLIM_ERR_ARGUMENT,
     "intermediate_size is 0: it must be at least 1", ""},
    {"{\"model_type\": \"llama\", \"hidden_size\": NaN}", PLIM_ERR_PARSE,
     "line 1 contains NaN or Infinity, which Python writes but JSON does not allow",
     "replace it with a number or null"},
    {"{\"model_type\": \"llama\",\n\"hidden_size\": -Infinity}", PLIM_ERR_PARSE,
     "line 2 contains NaN or Infinity, which Python writes but JSON does not allow", NULL},
    {"{\"model_type\": \"llama\", \"num_hidden_layers\": 99999999999999999999999999}",
     PLIM_ERR_ARGUMENT, "num_hidden_layers is 1e+26, the largest allowed is 1073741824", ""},
    {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1000000}", PLIM_ERR_ARGUMENT,
     "the number of layers is not between 1 and 4096", ""},
    {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 1e300}", PLIM_ERR_ARGUMENT,
     "the rotary fraction of each head is not between 0 and 1", ""},
    {"{\"model_type\": \"gpt2\", \"resid_pdrop\": -0.5}", PLIM_ERR_ARGUMENT,
     "the dropout is not between 0 and 1", ""},
    {"{\"model_type\": \"llama\", \"hidden_act\": \"mish\"}", PLIM_ERR_UNSUPPORTED,
     "the model's activation function is not supported yet", ""},
};

TEST(invalid_configs_are_refused_by_name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    plim_err err = parse(refused[i].text);
    CHECK(err == refused[i].code, "%s: code %d, %s", refused[i].text, (int)err, error.message);
    CHECK_STR(error.message, refused[i].message);
    if (refused[i].hint) CHECK_STR(error.hint, refused[i].hint);
  }
}

TEST(invalid_json_in_a_config_is_located) {
  CHECK(parse("{\"a\": 1,\n  oops}") == PLIM_ERR_PARSE, "accepted");
  CHECK(error.byte >= 11 && error.byte <= 16, "byte %" PRIu64, error.byte);
}

TEST(config_nested_too_deep_is_refused) {
  char *text = malloc(100001);
  memset(text, '[', 100000);
  text[100000] = '\0';
  plim_err err = parse(text);
  free(text);
  CHECK(err == PLIM_ERR_PARSE, "%s", error.message);
}

TEST(config_cannot_control_the_terminal) {
  CHECK(parse("{\"model_type\": \"\\u001b[2J\"}") == PLIM_ERR_UNSUPPORTED, "accepted");
  CHECK(!strchr(error.message, '\033'), "an escape in the message");
}

// ---- places -----------------------------------------------------------------------------------------

static plim_err find(const char *what) {
  error = (plim_error){0};
  return plim_model_find(what, &source, &error);
}

static void clear_environment(void) {
  static const char *const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                      "XDG_CACHE_HOME"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
  setenv("HOME", folder_path("home"), 1);
}

TEST(model_is_found_by_file_and_by_folder) {
  folder_make();
  folder_write_text("model/config.json", qwen);
  plim_err by_folder = find(folder_path("model"));
  CHECK(!by_folder && source.origin == PLIM_ORIGIN_FILE, "%s", error.message);
  CHECK_STR(source.folder, folder_path("model"));
  CHECK(!find(folder_path("model/config.json")) && source.config.hidden == 896, "%s",
        error.message);
  CHECK_STR(source.folder, folder_path("model"));
  folder_remove();
}

TEST(model_folder_without_a_configuration_says_so) {
  folder_make();
  folder_write_text("model/other.json", "{}");
  plim_err err = find(folder_path("model"));
  CHECK(err == PLIM_ERR_IO, "%d", (int)err);
  CHECK(strstr(error.message, "model/config.json does not exist"), "%s", error.message);
  CHECK_STR(error.file, folder_path("model/config.json"));
  CHECK_STR(error.hint,
            "give the path of a model's config.json, or of the folder that contains it");
  folder_remove();
}

TEST(model_file_that_is_too_large_is_refused) {
  folder_make();
  size_t size = (4 << 20) + 1;
  char *text = calloc(1, size);
  folder_write("config.json", text, size);
  free(text);
  plim_err err = find(folder_path("config.json"));
  folder_remove();
  CHECK(err == PLIM_ERR_UNSUPPORTED, "%s", error.message);
}

static void check_cached(const char *variable, const char *value, const char *below) {
  char name[256];
  folder_make();
  clear_environment();
  if (variable) setenv(variable, folder_path(value), 1);
  snprintf(name, sizeof name, "%s/models--a--b/refs/main", below);
  folder_write_text(name, "abc123");
  snprintf(name, sizeof name, "%s/models--a--b/snapshots/abc123/config.json", below);
  folder_write_text(name, qwen);
  snprintf(name, sizeof name, "%s/models--a--b/snapshots/older/config.json", below);
  folder_write_text(name, "{}");
  plim_err err = find("a/b");
  clear_environment();
  folder_remove();
  CHECK(!err && source.origin == PLIM_ORIGIN_CACHE, "%s: %s", value, error.message);
  CHECK(strstr(source.folder, "/snapshots/abc123"), "%s", source.folder);
}

TEST(model_is_found_in_the_cache) {
  check_cached("HF_HUB_CACHE", "x", "x");
  check_cached("HF_HOME", "y", "y/hub");
  check_cached("XDG_CACHE_HOME", "z", "z/huggingface/hub");
  check_cached(NULL, "home", "home/.cache/huggingface/hub");
}

TEST(model_without_refs_is_found_if_there_is_one_snapshot) {
  folder_make();
  clear_environment();
  setenv("HF_HUB_CACHE", folder_path("hub"), 1);
  folder_write_text("hub/models--gpt2/snapshots/one/config.json", qwen);
  CHECK(!find("gpt2") && source.origin == PLIM_ORIGIN_CACHE, "%s", error.message);
  folder_write_text("hub/models--gpt2/snapshots/two/config.json", qwen);
  CHECK(!find("gpt2") && source.origin == PLIM_ORIGIN_CATALOGUE, "%s", error.message);
  clear_environment();
  folder_remove();
}

TEST(model_snapshot_without_a_configuration_is_skipped) {
  folder_make();
  clear_environment();
  setenv("HF_HUB_CACHE", folder_path("hub"), 1);
  folder_write_text("hub/models--gpt2/snapshots/one/tokenizer.json", "{}");
  CHECK(!find("gpt2") && source.origin == PLIM_ORIGIN_CATALOGUE, "%s", error.message);
  clear_environment();
  folder_remove();
}

TEST(model_id_does_not_leave_the_cache) {
  folder_make();
  clear_environment();
  setenv("HF_HUB_CACHE", folder_path("hub"), 1);
  folder_write_text("hub/models--a--b/refs/main", "../../../outside");
  folder_write_text("outside/config.json", qwen);
  CHECK(find("a/b"), "found");
  CHECK(find("../outside/x") && find("a/../b") && find("a/b/c"), "found");
  clear_environment();
  folder_remove();
}

TEST(model_is_found_in_the_catalogue) {
  folder_make();
  clear_environment();
  CHECK(!find("meta-llama/Llama-3.1-8B-Instruct"), "%s", error.message);
  CHECK(source.origin == PLIM_ORIGIN_CATALOGUE && source.config.layers == 32, "Llama 3.1");
  CHECK_U64(source.parameters, 8030261248ull);
  CHECK(!*source.folder, "%s", source.folder);
  folder_remove();
}

// A multimodal model has the keys of its language model and of its towers one level down.
TEST(multimodal_configurations_are_read) {
  CHECK(!parse("{\"model_type\": \"mistral3\", \"tie_word_embeddings\": true, \"text_config\": "
               "{\"model_type\": \"ministral3\", \"hidden_size\": 512, \"dtype\": \"float16\"}, "
               "\"vision_config\": {\"hidden_size\": 64}}"),
        "%s", error.message);
  const plim_config *c = &source.config;
  CHECK_STR(c->family->model_type, "ministral3");
  CHECK_STR(plim_config_whole(c)->model_type, "mistral3");
  CHECK(c->hidden == 512 && c->vision.hidden == 64 && c->ties_embeddings, "sizes");
  CHECK(source.dtype == PLIM_FP16, "dtype");
  CHECK(parse("{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"bert\"}}") ==
            PLIM_ERR_UNSUPPORTED,
        "another language model");
  CHECK(parse("{\"model_type\": \"gemma3\", \"vision_config\": {\"hidden_size\": -1}}"),
        "negative");
  CHECK(!parse("{\"model_type\": \"internvl\", \"vision_config\": {\"image_size\": [336, 336]}}"),
        "%s", error.message);
  CHECK(c->vision.image_size == 336, "a pair");
  CHECK(!parse("{\"model_type\": \"gemma4\", \"text_config\": {\"num_experts\": 8, "
               "\"top_k_experts\": 2}}"),
        "%s", error.message);
  CHECK(c->experts == 0, "experts without enable_moe_block");
}

// transformers' configurations list a kind for each layer, or say that each n-th layer has no window.
TEST(kinds_of_layers_are_read) {
  CHECK(!parse("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 3, \"layer_types\": "
               "[\"full_attention\", \"sliding_attention\", \"full_attention\"]}"),
        "%s", error.message);
  const plim_config *c = &source.config;
  CHECK(!plim_config_slides(c, 0) && plim_config_slides(c, 1) && !plim_config_slides(c, 2), "list");
  CHECK(!parse("{\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": 3}"), "%s",
        error.message);
  CHECK(plim_config_slides(c, 1) && !plim_config_slides(c, 2) && plim_config_slides(c, 3),
        "pattern");
  CHECK(parse("{\"model_type\": \"gemma3_text\", \"layer_types\": [\"full_attention\"]}"), "short");
  CHECK_STR(error.message, "layer_types lists 1 layers, the model has 26");
  CHECK(parse("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 1, \"layer_types\": "
              "[\"mamba\"]}") == PLIM_ERR_UNSUPPORTED,
        "unknown");
}

// Nemotron-H has a letter for each layer, newer files a list; the number of layers is that of the list.
TEST(blocks_of_layers_are_read) {
  static const char *const files[] = {
      "{\"model_type\": \"nemotron_h\", \"num_hidden_layers\": 52, "
      "\"hybrid_override_pattern\": \"ME*-\"}",
      "{\"model_type\": \"nemotron_h\", \"layers_block_type\": "
      "[\"linear_attention\", \"moe\", \"full_attention\", \"mlp\"]}",
      "{\"model_type\": \"nemotron_h\", \"layers_block_type\": "
      "[\"mamba\", \"moe\", \"attention\", \"mlp\"]}",
      "{\"model_type\": \"nemotron_h\"}"};
  const plim_config *c = &source.config;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    CHECK(!parse(files[i]), "%zu: %s", i, error.message);
    CHECK(c->layers == 4, "%zu", i);
    CHECK(plim_config_mixes(c, 0) && !plim_config_attends(c, 0) && !plim_config_feeds(c, 0), "M");
    CHECK(plim_config_is_sparse(c, 1) && plim_config_feeds(c, 1) && !plim_config_mixes(c, 1), "E");
    CHECK(plim_config_attends(c, 2) && !plim_config_mixes(c, 2) && !plim_config_feeds(c, 2), "*");
    CHECK(plim_config_feeds(c, 3) && !plim_config_is_sparse(c, 3), "-");
  }
  CHECK(parse("{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"MX\"}") ==
            PLIM_ERR_UNSUPPORTED,
        "a letter that nobody knows");
  CHECK(parse("{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 1, \"layer_types\": "
              "[\"moe\"]}") == PLIM_ERR_UNSUPPORTED,
        "of another family");
}

// A state space is as wide as mamba_d_ssm, or else mamba_expand times the hidden size; attention may be beside it.
TEST(state_spaces_are_read) {
  const plim_config *c = &source.config;
  CHECK(!parse("{\"model_type\": \"falcon_h1\", \"hidden_size\": 512, \"mamba_d_ssm\": null, "
               "\"mamba_d_head\": \"auto\", \"mamba_n_heads\": 16}"),
        "%s", error.message);
  CHECK(c->state_width == 1024 && plim_config_mixes(c, 0) && plim_config_attends(c, 0), "both");
  CHECK(parse("{\"model_type\": \"falcon_h1\", \"mamba_n_heads\": 7}") == PLIM_ERR_UNSUPPORTED,
        "heads that do not fit");
  CHECK(!parse("{\"model_type\": \"granitemoehybrid\", \"num_hidden_layers\": 2, "
               "\"layer_types\": [\"mamba\", \"attention\"]}"),
        "%s", error.message);
  CHECK(plim_config_mixes(c, 0) && plim_config_attends(c, 1) && !plim_config_turns(c, 1), "nope");
  CHECK(!parse("{\"model_type\": \"granitemoehybrid\", \"position_embedding_type\": \"rope\"}"),
        "%s", error.message);
  CHECK(plim_config_turns(c, 1) && !plim_config_attends(c, 0), "rope");
  CHECK(!parse("{\"model_type\": \"bamba\", \"attn_layer_indices\": [9, 18]}"), "%s",
        error.message);
  CHECK(plim_config_attends(c, 9) && plim_config_mixes(c, 10), "marked");
  CHECK(!parse("{\"model_type\": \"bamba\"}") && plim_config_mixes(c, 31), "%s", error.message);
}

// Numbers of layers that attend to an image, or have experts; and a chunk in place of a window.
TEST(numbers_of_layers_are_read) {
  const plim_config *c = &source.config;
  CHECK(!parse("{\"model_type\": \"mllama\", \"text_config\": {\"num_hidden_layers\": 4, "
               "\"cross_attention_layers\": [0, 2]}}"),
        "%s", error.message);
  CHECK(plim_config_crosses(c, 0) && !plim_config_crosses(c, 1) && plim_config_crosses(c, 2) &&
            !plim_config_crosses(c, 3),
        "the list replaces the default");
  CHECK(!parse("{\"model_type\": \"mllama\"}"), "%s", error.message);
  CHECK(plim_config_crosses(c, 38) && !plim_config_crosses(c, 39), "default");
  CHECK(parse("{\"model_type\": \"mllama_text_model\"}") == PLIM_ERR_UNSUPPORTED, "no tower");
  CHECK(!parse("{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, \"moe_layers\": [1], "
               "\"layer_types\": [\"full_attention\", \"chunked_attention\", "
               "\"full_attention\", \"full_attention\"]}"),
        "%s", error.message);
  CHECK(!plim_config_is_sparse(c, 0) && plim_config_is_sparse(c, 1), "experts");
  CHECK(!plim_config_slides(c, 0) && plim_config_slides(c, 1), "chunks");
  CHECK(!parse("{\"model_type\": \"llama4_text\", \"interleave_moe_layer_step\": 2}"), "%s",
        error.message);
  CHECK(!plim_config_is_sparse(c, 0) && plim_config_is_sparse(c, 1), "every second layer");
  CHECK(plim_config_slides(c, 2) && !plim_config_slides(c, 3), "layers without positions");
  CHECK(parse("{\"model_type\": \"llama4_text\", \"attention_chunk_size\": null}") ==
            PLIM_ERR_UNSUPPORTED,
        "no chunks");
}

TEST(model_is_its_keys) {
  CHECK(!find("model_type=llama hidden_size=512 num_hidden_layers=4 num_attention_heads=8 "
              "vocab_size=1000 tie_word_embeddings=true"),
        "%s", error.message);
  const plim_config *c = &source.config;
  CHECK(source.origin == PLIM_ORIGIN_SHAPE && source.dtype == PLIM_DTYPE_COUNT, "origin");
  CHECK(c->hidden == 512 && c->layers == 4 && c->head_dim == 64 && c->ties_embeddings, "extents");
  CHECK(find("model_type=llama hiden_size=512") == PLIM_ERR_ARGUMENT, "a slip");
  CHECK_STR(error.message, "hiden_size is not a key of any model configuration");
  CHECK(find("model_type=llama small") == PLIM_ERR_ARGUMENT, "no pair");
  CHECK_STR(error.message, "\"small\" is not of the form KEY=VALUE");
  CHECK(find("model_type=jamba hidden_size=512") == PLIM_ERR_UNSUPPORTED, "not followed");
  CHECK(find("model_type=llama num_attention_heads=7 num_key_value_heads=2"), "what cannot be");
}

TEST(unknown_model_names_get_suggestions) {
  folder_make();
  clear_environment();
  CHECK(find("lama-3.1-8b") == PLIM_ERR_ARGUMENT, "found");
  CHECK_STR(error.message, "no model is called \"lama-3.1-8b\"; did you mean \"llama-3.1-8b\"?");
  CHECK_STR(error.hint, "give the path of a config.json or of the folder that contains it; "
                        "plimsoll help models lists the names");
  CHECK(find("llama3") == PLIM_ERR_ARGUMENT, "found");
  CHECK_STR(error.message, "\"llama3\" could be llama-3-8b or llama-3-70b");
  CHECK(find("someone/else") == PLIM_ERR_ARGUMENT, "found");
  CHECK_STR(error.message,
            "the config.json of someone/else is not in the local Hugging Face cache");
  CHECK_STR(
      error.hint,
      "add --fetch to download it from the hub, or give the path of a config.json; if it is a "
      "fine-tune of a known model (plimsoll help models), give that one: --model NAME");
  folder_remove();
}

TEST_MAIN
