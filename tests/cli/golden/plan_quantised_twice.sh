# A checkpoint that is quantised already, and files that quantise: the checkpoint decides, or transformers refuses.
axolotl() { printf 'base_model: .\nsequence_len: 1024\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\nbf16: true\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_target_linear: true\ndatasets:\n  - path: a\n'; }
factory() { printf 'model_name_or_path: .\nstage: sft\nfinetuning_type: lora\ndataset: a\ntemplate: qwen\ncutoff_len: 1024\nper_device_train_batch_size: 1\nbf16: true\nquantization_bit: 4\n'; }
trl() { printf 'model_name_or_path: .\nuse_peft: true\nload_in_4bit: true\nper_device_train_batch_size: 1\nbf16: true\nmax_length: 512\n'; }
for method in '"fp8"' '"gptq","bits":4' '"bitsandbytes","load_in_8bit":true'; do
  printf '{"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":32000,"torch_dtype":"bfloat16","quantization_config":{"quant_method":%s}}\n' "$method" > config.json
  for of in axolotl factory trl; do
    echo "== $method $of"
    $of > run.yaml
    $PLIMSOLL plan run.yaml --gpu 24GiB --allow quantisation 2>&1 | sed -n '/^note: the checkpoint/,/^note/p; /^weights/p; /^quantisation/p' | grep -v '^note: [^t]'
  done
done
