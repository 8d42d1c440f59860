// Models that huggingface_hub has downloaded to this machine.
#ifndef PLIM_IO_HUB_CACHE_H
#define PLIM_IO_HUB_CACHE_H

#include "text_file.h"

// The folder of the snapshot of a model id ("owner/name" or "name") that main stands for, or the only
// one there is. The cache is where huggingface_hub looks: HF_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub, the first that is set. False if the model
// is not there.
bool plim_hub_snapshot(const char *id, char folder[PLIM_PATH_BYTES]);

#endif
