// Changes the sharding strategy of a run, which several keys define together: sets the keys of the new strategy and
// removes those of the old one.
#ifndef PLIM_IO_PROJECT_SHARE_H
#define PLIM_IO_PROJECT_SHARE_H

#include "edit_set.h"
#include "key_names.h"
#include "knob_change.h"

typedef enum { PLIM_SHARE_PLAIN, PLIM_SHARE_ZERO, PLIM_SHARE_FSDP } plim_share_kind;

typedef struct {
  const char *strategy, *offload, *checkpoint; // knob values after the change
} plim_sharing_mode_text;

// Adds the edits that turn this strategy on and the present one off.
plim_err plim_project_share(const plim_project *p, const plim_sharing_mode_text *w,
                            plim_edit_set *out, plim_error *error);

plim_err plim_share_refuse(const plim_sharing_mode_text *w, const char *why, plim_error *error);
bool plim_share_offloads(const plim_sharing_mode_text *w, const char *what);
int plim_share_stage(const plim_sharing_mode_text *w); // 1 to 3; 0: not ZeRO

// The ecosystem's own setting for this strategy, such as Megatron's --use-distributed-optimizer; NULL: it is
// set through DeepSpeed or accelerate.
const char *plim_project_own_sharding(const plim_project *p, const char *strategy,
                                      const char *offload);

// ---- keys of a trainer (project_share_trainer.c) ----------------------------------------------------

// Makes the edit of `f` that sets `name` to `what`.
typedef plim_err plim_share_maker(const plim_project_file *f, const char *name, const void *what,
                                  plim_edit *edit, plim_error *error);
plim_share_maker plim_share_text;  // `what` is a text
plim_share_maker plim_share_value; // `what` is a plim_value
// Makes such an edit and adds it to the set.
plim_err plim_share_set(const plim_project *p, size_t file, plim_share_maker *make,
                        const char *name, const void *what, plim_edit_set *out, plim_error *error);
// Turns ZeRO or FSDP2 on in a trainer's file that has a key for it.
plim_err plim_share_add(const plim_project *p, const plim_sharing_mode_text *w,
                        plim_share_kind kind, plim_edit_set *out, plim_error *error);
extern const char *const plim_share_lacks[]; // the reason if there is no such file, by kind

// Whether the ecosystem passes deepspeed, fsdp and fsdp_config on to transformers' Trainer.
bool plim_share_is_trainer(plim_dialect dialect);

// ---- ZeRO (project_zero.c) ---------------------------------------------------------------------------

// Whether a change of offload concerns DeepSpeed's two device keys, in its own file or in accelerate's; and the edits
// that set both of them.
bool plim_project_takes_devices(const plim_project *p, const plim_knob_change *c);
plim_err plim_project_put_devices(const plim_project *p, const plim_knob_change *c,
                                  plim_edit_set *out, plim_error *error);
// If stage 3 is new: turns accelerate's zero3_init_flag on and removes device_map.
plim_err plim_project_suit_stage_3(const plim_project *p, plim_edit_set *out, plim_error *error);

// ---- configurations of several trainings (project_copies.c) -------------------------------------------

// Moves the edits of a file that other trainings use as well to a copy, which the training's own file then names.
plim_err plim_project_copy_shared(const plim_project *p, plim_edit_set *out, plim_error *error);

// ---- turning a strategy off (project_unshare.c) -----------------------------------------------------

// Whether a trainer's key is one of those to remove, or below one.
bool plim_share_is_key(const char *key);
// Whether the file has settings below the key `name`; `roof` is the full key.
bool plim_share_roof(const plim_project_file *f, const char *name, char roof[PLIM_KEY_BYTES]);

// Removes the keys of other kinds from the trainers' files. A DeepSpeed or FSDP file that is not referred to any more is
// added to out->unnamed.
plim_err plim_share_take_keys(const plim_project *p, plim_share_kind kind, plim_edit_set *out,
                              plim_error *error);
// Removes both blocks (DeepSpeed and FSDP) from accelerate's file.
plim_err plim_share_take_blocks(const plim_project *p, size_t file, plim_edit_set *out,
                                plim_error *error);

#endif
