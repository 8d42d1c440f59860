// Versions that a project asks for, in the formats in which people write them.
#include <string.h>

#include "project_pins.h"
#include "test.h"

static plim_pins read_text(const char *text) {
  plim_pins pins = {0};
  plim_pins_read(&pins, text, strlen(text), "file");
  return pins;
}

#define PIN(pins, library) ((pins).of[PLIM_LIBRARY_##library])

TEST(requirements) {
  plim_pins p = read_text(
      "# transformers==4.50\ndatasets\ntransformers[torch]>=4.45,<5  # pinned\n"
      "torch==2.9.1+cu128\ntorchvision==0.20\npeft\ntrl == 0.12.2 ; python_version > '3.9'\n");
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4057u);
  CHECK_U64((unsigned)PIN(p, TRANSFORMERS).line, 3u);
  CHECK(strcmp(PIN(p, TRANSFORMERS).asked, ">=4.45,<5") == 0, "%s", PIN(p, TRANSFORMERS).asked);
  CHECK_U64(PIN(p, TORCH).release, 2009u);
  CHECK_U64(PIN(p, PEFT).release, 0u);
  CHECK_U64(PIN(p, TRL).release, 12u);
  CHECK_U64((unsigned)PIN(p, TRL).line, 7u);
}

TEST(pyproject_and_poetry) {
  plim_pins p = read_text(
      "[project]\ndependencies = [\n  \"transformers>=4.46, <4.50\",\n  'peft~=0.18.0',\n]\n"
      "[tool.poetry.dependencies]\ntorch = \"^2.6\"\ntrl = {version = \"0.24.0\", extras = "
      "[\"x\"]}\n");
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4049u);
  CHECK_U64(PIN(p, PEFT).release, 18u);
  CHECK_U64(PIN(p, TORCH).release, 2015u);
  CHECK_U64(PIN(p, TRL).release, 24u);
}

static bool has(const plim_pins *p, plim_package package) { return p->packages[package].is_there; }

TEST(packages_of_kernels) {
  plim_pins p = read_text("transformers==5.14\nflash_linear_attention>=0.4.1\n");
  CHECK(has(&p, PLIM_PACKAGE_FLA) && !has(&p, PLIM_PACKAGE_CAUSAL_CONV1D), "FLA alone");
  CHECK_U64((unsigned)p.packages[PLIM_PACKAGE_FLA].line, 2u);
  p = read_text("RUN pip uninstall -y causal-conv1d\nRUN pip install fla-core==0.4.1\n");
  CHECK(has(&p, PLIM_PACKAGE_FLA) && !has(&p, PLIM_PACKAGE_CAUSAL_CONV1D), "uninstalled");
  p = read_text("[project]\ndependencies = [\n  \"causal-conv1d\",\n]\n"
                "[project.optional-dependencies]\nfast = [\"flash-linear-attention\"]\n");
  CHECK(!has(&p, PLIM_PACKAGE_FLA) && has(&p, PLIM_PACKAGE_CAUSAL_CONV1D), "an extra");
  p = read_text("[[package]]\nname = \"fla-core\"\nversion = \"0.4.1\"\n");
  CHECK(!has(&p, PLIM_PACKAGE_FLA), "a lock file lists packages of extras, too");
  p = read_text(
      "setup(install_requires=['causal_conv1d'],\n      extras_require={'fast': ['fla-core']})\n");
  CHECK(!has(&p, PLIM_PACKAGE_FLA) && has(&p, PLIM_PACKAGE_CAUSAL_CONV1D), "an extra of setup()");
}

TEST(lock_files) {
  plim_pins p = read_text(
      "[[package]]\nname = \"torch\"\nversion = \"2.7.1\"\n\n[[package]]\nname = \"transformers\"\n"
      "version = \"4.52.4\"\ndependencies = [\n    { name = \"torch\" },\n]\n");
  CHECK_U64(PIN(p, TORCH).release, 2007u);
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4052u);
  CHECK_U64((unsigned)PIN(p, TRANSFORMERS).line, 7u);
}

