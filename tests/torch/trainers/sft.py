"""TRL's SFTTrainer, which saves a checkpoint every second step. The samples get longer after five steps."""
import torch
from datasets import Dataset
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
from tokenizers import Tokenizer, models, pre_tokenizers

(args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses(return_remaining_strings=True)[:1]
words = {f"w{i}": i for i in range(4000)}
raw = Tokenizer(models.WordLevel(words, unk_token="w0"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="w1", eos_token="w2")
model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, vocab_size=4000))
rows = [{"input_ids": [3 + k % 100 for k in range(1024 if i >= 16 * 5 else 64)]} for i in range(16 * 8)]


class InOrder(SFTTrainer):
    def _get_train_sampler(self, *args):
        return torch.utils.data.SequentialSampler(self.train_dataset)


trainer = InOrder(model=model, args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
trainer.train()
print("global step", trainer.state.global_step, "batch", args.per_device_train_batch_size, "x", args.gradient_accumulation_steps, flush=True)
