# The model's configuration is never overwritten; nor is the report.
echo '{"model_type": "gpt2"}' >config.json
$PLIMSOLL estimate --model config.json --html ./config.json; status=$?
cat config.json
$PLIMSOLL estimate --model gpt2 --svg -
exit $status
