#include "job_fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "atomic_file.h"
#include "disk.h"
#include "hub_cache.h"
#include "text.h"
#include "web.h"

// A config.json has at most 1 MiB (model_config.c), which takes less time than this even over a slow connection.
enum { MAX_BYTES = 4 << 20, MOST_SECONDS = 30, ENDPOINT_BYTES = 512, TOKEN_BYTES = 512 };

typedef struct {
  const char *id;
  char endpoint[ENDPOINT_BYTES]; // without a slash at its end
  char token[TOKEN_BYTES];       // empty: none
  char url[1024];
} fetch;

// ---- what the user's environment says ---------------------------------------------------------------

static bool is_set(const char *name) {
  const char *value = getenv(name);
  static const char *const yes[] = {"1", "on", "yes", "true"}; // huggingface_hub, constants.py
  for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++)
    if (strcasecmp(value, yes[i]) == 0) return true;
  return false;
}

static plim_err check_offline(plim_error *error) {
  static const char *const names[] = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!is_set(names[i])) continue;
    plim_err err =
        plim_fail(error, PLIM_ERR_ARGUMENT, "--fetch needs the network, and %s=%.16s forbids it",
                  names[i], getenv(names[i]));
    plim_error_hint(error, "unset %s, or leave out --fetch", names[i]);
    return err;
  }
  return PLIM_OK;
}

static plim_err read_endpoint(fetch *f, plim_error *error) {
  const char *given = getenv("HF_ENDPOINT");
  if (!given || !*given) given = "https://huggingface.co";
  size_t length = strlen(given);
  while (length && given[length - 1] == '/') length--;
  bool fits = length < sizeof f->endpoint;
  snprintf(f->endpoint, sizeof f->endpoint, "%.*s", (int)(fits ? length : 0), given);
  if (fits && plim_web_is_safe(f->endpoint) && !strpbrk(f->endpoint, "?#")) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "HF_ENDPOINT is \"%.120s\", which is not an address like "
                           "https://huggingface.co",
                           given);
  plim_error_hint(error,
                  "give an address with https, without a password (http only for a server on "
                  "this machine), or unset HF_ENDPOINT");
  if (error) plim_text_disarm(error->message);
  return err;
}

// The variables and the file that huggingface_hub reads (utils/_auth.py, get_token); it removes line breaks too.
static plim_err read_token(fetch *f, plim_error *error) {
  const char *given = getenv("HF_TOKEN"), *old = getenv("HUGGING_FACE_HUB_TOKEN"),
             *from = "HF_TOKEN";
  char path[PLIM_PATH_BYTES], *text = NULL;
  size_t size;
  if (is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return PLIM_OK;
  if (!given || !*given) given = old;
  bool is_file = (!given || !*given) && plim_hub_token_path(path) && plim_is_file(path);
  if (is_file && !plim_text_file_read(path, TOKEN_BYTES, &text, &size, NULL))
    given = text, from = path;
  size_t used = 0;
  bool is_fine = true;
  for (const char *c = given ? given : ""; *c; c++) {
    if (strchr(" \t\r\n", *c)) continue;
    is_fine = is_fine && *c > ' ' && *c <= '~' && used + 1 < sizeof f->token;
    if (is_fine) f->token[used++] = *c;
  }
  f->token[used] = 0;
  free(text);
  if (is_fine) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "%.200s does not contain a token of Hugging Face",
                   from);
}

// ---- what the hub answers ---------------------------------------------------------------------------

static plim_err refuse_unknown_model(const fetch *f, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "there is no model \"%.96s\" at %.120s", f->id,
                           f->endpoint);
  plim_error_hint(error,
                  "check the name: it is what follows %.120s/ in the address of the model's page",
                  f->endpoint);
  return err;
}

static plim_err refuse_missing(const fetch *f, const char *code, plim_error *error) {
  if (strcmp(code, "EntryNotFound") != 0) return refuse_unknown_model(f, error);
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s at %.120s has no config.json", f->id, f->endpoint);
  plim_error_hint(error, "it may be an adapter, whose adapter_config.json names its base model, or "
                         "files for another program: give its base model with --model");
  return err;
}

static void hint_access(const fetch *f, plim_error *error) {
  plim_error_hint(error,
                  "ask for access at %.120s/%.96s, make a token at %.120s/settings/tokens, and set "
                  "HF_TOKEN to it (or: hf auth login)",
                  f->endpoint, f->id, f->endpoint);
}

