"""Cross entropy a few tokens at a time: the same loss and the same gradients as all at once, without all
logits in memory. For causal language models of transformers.

    from chunked_loss import use_chunked_loss

    model = AutoModelForCausalLM.from_pretrained(...)
    use_chunked_loss(model)  # before get_peft_model, Trainer, DDP or FSDP
"""

import types

import torch
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import CausalLMOutputWithPast


def adjusted(logits, config):
    """As the model's own head does: Gemma holds logits between bounds, Granite divides them."""
    cap, divisor = (getattr(config, key, None) for key in ("final_logit_softcapping", "logits_scaling"))
    if divisor is not None:
        return logits / divisor
    return logits if cap is None else cap * torch.tanh(logits / cap)


def chunk_loss(hidden, weight, labels, config):
    return cross_entropy(adjusted(hidden @ weight.t(), config).float(), labels, reduction="sum")


def forward(self, input_ids=None, attention_mask=None, labels=None, num_items_in_batch=None, **kwargs):
    if labels is None:  # generation
        return self.forward_with_logits(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
    hidden = self.base_model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)[0][:, :-1]
    hidden = hidden.reshape(-1, hidden.shape[-1])
    labels = labels[:, 1:].reshape(-1)
    weight = self.get_output_embeddings().weight
    total = 0
    for i in range(0, hidden.shape[0], self.loss_chunk):
        rows = slice(i, i + self.loss_chunk)
        total = total + checkpoint(chunk_loss, hidden[rows], weight, labels[rows], self.config, use_reentrant=False)
    if num_items_in_batch is None:
        num_items_in_batch = (labels != -100).sum()
    return CausalLMOutputWithPast(loss=total / num_items_in_batch)


def use_chunked_loss(model, chunk=512):
    """Replaces the forward of `model` while there are labels; `chunk`: tokens at a time."""
    model.loss_chunk = chunk
    model.forward_with_logits = model.forward
    model.forward = types.MethodType(forward, model)
    return model
