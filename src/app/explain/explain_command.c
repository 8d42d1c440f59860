// The next command to type, with what the log shows filled in.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain_impl.h"
#include "quoting.h"
#include "value.h"

// A command that the log shows is repeated only if a shell reads it as plain words: a log is not to be trusted.
static bool is_plain(const char *command) {
  return *command &&
         strspn(command,
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+@%- ") ==
             strlen(command);
}

static void write_gpu(const explain_case *c, FILE *out) {
  if (explain_is_known(c->total))
    fprintf(out, " --gpu %.2fGiB", (double)c->total / (double)PLIM_GIB); // as the message has it
}

// NULL: not known.
static const char *command_of(const explain_case *c) {
  const char *shown = c->log->facts.command;
  return c->facts->command ? c->facts->command : is_plain(shown) ? shown : NULL;
}

char *explain_run_command(const explain_case *c, const char *option) {
  const char *command = command_of(c);
  char *text = NULL;
  int length = asprintf(&text, "plimsoll run %s -- %s", option, command ? command : "COMMAND");
  return length < 0 ? NULL : text;
}

char *explain_plan_command(const explain_case *c) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  const char *command = command_of(c);
  const char *script = c->message->stack.script.file;
  fputs("plimsoll plan", out);
  if (command) {
    write_gpu(c, out);
    fprintf(out, " -- %s", command);
  } else {
    bool is_script = *script && *script != '-' && *script != '<';
    fputc(' ', out);
    if (is_script) plim_shell_quote(out, script);
    else fputs("FILES", out);
    write_gpu(c, out);
  }
  return plim_stream_end(out, &text) ? text : NULL;
}

char *explain_replay_command(const explain_case *c) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fputs("plimsoll replay ", out);
  plim_shell_quote(out, *c->log->facts.snapshot ? c->log->facts.snapshot : "snapshot.pickle");
  if (explain_is_known(c->allocated) && explain_is_known(c->stranded) && explain_is_known(c->free))
    fprintf(out, " --limit %.2fGiB",
            (double)(c->allocated + c->stranded + c->free) / (double)PLIM_GIB);
  fputs(" --tune", out);
  return plim_stream_end(out, &text) ? text : NULL;
}
