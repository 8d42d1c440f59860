// Decides which commands start a training and which only prepare or accompany it.
#include <ctype.h>
#include <string.h>

#include "arguments.h"

static const char *const utilities[] = {
    ".",        ":",        "[",          "alias",       "apt",    "apt-get",  "awk",
    "basename", "break",    "cat",        "cd",          "chmod",  "chown",    "column",
    "command",  "conda",    "continue",   "cp",          "curl",   "cut",      "date",
    "df",       "dirname",  "dpkg",       "du",          "echo",   "egrep",    "eval",
    "exit",     "export",   "false",      "find",        "free",   "fuser",    "getopt",
    "getopts",  "git",      "grep",       "head",        "hf",     "hostname", "huggingface-cli",
    "jq",       "kill",     "killall",    "ldconfig",    "let",    "ln",       "local",
    "ls",       "make",     "mamba",      "mapfile",     "mkdir",  "mktemp",   "module",
    "mv",       "nvcc",     "nvidia-smi", "pgrep",       "pip",    "pip3",     "pkill",
    "popd",     "printf",   "ps",         "pushd",       "pwd",    "read",     "readarray",
    "readlink", "readonly", "realpath",   "return",      "rm",     "rmdir",    "rsync",
    "scancel",  "scontrol", "scp",        "sed",         "seq",    "set",      "shift",
    "shopt",    "sleep",    "sort",       "source",      "squeue", "ssh",      "sync",
    "tail",     "tar",      "tee",        "tensorboard", "test",   "tmux",     "top",
    "touch",    "tr",       "trap",       "true",        "type",   "typeset",  "declare",
    "ulimit",   "umask",    "uname",      "unalias",     "uniq",   "unset",    "unzip",
    "wait",     "wandb",    "watch",      "wc",          "wget",   "which",    "whoami",
    "yum",
};

static const char *const launchers[] = {
    "accelerate", "axolotl", "colossalai",       "composer", "deepspeed", "horovodrun",
    "lightning",  "litgpt",  "llamafactory-cli", "ludwig",   "swift",     "torchrun",
    "trl",        "tune",    "xtuner",
};

// Modules for python -m that do not train.
static const char *const tools[] = {
    "pip",        "venv", "ensurepip", "json.tool", "http.server",     "tensorboard", "pytest",
    "virtualenv", "site", "ipykernel", "build",     "nltk.downloader", "spacy"};

// Whether the word, or the last part of its path, is this name.
static bool is_program(const char *text, const plim_argument *a, const char *name) {
  size_t n = strlen(name), size = a->head.end - a->head.begin;
  if (!plim_argument_ends(text, a, name)) return false;
  return size == n || text[a->head.end - n - 1] == '/';
}

static bool is_one_of(const char *text, const plim_argument *a, const char *const *names,
                      size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_program(text, a, names[i])) return true;
  return false;
}

// python, python3 and python3.11, but not pypy.
static bool is_python(const char *text, const plim_argument *a) {
  size_t end = a->head.end;
  if (a->has_tail) return false;
  while (end > a->head.begin && (isdigit((unsigned char)text[end - 1]) || text[end - 1] == '.'))
    end--;
  plim_argument bare = {.head = {a->head.begin, end}};
  return is_program(text, &bare, "python");
}

#define COUNT(names) (sizeof names / sizeof *names)

bool plim_argument_launches(const char *text, const plim_argument *a) {
  return is_python(text, a) || is_one_of(text, a, launchers, COUNT(launchers)) ||
         plim_argument_ends(text, a, ".py");
}

// Whether python runs a script or a module that may train; false for -c, --version, tools, or code on standard input.
static bool runs_program(const char *text, const plim_argument *at, size_t count, bool is_fed) {
  for (size_t i = 1; i < count; i++) {
    if (plim_argument_ends(text, &at[i], "setup.py")) return false;
    if (plim_argument_ends(text, &at[i], ".py")) return true;
    if (plim_argument_is(text, &at[i], "-c") || plim_argument_is(text, &at[i], "-V") ||
        plim_argument_is(text, &at[i], "--version"))
      return false;
    if (plim_argument_is(text, &at[i], "-m"))
      return i + 1 < count && !is_one_of(text, &at[i + 1], tools, COUNT(tools));
  }
  return count > 1 && !is_fed;
}

