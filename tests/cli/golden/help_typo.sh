$PLIMSOLL help repaly
