// Removes what loggers and launchers put before each line.
#include <ctype.h>
#include <string.h>

#include "oom_log_impl.h"

static bool is_one_of(char c, const char *set) { return c && strchr(set, c); }

// The length of the first word, up to a blank.
static size_t word_length(log_text line) {
  const char *blank = memchr(line.at, ' ', line.size);
  return blank ? (size_t)(blank - line.at) : line.size;
}

// ---- each returns the length of a prefix, or 0 ------------------------------------------------------

// "[rank3]:", "[default3]:", "rank3:", "[Rank 3]"
static size_t rank_prefix(log_text line, uint64_t *rank) {
  static const char *const words[] = {"[rank",  "[default", "rank", "[Rank ",
                                      "[RANK ", "[Rank",    "[GPU"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t at = strlen(words[i]), digits = 0;
    if (!log_starts(line, words[i])) continue;
    while (at + digits < line.size && isdigit((unsigned char)line.at[at + digits])) digits++;
    size_t end = at + digits;
    bool is_end =
        end < line.size && (line.at[end] == ']' || (*words[i] != '[' && line.at[end] == ':'));
    if (!digits || digits > 6 || !is_end) continue;
    log_count((log_text){line.at + at, digits}, rank);
    end++;
    return end < line.size && line.at[end] == ':' ? end + 1 : end;
  }
  return 0;
}

// SageMaker's "[1,mpirank:3,algo-1]<stderr>:".
static size_t sagemaker_prefix(log_text line, uint64_t *rank) {
  if (!log_starts(line, "[1,mpirank:")) return 0;
  log_text head = {line.at, line.size < 80 ? line.size : 80};
  log_text after = log_after(head, ">:");
  log_count(log_after(line, "mpirank:"), rank);
  return after.at ? (size_t)(after.at - line.at) : 0;
}

// mpirun's "[1,3]<stderr>:" and srun's "3: ".
static size_t task_prefix(log_text line, uint64_t *rank) {
  size_t at = 0, comma = 0;
  bool is_tagged = line.size && *line.at == '[';
  for (at = is_tagged; at < line.size && at < 16; at++) {
    if (is_tagged && line.at[at] == ',' && !comma) comma = at;
    else if (!isdigit((unsigned char)line.at[at])) break;
  }
  if (is_tagged) {
    const char *end = memchr(line.at, ':', line.size < 40 ? line.size : 40);
    if (!comma || !end || at + 1 >= line.size || line.at[at] != ']' || line.at[at + 1] != '<')
      return 0;
    log_count((log_text){line.at + comma + 1, at - comma - 1}, rank);
    return (size_t)(end - line.at) + 1;
  }
  if (!at || at > 5 || at + 1 >= line.size || line.at[at] != ':' || line.at[at + 1] != ' ')
    return 0;
  log_count(line, rank);
  return at + 1;
}

// Ray's "(TrainWorker pid=123, ip=10.0.0.1) ".
static size_t ray_prefix(log_text line, uint64_t *rank) {
  (void)rank;
  if (!line.size || *line.at != '(') return 0;
  const char *end = memchr(line.at, ')', line.size < 120 ? line.size : 120);
  size_t length = end ? (size_t)(end - line.at) + 1 : 0;
  return length && log_has((log_text){line.at, length}, "pid=") ? length : 0;
}

// A word of digits and punctuation that is a date or a time: 2026-04-01, 23:46:56,789, [04-01, 1.06.520.077
static size_t time_prefix(log_text line, uint64_t *rank) {
  (void)rank;
  size_t length = word_length(line), digits = 0, colons = 0, dashes = 0, points = 0;
  for (size_t i = 0; i < length; i++) {
    char c = line.at[i];
    if (isdigit((unsigned char)c)) digits++;
    else if (c == ':') colons++;
    else if (c == '-' || c == '/') dashes++;
    else if (c == '.') points++;
    else if (!is_one_of(c, "TZ+,[]()")) return 0;
  }
  bool is_ending_colon = colons == 1 && line.at[length - 1] == ':';
  bool is_time = (colons && !is_ending_colon) || dashes == 2 || points >= 3;
  bool is_short_date = dashes == 1 && digits == 4 && length <= 6;
  return digits >= 4 && (is_time || is_short_date) ? length : 0;
}

