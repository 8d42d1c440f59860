# The versions of libraries: typed, and what is wrong with them.
"$PLIMSOLL" estimate -m gpt2 -b 32 -s 256 --load init -g h200 --versions transformers=4.57,torch=2.11
"$PLIMSOLL" estimate -m gpt2 --versions transformers=4.30
"$PLIMSOLL" estimate -m gpt2 --versions transfomers=4.57
"$PLIMSOLL" estimate -m gpt2 --versions transformers
"$PLIMSOLL" estimate -m qwen3-0.6b --versions transformers=4.46
