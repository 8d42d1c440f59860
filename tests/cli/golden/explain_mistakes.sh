# Standard input that is empty, a file that does not exist, a folder, and an exit status that cannot be.
$PLIMSOLL explain </dev/null
echo "exit $?"
$PLIMSOLL explain nowhere.log 2>&1
echo "exit $?"
$PLIMSOLL explain fixtures 2>&1
echo "exit $?"
$PLIMSOLL explain fixtures/logs/killed.log --exit-status 300 2>&1
echo "exit $?"
printf "step 1 loss 2.0\\n" | $PLIMSOLL explain - --exit-status 137
echo "exit $?"