static bool is_launched(const char *text, const plim_argument *at, size_t count, bool is_fed) {
  if (is_program(text, at, "setup.py")) return false;
  if (is_python(text, at)) return runs_program(text, at, count, is_fed);
  if (is_program(text, at, "accelerate"))
    return count > 1 && plim_argument_is(text, &at[1], "launch");
  if (plim_argument_ends(text, at, ".py")) return true;
  return count > 1 && !plim_argument_is(text, &at[1], "--version");
}

// Parts of the paths of scripts that only set up programs and set nothing for a training.
static const char *const environments[] = {"activate", "conda", "venv",  "bashrc",  "profile",
                                           "modules",  "lmod",  "spack", "setvars", "/etc/",
                                           "/usr/",    "/opt/", "mamba", "pyenv",   "ssh-agent"};

bool plim_brings_programs(const char *text, plim_span name) {
  for (size_t i = 0; i < COUNT(environments); i++)
    if (memmem(text + name.begin, name.end - name.begin, environments[i], strlen(environments[i])))
      return true;
  return false;
}

bool plim_command_sources(const char *text, const plim_argument *at, size_t count) {
  bool is_source = plim_argument_is(text, at, "source") || plim_argument_is(text, at, ".");
  return is_source && count > 1 && !plim_brings_programs(text, at[1].span);
}

// Words in the names of programs that do something other than training.
static const char *const asides[] = {
    "bench",     "benchmark", "chat",       "convert", "demo",     "deploy",     "download",
    "eval",      "evaluate",  "evaluation", "export",  "generate", "generation", "infer",
    "inference", "merge",     "plot",       "predict", "prepare",  "preprocess", "process",
    "quantize",  "score",     "serve",      "test",    "tokenize", "upload",     "valid",
    "validate",  "visualize", "vllm",
};

static const char *const trainers[] = {"train", "training", "finetune", "pretrain", "sft", "tune"};

static bool has_word(const char *text, plim_span name, const char *const *words, size_t count) {
  for (size_t at = name.begin, end; at < name.end; at = end + 1) {
    for (end = at; end < name.end && isalnum((unsigned char)text[end]);) end++;
    for (size_t i = 0; i < count; i++)
      if (end - at == strlen(words[i]) && memcmp(text + at, words[i], end - at) == 0) return true;
  }
  return false;
}

// The name of the program or module, without its folders and its extension.
static plim_span program_name(const char *text, const plim_argument *a) {
  plim_span name = a->head;
  if (plim_argument_ends(text, a, ".py")) name.end -= 3;
  for (size_t i = name.begin; i < name.end; i++)
    if (text[i] == '/' || text[i] == '.') name.begin = i + 1;
  return name;
}

static bool is_aside(const char *text, const plim_argument *a) {
  plim_span name = program_name(text, a);
  return has_word(text, name, asides, COUNT(asides)) &&
         !has_word(text, name, trainers, COUNT(trainers));
}

// Whether the script, the module after -m or the subcommand of a launcher does something other than training.
static bool runs_aside(const char *text, const plim_argument *at, size_t count) {
  if (!is_python(text, at) && count > 1 && is_aside(text, &at[1])) return true;
  for (size_t i = 0; i < count; i++) {
    if (plim_argument_ends(text, &at[i], ".py")) return is_aside(text, &at[i]);
    if (plim_argument_is(text, &at[i], "-m")) return i + 1 < count && is_aside(text, &at[i + 1]);
  }
  return false;
}

plim_command_kind plim_command_kind_of(const char *text, const plim_argument *at, size_t count,
                                       bool has_here_document) {
  plim_command_kind kind = {.is_utility =
                                count && is_one_of(text, at, utilities, COUNT(utilities))};
  for (size_t i = 0; i < count && !kind.is_utility; i++) {
    if (!plim_argument_launches(text, &at[i])) continue;
    kind.is_launcher = true;
    kind.at = i;
    kind.is_training = is_launched(text, at + i, count - i, has_here_document);
    kind.is_aside = kind.is_training && runs_aside(text, at + i, count - i);
    break;
  }
  return kind;
}
