// How GPUs share a run, as several keys say it together: what one way sets up, and what another leaves behind.
#ifndef PLIM_IO_PROJECT_SHARE_H
#define PLIM_IO_PROJECT_SHARE_H

#include "edit_set.h"
#include "key_names.h"
#include "knob_change.h"

typedef enum { PLIM_SHARE_PLAIN, PLIM_SHARE_ZERO, PLIM_SHARE_FSDP } plim_share_kind;

typedef struct {
  const char *strategy, *offload, *checkpoint; // as knobs say them, once all is changed
} plim_sharing_mode_text;

// Adds what makes the run share this way, and what takes the present way back.
plim_err plim_project_share(const plim_project *p, const plim_sharing_mode_text *w,
                            plim_edit_set *out, plim_error *error);

plim_err plim_share_refuse(const plim_sharing_mode_text *w, const char *why, plim_error *error);
bool plim_share_offloads(const plim_sharing_mode_text *w, const char *what);
int plim_share_stage(const plim_sharing_mode_text *w); // 1 to 3; 0: it is no ZeRO

// What turns this way to share on where the ecosystem has its own word for it, such as Megatron's
// --use-distributed-optimizer; NULL: DeepSpeed or accelerate do it.
const char *plim_project_own_sharding(const plim_project *p, const char *strategy);

// ---- keys of a trainer (project_share_trainer.c) ----------------------------------------------------

// An edit of `f` that says what it is told.
typedef plim_err plim_share_maker(const plim_project_file *f, const char *name, const void *what,
                                  plim_edit *edit, plim_error *error);
plim_share_maker plim_share_text;  // `what` is a text
plim_share_maker plim_share_value; // `what` is a plim_value
// Adds it to the edits so far.
plim_err plim_share_say(const plim_project *p, size_t file, plim_share_maker *make,
                        const char *name, const void *what, plim_edit_set *out, plim_error *error);
// ZeRO or FSDP2, where a trainer's file has a place for it.
plim_err plim_share_add(const plim_project *p, const plim_sharing_mode_text *w,
                        plim_share_kind kind, plim_edit_set *out, plim_error *error);
extern const char *const plim_share_lacks[]; // why there is none, by kind

// Whether the ecosystem hands deepspeed, fsdp and fsdp_config to transformers' Trainer.
bool plim_share_is_trainer(plim_dialect dialect);

// ---- ZeRO (project_zero.c) ---------------------------------------------------------------------------

// Whether a change of the offload is one of DeepSpeed's two devices, in its own file or in accelerate's; and both of
// them set as the change wants it.
bool plim_project_takes_devices(const plim_project *p, const plim_knob_change *c);
plim_err plim_project_put_devices(const plim_project *p, const plim_knob_change *c,
                                  plim_edit_set *out, plim_error *error);
// Where the third stage is new: accelerate's zero3_init_flag is on, and no device_map is left.
plim_err plim_project_suit_stage_3(const plim_project *p, plim_edit_set *out, plim_error *error);

// ---- the way back (project_unshare.c) ---------------------------------------------------------------

// Whether a key of a trainer is one of those that go, or below one.
bool plim_share_is_key(const char *key);
// Whether something stands below such a key; `roof` is the whole key.
bool plim_share_roof(const plim_project_file *f, const char *name, char roof[PLIM_KEY_BYTES]);

// Takes the keys of other kinds out of the trainers' files. A file of DeepSpeed's or FSDP's that is named no more is one of
// out->unnamed.
plim_err plim_share_take_keys(const plim_project *p, plim_share_kind kind, plim_edit_set *out,
                              plim_error *error);
// Takes both blocks out of accelerate's file.
plim_err plim_share_take_blocks(const plim_project *p, size_t file, plim_edit_set *out,
                                plim_error *error);

#endif
