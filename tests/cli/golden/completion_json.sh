$PLIMSOLL completion bash --json | sed "3s/: .*/: .../"
