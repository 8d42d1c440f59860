# What is no file to read says what it is instead.
$PLIMSOLL check .
$PLIMSOLL plan fixtures --gpu 24GiB
echo '{"cells": []}' >train.ipynb && $PLIMSOLL check train.ipynb
$PLIMSOLL check nowhere.yaml
