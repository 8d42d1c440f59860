# A recording that lost its beginning.
$PLIMSOLL replay truth/recorded/ring-train.pickle.xz --top 3
