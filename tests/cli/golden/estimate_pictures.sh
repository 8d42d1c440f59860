# Pictures are written completely, also of a run that does not fit, and never over the model or the report.
(
part pictures
# Pictures are written completely, and nothing else is written; also of a run that does not fit.
$PLIMSOLL estimate --model gpt2 --gpu 24GiB --seq 128 --svg a.svg --html a.html >/dev/null || exit
$PLIMSOLL estimate --model gpt2 --limit 1GiB --svg b.svg --json >/dev/null; status=$?
for file in a.svg b.svg; do head -c 38 $file; echo; tail -n 1 $file; done
head -c 15 a.html; echo; tail -n 1 a.html; ls
exit $status
) 2>&1 || echo "exit $?"
(
part picture_nowhere
$PLIMSOLL estimate --model gpt2 --gpu 24GiB --seq 128 --svg missing/a.svg
) 2>&1 || echo "exit $?"
(
part picture_over_model
# The model's configuration is never overwritten; nor is the report.
echo '{"model_type": "gpt2"}' >config.json
$PLIMSOLL estimate --model config.json --html ./config.json; status=$?
cat config.json
$PLIMSOLL estimate --model gpt2 --svg -
exit $status
) 2>&1 || echo "exit $?"
