2N = 8
a = TrainingArguments(per_device_train_batch_size=N, save_steps=N)
