$PLIMSOLL repaly
