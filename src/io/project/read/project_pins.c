#include "project_pins.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "text_file.h"

// ---- one line -----------------------------------------------------------------------------------

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

static bool is_operator(char c) { return c && strchr("=<>!~^", c); }

// A span of text; `at` moves forward while it is read.
typedef struct {
  const char *at, *end;
} span;

static void skip_blanks(span *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\t')) s->at++;
}

static char peek(const span *s) { return s->at < s->end ? *s->at : '\0'; }

// The library whose name begins here; PLIM_LIBRARIES: none. conda calls PyTorch pytorch.
static plim_library library_at(span *s) {
  size_t length = 0;
  while (s->at + length < s->end && is_name_char(s->at[length])) length++;
  if (length == 7 && strncasecmp(s->at, "pytorch", 7) == 0) {
    s->at += length;
    return PLIM_LIBRARY_TORCH;
  }
  int library = 0;
  for (; library < PLIM_LIBRARIES; library++) {
    const char *name = plim_library_names[library];
    if (strlen(name) == length && strncasecmp(s->at, name, length) == 0) break;
  }
  s->at += length;
  return (plim_library)library;
}

// The rest of a quoted text.
static span quoted(span *s, char quote) {
  span inside = {s->at, s->at};
  while (inside.end < s->end && *inside.end != quote) inside.end++;
  s->at = inside.end < s->end ? inside.end + 1 : inside.end;
  return inside;
}

// What follows `transformers = ` in TOML: a text, or a table with a version.
static span toml_value(span *s) {
  char first = peek(s);
  if (first == '{') {
    static const char key[] = "version";
    for (; s->at + sizeof key < s->end; s->at++)
      if (memcmp(s->at, key, sizeof key - 1) == 0) break;
    while (s->at < s->end && *s->at != '"' && *s->at != '\'') s->at++;
    first = peek(s);
  }
  if (first != '"' && first != '\'') return (span){s->at, s->at};
  s->at++;
  return quoted(s, first);
}

// A requirement: operators, numbers and commas; blanks only next to an operator or a comma.
static span requirement(span *s) {
  span r = {s->at, s->at};
  bool may_go_on = true;
  for (; s->at < s->end && !strchr(";#\"')]&|\\", *s->at); s->at++) {
    bool is_blank = *s->at == ' ' || *s->at == '\t';
    if (is_blank) continue;
    bool joins = is_operator(*s->at) || *s->at == ',';
    if (r.end != s->at && !joins && !may_go_on) break;
    may_go_on = joins;
    r.end = s->at + 1;
  }
  return r;
}

static void take(plim_pin *pin, plim_library library, span asked, const char *file, int line) {
  size_t length = (size_t)(asked.end - asked.at);
  if (pin->release || !length) return;
  bool is_known;
  uint16_t release = plim_release_allowed(library, asked.at, length, &is_known);
  if (!release) return;
  uint16_t oldest = plim_release_oldest(library, asked.at, length);
  *pin = (plim_pin){
      .release = release, .oldest = oldest ? oldest : release, .is_known = is_known, .line = line};
  snprintf(pin->asked, sizeof pin->asked, "%.*s", (int)(length < 47 ? length : 47), asked.at);
  snprintf(pin->file, sizeof pin->file, "%.255s", file);
}

static void take_package(plim_pins *pins, plim_package package, const char *file, int line) {
  if (package == PLIM_PACKAGES || pins->packages[package].is_there) return;
  pins->packages[package] = (plim_package_pin){.is_there = true, .line = line};
  snprintf(pins->packages[package].file, sizeof pins->packages->file, "%.255s", file);
}

// Whether a requirement such as ">=0.33.4,<1.0" excludes 1.0.
static bool excludes_1(span asked) {
  while (asked.at < asked.end) {
    const char *word = asked.at;
    size_t size = strcspn(word, ",");
    if (size > (size_t)(asked.end - word)) size = (size_t)(asked.end - word);
    asked.at = word + size + 1;
    size_t operators = strspn(word, "<>=~!^ ");
    bool is_bound = *word == '<' || *word == '~' || *word == '^' || word[operators - 1] == '=';
    bool goes_up = *word == '>' || *word == '!';
    if (!operators || operators >= size || !is_bound || goes_up) continue;
    const char *number = word + operators;
    size_t digits = strspn(number, "01234567890.");
    bool is_1 = *number == '1' && strspn(number + 1, ".0") == digits - 1;
    if (*number == '0' || (is_1 && *word == '<' && word[1] != '=')) return true;
  }
  return false;
}

