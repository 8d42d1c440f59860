#include <string.h>

#include "command.h"
#include "completions.h"
#include "text_result.h"

// ---- what all shells need -----------------------------------------------------------------------

// Calls `each` for every option of a command, the common ones last.
static void each_option(FILE *out, const cli_command *command,
                        void (*each)(FILE *out, const cli_command *command,
                                     const cli_option *option)) {
  const cli_option *tables[] = {command->options, cli_common_options};
  for (size_t t = 0; t < 2; t++)
    for (size_t i = 0; i < cli_option_count(tables[t]); i++) each(out, command, &tables[t][i]);
}

// Writes text for use inside single quotes, with a backslash before each character of `special`.
static void quoted(FILE *out, const char *text, const char *special) {
  for (; *text && *text != '\n'; text++) { // a line for each choice may follow
    if (*text == '\'') fputs("'\\''", out);
    else fprintf(out, "%s%c", strchr(special, *text) ? "\\" : "", *text);
  }
}

// ---- bash -------------------------------------------------------------------------------------

static void bash_option_word(FILE *out, const cli_command *command, const cli_option *option) {
  (void)command;
  if (option->name) fprintf(out, " --%s", option->name);
  if (option->letter) fprintf(out, " -%c", option->letter);
}

// Writes the arguments of compgen that complete a value.
static void bash_values(FILE *out, cli_kind kind, const char *const *choices) {
  if (kind == CLI_DIR || kind == CLI_FILE) {
    fputs(kind == CLI_DIR ? "-d" : "-f", out);
    return;
  }
  const words_list *list = words_list_of(kind);
  if (list) {
    fprintf(out, "%s-W \"$_plimsoll_%s\"", kind == CLI_MODEL ? "-f " : "", list->name);
    return;
  }
  fputs("-W '", out);
  words_print(out, kind, choices);
  fputs("'", out);
}

static void bash_lists(FILE *out) {
  for (const words_list *list = words_lists; list->name; list++) {
    fprintf(out, "_plimsoll_%s='", list->name);
    list->print(out);
    fputs("'\n", out);
  }
}

static void bash_case_of_value(FILE *out, const cli_command *command, const cli_option *option) {
  if (option->kind == CLI_FLAG) return;
  fprintf(out, "    %s:", command->name ? command->name : "");
  if (option->name) fprintf(out, "--%s", option->name);
  else fprintf(out, "-%c", option->letter);
  if (option->name && option->letter)
    fprintf(out, " | %s:-%c", command->name ? command->name : "", option->letter);
  fputs(") _plimsoll_reply ", out);
  bash_values(out, option->kind, option->choices);
  fputs("; return ;;\n", out);
}

static void bash_case_of_options(FILE *out, const cli_command *command) {
  fprintf(out, "    '%s') _plimsoll_reply -W '", command->name ? command->name : "");
  each_option(out, command, bash_option_word);
  fputs("' ;;\n", out);
}

static void bash_case_of_words(FILE *out, const cli_command *command) {
  if (cli_positional_count(command->positionals) == 0) return;
  fprintf(out, "    '%s') _plimsoll_reply ", command->name);
  bash_values(out, command->positionals[0].kind, command->positionals[0].choices);
  fputs(" ;;\n", out);
}

static void bash_find_command(FILE *out) {
  fputs("  for ((i = 1; i < COMP_CWORD; i++)); do\n    case ${COMP_WORDS[i]} in\n", out);
  for (size_t i = 0; cli_commands()[i]; i++)
    fprintf(out, "    %s) command=%s && break ;;\n", cli_commands()[i]->name,
            cli_commands()[i]->name);
  fputs("    esac\n  done\n", out);
}

static void bash_complete_value(FILE *out) {
  fputs("  case $command:$prev in\n", out);
  each_option(out, &cli_program, bash_case_of_value);
  for (size_t i = 0; cli_commands()[i]; i++)
    each_option(out, cli_commands()[i], bash_case_of_value);
  fputs("  esac\n", out);
}

static void bash_complete_option(FILE *out) {
  fputs("  if [[ $cur == -* ]]; then\n    case $command in\n", out);
  bash_case_of_options(out, &cli_program);
  for (size_t i = 0; cli_commands()[i]; i++) bash_case_of_options(out, cli_commands()[i]);
  fputs("    esac\n    return\n  fi\n", out);
}

static void bash_complete_word(FILE *out) {
  fputs("  case $command in\n    '') _plimsoll_reply -W '", out);
  words_print(out, CLI_COMMAND, NULL);
  fputs("' ;;\n", out);
  for (size_t i = 0; cli_commands()[i]; i++) bash_case_of_words(out, cli_commands()[i]);
  fputs("  esac\n", out);
}

