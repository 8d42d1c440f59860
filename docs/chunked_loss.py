"""Cross entropy a few tokens at a time: the same loss and the same gradients as all at once, without all
logits in memory. For causal language models of transformers.

    from chunked_loss import use_chunked_loss

    model = AutoModelForCausalLM.from_pretrained(...)
    use_chunked_loss(model)  # before get_peft_model, Trainer, DDP or FSDP
"""

import types

import torch
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import CausalLMOutputWithPast


def adjusted(logits, config):
    """As the model's own head does: Gemma holds logits between bounds, Granite divides them, Cohere and Falcon-H1 multiply."""
    cap, divisor = (getattr(config, key, None) for key in ("final_logit_softcapping", "logits_scaling"))
    for key in ("logit_scale", "lm_head_multiplier"):
        if getattr(config, key, None) is not None:
            return logits * getattr(config, key)
    if divisor is not None:
        return logits / divisor
    return logits if cap is None else cap * torch.tanh(logits / cap)


def chunk_loss(hidden, weight, labels, config, bias=None):
    # Expressions: a variable would hold the logits while the loss is computed. Mamba 2's hidden states are float32.
    return cross_entropy(
        adjusted(hidden.to(weight.dtype) @ weight.t() if bias is None else linear(hidden.to(weight.dtype), weight, bias), config).float(),
        labels, reduction="sum")


def forward(self, input_ids=None, attention_mask=None, labels=None, num_items_in_batch=None, **kwargs):
    if labels is None:  # generation
        return self.forward_with_logits(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
    inner = self.base_model
    if inner is self:  # Llama 4: a causal model inside computes the logits
        if kwargs.get("pixel_values") is not None:
            raise ValueError("use_chunked_loss: this model's chunked loss is for texts without images")
        inner = getattr(self, "language_model", self).model
    hidden = inner(input_ids=input_ids, attention_mask=attention_mask, **kwargs)[0][:, :-1]
    hidden = hidden.reshape(-1, hidden.shape[-1])
    labels = labels[:, 1:].reshape(-1)
    head, config = self.get_output_embeddings(), getattr(self.config, "text_config", self.config)
    total = 0
    for i in range(0, hidden.shape[0], self.loss_chunk):
        rows = slice(i, i + self.loss_chunk)
        total = total + checkpoint(chunk_loss, hidden[rows], head.weight, labels[rows], config, head.bias, use_reentrant=False)
    if num_items_in_batch is None:
        num_items_in_batch = (labels != -100).sum()
    return CausalLMOutputWithPast(loss=total / num_items_in_batch)


def use_chunked_loss(model, chunk=512):
    """Replaces the forward of `model` while there are labels; `chunk`: tokens at a time."""
    model.loss_chunk = chunk
    model.forward_with_logits = model.forward
    model.forward = types.MethodType(forward, model)
    return model
