# Liger-Kernel where it is modelled, where it has other modules, and where it, or the trainer, has nothing for the model.
echo "== Gemma's norms and gated MLP"
for model in gemma-2b google/gemma-2-2b google/gemma-3-1b-it; do
  for more in '' '--liger --loss fused'; do
    $PLIMSOLL estimate -m $model --batch 2 --seq 1024 --amp bf16 --loop trainer $more --gpu 80GiB | grep -E '^FITS|^ a '
  done
done
factory() { printf 'model_name_or_path: %s\nstage: sft\nfinetuning_type: full\ndataset: a\ntemplate: a\ncutoff_len: 1024\nper_device_train_batch_size: 1\nbf16: true\n' "$1"; }
for model in stabilityai/stablelm-2-1_6b HuggingFaceTB/SmolLM3-3B allenai/OLMo-2-0425-1B; do
  echo "== $model"
  factory $model > run.yaml
  $PLIMSOLL plan run.yaml --gpu 8GiB 2>&1 | grep -E '^now|^\+enable_liger|DOES NOT FIT as'
  echo 'enable_liger_kernel: true' >> run.yaml
  $PLIMSOLL plan run.yaml --gpu 8GiB 2>&1 | grep -A1 -E '^now|^note.*Liger'
done
