$PLIMSOLL replay truth/allocator/default.pickle.xz --svg a.out --html a.out
