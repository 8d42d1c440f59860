// Finds models that huggingface_hub has downloaded to this machine, and config.json files that plimsoll has.
#ifndef PLIM_IO_HUB_CACHE_H
#define PLIM_IO_HUB_CACHE_H

#include "text_file.h"

// The folder of a downloaded model ("owner/name" or "name"): the snapshot that refs/main points to, or the only snapshot.
// The cache folder is the one that huggingface_hub uses, the first of these that is set: HF_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. Returns false if the model is not in the cache.
bool plim_hub_snapshot(const char *id, char folder[PLIM_PATH_BYTES]);

// Whether it has the form of an id of the hub, "owner/name" or "name": safe as a part of a path and of a URL.
bool plim_hub_is_id(const char *text);

// Where plimsoll keeps the config.json of a model that --fetch downloads, whether or not it is there:
// XDG_CACHE_HOME/plimsoll/hub/models--owner--name/config.json, or below ~/.cache. Returns false if it is not an id, or if
// neither variable is a path.
bool plim_hub_kept(const char *id, char path[PLIM_PATH_BYTES]);
// Where huggingface_hub keeps the user's token: HF_TOKEN_PATH, HF_HOME/token, XDG_CACHE_HOME/huggingface/token or
// ~/.cache/huggingface/token.
bool plim_hub_token_path(char path[PLIM_PATH_BYTES]);

#endif
