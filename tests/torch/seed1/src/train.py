import hydra
import torch
from datasets import load_dataset
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainerCallback, TrainingArguments


class FinetuneTrainer(Trainer):
    pass


class CudaCacheCallback(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % 10 == 0:
            torch.cuda.empty_cache()


HANDLERS = {"FinetuneTrainer": FinetuneTrainer}


@hydra.main(version_base=None, config_path="../configs", config_name="train")
def main(config):
    arguments = TrainingArguments(**OmegaConf.to_container(config.trainer.args, resolve=True))
    tokenizer = AutoTokenizer.from_pretrained(config.model.name)
    model = AutoModelForCausalLM.from_pretrained(config.model.name, dtype=torch.bfloat16, **config.model.model_args)
    rows = load_dataset("json", data_files=config.data.file, split="train")
    rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=config.data.max_seq_length), remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    trainer = HANDLERS[config.trainer.handler](
        model=model, args=arguments, train_dataset=rows, data_collator=collator, callbacks=[CudaCacheCallback()]
    )
    trainer.train()


if __name__ == "__main__":
    main()