// "ERROR", "[INFO]", "WARNING:", "E "
static size_t level_prefix(log_text line, uint64_t *rank) {
  static const char *const words[] = {"ERROR",    "INFO",  "WARNING", "WARN", "DEBUG",
                                      "CRITICAL", "FATAL", "E",       "W",    "I"};
  (void)rank;
  bool is_bracket = line.size && *line.at == '[';
  log_text rest = {line.at + is_bracket, line.size - is_bracket};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t length = strlen(words[i]);
    if (!log_starts(rest, words[i]) || rest.size == length) continue;
    char next = rest.at[length];
    if (is_bracket ? next == ']' : next == ' ' || next == ':')
      return length + is_bracket + (next != ' ');
  }
  return 0;
}

// "[engine.py:160]", "[launch.py:318:sigkill_handler]", "- " and "| " between parts
static size_t place_prefix(log_text line, uint64_t *rank) {
  (void)rank;
  if (line.size >= 2 && is_one_of(*line.at, "-|>") && line.at[1] == ' ') return 2;
  if (!line.size || *line.at != '[') return 0;
  const char *end = memchr(line.at, ']', line.size < 120 ? line.size : 120);
  size_t length = end ? (size_t)(end - line.at) + 1 : 0;
  return length && log_has((log_text){line.at, length}, ".py:") ? length : 0;
}

// pdsh's "gpu-q-13: " and docker compose's "trainer-1  | ".
static size_t host_prefix(log_text line, uint64_t *rank) {
  (void)rank;
  size_t i = 0, digits = 0, letters = 0, dashes = 0;
  for (; i < line.size && i < 64; i++) {
    unsigned char c = (unsigned char)line.at[i];
    if (isdigit(c)) digits++;
    else if (islower(c)) letters++;
    else if (c == '-' || c == '_') dashes++;
    else if (c != '.') break;
  }
  if (!letters || i + 1 >= line.size) return 0;
  if (line.at[i] == ':' && line.at[i + 1] == ' ' && digits) return i + 1;
  size_t bar = i;
  while (bar < line.size && line.at[bar] == ' ') bar++;
  bool is_compose =
      bar > i && bar + 1 < line.size && line.at[bar] == '|' && line.at[bar + 1] == ' ';
  return is_compose && digits && dashes ? bar + 1 : 0;
}

// Kubernetes' node log after the time: "stderr F "; and "[pod/trainer-0/pytorch] ".
static size_t kubernetes_prefix(log_text line, uint64_t *rank) {
  static const char *const words[] = {"stderr F ", "stdout F ", "stderr P ", "stdout P "};
  (void)rank;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (log_starts(line, words[i])) return strlen(words[i]);
  const char *end = log_starts(line, "[pod/") ? memchr(line.at, ']', line.size) : NULL;
  return end ? (size_t)(end - line.at) + 1 : 0;
}

// The system log's "Jan 02 10:00:00 gpu1 python[123]: "; the time alone is removed as such.
static size_t syslog_prefix(log_text line, uint64_t *rank) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  (void)rank;
  if (line.size < 20 || line.at[3] != ' ') return 0;
  const char *month = memmem(months, sizeof months - 1, line.at, 3);
  if (!month || (month - months) % 3 || line.at[9] != ':' || line.at[12] != ':') return 0;
  log_text head = {line.at, line.size < 120 ? line.size : 120};
  log_text after = log_after(head, "]: ");
  return after.at ? (size_t)(after.at - line.at) : 0;
}

// Docker's {"log":"...
static size_t json_prefix(log_text line, uint64_t *rank) {
  (void)rank;
  return log_starts(line, "{\"log\":\"") ? 8 : 0;
}

static size_t (*const prefixes[])(log_text, uint64_t *) = {
    rank_prefix,  sagemaker_prefix, task_prefix,       ray_prefix,    time_prefix, level_prefix,
    place_prefix, host_prefix,      kubernetes_prefix, syslog_prefix, json_prefix,
};

log_text log_strip(log_text line, uint64_t *rank) {
  for (int round = 0; round < 10; round++) {
    size_t length = 0;
    line = log_trim(line);
    for (size_t i = 0; !length && i < sizeof prefixes / sizeof *prefixes; i++)
      length = prefixes[i](line, rank);
    if (!length) break;
    line.at += length;
    line.size -= length;
  }
  return line;
}
