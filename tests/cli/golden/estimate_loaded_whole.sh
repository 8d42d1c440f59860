# A shared model that is whole on each card while it is loaded: what does not fit, and what to do, on lines that fit.
$PLIMSOLL estimate -m llama-3.1-70b --world 8 --strategy zero3 --lora-rank 8 --gpu 80GiB --checkpoint | grep -v "^ [A-Za~]"
echo "-- the same, loaded in parts"
$PLIMSOLL estimate -m llama-3.1-70b --world 8 --strategy zero3 --lora-rank 8 --gpu 80GiB --checkpoint --load sharded | grep -E "FIT|help"
