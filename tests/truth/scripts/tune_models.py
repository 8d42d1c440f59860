"""Models of torchtune 0.7 and its loss in eight chunks, in the loop of full_finetune_single_device.py and
lora_finetune_single_device.py: eight layers, two passes per step. Prints a line for each row of tune_models.json: its id, what is
allocated when the model is built, and the peaks of allocated and reserved memory. TORCHTUNE is as for tune.py.

usage: TORCHTUNE=FOLDER plimsoll simulate --gpu h200 --steps 0 -- python tune_models.py [id ...]
"""

import json
import os
import sys

import torch

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tune_models.json")
LORA = {"lora_attn_modules": ["q_proj", "v_proj", "output_proj"], "apply_lora_to_mlp": True, "lora_rank": 8, "lora_alpha": 16}


def build(row):
    from torchtune.models.gemma._component_builders import gemma, lora_gemma
    from torchtune.models.llama3 import llama3, lora_llama3
    from torchtune.models.mistral import lora_mistral, mistral
    from torchtune.models.qwen2._component_builders import lora_qwen2, qwen2
    from torchtune.models.qwen3._component_builders import lora_qwen3, qwen3
    builders = {"gemma": (gemma, lora_gemma), "llama": (llama3, lora_llama3), "mistral": (mistral, lora_mistral),
                "qwen2": (qwen2, lora_qwen2), "qwen3": (qwen3, lora_qwen3)}
    c, has_adapters = row["config"], "lora" in row["case"]
    shape = {"vocab_size": c["vocab_size"], "num_layers": c["num_hidden_layers"], "num_heads": c["num_attention_heads"],
             "num_kv_heads": c["num_key_value_heads"], "embed_dim": c["hidden_size"], "intermediate_dim": c["intermediate_size"],
             "max_seq_len": c["max_position_embeddings"], "attn_dropout": 0.0}
    if "head_dim" in c:
        shape["head_dim"] = c["head_dim"]
    if c["model_type"] == "qwen3":
        shape |= {"q_proj_bias": False, "k_proj_bias": False, "v_proj_bias": False, "q_norm": True, "k_norm": True}
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = builders[c["model_type"]][has_adapters](**(LORA if has_adapters else {}), **shape)
    torch.set_default_dtype(torch.float32)
    return model


def train(row):
    from torchtune import modules
    from torchtune.modules.loss import LinearCrossEntropyLoss
    from torchtune.modules.peft import get_adapter_params, set_trainable_params
    from torchtune.training import scale_grads, set_activation_checkpointing
    case, model = row["case"], build(row)
    if "lora" in case:
        set_trainable_params(model, get_adapter_params(model))
    if case.get("fsdp_ckpt"):
        set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    built = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    loss_fn = LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    model.train()
    for _ in range(case["steps"]):
        num_tokens, running_loss = 0, 0
        for _ in range(case["accum"]):
            shape = (case["batch"], case["seq"])
            batch = {k: torch.randint(5, row["config"]["vocab_size"], shape).cuda() for k in ("tokens", "labels")}
            current = (batch["labels"] != loss_fn.ignore_index).sum()
            num_tokens += current
            labels = batch.pop("labels")
            outputs = model(**batch)
            loss = loss_fn(outputs, labels)
            del outputs
            loss = loss * current
            running_loss += loss
            loss.backward()
        scale_grads(model, 1 / num_tokens)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        running_loss.detach().item()
    stats = torch.cuda.memory_stats()
    print(row["id"], built, stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"], flush=True)


def main():
    with open(PLACE) as f:
        rows = json.load(f)
    for row in rows:
        if sys.argv[1:] and row["id"] not in sys.argv[1:]:
            continue
        child = os.fork()  # torchao initialises CUDA when it is imported
        if child:
            os.waitpid(child, 0)
            continue
        sys.path.insert(0, os.environ["TORCHTUNE"])
        train(row)
        os._exit(0)


if __name__ == "__main__":
    main()
