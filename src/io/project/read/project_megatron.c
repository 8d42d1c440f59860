// Reads the shape of a model from Megatron's flags. Defaults are those of its arguments.py.
#include <stdio.h>
#include <string.h>

#include "conditions.h"
#include "key_names.h"
#include "project_shape.h"

typedef struct {
  const plim_project *p;
  plim_shape *out;
  bool is_swiglu, is_rms, is_rotary, has_biases, has_qkv_bias, has_qk_norm, is_tied;
  long long layers, hidden, inner, heads, kv_heads, head_dim, positions, vocabulary;
  double dropout, attention_dropout;
} megatron;

// ---- flags ------------------------------------------------------------------------------------------

static const plim_settings *settings_of(const megatron *m) {
  return &m->p->files.at[m->out->file]->settings;
}

// Whether the setting is this flag of a command that trains, and is not overridden there.
static bool is_flag(const plim_settings *s, const plim_setting *setting, const char *wanted) {
  char name[PLIM_KEY_BYTES];
  if (setting->is_aside || strncmp(setting->key, "--", 2) != 0) return false;
  plim_key_name(setting->key, name);
  name[strcspn(name, "#")] = 0;
  return strcmp(name, wanted) == 0 && !plim_setting_is_passed_over(s, setting);
}

// The last occurrence of the flag in the command, also from a shell array; NULL: none.
static const plim_setting *flag(const megatron *m, const char *wanted) {
  const plim_settings *s = settings_of(m);
  for (size_t i = s->at.len; i-- > 0;)
    if (is_flag(s, &s->at.at[i], wanted)) return &s->at.at[i];
  return NULL;
}

// The length of the flag without the number of its command: --swiglu of --swiglu#2.
static int flag_bytes(const plim_setting *setting) { return (int)strcspn(setting->key, "#"); }

static bool is_word(const megatron *m, const char *name, const char *word, bool otherwise) {
  const plim_setting *setting = flag(m, name);
  if (!setting) return otherwise;
  return setting->value.kind == PLIM_VALUE_TEXT && strcmp(setting->value.text, word) == 0;
}

static double real(const megatron *m, const char *name, double otherwise) {
  const plim_setting *setting = flag(m, name);
  if (!setting) return otherwise;
  const plim_value *v =
      setting->value.kind == PLIM_VALUE_DERIVED ? &setting->computed : &setting->value;
  return v->kind == PLIM_VALUE_REAL      ? v->real
         : v->kind == PLIM_VALUE_INTEGER ? (double)v->integer
                                         : otherwise;
}

#define NAME_HINT "or name a model of the same shape: --model NAME"

// False if it is refused because the flag is set but is not a number.
static bool number(megatron *m, const char *name, long long otherwise, long long *out) {
  const plim_setting *setting = flag(m, name);
  *out = otherwise;
  if (!setting || plim_shape_number(m->p, m->out->file, setting, out)) return true;
  plim_shape_refuse(m->out, "write a number there, " NAME_HINT,
                    "the value of %.*s, which is part of the model's shape, is not a known number",
                    flag_bytes(setting), setting->key);
  return false;
}

// ---- flags that are not supported -------------------------------------------------------------------

static const struct {
  const char *flag, *what;
} unfollowed[] = {
    {"num_experts", "a mixture of experts"},
    {"multi_latent_attention", "multi-latent attention"},
    {"mtp_num_layers", "multi-token prediction"},
    {"is_hybrid_model", "a hybrid of layer types"},
    {"hybrid_override_pattern", "a hybrid of layer types"},
    {"squared_relu", "a squared ReLU"},
    {"window_size", "sliding-window attention"},
    {"heterogeneous_layers_config_path", "a mix of layer shapes"},
};

static bool refuse_unfollowed(megatron *m) {
  for (size_t i = 0; i < sizeof unfollowed / sizeof *unfollowed; i++) {
    const plim_setting *setting = flag(m, unfollowed[i].flag);
    if (!setting) continue;
    plim_shape_refuse(
        m->out,
        "run it a few steps, record a memory snapshot and give it to plimsoll replay; " NAME_HINT,
        "%.*s: %s is not supported yet in Megatron models", flag_bytes(setting), setting->key,
        unfollowed[i].what);
    return true;
  }
  return false;
}

// ---- several commands -------------------------------------------------------------------------------

// Counts the commands that have the flag; false if they have different values.
static bool count_flag(const megatron *m, const char *wanted, size_t *count) {
  const plim_settings *s = settings_of(m);
  const plim_value *first = NULL;
  *count = 0;
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_value *value = &s->at.at[i].value;
    if (!is_flag(s, &s->at.at[i], wanted)) continue;
    if (first && !plim_value_same(first, value)) return false;
    first = value;
    ++*count;
  }
  return true;
}

