// Finds the model of a project's run and refuses runs that are not supported.
#include <string.h>

#include "family.h"

#include "job_fetch.h"
#include "project_job.h"

// "two.py:2 loads gpt2 and two.py:3 loads gpt2-medium"; false: the files do not name two models.
static bool explain_two(const project_job *p, char *text, size_t size) {
  const plim_project_knob *model = &p->project.knobs[PLIM_KNOB_MODEL];
  const plim_knob_place *a = &model->places[0], *b = a + 1;
  if (model->place_count < 2 || !a->setting || !b->setting) return false;
  const plim_value *one = &a->setting->value, *other = &b->setting->value;
  if (one->kind != PLIM_VALUE_TEXT || other->kind != PLIM_VALUE_TEXT) return false;
  snprintf(text, size, "%.60s:%d names %.60s, but %.60s:%d names %.60s",
           p->project.files.at[a->file]->path, a->setting->line, one->text,
           p->project.files.at[b->file]->path, b->setting->line, other->text);
  return true;
}

static plim_err refuse_nameless(const project_job *p, plim_error *error) {
  const plim_project_knob *model = &p->project.knobs[PLIM_KNOB_MODEL];
  const char *missing = p->project.missing;
  bool is_unclear =
      model->origin == PLIM_UNCLEAR && *model->why && (model->place_count || !missing);
  plim_err err = plim_project_refuse_shape(&p->project, error);
  if (err) return err;
  const plim_setting *odd = is_unclear ? NULL : plim_project_odd_model(&p->project);
  if (odd && !missing) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "%.40s is \"%.96s\", which is not a model plimsoll knows", odd->key,
                    odd->value.text);
    plim_error_hint(
        error,
        "name a model of the same shape with --model NAME, or give the path of its config.json");
    return err;
  }
  char two[300];
  bool is_two = is_unclear && explain_two(p, two, sizeof two);
  const char *script = plim_project_script_with_flags(&p->project);
  char command[200];
  bool has_command =
      script && plim_project_ask_command(&p->project, PLIM_KNOB_MODEL, command, sizeof command);
  if (has_command && !missing && !is_two) {
    err =
        plim_fail(error, PLIM_ERR_ARGUMENT, "%.160s takes the model from its command line", script);
    plim_error_hint(error,
                    "give the launch command: %s, or its file; or only the model: --model NAME",
                    command);
    return err;
  }
  err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s%s%s%.120s%s",
                  is_unclear ? "the model is not known: " : "the files do not name the model",
                  is_two       ? two
                  : is_unclear ? model->why
                               : "",
                  missing ? "; the files refer to " : "", missing ? missing : "",
                  missing ? ", which was not found" : "");
  if (missing)
    plim_error_hint(error, "add the path of %.160s to the command, or give --model NAME", missing);
  else if (is_two)
    plim_error_hint(error, "choose one: --model %.160s", model->places[0].setting->value.text);
  else
    plim_error_hint(error,
                    "--model NAME: a name from plimsoll help models, or a Hugging Face id "
                    "(with --fetch, if its config.json is not in your local cache); for a model "
                    "of your own, run the training on a simulated GPU: plimsoll plan --gpu GPU "
                    "-- python train.py");
  return err;
}

static void note_origin(project_job *p) {
  const plim_project_knob *model = &p->project.knobs[PLIM_KNOB_MODEL];
  if (model->origin == PLIM_DEFAULTED && *model->why)
    plim_note_add(&p->notes, "assumed.model", "model", "%s", model->why);
}

// The head of the class that the files load. What is typed comes first.
static void take_head(project_job *p, const plim_family *family, job_args *a) {
  plim_head head = plim_project_head(&p->project);
  int64_t labels = plim_project_labels(&p->project);
  if (a->head || head == PLIM_HEADS || head == PLIM_HEAD_CAUSAL) return;
  if (head == PLIM_HEAD_MASKED && !family->is_encoder) return;
  a->head = (int)head + 1;
  bool has_labels = head == PLIM_HEAD_TEXTS || head == PLIM_HEAD_TOKENS;
  if (!has_labels || a->labels) return;
  if (labels) a->labels = (uint64_t)labels;
  else
    plim_note_add(
        &p->notes, "assumed.labels", NULL,
        "num_labels is not known: assuming that of the model's config.json, or 2 (--labels "
        "N to change); it hardly affects memory");
}

static bool is_expanded(const project_job *p) {
  const plim_setting *s = project_job_setting(p, "use_llama_pro", "use_llama_pro");
  return p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY && s &&
         s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
}

// scripts/llama_pro.py copies layers of a model: the result has more layers than its base.
static void tell_expanded(project_job *p, const job_args *a, const plim_model_source *source,
                          plim_err err, plim_error *error) {
  if (!is_expanded(p)) return;
  if (err == PLIM_ERR_ARGUMENT)
    plim_error_hint(error, "use_llama_pro trains a model with layers added to its base, so give "
                           "its own config.json: --model FOLDER");
  else if (!err && source->origin == PLIM_ORIGIN_CATALOGUE)
    plim_note_add(&p->notes, "assumed.llama_pro", "model",
                  "use_llama_pro: a model with added layers needs more memory than %.80s, of which "
                  "this prediction is; give its own config.json: --model FOLDER",
                  a->model);
}

// Finds only the model, before any prediction. If the files have an unknown name and a shape, the error is about
// the shape.
static plim_err find(project_job *p, job_args *a, plim_error *error) {
  plim_model_source source;
  plim_error shape = {0};
  if (!a->model) return refuse_nameless(p, error);
  plim_err err = job_find_model(a->model, a->may_fetch, &source, error);
  bool is_of_files = a->model == p->run.model.text;
  plim_err other = err && is_of_files ? plim_project_refuse_shape(&p->project, &shape) : PLIM_OK;
  if (!err) take_head(p, source.config.family, a);
  tell_expanded(p, a, &source, err, error);
  if (other) *error = shape;
  return other ? other : err;
}

plim_err project_job_take_model(project_job *p, job_args *a, plim_error *error) {
  plim_error why = {0}, *into = error ? error : &why;
  if (!a->model &&
      (p->run.model.origin == PLIM_EXPLICIT || p->run.model.origin == PLIM_DEFAULTED)) {
    a->model = p->run.model.text;
    note_origin(p);
  }
  plim_err missing = find(p, a, &why);
  if (missing == PLIM_ERR_UNSUPPORTED) return *into = why, missing;
  plim_err err = plim_project_refuse_unmodelled(&p->project, error);
  if (!err && missing) *into = why;
  return err ? err : missing;
}