// The hub answers 401 also for a name that does not exist, so that nobody can find out which private models there are.
static plim_err refuse_nameless(const fetch *f, const char *code, plim_error *error) {
  bool is_gated = strcmp(code, "GatedRepo") == 0;
  plim_err err =
      *f->token  ? plim_fail(error, PLIM_ERR_ARGUMENT,
                             "%.120s does not give the config.json of %.96s for your token, which "
                              "may have expired; or there is no model of that name",
                             f->endpoint, f->id)
      : is_gated ? plim_fail(error, PLIM_ERR_ARGUMENT,
                             "%.96s is a gated model: %.120s gives its config.json only to those "
                             "who were granted access",
                             f->id, f->endpoint)
                 : plim_fail(error, PLIM_ERR_ARGUMENT,
                             "%.120s does not give the config.json of %.96s without a token: it is "
                             "private or gated, or there is no model of that name",
                             f->endpoint, f->id);
  hint_access(f, error);
  return err;
}

static plim_err refuse_access(const fetch *f, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "%.96s is a gated model, and %.120s has not granted %s access to it",
                           f->id, f->endpoint, *f->token ? "the owner of your token" : "you");
  hint_access(f, error);
  return err;
}

static plim_err refuse_status(const fetch *f, const plim_web_answer *a, plim_error *error) {
  if (a->status == 401) return refuse_nameless(f, a->code, error);
  if (a->status == 403) return refuse_access(f, error);
  if (a->status == 404) return refuse_missing(f, a->code, error);
  plim_err err =
      plim_fail(error, PLIM_ERR_IO, "%.120s answered with status %d%s", f->endpoint, a->status,
                a->status == 429   ? ": too many requests"
                : a->status >= 500 ? ": the server has a problem"
                                   : "");
  plim_error_hint(error, "try again later, or give the path of a config.json");
  return err;
}

// Any JSON object is kept, because it is what the hub has. Reading it later says whether it describes a supported model.
static plim_err check_document(const fetch *f, const plim_web_answer *a, plim_error *error) {
  plim_model_source source;
  plim_error why = {0};
  const char *start = a->body + strspn(a->body, " \t\r\n");
  plim_err err = plim_model_config_parse(a->body, a->size, &source, &why);
  if (err == PLIM_ERR_NOMEM) return plim_fail(error, err, "out of memory");
  if (err != PLIM_ERR_PARSE) return PLIM_OK;
  if (*start == '<') {
    err = plim_fail(error, PLIM_ERR_PARSE,
                    "%.120s answered with a web page instead of the config.json of %.96s",
                    f->endpoint, f->id);
    plim_error_hint(error,
                    "it may be the login page of a network or a proxy: open the address in a "
                    "browser");
  } else {
    err = plim_fail(error, PLIM_ERR_PARSE, "the config.json of %.80s at %.80s: %.120s", f->id,
                    f->endpoint, why.message);
    plim_error_hint(
        error, "try again; if that does not help, download the file yourself and give its path");
  }
  return err;
}

static plim_err keep(const fetch *f, const plim_web_answer *a, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  plim_atomic_file file;
  if (!plim_hub_kept(f->id, path)) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "neither HOME nor XDG_CACHE_HOME is a path");
    plim_error_hint(error,
                    "--fetch keeps what it downloads there: XDG_CACHE_HOME=/tmp plimsoll ...");
    return err;
  }
  char *folder = plim_disk_folder_of(path);
  if (!folder) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  int why = plim_disk_make_folders(&plim_real_disk, folder);
  free(folder);
  if (why) return plim_disk_fail(error, "write", path, why);
  plim_err err = plim_atomic_open(&file, path, error);
  if (err) return err;
  fwrite(a->body, 1, a->size, file.out);
  return plim_atomic_commit(&file, error);
}

static plim_err fetch_config(const char *id, plim_error *error) {
  fetch f = {.id = id};
  plim_web_answer answer = {0};
  plim_err err = check_offline(error);
  if (!err) err = read_endpoint(&f, error);
  if (!err) err = read_token(&f, error);
  if (err) return err;
  snprintf(f.url, sizeof f.url, "%s/%s/resolve/main/config.json", f.endpoint, id);
  plim_web_request request = {.url = f.url,
                              .token = *f.token ? f.token : NULL,
                              .agent = "plimsoll/" PLIM_VERSION,
                              .limit_bytes = MAX_BYTES,
                              .seconds = MOST_SECONDS};
  err = plim_web_get(&request, &answer, error);
  if (!err && answer.status != 200) err = refuse_status(&f, &answer, error);
  if (!err) err = check_document(&f, &answer, error);
  if (!err) err = keep(&f, &answer, error);
  free(answer.body);
  if (err && error) plim_text_disarm(error->message);
  return err;
}

plim_err job_find_model(const char *what, bool may_fetch, plim_model_source *out,
                        plim_error *error) {
  plim_err err = may_fetch && plim_model_is_open(what) ? fetch_config(what, error) : PLIM_OK;
  return err ? err : plim_model_find(what, out, error);
}