// Several commands may train different models. They are accepted only if all have the same shape flags.
static bool refuse_several(megatron *m) {
  static const char *const names[] = {"num_layers",
                                      "hidden_size",
                                      "ffn_hidden_size",
                                      "num_attention_heads",
                                      "group_query_attention",
                                      "num_query_groups",
                                      "kv_channels",
                                      "max_position_embeddings",
                                      "vocab_size",
                                      "make_vocab_size_divisible_by",
                                      "tensor_model_parallel_size",
                                      "tokenizer_type",
                                      "swiglu",
                                      "normalization",
                                      "disable_bias_linear",
                                      "add_qkv_bias",
                                      "qk_layernorm",
                                      "untie_embeddings_and_output_weights",
                                      "position_embedding_type",
                                      "use_rotary_position_embeddings",
                                      "hidden_dropout",
                                      "attention_dropout"};
  size_t commands, count;
  count_flag(m, names[0], &commands);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    bool is_same = count_flag(m, names[i], &count);
    if (is_same && (!count || commands < 2 || count == commands)) continue;
    const plim_setting *setting = flag(m, names[i]);
    plim_shape_refuse(m->out, "give a script with only one of them, " NAME_HINT,
                      "several commands define a model, and they differ in %.*s",
                      flag_bytes(setting), setting->key);
    return true;
  }
  return false;
}

// ---- reading ----------------------------------------------------------------------------------------

static void read_kind(megatron *m) {
  m->is_swiglu = flag(m, "swiglu");
  m->is_rms = is_word(m, "normalization", "RMSNorm", false);
  m->is_rotary = is_word(m, "position_embedding_type", "rope", false) ||
                 flag(m, "use_rotary_position_embeddings");
  m->has_biases = !flag(m, "disable_bias_linear");
  m->has_qkv_bias = flag(m, "add_qkv_bias");
  m->has_qk_norm = flag(m, "qk_layernorm");
  m->is_tied = !flag(m, "untie_embeddings_and_output_weights");
  m->dropout = real(m, "hidden_dropout", 0.1);
  m->attention_dropout = real(m, "attention_dropout", 0.1);
}

static bool read_needed(megatron *m) {
  const struct {
    const char *name, *flag;
    long long *out;
  } needed[] = {
      {"num_layers", "--num-layers", &m->layers},
      {"hidden_size", "--hidden-size", &m->hidden},
      {"num_attention_heads", "--num-attention-heads", &m->heads},
      {"max_position_embeddings", "--max-position-embeddings", &m->positions},
  };
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    if (!number(m, needed[i].name, 0, needed[i].out)) return false;
    if (*needed[i].out) continue;
    plim_shape_refuse(m->out, "add it to the command (Megatron requires it), " NAME_HINT,
                      "the flags define the model's shape, but %s is missing", needed[i].flag);
    return false;
  }
  return true;
}

// By default, SwiGLU's width is two thirds of four times the hidden size, in steps of 64.
static bool read_widths(megatron *m) {
  long long inner = m->is_swiglu ? 8 * m->hidden / 3 / 64 * 64 : 4 * m->hidden;
  return number(m, "ffn_hidden_size", inner, &m->inner) &&
         number(m, "kv_channels", m->hidden / m->heads, &m->head_dim) &&
         number(m, "num_query_groups", 1, &m->kv_heads);
}

// The tokenizer's size (NullTokenizer has one token more), padded (megatron/training/tokenizer).
static bool read_vocabulary(megatron *m) {
  long long size, step, ranks;
  if (!number(m, "vocab_size", 0, &size)) return false;
  if (!number(m, "make_vocab_size_divisible_by", 128, &step)) return false;
  if (!number(m, "tensor_model_parallel_size", 1, &ranks)) return false;
  if (!size) {
    plim_shape_refuse(m->out, "add --vocab-size N to the command, " NAME_HINT,
                      "the flags define the model's shape, but --vocab-size is missing, and "
                      "plimsoll does not read the tokenizer");
    return false;
  }
  size += is_word(m, "tokenizer_type", "NullTokenizer", false);
  step *= ranks;
  m->vocabulary = (size + step - 1) / step * step;
  return true;
}

// ---- families ---------------------------------------------------------------------------------------

static bool is_like_llama(const megatron *m) { return m->is_swiglu && m->is_rms && m->is_rotary; }

static bool is_like_gpt2(const megatron *m) {
  bool has_positions = is_word(m, "position_embedding_type", "learned_absolute", true);
  bool has_norm = is_word(m, "normalization", "LayerNorm", true);
  bool is_plain = m->head_dim * m->heads == m->hidden && !flag(m, "group_query_attention");
  return !m->is_swiglu && has_norm && has_positions && !m->is_rotary && m->has_biases &&
         !m->has_qk_norm && m->is_tied && is_plain;
}

