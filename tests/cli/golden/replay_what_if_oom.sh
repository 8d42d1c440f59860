# A card that is too small: DOES NOT FIT, and where.
$PLIMSOLL replay truth/families/llama-bf16.pickle.xz --limit 2GiB --top 2