TEST(dockerfiles_and_conda) {
  plim_pins p = read_text("FROM python:3.11\nRUN pip install torch==2.4.0 transformers==4.46.3 "
                          "\\\n    \"peft>=0.13,<0.15\" && rm -rf x\n");
  CHECK_U64(PIN(p, TORCH).release, 2004u);
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4046u);
  CHECK_U64(PIN(p, PEFT).release, 14u);
  p = read_text("dependencies:\n  - pytorch=2.5\n  - pip:\n    - transformers==4.48.3\n");
  CHECK_U64(PIN(p, TORCH).release, 2005u);
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4048u);
}

TEST(pipfile_locks) {
  plim_pins p =
      read_text("{\n \"default\": {\n  \"torch\": {\n   \"hashes\": [\n    \"sha256:0\"\n   ],\n"
                "   \"version\": \"==2.7.1\"\n  },\n  \"numpy\": {\n   \"version\": \"==1.0\"\n"
                "  },\n  \"transformers\": {\n   \"version\": \"==4.52.4\"\n  }\n }\n}\n");
  CHECK_U64(PIN(p, TORCH).release, 2007u);
  CHECK_U64((unsigned)PIN(p, TORCH).line, 7u);
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4052u);
}

TEST(images_of_containers) {
  plim_pins p =
      read_text("FROM pytorch/pytorch:2.4.1-cuda12.1-cudnn9-runtime\nRUN pip install trl\n");
  CHECK_U64(PIN(p, TORCH).release, 2004u);
  p = read_text("image: pytorch:latest\n");
  CHECK_U64(PIN(p, TORCH).release, 0u);
}

TEST(setup_and_hashes) {
  plim_pins p = read_text("install_requires=['transformers==4.46.3', \"torch>=2.4\"],\n");
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4046u);
  CHECK_U64(PIN(p, TORCH).release, 2015u);
  p = read_text("transformers==4.57.6 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n");
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4057u);
}

TEST(ranges_leave_a_choice) {
  plim_pins p = read_text("transformers>=4.46,<5\ntorch==2.9.1\ntrl~=0.24.0\n");
  CHECK_U64(PIN(p, TRANSFORMERS).oldest, 4046u);
  CHECK_U64(PIN(p, TRANSFORMERS).release, 4057u);
  CHECK_U64(PIN(p, TORCH).oldest, 2009u);
  CHECK_U64(PIN(p, TRL).oldest, 24u);
}

TEST(other_names_and_addresses_are_not_versions) {
  plim_pins p = read_text(
      "sentence-transformers==3.0\nmy-torch==1.0\ntransformers @ git+https://x/transformers@main\n"
      "torch\ntransformers_extra==4.50\n--extra-index-url https://x/torch==9\n");
  CHECK_U64(PIN(p, TRANSFORMERS).release, 0u);
}

// Whether huggingface-hub is asked for in versions before 1.0 only.
TEST(a_package_that_newer_releases_do_not_work_with) {
  static const struct {
    const char *text;
    bool is_below_1;
  } asked[] = {{"huggingface-hub>=0.33.4,<1.0", true}, {"huggingface_hub==0.36.0", true},
               {"huggingface_hub<=0.99\n", true},      {"huggingface-hub~=0.30", true},
               {"huggingface-hub>=0.33.4", false},     {"huggingface-hub<=1.0", false},
               {"huggingface-hub>=0.30,<2.0", false},  {"huggingface-hub", false},
               {"huggingface-hub!=0.30.0", false},     {"huggingface-hub==1.5.0", false}};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    CHECK(read_text(asked[i].text).hub.is_below_1 == asked[i].is_below_1, "%s", asked[i].text);
}

TEST(packages_that_plans_use) {
  plim_pins p = read_text("bitsandbytes>=0.46.1\nflash_attn==2.8\n# deepspeed\n");
  CHECK(plim_pins_install(&p, "bitsandbytes") && plim_pins_install(&p, "flash-attn"), "both");
  CHECK(!plim_pins_install(&p, "deepspeed") && !plim_pins_install(&p, "liger-kernel"), "others");
}

TEST_MAIN
