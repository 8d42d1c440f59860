// target_modules as a regular expression: peft compares it with whole paths (re.fullmatch).
#include "lora_pattern.h"
#include "test.h"

TEST(names_are_no_expressions) {
  CHECK(!plim_lora_is_pattern("q_proj,self_attn.v_proj"), "names");
  CHECK(plim_lora_is_pattern(".*language_model\\..*\\.(q_proj|v_proj)"),
        "peft's default for gemma4");
}

TEST(expressions_fit_whole_paths) {
  static const struct {
    const char *pattern, *path;
    bool fits;
  } cases[] = {
      {"model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj", "model.layers.12.mlp.up_proj", true},
      {"model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj", "model.layers.12.mlp.down_proj", false},
      {"layers.\\d+.mlp.up_proj", "model.layers.1.mlp.up_proj", false},
      {"model.layers.\\d+.(x.)?mlp.up_proj", "model.layers.1.mlp.up_proj", true},
      {"(?:.*?)\\.q_proj", "model.layers.1.self_attn.q_proj", true},
      {".*\\.q_proj", "model.layers.1.self_attn.q-proj", false},
      {"a\\.b", "a.b", true},
      {"a\\.b", "axb", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(plim_lora_pattern_fits(cases[i].pattern, cases[i].path) == cases[i].fits, "%s with %s",
          cases[i].pattern, cases[i].path);
}

TEST(what_is_not_understood_is_not_valid) {
  static const char *const invalid[] = {"(?!lm_head).*", "(",           "[",
                                        "a\\",           "(?P<name>a)", "\\bq_proj"};
  for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
    CHECK(!plim_lora_pattern_is_valid(invalid[i]), "%s", invalid[i]);
}

TEST_MAIN
