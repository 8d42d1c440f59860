#!/bin/bash
MORE=(--batch 57)
python -u train.py --run_name r1 --steps $D --lr "$B" --batch 27
