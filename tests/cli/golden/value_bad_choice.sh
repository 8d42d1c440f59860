$PLIMSOLL version --color alwys