// The family related to Llama that has these biases and norms; NULL if there is none.
static const char *relative(const megatron *m) {
  if (m->has_qk_norm) return m->has_biases || m->has_qkv_bias ? NULL : "qwen3";
  return m->has_qkv_bias && !m->has_biases ? "qwen2" : "llama";
}

static void write_llama(megatron *m, const char *family) {
  plim_shape *s = m->out;
  bool has_groups = flag(m, "group_query_attention");
  snprintf(s->text, sizeof s->text, "model_type=%s", family);
  plim_shape_add(s, "num_hidden_layers", m->layers);
  plim_shape_add(s, "hidden_size", m->hidden);
  plim_shape_add(s, "intermediate_size", m->inner);
  plim_shape_add(s, "num_attention_heads", m->heads);
  plim_shape_add(s, "num_key_value_heads", has_groups ? m->kv_heads : m->heads);
  plim_shape_add(s, "head_dim", m->head_dim);
  plim_shape_add(s, "vocab_size", m->vocabulary);
  plim_shape_add(s, "max_position_embeddings", m->positions);
  plim_shape_add(s, "tie_word_embeddings", m->is_tied);
  if (m->attention_dropout > 0) plim_shape_add_real(s, "attention_dropout", m->attention_dropout);
  if (m->has_biases) plim_shape_add(s, "attention_bias", 1);
  if (m->has_biases) plim_shape_add(s, "mlp_bias", 1);
}

static void write_gpt2(megatron *m) {
  plim_shape *s = m->out;
  snprintf(s->text, sizeof s->text, "model_type=gpt2");
  plim_shape_add(s, "n_layer", m->layers);
  plim_shape_add(s, "n_embd", m->hidden);
  plim_shape_add(s, "n_inner", m->inner);
  plim_shape_add(s, "n_head", m->heads);
  plim_shape_add(s, "vocab_size", m->vocabulary);
  plim_shape_add(s, "n_positions", m->positions);
  plim_shape_add_real(s, "resid_pdrop", m->dropout);
  plim_shape_add_real(s, "embd_pdrop", m->dropout);
  plim_shape_add_real(s, "attn_pdrop", m->attention_dropout);
}

static void refuse_kind(megatron *m) {
  const plim_setting *positions = flag(m, "position_embedding_type");
  bool is_text = positions && positions->value.kind == PLIM_VALUE_TEXT;
  plim_shape_refuse(
      m->out, "supported are layers like Llama's (--swiglu, RMSNorm, rope) and like GPT-2's",
      "no supported architecture has these layers: %s, %s, %.24s positions, %s biases%s%s",
      m->is_swiglu ? "swiglu" : "gelu", m->is_rms ? "RMSNorm" : "LayerNorm",
      m->is_rotary ? "rope"
      : is_text    ? positions->value.text
                   : "learned",
      m->has_biases     ? "with"
      : m->has_qkv_bias ? "only qkv"
                        : "without",
      m->has_qk_norm ? ", q and k norms" : "", m->is_tied ? ", a tied head" : "");
}

static void write_model(megatron *m) {
  const char *family = is_like_llama(m) ? relative(m) : NULL;
  if (is_like_gpt2(m)) write_gpt2(m);
  else if (!family) refuse_kind(m);
  else if (m->dropout > 0)
    plim_shape_refuse(
        m->out, "--hidden-dropout 0.0, " NAME_HINT,
        "a dropout of %g after each layer is not supported yet for the %s architecture%s",
        m->dropout, family, flag(m, "hidden_dropout") ? "" : " (it is Megatron's default)");
  else write_llama(m, family);
}

void plim_shape_of_megatron(const plim_project *p, plim_shape *out) {
  megatron m = {.p = p, .out = out};
  for (size_t i = 0; i < p->files.len && !out->is_there; i++) {
    if (p->files.at[i]->is.dialect != PLIM_DIALECT_MEGATRON) continue;
    out->file = i;
    out->is_there = flag(&m, "num_layers") || flag(&m, "hidden_size");
  }
  if (!out->is_there || refuse_unfollowed(&m) || refuse_several(&m)) return;
  read_kind(&m);
  if (!read_needed(&m) || !read_widths(&m) || !read_vocabulary(&m)) return;
  write_model(&m);
  if (*out->text)
    snprintf(
        out->origin, sizeof out->origin,
        "the model is built from Megatron's flags: %lld layers, hidden size %lld, vocabulary %lld",
        m.layers, m.hidden, m.vocabulary);
}
