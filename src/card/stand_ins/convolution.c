#include "convolution.h"

#include "card.h"

int64_t convolution_workspace(const cudnn_descriptor *operation) {
  (void)operation;
  card_unmodelled_call("convolution plans (install nvidia-cudnn for exact workspaces)");
  return 0;
}
