$PLIMSOLL estimate --model gpt2 --gpu 24GiB --seq 128 --svg missing/a.svg