static void take_hub(plim_companion_pin *pin, span asked, const char *file, int line) {
  int length = (int)(asked.end - asked.at);
  if (pin->line || !length || !excludes_1(asked)) return;
  *pin = (plim_companion_pin){.is_below_1 = true, .line = line};
  snprintf(pin->asked, sizeof pin->asked, "%.*s", length < 47 ? length : 47, asked.at);
  snprintf(pin->file, sizeof pin->file, "%.255s", file);
}

static const char *const others[] = {"bitsandbytes", "deepspeed", "flash-attn", "liger-kernel"};
enum { OTHER_PACKAGES = sizeof others / sizeof *others };

// Names of distributions count alike with - and _.
static bool is_package(const char *package, const char *name, size_t size) {
  if (strlen(package) != size) return false;
  for (size_t i = 0; i < size; i++)
    if (package[i] != (name[i] == '_' ? '-' : name[i])) return false;
  return true;
}

static void take_other(plim_pins *pins, const char *name, size_t size) {
  for (int i = 0; i < OTHER_PACKAGES; i++)
    if (is_package(others[i], name, size)) pins->others |= 1u << i;
}

bool plim_pins_install(const plim_pins *pins, const char *package) {
  for (int i = 0; i < OTHER_PACKAGES; i++)
    if (strcmp(others[i], package) == 0) return pins->others >> i & 1;
  return false;
}

// What is asked of the library whose name was just read.
static span asked_after_name(span *s) {
  if (peek(s) == '[') { // extras
    while (s->at < s->end && *s->at != ']') s->at++;
    if (s->at < s->end) s->at++;
  }
  skip_blanks(s);
  bool has_brackets = peek(s) == '(';
  if (has_brackets) s->at++;
  bool has_tag = peek(s) == ':' && s->at + 1 < s->end && s->at[1] >= '0' && s->at[1] <= '9';
  if (has_tag) s->at++; // FROM pytorch/pytorch:2.4.1-cuda12.1-cudnn9-runtime
  if (has_tag) return requirement(s);
  if (!is_operator(peek(s))) return (span){s->at, s->at};
  bool is_single = peek(s) == '=' && (s->at + 1 == s->end || s->at[1] != '=');
  if (!is_single) return requirement(s);
  s->at++;
  skip_blanks(s);
  return peek(s) == '"' || peek(s) == '\'' || peek(s) == '{' ? toml_value(s) : requirement(s);
}

static bool contains(span line, const char *word) {
  size_t length = strlen(word);
  for (; line.at + length <= line.end; line.at++)
    if (memcmp(line.at, word, length) == 0) return true;
  return false;
}

// Lines that name a package without installing it: `pip uninstall`, Poetry's optional packages, and lock files, which list
// those of extras too.
static bool only_names(span line) {
  return contains(line, "uninstall") || contains(line, "optional = true") ||
         contains(line, "name = \"");
}

// Where packages begin that are installed only if they are asked for, and settings of how packages are built: tables of
// TOML, which end at the next table, and an argument of setup().
static bool begins_extras(span line, bool is_extra) {
  if (peek(&line) != '[') return is_extra || contains(line, "extras_require");
  return contains(line, "optional-dependencies") || contains(line, "dependency-groups") ||
         contains(line, "extras]") || contains(line, "[tool.uv");
}

static void read_line(plim_pins *pins, span line, bool is_extra, const char *file, int number) {
  skip_blanks(&line);
  if (peek(&line) == '#') return;
  bool installs = !is_extra && !only_names(line);
  while (line.at < line.end && *line.at != '#') {
    if (!is_name_char(*line.at)) {
      line.at++;
      continue;
    }
    const char *name = line.at;
    plim_library library = library_at(&line);
    if (installs) take_package(pins, plim_package_of(name, (size_t)(line.at - name)), file, number);
    if (installs) take_other(pins, name, (size_t)(line.at - name));
    bool is_companion = installs && is_package("huggingface-hub", name, (size_t)(line.at - name));
    if (library == PLIM_LIBRARIES && !is_companion) continue;
    span asked = asked_after_name(&line);
    if (is_companion) take_hub(&pins->hub, asked, file, number);
    else take(&pins->of[library], library, asked, file, number);
  }
}