static void write_bash(FILE *out) {
  fputs("# bash completion for plimsoll. To use it: source <(plimsoll completion bash)\n", out);
  bash_lists(out);
  fputs("_plimsoll_reply() {\n"
        "  local word\n"
        "  COMPREPLY=()\n"
        "  while IFS= read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen \"$@\" -- "
        "\"$cur\")\n"
        "}\n\n"
        "_plimsoll() {\n"
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= i\n"
        "  if [[ $cur == '=' ]]; then cur=\n"
        "  elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n",
        out);
  bash_find_command(out);
  bash_complete_value(out);
  bash_complete_option(out);
  bash_complete_word(out);
  fputs("}\n\ncomplete -o filenames -F _plimsoll plimsoll\n", out);
}

// ---- zsh --------------------------------------------------------------------------------------

static const char zsh_special[] = "\\[]:";

// Writes the action of an _arguments specification that completes a value.
static void zsh_values(FILE *out, cli_kind kind, const char *const *choices) {
  const words_list *list = words_list_of(kind);
  if (list) {
    fprintf(out, "{compadd -- $plimsoll_%s%s}", list->name, kind == CLI_MODEL ? "; _files" : "");
  } else if (kind == CLI_CHOICE || kind == CLI_COMMAND || kind == CLI_TOPIC) {
    fputc('(', out);
    words_print(out, kind, choices);
    fputc(')', out);
  } else if (kind == CLI_FILE || kind == CLI_DIR) {
    fputs(kind == CLI_DIR ? "_files -/" : "_files", out);
  }
}

static void zsh_spec(FILE *out, const cli_option *option, const char *spelling) {
  fprintf(out, "        '%s%s[", cli_is_repeated(option->kind) ? "*" : "", spelling);
  quoted(out, option->help, zsh_special);
  fputc(']', out);
  if (option->kind != CLI_FLAG) {
    fprintf(out, ":%s:", option->argument);
    zsh_values(out, option->kind, option->choices);
  }
  fputs("' \\\n", out);
}

static void zsh_option(FILE *out, const cli_command *command, const cli_option *option) {
  char spelling[64];
  (void)command;
  snprintf(spelling, sizeof spelling, option->kind == CLI_FLAG ? "--%s" : "--%s=", option->name);
  if (option->name) zsh_spec(out, option, spelling);
  snprintf(spelling, sizeof spelling, "-%c", option->letter);
  if (option->letter) zsh_spec(out, option, spelling);
}

static void zsh_positional(FILE *out, const cli_positional *positional) {
  const char *how_many = positional->max > 1 ? "*" : positional->min == 0 ? ":" : "";
  fprintf(out, "        '%s:%s:", how_many, positional->name);
  zsh_values(out, positional->kind, positional->choices);
  fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const cli_command *command) {
  fprintf(out, "    %s)\n      _arguments -s \\\n", command->name);
  each_option(out, command, zsh_option);
  for (size_t i = 0; i < cli_positional_count(command->positionals); i++) // one row takes the rest
    if (i == 0 || command->positionals[i].kind != CLI_PROGRAM)
      zsh_positional(out, &command->positionals[i]);
  fputs("        && return\n      ;;\n", out);
}

static void zsh_command_list(FILE *out) {
  fputs("  local -a commands=(\n", out);
  for (size_t i = 0; cli_commands()[i]; i++) {
    fprintf(out, "    '%s:", cli_commands()[i]->name);
    quoted(out, cli_commands()[i]->summary, "\\:");
    fputs("'\n", out);
  }
  fputs("  )\n", out);
}

static void zsh_lists(FILE *out) {
  for (const words_list *list = words_lists; list->name; list++) {
    fprintf(out, "  local -a plimsoll_%s=(", list->name);
    list->print(out);
    fputs(")\n", out);
  }
}

static void zsh_program(FILE *out) {
  fputs("  _arguments -s -C \\\n", out);
  each_option(out, &cli_program, zsh_option);
  fputs("        '1:command:->command' \\\n        '*::argument:->argument' && return\n", out);
}

