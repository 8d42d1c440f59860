for topic in modles gpu stowage; do $PLIMSOLL help $topic; done