// ---- a text -------------------------------------------------------------------------------------

// Lock files: name = "transformers", and in the next line version = "4.57.6".
static plim_library locked_name(span line) {
  static const char key[] = "name = \"";
  if ((size_t)(line.end - line.at) < sizeof key || memcmp(line.at, key, sizeof key - 1) != 0)
    return PLIM_LIBRARIES;
  line.at += sizeof key - 1;
  return library_at(&line);
}

static bool read_locked(plim_pins *pins, plim_library library, span line, const char *file,
                        int number) {
  static const char key[] = "version = \"";
  if ((size_t)(line.end - line.at) < sizeof key || memcmp(line.at, key, sizeof key - 1) != 0)
    return false;
  line.at += sizeof key - 1;
  take(&pins->of[library], library, quoted(&line, '"'), file, number);
  return true;
}

static bool begins_with(span *line, const char *text) {
  size_t length = strlen(text);
  skip_blanks(line);
  if ((size_t)(line->end - line->at) < length || memcmp(line->at, text, length) != 0) return false;
  line->at += length;
  return true;
}

// Pipfile.lock: "transformers": {, and in one of the next lines "version": "==4.57.6". `named` is the entry that the line is
// in.
static void read_json_lock(plim_pins *pins, plim_library *named, span line, const char *file,
                           int number) {
  span rest = line;
  if (*named != PLIM_LIBRARIES && begins_with(&rest, "\"version\": \"")) {
    take(&pins->of[*named], *named, quoted(&rest, '"'), file, number);
    *named = PLIM_LIBRARIES;
    return;
  }
  rest = line;
  if (begins_with(&rest, "}")) *named = PLIM_LIBRARIES;
  rest = line;
  if (!begins_with(&rest, "\"")) return;
  plim_library library = library_at(&rest);
  if (begins_with(&rest, "\": {")) *named = library;
}

void plim_pins_read(plim_pins *pins, const char *text, size_t length, const char *file) {
  const char *at = text, *end = text + length;
  plim_library named = PLIM_LIBRARIES, entry = PLIM_LIBRARIES;
  bool is_extra = false;
  for (int number = 1; at < end; number++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    span line = {at, stop ? stop : end};
    at = stop ? stop + 1 : end;
    bool is_locked = named != PLIM_LIBRARIES && read_locked(pins, named, line, file, number);
    named = locked_name(line);
    is_extra = begins_extras(line, is_extra);
    if (!is_locked && named == PLIM_LIBRARIES) read_line(pins, line, is_extra, file, number);
    read_json_lock(pins, &entry, line, file, number);
  }
}

// ---- folders ------------------------------------------------------------------------------------

enum { MOST_FOLDERS = 16, MOST_BYTES = 16 << 20 };

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

// In the order in which they count: what is locked, then what is asked for.
static const char *const exact[] = {
    "uv.lock",    "poetry.lock",      "pdm.lock",         "pylock.toml", "Pipfile.lock",
    "Pipfile",    "requirements.txt", "pyproject.toml",   "setup.cfg",   "setup.py",
    "conda.yaml", "environment.yml",  "environment.yaml", "Dockerfile"};
enum { EXACT = sizeof exact / sizeof *exact, OTHERS };

static int rank_of(const char *name) {
  for (int i = 0; i < EXACT; i++)
    if (strcmp(name, exact[i]) == 0) return i;
  bool is_list = strncmp(name, "requirements", 12) == 0 && ends_with(name, ".txt");
  bool is_image = strncmp(name, "Dockerfile.", 11) == 0 || ends_with(name, ".dockerfile");
  return is_list ? EXACT : is_image ? OTHERS : -1;
}

static void read_file(plim_pins *pins, const char *folder, const char *name) {
  char path[PLIM_PATH_BYTES], *text = NULL;
  size_t size = 0;
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
  if (plim_text_file_read(path, MOST_BYTES, &text, &size, NULL)) return;
  plim_pins_read(pins, text, size, strncmp(path, "./", 2) == 0 ? path + 2 : path);
  free(text);
}

