# Each mistake is named, with what to type instead.
for mistake in "--model gpt2" "--model gpt2 --gpu 24GiB --try micro_bach=1" "--model gpt2 --gpu 24GiB --fix checkpoint=maybe" \
  "--model gpt2 --gpu 24GiB --effective-batch some" "--model gpt2 --gpu 24GiB --margin 2"; do
  $PLIMSOLL plan $mistake
  echo "exit $?" >&2
done
