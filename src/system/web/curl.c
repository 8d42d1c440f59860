#include "curl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// In quotes, curl takes any byte but a backslash and a quote as it is (its manual, --config).
static void write_option(FILE *out, const plim_curl_option *option) {
  fputs(option->name, out);
  if (option->value) {
    fputs(" = \"", out);
    for (const char *c = option->value; *c; c++) {
      if (*c == '"' || *c == '\\') fputc('\\', out);
      fputc(*c, out);
    }
    fputc('"', out);
  }
  fputc('\n', out);
}

static char *configuration(const plim_curl_option *options, size_t count) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  for (size_t i = 0; i < count; i++) write_option(out, &options[i]);
  return fclose(out) == 0 ? text : (free(text), NULL);
}

static int spawn(int input, int output, pid_t *pid) {
  char *const words[] = {"curl", "--disable", "--config", "-", NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  if (output >= 0) posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  else posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  int why = posix_spawnp(pid, words[0], &files, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return why;
}

int plim_curl_start(const plim_curl_option *options, size_t count, int output, pid_t *pid) {
  int ends[2];
  char *text = configuration(options, count);
  if (!text) return ENOMEM;
  ssize_t size = (ssize_t)strlen(text);
  if (pipe2(ends, O_CLOEXEC) != 0) return free(text), errno;
  fcntl(ends[1], F_SETFL, O_NONBLOCK); // a pipe holds 64 KiB or, for a user who has many, one page
  int why = write(ends[1], text, (size_t)size) == size ? spawn(ends[0], output, pid) : EMSGSIZE;
  close(ends[0]), close(ends[1]);
  free(text);
  return why;
}

// By curl's exit status (its manual, EXIT CODES).
void plim_curl_trouble(int status, int seconds, char *text, size_t size) {
  static const struct {
    int code;
    const char *words;
  } troubles[] = {
      {5, "the host of the proxy was not found"},
      {6, "its host was not found"},
      {7, "its host does not accept connections"},
      {18, "the connection ended before the answer was complete"},
      {22, "it answered with an error"},
      {35, "no secure connection could be made"},
      {52, "it closed the connection without an answer"},
      {56, "the connection broke"},
      {60, "its certificate is not valid for this machine"},
      {63, "its answer is too large"},
  };
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 28) {
    snprintf(text, size, "it did not answer within %d seconds", seconds);
    return;
  }
  snprintf(text, size, "curl ended with status %d", code);
  for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
    if (troubles[i].code == code) snprintf(text, size, "%s", troubles[i].words);
}