static void read_requirements(plim_pins *pins, const char *folder) {
  struct dirent **names = NULL;
  int count = scandir(folder, &names, NULL, alphasort);
  for (int rank = 0; rank <= OTHERS; rank++)
    for (int i = 0; i < count; i++)
      if (rank_of(names[i]->d_name) == rank) read_file(pins, folder, names[i]->d_name);
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
}

// "transformers-4.57.6.dist-info" in site-packages.
static void read_installed(plim_pins *pins, const char *packages) {
  DIR *folder = opendir(packages);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    const char *name = entry->d_name;
    if (!ends_with(name, ".dist-info")) continue;
    pins->has_environment = true;
    take_package(pins, plim_package_of(name, strcspn(name, "-")), packages, 0);
    take_other(pins, name, strcspn(name, "-"));
    for (int i = 0; i < PLIM_LIBRARIES; i++) {
      size_t length = strlen(plim_library_names[i]);
      if (strncasecmp(name, plim_library_names[i], length) != 0 || name[length] != '-') continue;
      const char *version = name + length + 1;
      span asked = {version, name + strlen(name) - strlen(".dist-info")};
      take(&pins->of[i], (plim_library)i, asked, packages, 0);
    }
  }
  if (folder) closedir(folder);
}

static void read_environment(plim_pins *pins, const char *root) {
  char lib[PLIM_PATH_BYTES], packages[PLIM_PATH_BYTES];
  if (snprintf(lib, sizeof lib, "%s/lib", root) >= (int)sizeof lib) return;
  DIR *folder = opendir(lib);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (strncmp(entry->d_name, "python3", 7) != 0) continue;
    if (snprintf(packages, sizeof packages, "%s/%s/site-packages", lib, entry->d_name) <
        (int)sizeof packages)
      read_installed(pins, packages);
  }
  if (folder) closedir(folder);
}

static bool exists(const char *folder, const char *name) {
  char path[PLIM_PATH_BYTES];
  struct stat info;
  return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
         stat(path, &info) == 0;
}

// The folder above: "a/b" becomes "a", "a" becomes ".", "." becomes "..", ".." becomes "../..".
static bool go_up(char *folder, size_t size) {
  char *slash = strrchr(folder, '/'), *last = slash ? slash + 1 : folder;
  if (strcmp(folder, "/") == 0) return false;
  if (strcmp(folder, ".") == 0) return snprintf(folder, size, "..") > 0;
  if (strcmp(last, "..") == 0) {
    if (strlen(folder) + 4 > size) return false;
    strcat(folder, "/..");
  } else if (!slash) snprintf(folder, size, ".");
  else if (slash == folder) folder[1] = '\0';
  else *slash = '\0';
  return true;
}

void plim_pins_find(plim_pins *pins, const char *path) {
  char folder[PLIM_PATH_BYTES], root[PLIM_PATH_BYTES];
  const char *slash = strrchr(path, '/');
  int length = !slash ? 1 : slash == path ? 1 : (int)(slash - path);
  if (snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".") >= (int)sizeof folder)
    return;
  plim_pins installed = {0};
  for (int i = 0; i < MOST_FOLDERS; i++) {
    static const char *const environments[] = {".venv", "venv", ".conda", "env"};
    read_requirements(pins, folder);
    for (size_t k = 0; k < sizeof environments / sizeof *environments; k++)
      if (snprintf(root, sizeof root, "%s/%s", folder, environments[k]) < (int)sizeof root)
        read_environment(&installed, root);
    if (exists(folder, ".git") || !go_up(folder, sizeof folder)) break;
  }
  for (int i = 0; i < PLIM_LIBRARIES;
       i++) { // what is installed is one of those that a range allows
    plim_pin *pin = &pins->of[i];
    if (!pin->release || (installed.of[i].release && pin->oldest < pin->release))
      *pin = installed.of[i];
  }
  if (installed.has_environment) memcpy(pins->packages, installed.packages, sizeof pins->packages);
  pins->others |= installed.others;
  pins->has_environment = installed.has_environment;
}
