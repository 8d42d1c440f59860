// Findings of the pre-flight list about allocator settings, in files and in the environment: they appear only if they
// are true, with the place and what to type.
#include "checking.h"

TEST(check_of_an_unset_allocator) {
  begin();
  GO();
  CHECK_FOUND("allocator", CHECK_NOTE);
  CHECK_SAYS(found("allocator")->fix, "expandable_segments:True");
}

TEST(check_points_at_the_byte_in_the_environment) {
  begin();
  cuda_conf = "max_split_size_mb:8";
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
  const check_finding *f = found("allocator.invalid");
  CHECK_STR(f->excerpt, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8");
  CHECK(f->excerpt[f->caret] == '8', "the caret is below '%c'", f->excerpt[f->caret]);
  CHECK_SAYS(f->fix, "max_split_size_mb:128");
}

// However long the value is: the part around the byte is shown, and a command that is suggested is whole.
TEST(check_of_long_values) {
  enum { REPEATS = 40 };
  static const char item[] = "max_split_size_mb:200,";
  char value[REPEATS * sizeof item + 32] = "", script[sizeof value + 64], want[sizeof value + 64];
  for (int i = 0; i < REPEATS; i++) strcat(value, item);
  char *end = strchr(value, 0);
  strcpy(end, "max_split_size_mb:8");
  begin();
  cuda_conf = value;
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
  const check_finding *f = found("allocator.invalid");
  CHECK_STR(f->excerpt + f->caret, "8");
  strcpy(end, "max_split_size_mb:201");
  begin();
  conf = value;
  GO();
  snprintf(want, sizeof want, "export PYTORCH_CUDA_ALLOC_CONF=%s", value);
  CHECK_STR(found("allocator.name")->fix, want);
  begin();
  snprintf(script, sizeof script, "PYTORCH_CUDA_ALLOC_CONF=\"%s\"\npython train.py\n", value);
  given("run.sh", script);
  given("train.py", trainer);
  GO();
  snprintf(want, sizeof want, "export PYTORCH_CUDA_ALLOC_CONF=\"%s\"", value);
  CHECK_STR(found("shell.unexported")->fix, want);
}

TEST(check_points_at_the_byte_in_files) {
  static const struct {
    const char *name, *text;
    int line;
  } cases[] = {
      {"run.sh", "#!/bin/sh\nexport PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:true\"\n", 2},
      {"Dockerfile", "FROM x\nENV PYTORCH_ALLOC_CONF=expandable_segments:true\n", 2},
      {"train.py",
       "import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:true'\n", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    given(cases[i].name, cases[i].text);
    GO();
    CHECK_FOUND("allocator.invalid", CHECK_FAILS);
    const check_finding *f = found("allocator.invalid");
    CHECK(f->line == cases[i].line, "%s:%d", cases[i].name, f->line);
    CHECK(strncmp(f->excerpt + f->caret, "true", 4) == 0, "%s", f->excerpt + f->caret);
  }
}

// The setting of a script replaces that of the environment; setdefault does not.
TEST(check_knows_which_setting_takes_effect) {
  begin();
  cuda_conf = "max_split_size_mb:8";
  given("run.sh", "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64\n");
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_WARNING);
  begin();
  cuda_conf = "max_split_size_mb:8";
  given("train.py",
        "import os\nos.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'max_split_size_mb:64')\n");
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
}

TEST(check_of_a_variable_that_is_not_exported) {
  begin();
  given("run.sh", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8\npython train.py\n");
  given("train.py", trainer);
  GO();
  CHECK_NOT_FOUND("allocator.invalid");
  CHECK_SAYS(found("allocator")->what, "is not exported");
  CHECK_FOUND("shell.unexported", CHECK_WARNING);
  CHECK_SAYS(found("shell.unexported")->what, "PYTORCH_CUDA_ALLOC_CONF is set but not exported");
  CHECK_STR(found("shell.unexported")->fix, "export PYTORCH_CUDA_ALLOC_CONF with a valid value "
                                            "(max_split_size_mb is 8, the smallest allowed is 20)");
  CHECK(c.files.project.knobs[PLIM_KNOB_ALLOC_CONF].origin == PLIM_ABSENT, "it does not count");
  begin();
  given("run.sh", "PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"\npython train.py\n");
  given("train.py", trainer);
  GO();
  CHECK_STR(found("shell.unexported")->fix,
            "export PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"");
  begin();
  given("run.sh", "PYTORCH_CUDA_ALLOC_CONF=\npython train.py\n");
  given("train.py", trainer);
  GO();
  CHECK_SAYS(found("shell.unexported")->fix, "delete the line");
  begin();
  cuda_conf = "expandable_segments:True"; // exported where the script is started
  given("run.sh", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8\npython train.py\n");
  given("train.py", trainer);
  GO();
  CHECK_NOT_FOUND("shell.unexported");
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
}

// None is lost, however many there are.
TEST(check_of_many_places) {
  enum { PLACES = 60 };
  char text[PLACES * 64] = "";
  for (int i = 0; i < PLACES; i++)
    strcat(text, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 python eval.py\n");
  strcat(text, "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8\n");
  begin();
  given("run.sh", text);
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
}

TEST(check_of_both_names) {
  begin();
  cuda_conf = "expandable_segments:True";
  conf = "max_split_size_mb:64";
  GO();
  CHECK_FOUND("allocator.both", CHECK_WARNING);
  begin();
  cuda_conf = "expandable_segments:True";
  conf = " expandable_segments : True ";
  GO();
  CHECK_NOT_FOUND("allocator.both");
  begin();
  conf = "expandable_segments:True";
  GO();
  CHECK_FOUND("allocator.name", CHECK_WARNING);
  CHECK_STR(found("allocator.name")->fix,
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

TEST(check_of_conflicting_allocator_settings) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"expandable_segments:True,max_split_size_mb:128", "with max_split_size_mb"},
      {"expandable_segments:True,garbage_collection_threshold:0.8",
       "combines expandable_segments with garbage_collection_threshold"},
      {"garbage_collection_threshold:0.8", "without a memory limit"},
      {"garbage_collection_threshold:0.8,per_process_memory_fraction:0.9", NULL},
      {"expandable_segments:True", NULL},
      {"max_split_size_mb:128,roundup_power2_divisions:8", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    cuda_conf = cases[i].text;
    GO();
    const check_finding *f = found("allocator.fight");
    CHECK(!f == !cases[i].part, "%s: %s", cases[i].text, f ? f->what : "nothing");
    if (f) CHECK_SAYS(f->what, cases[i].part);
  }
}

TEST(check_of_another_backend) {
  begin();
  cuda_conf = "backend:cudaMallocAsync";
  GO();
  CHECK_FOUND("allocator.backend", CHECK_NOTE);
  CHECK_NOT_FOUND("allocator.invalid");
}

TEST(check_of_expandable_segments_on_wsl) {
  begin();
  c.machine.is_wsl = true;
  cuda_conf = "expandable_segments:True";
  GO();
  CHECK_FOUND("allocator.fight", CHECK_WARNING);
}

TEST_MAIN
