# The loss does not fit at the first step: the batch, the chunked loss and the plan are suggested.
$PLIMSOLL explain fixtures/logs/real_shortage.log
