# Pictures are written whole, and nothing else is; also of a run that does not fit.
$PLIMSOLL estimate --model gpt2 --gpu 24GiB --seq 128 --svg a.svg --html a.html >/dev/null || exit
$PLIMSOLL estimate --model gpt2 --limit 1GiB --svg b.svg --json >/dev/null; status=$?
for file in a.svg b.svg; do head -c 38 $file; echo; tail -n 1 $file; done
head -c 15 a.html; echo; tail -n 1 a.html; ls
exit $status