static void write_zsh(FILE *out) {
  fputs("#compdef plimsoll\n"
        "# zsh completion for plimsoll. To use it: save as _plimsoll in a directory of $fpath.\n"
        "_plimsoll() {\n"
        "  local context state state_descr line\n"
        "  typeset -A opt_args\n",
        out);
  zsh_lists(out);
  zsh_command_list(out);
  zsh_program(out);
  fputs("  case $state in\n  command) _describe command commands ;;\n"
        "  argument)\n    case $words[1] in\n",
        out);
  for (size_t i = 0; cli_commands()[i]; i++) zsh_command(out, cli_commands()[i]);
  fputs("    esac\n    ;;\n  esac\n}\n\n"
        "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _plimsoll \"$@\"\n"
        "else compdef _plimsoll plimsoll; fi\n",
        out);
}

// ---- fish -------------------------------------------------------------------------------------

static void fish_values(FILE *out, cli_kind kind, const char *const *choices) {
  const words_list *list = words_list_of(kind);
  if (list) {
    fprintf(out, " %s -a '$plimsoll_%s'", kind == CLI_MODEL ? "-F" : "-f", list->name);
  } else if (kind == CLI_CHOICE || kind == CLI_COMMAND || kind == CLI_TOPIC) {
    fputs(" -f -a '", out);
    words_print(out, kind, choices);
    fputs("'", out);
  } else if (kind == CLI_FILE) {
    fputs(" -F", out);
  } else if (kind == CLI_DIR) {
    fputs(" -f -a '(__fish_complete_directories)'", out);
  }
}

static void fish_condition(FILE *out, const cli_command *command) {
  fputs("complete -c plimsoll", out);
  if (command->name) fprintf(out, " -n '__fish_seen_subcommand_from %s'", command->name);
  else fputs(" -n __fish_use_subcommand", out);
}

static bool takes_files(cli_kind kind) { return kind == CLI_FILE || kind == CLI_MODEL; }

static void fish_option(FILE *out, const cli_command *command, const cli_option *option) {
  fish_condition(out, command);
  if (option->name) fprintf(out, " -l %s", option->name);
  if (option->letter) fprintf(out, " -s %c", option->letter);
  if (option->kind != CLI_FLAG) fputs(takes_files(option->kind) ? " -r" : " -x", out);
  if (option->kind != CLI_FLAG) fish_values(out, option->kind, option->choices);
  fputs(" -d '", out);
  quoted(out, option->help, "\\");
  fputs("'\n", out);
}

static void fish_words(FILE *out, const cli_command *command) {
  if (cli_positional_count(command->positionals) == 0) return;
  fish_condition(out, command);
  fish_values(out, command->positionals[0].kind, command->positionals[0].choices);
  fputc('\n', out);
}

static void fish_command(FILE *out, const cli_command *command) {
  fprintf(out, "complete -c plimsoll -n __fish_use_subcommand -a %s -d '", command->name);
  quoted(out, command->summary, "\\");
  fputs("'\n", out);
  fish_words(out, command);
  each_option(out, command, fish_option);
}

static void fish_lists(FILE *out) {
  for (const words_list *list = words_lists; list->name; list++) {
    fprintf(out, "set -g plimsoll_%s ", list->name);
    list->print(out);
    fputc('\n', out);
  }
}

static void write_fish(FILE *out) {
  fputs("# fish completion for plimsoll. To use it: plimsoll completion fish | source\n"
        "complete -c plimsoll -f\n",
        out);
  fish_lists(out);
  each_option(out, &cli_program, fish_option);
  for (size_t i = 0; cli_commands()[i]; i++) fish_command(out, cli_commands()[i]);
}

// ---- the command --------------------------------------------------------------------------------

static const char *const shells[] = {"bash", "zsh", "fish", NULL};
static void (*const writers[])(FILE *out) = {write_bash, write_zsh, write_fish};

static void write_shell(FILE *out, const void *context) {
  for (size_t i = 0; shells[i]; i++)
    if (strcmp(shells[i], context) == 0) writers[i](out);
}

static int run(const cli_call *call) {
  return text_result_print(call, write_shell, call->words.at[0]);
}

static const cli_positional positionals[] = {
    {"SHELL", "bash, zsh or fish", CLI_CHOICE, 1, 1, shells},
    {0},
};

static const char *const description[] = {
    "Prints a script with which your shell completes plimsoll's commands, options and values.",
    NULL,
};

static const cli_example examples[] = {
    {"source <(plimsoll completion bash)", "in ~/.bashrc"},
    {"plimsoll completion zsh > ~/.zfunc/_plimsoll", "where ~/.zfunc is in $fpath"},
    {"plimsoll completion fish | source", "in ~/.config/fish/config.fish"},
    {0},
};

const cli_command cmd_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .positionals = positionals,
    .run = run,
    .description = description,
    .examples = examples,
};
