# Logits of the whole evaluation, in a traceback that rich has drawn, with a wrapped message.
$PLIMSOLL explain fixtures/logs/evaluation.log
