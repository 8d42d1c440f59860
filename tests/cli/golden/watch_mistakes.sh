# What cannot be watched like that: exit 2.
source "$golden/../watching.sh"
for words in "--interval 0" "--interval nan" "--count 0" "--prometheus 0.0.0.0:9500" "--prometheus=example.com:1" \
  "--prometheus 70000" "--prometheus=x" "train.py"; do
  $PLIMSOLL watch --json --count 1 $words >/dev/null
  echo "exit $?" >&2
done
